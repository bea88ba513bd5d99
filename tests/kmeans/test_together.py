"""Threads share the iterations of a run in memory: whatever they do when, the run is the same."""

import gc
import threading
import tracemalloc
import warnings
import weakref

import numpy as np
import pytest
from scipy import sparse

import gpuensemble as ge
from gpuensemble._array import threads
from gpuensemble._array.csr import matrix
from gpuensemble._kernels.cpu import membership as cpu
from gpuensemble._kernels.cpu.features import spans
from gpuensemble._kernels.cpu.kmeans import sharing
from gpuensemble._kmeans.features.lloyd import kmeans
from gpuensemble._kmeans.labels import labellings, lloyd
from gpuensemble._kmeans.labels.costs import KCCCosts, SECCosts
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables import blocks
from support import membership, onehot, random_codes

N, K, WIDTHS = 1500, 6, np.array([5, 9, 2, 7, 30])


def problem_of(method, holes, dtype="float64"):
    table = blocks.whole(membership(np, random_codes(np.random.default_rng(0), N, WIDTHS, holes), WIDTHS))
    weighting = Weighting(np.ones(len(WIDTHS)), None, dtype)
    costs = SECCosts.of(table, weighting) if method == "SEC" else KCCCosts.of(method, True, table, weighting)
    return lloyd.Problem.of(table, costs, K)


def run_of(problem):
    start = labellings.Given(np.random.default_rng(1).integers(0, K, N).astype("int32"))
    run = lloyd.lloyd(problem, start, 30, skip=True)
    (labels,) = problem.table.columns(lloyd.labels_of, (problem.costs, run.labelling), ("int32",))
    return run.path, run.evaluated, labels.tolist(), run.statistics.counts.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("holes", [0, 0.3])
@pytest.mark.parametrize("method", ["SEC", "category", "cosine"])
def test_any_number_of_threads_has_the_bits_of_blocks_one_after_another(method, holes, dtype, spread):
    """The other road is `step` for each block of a table that is not in memory, one iteration after another."""
    problem = problem_of(method, holes, dtype)
    m = problem.table.block.m
    bounds = [0, 300, 301, N]
    streamed = problem._replace(table=blocks.Streamed(m.codes, bounds, m.widths, m.complete, None))
    expected = run_of(streamed)
    assert len(expected[0]) > 4
    for number in (1, 2, 5):
        spread(number)
        assert run_of(problem) == expected


@pytest.mark.parametrize("times", [1, 1 << 20, 1 << 30])
def test_weights_whose_sums_take_more_than_32_bits_are_counted(times, spread):
    """N rows of weight `times` have the labels of N rows, and counts so many times as large."""
    spread(2)
    expected = run_of(problem_of("category", 0.3))
    table = problem_of("category", 0.3).table
    weighted = blocks.whole(table.block.m, np.full(N, times))
    costs = KCCCosts.of("category", True, weighted, Weighting(np.ones(len(WIDTHS)), None, "float64"))
    found = run_of(lloyd.Problem.of(weighted, costs, K))
    assert found[2] == expected[2]
    np.testing.assert_array_equal(found[3], np.array(expected[3]) * times)
    assert times < 1 << 30 or np.max(found[3]) > 2**31


def test_room_does_not_grow_with_the_most_iterations():
    table = blocks.whole(membership(np, np.array([[0], [0], [1], [1]]), [2]))
    costs = KCCCosts.of("category", False, table, Weighting(np.ones(1), None, "float64"))
    problem, start = lloyd.Problem.of(table, costs, 2), labellings.Given(np.array([0, 1, 1, 1], "int32"))
    lloyd.lloyd(problem, start, 10)  # compiles
    tracemalloc.start()
    try:
        assert lloyd.lloyd(problem, start, 10**9).converged
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n_clusters", [K, N])
def test_a_fitted_estimator_keeps_nothing_that_iterations_worked_in(n_clusters):
    """Its counts are copies, not parts of a larger piece of memory."""
    codes = random_codes(np.random.default_rng(0), N, [3, 2], 0)
    method = ge.KCC(n_clusters, init="random", n_init=1, random_state=0, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fewer distinct rows
        method.fit(codes)
    assert method._statistics.counts.base is None
    assert ge.SEC(2, init=codes[:, 1], device="cpu").fit(codes)._statistics.masses.base is None


def test_threads_that_come_and_go_change_nothing(spread):
    """Many short runs with more threads than cores: they are late, early, and absent."""
    spread(1)
    problem = problem_of("SEC", 0)
    expected = run_of(problem)
    spread(4)
    assert all(run_of(problem) == expected for _ in range(40))


@pytest.mark.parametrize("worth", [0, 10**9])
@pytest.mark.parametrize("holes", [0, 0.3])
def test_threads_count_rows_or_partitions(spread, monkeypatch, holes, worth):
    """With cells of their own, or each in partitions of its own."""
    monkeypatch.setattr(cpu, "BRIEF", 2)
    monkeypatch.setattr(cpu, "SPAN", 100)
    monkeypatch.setattr(cpu, "WORTH", worth)
    rng = np.random.default_rng(0)
    codes, labels = random_codes(rng, N, WIDTHS, holes), rng.integers(0, K, N).astype("int32")
    m = membership(np, codes, WIDTHS)
    weight, mass = rng.integers(0, 9, (2, N))
    dense = onehot(codes, WIDTHS).astype("int64")
    labelled = np.eye(K, dtype="int64")[labels]
    seen = (m.codes != 255).astype("int64")
    for number in (1, 2, 5):
        spread(number)
        np.testing.assert_array_equal(cpu.count(m, labels, weight, K), (dense.T * weight) @ labelled)
        counts, masses = cpu.count_masses(m, labels, None, mass, K)
        np.testing.assert_array_equal(counts, dense.T @ labelled)
        np.testing.assert_array_equal(masses, (seen.T * mass) @ labelled)


@pytest.mark.parametrize("kind", ["dense", "of many clusters", "weighted", "sparse", "kl"])
def test_features_have_the_same_clusters_with_any_number_of_threads(kind, spread):
    """Rows are chosen for in spans, of which the last is short; their sums are added up in the order of the rows."""
    rng = np.random.default_rng(0)
    n, k = 3 * spans.SPAN + 100, 40 if kind == "of many clusters" else 7
    X = np.abs(rng.standard_normal((n, 9)) + rng.integers(0, 4, (n, 1)))
    if kind == "sparse":
        X = matrix(sparse.csr_array(X * (rng.random(X.shape) < 0.3)), "X", "cpu")
    weight = rng.random(n) if kind == "weighted" else None
    distance = "kl" if kind == "kl" else "sqeuclidean"

    def run(threads):
        spread(threads)
        return kmeans(X, k, np.random.default_rng(0), distance=distance, sample_weight=weight, tol=0, max_iter=8)

    expected = run(1)
    assert expected.n_iter > 3
    for number in (2, 3):
        found = run(number)
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_array_equal(found.centers, expected.centers)
        assert (found.objective, found.n_iter) == (expected.objective, expected.n_iter)


def test_nobody_waits_for_a_thread_that_is_busy_elsewhere(spread):
    problem = problem_of("SEC", 0)
    expected = run_of(problem)
    pool, free = spread(3), threading.Event()
    busy = [pool.submit(free.wait) for _ in range(3)]
    assert run_of(problem) == expected  # would never end
    assert problem.table.block.m.sizes().sum() == N * len(WIDTHS)
    free.set()
    assert all(one.result() for one in busy)


def test_calls_are_shared_out_and_answered_in_their_order(spread):
    pool, both = spread(2), threading.Barrier(2, timeout=60)
    here = set()

    def one(a, b):
        if a < 2:
            both.wait()  # would not come back if one thread had both
        here.add(threading.get_ident())
        return a * b

    assert threads.shared(one, range(7), range(7)) == [a * a for a in range(7)]
    assert threading.get_ident() in here
    assert len(here) == 2
    with pytest.raises(ZeroDivisionError):
        threads.shared(lambda a: 1 // a, [3, 0, 1])
    assert threads.shared(one, [], []) == []
    assert pool.submit(int).result() == 0


class Large:
    """This stands for an array."""


def test_calls_that_the_pool_never_began_keep_no_memory(spread):
    """They stay in its queue until a thread is free, which may be long."""
    pool, free = spread(3), threading.Event()
    busy = [pool.submit(free.wait) for _ in range(3)]
    large = [Large(), Large()]
    kept = [weakref.ref(one) for one in large]

    def over_spans(one):
        threads.over_spans(3, 1, lambda first, last: (one, first, last), alone=False)

    over_spans(large[0])
    assert sharing.led(lambda one, me, control: me, (large[1],), [(0,), (1,)]) == 0
    large.clear()
    gc.collect()
    found = [one() for one in kept]
    free.set()
    assert found == [None, None]
    assert all(one.result() for one in busy)


def test_a_helper_that_waited_long_sleeps_and_comes_again(spread, monkeypatch):
    """The leader begins late: the first helpers have given up by then."""
    naps, calls = [], iter(range(10**6))
    monkeypatch.setattr(sharing.time, "sleep", naps.append)

    def kernel(me, control):
        if me == 0:
            while len(naps) < 3:
                pass
            return 7
        return control[sharing.PHASE] != sharing.END and next(calls) >= 0

    spread(2)
    assert sharing.led(kernel, (), [(0,), (1,)]) == 7
    assert set(naps) == {sharing.NAP}
