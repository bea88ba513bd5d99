"""The best of several runs, one after another and side by side in threads."""

import threading

import numpy as np
import pytest

import gpuensemble as ge
from gpuensemble._array import random
from gpuensemble._kmeans.labels import labellings, lloyd, runs
from gpuensemble._kmeans.labels.costs import KCCCosts, SECCosts
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables import blocks
from support import membership, random_codes

N, K, WIDTHS = 40, 3, np.array([3, 4, 2])


def problem_of(name="SEC"):
    table = blocks.whole(membership(np, random_codes(np.random.default_rng(0), N, WIDTHS, 0.3), WIDTHS))
    weighting = Weighting(np.ones(3), None, "float64")
    costs = SECCosts.of(table, weighting) if name == "SEC" else KCCCosts.of("category", False, table, weighting)
    return lloyd.Problem.of(table, costs, K)


class Given:
    """Starts with labels of their own, each of which is known by what its generator draws first."""

    def __init__(self, starts):
        self.starts, self.threads, self.tables = starts, set(), []
        generators = random.generators(4, len(starts))
        self.known = {int(rng.integers(2**62)): start for rng, start in zip(generators, starts, strict=True)}

    def best(self, problem, **more):
        starts = runs.Starts(len(self.starts), self.labelling)
        return runs.best_run(problem, starts, 100, random.sequence(4), **more)

    def labelling(self, problem, rng):
        self.threads.add(threading.get_ident())
        self.tables.append(problem.table)
        return labellings.Given(self.known[int(rng.integers(2**62))])


@pytest.fixture(params=[1, 2, 3])
def n_threads(request, spread, monkeypatch):
    """So many threads, which have runs of the smallest tables side by side."""
    monkeypatch.setattr(runs, "SHORT", 0)
    spread(request.param)
    return request.param


@pytest.mark.parametrize("name", ["SEC", "KCC"])
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 1], [3]])
def test_the_best_run_is_the_one_with_the_least_objective(order, name, n_threads):
    problem = problem_of(name)
    starts = [np.random.default_rng(i).integers(0, K, N).astype("int32") for i in range(6)]
    alone = [lloyd.lloyd(problem, labellings.Given(starts[i]), 100) for i in order]
    assert len({run.objective for run in alone}) == len(order)
    given = Given([starts[i] for i in order])
    found, expected = given.best(problem), min(alone, key=lambda run: run.objective)
    assert (found.path, found.evaluated) == (expected.path, expected.evaluated)
    np.testing.assert_array_equal(found.statistics.counts, expected.statistics.counts)
    apart = n_threads > 1 and len(order) >= n_threads
    assert all((table is problem.table) != apart for table in given.tables[: len(order) - len(order) % n_threads])
    assert all(table is problem.table for table in given.tables[len(order) - len(order) % n_threads :])
    assert (threading.get_ident() in given.threads) == (not apart or len(order) % n_threads > 0)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_of_equal_runs_the_first_is_the_best(first, n_threads):
    """The same start with other names of its clusters."""
    problem = problem_of()
    start = np.random.default_rng(0).integers(0, K, N).astype("int32")
    starts = [(start + first + i) % K for i in range(6)]
    expected = lloyd.lloyd(problem, labellings.Given(starts[0]), 100)
    found = Given(starts).best(problem)
    assert found.path == expected.path
    np.testing.assert_array_equal(found.statistics.counts, expected.statistics.counts)


def test_what_is_shown_adds_up_to_all_iterations(n_threads):
    shown = []
    given = Given([np.random.default_rng(i).integers(0, K, N).astype("int32") for i in range(6)])
    given.best(problem_of(), show=lambda n, **facts: shown.append(n))
    assert sum(shown) == 6 * 100


def test_a_run_that_fails_ends_the_others(n_threads, monkeypatch):
    """The caller gets the error, and no run goes on behind his back."""
    begun, ended, first = [], [], threading.Event()

    def lloyd(problem, start, max_iter, skip, after_each):
        begun.append(start)
        if start == 0:
            first.wait(60)
            raise ZeroDivisionError
        first.set()
        for _ in range(10**6):
            after_each(lloyd_progress, 1)
        ended.append(start)

    lloyd_progress = runs.lloyd(problem_of(), labellings.Given(np.zeros(N, "int32")), 1)
    monkeypatch.setattr(runs, "lloyd", lloyd)
    if n_threads == 1:
        first.set()
    numbers = iter(range(6))
    with pytest.raises(ZeroDivisionError):
        runs.best_run(problem_of(), runs.Starts(6, lambda problem, rng: next(numbers)), 100, random.sequence(4))
    assert len(begun) <= (1 if n_threads == 1 else n_threads + 1)  # the thread that failed may have begun another one
    assert ended == []


@pytest.mark.parametrize("method", [ge.SEC, ge.KCC])
@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_a_fit_has_the_same_bits_with_any_number_of_threads(method, init, spread, monkeypatch):
    labels = np.random.default_rng(0).integers(-1, 6, (700, 9))
    monkeypatch.setattr(runs, "SHORT", 0)
    found = []
    for number in (1, 2, 4):
        spread(number)
        fitted = method(5, init=init, n_init=7, random_state=0, device="cpu").fit(labels)
        found.append((fitted.objective_path_, fitted.labels_.tolist(), fitted.confidence_.tolist(), fitted.evaluated_))
    assert found[0] == found[1] == found[2]


def test_runs_of_many_rows_share_their_memory(spread, monkeypatch):
    """With so many rows that what all runs know of them takes much, one run goes on at a time."""
    monkeypatch.setattr(runs, "SHORT", 0)
    problem = problem_of()
    given = Given([np.random.default_rng(i).integers(0, K, N).astype("int32") for i in range(4)])
    spread(2)
    monkeypatch.setattr(runs, "ROOM", 2 * N - 1)
    given.best(problem)
    assert all(table is problem.table for table in given.tables)
    monkeypatch.setattr(runs, "ROOM", 2 * N)
    given.tables.clear()
    given.best(problem)
    assert all(table is not problem.table for table in given.tables)
