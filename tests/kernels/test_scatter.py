"""How `scatter_add` divides its work, that its bits are the CPU's on any device, and what it reads.

The PTX run counts. A launch with 64 segments on 128 processors is divided as one with a segment on two.
"""

import functools
import itertools

import numpy as np
import pytest

from cudasim import devices, nvrtc
from cudasim.tally import counted
from gpuensemble._kernels.cpu import membership as cpu
from gpuensemble._kernels.cuda import scatter
from gpuensemble._kernels.cuda import source as sources
from support import check, membership, random_codes

needs_nvrtc = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing())

SHAPES = [(50, 500, 10), (50, 500, 50), (50, 1000, 20), (100, 2000, 50), (100, 10_000, 10), (100, 10_000, 50)]
SHARED = [48, 99, 163, 227]  # KB of a block: without asking, and of sm_86, sm_80 and sm_90
PAIR = 2  # processors for each segment
REPEAT = 32  # rows after which sectors begin in the same places again, at most
ROWS = 2 * REPEAT, 4 * REPEAT  # the difference is without the sums that are cleared and written


def same_bits(device, codes, widths, rows, segment_rows):
    """The sums are those of the CPU; returns the tiling."""
    here, there = membership(np, codes, widths), membership(device, codes, widths)
    given = device.asarray(rows)
    with counted() as found:
        sums = scatter.scatter_add(there, given, segment_rows)
    n_segments = -(-len(rows) // segment_rows)
    assert (found.launches, found.reads, found.up) == (1 if n_segments == 1 else 2, 0, 0)
    check(sums, cpu.scatter_add(here, rows, segment_rows), device, exact=True)
    return scatter.tiling_of(there, given, n_segments)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("segment_rows", "n_columns"), [(20, 3), (7, 19), (16, 40)])
def test_same_bits_in_segments(device, dtype, segment_rows, n_columns):
    rng = np.random.default_rng(segment_rows)
    widths = [3, 9, 2, 250, 4, 4, 5]
    rows = rng.standard_normal((50, n_columns)).astype(dtype)
    same_bits(device, random_codes(rng, 50, widths), widths, rows, segment_rows)


# widths, columns, processors, KB of shared memory, and what they make: partitions of a thread, threads, whether
# partitions share lines, whether there are several groups, several tiles
DIVIDED = {
    "a thread has one partition": ([3] * 8, 6, 1, 48, (1, 256, True, False, False)),
    "two": ([4] * 20, 16, 1, 48, (2, 256, False, False, False)),
    "four": ([4] * 36, 16, 1, 48, (4, 256, False, False, False)),
    "four, in larger blocks": ([3] * 36, 40, 1, 48, (4, 512, False, False, False)),
    "eight": ([1] * 70, 46, 1, 48, (8, 512, False, False, False)),
    "groups": ([400, 3, 380, 2, 390, 300], 4, 1, 48, (1, 256, True, True, False)),
    "tiles": ([30] * 24, 40, 1, 48, (1, 256, True, False, True)),
    "all of the shared memory of sm_90": ([7, 90, 33] * 12, 16, 1, 227, (4, 256, False, False, False)),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_same_bits_however_the_work_is_divided(device, name):
    widths, n_columns, processors, shared, expected = DIVIDED[name]
    rng = np.random.default_rng(len(widths))
    rows = rng.standard_normal((40, n_columns))
    with devices.with_attributes(processors=processors, shared=shared << 10):
        of = same_bits(device, random_codes(rng, 40, widths), widths, rows, 40)
    assert (of.each, of.threads, of.per > 1, of.n_groups > 1, of.n_tiles > 1) == expected
    assert (of.capacity * 8 > 48 << 10) == ("sm_90" in name)


def test_a_partition_that_is_too_large_is_summed_in_device_memory(device):
    widths = [3, 9000, 4, 2, 5, 3, 2]
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((40, 20))
    with devices.with_attributes(processors=1, shared=48 << 10):
        of = same_bits(device, random_codes(rng, 40, widths), widths, rows, 40)
    assert of.capacity < 9000 * of.pitch


# ------------------------------------------------------------------------------------------------ what is read


def table(n, shape, dtype, code):
    """A Membership of equal partitions whose codes have that type, and rows."""
    import cupy

    r, n_clusters, n_columns = shape
    codes = np.random.default_rng(2).integers(0, n_clusters // r, (n, r))
    m = membership(cupy, codes, [n_clusters // r] * r)
    m.codes = m.codes.astype(code)
    return m, cupy.asarray(np.random.default_rng(3).standard_normal((n, n_columns)).astype(dtype))


def per_row(launched, shape, dtype, code):
    """What a row more costs: sectors of codes and rows, wavefronts, and those if no two words met in a bank."""
    found = []
    for n in ROWS:
        sources._compiled.cache_clear()
        launched.clear()
        scatter.scatter_add(*table(n, shape, dtype, code), n)
        (kernel,) = launched
        read = sum(access.sectors for access in kernel.loads if access.argument_index in (0, 4))
        near = [(access.wavefronts, access.ideal_wavefronts) for access in kernel.shared_accesses]
        found.append((read, *np.sum(near, axis=0)))
    return (np.array(found[1]) - found[0]) / (ROWS[1] - ROWS[0])


def ideal(shape, size, code_size):
    """Sectors of a row, if all of it is read once."""
    r, _, n_columns = shape
    return (r * code_size + n_columns * size) / 32


@functools.cache
def needed(n, size, step):
    """The sectors of a row of n numbers that blocks need which have `step` neighbouring ones each."""
    place = np.arange(REPEAT * n).reshape(REPEAT, n) * size // 32
    return sum(len(set(place[:, at : at + step].ravel().tolist())) for at in range(0, n, step)) / REPEAT


def least(shape, size, code_size, shared):
    """The fewest sectors of a row that groups and tiles can need at all: all of shared memory has sums.

    Blocks with so many bytes of sums read, of each row, g times the entries and t times the codes, if there are g
    groups and t tiles. g * t is at least 2, so that two processors have a block each, and the sums of all fit.
    """
    r, n_clusters, n_columns = shape
    rows = {step: needed(n_columns, size, step) for step in range(1, n_columns + 1)}
    codes = {step: needed(r, code_size, step) for step in range(1, r + 1)}
    return min(
        -(-r // group) * rows[tile] + -(-n_columns // tile) * codes[group]
        for tile in rows
        for group in codes
        if (group < r or tile < n_columns) and group * (n_clusters // r) * tile * size <= shared
    )


# KB of shared memory from which on all is read within 1.5 times of once, although two processors share a segment
ONCE = {
    (50, 500, 50, "float64", "uint8"): 163,
    (50, 500, 50, "float64", "uint16"): 163,
    (50, 500, 50, "float32", "uint8"): 99,
    (50, 500, 50, "float32", "uint16"): 99,
    (50, 1000, 20, "float64", "uint8"): 99,
    (50, 1000, 20, "float64", "uint16"): 163,
    (100, 10_000, 10, "float32", "uint16"): 227,
}

TYPES = [(dtype, code) for dtype in ("float32", "float64") for code in ("uint8", "uint16")]


@needs_nvrtc
@pytest.mark.parametrize(
    ("shape", "dtype", "code"),
    [
        pytest.param(shape, *types, marks=() if j == i else pytest.mark.exhaustive, id=f"{shape}-{types}")
        for i, shape in enumerate(SHAPES)
        for j, types in enumerate(TYPES)
    ],
)
def test_few_more_sectors_than_any_tiling_needs(launched, shape, dtype, code):
    sizes = np.dtype(dtype).itemsize, np.dtype(code).itemsize
    for shared in SHARED:
        bound = max(ideal(shape, *sizes), least(shape, *sizes, shared << 10))
        with devices.with_attributes(processors=PAIR, shared=shared << 10):
            found, wavefronts, without_conflicts = per_row(launched, shape, dtype, code)
        assert found <= 1.5 * bound, shared
        assert wavefronts == without_conflicts
        if shared >= ONCE.get((*shape, dtype, code), np.inf):
            assert found <= 1.5 * ideal(shape, *sizes), shared


@needs_nvrtc
@pytest.mark.parametrize(
    "shape", [*SHAPES[:-1], pytest.param(SHAPES[-1], marks=pytest.mark.exhaustive)], ids=str
)  # the last one takes as long as the others
def test_the_table_of_the_kernel_is_what_is_counted(launched, shape):
    r, n_clusters, n_columns = shape
    line = f"// {r:>7} {n_clusters:>7,} {n_columns:>4} {ideal(shape, 8, 1):>7.1f}"
    for shared in SHARED:
        with devices.with_attributes(processors=PAIR, shared=shared << 10):
            found, wavefronts, _ = per_row(launched, shape, "float64", "uint8")
        line += f" {found:>8.1f} {wavefronts:>6,.0f}"
    assert line in sources.source("scatter.cu"), line


# ------------------------------------------------------------------------------------------------ the choice


def chosen(shape, size, code_size, n_segments, shared, processors):
    r, n_clusters, n_columns = shape
    widths = np.full(r, n_clusters // r, np.int64)
    return scatter._chosen(widths.tobytes(), n_columns, size, code_size, n_segments, shared << 10, processors)


@pytest.mark.parametrize("processors", [40, 58, 82, 108, 128, 132])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_processors_work_as_long_as_each_other(shape, processors):
    r, _, n_columns = shape
    for size, code_size, shared in itertools.product((4, 8), (1, 2), SHARED):
        of = chosen(shape, size, code_size, 64, shared, processors)
        n_blocks = 64 * of.n_groups * of.n_tiles
        turns = -(-of.group // of.per) * of.lanes * size // 128  # a row, of a block
        assert n_blocks >= processors
        assert -(-n_blocks // processors) * turns <= 1.1 * r * -(-n_columns * size // 128) * 64 / processors


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_segment_on_two_processors_is_divided_as_64_on_128(shape):
    for size, code_size, shared in itertools.product((4, 8), (1, 2), SHARED):
        assert chosen(shape, size, code_size, 1, shared, PAIR) == chosen(shape, size, code_size, 64, shared, 128)


@pytest.mark.parametrize("shape", [*SHAPES, (1, 7, 1), (3, 60_000, 2000), (2500, 5000, 3)], ids=str)
@pytest.mark.parametrize("n_segments", [1, 8, 64])
def test_blocks_fit_in_shared_memory_and_in_what_is_on_its_way(shape, n_segments):
    r, _, n_columns = shape
    for size, code_size, shared in itertools.product((4, 8), (1, 2, 4), SHARED):
        of = chosen(shape, size, code_size, n_segments, shared, 128)
        assert (of.capacity + of.threads) * size + 2048 + 4096 <= shared << 10
        bundles = -(-of.group // of.per)
        assert -(-bundles // of.each) * of.lanes <= of.threads
        assert ((of.chunk - 1) * r + of.group) * code_size + 32 <= 2048
        assert ((of.chunk - 1) * n_columns + of.tile) * size + 32 <= 4096
        assert of.per == 1 or (of.per * of.tile <= of.pitch and of.pitch & (of.pitch - 1) == 0)
        assert of.per * of.tile <= of.lanes
        assert of.n_groups * of.group >= r
        assert of.n_tiles * of.tile >= n_columns


def test_a_partition_in_device_memory_takes_few_others_with_it():
    widths = np.array([10] * 60 + [50_000] + [10] * 39)
    of = scatter._chosen(widths.astype(np.int64).tobytes(), 50, 8, 1, 64, 99 << 10, 128)
    assert of.capacity == 10 * of.pitch * -(-of.group // of.per)
    assert -(-of.group // of.per) <= 2  # partitions of its slot


def test_partitions_that_only_fit_in_narrow_tiles_are_in_shared_memory():
    of = chosen((20, 20 * 1500, 50), 8, 2, 8, 48, 128)
    assert of.capacity >= 1500 * of.tile
    assert of.tile < 16
