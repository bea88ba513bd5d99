"""LTA against its transcription, iterate by iterate, and the laws it keeps."""

import tracemalloc
import warnings
from itertools import islice

import literal_lta
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import gpuensemble as ge
from cudasim import standin
from cudasim.shim import ShimModule, gxx
from cudasim.tally import TALLY
from gpuensemble import Membership
from gpuensemble._array import devices
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._kernels.cpu import lta as cpu_lta
from gpuensemble._kernels.cuda import lta as cuda
from gpuensemble._linear.symmetric import SymmetricSequence
from gpuensemble.estimators.lta import solver

TRANSFORMS = ("partition", "sample")
ORDER = r'^The result of `transform="sample"` depends on the order of the rows; that of "partition" does not\.$'


def ensemble(n=40, r=5, n_clusters=3, noise=0.3, seed=0):
    """A partition in sorted order, and noisy copies of it without holes."""
    rng = np.random.default_rng(seed)
    truth = np.sort(rng.integers(0, n_clusters, n))
    labels = np.stack([rng.permutation(n_clusters + 1)[truth] for _ in range(r)], axis=1)
    return truth, np.where(rng.random(labels.shape) < noise, rng.integers(0, n_clusters + 1, labels.shape), labels)


def membership(xp, labels):
    return Membership.from_labels(xp.asarray(labels), "cpu" if xp is np else "cuda")


def fitted(model, labels):
    """`fit`, with the warning of the sample transform."""
    if model.get_params()["transform"] == "partition":
        return model.fit(labels)
    with pytest.warns(UserWarning, match=ORDER):
        return model.fit(labels)


# ------------------------------------------------------------------------------------------------ the transcription


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("n", [24, 33])
def test_every_variable_of_every_iterate_is_the_transcription_s(xp, n, transform):
    _, labels = ensemble(n)
    m = membership(xp, labels)
    rows, group, copies, *_ = m.merge() if transform == "partition" else (m, xp.arange(n), xp.ones(n))
    assert transform == "sample" or len(copies) < n
    copies = copies.astype("float64")
    state, path = solver._while_zero(rows, copies, transform, 0.002, 0, "float64")
    assert len(path) == 0
    kernels = cpu_lta if xp is np else cuda
    shrink = solver.shrinkage(transform, state.tensor, copies)
    group, nonzero, compared = to_host(group), 0, 0
    for step, expected in zip(solver.steps(0.002), literal_lta.iterations(labels, transform), strict=False):
        shrink.begin(state.tensor, step.inverse)
        shrink.finish(state.tensor, to_host(shrink.report).tolist())
        tensor = to_host(state.tensor).copy()
        residual = float(kernels.lta_update(*state, step).max())
        found = (*tensor, *map(to_host, (state.error, state.first, state.third)))
        for one, two in zip(found, (expected.P1, expected.P2, expected.E, expected.L1, expected.L3), strict=True):
            # Our transform runs along the rows of the transposed variables.
            np.testing.assert_allclose(one[np.ix_(group, group)], two.T if transform == "sample" else two, atol=1e-9)
        np.testing.assert_allclose(expected.L2, -2 * 0.002 * expected.E, atol=1e-9)
        assert residual == pytest.approx(expected.residual, abs=1e-9)
        nonzero += abs(expected.P2).max() > 0
        compared += 1
        if expected.residual < 1e-8:
            break
    assert compared > 80
    assert nonzero > 30


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("n", [24, 33])
def test_runs_end_where_the_transcription_ends(xp, n, transform):
    _, labels = ensemble(n)
    run = solver.coassociation(membership(xp, labels), transform, 0.002, 1e-8, 500, "float64")
    last, n_iter = literal_lta.run(labels, transform)
    iterates = list(islice(literal_lta.iterations(labels, transform), n_iter))
    assert namespace(run.coassociation) is xp
    assert run.converged
    np.testing.assert_allclose(run.residual_path, [one.residual for one in iterates], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(run.objective_path, [one.objective for one in iterates], rtol=1e-9)
    np.testing.assert_allclose(to_host(run.coassociation), literal_lta.symmetric(last.P2), atol=1e-9)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("max_iter", [1, 50, 60])
def test_a_run_can_end_early(transform, max_iter):
    _, labels = ensemble()
    run = solver.coassociation(membership(np, labels), transform, 0.002, 1e-8, max_iter, "float64")
    last, _ = literal_lta.run(labels, transform, max_iter=max_iter)
    assert not run.converged
    assert len(run.residual_path) == max_iter
    np.testing.assert_allclose(run.coassociation, literal_lta.symmetric(last.P2), atol=1e-9)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_first_iterates_are_zero_and_skipped(transform):
    _, labels = ensemble()
    m = membership(np, labels)
    rows, copies = (m.merge().membership, m.merge().multiplicity) if transform == "partition" else (m, np.ones(40))
    state, path = solver._while_zero(rows, copies.astype(float), transform, 0.002, 500, "float64")
    iterates = list(islice(literal_lta.iterations(labels, transform), len(path) + 5))
    zeros = sum(not one.P1.any() and not one.P2.any() for one in iterates)
    assert 20 < len(path) <= zeros < len(iterates)
    group = m.merge().group if transform == "partition" else np.arange(40)
    np.testing.assert_allclose(state.error[np.ix_(group, group)], iterates[len(path) - 1].E, atol=1e-12)


# ------------------------------------------------------------------------------------------------ laws


def test_permuting_samples_permutes_the_result_of_the_partition_transform():
    _, labels = ensemble(60)
    order = np.random.default_rng(1).permutation(60)
    whole = ge.LTA(3, device="cpu", random_state=0).fit(labels)
    other = ge.LTA(3, device="cpu", random_state=0).fit(labels[order])
    np.testing.assert_allclose(other.coassociation_, whole.coassociation_[np.ix_(order, order)], atol=1e-7)
    assert ge.metrics.ari(other.labels_, whole.labels_[order]) == 1


def test_sorted_rows_decide_the_result_of_the_sample_transform():
    truth, labels = ensemble(120, r=6, n_clusters=12, noise=0.3)
    order = np.random.default_rng(1).permutation(120)
    model = ge.LTA(12, transform="sample", device="cpu", random_state=0)
    stored, shuffled = fitted(clone(model), labels), fitted(clone(model), labels[order])
    assert abs(shuffled.coassociation_ - stored.coassociation_[np.ix_(order, order)]).max() > 0.01
    assert ge.metrics.ari(truth, stored.labels_) > 0.5
    assert ge.metrics.ari(truth[order], shuffled.labels_) < 0.1


@pytest.mark.parametrize("assign", ["spectral", "average"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_hidden_partition_is_found_in_every_library(xp, transform, dtype, assign):
    n_clusters, noise, ari = (3, 0.15, 0.8) if transform == "partition" else (9, 0.3, 0.3)
    truth, labels = ensemble(45, 6, n_clusters, noise)
    model = ge.LTA(n_clusters, transform=transform, assign=assign, dtype=dtype, random_state=0)
    assert fitted(model, xp.asarray(labels)) is model
    assert namespace(model.labels_) is xp
    assert namespace(model.coassociation_) is xp
    assert model.labels_.dtype == "int32"
    assert model.coassociation_.dtype == dtype
    assert model.device_ == ("cpu" if xp is np else "cuda:0")
    assert ge.metrics.ari(truth, to_host(model.labels_)) > ari
    assert model.n_iter_ == len(model.objective_path_) == len(model.residual_path_)
    assert model.objective_ == model.objective_path_[-1]
    assert model.residual_path_[-1] < (1e-8 if dtype == "float64" else solver.FLOAT32_TOL * 45)
    refined = to_host(model.coassociation_)
    np.testing.assert_array_equal(refined, refined.T)
    expected = fitted(clone(model).set_params(device="cpu", dtype="float64"), labels)
    np.testing.assert_array_equal(to_host(model.labels_), expected.labels_)
    np.testing.assert_allclose(refined, expected.coassociation_, atol=1e-9 if dtype == "float64" else 1e-3)


@pytest.mark.skipif(gxx() is None, reason="g++ is not installed: no kernel runs on the stand-in device")
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_an_iteration_waits_for_the_device_once(transform, monkeypatch):
    """A full decomposition of a slice, as small ones have, is waited for once more: it says what the next may do."""
    _, labels = ensemble(20)
    made, full = [], SymmetricSequence._full
    monkeypatch.setattr(SymmetricSequence, "_full", lambda self, x: (made.append(x.shape), full(self, x))[1])
    with standin.installed(ShimModule) as cupy:
        m = membership(cupy, labels)
        waits = []
        for max_iter in (70, 80):
            before = TALLY.reads
            made.clear()
            run = solver.coassociation(m, transform, 0.002, 1e-8, max_iter, "float64")
            assert len(run.residual_path) == max_iter
            waits.append(TALLY.reads - before - len(made))
    assert waits[1] - waits[0] == 10


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_few_arrays_are_held(transform, dtype):
    n = 300
    _, labels = ensemble(n, r=20, n_clusters=5, noise=0.4)
    m = membership(np, labels)
    assert len(m.merge().multiplicity) == n
    arguments = (transform, 0.002, 1e-8, 85, dtype)
    peaks = []
    for _ in range(3):  # what the first one compiles, and what other threads have, is traced as well
        tracemalloc.start()
        run = solver.coassociation(m, *arguments)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert run.coassociation.any()
    assert min(peaks) < solver.ARRAYS * n * n * np.dtype(dtype).itemsize


# ------------------------------------------------------------------------------------------------ small and bad input

SMALL = {
    "one row": ([[0, 5]], 1, 1),
    "two rows": ([[0, 0], [1, 1]], 2, 2),
    "one cluster": ([[0, 0], [1, 1], [0, 1]], 1, 1),
    "as many clusters as rows": ([[0, 0], [1, 1], [0, 2]], 3, 3),
    "one partition": ([[0], [1], [1], [2], [0]], 3, 3),
    "partitions of one cluster": ([[0, 0], [0, 0], [0, 1]], 2, 2),
}


@pytest.mark.parametrize("assign", ["spectral", "average"])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(("labels", "n_clusters", "expected"), SMALL.values(), ids=SMALL)
def test_small_tables(labels, n_clusters, expected, transform, assign):
    model = ge.LTA(n_clusters, transform=transform, assign=assign, device="cpu", random_state=0)
    found = fitted(model, labels).labels_
    distinct = len(set(found.tolist()))
    assert distinct == expected or (transform == "sample" and distinct < expected)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_equal_rows_are_one_cluster(transform):
    model = fitted(ge.LTA(1, transform=transform, device="cpu", random_state=0), [[3, 1]] * 7)
    assert model.labels_.tolist() == [0] * 7
    np.testing.assert_allclose(model.coassociation_, model.coassociation_[0, 0], atol=1e-9)


def test_the_sample_transform_warns_and_the_other_does_not():
    _, labels = ensemble(12)
    with pytest.warns(UserWarning, match=ORDER):
        ge.LTA(2, transform="sample", device="cpu", random_state=0).fit(labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ge.LTA(2, device="cpu", random_state=0).fit(labels)


def test_too_few_iterations_warn():
    _, labels = ensemble(12)
    message = r"^`max_iter` = 5 iterations left a residual of 1, `tol` = 1e-08 asks for less; raise `max_iter` or `tol`"
    with pytest.warns(ConvergenceWarning, match=message):
        ge.LTA(2, max_iter=5, device="cpu", random_state=0).fit(labels)


BAD = {
    "no clusters": ({"n_clusters": 0}, "`n_clusters` must be between 1 and n_samples=40, got 0."),
    "a transform": ({"transform": "fft"}, "`transform` must be one of 'partition', 'sample', got 'fft'."),
    "an assignment": ({"assign": "k-means"}, "`assign` must be one of 'spectral', 'average', got 'k-means'."),
    "lambda": ({"lambda_error": 0}, "`lambda_error` must be finite and greater than 0, got 0."),
    "negative lambda": ({"lambda_error": -1.0}, "`lambda_error` must be finite and greater than 0, got -1."),
    "NaN": ({"lambda_error": np.nan}, "`lambda_error` must be finite and greater than 0, got nan."),
    "text": ({"lambda_error": "1"}, "`lambda_error` must be a number, got '1' of type str."),
    "tol": ({"tol": 0.0}, "`tol` must be finite and greater than 0, got 0."),
    "no iterations": ({"max_iter": 0}, "`max_iter` must be at least 1, got 0."),
    "a dtype": ({"dtype": "float16"}, "`dtype` must be one of 'float32', 'float64', got 'float16'."),
    "a seed": ({"random_state": -1}, "`random_state` must be None, an integer of at least 0 or a generator, got -1."),
}


@pytest.mark.parametrize(("parameters", "message"), BAD.values(), ids=BAD)
def test_bad_parameters_get_one_sentence(parameters, message):
    _, labels = ensemble()
    with pytest.raises((TypeError, ValueError)) as error:
        ge.LTA(3, device="cpu").set_params(**parameters).fit(labels)
    assert str(error.value) == message


def test_holes_are_refused(xp):
    _, labels = ensemble()
    labels[3, 1] = -1
    message = r"^`labels` must be complete for LTA, got 1 missing; SEC, HBGF, EAC and others take holes\.$"
    with pytest.raises(ValueError, match=message):
        ge.LTA(3).fit(xp.asarray(labels))


def test_arrays_that_cannot_fit_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(devices, "MEMORY_LIMITS", ())
    monkeypatch.setattr(devices.os, "sysconf", lambda _: 1000)
    message = "LTA's 11 arrays of 200 x 200 must fit into memory: 0.00352 GB are needed, this machine has 0.001 GB; "
    with pytest.raises(ValueError) as error:
        ge.LTA(3, device="cpu").fit(np.zeros((200, 2), int))
    assert str(error.value) == message + "SEC and KCC are linear in n."
