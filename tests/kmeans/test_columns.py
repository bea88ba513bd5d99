"""One pass over a matrix on the CPU against arrays: columns, norms, rows of zeros; and costs and margins in float32."""

import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from gpuensemble._array import csr
from gpuensemble._kernels.cpu.features import columns, margins, short
from gpuensemble._kernels.cpu.vector import tiles
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
    monkeypatch.setattr(short, "short_of", lambda *args: made.append(made_of(*args)) or made[-1])
    one, two = (kmeans(given, k, None, init=start, tol=0) for given in (plain, shortened))
    assert made[0] is None
    assert (made[-1] is None) == (k > 12)  # as many as a product in float64 takes at a time
    assert_array_equal(one.labels, two.labels)
    assert one.costs == two.costs
    assert one.n_iter == two.n_iter > 1


@pytest.mark.parametrize("distance", ["sqeuclidean", "cosine"])
@pytest.mark.parametrize("guide", [None, "same"])
@pytest.mark.parametrize("apart", [0.0, 1e-9, 1e-7, 1e-5, 1e-2])
def test_rows_near_a_tie_are_skipped_only_while_they_keep_their_label(distance, guide, apart):
    """Many steps with rows that are nearly as far from two centres: what is not looked at must not have moved."""
    steps = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 6, (600, 3)) + 1.0 + apart * rng.standard_normal((600, 3))
        plain, shortened = features(X, distance, guide, rng)
        k, start = 3 + seed % 10, X[rng.choice(600, 3 + seed % 10, replace=False)]
        centers = start if guide is None else [start, np.eye(3)[rng.integers(0, 3, k)]]
        one, two = (kmeans(given, k, None, init=centers, tol=0, max_iter=300) for given in (plain, shortened))
        assert_array_equal(one.labels, two.labels)
        assert (one.costs, one.n_iter) == (two.costs, two.n_iter)
        steps += one.n_iter
    assert steps > 12 * 5


def against_a_row(distance, move):
    """Rows and centres: in the first step both centres move as much, along the line that takes the first row over."""
    if distance == "sqeuclidean":  # 0.9 is nearer to 0 than to 2; means become -move and 2 - move
        rows = [0.9, *[(-10 * move - 0.9) / 9] * 9, *[2 - move] * 3]
        return np.array([[x, 0.0] for x in rows]), np.array([[0.0, 0], [2, 0]])
    own, other, angle = 0.0, np.radians(178), np.radians(88.5)
    turned = own - move - np.arcsin(np.sin(angle + move) / 100)  # with a long row the first one matters little
    angles, sizes = np.array([angle, turned, other - move]), np.array([1.0, 100, 100])
    directions = np.stack([np.cos([own, other]), np.sin([own, other])], axis=1)
    return sizes[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1), directions


@pytest.mark.parametrize("distance", ["sqeuclidean", "cosine"])
@pytest.mark.parametrize("beyond", [1e-4, 1e-2, 0.2, 0.9])
def test_a_row_is_looked_at_again_when_both_centres_move_against_it(distance, beyond):
    """Its margin is twice a move; beyond that the other centre is nearer: a bound of less would miss it."""
    just = 0.1 if distance == "sqeuclidean" else np.radians(0.5)
    X, centers = against_a_row(distance, (1 + beyond) * just)
    plain, shortened = features(X, distance, None, None)
    steps = [[kmeans(given, 2, None, init=centers, tol=0, max_iter=n) for given in (plain, shortened)] for n in (1, 2)]
    (before, same_before), (after, same_after) = steps
    assert (before.labels[0], after.labels[0]) == (0, 1)
    assert_array_equal(same_before.labels, before.labels)
    assert_array_equal(same_after.labels, after.labels)


@numba.njit
def two_least(scores, added, label):
    return [margins.two_least(scores, j, added, label) for j in range(len(scores))]


@numba.njit
def keep(scores, added, label, least, nearer, factor, reach, most, squared, out):
    for j in range(len(scores)):
        margins.keep_margins(scores, j, added, label, least[j], nearer[j], factor, reach, most, squared, out, j)


@numba.njit
def use_up(kept, labels, shifts, rows):
    return margins.use_up(kept, labels, shifts, rows)


def some_costs(k, n=40):
    """Scores, what is added to them, and their sums; two columns of some rows have the same least cost."""
    rng, width = np.random.default_rng(k), tiles.dot_width(k, "float32")
    scores, added = tiles.side_by_side("float32", (n, width), (3, width))
    scores[:] = rng.integers(-9, 9, (n, width))
    added[:] = np.inf
    added[:, :k] = rng.integers(-9, 9, (3, k))
    return scores, added, scores + added[1]


@pytest.mark.parametrize("k", range(1, 25))
def test_the_two_least_costs(k):
    scores, added, costs = some_costs(k)
    best, least, second = (np.array(one) for one in zip(*two_least(scores, added, 1), strict=True))
    expected = np.sort(costs, axis=1)
    assert_array_equal(best, costs.argmin(1))
    assert_array_equal(least, expected[:, 0])
    assert_array_equal(second, expected[:, 1])


@pytest.mark.parametrize("k", [1, 8, 9, 24])
@pytest.mark.parametrize("squared", [False, True])
def test_margins_are_kept_and_used_up(k, squared):
    scores, added, costs = some_costs(k)
    least = costs.min(1)
    (out,) = tiles.side_by_side("float32", costs.shape)
    nearer, (factor, reach, most) = least + np.float32(0.5), np.array([0.25, 20, 3], "float32")
    keep(scores, added, 1, least, nearer, factor, reach, most, squared, out)
    with np.errstate(invalid="ignore"):
        expected = (costs - nearer[:, None]) * factor
        if squared:
            expected /= np.sqrt(np.maximum(costs + reach, 0)) + np.sqrt(np.maximum(least + reach, 0))[:, None]
        other = (costs > least[:, None]) & (costs < np.inf)
    expected = np.where(other, np.minimum(expected, most), most)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    labels, shifts = np.arange(40, dtype="int32") % k, tiles.aligned((k, costs.shape[1]), "float32")
    shifts[:, :k] = np.random.default_rng(0).integers(0, 5, (k, k)) / 4
    before, rows = out.copy(), np.full(40, -1)
    n_open = use_up(out, labels, shifts, rows)
    assert_array_equal(out, before - shifts[labels])
    assert_array_equal(rows[:n_open], np.flatnonzero((out <= 0).any(1)))


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
