"""Tallies of rows: what they leave of a margin is never too much, and rows that they leave out stay."""

import numba
import numpy as np
import pytest

from gpuensemble._kernels import kmeans
from gpuensemble._kernels.cpu.kmeans import tallies
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


def left_of(kept, state, m):
    """What the margin of each row is at least."""
    hole, tally = np.iinfo(m.codes.dtype).max, np.zeros(len(m.codes))
    for i, offset in enumerate(m.offsets[:-1].tolist()):
        seen = m.codes[:, i] != hole
        tally[seen] += kept.of_column[offset + m.codes[seen, i]]
    return kept.due - tally - kept.of_label[state.bins, state.labels]


@pytest.fixture
def always(monkeypatch):
    """Keep tallies however little a row takes."""
    monkeypatch.setattr(tallies, "pay", lambda n_clusters: True)


CASES = [("SEC", 0.0, "float64"), ("SEC", 0.3, "float64"), ("SEC", 0.0, "float32"), ("cosine", 0.2, "float64")]


@pytest.mark.parametrize("n_clusters", [3, 16, 40])
@pytest.mark.parametrize(("method", "holes", "dtype"), CASES)
def test_what_is_left_of_a_margin_is_never_too_much(method, holes, dtype, n_clusters, monkeypatch, always):
    """After each call of a few iterations, by the costs of its last tables; the next call goes on with its tallies."""
    problem = problem_of(n_clusters, method, holes, dtype)
    iterate, sharp, calls = kmeans.iterate, [], []

    def watched(m, way, statistics, tables, known, rows, state, kept, edges, limits):
        found = iterate(m, way, statistics, tables, known, rows, state, kept, edges, limits)
        cost, rows = costs_of(problem, found.tables), np.arange(len(m.codes))
        own = cost[rows, state.labels].copy()
        cost[rows, state.labels] = np.inf
        margins, left = cost.min(1) - own, left_of(found.tallies, state, m)
        assert (left <= margins).all()
        assert (state.slack <= margins).all()
        sharp.append(np.nan if found.tallies.fresh[0] else (left > 0.5 * margins).mean())
        calls.append(kept is not None)
        return found

    monkeypatch.setattr(lloyd, "AT_ONCE", 4 * 3000 * R)
    monkeypatch.setattr(kmeans, "iterate", watched)
    run_of(problem)
    assert any(calls)
    assert n_clusters == 3 or np.nanmax(sharp) > 0.4  # three clusters are found before any tally counts


@pytest.mark.parametrize("at_once", [1, 1 << 28])
@pytest.mark.parametrize("n_clusters", [3, 16, 40])
@pytest.mark.parametrize(("method", "holes", "dtype"), CASES)
def test_fewer_rows_are_looked_at_and_labels_are_the_same(method, holes, dtype, n_clusters, at_once, monkeypatch):
    problem = problem_of(n_clusters, method, holes, dtype)
    _, expected = run_of(problem, skip=False)
    monkeypatch.setattr(lloyd, "AT_ONCE", at_once)
    monkeypatch.setattr(tallies, "pay", lambda n_clusters: False)
    without, labels = run_of(problem)
    np.testing.assert_array_equal(labels, expected)
    monkeypatch.setattr(tallies, "pay", lambda n_clusters: True)
    run, labels = run_of(problem)
    np.testing.assert_array_equal(labels, expected)
    assert run.path == without.path
    assert sum(run.evaluated) <= sum(without.evaluated)
    if n_clusters == 40:
        assert sum(run.evaluated) < 0.95 * sum(without.evaluated)


def test_tallies_are_kept_where_a_label_takes_more_than_a_cache_line():
    assert tallies.pay(33)
    assert not tallies.pay(32)


@numba.njit  # not kept on disk: that would not see a change of what it calls
def add_falls(kept, tables, parts, edges, offsets):
    """Only kernels can call what they are made of."""
    tallies.add_falls(kept, tables, parts, edges, offsets, 0, len(offsets) - 1)
    tallies.find_doubt(kept)


@numba.njit
def pass_turn(kept, largest, before, after, edges, share=0.0):
    tallies.pass_turn(kept, True, share, largest, before, after, edges)


def test_of_weights_between_two_edges_the_worse_edge_counts():
    kept = tallies.tallies_for(1, np.array([0, 1]), 1, 2)
    largest, before, after = np.array([[1.0, 5.0], [3.0, 2.0]]), np.array([[4.0, 1.0]]), np.array([[2.0, 2.0]])
    for turn in (1, 2):
        pass_turn(kept, largest, before, after, np.array([1.0, 3.0]))
        # a weight of 3 is 1 above the middle, and takes 1 * (4 - 2) more off
        np.testing.assert_allclose(kept.of_label, [[turn * (3 + 2), turn * (5 + 2)]])
    assert not kept.fresh[0]


def test_where_many_rows_moved_all_tallies_begin_anew():
    kept = tallies.tallies_for(1, np.array([0, 3, 5]), 2, 3)
    for part in (kept.of_column, kept.of_label, kept.peaks):
        part[...] = -1.0
    kept.fresh[0] = False
    tables, edges = np.zeros((3, 3)), np.array([1.0, 2.0, 3.0])
    pass_turn(kept, tables, tables[:1], tables[:1], edges, share=tallies.MOST_MOVED)
    assert not kept.fresh[0]
    pass_turn(kept, tables, tables[:1], tables[:1], edges, share=1.01 * tallies.MOST_MOVED)
    assert kept.fresh[0]
    for part in (kept.of_column, kept.of_label, kept.peaks):
        assert (part == 0).all()


def test_the_doubt_of_a_row_grows_with_the_peaks_of_all_its_partitions():
    offsets, parts, edges = np.array([0, 2, 3]), np.zeros((1, 2)), np.ones(2)
    kept = tallies.tallies_for(1, offsets, 1, 2)
    add_falls(kept, (np.array([[8.0, 8.0], [1.0, 2.0], [4.0, 4.0]]), np.zeros((3, 2))), (parts, parts), edges, offsets)
    np.testing.assert_allclose(kept.peaks, [8, 4], rtol=1e-6)
    assert kept.doubt[0] == pytest.approx(2 * tallies.SINGLE * 4 * 12)


def test_costs_that_were_infinite_make_rows_due():
    """One that stays infinite takes nothing off; one that becomes finite may take anything off, also later."""
    offsets, parts, edges = np.array([0, 2, 3]), np.zeros((1, 2)), np.ones(2)
    kept = tallies.tallies_for(1, offsets, 1, 2)
    before = np.array([[1.0, np.inf], [1.0, np.inf], [np.inf, np.inf]])
    after = np.array([[0.5, np.inf], [1.0, 2.0], [np.inf, np.inf]])
    for tables in ((before, after), (after, after)):
        add_falls(kept, tables, (parts, parts), edges, offsets)
        assert kept.of_column[0] == pytest.approx(0.5)
        assert np.isinf(kept.of_column[1:3]).all()
        assert kept.of_column[3] == 0
    assert np.isinf(kept.doubt[0])  # no row is left out by these tallies


def test_of_rows_that_were_never_looked_at_nothing_is_known():
    kept = tallies.tallies_for(3, np.array([0, 2]), 1, 2)
    assert (kept.due == -np.inf).all()
    assert kept.fresh[0]
