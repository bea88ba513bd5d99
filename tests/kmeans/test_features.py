"""k-means over features: against scikit-learn, against the definition of the distances, and its laws."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array
from sklearn.cluster import KMeans as Peer
from sklearn.metrics import adjusted_rand_score

from gpuensemble._array.csr import Csr, matrix, onehot
from gpuensemble._array.devices import to_host
from gpuensemble._kernels.cpu.features import batches as cpu_batches
from gpuensemble._kernels.cpu.features import lloyd as cpu_lloyd
from gpuensemble._kernels.cpu.features import steps as cpu_features
from gpuensemble._kernels.cpu.vector import dots as vector_dots
from gpuensemble._kernels.cpu.vector import tiles
from gpuensemble._kmeans.features import batches
from gpuensemble._kmeans.features import distances as measures
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._kmeans.features import seeding as feature_seeding
from gpuensemble._kmeans.features.lloyd import kmeans
from support import check, dealt

DISTANCES = measures.DISTANCES


def table(n=300, d=7, dtype="float64", seed=0, groups=4):
    """Rows around a few centres, about half of their entries 0."""
    rng = np.random.default_rng(seed)
    X = 3 * rng.standard_normal((groups, d))[rng.integers(0, groups, n)] + rng.standard_normal((n, d))
    return (X * (rng.random((n, d)) < 0.5) + 1e-3).astype(dtype)


def sparse_table(**kwargs):
    X = table(**kwargs)
    return np.where(abs(X) < 0.01, 0, X).astype(X.dtype)


def suited(X, distance):
    """Rows that have a direction, and for "kl" are distributions but for a factor."""
    X = abs(X) if distance == "kl" else X
    X[(X == 0).all(1)] = 1
    return X


def to(xp, X, sparse=False):
    """X on the device of xp, as the dense array or the `Csr` that k-means takes."""
    device = "cpu" if xp is np else "cuda:0"
    return matrix(csr_array(X) if sparse else X, "X", device)


def kl(x, c):
    """sum x log(x/c) of distributions, times the sum of x; infinite if c lacks an entry of x."""
    x, c, mass = x[x > 0] / x.sum(), c[x > 0] / c.sum(), x.sum()
    return mass * (x * np.log(x / c)).sum() if (c > 0).all() else np.inf


def distances(X, centers, distance):
    """Table 3 of CMVC, entry by entry."""
    if distance == "sqeuclidean":
        return np.array([[((x - c) ** 2).sum() for c in centers] for x in X])
    if distance == "kl":
        return np.array([[kl(x, c) for c in centers] for x in X])
    return np.array([[np.linalg.norm(x) - x @ c / np.linalg.norm(c) for c in centers] for x in X])


def nearest(X, centers, distance):
    """The nearest centre; if all are infinitely far, the one that lacks the least of the row."""
    costs = distances(X, centers, distance)
    lacking = X @ (centers == 0).T
    return np.where(np.isinf(costs.min(1)), lacking.argmin(1), costs.argmin(1)).astype("int32")


def loop(X, centers, distance, weight, n_iter):
    """Lloyd's iteration by definition: labels, centres and objective after each step."""
    for _ in range(n_iter):
        labels = nearest(X, centers, distance)
        centers = np.array(
            [np.average(X[labels == k], axis=0, weights=weight[labels == k]) for k in range(len(centers))]
        )
        objective = (weight * distances(X, centers, distance)[np.arange(len(X)), labels]).sum()
        yield labels, centers, objective


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_equals_scikit_learn_from_the_same_centres(xp, k, dtype, sparse):
    X = sparse_table(dtype=dtype)
    start = X[:k]
    peer = Peer(k, init=start, n_init=1, max_iter=300, tol=0, algorithm="lloyd").fit(X)
    found = kmeans(to(xp, X, sparse), k, None, init=xp.asarray(start), max_iter=300, tol=0)
    check(found.labels, peer.labels_, xp)
    check(found.centers, peer.cluster_centers_, xp)
    assert found.objective == pytest.approx(peer.inertia_, rel=1e-4 if dtype == "float32" else 1e-10)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_definition_step_by_step_and_never_rises(xp, distance, weighted, sparse):
    X = suited(sparse_table(n=120), distance)
    weight = np.random.default_rng(1).random(len(X)) + 0.1 if weighted else np.ones(len(X))
    path = []
    for i, (labels, centers, objective) in enumerate(loop(X, X[:6], distance, weight, 8)):
        found = kmeans(
            to(xp, X, sparse),
            6,
            None,
            distance=distance,
            sample_weight=xp.asarray(weight) if weighted else None,
            init=xp.asarray(X[:6]),
            max_iter=i + 1,
            tol=0,
        )
        check(found.labels, labels, xp)
        check(found.centers, centers, xp)
        assert found.objective == pytest.approx(objective)
        path.append(found.objective)
    assert (np.diff(path) <= 1e-12 * path[0]).all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_smoothing_is_kl_of_rows_mixed_with_their_total(xp, sparse, holes, dtype):
    rng = np.random.default_rng(1)
    X = suited(sparse_table(n=120, d=9, dtype=dtype), "kl")
    present, start = rng.random(120) < 0.7 if holes else np.ones(120, bool), rng.integers(0, 6, 120)
    seen = X[present].astype("float64")
    mixed = np.zeros(X.shape)
    mixed[present] = 0.6 * seen + 0.4 * seen.sum(1, keepdims=True) * seen.sum(0) / seen.sum()
    block = measures.FeatureBlock(to(xp, X, sparse), 2.0, xp.asarray(present), smoothing=0.4)
    path = []
    for max_iter in (1, 2, 3, 100):
        options = {"distance": "kl", "max_iter": max_iter, "tol": 0}
        found = kmeans([block], 6, None, init=xp.asarray(start), **options)
        by_hand = kmeans([measures.FeatureBlock(mixed, 2.0, present)], 6, None, init=start, **options)
        check(found.labels, by_hand.labels, xp)
        assert found.n_iter == by_hand.n_iter
        assert found.objective == pytest.approx(by_hand.objective, rel=1e-4 if dtype == "float32" else 1e-10)
        path.append(found.objective)
    assert (np.diff(path) <= 1e-12 * path[0]).all()
    assert path[-1] < path[0]


def test_blocks_equal_their_concatenation(xp):
    X, Y = table(d=5), table(d=3, seed=1)
    weights = (0.3, 2.0)
    both = np.hstack([np.sqrt(w) * block for w, block in zip(weights, (X, Y), strict=True)])
    whole = kmeans(to(xp, both), 6, None, init=xp.asarray(both[:6]), tol=0)
    for sparse in (False, True):
        blocks = [(to(xp, X), weights[0]), (to(xp, Y, sparse), weights[1])]
        found = kmeans(blocks, 6, None, init=[xp.asarray(X[:6]), xp.asarray(Y[:6])], tol=0)
        check(found.labels, to_host(whole.labels), xp)
        assert found.objective == pytest.approx(whole.objective)
        assert found.n_iter == whole.n_iter
        check(found.centers[0] * weights[0] ** 0.5, to_host(whole.centers)[:, :5], xp)
        check(found.centers[1] * weights[1] ** 0.5, to_host(whole.centers)[:, 5:], xp)


def test_cosine_distances_of_blocks_add_up(xp):
    X, Y = table(n=80, d=5), table(n=80, d=3, seed=1)
    found = kmeans([(to(xp, X), 1.0), (to(xp, Y), 0.5)], 4, np.random.default_rng(0), distance="cosine", tol=0)
    costs = distances(X, to_host(found.centers[0]), "cosine") + 0.5 * distances(Y, to_host(found.centers[1]), "cosine")
    check(found.labels, costs.argmin(1).astype("int32"), xp)
    assert found.objective == pytest.approx(costs.min(1).sum())


@pytest.mark.parametrize(("distance", "dtype"), dealt(DISTANCES, ["float32", "float64"]))
def test_the_same_seed_is_the_same_partition_everywhere(xp, distance, dtype):
    X = suited(table(n=500, dtype=dtype), distance)
    here = kmeans(X, 8, np.random.default_rng(3), distance=distance, n_init=3)
    for sparse in (False, True):
        found = kmeans(to(xp, X, sparse), 8, np.random.default_rng(3), distance=distance, n_init=3)
        check(found.labels, here.labels, xp)
        check(found.centers, here.centers, xp)
        assert found.centers.dtype == dtype


@given(st.integers(0, 2**32 - 1), st.sampled_from(DISTANCES), st.sampled_from([1, 2, 5, 30]), st.booleans())
def test_rows_left_out_are_those_that_keep_their_label(seed, distance, k, sparse):
    X = suited(sparse_table(n=200, d=4, seed=seed, groups=3) + (0 if sparse else 0.5), distance)
    prepared = measures.prepare(to(np, X, sparse), distance)
    start = feature_seeding.positions_of(prepared, prepared.dense(np.arange(k)))
    skipping = features._lloyd(prepared, features._placed(prepared, start, np.ones(1)), 100, 0)
    _, position, empty, _ = features._placed(prepared, features._given(prepared, skipping.centers), np.ones(1))
    found = measures.tables(prepared, position, empty)
    costs = measures.scores(prepared, found, 0, len(X)) + found.offset.astype(prepared.dtype)
    assert (costs.argmin(1) == skipping.labels).all()


def test_few_rows_are_looked_at_near_the_end(monkeypatch):
    looked_at, open_rows = [], cpu_features.open_rows

    def spy(*args):
        looked_at.append(open_rows(*args))
        return looked_at[-1]

    monkeypatch.setattr(cpu_features, "open_rows", spy)
    X = table(n=2000)
    kmeans([(X[:, :3], 1.0), (X[:, 3:], 1.0)], 4, np.random.default_rng(0), tol=0)
    assert looked_at[0] == 2000
    assert looked_at[-1] < 500


@pytest.mark.parametrize("sparse", [False, True])
def test_an_emptied_cluster_gets_the_farthest_row(xp, sparse):
    X = np.array([[0.0, 0], [0, 1], [1, 0], [50, 50]])
    far = np.array([[0.0, 0], [1000, 1000]])
    found = kmeans(to(xp, X, sparse), 2, None, init=xp.asarray(far), max_iter=1)
    check(found.labels, np.array([0, 0, 0, 1], "int32"), xp)
    check(found.centers, np.array([[1 / 3, 1 / 3], [50, 50]]), xp)


@pytest.mark.parametrize("distance", DISTANCES)
def test_sparse_rows_are_made_dense_only_as_centres(monkeypatch, distance):
    made_dense, csr_rows = [], cpu_batches.csr_rows
    monkeypatch.setattr(Csr, "dense", None)
    monkeypatch.setattr(
        cpu_batches, "csr_rows", lambda part, rows: made_dense.append(len(rows)) or csr_rows(part, rows)
    )
    X = suited(sparse_table(n=200), distance)
    for init in ("k-means++", "random", np.repeat([0, 2], 100)):  # the last one leaves a cluster empty
        kmeans(to(np, X, True), 3, np.random.default_rng(0), distance=distance, init=init)
    assert made_dense
    assert max(made_dense) <= 3


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_costs_of_labels_are_those_of_all_clusters(xp, distance, sparse):
    rng = np.random.default_rng(0)
    X, label = suited(sparse_table(n=90), distance), xp.asarray(rng.integers(0, 4, 90))
    blocks = [(to(xp, X[:, :4], sparse), 2.0, xp.asarray(rng.random(90) < 0.7)), (to(xp, X[:, 4:], sparse), 0.5, None)]
    prepared = measures.prepare(blocks, distance)
    position = [xp.asarray(rng.random((4, width))) for width in (4, 3)]
    found = measures.tables(prepared, position, xp.zeros(4, bool))
    of_all = measures.scores(prepared, found, 0, 90)
    own = measures.own_scores(prepared, found, label)
    np.testing.assert_allclose(to_host(own), to_host(of_all)[np.arange(90), to_host(label)])


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("init", ["k-means++", "random", "rows", "labels"])
def test_fewer_distinct_rows_than_clusters(xp, distance, init):
    X = np.array([[1.0, 0.1], [0.1, 1], [1, 1]])[np.arange(30) % 3]
    given = {"rows": X[:5], "labels": np.arange(30) % 5}
    start = xp.asarray(given[init]) if init in given else init
    found = kmeans(to(xp, X), 5, np.random.default_rng(0), distance=distance, init=start)
    labels = to_host(found.labels)
    assert found.centers.shape == (3, 2)
    assert (labels == labels[np.arange(30) % 3]).all()
    assert sorted(labels[:3]) == [0, 1, 2]
    assert found.objective == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("distance", DISTANCES)
def test_every_row_a_cluster_and_one_cluster(xp, distance):
    X = suited(table(n=20), distance)
    all_rows = kmeans(to(xp, X), 20, np.random.default_rng(0), distance=distance)
    assert sorted(to_host(all_rows.labels).tolist()) == list(range(20))
    assert all_rows.objective == pytest.approx(0, abs=1e-9)
    one = kmeans(to(xp, X), 1, np.random.default_rng(0), distance=distance)
    check(one.labels, np.zeros(20, "int32"), xp)
    check(one.centers, X.mean(0, keepdims=True), xp)


def test_weights_are_multiplicities(xp):
    X, times = table(n=60), np.random.default_rng(0).integers(1, 4, 60)
    start = xp.asarray(X[:5])
    weighted = kmeans(to(xp, X), 5, None, init=start, sample_weight=xp.asarray(times.astype(float)), tol=0)
    repeated = kmeans(to(xp, X.repeat(times, axis=0)), 5, None, init=start, tol=0)
    check(weighted.centers, to_host(repeated.centers), xp)
    assert weighted.objective == pytest.approx(repeated.objective)


def test_far_from_the_origin_nothing_is_lost(xp):
    X = (table(n=200, groups=3).round(2) + 4096).astype("float32")
    start = X[:3]
    peer = Peer(3, init=start, n_init=1, tol=0, algorithm="lloyd").fit(X)
    found = kmeans(to(xp, X), 3, None, init=xp.asarray(start), tol=0)
    check(found.labels, peer.labels_, xp)
    assert found.objective == pytest.approx(peer.inertia_, rel=1e-4)


def test_row_blocks_equal_the_whole(xp, monkeypatch):
    X = table(n=300)
    whole = kmeans(to(xp, X), 6, np.random.default_rng(0))
    monkeypatch.setattr(batches, "memory", lambda device: 4 * 16 * 6 * 7)
    monkeypatch.setattr(cpu_features, "BLOCK", 7)
    for sparse in (False, True):
        found = kmeans(to(xp, X, sparse), 6, np.random.default_rng(0))
        check(found.labels, to_host(whole.labels), xp)
        check(found.centers, to_host(whole.centers), xp)


def test_seeding_from_a_sample_of_rows(xp, monkeypatch):
    monkeypatch.setattr(feature_seeding, "SEED_ROWS", 50)
    monkeypatch.setattr(feature_seeding, "SEED_ROWS_PER_CLUSTER", 1)
    X = table(n=400)
    weight = np.where(np.arange(400) < 200, 1.0, 0)
    here = kmeans(X, 4, np.random.default_rng(0), sample_weight=weight)
    found = kmeans(to(xp, X, True), 4, np.random.default_rng(0), sample_weight=xp.asarray(weight))
    check(found.labels, here.labels, xp)


def test_csr_rows_and_columns(xp):
    X = sparse_table(n=40)
    sparse = to(xp, X, True)
    assert isinstance(sparse, Csr)
    rows, columns = np.array([7, 0, 39, 7]), np.array([1, 4])
    check(sparse.dense(3, 9), X[3:9], xp, exact=True)
    check(sparse.take(xp.asarray(rows)).dense(0, 4), X[rows], xp, exact=True)
    check(sparse.columns(xp.asarray(columns)).dense(0, 40), X[:, columns], xp, exact=True)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_absent_from_blocks_are_a_loop_over_present_rows(xp, distance, sparse, weighted):
    rng = np.random.default_rng(0)
    blocks = [suited(sparse_table(n=200, d=d, seed=d), distance) for d in (5, 3)]
    present = rng.random((200, 2)) < 0.7
    weight = rng.random(200) + 0.1 if weighted else np.ones(200)
    labels, factors = rng.integers(0, 3, 200), (1.0, 0.3)
    given = [
        (to(xp, X, sparse), factor, xp.asarray(seen))
        for X, factor, seen in zip(blocks, factors, present.T, strict=True)
    ]
    found = kmeans(
        given,
        3,
        None,
        distance=distance,
        init=xp.asarray(labels),
        tol=0,
        sample_weight=xp.asarray(weight) if weighted else None,
    )
    for _ in range(found.n_iter):
        centers = [
            np.array([np.average(X[of], axis=0, weights=weight[of]) for of in (seen & (labels == k) for k in range(3))])
            for X, seen in zip(blocks, present.T, strict=True)
        ]
        with np.errstate(invalid="ignore"):
            costs = sum(
                factor * np.where(seen[:, None], distances(X, center, distance), 0)
                for X, center, factor, seen in zip(blocks, centers, factors, present.T, strict=True)
            )
        labels = costs.argmin(1)
    somewhere = present.any(1)
    check(found.labels, np.where(somewhere, labels, -1).astype("int32"), xp)
    assert found.objective == pytest.approx((weight * costs[np.arange(200), labels]).sum())
    assert sum(found.costs) == pytest.approx(found.objective)
    for center, mine in zip(centers, found.centers, strict=True):
        check(mine, center, xp)


def test_a_cluster_of_absent_rows_gets_a_present_one(xp):
    X, Y = np.array([[0.0], [0], [9], [5]]), np.array([[0.0], [0], [0], [1]])
    present = xp.asarray(np.array([True, True, True, False]))
    start = xp.asarray(np.array([0, 0, 0, 1]))
    found = kmeans([(to(xp, X), 1.0, present), (to(xp, Y), 0.1)], 2, None, init=start, tol=0)
    check(found.labels, np.array([0, 0, 1, 1], "int32"), xp)
    check(found.centers[0], np.array([[0.0], [9]]), xp)


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_start_from_labels_is_one_from_their_means(xp, distance):
    X = suited(sparse_table(n=90), distance)
    labels = np.random.default_rng(0).integers(0, 4, 90)
    means = np.array([X[labels == k].mean(0) for k in range(4)])
    one = kmeans(to(xp, X), 4, None, distance=distance, init=xp.asarray(labels), tol=0)
    two = kmeans(to(xp, X), 4, None, distance=distance, init=xp.asarray(means), tol=0)
    check(one.labels, to_host(two.labels), xp)
    assert one.objective == pytest.approx(two.objective)


def test_a_start_from_random_rows(xp):
    X = table(n=200)
    here = kmeans(X, 4, np.random.default_rng(0), init="random", n_init=3)
    found = kmeans(to(xp, X, True), 4, np.random.default_rng(0), init="random", n_init=3)
    check(found.labels, here.labels, xp)
    assert here.objective != kmeans(X, 4, np.random.default_rng(1), init="random", max_iter=1).objective


@numba.njit
def dots(rows, chosen, table, out):
    for j in range(0, len(chosen), tiles.DOT_ROWS):
        vector_dots.dot_rows(rows, chosen, j, len(chosen), table, out)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [1, 3, 4, 9])
def test_products_of_rows_with_a_narrow_table(dtype, m):
    rng = np.random.default_rng(m)
    rows, chosen = rng.standard_normal((20, 7)).astype(dtype), np.sort(rng.choice(20, m, replace=False))
    lanes = 32 // np.dtype(dtype).itemsize
    for k in range(1, 3 * lanes + 1):
        width = tiles.dot_width(k, dtype)
        assert k <= width < k + lanes
        table, out = tiles.aligned((7, width), dtype), tiles.aligned((m + 2, width), dtype)
        table[:, :k] = rng.standard_normal((7, k))
        dots(rows, chosen, table, out)
        np.testing.assert_allclose(out[:m], rows[chosen] @ table, rtol=0, atol=50 * np.finfo(dtype).eps)
        assert not out[m:].any()
    assert tiles.dot_width(3 * lanes + 1, dtype) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 8, 20, 56, 57, 130])
def test_products_of_sparse_rows_with_a_table(dtype, k):
    rng = np.random.default_rng(k)
    X = random_array((30, 9), density=0.4, format="csr", dtype=dtype, random_state=rng)
    width, chosen = tiles.padded(k, dtype), np.array([0, 3, 4, 29])
    table, out = tiles.aligned((9, width), dtype), tiles.aligned((5, width), dtype)
    table[:, :k] = rng.standard_normal((9, k))
    for times, first in ((1, True), (1, True), (2, False)):
        cpu_features.sparse_scores(X.data, X.indices, X.indptr, chosen, table, first, out)
        np.testing.assert_allclose(out[:4], times * (X[chosen] @ table), rtol=0, atol=50 * np.finfo(dtype).eps)
    assert not out[4].any()


@pytest.mark.parametrize("clusters", [6, 30])  # few and many for a dense step
@pytest.mark.parametrize(("distance", "smoothing"), [*((distance, 0) for distance in DISTANCES), ("kl", 0.3)])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("guide", [None, "agreement", "same"])
@pytest.mark.parametrize("holes", [False, True])
def test_many_steps_in_one_call_are_single_steps(monkeypatch, clusters, distance, smoothing, sparse, guide, holes):
    rng = np.random.default_rng(0)
    X = suited(sparse_table(n=300), distance)
    present = rng.random(300) < 0.7 if holes else None
    blocks = [measures.FeatureBlock(to(np, X, sparse), 1.0, present, smoothing=smoothing)]
    if guide is not None:
        labels = onehot(rng.integers(0, 3, 300).astype("int32"), 3, "float64")
        blocks.append(measures.FeatureBlock(labels, 0.3, None, "agreement" if guide == "agreement" else None))
    prepared = measures.prepare(blocks, distance)
    options = {"init": rng.integers(0, clusters, 300), "tol": 0}
    assert cpu_lloyd.fits(prepared)
    many = kmeans(prepared, clusters, None, **options)
    monkeypatch.setattr(cpu_lloyd, "fits", lambda features: False)
    single = kmeans(prepared, clusters, None, **options)
    assert many.n_iter == single.n_iter > 3
    np.testing.assert_array_equal(many.labels, single.labels)
    np.testing.assert_allclose(many.costs, single.costs)


@pytest.mark.parametrize("distance", ["sqeuclidean", "cosine"])
@pytest.mark.parametrize("n_init", [1, 3])
def test_clusters_much_nearer_to_each_other_than_to_the_mean_are_found_in_float32(xp, distance, n_init):
    y = np.repeat(np.arange(4), 100)
    X = np.array([[0, 0, 1], [12, 0, 1], [20000, 0, 1], [20012, 0, 1.0]])[y]
    if distance == "cosine":
        X = np.array([[1, 0, 0], [1, 1e-3, 0], [0, 0, 1], [0, 1e-3, 1.0]])[y] * 100
    X = (X + np.random.default_rng(0).normal(size=X.shape) * (1 if distance == "sqeuclidean" else 1e-2)).astype(
        "float32"
    )
    for seed in range(3):
        found = kmeans(xp.asarray(X), 4, np.random.default_rng(seed), distance=distance, n_init=n_init)
        assert adjusted_rand_score(y, to_host(found.labels)) > (0.99 if n_init > 1 else 0.5)
        assert found.n_clusters == 4
        assert found.centers.dtype == "float32"


def test_copies_in_float32_are_clustered_once(monkeypatch):
    X = np.repeat(np.random.default_rng(0).normal(size=(3, 2)).astype("float32") + 1000, 5, axis=0)
    monkeypatch.setattr(measures.Features, "wide", None)
    assert kmeans(X, 4, np.random.default_rng(0)).n_clusters == 3
