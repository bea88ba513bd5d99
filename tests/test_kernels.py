"""The same bits: the Numba kernels, the CUDA kernels run on the CPU, and the PTX that NVRTC makes of them.

All CUDA kernels are launched by gpuensemble/_cuda.py itself, with grids smaller than the work.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import standin
from cudasim import nvrtc
from cudasim.ptx import PtxModule
from cudasim.shim import ShimModule, gxx
from gpuensemble import Membership, _cpu, _cuda
from gpuensemble._array import to_host
from support import check, membership, oracle_assign, problems, random_codes


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
fixtures = {"suppress_health_check": [HealthCheck.function_scoped_fixture]}


def _installed(name, monkeypatch):
    if name.startswith("PTX") and nvrtc.missing():
        pytest.skip(nvrtc.missing())
    if name.startswith("CPU") and gxx() is None:
        pytest.skip("g++ is not installed")
    monkeypatch.setattr(_cuda, "MAX_BLOCKS", 3)
    return standin.installed(ENGINES[name])


@pytest.fixture(params=["CPU", "CPU in reverse order"])
def on_cpu(request, monkeypatch):
    with _installed(request.param, monkeypatch) as module:
        yield module


@pytest.fixture(params=["PTX", "PTX of sm_120"])
def on_ptx(request, monkeypatch):
    with _installed(request.param, monkeypatch) as module:
        yield module


@pytest.fixture(params=ENGINES)
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
    counts, masses = _cpu.count_masses(here, labels, None, mass, n_clusters)
    ends = np.cumsum(here.widths)
    check(counts, here.count(labels, n_clusters), np, exact=True)
    check(masses, np.add.reduceat(here.count(labels, n_clusters, mass), ends - here.widths, axis=0), np, exact=True)
    found = _cuda.count_masses(there, device.asarray(labels), None, device.asarray(mass), n_clusters)
    for one, two in zip((counts, masses), found, strict=True):
        check(two, one, device, exact=True)


def assert_seconds(device, here, there, table):
    """The cost of the runner-up, which the kernels give as well."""
    nothing = np.zeros((1, table.shape[1]), table.dtype)
    *_, one = _cpu.assign(here, table, nothing, None)
    *_, two = _cuda.assign(there, device.asarray(table), device.asarray(nothing), None)
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", EXTREMES)
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
@pytest.mark.parametrize("n_columns", [5, 10, 32, 50, 100])
def test_assign_reads_the_table_in_whole_sectors(monkeypatch, dtype, n_columns):
    launched = []

    class Recorded(PtxModule):
        def get_function(self, expression):
            launched.append(super().get_function(expression))
            return launched[-1]

    monkeypatch.setitem(ENGINES, "PTX recorded", Recorded)
    rng = np.random.default_rng(2)
    codes = random_codes(rng, 40, [6] * 10, holes=0)
    table = rng.standard_normal((60, n_columns)).astype(dtype)
    with _installed("PTX recorded", monkeypatch) as device:
        membership(device, codes, [6] * 10).assign(device.asarray(table))
    gathers = [load for load in launched[0].loads if load.argument_index == 4]
    sectors = sum(load.sectors for load in gathers)
    assert 0 < sectors <= 1.25 * sum(load.ideal_sectors for load in gathers)
    # The ideal above takes runs of addresses as they are; this bound sees rows read by scattered lanes, too.
    assert sectors <= codes.size * -(-n_columns * table.itemsize // 32)
