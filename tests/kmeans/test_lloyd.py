"""Lloyd's iteration over a table in blocks, against a literal one over dense costs."""

import dataclasses
import itertools

import numpy as np
import pytest

from cudasim import standin
from cudasim.shim import ShimModule, gxx
from cudasim.tally import TALLY
from gpuensemble._kmeans.labels import labellings, lloyd
from gpuensemble._kmeans.labels.costs import KCCCosts, SECCosts
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables import blocks
from support import membership, onehot, random_codes

WIDTHS, N = np.array([5, 4, 6, 3]), 120
ENDS = np.cumsum(WIDTHS)
BOUNDS = [0, 3, 50, 51, N]


class Case:
    """Noisy copies of a partition with holes, weights of rows, some of them 0, and a start that may lack clusters."""

    def __init__(self, seed, weighted, used, n_clusters=5, method="category"):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, n_clusters, N)
        clean = np.stack([rng.integers(0, width, n_clusters)[truth] for width in WIDTHS], axis=1)
        noisy = random_codes(rng, N, WIDTHS, 0.2)
        self.codes = np.where((rng.random(clean.shape) < 0.6) & (noisy >= 0), clean, noisy)
        self.times = rng.integers(0, 4, N) if weighted else None
        self.counted = np.ones(N, int) if self.times is None else self.times
        self.start = rng.integers(0, used, N).astype("int32")
        self.mu, self.n_clusters, self.method = rng.random(4) + 0.5, n_clusters, method
        self.dense = onehot(self.codes, WIDTHS)
        self.degrees = np.maximum(self.dense @ (self.counted @ self.dense), 1)

    def problem(self, table):
        weighting = Weighting(self.mu, None, "float64")
        sec = self.method == "SEC"
        costs = SECCosts.of(table, weighting) if sec else KCCCosts.of("category", False, table, weighting)
        return lloyd.Problem.of(table, costs, self.n_clusters)

    def tables(self):
        m = membership(np, self.codes, WIDTHS)
        yield blocks.whole(m, self.times)
        yield blocks.Streamed(m.codes, BOUNDS, m.widths, m.complete, None, self.times)

    def costs(self, labels):
        """N x K: the distances to the centres of these labels, over the partitions that a row has a label in."""
        inside = self.counted * (labels == np.arange(self.n_clusters)[:, None])
        found = np.zeros((N, self.n_clusters))
        for i, (end, width) in enumerate(zip(ENDS, WIDTHS, strict=True)):
            b = self.dense[:, end - width : end]
            weight = self.degrees if self.method == "SEC" else np.ones(N)
            for k, times in enumerate(inside):
                center = times @ b / max((times * weight)[b.any(1)].sum(), 1)
                found[:, k] += self.mu[i] * b.any(1) * weight * ((b / weight[:, None] - center) ** 2).sum(1)
        return found

    def objective(self, labels):
        return (self.counted * self.costs(labels)[np.arange(N), labels]).sum()

    def filled(self, costs, labels):
        """Give each cluster without a row that counts the costliest rows that are left, with all that equal them."""
        labels, counts = labels.copy(), np.bincount(labels, self.counted, self.n_clusters)
        cost = np.where(self.counted > 0, costs.min(1), 0)
        for k in np.flatnonzero(counts == 0):
            if cost.max() > 1e-12:
                equal = (self.codes == self.codes[cost.argmax()]).all(1)
                labels[equal], cost[equal] = k, 0
        return labels

    def literal(self, max_iter):
        """Labels, and the objective at the start and after each iteration that lowered it."""
        labels, path = self.start, [self.objective(self.start)]
        for _ in range(max_iter):
            costs = self.costs(labels)
            new = self.filled(costs, costs.argmin(1).astype("int32"))
            if not self.objective(new) < path[-1] - 1e-12:
                return labels, path, True
            labels, path = new, [*path, self.objective(new)]
        return labels, path, False


def labels_of(problem, found):
    (labels,) = problem.table.columns(lloyd.labels_of, (problem.costs, found.labelling), ("int32",))
    return labels


@pytest.mark.parametrize("method", ["category", "SEC"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("used", [5, 3, 1])
@pytest.mark.parametrize("max_iter", [1, 2, 100])
def test_a_run_is_the_literal_one_in_any_blocks(method, weighted, used, max_iter):
    for seed in range(3):
        case = Case(seed, weighted, used, method=method)
        labels, path, converged = case.literal(max_iter)
        for table in case.tables():
            problem = case.problem(table)
            for skip in (False, True):
                found = lloyd.lloyd(problem, labellings.Given(case.start), max_iter, skip)
                np.testing.assert_allclose(found.path, path, rtol=1e-9)
                found_labels = labels_of(problem, found)
                assert case.objective(found_labels) == pytest.approx(path[-1], rel=1e-9)
                assert (found_labels == labels).mean() > 0.95  # the last bit decides between costs that are equal
                assert found.converged == converged
                assert len(found.evaluated) == len(path) - 1 + converged


@pytest.mark.parametrize("times", [None, np.array([1, 1, 1, 1, 1, 0])])
def test_rows_on_their_centre_or_without_weight_fill_no_cluster(times):
    codes = np.array([[0], [0], [1], [1], [2], [3]])
    table = blocks.whole(membership(np, codes[:5] if times is None else codes, [4]), times)
    costs = KCCCosts.of("category", False, table, Weighting(np.ones(1), None, "float64"))
    problem = lloyd.Problem.of(table, costs, 4)
    labels = np.array([0, 0, 1, 1, 1, 1], "int32")[: table.n_rows]
    statistics = lloyd._statistics(problem, labellings.Given(labels))
    by_costs = labellings.ByCosts(statistics, problem.priced(statistics).tables)
    found = lloyd._costliest(table.block, costs, by_costs, 5)
    assert [row for _, row in found] == [(2,), (1,)]
    np.testing.assert_allclose([cost / costs.scale for cost, _ in found], [8 / 9, 2 / 9])
    assert [row for _, row in lloyd._costliest(table.block, costs, by_costs, 1)] == [(2,)]
    assert lloyd._fillers(table, costs, by_costs, statistics) == (((2,), 2), ((1,), 3))


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_counts_that_are_updated_are_those_that_are_made_anew(share, monkeypatch):
    monkeypatch.setattr(lloyd, "MOVED_SHARE", share)
    anew, step = [], lloyd.step
    monkeypatch.setattr(lloyd, "step", lambda *args: anew.append(args[-1]) or step(*args))
    for method in ("category", "SEC"):
        case = Case(0, True, 5, method=method)
        for table in case.tables():
            anew.clear()
            found = lloyd.lloyd(case.problem(table), labellings.Given(case.start), 100)
            np.testing.assert_allclose(found.path, case.literal(100)[1], rtol=1e-9)
        assert anew[0]
        assert all(anew[: 1 - len(BOUNDS)]) if share == 0 else not all(anew)
        assert share < 1 or not any(anew[len(BOUNDS) - 1 :])


@pytest.mark.parametrize("at_once", [1, 3, 100])  # iterations in memory
def test_a_run_goes_on_from_its_progress_and_tells_of_each_iteration(at_once, monkeypatch):
    monkeypatch.setattr(lloyd, "AT_ONCE", at_once * N * len(WIDTHS))
    case = Case(1, True, 3)
    for table in case.tables():
        problem, seen, new = case.problem(table), [], []

        def note(progress, n_new, seen=seen, new=new):
            seen.append(progress)
            new.append(n_new)

        whole = lloyd.lloyd(problem, labellings.Given(case.start), 100, after_each=note)
        assert [len(progress.evaluated) for progress in seen] == np.cumsum(new).tolist()
        assert max(new) <= (at_once if isinstance(table, blocks.InMemory) else 1)
        assert seen[-1] is whole
        assert [progress.converged for progress in seen].index(True) == len(seen) - 1
        for progress in seen:
            resumed = lloyd.lloyd(case.problem(table), progress, 100)
            assert resumed.path == whole.path
            np.testing.assert_array_equal(labels_of(problem, resumed), labels_of(problem, whole))


def test_little_work_is_done_whole():
    """Rows are left out where there is more to do than to know which."""
    case = Case(1, False, 5)
    problem = case.problem(next(case.tables()))
    work = N * len(WIDTHS) * case.n_clusters
    for small, all_rows in ((work, True), (work - 1, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lloyd, "SMALL", small)
            evaluated = lloyd.lloyd(problem, labellings.Given(case.start), 100).evaluated
        assert (set(evaluated) == {1}) == all_rows


@pytest.mark.parametrize("method", ["category", "SEC"])
def test_labels_and_confidence_at_the_end(method):
    case = Case(2, True, 5, method=method)
    costs = np.sort(case.costs(case.start), axis=1)
    for table in case.tables():
        problem = case.problem(table)
        statistics = lloyd._statistics(problem, labellings.Given(case.start))
        by_costs = labellings.ByCosts(statistics, problem.priced(statistics).tables)
        for labelling, expected in (
            (None, case.costs(case.start).argmin(1)),
            (labellings.Given(case.start), case.start),
        ):
            found, confidence = table.columns(lloyd.finish, (problem.costs, labelling, by_costs), ("int32", "float64"))
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_allclose(confidence, 1 - costs[:, 0] / costs[:, 1], rtol=1e-9, atol=1e-9)
        renumbered = labellings.Renumbered(labellings.Given(case.start), np.array([3, 0, 4, 1, 2], "int32"))
        (found,) = table.columns(lloyd.labels_of, (problem.costs, renumbered), ("int32",))
        np.testing.assert_array_equal(found, np.array([3, 0, 4, 1, 2])[case.start])


def test_the_sum_of_constants_has_the_same_bits_in_any_blocks():
    for method in ("category", "SEC"):
        case = Case(3, True, 5, method=method)
        one, other = (case.problem(table).total for table in case.tables())
        assert one == other
        of_rows = case.counted * (case.dense @ case.mu.repeat(WIDTHS))
        assert one == pytest.approx((of_rows / (case.degrees if method == "SEC" else 1)).sum(), rel=1e-12)


@pytest.mark.skipif(gxx() is None, reason="g++ is not installed: no kernel runs on the stand-in device")
@pytest.mark.parametrize("method", ["category", "SEC"])
def test_four_numbers_of_an_iteration_come_back_to_the_host(method):
    """Nothing goes up, and launches do not depend on rows, partitions or clusters."""
    found = []
    for holes in (0.0, 0.2):
        with standin.installed(ShimModule) as device:
            m, marks = membership(device, random_codes(np.random.default_rng(0), N, WIDTHS, holes), WIDTHS), []
            table, weighting = blocks.whole(m), Weighting(np.ones(len(WIDTHS)), None, "float64")
            sec = method == "SEC"
            costs = SECCosts.of(table, weighting) if sec else KCCCosts.of("category", False, table, weighting)
            problem, start = lloyd.Problem.of(table, costs, 3), labellings.Given(device.arange(N, dtype="int32") % 3)
            lloyd.lloyd(
                problem, start, 12, True, after_each=lambda *_, marks=marks: marks.append(dataclasses.replace(TALLY))
            )
        found += [after - before for before, after in itertools.pairwise(marks)]
    assert {(one.reads, one.down, one.up) for one in found} == {(1, 32, 0)}
    assert len(found) > 5
    assert min(one.launches for one in found) == (18 if method == "SEC" else 16)
    assert max(one.launches for one in found) <= 30  # counted anew
