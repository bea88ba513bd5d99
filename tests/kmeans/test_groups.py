"""Margins to groups of clusters: what is left of them is never too much, and rows that they leave out stay."""

import numpy as np
import pytest

from gpuensemble._kernels import kmeans
from gpuensemble._kernels.cpu.kmeans import groups
from gpuensemble._kmeans.labels import labellings, lloyd
from gpuensemble._kmeans.labels.costs import KCCCosts, SECCosts
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables import blocks
from support import membership

R, WIDTH = 9, 12


def problem_of(n_clusters, method="SEC", holes=0.0, dtype="float64", n=3000):
    """Labels of hidden clusters with noise, whose clusters move little after a few iterations."""
    rng = np.random.default_rng(n_clusters)
    truth = rng.integers(0, n_clusters, n)
    codes = np.stack([rng.integers(0, WIDTH, n_clusters)[truth] for _ in range(R)], axis=1)
    codes = np.where(rng.random((n, R)) < 0.5, rng.integers(0, WIDTH, (n, R)), codes)
    codes = np.where(rng.random((n, R)) < holes, -1, codes)
    table = blocks.whole(membership(np, codes, np.full(R, WIDTH)))
    weighting = Weighting(np.ones(R), None, dtype)
    costs = SECCosts.of(table, weighting) if method == "SEC" else KCCCosts.of(method, True, table, weighting)
    return lloyd.Problem.of(table, costs, n_clusters)


def run_of(problem, skip=True):
    n = problem.table.n_rows
    start = labellings.Given(np.random.default_rng(1).integers(0, problem.n_clusters, n).astype("int32"))
    run = lloyd.lloyd(problem, start, 60, skip=skip)
    (labels,) = problem.table.columns(lloyd.labels_of, (problem.costs, run.labelling), ("int32",))
    return run, labels


def costs_of(problem, tables):
    """The costs of each row in each cluster, by a loop over partitions."""
    m, (table, parts) = problem.table.block.m, tables
    weight = labellings.rows_of(problem.table.block, problem.costs).weight
    cost, part = np.zeros((2, len(m.codes), problem.n_clusters))
    hole = np.iinfo(m.codes.dtype).max
    for i, offset in enumerate(m.offsets[:-1].tolist()):
        seen = m.codes[:, i] != hole
        cost[seen] += table[offset + m.codes[seen, i]]
        part[seen] += parts[i] if len(parts) > 1 else 0
    part = part if len(parts) > 1 else parts
    return cost + (1 if weight is None else weight[:, None]) * part


def left_of(since, state):
    """What the margins of each row to each group are at least."""
    kept = (since.lanes.astype("uint32") << 16).view("float32").astype("float64")
    n_bins, when, bins = since.rise.shape[1], since.when.astype(int), state.bins.astype(int)
    return kept - since.fall[when * n_bins + bins] - since.rise[when, bins, state.labels][:, None]


@pytest.fixture
def always(monkeypatch):
    """Keep margins to groups however little a row takes."""
    monkeypatch.setattr(groups, "WORTH", 0)


CASES = [("SEC", 0.0, "float64"), ("SEC", 0.3, "float64"), ("SEC", 0.0, "float32"), ("cosine", 0.2, "float64")]


@pytest.mark.parametrize("n_clusters", [3, 16, 40])
@pytest.mark.parametrize(("method", "holes", "dtype"), CASES)
def test_what_is_left_of_a_margin_is_never_too_much(method, holes, dtype, n_clusters, monkeypatch, always):
    """After each call of a few iterations, by the costs of its last tables; the next call goes on with what is left."""
    problem = problem_of(n_clusters, method, holes, dtype)
    iterate, sharp, calls = kmeans.iterate, [], []

    def watched(m, way, statistics, tables, known, rows, state, since, edges, limits):
        found = iterate(m, way, statistics, tables, known, rows, state, since, edges, limits)
        cost, rows = costs_of(problem, found.tables), np.arange(len(m.codes))
        own = cost[rows, state.labels].copy()
        cost[rows, state.labels] = np.inf
        padded = np.full((len(cost), -(-n_clusters // groups.LANES) * groups.LANES), np.inf)
        padded[:, :n_clusters] = cost - own[:, None]
        margins, left = padded.reshape(len(cost), -1, groups.LANES).min(1), left_of(found.since, state)
        assert (left <= margins).all()
        sharp.append((left > 0.5 * margins)[np.isfinite(margins)].mean())
        calls.append(since is not None)
        return found

    monkeypatch.setattr(lloyd, "AT_ONCE", 4 * 3000 * R)
    monkeypatch.setattr(kmeans, "iterate", watched)
    run_of(problem)
    assert any(calls)
    assert n_clusters == 3 or max(sharp) > 0.4  # three clusters are found before any margin is kept


@pytest.mark.parametrize("at_once", [1, 1 << 28])
@pytest.mark.parametrize("n_clusters", [3, 16, 40])
@pytest.mark.parametrize(("method", "holes", "dtype"), CASES)
def test_fewer_rows_are_looked_at_and_labels_are_the_same(method, holes, dtype, n_clusters, at_once, monkeypatch):
    problem = problem_of(n_clusters, method, holes, dtype)
    _, expected = run_of(problem, skip=False)
    monkeypatch.setattr(lloyd, "AT_ONCE", at_once)
    one, labels = run_of(problem)
    np.testing.assert_array_equal(labels, expected)
    monkeypatch.setattr(groups, "WORTH", 0)
    several, labels = run_of(problem)
    np.testing.assert_array_equal(labels, expected)
    assert several.path == one.path
    assert sum(several.evaluated) <= sum(one.evaluated)
    if n_clusters == 40:
        assert sum(several.evaluated) < 0.97 * sum(one.evaluated)


def test_margins_are_kept_where_a_row_takes_long():
    assert groups.pay(100, 50)
    assert groups.pay(128, 20)
    assert not groups.pay(50, 20)
