"""Bounds of how far tables may have moved a row, against all rows that there can be."""

import itertools

import numpy as np
import pytest

from gpuensemble._array.devices import to_device, to_host
from gpuensemble._kernels import kmeans
from gpuensemble._kmeans.labels import bounds
from gpuensemble._kmeans.labels.statistics import CostTables, evaluate
from support import membership, random_codes

WIDTHS = np.array([2, 1, 3])
OFFSETS = np.array([0, 2, 3, 6], "int32")


def random_tables(rng, n_clusters, summed, dtype="float64", size=1.0, widths=WIDTHS):
    parts = rng.standard_normal((1 if summed else len(widths), n_clusters))
    table = rng.standard_normal((widths.sum(), n_clusters))
    return CostTables((size * table).astype(dtype), (size * parts).astype(dtype))


def drift(before, after, complete, edges):
    """What is taken off the margins, bins x K."""
    parts = (before.per_partition, after.per_partition)
    taken, _ = kmeans.drift(before.table, after.table, parts, OFFSETS, complete, edges, bounds.SAFETY)
    return taken


def changes(before, after, complete, weight):
    """By how much the cost of each cluster changes, for every row that there can be; with holes also an empty one."""
    table, parts = after.table - before.table, after.per_partition - before.per_partition
    rows = []
    for codes in itertools.product(*[range(-(not complete), width) for width in WIDTHS]):
        seen = [i for i, code in enumerate(codes) if code >= 0]
        change = sum((table[OFFSETS[i] + codes[i]] for i in seen), np.zeros(table.shape[1]))
        rows.append(change + weight * (parts[0] if len(parts) == 1 else parts[seen].sum(0)))
    return np.array(rows)


@pytest.mark.parametrize("n_clusters", [2, 3, 6])
@pytest.mark.parametrize(("complete", "summed"), [(True, True), (False, False), (False, True)])
def test_the_drift_is_the_most_that_rows_of_a_bin_can_lose(complete, summed, n_clusters):
    rng = np.random.default_rng(n_clusters)
    edges = np.array([0.5, 1.5, 4.0])
    for _ in range(10):
        before, after = (random_tables(rng, n_clusters, summed) for _ in range(2))
        found = drift(before, after, complete, edges)
        assert found.shape == (2, n_clusters)
        assert found.dtype == "float32"
        for k, (i, ends) in itertools.product(range(n_clusters), enumerate(itertools.pairwise(edges))):
            at_ends = np.concatenate([changes(before, after, complete, weight) for weight in ends])
            most = at_ends[:, k].max() - np.delete(at_ends, k, axis=1).min()
            assert most <= found[i, k] <= most + 1e-6 * (1 + abs(most))
            inside = changes(before, after, complete, sum(ends) / 2)
            assert (inside[:, [k]] - np.delete(inside, k, axis=1)).max() <= found[i, k]


def test_what_is_infinite_before_and_after_does_not_drift():
    rng = np.random.default_rng(0)
    before, after = (random_tables(rng, 3, True) for _ in range(2))
    plain = after.table.copy()
    plain[4, 1] = before.table[4, 1]
    expected = drift(before, after._replace(table=plain), True, np.ones(2))
    before.table[4, 1] = after.table[4, 1] = np.inf
    np.testing.assert_array_equal(drift(before, after, True, np.ones(2)), expected)


@pytest.mark.parametrize("complete", [True, False])
def test_costs_that_become_infinite_or_cease_to_be_leave_no_margin(complete):
    """Both at once: the sum of the bounds is not a number, and no row may be sure of its label by it."""
    rng = np.random.default_rng(0)
    before, after = (random_tables(rng, 3, complete) for _ in range(2))
    before.table[:2, 1] = np.inf
    after.table[2:, 1] = np.inf
    taken = drift(before, after, complete, np.ones(2))
    assert not (1e30 - taken > 0).any()


def test_equal_changes_leave_margins_as_they_are():
    """Two clusters with the least change: each is the least of the others for the other one."""
    before = CostTables(np.zeros((6, 3)), np.zeros((1, 3)))
    after = CostTables(np.full((6, 3), [-1.0, -1.0, 2.0]), np.zeros((1, 3)))
    np.testing.assert_allclose(drift(before, after, True, np.ones(2)), [[0, 0, 9]], atol=1e-5)
    one = CostTables(after.table[:, 2:], after.per_partition[:, 2:]), CostTables(np.zeros((6, 1)), np.zeros((1, 1)))
    np.testing.assert_allclose(drift(*one, True, np.ones(2)), [[-6]], atol=1e-5)


@pytest.mark.parametrize("weights", [None, (7.0, 7.0)])
def test_equal_weights_are_one_bin(weights):
    drift = bounds.DriftBounds(OFFSETS, True, weights, "float64")
    assert drift.edges.tolist() == ([7, 7] if weights else [1, 1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bound_of_rounding_errors_is_a_few_units_of_the_largest_cost(dtype):
    rng = np.random.default_rng(0)
    tables = random_tables(rng, 4, False, dtype)
    tables.table[3, 2] = np.inf  # an infinite cost is exact
    drift = bounds.DriftBounds(OFFSETS, False, (2.0, 5.0), dtype)
    assert len(drift.edges) == bounds.BINS + 1
    assert drift.edges[2] / drift.edges[1] == pytest.approx(drift.edges[9] / drift.edges[8], rel=1e-3)
    finite = np.where(np.isinf(tables.table), 0, np.abs(tables.table)).astype("float64")
    largest = sum(finite[first:last].max(0) for first, last in itertools.pairwise(OFFSETS)).max()
    parts = np.abs(tables.per_partition.astype("float64")).sum(0).max()
    expected = 4 * (3 + 4) * np.finfo(dtype).eps * (largest + drift.edges[1:] * parts)
    first = drift.to(tables).bounds
    np.testing.assert_allclose(first.rounding, expected, rtol=1e-12)
    assert np.isposinf(first.taken).all()
    assert np.isfinite(drift.to(tables).bounds.taken).all()


class Walk:
    """Rows with weights, and tables that take small steps."""

    def __init__(self, complete, weighted, dtype, n_clusters=4, n=400):
        self.rng, self.widths = np.random.default_rng(1), np.array([9, 5, 7])
        self.codes = random_codes(self.rng, n, self.widths, 0 if complete else 0.3)
        self.weight = self.rng.integers(2, 50, n).astype(dtype) if weighted else None
        self.complete, self.dtype, self.n_clusters = complete, dtype, n_clusters
        self.tables = random_tables(self.rng, n_clusters, complete, dtype, widths=self.widths)
        self.offsets = np.array([0, 9, 14, 21], "int32")

    def move(self):
        step = random_tables(self.rng, self.n_clusters, self.complete, self.dtype, 0.01, self.widths)
        self.tables = CostTables(self.tables.table + step.table, self.tables.per_partition + step.per_partition)

    def ends(self):
        return None if self.weight is None else (float(self.weight.min()), float(self.weight.max()))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_slack_is_never_more_than_what_is_left_of_the_margin(xp, complete, weighted, dtype):
    """A random walk of the tables: labels are those of a full evaluation, and most rows are not looked at."""
    walk = Walk(complete, weighted, dtype)
    m, device = membership(xp, walk.codes, walk.widths), membership(xp, walk.codes, walk.widths).device
    weight = xp.ones(1, dtype) if walk.weight is None else xp.asarray(walk.weight)
    rows = kmeans.RowFacts(xp.ones(1, "int64"), weight, xp.empty(0, "int64"), xp.empty(0, "int64"), 0, 0)
    drift = bounds.DriftBounds(m.offsets, complete, walk.ends(), dtype)
    state, looked_at = bounds.state_of(xp.zeros(400, "int32")), []
    for _ in range(25):
        walk.move()
        tables, before = walk.tables.to(device), to_host(state.labels).copy()
        prepared = kmeans.prepared(*tables, m.offsets, complete, 50.0)
        counts, _, facts = kmeans.relabel(m, prepared, rows, state, drift.to(tables).on(device), 4, False)
        moved, evaluated = to_host(facts).tolist()
        looked_at.append(evaluated)
        labels, cost, second = (to_host(x) for x in evaluate(m, tables, None if walk.weight is None else weight))
        np.testing.assert_array_equal(to_host(state.labels), labels)
        assert moved == (before != labels).sum()
        assert (to_host(state.slack) <= second.astype("float64") - cost).all()
        expected = to_host(m.count(xp.asarray(labels), 4)) - to_host(m.count(xp.asarray(before), 4))
        np.testing.assert_array_equal(to_host(counts), expected)
    assert looked_at[0] == 400
    assert 0 < np.mean(looked_at[1:]) < 150


def test_every_weight_is_between_the_edges_of_its_bin(xp):
    for dtype in ("float32", "float64"):
        walk = Walk(True, True, dtype)
        walk.weight = np.random.default_rng(0).integers(3, 10**7, 400).astype(dtype)
        m = membership(xp, walk.codes, walk.widths)
        drift, tables = bounds.DriftBounds(m.offsets, True, walk.ends(), dtype), walk.tables.to(m.device)
        rows = kmeans.RowFacts(xp.ones(1, "int64"), xp.asarray(walk.weight), *(xp.empty(0, "int64"),) * 2, 0, 0)
        state = bounds.state_of(xp.zeros(400, "int32"))
        prepared = kmeans.prepared(*tables, m.offsets, True, 1e7)
        kmeans.relabel(m, prepared, rows, state, drift.to(tables).on(m.device), 4, True)
        edges, number = to_host(drift.edges), to_host(state.bins)
        assert (edges[number] <= walk.weight).all()
        assert (walk.weight <= edges[number + 1]).all()


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("anew", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_masses_are_those_of_the_degrees(xp, complete, anew, kept):
    """Given, or from the sizes of clusters; with a shift, and rows that count several times."""
    walk = Walk(complete, True, "float64", n=100)
    m, rng = membership(xp, walk.codes, walk.widths), np.random.default_rng(2)
    times, sizes, old = rng.integers(0, 4, 100), rng.integers(1, 90, 21), rng.integers(0, 4, 100).astype("int32")
    degrees = np.maximum((to_host(m.gather_sum(xp.asarray(sizes[:, None])))[:, 0] + 2) >> 2, 1)
    given = (degrees.astype("float64"), degrees * times) if kept else (np.empty(0), np.empty(0, "int64"))
    n_masses = 1 if complete else 3
    on = (to_device(x, m.device) for x in (times, *given, sizes))
    rows, state = kmeans.RowFacts(*on, 2, n_masses), bounds.state_of(xp.asarray(old))
    drift = bounds.DriftBounds(m.offsets, complete, (float(degrees.min()), float(degrees.max())), "float64")
    tables = walk.tables.to(m.device)
    found = kmeans.relabel(
        m, kmeans.prepared(*tables, m.offsets, complete, 1e3), rows, state, drift.to(tables).on(m.device), 4, anew
    )
    labels = to_host(state.labels)
    np.testing.assert_array_equal(labels, to_host(evaluate(m, tables, xp.asarray(degrees.astype("float64")))[0]))
    seen = np.ones((1, 100)) if complete else walk.codes.T >= 0

    def counted(labels):
        onehot = (labels[:, None] == np.arange(4)).astype(int)
        return to_host(m.count(xp.asarray(labels), 4, xp.asarray(times))), seen @ (onehot * (degrees * times)[:, None])

    for array, new, before in zip(found, counted(labels), counted(old), strict=False):
        np.testing.assert_array_equal(to_host(array), new if anew else new - before)
