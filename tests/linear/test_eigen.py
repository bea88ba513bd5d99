"""Leading eigenvectors by products are those of LAPACK, and LAPACK's where products do not get there."""

import numpy as np
import pytest
from scipy.linalg import eigh

from gpuensemble._array.devices import namespace, to_host
from gpuensemble._linear import eigen

N, K = 600, 4
LESS = 0.4 / np.arange(1.0, N - 5)
SPECTRA = {
    "apart": np.concatenate([LESS, [0.41, 0.42, 0.6, 0.7, 0.71, 1]]),
    "more below zero": np.concatenate([-3 * LESS, [0.1, 0.1, 0.6, 0.7, 0.71, 1]]),
    "equal ones": np.concatenate([LESS, np.ones(6)]),
    "of low rank": np.concatenate([np.zeros(N - 2), [0.5, 1]]),
    "close": np.linspace(-1, 1, N),
}


def matrix(values):
    q = np.linalg.qr(np.random.default_rng(1).standard_normal((N, N)))[0]
    x = (q * values) @ q.T
    return (x + x.T) / 2


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("values", SPECTRA.values(), ids=SPECTRA)
def test_leading_pairs_are_those_of_the_matrix(xp, values, dtype):
    x = matrix(values).astype(dtype)
    found, vectors = eigen.leading_by_products(xp.asarray(x.copy()), K)
    assert (namespace(found), namespace(vectors)) == (xp, xp)
    found, vectors = to_host(found), to_host(vectors)
    assert (found.dtype, vectors.dtype, vectors.shape) == (dtype, dtype, (N, K))
    close = 1e-9 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(found, np.sort(values)[::-1][:K], atol=close)
    np.testing.assert_allclose(x @ vectors, vectors * found, atol=close)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(K), atol=close)


def test_lapack_is_asked_where_products_do_not_get_there(monkeypatch):
    asked = []
    monkeypatch.setattr(eigen, "leading", lambda x, k: asked.append(k) or eigh(x, subset_by_index=[N - k, N - 1]))
    eigen.leading_by_products(matrix(SPECTRA["apart"]), K)
    eigen.leading_by_products(matrix(SPECTRA["equal ones"]), K)
    assert asked == []
    eigen.leading_by_products(matrix(SPECTRA["close"]), K)
    eigen.leading_by_products(matrix(SPECTRA["apart"]), N // eigen.SHARE)
    assert asked == [K, N // eigen.SHARE]
