"""A symmetric matrix in tridiagonal form has its eigenvalues counted, and those asked for found, as LAPACK's are."""

import numpy as np
import pytest
from scipy.linalg import eigh

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.slices import powers
from gpuensemble._kernels.cpu.slices.sturm import count_below
from gpuensemble._linear import tridiagonal
from gpuensemble._linear.tridiagonal import Tridiagonal

N = 150
SPECTRA = {
    "apart": np.linspace(-3, 9, N),
    "in clusters": np.repeat([-1.0, 0.0, 2.0, 2.0 + 1e-13, 5.0], N // 5),
    "of low rank": np.concatenate([np.zeros(N - 4), [1, 2, 2, 30]]),
    "zero": np.zeros(N),
}


def matrix(values, dtype="float64"):
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((len(values), len(values))))[0]
    x = (q * values) @ q.T
    return ((x + x.T) / 2).astype(dtype)


@pytest.mark.parametrize("values", SPECTRA.values(), ids=SPECTRA)
def test_eigenvalues_are_counted(values):
    form = Tridiagonal(matrix(values))
    for bound in (-5.0, -0.5, 1.3, 3.3, 40.0):
        assert form.below(bound) == (values < bound).sum()


@pytest.mark.parametrize("values", SPECTRA.values(), ids=SPECTRA)
def test_an_eigenvalue_is_found_by_its_index(values):
    form = Tridiagonal(matrix(values))
    for index in (0, 1, N // 2, N - 1):
        assert form.value(index) == pytest.approx(np.sort(values)[index], abs=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("values", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 4), (N - 5, N), (20, 110), (0, N)])
def test_pairs_are_those_of_the_matrix(values, first, last, dtype):
    x = matrix(values, dtype)
    given = x.copy()
    found, vectors = Tridiagonal(x).pairs(first, last)
    np.testing.assert_array_equal(x, given)
    assert (found.dtype, vectors.dtype, vectors.shape) == (dtype, dtype, (N, last - first))
    close = 2e-13 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(found, eigh(given.astype("float64"))[0][first:last], atol=close)
    np.testing.assert_allclose(given @ vectors, vectors * found, atol=close)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(last - first), atol=close / 10)


def test_vectors_found_one_by_one_are_orthogonal_to_the_last_bits(monkeypatch):
    """LAPACK leaves deviations of the order of 1e-13 between near ones."""
    monkeypatch.setattr(tridiagonal, "SHARE", 2)
    _, vectors = Tridiagonal(matrix(np.linspace(1, 1 + 1e-3, N))).pairs(0, N // 3)
    assert abs(vectors.T @ vectors - np.eye(N // 3)).max() < 1e-14


def test_small_matrices_and_such_that_are_diagonal():
    for n in (2, 3, 9):
        values, vectors = Tridiagonal(np.diag(np.arange(n, 0.0, -1))).pairs(0, n)
        np.testing.assert_allclose(values, np.arange(1.0, n + 1))
        np.testing.assert_allclose(abs(vectors), np.eye(n)[:, ::-1])


def test_a_term_of_a_sturm_sequence_that_vanishes_is_counted_once():
    """The matrix (0, 1; 1, 0) has the eigenvalues -1 and 1, and its first term is 0."""
    diagonal, squares = np.zeros(2), np.ones(1)
    assert [count_below(diagonal, squares, bound) for bound in (-2.0, 0.0, 2.0)] == [0, 1, 2]


@pytest.mark.parametrize("width", [3, 100])  # one by one, and all
def test_pairs_leave_the_form_as_it_is(width):
    form = Tridiagonal(matrix(SPECTRA["apart"]))
    before = form.diagonal.copy(), form.beside.copy()
    first, second = form.pairs(0, width), form.pairs(0, width)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    np.testing.assert_array_equal(form.diagonal, before[0])
    np.testing.assert_array_equal(form.beside, before[1])


@pytest.mark.parametrize("width", [3, 100])
def test_eigenvalues_that_do_not_converge_are_told_of(width, monkeypatch):
    form = Tridiagonal(matrix(SPECTRA["apart"]))
    monkeypatch.setattr(tridiagonal.lapack, "call", lambda *_: 1)
    with pytest.raises(np.linalg.LinAlgError, match=r"^Eigenvalues did not converge\.$"):
        form.pairs(0, width)


@pytest.mark.parametrize("n", [1, 2, 3, N])
def test_the_turn_makes_the_matrix_tridiagonal(n):
    x = matrix(np.linspace(-3, 9, n))
    form = Tridiagonal(x)
    t = np.diag(form.diagonal) + np.diag(form.beside, 1) + np.diag(form.beside, -1)
    turn = form.turn()
    np.testing.assert_allclose(turn @ t @ turn.T, x, atol=1e-13)
    np.testing.assert_allclose(turn.T @ turn, np.eye(n), atol=1e-14)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    ("n", "steps"), [(1, 1), (1, 70), (2, 3), (9, 20), (powers.COLUMNS, 1), (600, 2), (300, powers.STEPS), (300, 70)]
)
def test_sums_of_powers_are_those_of_dense_products(n, steps, n_threads, monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: n_threads)
    rng = np.random.default_rng(0)
    diagonal, beside, z = rng.uniform(-0.4, 0.4, n), rng.uniform(-0.4, 0.4, n - 1), rng.standard_normal((n, n))
    t = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    size = np.linalg.norm(t, 2)  # so that late steps count
    t, diagonal, beside = t / size, diagonal / size, beside / size
    power, expected = np.eye(n), np.zeros((n, n))
    for _ in range(steps):
        power = power @ t
        expected += power @ z @ power
    np.testing.assert_allclose(powers.summed(diagonal, beside, z, steps), expected, atol=1e-12)
