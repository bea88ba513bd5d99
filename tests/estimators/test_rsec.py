"""RSEC and NRSEC against a dense, literal transcription of the paper's algorithms."""

import dataclasses
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import gpuensemble as ge
from cudasim import standin
from cudasim.tally import TALLY
from gpuensemble._array import checks
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._linear import sequence
from gpuensemble.estimators.rsec import blocks as blocks_of_rows
from gpuensemble.estimators.rsec import solver
from support import random_codes

PENALTIES = ("nuclear", "gamma")
GAMMA = 2.0


def ensemble(n=180, r=20, n_clusters=2, holes=0.0, widths=6, noise=0.1, seed=0):
    """A partition, and noisy refinements of it with holes, -1."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_clusters, n)
    codes = random_codes(rng, n, np.full(r, widths), holes)
    part = rng.integers(0, widths, (r, n_clusters, 3))[np.arange(r), truth[:, None], rng.integers(0, 3, (n, r))]
    return truth, np.where((rng.random((n, r)) > noise) & (codes >= 0), part, codes)


def similarity(labels, signed=True):
    """S by its definition: agreements, less disagreements where there are holes, over the number of partitions."""
    agree, seen = np.zeros((2, len(labels), len(labels)))
    for column in labels.T:
        both = (column[:, None] >= 0) & (column >= 0)
        agree += both & (column[:, None] == column)
        seen += both
    return (2 * agree - seen if signed and (labels < 0).any() else agree) / labels.shape[1]


def inverse_root(degrees):
    return np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)


def transcription(s, k, penalty, n_iter, n_outer=1, until=0.0):
    """Z, E and F F' after each iteration: Algorithm 1 or 2, with full decompositions and nothing rotated."""
    n = len(s)
    l1, l2, rho = {"nuclear": 0.1, "gamma": 1.0}[penalty], 0.01, 1.3
    z, e, j, f = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, k))
    square = s.T @ s
    inverse = np.linalg.inv(square + np.eye(n))
    for _ in range(n_outer):
        rank_weights = np.maximum(1 - np.linalg.svd(j, compute_uv=False) / GAMMA, 0) if penalty == "gamma" else 1
        error_weights = np.maximum(1 - np.abs(e) / GAMMA, 0)
        y1, y2, mu = np.zeros((n, n)), np.zeros((n, n)), 1.5 / np.linalg.norm(s, 2)
        for _ in range(n_iter):
            u, sigma, v = np.linalg.svd(z + y2 / mu)
            j = (u * np.maximum(sigma - l1 / mu * rank_weights, 0)) @ v
            scaled = inverse_root(((z + z.T) / 2 + f @ f.T).sum(1))[:, None] * f
            z = inverse @ (square + j - s.T @ e + (s.T @ y1 - y2 + scaled @ scaled.T) / mu)
            q = s - s @ z + y1 / mu
            if penalty == "gamma":
                e = np.sign(q) * np.maximum(np.abs(q) - l2 / mu * error_weights, 0)
            else:
                length = np.linalg.norm(q, axis=0)
                e = q * np.maximum(length - l2 / mu, 0) / np.where(length > 0, length, 1)
            graph = (z + z.T) / 2 + f @ f.T
            root = inverse_root(graph.sum(1))
            f = np.linalg.eigh(root[:, None] * graph * root)[1][:, -k:]
            gap, difference = s - s @ z - e, z - j
            y1 += mu * gap
            y2 += mu * difference
            mu = min(rho * mu, 1e10)
            yield z, e, f @ f.T
            if max(np.linalg.norm(gap), np.linalg.norm(difference)) < until:
                break


def settings(penalty, n_outer=2, tol=1e-6, max_iter=200):
    nuclear = penalty == "nuclear"
    return solver.Settings(0.1 if nuclear else 1.0, 0.01, None if nuclear else GAMMA, n_outer, None, 1.3, tol, max_iter)


def iterates(s, k, given):
    """Z, E and F F' after each iteration of ours, and which of the singular value thresholdings used a block."""
    found, blocks = [], []

    def watch(state):
        z, e = state.qt.T @ state.z, state.error.dense(state.qt, namespace(state.z).empty_like(state.z))
        found.append([to_host(x) for x in (z, e, state.f @ state.f.T)])
        blocks.append(float(state.thresholding.report[3]) > 0)

    solver.solve(s, k, given, np.random.default_rng(0), watch)
    return found, blocks


def assert_same_iterates(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-8)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(
    ("n", "k", "holes", "signed"), [(40, 3, 0, False), (40, 3, 0.3, True), (180, 2, 0, False), (180, 2, 0.3, False)]
)
def test_fifty_iterations_are_those_of_the_transcription(xp, penalty, n, k, holes, signed):
    s = similarity(ensemble(n, n_clusters=k, holes=holes)[1], signed)
    found, blocks = iterates(xp.asarray(s.copy()), k, settings(penalty, 1, 1e-300, 50))
    assert sum(blocks) > 30 if n == 180 else not any(blocks)  # mostly block iterations, or full decompositions
    assert_same_iterates(found, transcription(s, k, penalty, 50))


def test_the_second_outer_step_is_that_of_the_transcription(xp):
    s = similarity(ensemble()[1])
    found, _ = iterates(xp.asarray(s.copy()), 2, settings("gamma", 2, 1e-300, 25))
    assert_same_iterates(found, transcription(s, 2, "gamma", 25, 2))
    assert np.abs(found[49][0] - found[24][0]).max() > 1e-3


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("holes", [0, 0.3])
@pytest.mark.parametrize("assign", ["representation", "embedding"])
def test_a_hidden_partition_is_found_in_every_library(xp, penalty, holes, assign):
    truth, labels = ensemble(80, n_clusters=3, holes=holes)
    estimator = ge.RSEC(3, penalty=penalty, assign=assign, random_state=0)
    found = estimator.fit(xp.asarray(labels))
    assert found is estimator
    assert ge.metrics.ari(truth, to_host(found.labels_)) > 0.9
    assert found.device_ == ("cpu" if xp is np else "cuda:0")
    for x, shape in ((found.representation_, (80, 80)), (found.error_, (80, 80)), (found.embedding_, (80, 3))):
        assert namespace(x) is xp
        assert x.dtype == "float64"
        assert x.shape == shape
    expected = clone(estimator).set_params(device="cpu").fit(labels)
    np.testing.assert_array_equal(to_host(found.labels_), expected.labels_)
    np.testing.assert_allclose(to_host(found.representation_), expected.representation_, atol=1e-7)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("holes", "missing"), [(0, "signed"), (0.3, "signed"), (0.3, "ignore")])
def test_the_constraint_holds_at_the_end(penalty, holes, missing):
    _, labels = ensemble(holes=holes)
    fitted = ge.RSEC(2, penalty=penalty, missing=missing, random_state=0, device="cpu").fit(labels)
    s = similarity(labels, missing == "signed")
    residual = np.linalg.norm(s - s @ fitted.representation_ - fitted.error_) / np.linalg.norm(s)
    assert residual < 1e-6
    assert residual <= fitted.residual_path_[-1] * (1 + 1e-3)
    assert fitted.residual_path_[-1] < 1e-6 <= fitted.residual_path_[-2]
    assert len(fitted.residual_path_) == len(fitted.objective_path_) == fitted.n_iter_
    np.testing.assert_allclose(fitted.embedding_.T @ fitted.embedding_, np.eye(2), atol=1e-10)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_objective_is_what_is_minimised(penalty):
    _, labels = ensemble(40)
    fitted = ge.RSEC(2, penalty=penalty, random_state=0, tol=1e-9, device="cpu").fit(labels)
    z, e, f = fitted.representation_, fitted.error_, fitted.embedding_
    graph = (z + z.T) / 2 + f @ f.T  # F has converged as well: the old one and the new one are the same
    root = inverse_root(graph.sum(1))
    sigma = np.linalg.svd(z, compute_uv=False)
    if penalty == "nuclear":
        norms = 0.1 * sigma.sum() + 0.01 * np.linalg.norm(e, axis=0).sum()
    else:
        norms = concave(sigma).sum() + 0.01 * concave(e).sum()
    expected = np.trace(f.T @ (np.eye(40) - root[:, None] * graph * root) @ f) + norms
    assert fitted.objective_ == pytest.approx(expected, rel=1e-4)


def concave(x):
    """The minimax concave penalty by its definition (Eq. 18), lambda = 1."""
    return np.where(np.abs(x) >= GAMMA, GAMMA / 2, np.abs(x) - x**2 / (2 * GAMMA))


@pytest.mark.parametrize("penalty", PENALTIES)
def test_permuting_samples_permutes_the_result(penalty):
    _, labels = ensemble(60, n_clusters=3)
    order = np.random.default_rng(1).permutation(60)
    estimator = ge.RSEC(3, penalty=penalty, random_state=0, device="cpu")
    plain, permuted = clone(estimator).fit(labels), clone(estimator).fit(labels[order])
    np.testing.assert_allclose(permuted.representation_, plain.representation_[np.ix_(order, order)], atol=1e-7)
    np.testing.assert_allclose(permuted.error_, plain.error_[np.ix_(order, order)], atol=1e-7)
    assert ge.metrics.ari(permuted.labels_, plain.labels_[order]) == 1


@pytest.mark.parametrize("penalty", PENALTIES)
def test_float32_gives_the_same_labels(xp, penalty):
    _, labels = ensemble()
    estimator = ge.RSEC(2, penalty=penalty, random_state=0)
    double = clone(estimator).set_params(device="cpu").fit(labels)
    single = clone(estimator).set_params(dtype="float32").fit(xp.asarray(labels))
    for x in (single.representation_, single.error_, single.embedding_):
        assert x.dtype == "float32"
    assert single.residual_path_[-1] < 1e-6
    np.testing.assert_allclose(to_host(single.representation_), double.representation_, atol=1e-3)
    np.testing.assert_array_equal(to_host(single.labels_), double.labels_)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("n", "k"), [(40, 3), (180, 2)])
def test_the_host_waits_once_an_iteration(penalty, n, k):
    s = similarity(ensemble(n)[1])
    with standin.installed(None) as cupy:
        given = cupy.asarray(s)
        before = TALLY.reads
        found = solver.solve(given, k, settings(penalty), np.random.default_rng(0))
        waits = TALLY.reads - before
    n_iter = len(found.residuals)
    assert n_iter > 20
    assert n_iter <= waits <= n_iter + 3  # mu, the start of the second outer step, the objectives


@pytest.mark.parametrize("penalty", PENALTIES)
def test_an_iteration_needs_thin_products_and_few_decompositions(penalty, monkeypatch):
    """Once the blocks are warm: three QR decompositions of n rows, one of them of few columns, and thin products."""
    n, k, followed, shapes, marks = 180, 2, 4, [], []  # two columns beside those of F
    for name in ("qr", "eigh", "svd"):
        host = getattr(np.linalg, name)
        spy = lambda x, *args, f=host, **options: (shapes.append(x.shape), f(x, *args, **options))[1]  # noqa: E731
        monkeypatch.setattr(np.linalg, name, spy)

    def watch(state):
        passes, width = state.thresholding.n_passes, state.thresholding.width
        marks.append((dataclasses.replace(TALLY), list(shapes), state.depth + 2, passes, width))
        shapes.clear()

    given = settings(penalty, 1, 1e-300, 25)
    with standin.installed(None) as cupy:
        solver.solve(cupy.asarray(similarity(ensemble(n)[1])), k, given, np.random.default_rng(0), watch)
    steps = [pair for pair in pairwise(marks[8:]) if (n, n) not in pair[1][1]]  # where no block had to be repeated
    assert len(steps) > 10
    for (before, *_, passes, width), (after, shapes_of, depth, *_) in steps:
        found = after - before
        assert [shape[0] for shape in shapes_of].count(n) <= 3
        assert found.reads == 1
        assert found.down == 8 * 7
        assert found.up <= 8 * 4 * n  # random columns
        dense = 0 if penalty == "nuclear" else 2 * n
        assert found.multiplied < 2 * n**2 * ((2 * passes + 5) * width + 4 * followed * (depth + 4) + dense)
        assert found.launches < 200 + 40 * (passes + depth)


@pytest.mark.parametrize(("penalty", "most"), [("nuclear", 7), ("gamma", 8)])
@pytest.mark.parametrize("blocks", [True, False])
def test_eight_arrays_are_enough(monkeypatch, penalty, most, blocks):
    n = 400
    monkeypatch.setitem(blocks_of_rows.BLOCK_NUMBERS, "cpu", n)
    if not blocks:
        monkeypatch.setattr(sequence, "PROBES", n)  # a block of this width is not tried
    s = similarity(ensemble(n)[1])
    tracemalloc.start()
    try:
        solver.solve(s.copy(), 2, settings(penalty, max_iter=12), np.random.default_rng(0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most - 0.5 < peak / (8 * n**2) < most + 0.9  # beside them, blocks of singular vectors, n x 36


SMALL = {
    "one cluster": ([[0, 0], [1, 1], [0, 1]], 1, 1),
    "as many clusters as rows": ([[0, 0], [1, 1], [0, 1]], 3, 3),
    "one partition": ([[0], [1], [1], [2]], 3, 3),
    "one row": ([[0, 5]], 1, 1),
    "partitions of one cluster": ([[0, 0], [0, 0], [0, 1]], 2, 2),
    "rows all equal": ([[1, 2]] * 30, 1, 1),
}


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("assign", ["representation", "embedding"])
@pytest.mark.parametrize(("labels", "n_clusters", "expected"), SMALL.values(), ids=SMALL)
def test_small_tables(penalty, assign, labels, n_clusters, expected):
    fitted = ge.RSEC(n_clusters, penalty=penalty, assign=assign, random_state=0, device="cpu").fit(labels)
    assert len(set(fitted.labels_.tolist())) == expected
    assert fitted.residual_path_[-1] < 1e-6


def test_fewer_distinct_rows_than_clusters_warn():
    with pytest.warns(ConvergenceWarning, match=r"`n_clusters` = 3 is more than there are distinct rows: 1 clusters\."):
        assert ge.RSEC(3, device="cpu").fit_predict([[2, 2]] * 6).tolist() == [0] * 6


def test_too_few_iterations_warn():
    message = r"`max_iter` = 5 iterations did not lead to convergence: the residual is .*, `tol` is 1e-06; raise"
    with pytest.warns(ConvergenceWarning, match=message):
        ge.RSEC(2, max_iter=5, device="cpu").fit(ensemble(40)[1])


def test_one_partition_gives_itself():
    labels = np.arange(30)[:, None] % 3
    for penalty in PENALTIES:
        found = ge.RSEC(3, penalty=penalty, random_state=0, device="cpu").fit_predict(labels)
        np.testing.assert_array_equal(found, labels[:, 0])


BAD = {
    "no clusters": ({"n_clusters": 0}, "`n_clusters` must be between 1 and n_samples=40, got 0."),
    "too many clusters": ({"n_clusters": 41}, "`n_clusters` must be between 1 and n_samples=40, got 41."),
    "a penalty": ({"penalty": "rank"}, "`penalty` must be one of 'nuclear', 'gamma', got 'rank'."),
    "an assignment": ({"assign": "Z"}, "`assign` must be one of 'representation', 'embedding', got 'Z'."),
    "holes": ({"missing": "zero"}, "`missing` must be one of 'ignore', 'signed', got 'zero'."),
    "lambda_rank": ({"lambda_rank": 0.0}, "`lambda_rank` must be finite and greater than 0, got 0."),
    "lambda_error": ({"lambda_error": -1}, "`lambda_error` must be finite and greater than 0, got -1."),
    "NaN": ({"lambda_error": np.nan}, "`lambda_error` must be finite and greater than 0, got nan."),
    "gamma": ({"gamma": 1.0}, "`gamma` must be finite and greater than 1, got 1."),
    "n_outer": ({"n_outer": 0}, "`n_outer` must be at least 1, got 0."),
    "mu": ({"mu": 0.0}, "`mu` must be finite and greater than 1e-100, got 0."),
    "rho": ({"rho": 1.0}, "`rho` must be finite and greater than 1, got 1."),
    "tol": ({"tol": 0.0}, "`tol` must be finite and greater than 0, got 0."),
    "text": ({"tol": "1e-6"}, "`tol` must be a number, got '1e-6' of type str."),
    "max_iter": ({"max_iter": 0}, "`max_iter` must be at least 1, got 0."),
    "a dtype": ({"dtype": "float16"}, "`dtype` must be one of 'float32', 'float64', got 'float16'."),
    "a seed": ({"random_state": -1}, "`random_state` must be None, an integer of at least 0 or a generator, got -1."),
}


@pytest.mark.parametrize(("parameters", "message"), BAD.values(), ids=BAD)
def test_bad_parameters_get_one_sentence(parameters, message):
    with pytest.raises((TypeError, ValueError)) as error:
        ge.RSEC(2, device="cpu").set_params(**parameters).fit(ensemble(40)[1])
    assert str(error.value) == message


def test_arrays_that_do_not_fit_are_refused_before_any_work(xp, monkeypatch):
    monkeypatch.setattr(checks, "memory", lambda device: 10**5)
    monkeypatch.setattr(solver, "solve", None)
    has = "this machine has 0.0001 GB" if xp is np else "cuda:0 has 0.0001 GB free"
    message = (
        f"RSEC's 8 arrays of 180 x 180 must fit into memory: 0.00207 GB are needed, {has}; SEC and KCC are linear in n."
    )
    with pytest.raises(ValueError, match="fit into memory") as error:
        ge.RSEC(2).fit(xp.asarray(ensemble()[1]))
    assert str(error.value) == message


def test_a_bar_shows_the_residual(capsys):
    ge.RSEC(2, verbose=1, device="cpu").fit(ensemble(40)[1])
    assert "residual=" in capsys.readouterr().err
