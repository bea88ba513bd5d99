"""One pass over a matrix on the CPU against the same by arrays: columns, norms, rows of zeros; and costs in float32."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from gpuensemble._array import csr
from gpuensemble._kernels.cpu.features import columns, short
from gpuensemble._kmeans.features import distances as measures
from gpuensemble._kmeans.features.lloyd import kmeans


def table(n=200, d=30, seed=0):
    """Numbers, most of them 0, and rows of zeros; some of the zeros of the sparse one are stored."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.2, rng.standard_normal((n, d)), 0)
    X[3] = X[-1] = 0
    found = sparse.csr_array(X)
    found.data[::7] = 0
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("chosen", [[0], [1, 4, 29], list(range(30))])
def test_columns_and_norms_are_those_of_arrays(dtype, chosen):
    given = csr.cast(csr.matrix(table(), "X", "cpu"), dtype)
    found, expected = columns.taken(given, np.array(chosen)), given.columns(np.array(chosen))
    for one, two in zip(found[:3], expected[:3], strict=True):
        assert_array_equal(one, two)
    assert found.shape == expected.shape
    assert found.dtype == dtype
    assert_array_equal(columns.squared_norms(found), csr.squared_norms(expected))
    for X in (given, given.dense(0, 200), np.asfortranarray(given.dense(0, 200))):
        assert_array_equal(columns.zero_rows(X), csr.zero_rows(X))
    assert columns.zero_rows(given)[[3, -1]].all()


def features(X, distance, guide, rng):
    """X, beside the labels of a guide."""
    blocks = [measures.FeatureBlock(X)]
    prepared = measures.prepare(blocks, distance)
    if guide is None:
        return prepared, prepared.shortened()
    labels = csr.onehot(rng.integers(0, 3, len(X)).astype("int32"), 3, "float64")
    other = measures.prepare([measures.FeatureBlock(labels, 0.3, None, guide if guide != "same" else None)], distance)
    return prepared.beside(other), prepared.shortened().beside(other)


@pytest.mark.parametrize("distance", ["sqeuclidean", "cosine"])
@pytest.mark.parametrize("guide", [None, "same", "agreement"])
@pytest.mark.parametrize("k", [2, 5, 12, 20])
@pytest.mark.parametrize("ties", [False, True])
def test_costs_in_float32_change_no_bit(monkeypatch, distance, guide, k, ties):
    """With ties, rows are few whole numbers, and many are as far from two centres."""
    rng = np.random.default_rng(k)
    X = rng.integers(0, 3, (700, 4)) + 1.0 if ties else rng.standard_normal((700, 40)) + rng.integers(0, 4, (700, 1))
    plain, shortened = features(X, distance, guide, rng)
    assert shortened.short[0].dtype == "float32"
    start = rng.integers(0, k, 700)
    made, made_of = [], short.short_of
    monkeypatch.setattr(
        "gpuensemble._kernels.cpu.features.lloyd.short_of", lambda *args: made.append(made_of(*args)) or made[-1]
    )
    one, two = (kmeans(given, k, None, init=start, tol=0) for given in (plain, shortened))
    assert made[0] is None
    assert (made[-1] is None) == (k > 12)  # as many as a product in float64 takes at a time
    assert_array_equal(one.labels, two.labels)
    assert one.costs == two.costs
    assert one.n_iter == two.n_iter > 1


def test_rows_that_float32_cannot_tell_apart_are_left_to_float64():
    """Two centres are farther apart than rounding in float64, and nearer than that in float32."""
    X = np.concatenate([np.full((40, 3), 1.0), np.full((40, 3), 1.0 + 1e-9), np.full((4, 3), 2.0)])
    start = np.repeat([0, 1, 2], [41, 39, 4])
    plain, shortened = features(X, "sqeuclidean", None, None)
    one, two = (kmeans(given, 3, None, init=start, tol=0) for given in (plain, shortened))
    assert_array_equal(one.labels, np.repeat([0, 1, 2], [40, 40, 4]))
    assert_array_equal(two.labels, one.labels)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_rows_of_an_extreme_size_stay_in_float64(scale):
    X = scale * np.random.default_rng(0).standard_normal((50, 4))
    assert measures.prepare(X, "sqeuclidean").shortened().short == [None]


def test_named_rows_take_their_short_copies_along():
    prepared = measures.prepare(np.random.default_rng(0).standard_normal((50, 4)), "sqeuclidean").shortened()
    some = prepared.take(np.array([4, 2]))
    assert_array_equal(some.short[0], some.parts[0].astype("float32"))
