"""Products with few columns, and orthonormal columns by their squares, against plain products and LAPACK."""

import numpy as np
import pytest

from gpuensemble._array import threads
from gpuensemble._array.devices import to_host
from gpuensemble._kernels.cpu import thin
from gpuensemble._linear import dense, orthonormal


def random(*shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 3, 4, 5, 63, 64, 65, 130, 517])
@pytest.mark.parametrize("k", [1, 4, 5, 12, 13, 25])
def test_both_ways_is_the_sum_of_two_products(n, k, dtype):
    one, two, x = (random(*shape, seed=i) for i, shape in enumerate([(n, n), (n, n), (n, k)]))
    found = thin.both_ways(*(given.astype(dtype) for given in (one, two, x)))
    expected = one.T @ (two @ x) + two.T @ (one @ x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=20 * np.finfo(dtype).eps * abs(expected).max(), rtol=0)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    one, two, x = random(300, 300), random(300, 300, seed=1), random(300, 7, seed=2)
    found = thin.both_ways(one, two, x)
    monkeypatch.setattr(threads, "count", lambda: 1)
    assert (thin.both_ways(one, two, x) == found).all()


@pytest.mark.parametrize("shape", [(900, 900, 60), (1000, 700, 40), (30, 20, 3), (401, 401, 401)])
@pytest.mark.parametrize("by_columns", [False, True])
def test_products_lie_in_memory_as_they_are_asked_to(shape, by_columns):
    a, b = random(*shape[:2]), random(*shape[1:], seed=1)
    b = np.asfortranarray(b) if by_columns else b
    whole, columns = dense.product(a, b), dense.columns(a, b)
    assert whole.flags.c_contiguous
    assert columns.flags.f_contiguous
    for found in (whole, columns):
        np.testing.assert_allclose(found, a @ b, atol=1e-11)
    turn = random(shape[2], shape[2], seed=2)
    found = dense.turned(columns, turn)
    assert found.flags.f_contiguous
    np.testing.assert_allclose(found, columns @ turn, atol=1e-9)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (dense.HALF_ROWS, 40), (700, 60), (1000, 1000)])
def test_symmetric_products_are_exactly_symmetric(shape, n_threads, monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: n_threads)
    a, factors = random(*shape), random(shape[1])
    found = dense.symmetric(a * factors, a.T)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found, (a * factors) @ a.T, atol=1e-10)
    np.testing.assert_allclose(dense.symmetric(np.asfortranarray(a * factors), a.T), found, atol=1e-10)


@pytest.mark.parametrize("shape", [(60, 2), (300, 5), (1600, 20), (20_000, 100)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_of_parallel_columns_one_is_left(xp, shape, order):
    """Rounding makes their Gram matrix indefinite, by more the more columns there are."""
    for seed in range(10):
        column = random(shape[0], 1, seed=seed) if seed % 2 else np.full((shape[0], 1), 0.1 + seed)
        x = column * random(1, shape[1], seed=seed)
        found = to_host(orthonormal.orthonormal(xp.asarray(x) if order == "C" else xp.asarray(x.T.copy()).T))
        assert (found[:, 1:] == 0).all()
        np.testing.assert_allclose(abs(found[:, :1]), abs(column) / np.linalg.norm(column), rtol=1e-12)


LEANING = {
    "nearly orthogonal": lambda q: q + 1e-3 * random(*q.shape, seed=3),
    "of any length": lambda q: q * 10.0 ** np.linspace(8, -8, q.shape[1]),
    "leaning": lambda q: q @ np.triu(np.ones((q.shape[1], q.shape[1]))),
    "dependent": lambda q: np.concatenate([q[:, :-1], q[:, :1]], axis=1),
    "nearly dependent": lambda q: np.concatenate([q[:, :-1], q[:, :1] + 1e-9 * q[:, -1:]], axis=1),
    "with a zero": lambda q: q * (np.arange(q.shape[1]) != 2),
    "one": lambda q: 3 * q[:, :1],
    "none": lambda q: q[:, :0],
}


@pytest.mark.parametrize("name", LEANING)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_qr_has_orthonormal_columns_and_their_product(name, dtype, order):
    x = np.asarray(LEANING[name](np.linalg.qr(random(80, 9))[0]), dtype=dtype, order=order)
    q, r = orthonormal.qr(x)
    eps = float(np.finfo(dtype).eps)
    assert q.dtype == r.dtype == dtype
    np.testing.assert_allclose(q.T @ q, np.eye(x.shape[1]), atol=50 * eps)
    np.testing.assert_allclose(q @ r, x, atol=50 * eps * abs(x).max(initial=0))
    assert (np.tril(r, -1) == 0).all()


def test_squares_are_used_for_what_is_nearly_orthogonal_and_for_nothing_else(monkeypatch):
    """A single pass of squares leaves eps / STEEP^2; LAPACK must have what leans further."""
    asked = []
    lapack = orthonormal.linalg.qr
    monkeypatch.setattr(orthonormal.linalg, "qr", lambda x, **options: (asked.append(x.shape), lapack(x, **options))[1])
    q = np.linalg.qr(random(80, 9))[0]
    for name, make in LEANING.items():
        asked.clear()
        orthonormal.qr(make(q))
        assert bool(asked) == (name in ("leaning", "dependent", "nearly dependent", "with a zero")), name
