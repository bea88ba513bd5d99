"""The forms of the toolbox that work in place, which the methods stand on: against LAPACK and dense definitions."""

import doctest

import numpy as np
import pytest
from test_prox import close, full_fft, lapack, matrix, one_thread, random  # noqa: F401

from cudasim import standin
from cudasim.tally import TALLY
from gpuensemble import prox, tsvd
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._linear import sequence

FLOATS = ("float32", "float64")
TAUS = (0.0, 0.5, 3.0, 1e3)


def symmetric(n, dtype="float64", seed=0):
    x = random((n, n), dtype, seed)
    return x + x.T


# name: a symmetric matrix
SYMMETRIC = {
    "random": lambda dtype: symmetric(12, dtype),
    "positive definite": lambda dtype: symmetric(12, dtype) @ symmetric(12, dtype),
    "rank 1": lambda dtype: -np.ones((9, 9), dtype),
    "zero": lambda dtype: np.zeros((5, 5), dtype),
    "one entry": lambda dtype: np.full((1, 1), -4, dtype),
}


def nuclear_norm(x):
    return np.linalg.svd(x, compute_uv=False).sum()


def test_examples_run():
    for form in (prox.NuclearSequence, prox.SlicePairs, prox.nuclear_symmetric, prox.tensor_nuclear_symmetric):
        for example in doctest.DocTestFinder(recurse=False).find(form, form.__name__):
            assert example.examples
            assert doctest.DocTestRunner().run(example).failed == 0


# ------------------------------------------------------------------------------------------------ symmetric matrices


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_a_symmetric_matrix_is_overwritten_by_its_prox(xp, name, dtype, tau):
    x = SYMMETRIC[name](dtype)
    given, expected = xp.asarray(x.copy()), lapack(x, tau)
    scale = max(1.0, float(np.linalg.norm(x, 2)))
    before = TALLY.reads
    norm = prox.nuclear_symmetric(given, tau)
    assert TALLY.reads == before
    close(given, expected, xp, dtype, scale)
    assert float(norm) == pytest.approx(nuclear_norm(expected), abs=len(x) * 1e-5 * scale)


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("names", [("random", "positive definite"), ("zero", "zero"), ("rank 1", "rank 1")])
def test_a_symmetric_pair_is_overwritten_by_its_prox(xp, names, dtype, tau):
    x = np.stack([SYMMETRIC[name](dtype) for name in names])
    given, expected = xp.asarray(x.copy()), full_fft(x, tau, 0)
    scale = max(1.0, float(np.linalg.norm(x)))
    before = TALLY.reads
    norm = prox.tensor_nuclear_symmetric(given, tau)
    assert TALLY.reads == before
    close(given, expected, xp, dtype, scale)
    assert float(norm) == pytest.approx(float(tsvd.tensor_nuclear_norm(expected, 0)), abs=1e-4 * scale)


@pytest.mark.parametrize("tau", TAUS)
def test_a_row_stands_for_equal_ones(xp, tau):
    copies = np.array([1, 3, 2, 1, 5])
    group = np.repeat(np.arange(5), copies)
    x = np.stack([symmetric(5), symmetric(5, seed=1)])
    large = x[:, group][:, :, group]
    given, expected = xp.asarray(x.copy()), full_fft(large, tau, 0)
    norm = prox.tensor_nuclear_symmetric(given, tau, xp.asarray(copies))
    np.testing.assert_allclose(to_host(given)[:, group][:, :, group], expected, atol=1e-12)
    assert float(norm) == pytest.approx(float(tsvd.tensor_nuclear_norm(expected, 0)), abs=1e-11)


# ------------------------------------------------------------------------------------------------ slices of two columns

# name: the two columns of every slice, from random ones
SLICES = {
    "random": lambda x, y: (x, y),
    "equal columns": lambda x, y: (x, x),
    "a zero column": lambda x, y: (0 * x, y),
    "zero": lambda x, y: (0 * x, 0 * y),
    "graded": lambda x, y: (x, 1e-7 * y),
    "almost equal columns": lambda x, y: (x, x + 1e-7 * y),
}


@pytest.mark.parametrize("tau", [0.0, 1e-6, 1.0, 30.0])
@pytest.mark.parametrize("shape", [(21, 21), (20, 8), (5, 1), (1, 6)])
@pytest.mark.parametrize("name", SLICES)
def test_slices_of_two_columns_are_overwritten_by_the_prox(xp, name, shape, tau):
    x = np.stack(SLICES[name](*random((2, *shape), "float64", 4)))
    expected = full_fft(x, tau, 2)
    scale = max(1, np.linalg.norm(np.moveaxis(np.fft.fft(x), 2, 0), 2, (1, 2)).max())
    shrink = prox.SlicePairs(xp.asarray(x))
    for _ in range(2):  # the second time in the basis of the first
        given = xp.asarray(x.copy())
        before = TALLY.reads
        norm = shrink(given, tau)
        assert TALLY.reads == before
    close(given, expected, xp, "float64", scale)
    np.testing.assert_allclose(to_host(given), expected, atol=1e-12 * scale)
    assert float(norm) == pytest.approx(float(tsvd.tensor_nuclear_norm(expected, 2)), abs=1e-11 * scale)
    given[...] = 0
    np.testing.assert_allclose(to_host(shrink.second()), expected[1], atol=1e-12 * scale)


def test_slices_of_two_columns_in_single_precision(xp):
    x = random((2, 20, 9), "float32")
    given, shrink = xp.asarray(x.copy()), prox.SlicePairs(xp.asarray(x))
    shrink(given, 2.0)
    close(given, full_fft(x, 2.0, 2), xp, "float32", np.linalg.norm(x))


# ------------------------------------------------------------------------------------------------ sequences


def low_rank(m, n, rank, dtype="float64"):
    """Singular values 10 and a little less, then 0.3 and less."""
    k = np.arange(n)
    return matrix(np.where(k < rank, 10.0 - k / n, 0.3 * 0.9**k), m, n, dtype).astype(dtype)


def near(actual, expected, xp, dtype, scale):
    """Same library, dtype and shape, and equal to ten times the accuracy that a block is estimated at."""
    assert namespace(actual) is xp
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    assert abs(to_host(actual) - expected).max() <= 10 * sequence.ACCURACY[dtype] * scale


def sequence_of(xp, n, width, dtype="float64"):
    return prox.NuclearSequence(xp.asarray(np.eye(n, width, dtype=dtype)), np.random.default_rng(0))


@pytest.fixture
def decompositions(monkeypatch):
    """The sizes of the matrices that a full decomposition was made of."""
    made, full = [], prox.NuclearSequence._full
    monkeypatch.setattr(prox.NuclearSequence, "_full", lambda self, x: (made.append(x.shape), full(self, x)))
    return made


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(90, 90), (120, 90)])
def test_a_sequence_is_that_of_lapack_and_soon_needs_blocks_alone(xp, decompositions, shape, dtype):
    x, noise = low_rank(*shape, 5, dtype), 1e-3 * random(shape, dtype)
    shrink = sequence_of(xp, 90, 12, dtype)
    for step in range(8):
        if step == 2:
            decompositions.clear()
        here = (x + step * noise).astype(dtype)
        given = xp.asarray(here.copy())
        norm = shrink(given, 2.0)
        expected = lapack(here, 2.0)
        near(given, expected, xp, dtype, 10)
        assert namespace(shrink.values) is xp
        np.testing.assert_allclose(to_host(shrink.values)[:5], np.linalg.svd(here)[1][:5] - 2, atol=1e-4)
        assert int((shrink.values > 0).sum()) == 5
        assert float(norm) == pytest.approx(nuclear_norm(expected), rel=1e-5)
    assert not decompositions


def test_weights_of_a_concave_penalty(xp):
    x = low_rank(90, 90, 5)
    weights = np.where(np.arange(90) < 3, 0.0, np.where(np.arange(90) < 7, 0.5, 1.0))
    shrink = sequence_of(xp, 90, 12)
    for _ in range(3):
        given = xp.asarray(x.copy())
        shrink(given, 2.0, xp.asarray(weights))
        near(given, lapack(x, 2.0, weights), xp, "float64", 10)


@pytest.mark.parametrize("width", [1, 3, 5, 12])
def test_a_block_that_is_too_narrow_leads_to_a_full_decomposition(xp, decompositions, width):
    x, shrink = low_rank(90, 90, 20), sequence_of(xp, 90, width)
    given = xp.asarray(x.copy())
    shrink(given, 2.0)
    assert decompositions == [(90, 90)]
    near(given, lapack(x, 2.0), xp, "float64", 10)
    for _ in range(6):  # it widens, until a third of the matrix would not be enough
        given = xp.asarray(x.copy())
        shrink(given, 2.0)
        near(given, lapack(x, 2.0), xp, "float64", 10)


def test_a_block_that_was_too_short_goes_on_before_anything_is_decomposed(decompositions, monkeypatch):
    """Five vectors in a block that begins with none of them: three passes are not enough, some more are."""
    looked, look = [], prox.NuclearSequence._look
    spy = lambda self, x, start, n_passes: (looked.append(n_passes), look(self, x, start, n_passes))  # noqa: E731
    monkeypatch.setattr(prox.NuclearSequence, "_look", spy)
    x = matrix(np.where(np.arange(90) < 5, 10.0, 0.9), 90, 90, "float64")
    given = x.copy()
    sequence_of(np, 90, 12)(given, 2.0)
    assert looked[0] == 3
    assert 1 < looked[1] <= sequence.MAX_PASSES
    assert len(looked) == 2
    assert not decompositions
    near(given, lapack(x, 2.0), np, "float64", 10)


def test_exact_vectors_of_a_block_that_is_too_narrow_are_not_enough(xp, decompositions, monkeypatch):
    """Nothing turns, so that there is no error; but the last value of the block says that others may be as large."""
    monkeypatch.setattr(sequence, "PROBES", 0)
    x = np.diag(np.where(np.arange(90) < 20, 10.0 - np.arange(90) / 90, 0.1))
    given = xp.asarray(x.copy())
    sequence_of(xp, 90, 12)(given, 2.0)
    assert decompositions == [(90, 90)]
    near(given, lapack(x, 2.0), xp, "float64", 10)


def test_a_matrix_far_from_the_one_before(xp):
    shrink = sequence_of(xp, 90, 12)
    for x in (low_rank(90, 90, 5), low_rank(90, 90, 5)[::-1, ::-1].copy(), symmetric(90), 100 * low_rank(90, 90, 2)):
        given = xp.asarray(x.copy())
        shrink(given, 2.0)
        near(given, lapack(x, 2.0), xp, "float64", np.linalg.norm(x, 2))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("width", [4, 40])
def test_the_first_matrix_may_be_of_any_size(xp, size, width):
    x = matrix(size * np.logspace(0, -9, 60), 60, 60, "float64")
    for tau in (1e-7 * size, 1e-4 * size, 0.1 * size):
        given = xp.asarray(x.copy())
        sequence_of(xp, 60, width)(given, tau)
        near(given, lapack(x, tau), xp, "float64", size)


@pytest.mark.parametrize("tau", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("name", ["zero", "rank 1", "full rank", "identity"])
@pytest.mark.parametrize("width", [2, 12, 30])
def test_degenerate_matrices(xp, name, width, tau):
    makers = {
        "zero": 0 * symmetric(60),
        "rank 1": np.ones((60, 60)),
        "full rank": symmetric(60),
        "identity": np.eye(60),
    }
    x, shrink = makers[name], sequence_of(xp, 60, width)
    for _ in range(3):
        given = xp.asarray(x.copy())
        norm = shrink(given, tau)
        near(given, lapack(x, tau), xp, "float64", max(1, np.linalg.norm(x, 2)))
        assert float(norm) == pytest.approx(nuclear_norm(lapack(x, tau)), abs=1e-8)


def test_a_block_waits_for_nothing_and_leaves_the_matrix_alone():
    with standin.installed(None) as xp:
        x, shrink = xp.asarray(low_rank(90, 90, 5)), sequence_of(xp, 90, 12)
        copy = x.copy()
        before = TALLY.reads
        shrink.begin(x, 2.0)
        assert TALLY.reads == before
        assert (to_host(x) == to_host(copy)).all()
        report = to_host(shrink.report)
        before = TALLY.reads
        shrink.finish(x, report)
        assert TALLY.reads == before
        near(x, lapack(to_host(copy), 2.0), xp, "float64", 10)


def test_without_its_random_columns_a_block_may_miss_a_direction(monkeypatch):
    """What PROBES is for: a start that is invariant, and orthogonal to the largest singular vector."""
    x = np.diag(np.where(np.arange(90) < 8, 10.0 - np.arange(90) / 90, 0.1))
    start = np.eye(90)[:, 1:13].copy()
    found = {}
    for probes in (0, sequence.PROBES):
        monkeypatch.setattr(sequence, "PROBES", probes)
        found[probes] = x.copy()
        prox.NuclearSequence(start, np.random.default_rng(0))(found[probes], 2.0)
    assert abs(found.pop(0) - lapack(x, 2.0)).max() > 1
    np.testing.assert_allclose(*found.values(), lapack(x, 2.0), atol=1e-9)


# ------------------------------------------------------------------------------------------------ bad input

SQUARE = np.ones((3, 3))
BAD = {
    "a list": (
        prox.nuclear_symmetric,
        ([[1.0]], 1.0),
        TypeError,
        r"`x` must be an array of float32 or float64, got li",
    ),
    "integers": (prox.nuclear_symmetric, (np.eye(3, dtype=int), 1.0), TypeError, r"`x` must be an array .*, got int64"),
    "complex": (prox.tensor_nuclear_symmetric, (np.ones((2, 3, 3)) * 1j, 1.0), TypeError, r"`x` .*, got complex128\.$"),
    "not square": (
        prox.nuclear_symmetric,
        (np.ones((3, 2)), 1.0),
        ValueError,
        r"`x` must hold square matrices, got an",
    ),
    "three axes": (
        prox.nuclear_symmetric,
        (np.ones((2, 3, 3)), 1.0),
        ValueError,
        r"`x` must have 2 axes and one entry",
    ),
    "negative tau": (prox.nuclear_symmetric, (SQUARE, -1.0), ValueError, r"`tau` must be finite and not negative"),
    "three matrices": (
        prox.tensor_nuclear_symmetric,
        (np.ones((3, 3, 3)), 1.0),
        ValueError,
        r"`x` must have the shape",
    ),
    "no pair": (
        prox.SlicePairs,
        (np.ones((3, 3, 3)),),
        ValueError,
        r"`like` must have the shape 2 x m x n, got \(3, 3,",
    ),
    "no tensor": (
        prox.SlicePairs,
        (SQUARE,),
        ValueError,
        r"`like` must have 3 axes and one entry, got an array of sha",
    ),
    "no columns": (
        prox.NuclearSequence,
        (np.ones((9, 0)), None),
        ValueError,
        r"`start` must have 2 axes and one entry",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence(xp, name):
    call, arguments, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        call(*(xp.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments))
