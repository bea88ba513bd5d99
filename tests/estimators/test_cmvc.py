"""CMVC against its equations by loops, against scikit-learn, and its laws; views and their sub-views; bad input."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

import gpuensemble as ge
from cudasim.tally import counted
from gpuensemble._array import csr, random
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._kmeans.features import batches
from gpuensemble._kmeans.features import seeding as feature_seeding
from gpuensemble._kmeans.features.distances import FeatureBlock, prepare
from gpuensemble._kmeans.labels import seeding
from gpuensemble._tables.blocks import whole
from gpuensemble.estimators.cmvc import solver, views
from support import check

DISTANCES = ("sqeuclidean", "cosine", "kl")
K = 4


def data(n=90, widths=(8, 12), holes=0.0, seed=0, noise=0.3):
    """A partition; views of it without negative entries or rows of zeros; and where a sample is present."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, n)
    made = []
    for d in widths:
        centers = 4 * rng.random((K, d)) * (rng.random((K, d)) < 0.5) + np.eye(K, d)
        X = abs(centers[truth] + noise * rng.standard_normal((n, d)))
        X[rng.random(X.shape) < 0.1] = 0
        X[(X == 0).all(1), 0] = 1
        made.append(X)
    present = rng.random((n, len(widths))) >= holes
    present[~present.any(1), 0] = True
    return truth, made, present


def with_nan(made, present):
    return [np.where(present[:, [v]], X, np.nan) for v, X in enumerate(made)]


def mixed(X, seen, smoothing):
    """Rows that are present, mixed with their sum as a distribution."""
    total = X[seen].sum(0)
    return np.where(seen[:, None], (1 - smoothing) * X + smoothing * X.sum(1, keepdims=True) * total / total.sum(), 0)


def problem(distance, holes=0.3, seed=0, trade_off=0.5, update="approximate", xp=np, smoothing=0, scale=0, **more):
    """Features of two views, base partitions by random labels, and random labels as consensus."""
    _, made, present = data(holes=holes, seed=seed, **more)
    made = [csr.scaled(X, True) for X in made] if scale else made
    rng = np.random.default_rng(seed + 1)
    parts = [
        prepare([FeatureBlock(xp.asarray(X), present=xp.asarray(seen), smoothing=smoothing)], distance)
        for X, seen in zip(made, present.T, strict=True)
    ]
    base = [
        solver.Partition(xp.asarray(np.where(seen, rng.integers(0, K, len(seen)), -1).astype("int32")), K, 0.0)
        for seen in present.T
    ]
    labels = xp.asarray(rng.integers(0, K, len(present)).astype("int32"))
    return made, present, parts, base, labels, solver.Plan(K, distance, trade_off, update, 1, 100, map)


def far(x, c, distance):
    """Table 3: the distance of a row from a centre."""
    if distance == "sqeuclidean":
        return ((x - c) ** 2).sum()
    if distance == "cosine":
        return np.linalg.norm(x) - (x @ c / np.linalg.norm(c) if c.any() else 0)
    if (c[x > 0] == 0).any():
        return np.inf
    p, q = x[x > 0] / x.sum(), c[x > 0] / c.sum()
    return x.sum() * (p * np.log(p / q)).sum()


def equation_4(made, present, base, labels, trade_off):
    """sum_v |X_v - H_v C_v|^2 + lambda |H_v - H* G_v|^2 over the observed rows, with the best C_v and G_v."""
    total = 0.0
    for X, seen, one in zip(made, present.T, base, strict=True):
        H, star = np.eye(K)[one.labels[seen]], np.eye(K)[labels[seen]]
        for target, indicator, weight in ((X[seen], H, 1.0), (H, star, trade_off)):
            best = np.linalg.lstsq(indicator, target, rcond=None)[0]
            total += weight * ((target - indicator @ best) ** 2).sum()
    return total


def loop_of_guided_k_means(X, seen, onehot, labels, trade_off, distance):
    """Eqs. 24 and 26 by loops: labels, of all rows, once they stay the same; the start has -1 for an absent row."""
    while True:
        centers = [[rows.mean(0) for rows in (X[seen & (labels == k)], onehot[labels == k])] for k in range(K)]
        new = np.array(
            [
                np.argmin(
                    [
                        (far(X[i], one, distance) if seen[i] else 0) + trade_off * far(onehot[i], two, distance)
                        for one, two in centers
                    ]
                )
                for i in range(len(X))
            ]
        )
        if (new == labels).all():
            return new
        labels = new


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("holes", [0, 0.3])
def test_a_hidden_partition_is_found_in_every_library(xp, distance, holes):
    truth, made, present = data(holes=holes)
    model = ge.CMVC(K, distance=distance, n_subviews=4, feature_ratio=0.8, random_state=0)
    here = clone(model).set_params(device="cpu").fit(with_nan(made, present))
    there = clone(model).fit([xp.asarray(X) for X in with_nan(made, present)])
    assert ge.metrics.ari(truth, here.labels_) > 0.7
    check(there.labels_, here.labels_, xp)
    check(there.base_labels_, here.base_labels_, xp)
    assert here.labels_.dtype == "int32"
    assert here.base_labels_.shape == (90, 8)
    np.testing.assert_array_equal(here.base_labels_ >= 0, present.repeat(4, axis=1))
    assert there.objective_ == pytest.approx(here.objective_)
    assert there.objective_path_[-1] == there.objective_
    assert there.n_iter_ == len(there.objective_path_)
    assert there.device_ == ("cpu" if xp is np else "cuda:0")


def test_the_first_consensus_is_seeded_from_a_sample_of_rows(xp, monkeypatch):
    truth, made, present = data(n=400, holes=0.3)
    monkeypatch.setattr(feature_seeding, "SEED_ROWS", 40)
    monkeypatch.setattr(feature_seeding, "SEED_ROWS_PER_CLUSTER", 1)
    drawn_from, plus_plus = [], seeding.plus_plus
    monkeypatch.setattr(seeding, "plus_plus", lambda table, *args: drawn_from.append(table) or plus_plus(table, *args))
    model = ge.CMVC(K, n_subviews=4, feature_ratio=0.8, random_state=0)
    here = clone(model).set_params(device="cpu").fit(with_nan(made, present))
    there = clone(model).fit([xp.asarray(X) for X in with_nan(made, present)])
    assert {table.n_rows for table in drawn_from} == {40}
    assert ge.metrics.ari(truth, here.labels_) > 0.7
    check(there.labels_, here.labels_, xp)


@pytest.mark.parametrize("update", ["approximate", "exact"])
@pytest.mark.parametrize("kind", ["given", "mixed", "sparse"])
def test_sparse_views_and_presence_give_what_dense_views_with_nan_give(xp, update, kind):
    _, made, present = data(holes=0.3)
    distance = "sqeuclidean" if update == "exact" else "cosine"
    model = ge.CMVC(K, distance=distance, update=update, n_subviews=3, random_state=1)
    expected = clone(model).set_params(device="cpu").fit(with_nan(made, present))
    if kind == "given":
        made = [np.where(present[:, [v]], X, -7) for v, X in enumerate(made)]  # what absent rows hold does not matter
        found = model.fit([xp.asarray(X) for X in made], present=xp.asarray(present))
        check(found.labels_, expected.labels_, xp)
    else:
        one, two = made[0] if kind == "mixed" else sparse.csc_array(made[0]), sparse.csr_matrix(made[1])
        found = model.set_params(device="cpu" if xp is np else "cuda").fit([one, two], present=present.astype(int))
        check(found.labels_, expected.labels_, np)
    np.testing.assert_array_equal(to_host(found.base_labels_), expected.base_labels_)
    assert found.objective_ == pytest.approx(expected.objective_)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 1.0, 30.0, 1000.0]), st.sampled_from([0, 0.4]), st.booleans())
@settings(max_examples=15)
def test_the_exact_update_raises_equation_4_in_no_half_step(seed, trade_off, holes, scale):
    options = {"holes": holes, "seed": seed, "trade_off": trade_off, "update": "exact", "n": 40, "scale": scale}
    made, present, parts, base, labels, options = problem("sqeuclidean", **options)
    path = [equation_4(made, present, base, labels, trade_off)]
    for _ in range(4):
        labels, _ = solver.fuse(solver.fusing(whole(solver.membership(base)), options), labels)
        path.append(equation_4(made, present, base, labels, trade_off))
        base = solver.guide(parts, base, labels, options)
        path.append(equation_4(made, present, base, labels, trade_off))
    assert path[1] < path[0]
    assert (np.diff(path) <= 1e-9 * path[0]).all()
    run = solver.run(parts, base, labels, options)
    assert run.path[-1] == pytest.approx(equation_4(made, present, run.base, run.labels, trade_off))


def test_the_exact_update_is_equations_8_9_and_12(xp):
    made, present, parts, base, labels, options = problem("sqeuclidean", trade_off=1.0, update="exact", xp=xp)
    found = solver.guide(parts, base, labels, options)
    for X, seen, before, after in zip(made, present.T, base, found, strict=True):
        rows, star, current = X[seen], np.eye(K)[to_host(labels)[seen]], to_host(before.labels)[seen]
        while True:
            H = np.eye(K)[current]
            G = np.linalg.inv(star.T @ star) @ star.T @ H
            C = np.linalg.inv(H.T @ H) @ H.T @ rows
            costs = [
                ((rows - C[j]) ** 2).sum(1) + options.trade_off * ((np.eye(K)[j] - star @ G) ** 2).sum(1)
                for j in range(K)
            ]
            if (np.argmin(costs, axis=0) == current).all():
                break
            current = np.argmin(costs, axis=0)
        check(after.labels[xp.asarray(seen)], current.astype("int32"), xp)
        assert (to_host(after.labels)[~seen] == -1).all()
        assert after.cost == pytest.approx(((rows - C[current]) ** 2).sum())


def test_the_approximate_update_is_k_means_on_the_concatenation(xp):
    made, _, parts, base, labels, options = problem("sqeuclidean", holes=0, xp=xp)
    found = solver.guide(parts, base, labels, options)
    for X, before, after in zip(made, base, found, strict=True):
        both = np.hstack([X, options.trade_off**0.5 * np.eye(K)[to_host(labels)]])
        start = np.array([both[to_host(before.labels) == k].mean(0) for k in range(K)])
        peer = KMeans(K, init=start, n_init=1, tol=0, algorithm="lloyd").fit(both)
        check(after.labels, peer.labels_, xp)


@pytest.mark.parametrize(("distance", "smoothing"), [*((distance, 0.0) for distance in DISTANCES), ("kl", 0.4)])
@pytest.mark.parametrize("trade_off", [0.05, 2.0])
def test_the_approximate_update_with_holes_is_a_loop_over_observed_rows(xp, distance, smoothing, trade_off):
    made, present, parts, base, labels, options = problem(distance, trade_off=trade_off, xp=xp, smoothing=smoothing)
    found = solver.guide(parts, base, labels, options)
    onehot = np.eye(K)[to_host(labels)]
    rows = [mixed(X, seen, smoothing) for X, seen in zip(made, present.T, strict=True)]
    for X, seen, before, after in zip(rows, present.T, base, found, strict=True):
        with np.errstate(divide="ignore"):
            expected = loop_of_guided_k_means(X, seen, onehot, to_host(before.labels), trade_off, distance)
        check(after.labels, np.where(seen, expected, -1).astype("int32"), xp)
        centers = [X[seen & (expected == k)].mean(0) for k in range(K)]
        cost = sum(far(X[i], centers[expected[i]], distance) for i in np.flatnonzero(seen))
        assert after.cost == pytest.approx(cost)


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_consensus_with_holes_is_a_loop_over_observed_labels(xp, distance):
    _, present, _, base, labels, options = problem(distance, n=400, xp=xp)
    found, disagreement = solver.fuse(solver.fusing(whole(solver.membership(base)), options), labels)
    tables, current = [np.eye(K)[to_host(one.labels)] for one in base], to_host(labels)
    while True:
        centers = [
            [H[seen & (current == k)].mean(0) for H, seen in zip(tables, present.T, strict=True)] for k in range(K)
        ]
        costs = [
            [
                sum(far(H[i], c, distance) for H, c, seen in zip(tables, own, present[i], strict=True) if seen)
                for own in centers
            ]
            for i in range(len(current))
        ]
        new = np.argmin(costs, axis=1)
        objective = np.min(costs, axis=1).sum()
        if (new == current).all():
            break
        current = new
    check(found, current.astype("int32"), xp)
    assert disagreement == pytest.approx(objective)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("update", ["approximate", "exact"])
def test_from_one_start_order_changes_nothing_but_the_order(distance, update):
    if update == "exact" and distance != "sqeuclidean":
        pytest.skip("the exact update is for squared Euclidean distances")
    made, present, parts, base, labels, options = problem(distance, update=update)
    plain = solver.run(parts, base, labels, options)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    moved = [
        prepare([FeatureBlock(X[np.ix_(order, rng.permutation(X.shape[1]))], present=seen[order])], distance)
        for X, seen in zip(made, present.T, strict=True)
    ]
    shuffled = [one._replace(labels=one.labels[order]) for one in base]
    other = solver.run(moved[::-1], shuffled[::-1], labels[order], options)
    np.testing.assert_array_equal(other.labels, plain.labels[order])
    for one, two in zip(plain.base, other.base[::-1], strict=True):
        np.testing.assert_array_equal(two.labels, one.labels[order])
    assert other.path == pytest.approx(plain.path)


@pytest.mark.parametrize("update", ["approximate", "exact"])
def test_one_view_without_a_guide_is_k_means(xp, update):
    _, (X, _), _ = data()
    options = {"n_subviews": 1, "feature_ratio": 1, "trade_off": 0, "update": update, "random_state": 0}
    found = ge.CMVC(K, distance="sqeuclidean", **options).fit([xp.asarray(X)])
    labels = to_host(found.labels_)
    assert ge.metrics.ari(labels, to_host(found.base_labels_)[:, 0]) == 1
    centers = np.array([X[labels == k].mean(0) for k in range(K)])
    peer = KMeans(K, init=centers, n_init=1, tol=0, algorithm="lloyd").fit(X)
    np.testing.assert_array_equal(peer.labels_, labels)
    assert found.objective_ == pytest.approx(peer.inertia_)


def test_a_strong_guide_makes_the_views_agree():
    _, made, _ = data(noise=3)
    loose, tight = (
        ge.CMVC(K, n_subviews=1, trade_off=trade_off, random_state=0, device="cpu").fit(made) for trade_off in (0, 100)
    )
    assert ge.metrics.ari(*loose.base_labels_.T) < 0.9
    assert ge.metrics.ari(*tight.base_labels_.T) == 1


@pytest.mark.parametrize("distance", ["cosine", "sqeuclidean", "kl"])
def test_a_sparse_view_gets_no_dense_copy(distance):
    X = sparse.random_array((1500, 30_000), density=0.001, format="csr", random_state=np.random.default_rng(0))
    X = sparse.csr_array(sparse.hstack([X, np.ones((1500, 1))]))
    model = ge.CMVC(3, distance=distance, n_subviews=2, feature_ratio=1, random_state=0, device="cpu", max_iter=2)
    model.fit([X[:20, -50:]])  # compiles
    tracemalloc.start()
    model.fit([X])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.1 * X.shape[0] * X.shape[1] * 8


def test_dtype_and_more_starts():
    truth, made, _ = data()
    single = ge.CMVC(K, dtype="float32", random_state=0, device="cpu").fit(made)
    assert ge.metrics.ari(truth, single.labels_) > 0.7
    few, many = (ge.CMVC(K, n_init=n, random_state=0, trade_off=0, device="cpu").fit(made) for n in (1, 10))
    assert many.objective_ < few.objective_


def test_it_pickles_and_a_seed_means_one_result():
    _, made, _ = data()
    model = ge.CMVC(K, random_state=3, device="cpu").fit(made)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).labels_, model.labels_)
    again = clone(model)
    np.testing.assert_array_equal(again.fit_predict(made), model.labels_)
    assert again.get_params() == model.get_params()


def test_sub_views_use_each_column_as_often_as_any_other():
    X = np.eye(7) + 1
    parts = list(views.subviews([views.View(X, None)], views.Recipe(5, 0.4, "cosine"), np.random.default_rng(0)))
    assert [part.parts[0].shape for part in parts] == [(7, 3)] * 5
    used = sum((part.parts[0] == 2).any(0).sum() for part in parts)
    assert used == 15
    rows = np.concatenate([np.flatnonzero((part.parts[0] == 2).any(1)) for part in parts])
    assert sorted(np.bincount(rows).tolist()) == [2] * 6 + [3]


@pytest.mark.parametrize("distance", DISTANCES)
def test_sub_views_of_a_dense_view_are_one_piece_of_memory(distance):
    X = np.random.default_rng(0).random((30, 10))
    found = views.subviews([views.View(X, None)], views.Recipe(3, 0.5, distance), np.random.default_rng(0))
    mean, pieces = X.mean(0) if distance == "sqeuclidean" else 0, set()
    for part, chosen in zip(found, random.deal(10, 5, 3, np.random.default_rng(0)), strict=True):
        own, short = part.parts[0], part.short[0]
        np.testing.assert_allclose(own, (X - mean)[:, chosen], atol=1e-15)
        assert (short is None) == (distance == "kl")
        assert short is None or (short == own.astype("float32")).all()
        pieces |= {_owner(one) for one in (own, short) if one is not None}
    assert len(pieces) == (1 if distance == "kl" else 2)


def _owner(array):
    """The address of the array that owns the memory of this one."""
    while array.base is not None:
        array = array.base
    return array.ctypes.data


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_row_without_features_is_absent_from_the_sub_view(distance):
    X = np.kron(np.eye(4), np.ones((6, 1)))  # each sample has one feature
    model = ge.CMVC(2, distance=distance, n_subviews=4, random_state=0, device="cpu").fit([X])
    holes = (model.base_labels_ < 0).mean()
    assert holes == (0 if distance == "sqeuclidean" else 0.5)
    if distance != "sqeuclidean":
        message = r"^Every sample must have a feature other than 0 in a sub-view, got row \d+ without\.$"
        with pytest.raises(ValueError, match=message):
            ge.CMVC(2, distance=distance, n_subviews=1, random_state=0, device="cpu").fit([X])


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_scaled_rows_are_rows_that_the_caller_scaled(xp, distance, dtype, kind):
    _, made, present = data(holes=0.3)
    options = {"distance": distance, "n_subviews": 1, "feature_ratio": 1, "trade_off": 0.2, "random_state": 0}
    model = ge.CMVC(K, dtype=dtype, **options)
    unit = [normalize(X, "l1" if distance == "kl" else "l2") for X in made]
    by_hand = clone(model).set_params(device="cpu").fit(unit, present=present)
    model.set_params(scale_rows=True, device="cpu" if xp is np else "cuda")
    given = [sparse.csr_array(X) for X in made] if kind == "sparse" else with_nan(made, present)
    found = model.fit(given, present=present)
    np.testing.assert_array_equal(to_host(found.labels_), by_hand.labels_)
    np.testing.assert_array_equal(to_host(found.base_labels_), by_hand.base_labels_)
    assert found.objective_ == pytest.approx(by_hand.objective_, rel=1e-3 if dtype == "float32" else 1e-9)
    plain = clone(model).set_params(scale_rows=False).fit(given, present=present)
    assert found.objective_ < 0.9 * plain.objective_


@pytest.mark.parametrize("distance", DISTANCES)
def test_rows_are_scaled_within_the_columns_of_a_sub_view(xp, distance):
    _, (X, _), present = data(holes=0.3, widths=(8, 8))
    X[present[:, 0].argmax(), :7] = 0  # absent from sub-views without the last column, but for squared distances
    seen = present[:, 0]
    view = views.View(xp.asarray(np.where(seen[:, None], X, 0)), xp.asarray(seen))
    recipe = views.Recipe(6, 0.5, distance, True)
    n_zero = 0
    for part in views.subviews([view], recipe, np.random.default_rng(0)):
        rows = to_host(part.parts[0]) + (0 if part.means[0] is None else to_host(part.means[0]))
        inside = to_host(part.present[0])
        assert not to_host(part.parts[0])[~inside].any()
        size = np.linalg.norm(rows[inside], 1 if distance == "kl" else 2, axis=1)
        zero = size < 1e-12
        np.testing.assert_allclose(size[~zero], 1)
        assert (inside.sum() == seen.sum()) == (distance == "sqeuclidean" or (inside == seen).all())
        n_zero += zero.sum() if distance == "sqeuclidean" else (inside < seen).sum()
    assert n_zero == 3  # the last column is dealt to three of six halves


def test_the_objective_of_scaled_rows_is_equation_4_of_them():
    _, made, present = data(n=400, noise=3, holes=0.3)
    options = {"distance": "sqeuclidean", "update": "exact", "scale_rows": True, "trade_off": 0.1, "random_state": 1}
    found = ge.CMVC(K, n_subviews=1, feature_ratio=1, device="cpu", **options).fit(made, present=present)
    base = [solver.Partition(labels, K, 0.0) for labels in found.base_labels_.T]
    expected = equation_4([normalize(X) for X in made], present, base, found.labels_, 0.1)
    assert found.objective_ == pytest.approx(expected)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_smoothed_rows_end_up_with_their_nearest_mean(xp, scale, kind):
    _, made, present = data(holes=0.3, noise=1)
    model = ge.CMVC(K, distance="kl", smoothing=0.3, scale_rows=scale, trade_off=0, n_subviews=1, feature_ratio=1)
    model.set_params(random_state=0, device="cpu" if xp is np else "cuda")
    found = model.fit([sparse.csr_array(X) for X in made] if kind == "sparse" else made, present=present)
    total = 0.0
    for X, seen, labels in zip(made, present.T, to_host(found.base_labels_).T, strict=True):
        rows = mixed(normalize(X, "l1") if scale else X, seen, 0.3)
        costs = np.array([[far(x, rows[labels == k].mean(0), "kl") for k in range(K)] for x in rows[seen]])
        np.testing.assert_array_equal(costs.argmin(1), labels[seen])
        total += costs.min(1).sum()
    assert found.objective_ == pytest.approx(total)


@pytest.mark.parametrize("smoothing", [0, 0.3, 0.7])
def test_rows_of_one_column_are_one_distribution(smoothing):
    X = np.random.default_rng(0).random((60, 1)) * 1000
    model = ge.CMVC(K, distance="kl", smoothing=smoothing, random_state=0, device="cpu")
    with pytest.warns(ConvergenceWarning, match="more than there are distinct rows: 1 clusters"):
        assert not model.fit([X, sparse.csr_array(X)]).base_labels_.any()


def test_smoothing_is_of_kl_alone():
    _, made, _ = data()
    for distance in ("cosine", "sqeuclidean"):
        one, two = (ge.CMVC(K, distance=distance, smoothing=s, random_state=0, device="cpu") for s in (0, 0.9))
        assert one.fit(made).objective_ == two.fit(made).objective_
    assert ge.CMVC(K, distance="kl", smoothing=0.9, random_state=0, device="cpu").fit(made).objective_ < (
        0.5 * ge.CMVC(K, distance="kl", smoothing=0, random_state=0, device="cpu").fit(made).objective_
    )


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_sub_views_that_do_not_fit_are_refused_before_any_work(monkeypatch, kind):
    _, made, _ = data(n=100, widths=(8, 12))
    entries = 100 * 20
    if kind == "sparse":
        made = [sparse.csr_array(X) for X in made]
        entries = sum(X.nnz for X in made)
    needed = 5 * (entries * 12 // 2 + 2 * 16 * 100)  # dense in float64 and float32; sparse with indices
    drawn = []
    monkeypatch.setattr(views, "subviews", lambda *args: drawn.append(args))
    monkeypatch.setattr("gpuensemble._array.checks.memory", lambda device: 10_000)
    with pytest.raises(ValueError) as error:
        ge.CMVC(K, n_subviews=5, device="cpu").fit(made)
    assert str(error.value) == (
        f"The 10 sub-views of CMVC must fit into memory: {needed / 1e9:.3g} GB are needed, this machine has 1e-05 GB; "
        "lower `n_subviews` or `feature_ratio`, or set `dtype` to 'float32'."
    )
    assert not drawn


def test_sub_views_that_are_their_view_need_no_memory_of_their_own(monkeypatch):
    _, made, _ = data(n=100)
    monkeypatch.setattr("gpuensemble._array.checks.memory", lambda device: 10_000)
    options = {"n_subviews": 2, "feature_ratio": 1, "random_state": 0, "device": "cpu"}
    assert ge.CMVC(K, **options).fit(made).labels_.shape == (100,)
    for more in ({"scale_rows": True}, {"distance": "sqeuclidean"}):
        with pytest.raises(ValueError, match="must fit into memory"):
            ge.CMVC(K, **options, **more).fit(made)


def test_too_few_iterations_warn():
    _, made, _ = data(n=300, noise=3)
    with pytest.warns(ConvergenceWarning, match=r"`max_iter` = 1 iterations did not lead to convergence: the last one"):
        ge.CMVC(K, trade_off=0.5, max_iter=1, random_state=0, device="cpu").fit(made)


def test_fewer_distinct_rows_than_clusters_warn():
    X = np.array([[1.0, 0], [0, 1]])[np.arange(12) % 2]
    model = ge.CMVC(3, n_subviews=2, feature_ratio=1, random_state=0, device="cpu")
    with pytest.warns(ConvergenceWarning, match="`n_clusters` = 3 is more than there are distinct rows: 2 clusters"):
        assert sorted(set(model.fit_predict([X]).tolist())) == [0, 1]


def test_a_progress_bar_and_a_list_of_lists(capsys):
    model = ge.CMVC(2, n_subviews=1, feature_ratio=1, verbose=1, random_state=0, device="cpu")
    assert model.fit([[[1, 0], [0, 1], [1, 0]]]).labels_.shape == (3,)
    assert "iterations" in capsys.readouterr().err


def named(X):
    return pd.DataFrame(X, index=[f"s{i}" for i in range(len(X))])


def bad_views():
    """(parameters, views, present, sentence)"""
    _, (A, B), _ = data()
    gap = np.where(np.arange(90)[:, None] == 3, np.nan, 1.0)
    hole, zero, negative, infinite = A.copy(), A.copy(), A.copy(), A.copy()
    hole[5, 2], zero[7], negative[8, 1], infinite[0, 0] = np.nan, 0, -0.5, np.inf
    nowhere = np.arange(90)[:, None] != np.array([4, 4])
    kl, squared = {"distance": "kl"}, {"distance": "sqeuclidean"}
    yield (
        "lengths",
        {},
        [A, B, B[:80]],
        None,
        "`views` must have the same number of rows, got 90 in views[0] and 80 in views[2].",
    )
    yield (
        "nowhere",
        {},
        [A * gap, named(B * gap)],
        None,
        "Every sample must be present in a view, got row 's3' absent from all.",
    )
    yield "nowhere marked", {}, [A, B], nowhere, "Every sample must be present in a view, got row 4 absent from all."
    yield "no sample", {}, [A, B * np.nan], None, "`views[1]` must have a sample that is present, got none."
    yield (
        "negative",
        kl,
        [A, negative],
        None,
        "`views[1]` must not be negative with the kl distance, got -0.5 in row 8, column 1.",
    )
    yield (
        "negative sparse",
        kl,
        [sparse.csr_array(negative)],
        None,
        "`views[0]` must not be negative with the kl distance, got -0.5 in row 8, column 1.",
    )
    yield (
        "zeros",
        {},
        [A, named(zero)],
        None,
        "`views[1]` must have no row of zeros with the cosine distance, got one at row 's7'.",
    )
    yield (
        "zeros sparse",
        kl,
        [sparse.csr_array(zero)],
        None,
        "`views[0]` must have no row of zeros with the kl distance, got one at row 7.",
    )
    yield (
        "hole",
        {},
        [named(hole), B],
        None,
        "`views[0]` must be finite where a sample is present, got nan in row 's5', column 2.",
    )
    yield (
        "infinite",
        squared,
        [infinite, B],
        None,
        "`views[0]` must be finite where a sample is present, got inf in row 0, column 0.",
    )
    yield (
        "NaN sparse",
        {},
        [sparse.csr_array(hole)],
        None,
        "`views[0]` must be finite where a sample is present, got nan in row 5, column 2.",
    )
    yield (
        "present",
        {},
        [A, B],
        np.ones((90, 3), bool),
        "`present` must be n_samples x views = 90 x 2, got shape (90, 3).",
    )
    yield (
        "present numbers",
        {},
        [A, B],
        np.full((90, 2), 2),
        "`present` must hold booleans, or 0 and 1, got 2 in row 0, column 0.",
    )
    yield "an array", {}, A, None, "`views` must be a list of matrices of the same samples, got ndarray."
    yield "nothing", {}, [], None, "`views` must be a list of at least one matrix, got an empty one."
    large = (
        "`views[1]` must have a largest entry of 0, or between 1e-15 and 1e+15 in size, got 1e+16 in row 0, column 0."
    )
    yield "large", {"dtype": "float32"}, [A, np.where(B[0, 0] == B, 1e16, B)], None, large
    yield "text", {}, [A.astype(str)], None, "`views[0]` must hold numbers, got dtype <U32."
    yield "a vector", {}, [A, B[:, 0]], None, "`views[1]` must have 2 axes, got an array of shape (90,)."
    yield "no columns", {}, [A[:, :0]], None, "`views[0]` must have at least one row and one column, got shape (90, 0)."
    yield "ratio", {"feature_ratio": 0}, [A], None, "`feature_ratio` must be more than 0 and at most 1, got 0."
    yield (
        "ratio above",
        {"feature_ratio": 1.5},
        [A],
        None,
        "`feature_ratio` must be more than 0 and at most 1, got 1.5.",
    )
    yield (
        "exact",
        {"update": "exact"},
        [A],
        None,
        "`distance` must be 'sqeuclidean' for the exact update, got 'cosine'.",
    )
    yield (
        "exact kl",
        {"update": "exact", **kl},
        [A],
        None,
        "`distance` must be 'sqeuclidean' for the exact update, got 'kl'.",
    )
    yield (
        "distance",
        {"distance": "l1"},
        [A],
        None,
        "`distance` must be one of 'sqeuclidean', 'cosine', 'kl', got 'l1'.",
    )
    share = "`smoothing` must be at least 0 and less than 1, got"
    yield "smoothing", {"smoothing": 1}, [A], None, f"{share} 1."
    yield "smoothing below", {"smoothing": -0.1}, [A], None, f"{share} -0.1."
    yield "smoothing NaN", {"smoothing": np.nan, **kl}, [A], None, f"{share} nan."
    yield "smoothing flag", {"smoothing": True}, [A], None, f"{share} True."
    yield "scale_rows", {"scale_rows": "yes"}, [A], None, "`scale_rows` must be True or False, got 'yes' of type str."
    yield "update", {"update": "fast"}, [A], None, "`update` must be one of 'approximate', 'exact', got 'fast'."
    yield "trade_off", {"trade_off": -1.0}, [A], None, "`trade_off` must be finite and not negative, got -1.0."
    yield "sub-views", {"n_subviews": 0}, [A], None, "`n_subviews` must be at least 1, got 0."
    yield "starts", {"n_init": 0}, [A], None, "`n_init` must be at least 1, got 0."
    yield "iterations", {"max_iter": 0}, [A], None, "`max_iter` must be at least 1, got 0."
    yield "clusters", {"n_clusters": 91}, [A], None, "`n_clusters` must be between 1 and n_samples=90, got 91."
    yield "dtype", {"dtype": "float16"}, [A], None, "`dtype` must be one of 'float32', 'float64', got 'float16'."


BAD = {name: case for name, *case in bad_views()}


@pytest.mark.parametrize(("parameters", "made", "present", "sentence"), BAD.values(), ids=BAD)
def test_bad_input_gets_one_sentence(parameters, made, present, sentence):
    with pytest.raises((TypeError, ValueError)) as error:
        ge.CMVC(**{"n_clusters": K, "device": "cpu"} | parameters).fit(made, present=present)
    assert str(error.value) == sentence


@pytest.mark.parametrize("name", ["nowhere marked", "negative", "zeros", "hole"])
def test_bad_input_on_the_device(xp, name):
    parameters, made, present, sentence = BAD[name]
    made = [xp.asarray(X) if isinstance(X, np.ndarray) else X for X in made]
    with pytest.raises(ValueError) as error:
        ge.CMVC(K, device="cpu" if xp is np else "cuda", **parameters).fit(made, present=present)
    assert str(error.value) == sentence


def test_answers_come_home(xp):
    _, made, _ = data()
    found = ge.CMVC(K, n_subviews=2, random_state=0, device="cpu").fit([xp.asarray(X) for X in made])
    assert namespace(found.labels_) is xp
    assert namespace(found.base_labels_) is xp


def tallied(function, found, steps):
    """The function; what it asks of a device is found, and how many steps of k-means there are in it."""

    def call(*args):
        before = len(steps)
        with counted() as tally:
            result = function(*args)
        found.append((tally, len(steps) - before))
        return result

    return call


@pytest.mark.parametrize("xp", ["standin"], indirect=True)
@pytest.mark.parametrize("sparse_views", [False, True])
def test_what_an_iteration_asks_of_a_device(xp, monkeypatch, sparse_views):
    """A step has no host read; the guided k-means of a sub-view reads once at its start, and once in some steps."""
    _, made, _ = data()
    steps, guides = [], []
    monkeypatch.setattr(batches, "_step", tallied(batches._step, steps, steps))
    monkeypatch.setattr(solver, "guide", tallied(solver.guide, guides, steps))
    given = [sparse.csr_array(X) for X in made] if sparse_views else made
    ge.CMVC(K, n_subviews=2, random_state=0, device="cuda").fit(given)
    alone, guided = 4 + sparse_views, 7 + sparse_views  # kernels: of the guide there are scores, sums and means
    assert {tally.kernels for tally, _ in steps} == {alone, guided}
    for tally, _ in steps:
        assert tally.reads == tally.up == tally.down == 0
        assert tally.launches <= 10
    for tally, n_steps in guides:
        assert tally.reads == 2 * len(made) + n_steps // batches.READ_EVERY
        assert tally.up <= 2 * len(made) * 3 * 4  # bounds of the sets, and nothing that is as long as the samples
        assert tally.down <= 8 * tally.reads * (2 + 2 * K)


def test_views_in_another_order_are_refused():
    view = pd.DataFrame(np.random.default_rng(0).random((20, 2)), index=[f"s{i}" for i in range(20)])
    rule = r"`views\[2\]` must have its samples in the order of `views\[1\]`, got 's19' instead of 's0' in row 0\."
    with pytest.raises(ValueError, match=rule):
        ge.CMVC(2, device="cpu").fit([view.to_numpy(), view, view[::-1]])
