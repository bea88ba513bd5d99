"""The same bits: the Numba kernels, the CUDA kernels run on the CPU, and the PTX that NVRTC makes of them.

All CUDA kernels are launched by gpuensemble/_kernels/cuda itself, with grids smaller than the work.
"""

from functools import partial
from itertools import islice

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from cudasim import nvrtc, standin
from cudasim.ptx import PtxModule
from cudasim.shim import ShimModule, gxx
from cudasim.tally import counted
from gpuensemble import Membership
from gpuensemble._array.devices import to_host
from gpuensemble._kernels import products
from gpuensemble._kernels.cpu import lta as cpu_lta
from gpuensemble._kernels.cpu import membership as cpu
from gpuensemble._kernels.cpu import slices as cpu_slices
from gpuensemble._kernels.cpu.slices import pairs as cpu_pairs
from gpuensemble._kernels.cuda import lta as cuda_lta
from gpuensemble._kernels.cuda import membership as cuda
from gpuensemble._kernels.cuda import slices as cuda_slices
from gpuensemble._kernels.cuda import source
from gpuensemble._linear import thresholding
from gpuensemble.estimators.lta import solver
from support import check, dealt, membership, onehot, oracle_assign, problems, random_codes


class Ptx(PtxModule):
    """The dialect of PTX that NVRTC emits up to sm_90."""


class Ptx120(PtxModule):
    """The dialect from sm_100 on."""

    arch = "compute_120"


ENGINES = {
    "CPU": partial(ShimModule, checked=True),
    "CPU in reverse order": partial(ShimModule, checked=True, order="reverse"),
    "PTX": Ptx,
    "PTX of sm_120": Ptx120,
}
DIALECT = pytest.param("PTX of sm_120", marks=pytest.mark.exhaustive)
USUAL = [*(name for name in ENGINES if name != "PTX of sm_120"), DIALECT]
fixtures = {"suppress_health_check": [HealthCheck.function_scoped_fixture]}


def _installed(name, monkeypatch):
    if name.startswith("PTX") and nvrtc.missing():
        pytest.skip(nvrtc.missing())
    if name.startswith("CPU") and gxx() is None:
        pytest.skip("g++ is not installed")
    monkeypatch.setattr(source, "MAX_BLOCKS", 3)
    return standin.installed(ENGINES[name])


@pytest.fixture(params=["CPU", "CPU in reverse order"])
def on_cpu(request, monkeypatch):
    with _installed(request.param, monkeypatch) as module:
        yield module


@pytest.fixture(params=["PTX", DIALECT])
def on_ptx(request, monkeypatch):
    with _installed(request.param, monkeypatch) as module:
        yield module


@pytest.fixture(params=USUAL)
def device(request, monkeypatch):
    with _installed(request.param, monkeypatch) as module:
        yield module


def assert_same_bits(device, codes, widths, table, per_partition, weight):
    """Every kernel on the device against its twin; `assign` also against its definition."""
    here, there = membership(np, codes, widths), membership(device, codes, widths)
    finite = np.where(np.isinf(table), table.dtype.type(0), table)
    rng = np.random.default_rng(len(codes))
    rows = rng.standard_normal((len(codes), table.shape[1])).astype(table.dtype)
    labels = rng.integers(0, table.shape[1], len(codes))
    multiplicity = rng.integers(0, 2**40, len(codes))
    expected = oracle_assign(codes, widths, table, per_partition, weight)
    for one, two, three in zip(
        here.assign(table, per_partition, weight),
        there.assign(*map(device.asarray, (table, per_partition, weight))),
        expected,
        strict=True,
    ):
        check(one, three, np, exact=True)
        check(two, three, device, exact=True)
    for one, two in zip(here.assign(table), there.assign(device.asarray(table)), strict=True):
        check(two, one, device, exact=True)
    assert_seconds(device, here, there, table)
    check(there.gather_sum(device.asarray(finite)), here.gather_sum(finite), device, exact=True)
    check(there.scatter_add(device.asarray(rows)), here.scatter_add(rows), device, exact=True)
    for given_weight in (None, multiplicity):
        on_device = None if given_weight is None else device.asarray(given_weight)
        counted = there.count(device.asarray(labels), table.shape[1], on_device)
        check(counted, here.count(labels, table.shape[1], given_weight), device, exact=True)
        check(there.degrees(on_device), here.degrees(given_weight), device, exact=True)
    assert_masses(device, here, there, labels.astype("int32"), multiplicity, table.shape[1])
    for missing in ("ignore", "signed"):
        block = slice(len(codes) // 3, None)
        check(there.coassociation(block, missing), here.coassociation(block, missing), device, exact=True)


def assert_masses(device, here, there, labels, mass, n_clusters):
    """Counts and masses in one call."""
    counts, masses = cpu.count_masses(here, labels, None, mass, n_clusters)
    ends = np.cumsum(here.widths)
    check(counts, here.count(labels, n_clusters), np, exact=True)
    check(masses, np.add.reduceat(here.count(labels, n_clusters, mass), ends - here.widths, axis=0), np, exact=True)
    found = cuda.count_masses(there, device.asarray(labels), None, device.asarray(mass), n_clusters)
    for one, two in zip((counts, masses), found, strict=True):
        check(two, one, device, exact=True)


def assert_seconds(device, here, there, table):
    """The cost of the runner-up, which the kernels give as well."""
    nothing = np.zeros((1, table.shape[1]), table.dtype)
    *_, one = cpu.assign(here, table, nothing, None)
    *_, two = cuda.assign(there, device.asarray(table), device.asarray(nothing), None)
    check(two, one, device, exact=True)
    offsets = np.concatenate([[0], np.cumsum(here.widths)])
    codes = np.where(here.codes == np.array(-1).astype(here.codes.dtype), -1, here.codes.astype(int))
    costs = np.zeros((len(codes), table.shape[1] + 1), table.dtype)
    costs[:, -1] = np.inf
    for i in range(codes.shape[1]):
        seen = codes[:, i] >= 0
        costs[seen, :-1] += table[offsets[i] + codes[seen, i]]
    check(one, np.sort(costs, axis=1)[:, 1], np, exact=True)


@given(problem=problems())
@settings(max_examples=25, **fixtures)
def test_cuda_on_the_cpu_has_the_bits_of_numba(on_cpu, problem):
    assert_same_bits(on_cpu, *problem)


@given(problem=problems(max_n=12, columns=(1, 5, 33)))
@settings(max_examples=5, **fixtures)
def test_ptx_has_the_bits_of_numba(on_ptx, problem):
    assert_same_bits(on_ptx, *problem)


def assert_same_assignment(device, codes, widths, table, per_partition, weight, monkeypatch):
    """The table through shared memory, against its definition and against the kernel that reads it from the cache."""
    there = membership(device, codes, widths)
    given = [device.asarray(x) for x in (table, per_partition, weight)]
    expected = cuda.assign(there, *given)
    for name in ("CACHE", "REUSE", "FULL"):
        monkeypatch.setattr(cuda, name, 0)
    found, alone = cuda.assign(there, *given), cuda.assign(there, given[0], given[1][:1], None)
    monkeypatch.undo()
    check(found[0], oracle_assign(codes, widths, table, per_partition, weight)[0], device)
    for one, two in zip(found, expected, strict=True):
        check(one, to_host(two), device, exact=True)
    for one, two in zip(alone, cuda.assign(there, given[0], given[1][:1], None), strict=True):
        check(one, to_host(two), device, exact=True)


@given(problem=problems(columns=(1, 13, 70)))
@settings(max_examples=25, **fixtures)
def test_a_table_in_shared_memory_gives_the_same_bits(on_cpu, problem):
    with pytest.MonkeyPatch.context() as patch:
        assert_same_assignment(on_cpu, *problem, patch)


@given(problem=problems(max_n=12, columns=(5, 33)))
@settings(max_examples=5, **fixtures)
def test_ptx_of_a_table_in_shared_memory_gives_the_same_bits(on_ptx, problem):
    with pytest.MonkeyPatch.context() as patch:
        assert_same_assignment(on_ptx, *problem, patch)


# name: n, widths, K, share of holes
EXTREMES = {
    "one row": (1, [2, 3], 4, 0),
    "one partition": (30, [6], 5, 0),
    "partitions of one cluster": (10, [1, 1, 1], 3, 0.3),
    "K = 1": (20, [3, 4, 5], 1, 0.3),
    "K = 32": (9, [3, 4, 5], 32, 0.3),
    "K > 32": (9, [3, 4, 5], 41, 0.3),
    "K > 64": (9, [3, 4, 5], 100, 0.3),
    "K > 1024": (5, [3, 4], 1030, 0.3),
    "more partitions than threads in a block": (4, [2] * 300, 3, 0.3),
    "C > 65535": (8, [70000, 3], 2, 0.3),
    "counts that do not fit into shared memory": (40, [3, 300, 2, 2], 50, 0.3),
    "sums that do not fit into shared memory": (40, [3, 400], 9, 0.3),
}


@pytest.mark.parametrize(("name", "dtype"), dealt(EXTREMES, ["float32", "float64"]))
def test_extreme_sizes_have_the_same_bits(device, name, dtype):
    n, widths, n_columns, holes = EXTREMES[name]
    rng = np.random.default_rng(5)
    table, per_partition = (rng.standard_normal((size, n_columns)).astype(dtype) for size in (sum(widths), len(widths)))
    weight = rng.random(n).astype(dtype)
    assert_same_bits(device, random_codes(rng, n, widths, holes), np.array(widths), table, per_partition, weight)


def test_ties_go_to_the_lowest_index(device):
    codes = random_codes(np.random.default_rng(0), 20, [3, 4])
    labels, costs = membership(device, codes, [3, 4]).assign(device.zeros((7, 100)))
    assert to_host(labels).tolist() == [0] * 20
    assert to_host(costs).tolist() == [0.0] * 20


def test_a_sum_that_overflows_to_nan_counts_as_infinite(device):
    huge = np.finfo("float64").max
    table, per_partition = np.array([[huge, huge]] * 2), np.array([[-huge, 0.0]] * 2)
    arguments = (table, per_partition, np.array([2.0]))
    with np.errstate(all="ignore"):
        here = Membership([[0, 0]], [1, 1], device="cpu").assign(*arguments)
        there = membership(device, np.array([[0, 0]]), [1, 1]).assign(*map(device.asarray, arguments))
    for one, two in zip(here, there, strict=True):
        check(two, one, device, exact=True)
    assert here[1].tolist() == [np.inf]


def test_float32_flushes_subnormal_sums_on_a_device(on_ptx):
    tiny = np.finfo(np.float32).tiny
    table = np.array([[1.5 * tiny, tiny / 2], [-tiny, tiny]], np.float32)
    sums = membership(on_ptx, np.array([[0, 0]]), [1, 1]).gather_sum(on_ptx.asarray(table))
    assert to_host(sums).tolist() == [[0, tiny]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 5, 32, 45])
def test_lta_has_the_same_bits(device, n, dtype):
    rng = np.random.default_rng(n)
    similarity = rng.integers(0, 4, (n, n)) / 3
    arrays = [rng.normal(0.5, 1, (2, n, n)), np.maximum(similarity, similarity.T), *rng.normal(0, 0.3, (3, n, n))]
    here = [array.astype(dtype) for array in arrays]
    there = [device.asarray(array) for array in here]
    for step in islice(solver.steps(0.002), 60, 62):
        largest = cpu_lta.lta_update(*here, step).max()
        assert float(cuda_lta.lta_update(*there, step).max()) == largest
    for one, two in zip(here, there, strict=True):
        check(two, one, device, exact=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "n"), [(2, 2), (7, 7), (40, 40), (19, 8)])
def test_slices_of_two_have_the_same_bits(device, m, n, dtype):
    rng, half = np.random.default_rng(n), n // 2 + 1
    tensor = rng.standard_normal((2, m, n)).astype(dtype)
    spectrum = np.empty((2, m, half), np.result_type(dtype, "complex64"))
    basis = rng.standard_normal((2, half)) + 1j * rng.standard_normal((2, half))
    factor = rng.standard_normal((4, half)).astype(dtype)
    on_device = tuple(device.asarray(array) for array in (tensor, spectrum, basis))
    sums = cpu_pairs.pair_spectrum(tensor, spectrum, basis)
    check(cuda_slices.pair_spectrum(*on_device), sums, device, exact=True)
    check(on_device[1], spectrum, device, exact=True)
    cpu_pairs.pair_tensor(spectrum, factor, tensor)
    cuda_slices.pair_tensor(on_device[1], device.asarray(factor), on_device[0])
    check(on_device[1], spectrum, device, exact=True)
    check(on_device[0], tensor, device, exact=True)


def defined_changes(codes, widths, rows, old, new, amount, n_clusters):
    """What `count_moves` and `count_moved_masses` are: differences of dense products."""
    some = np.zeros(len(codes), bool)
    some[slice(None) if rows is None else rows] = True
    change = (np.eye(n_clusters, dtype=int)[new] - np.eye(n_clusters, dtype=int)[old]) * (amount * some)[:, None]
    return onehot(codes, widths).T.astype(int) @ change, (codes >= 0).T.astype(int) @ change


@pytest.mark.parametrize("holes", [0, 0.4])
@pytest.mark.parametrize(
    "widths", [[3, 2, 4], [2] * 300, [700, 3], [99, 1, 1, 99, 99]], ids=["few", "many", "wide", "uneven"]
)
def test_changes_of_counts_are_those_of_two_counts(device, widths, holes):
    rng = np.random.default_rng(len(widths))
    n, n_clusters = 60, 20
    codes = random_codes(rng, n, widths, holes)
    old = rng.integers(0, n_clusters, n).astype("int32")
    new = np.where(rng.random(n) < 0.5, old, rng.integers(0, n_clusters, n)).astype("int32")
    mass, weight = rng.integers(0, 2**40, (2, n))
    here, there = membership(np, codes, widths), membership(device, codes, widths)
    on_device = [device.asarray(x) for x in (old, new, weight, mass)]
    for rows in (None, np.flatnonzero(rng.random(n) < 0.7), np.flatnonzero(old == new)):
        index = None if rows is None else device.asarray(rows)
        counts, _ = defined_changes(codes, widths, rows, old, new, weight, n_clusters)
        plain, _ = defined_changes(codes, widths, rows, old, new, 1, n_clusters)
        _, masses = defined_changes(codes, widths, rows, old, new, mass, n_clusters)
        check(products.count_moves(here, rows, old, new, None, n_clusters), plain, np)
        check(products.count_moves(there, index, *on_device[:2], None, n_clusters), plain, device)
        check(products.count_moves(there, index, *on_device[:3], n_clusters), counts, device)
        for one, two, three in zip(
            products.count_moved_masses(here, rows, old, new, weight, mass, n_clusters),
            products.count_moved_masses(there, index, *on_device, n_clusters),
            (counts, masses),
            strict=True,
        ):
            check(one, three, np)
            check(two, three, device)


@pytest.mark.parametrize("n_columns", [1, 8, 10])
def test_a_table_whose_rows_start_on_sectors_is_not_copied(device, n_columns):
    rng = np.random.default_rng(9)
    m = membership(device, random_codes(rng, 30, [3, 2, 4]), [3, 2, 4])
    padded = device.asarray(np.full((9, cuda.pitch_of(n_columns, 8)), np.nan))
    padded[:, :n_columns] = table = device.asarray(rng.standard_normal((9, n_columns)))
    view, parts = padded[:, :n_columns], table[:1]  # of a single row no second one has to be found
    with counted() as found:
        sums, assigned = cuda.gather_sum(m, view), cuda.assign(m, view, parts, None)
    assert (found.launches, found.kernels) == (2, 2)
    check(sums, to_host(cuda.gather_sum(m, table)), device, exact=True)
    for one, two in zip(assigned, cuda.assign(m, table, table[:1], None), strict=True):
        check(one, to_host(two), device, exact=True)


def test_counts_take_two_launches_and_no_upload(device):
    rng = np.random.default_rng(8)
    m = membership(device, random_codes(rng, 60, [3, 2, 4]), [3, 2, 4])
    old, new = (device.asarray(rng.integers(0, 5, 60).astype("int32")) for _ in range(2))
    mass = device.asarray(rng.integers(0, 9, 60))
    for call in (
        lambda: cuda.count(m, new, None, 5),
        lambda: cuda.count_masses(m, new, None, mass, 5),
        lambda: products.count_moves(m, None, old, new, None, 5),
        lambda: products.count_moved_masses(m, None, old, new, mass, mass, 5),
    ):
        with counted() as found:
            call()
        assert (found.launches, found.kernels, found.reads, found.up) == (2, 1, 0, 0)


# ------------------------------------------------------------------------------------------------ slices


def slices(rng, shape, dtype):
    """Random slices, V on the middle axis: the first is zero, and others have singular values down to 1e-12."""
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    x[0] = 0
    x[1::2] *= np.logspace(0, -12, shape[1])[:, None]
    return x.astype(dtype)


LAYOUTS = {
    "V x n": lambda xp, x: xp.asarray(x),
    "n x V": lambda xp, x: xp.asarray(np.ascontiguousarray(x.swapaxes(1, 2))).swapaxes(1, 2),
    "V x F x n": lambda xp, x: xp.asarray(np.ascontiguousarray(x.swapaxes(0, 1))).swapaxes(0, 1),
}


def assert_same_slices(device, x, tau, weights=None, layout="V x n", mirrored=False):
    here, there = (LAYOUTS[layout](xp, x.copy()) for xp in (np, device))
    thresholding.shrink_slices(here, tau, weights, mirrored)
    thresholding.shrink_slices(there, tau, None if weights is None else device.asarray(weights), mirrored)
    check(there, np.ascontiguousarray(here), device, exact=True)
    return here


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n_rows", range(2, 9))
def test_shrink_slices_has_the_bits_of_numba(on_cpu, n_rows, dtype):
    rng = np.random.default_rng(n_rows)
    x = slices(rng, (5, n_rows, 150), dtype)
    for layout, tau in zip(LAYOUTS, (0.0, 1e-7, 4.0), strict=True):
        assert_same_slices(on_cpu, x, tau, rng.random(n_rows) if tau else None, layout)
    if n_rows < 5:
        assert_same_slices(on_cpu, x[:, :, :20].copy(), 1.0, mirrored=True)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("n_rows", "length", "tau"), [(2, 130, 1e-9), (2, 1, 0.5), (3, 40, 3.0), (8, 9, 1e-5)])
def test_ptx_of_shrink_slices_has_the_bits_of_numba(on_ptx, n_rows, length, tau, dtype):
    x = slices(np.random.default_rng(1), (4, n_rows, length), dtype)
    assert_same_slices(on_ptx, x, tau, layout="n x V")
    if n_rows == 2:
        assert_same_slices(on_ptx, x, tau, mirrored=True)


def test_shrink_slices_reads_whole_sectors(monkeypatch):
    launched = []

    class Recorded(PtxModule):
        def get_function(self, expression):
            launched.append(super().get_function(expression))
            return launched[-1]

    monkeypatch.setitem(ENGINES, "PTX recorded", Recorded)
    x = slices(np.random.default_rng(2), (2, 2, 256), "complex128")
    x[1] = x[1, :, ::-1]
    for layout in ("V x n", "n x V"):
        with _installed("PTX recorded", monkeypatch) as device:
            source._compiled.cache_clear()
            thresholding.shrink_slices(LAYOUTS[layout](device, x[:1]), 1.0)
        loads = [load for load in launched[-1].loads if load.argument_index == 0]
        # Twice: for the sums, and for the product.
        passes = 2 if layout == "V x n" else 4  # rows apart by one number share their sectors, through the L1 cache
        assert sum(load.requested_bytes for load in loads) == 2 * x[:1].nbytes
        assert sum(load.sectors for load in loads) == passes * x[:1].nbytes // 32


# ------------------------------------------------------------------------------------------------ orthogonal rows


def rows(rng, shape, dtype):
    """Random rows: of the first slice all are zero, and those of others have lengths down to 1e-12."""
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    x[0] = 0
    x[1::2] *= np.logspace(0, -12, shape[1])[:, None]
    return (x if dtype.startswith("c") else x.real).astype(dtype)


def assert_same_rows(device, shape, dtype):
    """All slices but the last are worked on."""
    x = rows(np.random.default_rng(3), shape, dtype)
    turns = np.tile(np.eye(shape[1], dtype=dtype), (shape[0], 1, 1))
    wanted = np.arange(shape[0]) < max(1, shape[0] - 1)
    before, eps = x.copy(), float(np.finfo(dtype).eps)
    on_device = tuple(device.asarray(array) for array in (x, turns, wanted))
    cuda_slices.orthogonalise(*on_device, 8 * eps, 8 * eps)
    cpu_slices.orthogonalise(x, turns, wanted, 8 * eps, 8 * eps)
    check(on_device[0], x, device, exact=True)
    check(on_device[1], turns, device, exact=True)
    assert (x[~wanted] == before[~wanted]).all()
    np.testing.assert_allclose(turns.conj().swapaxes(1, 2) @ x, before, atol=1000 * eps)
    gram = abs(x @ x.conj().swapaxes(1, 2))[wanted]
    assert (gram * (1 - np.eye(shape[1]))).max() <= 100 * eps * gram.max()


ROWS = ("float32", "float64", "complex64", "complex128")


@pytest.mark.parametrize("dtype", ROWS)
@pytest.mark.parametrize("shape", [(5, 1, 3), (5, 5, 70), (3, 18, 20), (4, 7, 4)])
def test_orthogonalise_has_the_bits_of_numba(on_cpu, shape, dtype):
    assert_same_rows(on_cpu, shape, dtype)


@pytest.mark.parametrize("dtype", ROWS)
@pytest.mark.parametrize("shape", [(4, 3, 40), (4, 4, 5)])
def test_ptx_of_orthogonalise_has_the_bits_of_numba(on_ptx, shape, dtype):
    assert_same_rows(on_ptx, shape, dtype)


def test_orthogonalise_reads_whole_sectors(monkeypatch):
    launched = []

    class Recorded(PtxModule):
        def get_function(self, expression):
            launched.append(super().get_function(expression))
            return launched[-1]

    monkeypatch.setitem(ENGINES, "PTX recorded", Recorded)
    x = rows(np.random.default_rng(2), (1, 2, 64), "complex128") + np.ones((1, 2, 64))
    with _installed("PTX recorded", monkeypatch) as device:
        source._compiled.cache_clear()
        given = (x, np.tile(np.eye(2, dtype="complex128"), (1, 1, 1)), np.ones(1, bool))
        cuda_slices.orthogonalise(*map(device.asarray, given), 1e-15, 1e-15)
    loads = [load for load in launched[-1].loads if load.argument_index == 0]
    assert sum(load.sectors for load in loads) == sum(load.requested_bytes for load in loads) // 32
