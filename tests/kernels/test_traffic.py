"""What the kernels on rows move, counted where the PTX that NVRTC makes of them runs; there are no caches."""

import numpy as np
import pytest

from cudasim import nvrtc
from gpuensemble._kernels import kmeans
from gpuensemble._kernels.cuda import membership as cuda
from support import membership, random_codes

pytestmark = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing())


def sectors(accesses, argument):
    """How many sectors of one argument were touched."""
    return sum(access.sectors for access in accesses if access.argument_index == argument)


def ensemble(n, widths, holes=0.0):
    """A Membership on the stand-in, and its codes."""
    import cupy

    codes = random_codes(np.random.default_rng(2), n, widths, holes)
    return membership(cupy, codes, widths)


def array(*shape, dtype="float64"):
    """Random numbers on the stand-in."""
    import cupy

    return cupy.asarray(np.random.default_rng(3).standard_normal(shape).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_columns", [5, 10, 32, 50, 100])
def test_assign_reads_the_table_in_whole_sectors(launched, dtype, n_columns):
    m, table = ensemble(40, [6] * 10), array(60, n_columns, dtype=dtype)
    m.assign(table)
    gathers = [load for load in launched[0].loads if load.argument_index == 4]
    found = sum(load.sectors for load in gathers)
    assert 0 < found <= 1.25 * sum(load.ideal_sectors for load in gathers)
    # The ideal above takes runs of addresses as they are; this bound sees rows read by scattered lanes, too.
    assert found <= m.codes.size * -(-n_columns * table.itemsize // 32)


def counts(n, widths, n_clusters):
    """Count so many rows, with random labels."""
    import cupy

    labels = cupy.asarray(np.random.default_rng(4).integers(0, n_clusters, n).astype("int32"))
    cuda.count(ensemble(n, widths), labels, None, n_clusters)


@pytest.mark.parametrize(("n", "width"), [(100, 10), (2000, 10), (2000, 60)])
def test_blocks_of_count_add_up_a_quarter_of_what_they_count(launched, n, width):
    counts(n, [width] * 20, 10)
    (kernel,) = launched
    added = sum(access.requested_bytes for access in kernel.atomics) // 8
    once = 20 * width * 10  # a single block for each group
    assert 0 < added <= max(once, n * 20 / cuda.WORTH)


def test_count_has_blocks_where_the_labels_are_worth_them():
    cells = np.full(50, 100)
    blocks = [cuda._count_grid(n, cells, 50, 12288)[0] for n in (1, 1_000, 10_000, 100_000, 10**8)]
    assert blocks == [1, 2, 25, 250, cuda.COUNT_BLOCKS]
    alone = np.full(100, 20_000)  # too many for shared memory: nothing to clear, nothing to add up
    assert cuda._count_grid(10_000, alone, 1, 12288)[0] == -(-cuda.COUNT_BLOCKS // 100)


@pytest.mark.parametrize("n_columns", [10, 20, 50])
def test_a_table_in_shared_memory_is_read_once_for_many_rows(launched, monkeypatch, n_columns):
    m, table = ensemble(256, [6] * 10), array(60, n_columns)
    for name in ("CACHE", "FULL"):
        monkeypatch.setattr(cuda, name, 0)
    _, rows = cuda._staging(m, table, cuda.pitch_of(n_columns, 8), True)
    cuda.assign(m, table, table[:1], None)
    (kernel,) = launched
    once = 60 * cuda.pitch_of(n_columns, 8) * 8 // 32
    assert 0 < sectors(kernel.loads, 4) <= -(-256 // rows) * once < m.codes.size * once // 60 // cuda.REUSE


@pytest.mark.parametrize(
    ("n", "widths", "n_columns", "pays"),
    [
        (10**5, [20] * 50, 50, True),
        (10**5, [100] * 100, 10, True),
        (10**5, [10] * 50, 10, False),  # in the first cache
        (10**5, [100] * 100, 50, False),  # a block has fewer rows than a partition clusters
        (10**3, [20] * 50, 50, False),  # too few rows for many blocks
        (10**5, [2000] * 2, 20, False),  # a partition too large for shared memory
        (10**5, [20] * 50, 200, False),  # more columns than lanes have registers for
    ],
)
def test_a_table_goes_to_shared_memory_where_it_pays(launched, n, widths, n_columns, pays):
    import cupy

    m = membership(cupy, np.zeros((n, len(widths)), int), widths)
    table = cupy.zeros((sum(widths), n_columns))
    assert (cuda._staging(m, table, cuda.pitch_of(n_columns, 8), True)[1] > 0) == pays


@pytest.mark.parametrize("seed", range(40))
def test_cells_of_a_group_fit_unless_one_partition_has_too_many(seed):
    rng = np.random.default_rng(seed)
    cells, capacity = rng.integers(1, rng.integers(3, 60), rng.integers(1, 90)), 50
    size = cuda._group(cells, capacity, 30)
    assert 1 <= size <= 30
    for at in range(0, len(cells), size):
        some = cells[at : at + size]
        assert some.sum() <= capacity or some.max() > capacity


def relabelled(launched, m, table, decides=True):
    """Sectors of the whole table and of that in 16 bits, which may decide nothing, that `relabel` reads."""
    import cupy

    n, n_clusters = len(m.codes), table.shape[1]
    edges, none, parts = cupy.asarray(np.array([1.0, 2.0])), cupy.empty(0, "int64"), cupy.zeros((1, n_clusters))
    drift = kmeans.Drift(edges, *kmeans.drift(None, table, (None, parts), m.offsets, True, edges, 4.0))
    *ready, in_short = kmeans.prepared(table, parts, m.offsets, True, 1.0)
    in_short = in_short if decides else in_short._replace(facts=0 * in_short.facts)
    rows = kmeans.RowFacts(cupy.ones(1, "int64"), cupy.ones(n), none, none, 0, 0)
    state = kmeans.State(cupy.zeros(n, "int32"), cupy.zeros(n, "float32"), cupy.full(n, kmeans.NEW, "uint8"))
    kmeans.relabel(m, (*ready, in_short), rows, state, drift, n_clusters, True)
    (kernel,) = (kernel for kernel in launched if "relabel" in kernel.name)
    return sectors(kernel.loads, 4), sectors(kernel.loads, 9)


@pytest.mark.parametrize("n_columns", [5, 10, 20, 32, 40, 50, 64, 70, 100, 200])
def test_rows_that_16_bits_decide_read_a_third_of_the_sectors(launched, n_columns):
    m, table = ensemble(64, [20] * 40), array(800, n_columns)
    table[:, 0] -= 1.0  # a cluster that is far below the others
    of_row, of_whole_row = -(-2 * n_columns // 32), -(-8 * n_columns // 32)
    read, in_short = relabelled(launched, m, table)
    assert read == 0 < in_short <= m.codes.size * of_row  # rows of a warp that are in one cluster share what they read
    whole, read = relabelled(launched, m, table, decides=False)
    assert read == 0 < whole <= m.codes.size * of_whole_row
    assert in_short * of_whole_row <= whole * of_row


def test_only_rows_that_16_bits_leave_open_read_the_whole_table(launched):
    import cupy

    codes = np.zeros((64, 40), int)
    codes[::8] = 1  # rows whose clusters all cost the same
    m, table = membership(cupy, codes, [2] * 40), array(80, 50)
    table[:, 0] -= 1.0
    table[1::2] = 0.0
    whole, in_short = relabelled(launched, m, table)
    assert whole == 8 * 40 * 13
    assert 0 < in_short <= 64 * 40 * 4
