"""Bounds of how far tables may have moved a row, against all rows that there can be."""

import itertools

import numpy as np
import pytest

from gpuensemble._array.devices import to_host
from gpuensemble._kmeans.labels import bounds
from gpuensemble._kmeans.labels.statistics import CostTables, evaluate
from support import membership, random_codes

WIDTHS = np.array([2, 1, 3])
OFFSETS = np.cumsum(WIDTHS) - WIDTHS


def random_tables(rng, n_clusters, complete, dtype="float64", size=1.0, widths=WIDTHS):
    parts = rng.standard_normal((1 if complete else len(widths), n_clusters))
    table = rng.standard_normal((widths.sum(), n_clusters))
    return CostTables((size * table).astype(dtype), (size * parts).astype(dtype))


def changes(before, after, complete, weight):
    """By how much the cost of each cluster changes, for every row that there can be; with holes also an empty one."""
    table, parts = after.table - before.table, after.per_partition - before.per_partition
    rows = []
    for codes in itertools.product(*[range(-(not complete), width) for width in WIDTHS]):
        seen = [i for i, code in enumerate(codes) if code >= 0]
        change = sum((table[OFFSETS[i] + codes[i]] for i in seen), np.zeros(table.shape[1]))
        rows.append(change + weight * (parts[0] if complete else parts[seen].sum(0)))
    return np.array(rows)


@pytest.mark.parametrize("n_clusters", [2, 3, 6])
@pytest.mark.parametrize("complete", [True, False])
def test_the_drift_is_the_most_that_rows_of_a_bin_can_lose(complete, n_clusters):
    rng = np.random.default_rng(n_clusters)
    edges = np.array([0.5, 1.5, 4.0])
    for _ in range(10):
        before, after = (random_tables(rng, n_clusters, complete) for _ in range(2))
        found = bounds.drift_bounds(before, after, WIDTHS, complete, edges)
        assert found.shape == (2, n_clusters)
        for k, (i, ends) in itertools.product(range(n_clusters), enumerate(itertools.pairwise(edges))):
            at_ends = np.concatenate([changes(before, after, complete, weight) for weight in ends])
            most = at_ends[:, k].max() - np.delete(at_ends, k, axis=1).min()
            assert most <= found[i, k] <= most + 1e-7
            inside = changes(before, after, complete, sum(ends) / 2)
            assert (inside[:, [k]] - np.delete(inside, k, axis=1)).max() <= found[i, k]


def test_what_is_infinite_before_and_after_does_not_drift():
    rng = np.random.default_rng(0)
    before, after = (random_tables(rng, 3, True) for _ in range(2))
    plain = after.table.copy()
    plain[4, 1] = before.table[4, 1]
    expected = bounds.drift_bounds(before, after._replace(table=plain), WIDTHS, True, np.ones(2))
    before.table[4, 1] = after.table[4, 1] = np.inf
    with np.errstate(invalid="ignore"):
        found = bounds.drift_bounds(before, after, WIDTHS, True, np.ones(2))
    np.testing.assert_array_equal(found, expected)


def test_equal_changes_leave_margins_as_they_are():
    """Two clusters with the least change: each is the least of the others for the other one."""
    before = CostTables(np.zeros((6, 3)), np.zeros((1, 3)))
    after = CostTables(np.full((6, 3), [-1.0, -1.0, 2.0]), np.zeros((1, 3)))
    np.testing.assert_allclose(bounds.drift_bounds(before, after, WIDTHS, True, np.ones(2)), [[0, 0, 9]], atol=1e-7)
    one = CostTables(after.table[:, 2:], after.per_partition[:, 2:]), CostTables(np.zeros((6, 1)), np.zeros((1, 1)))
    np.testing.assert_allclose(bounds.drift_bounds(*one, WIDTHS, True, np.ones(2)), [[-6]], atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_weight_is_between_the_edges_of_its_bin(xp, dtype):
    weight = np.random.default_rng(0).integers(3, 10**7, 500).astype(dtype)
    drift = bounds.DriftBounds(WIDTHS, True, (float(weight.min()), float(weight.max())), dtype)
    assert len(drift.edges) == bounds.BINS + 1
    slacks = bounds.Slacks(xp.zeros(500, "int32"))
    slacks._put_in_bins(drift.edges, xp.asarray(weight))
    number = to_host(slacks.bin)
    assert number.dtype == "uint8"
    assert (drift.edges[number] <= weight).all()
    assert (weight <= drift.edges[number + 1]).all()
    assert drift.edges[2] / drift.edges[1] == pytest.approx(drift.edges[9] / drift.edges[8], rel=1e-3)


@pytest.mark.parametrize("weights", [None, (7.0, 7.0)])
def test_equal_weights_are_one_bin(weights):
    drift = bounds.DriftBounds(WIDTHS, True, weights, "float64")
    assert drift.edges.tolist() == ([7, 7] if weights else [1, 1])
    slacks = bounds.Slacks(np.zeros(3, "int32"))
    slacks._put_in_bins(drift.edges, np.full(3, 7.0))
    assert slacks.bin is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bound_of_rounding_errors_is_a_few_units_of_the_largest_cost(dtype):
    rng = np.random.default_rng(0)
    tables = random_tables(rng, 4, False, dtype)
    tables.table[3, 2] = np.inf  # an infinite cost is exact
    drift = bounds.DriftBounds(WIDTHS, False, (2.0, 5.0), dtype)
    finite = np.where(np.isinf(tables.table), 0, np.abs(tables.table)).astype("float64")
    largest = sum(finite[first : first + width].max(0) for first, width in zip(OFFSETS, WIDTHS, strict=True)).max()
    parts = np.abs(tables.per_partition.astype("float64")).sum(0).max()
    expected = 4 * (3 + 4) * np.finfo(dtype).eps * (largest + drift.edges[1:] * parts)
    first = drift.to(tables)
    np.testing.assert_allclose(first.rounding, expected, rtol=1e-12)
    assert first.most is None
    assert drift.to(tables).most.shape == (bounds.BINS, 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_slack_is_never_more_than_what_is_left_of_the_margin(complete, weighted, dtype):
    """A random walk of the tables: labels are those of a full evaluation, and most rows are not looked at."""
    rng, widths = np.random.default_rng(1), np.array([9, 5, 7])
    m = membership(np, random_codes(rng, 400, widths, 0 if complete else 0.3), widths)
    weight = rng.integers(2, 50, 400).astype(dtype) if weighted else None
    ends = (float(weight.min()), float(weight.max())) if weighted else None
    drift, slacks = bounds.DriftBounds(widths, complete, ends, dtype), bounds.Slacks(np.zeros(400, "int32"))
    tables, looked_at = random_tables(rng, 4, complete, dtype, widths=widths), []
    for _ in range(25):
        step = random_tables(rng, 4, complete, dtype, 0.01, widths)
        tables = CostTables(tables.table + step.table, tables.per_partition + step.per_partition)
        before = slacks.labels
        looked_at.append(slacks.to(tables, drift.to(tables), m, lambda index: Weights(weight, index)))
        labels, cost, second = evaluate(m, tables, weight)
        np.testing.assert_array_equal(slacks.labels, labels)
        assert slacks.slack.dtype == "float32"
        assert (slacks.slack <= second.astype("float64") - cost).all()
        assert before is not slacks.labels or looked_at[-1] == 0
    assert looked_at[0] == 400
    assert 0 < np.mean(looked_at[1:]) < 150


def test_the_rounding_of_a_row_is_that_of_its_bin(xp):
    """Of all rows that are evaluated at first, and of the few that are evaluated later."""
    rng = np.random.default_rng(1)
    m, tables = membership(xp, random_codes(rng, 20, WIDTHS, 0), WIDTHS), random_tables(rng, 4, True)
    weight, edges = xp.asarray(rng.uniform(1, 4, 20)), np.array([1.0, 2, 3, 4])
    rounding = np.array([0.01, 0.1, 1.0])
    slacks = bounds.Slacks(xp.zeros(20, "int32"))
    _, cost, second = evaluate(m, tables, weight)
    expected = to_host(second - cost) - rounding[to_host(weight).astype(int) - 1]
    for most, looked_at in ((None, 20), (np.zeros((3, 4)), 3)):
        drift = bounds.Drift(edges, rounding, most)
        assert slacks.to(tables, drift, m, lambda index: Weights(weight, index)) == looked_at
        np.testing.assert_allclose(to_host(slacks.slack), expected, rtol=1e-5)
        slacks.slack[:] = 10
        slacks.slack[:3] = -1
        expected[3:] = 10


class Weights:
    """What a step tells of some rows."""

    def __init__(self, weight, index=None):
        self.weight = weight if weight is None or index is None else weight[index]


def test_without_bounds_every_row_is_evaluated():
    rng = np.random.default_rng(1)
    m = membership(np, random_codes(rng, 40, WIDTHS, 0), WIDTHS)
    slacks = bounds.Slacks(np.zeros(40, "int32"))
    tables = random_tables(rng, 4, True)
    assert slacks.to(tables, None, m, lambda index: Weights(None)) == 40
    np.testing.assert_array_equal(slacks.labels, evaluate(m, tables, None)[0])
    assert slacks.slack is None


def test_no_other_possible_cluster_leaves_a_slack_that_float32_holds():
    found = bounds._slack(np.array([1.0, 0.0, np.inf]), np.array([np.inf, 1.0, np.inf]), np.array([0.25]), None)
    assert found[0] == np.float32(3e38)
    assert 0.75 * (1 - 2.0**-20) < found[1] < 0.75
    assert np.isnan(found[2])
