"""The steps of k-means over labels: the same bits on all engines, and 16 bits that never lie."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuensemble._array.devices import namespace, to_host
from gpuensemble._kernels import kmeans
from gpuensemble._kernels.cpu.kmeans import relabel as cpu
from gpuensemble._kernels.cpu.kmeans import short
from gpuensemble._kmeans.labels.bounds import SAFETY, state_of
from gpuensemble._kmeans.labels.statistics import CostTables, evaluate
from support import check, dealt, membership, random_codes

WIDTHS = np.array([3, 7, 2, 5, 4, 6, 3, 2, 4])


def priced(xp, dtype="float64"):
    """Tables, parts and facts of all kinds of costs, with and without holes, with an empty cluster."""
    rng = np.random.default_rng(0)
    n_columns, n_clusters, r = int(WIDTHS.sum()), 35, len(WIDTHS)
    counts = rng.integers(0, 50, (n_columns, n_clusters)) * (rng.random((n_columns, n_clusters)) < 0.7)
    counts[:, 4] = 0
    counts[:3, 6] = 0
    offsets = np.concatenate([[0], np.cumsum(WIDTHS)]).astype("int32")
    columns = (rng.uniform(0.1, 3, (n_columns, 2)), rng.uniform(0.1, 3, r))
    given = (tuple(map(xp.asarray, columns)), xp.asarray(offsets))
    for kind, n_masses in (("sec", 1), ("sec", r), ("category", 0), ("cosine", 0)):
        masses = rng.integers(0, 900, (n_masses, n_clusters)) * (np.arange(n_clusters) != 4)
        on_device = xp.asarray(masses) if n_masses else None
        yield from kmeans.price(kind, xp.asarray(counts), on_device, *given, 4.0, 0.5, dtype, n_masses != r, 17.25)


INFINITE = {  # which entries of the tables before and after are infinite; a column's partitions 2 and 7 have 2 clusters
    "none": ([], []),
    "the same": ([(10, 3), (11, 3)], [(10, 3), (11, 3)]),
    "others": ([(10, 3), (11, 3)], [(30, 3), (31, 3)]),
}


def apart(xp, table, more):
    """The table with so many numbers more between the beginnings of its rows."""
    room = xp.zeros((table.shape[0], table.shape[1] + more), table.dtype)
    room[:, : table.shape[1]] = xp.asarray(table)
    return room[:, : table.shape[1]]


def drifted(xp, dtype="float64"):
    """What is taken and the rounding errors, with and without holes, of tables some entries of which are infinite."""
    rng = np.random.default_rng(1)
    offsets, edges = np.concatenate([[0], np.cumsum(WIDTHS)]).astype("int32"), np.geomspace(1, 50, 7)
    for complete, infinite, n_clusters in (*product((True, False), INFINITE.values(), (35,)), (True, ([], []), 1)):
        tables = [rng.standard_normal((WIDTHS.sum(), n_clusters)).astype(dtype) for _ in "ab"]
        n_parts = 1 if complete or infinite is INFINITE["the same"] else len(WIDTHS)
        parts = [rng.standard_normal((n_parts, n_clusters)).astype(dtype) for _ in "ab"]
        for table, entries in zip(tables, infinite, strict=True):
            for entry in entries:
                table[entry] = np.inf
        given = (tuple(map(xp.asarray, parts)), xp.asarray(offsets), complete, xp.asarray(edges), SAFETY)
        for rows_apart in ((0, 0), (0, 5), (3, 0)):
            both = (apart(xp, *one) for one in zip(tables, rows_apart, strict=True))
            yield from kmeans.drift(*both, *given)
        yield from kmeans.drift(None, xp.asarray(tables[1]), *given)


def undecided(in_short):
    """A table in 16 bits that decides nothing."""
    if isinstance(in_short, short.Short):
        return in_short._replace(error=np.inf)
    return in_short._replace(facts=0 * in_short.facts)


class Rows:
    """Rows with all that `relabel` asks for, and tables that are whole numbers, so that costs tie."""

    def __init__(self, xp, complete, known, n_clusters=6, dtype="float64", n=70, shift=1):
        rng = np.random.default_rng(2)
        codes = random_codes(rng, n, WIDTHS, 0 if complete else 0.3)
        self.m, self.n_clusters, self.complete = membership(xp, codes, WIDTHS), n_clusters, complete
        self.tables = [self._tables(rng, dtype, size).to(self.m.device) for size in (1, 1, 1e-3)]
        self.tables[1] = CostTables(*(a + b for a, b in zip(self.tables[0], self.tables[2], strict=True)))
        times, sizes = rng.integers(0, 4, n), rng.integers(1, 30, WIDTHS.sum())
        degrees = np.maximum(to_host(self.m.gather_sum(xp.asarray(sizes[:, None])))[:, 0] + shift >> shift, 1)
        given = (degrees.astype(dtype), degrees * times) if known else (np.empty(0, dtype), np.empty(0, "int64"))
        n_masses = 1 if complete else len(WIDTHS)
        self.rows = kmeans.RowFacts(*map(xp.asarray, (times, *given, sizes)), shift, n_masses)
        self.weight, self.edges = xp.asarray(degrees.astype(dtype)), xp.asarray(np.geomspace(1, degrees.max(), 9))
        self.start = xp.asarray(rng.integers(0, n_clusters, n).astype("int32"))

    def _tables(self, rng, dtype, size):
        parts = rng.integers(0, 2, (1 if self.complete else len(WIDTHS), self.n_clusters)) / 16
        table = rng.integers(0, 3, (WIDTHS.sum(), self.n_clusters))
        if size == 1 and not self.complete:
            table = np.where(rng.random(table.shape) < 0.1, np.inf, table)
        return CostTables((size * table).astype(dtype), (size * parts).astype(dtype))

    def relabelled(self, in_short=True):
        """Labels, slacks, bins, counts, masses and facts after each of two sets of tables."""
        state, before = state_of(self.start), (None, None)
        for tables, anew in zip(self.tables[:2], (False, True), strict=True):
            parts = (before[1], tables.per_partition)
            bounds = kmeans.drift(before[0], tables.table, parts, self.m.offsets, self.complete, self.edges, SAFETY)
            drift, before = kmeans.Drift(self.edges, *bounds), tables
            ready = kmeans.prepared(*tables, self.m.offsets, self.complete, float(self.edges[-1]))
            if not in_short:
                ready = (*ready[:2], undecided(ready[2]))
            found = kmeans.relabel(self.m, ready, self.rows, state, drift, self.n_clusters, anew)
            yield from (*(x.copy() for x in state), *found)


def relabelled(xp, dtype="float64"):
    """With tables that 16 bits decide few rows of, since costs tie, and without."""
    for complete, known, n_clusters in ((True, True, 6), (False, False, 6), (False, True, 40), (True, False, 70)):
        case = Rows(xp, complete, known, n_clusters, dtype)
        yield from (*case.relabelled(), *case.relabelled(in_short=False))
    for complete in (True, False):
        yield from Rows(xp, complete, False, dtype=dtype, shift=0).relabelled()


REASONS = ("infinite", "infinite in a partition", "too large a base", "too large a part", "nothing differs")
MANY = np.array([3, 7, 2, 5, 4, 6, 3, 2, 4, 5, 3, 8, 2, 6, 4, 3, 5, 2, 7, 3])


def costs_of(rng, complete, n_clusters, dtype, reason=""):
    """Tables of costs, of which 16 bits decide most rows, unless there is a reason why they cannot."""
    table = rng.standard_normal((MANY.sum(), n_clusters)) + rng.standard_normal((MANY.sum(), 1))
    parts = rng.standard_normal((1 if complete else len(MANY), n_clusters)) / len(MANY)
    if reason == "infinite":
        table[4, n_clusters // 2] = np.inf
    elif reason == "infinite in a partition":
        table[:3] = np.inf
    elif reason == "too large a base":
        table[:3, -1] += 1e9
    elif reason == "too large a part":
        parts[0, -1] = 1e9
    elif reason == "nothing differs":
        table[:], parts[:] = 0.25, 0
    return table.astype(dtype), parts.astype(dtype)


def on_host(in_short, n_clusters):
    """What a table in 16 bits holds: entries, those of partitions, bases, and facts; nothing if it decides nothing."""
    if isinstance(in_short, short.Short):
        if in_short.error == np.inf:
            return [np.zeros(1)]
        rows = (in_short.table[:-1], in_short.of_parts[:-1], in_short.base, in_short.parts)
        facts = (in_short.unit, in_short.ratio, in_short.error, in_short.part_error)
        return [*(x[:, :n_clusters] for x in rows), np.array(facts), np.array([in_short.bits])]
    if isinstance(in_short.facts, np.uintp) or not float(in_short.facts[0]):
        return [np.zeros(1)]
    no_parts = isinstance(in_short.of_parts, np.uintp)
    of_parts = np.empty((0, n_clusters), "int16") if no_parts else short_entries(in_short.of_parts)
    rows = (short_entries(in_short.table), of_parts, to_host(in_short.base[:1]), to_host(in_short.base[1:]))
    return [*(x[:, :n_clusters] for x in rows), to_host(in_short.facts), np.array([int(in_short.bits)])]


def short_entries(table):
    return (to_host(table).astype(int) - short.LEVELS).astype("int16")


def shortened(xp, dtype="float64"):
    """Tables in 16 bits of all widths, with and without holes, and where costs do not allow it."""
    rng = np.random.default_rng(4)
    offsets = np.concatenate([[0], np.cumsum(MANY)]).astype("int32")
    sizes = [("", n_clusters) for n_clusters in (1, 2, 16, 17, 32, 33, 64, 65, 128, 129, 224, 225)]
    for complete, (reason, n_clusters) in product((True, False), (*sizes, *((reason, 7) for reason in REASONS))):
        given = map(xp.asarray, (*costs_of(rng, complete, n_clusters, dtype, reason), offsets))
        *_, in_short = kmeans.prepared(*given, complete, 40.0)
        yield from map(xp.asarray, on_host(in_short, n_clusters))


def decided(xp, dtype="float64", sizes=(1, 7, 16, 30, 50, 100, 224), n=60):
    """Rows by tables that 16 bits decide most of, with all numbers of lanes: labels, slacks, bins, counts, facts."""
    rng = np.random.default_rng(5)
    edges, none = xp.asarray(np.array([1.0, 4.0, 9.0])), xp.empty(0, "int64")
    for complete, n_clusters in product((True, False), sizes):
        codes = random_codes(rng, n, MANY, 0 if complete else 0.3)
        m, (table, parts) = membership(xp, codes, MANY), map(xp.asarray, costs_of(rng, complete, n_clusters, dtype))
        bounds = kmeans.drift(None, table, (None, parts), m.offsets, complete, edges, SAFETY)
        weight = xp.asarray(rng.uniform(1, 9, n).astype(dtype))
        rows = kmeans.RowFacts(xp.ones(1, "int64"), weight, none, none, 0, 0)
        state, ready = state_of(xp.zeros(n, "int32")), kmeans.prepared(table, parts, m.offsets, complete, 9.0)
        found = kmeans.relabel(m, ready, rows, state, kmeans.Drift(edges, *bounds), n_clusters, True)
        yield from (*state, *found)


SCENARIOS = {"price": priced, "drift": drifted, "short": shortened, "relabel": relabelled, "decide": decided}


def assert_same(found, expected):
    for one, two in zip(found, expected, strict=True):
        check(one, two, namespace(one), exact=True)


@pytest.mark.parametrize(("name", "dtype"), dealt(SCENARIOS, ["float32", "float64"]))
def test_every_engine_has_the_same_bits(device, name, dtype):
    assert_same(SCENARIOS[name](device, dtype), SCENARIOS[name](np, dtype))


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("n_clusters", [1, 2, 6, 33, 40, 225])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_labels_are_those_of_the_whole_costs(dtype, n_clusters, complete):
    """Costs tie, and nearly tie: what 16 bits cannot decide is evaluated, and slacks never say too much."""
    case = Rows(np, complete, True, n_clusters, dtype, n=300)
    for step, (labels, slack, *_) in enumerate(zip(*[case.relabelled()] * 6, strict=True)):
        expected, cost, second = evaluate(case.m, case.tables[step], case.weight)
        np.testing.assert_array_equal(labels, expected)
        with np.errstate(invalid="ignore"):
            assert not (slack > second.astype("float64") - cost).any()


@given(st.integers(0, 10**6), st.sampled_from([1e-200, 1e-8, 1.0, 1e200]), st.sampled_from([0.0, 1e-9, 1e-4, 1.0]))
@settings(max_examples=60)
def test_sixteen_bits_decide_with_certainty(seed, size, spread):
    """Tables whose columns are nearly the same: each row that is decided has the label of exact sums."""
    rng = np.random.default_rng(seed)
    n_clusters, complete = int(rng.integers(2, 40)), bool(rng.integers(2))
    codes = random_codes(rng, 50, WIDTHS, 0 if complete else 0.3)
    m = membership(np, codes, WIDTHS)
    table = size * (rng.standard_normal((WIDTHS.sum(), 1)) + spread * rng.standard_normal((WIDTHS.sum(), n_clusters)))
    parts = size * rng.standard_normal((1 if complete or rng.integers(2) else len(WIDTHS), n_clusters))
    parts *= complete or len(parts) > 1
    weight, edges = rng.uniform(1, 9, 50), np.array([1.0, 9.0])
    drift = kmeans.Drift(edges, *kmeans.drift(None, table, (None, parts), m.offsets, complete, edges, SAFETY))
    rows = kmeans.RowFacts(np.ones(1, "int64"), weight, np.empty(0, "int64"), np.empty(0, "int64"), 0, 0)
    state, ready = state_of(np.zeros(50, "int32")), kmeans.prepared(table, parts, m.offsets, complete, 9.0)
    cpu.relabel(m, ready, rows, state, drift, n_clusters, True)
    np.testing.assert_array_equal(state.labels, evaluate(m, CostTables(table, parts), weight)[0])


def test_most_rows_are_decided_in_sixteen_bits():
    """With tables as they are in practice few rows are left for the whole costs."""
    rng = np.random.default_rng(0)
    widths = np.full(30, 20)
    m = membership(np, random_codes(rng, 2000, widths, 0), widths)
    table = -rng.gamma(0.5, 1.0, (600, 12))
    tables = short.shortened(table, np.zeros((1, 12)), m.offsets, True, 1.0)
    assert tables.table.shape == (601, 32)
    assert (tables.table[-1] == 0).all()
    assert np.abs(tables.table).max() == short.LEVELS
    _, cost, second = evaluate(m, CostTables(table, np.zeros((1, 12))), None)
    assert (second - cost > tables.error * tables.unit).mean() > 0.97


@pytest.mark.parametrize(
    "reason",
    [
        "infinite",
        "infinite with holes",
        "infinite in a partition",
        "infinite in a partition with holes",
        "too many clusters",
        "too large a base",
    ],
)
def test_tables_that_sixteen_bits_cannot_hold_are_left_whole(reason):
    rng = np.random.default_rng(0)
    n_clusters = 225 if reason == "too many clusters" else 4
    table, parts = rng.standard_normal((WIDTHS.sum(), n_clusters)), np.zeros((1, n_clusters))
    table[2, 1] = np.inf if reason.startswith("infinite") else 0
    if "in a partition" in reason:
        table[:3] = np.inf
    if reason == "too large a base":
        parts = np.array([[0, 1e12, 0, 0]])
    offsets = np.concatenate([[0], np.cumsum(WIDTHS)]).astype("int32")
    assert short.shortened(table, parts, offsets, "holes" not in reason, 1.0).error == np.inf
