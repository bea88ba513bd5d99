"""Nearest neighbours: against scikit-learn, for every library, search and metric; and one sentence for bad input."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from gpuensemble import neighbors
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._graphs import distances, search

METRICS = ["sqeuclidean", "cosine"]


def table(n=300, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) + 5


def by_scikit_learn(X, q, metric):
    distances, indices = NearestNeighbors(n_neighbors=q + 1, metric=metric).fit(X).kneighbors(X)
    return indices[:, 1:], distances[:, 1:]


def share(truth, found):
    """The share of the true neighbours that were found."""
    return np.mean([np.isin(one, other).mean() for one, other in zip(truth, found, strict=True)])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_exact_equals_scikit_learn(metric, as_given, dtype):
    X = table().astype(dtype)
    found = neighbors.nearest(as_given(X), 7, metric, device="cpu")
    indices, distances = by_scikit_learn(X.astype(float), 7, metric)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-4 if dtype == "float32" else 1e-9, atol=1e-7)
    assert (found.method, found.recall) == ("exact", 1.0)
    assert found.indices.dtype == np.int32


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", ["exact", "inverted"])
def test_every_library_finds_the_same(xp, metric, method):
    X = table()
    expected = neighbors.nearest(X, 7, metric, method=method, random_state=3, device="cpu")
    found = neighbors.nearest(xp.asarray(X), 7, metric, method=method, random_state=3)
    assert namespace(found.indices) is xp
    np.testing.assert_array_equal(to_host(found.indices), expected.indices)
    np.testing.assert_allclose(to_host(found.distances), expected.distances, rtol=1e-9, atol=1e-12)
    assert found.recall == expected.recall


@pytest.mark.parametrize("metric", METRICS)
def test_a_sparse_matrix_on_the_device(xp, metric):
    X = table(60)
    device = "cpu" if xp is np else "cuda"
    found = neighbors.nearest(sparse.csr_array(X), 4, metric, device=device)
    np.testing.assert_array_equal(found.indices, by_scikit_learn(X, 4, metric)[0])


def test_blocks_of_rows_and_columns_change_nothing(monkeypatch):
    X = table(100)
    expected = neighbors.nearest(X, 5, device="cpu").indices
    monkeypatch.setattr(distances, "ENTRIES", {"cpu": 64, "cuda": 64})
    monkeypatch.setattr(search, "WIDE", {"dense": 7, "sparse": 11})
    monkeypatch.setattr(search, "SPAN", 9)
    np.testing.assert_array_equal(neighbors.nearest(X, 5, device="cpu").indices, expected)
    np.testing.assert_array_equal(neighbors.nearest(sparse.csr_array(X), 5, device="cpu").indices, expected)
    inverted = neighbors.nearest(X, 5, method="inverted", n_probes=10, random_state=0, device="cpu")
    assert inverted.recall == pytest.approx(share(expected, inverted.indices))


def test_equal_rows_come_in_the_order_of_their_numbers():
    X = np.repeat([[0.0, 1], [5, 5]], 4, axis=0)
    found = neighbors.nearest(X, 3, device="cpu")
    groups = [range(4)] * 4 + [range(4, 8)] * 4
    assert found.indices.tolist() == [[j for j in group if j != i] for i, group in enumerate(groups)]
    assert (found.distances == 0).all()


# pynndescent compiles for half a minute, in every process.
@pytest.mark.parametrize("method", ["inverted", "hnsw", pytest.param("nndescent", marks=pytest.mark.exhaustive)])
def test_approximate_searches_find_nearly_all_and_say_so(method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8)).astype("float32") + 3 * rng.normal(size=(10, 8))[rng.integers(10, size=2000)]
    found = neighbors.nearest(X, 10, method=method, random_state=1, device="cpu")
    truth = by_scikit_learn(X, 10, "sqeuclidean")[0]
    recall = share(truth, found.indices)
    assert found.method == method
    assert recall > 0.95
    assert abs(found.recall - recall) < 0.02
    assert not (found.indices == np.arange(2000)[:, None]).any()
    again = neighbors.nearest(X, 10, method=method, random_state=1, device="cpu")
    np.testing.assert_array_equal(again.indices, found.indices)


def test_few_probes_miss_neighbours_and_the_recall_says_it():
    X = table(3000, 10)
    few = neighbors.nearest(X, 10, method="inverted", n_probes=1, random_state=0, device="cpu")
    many = neighbors.nearest(X, 10, method="inverted", n_probes=30, random_state=0, device="cpu")
    assert few.recall < 0.9 < many.recall


def test_lists_that_are_too_short_are_completed():
    X = np.concatenate([np.zeros((200, 2)), 100 + np.arange(6.0).reshape(3, 2)])  # three rows far away
    found = neighbors.nearest(X, 10, method="inverted", n_probes=1, random_state=0, device="cpu")
    assert found.indices.min() >= 0
    assert all(len(set(row)) == 10 for row in found.indices.tolist())


def test_no_more_neighbours_than_other_rows():
    found = neighbors.nearest([[0.0], [1], [3]], 20, device="cpu")
    assert found.indices.tolist() == [[1, 2], [0, 2], [1, 0]]
    assert found.distances.tolist() == [[1, 9], [1, 4], [4, 9]]


def test_threads_change_nothing(monkeypatch):
    from gpuensemble._array import threads

    X = table(400)
    expected = neighbors.nearest(X, 5, device="cpu")
    monkeypatch.setattr(threads, "count", lambda: 1)
    found = neighbors.nearest(X, 5, device="cpu")
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)


BAD = {
    "one row": (([[1.0]],), {}, ValueError, r"`X` must have at least two rows to have neighbours, got n_samples=1\."),
    "metric": ((table(), 3, "l1"), {}, ValueError, r"`metric` must be one of 'sqeuclidean', 'cosine', got 'l1'\."),
    "method": ((table(),), {"method": "all"}, ValueError, r"`method` must be one of .*, got 'all'\."),
    "number": ((table(), 0), {}, ValueError, r"`n_neighbors` must be at least 1, got 0\."),
    "probes": ((table(),), {"n_probes": 0}, ValueError, r"`n_probes` must be at least 1, got 0\."),
    "NaN": (([[np.nan], [1]],), {}, ValueError, r"`X` must be finite, got nan at \[0, 0\]\."),
    "zeros": (([[0.0], [1]], 1, "cosine"), {}, ValueError, r"`X` must have no row of zeros with the cosine distance.*"),
    "sparse": ((sparse.csr_array(table()),), {"method": "hnsw"}, ValueError, r"`X` must be dense for `method` = .*"),
    "device": ((table(),), {"method": "cuvs"}, (ValueError, ModuleNotFoundError), r"`method` .*cuvs.*"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    given, options, error, sentence = BAD[case]
    with pytest.raises(error, match=sentence):
        neighbors.nearest(*given, **options, device="cpu")


def test_a_package_that_is_not_there(monkeypatch):
    from gpuensemble._graphs import libraries

    monkeypatch.setattr(libraries, "is_there", lambda method: False)
    with pytest.raises(ModuleNotFoundError, match=r'`method` = "hnsw" needs a package that is not there'):
        neighbors.nearest(table(), method="hnsw", device="cpu")


def far_from_the_mean(kind):
    """Four groups whose rows are much nearer to each other than to the mean of all rows."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 100)
    places = np.array([[0, 0], [12, 0], [0, 12], [12, 12.0]])
    X = (places + np.array([[0, 0], [0, 0], [1, 0], [1, 0]]) * {"float32": 2e4, "float64": 3e9}.get(kind, 0))[y]
    X = X + np.round(rng.normal(size=(400, 2)), 3)
    if kind == "a fill value":
        X[7] = 1e20
    return X.astype("float32") if kind == "float32" else X


@pytest.mark.parametrize("kind", ["float32", "float64", "a fill value"])
@pytest.mark.parametrize("method", ["exact", "inverted"])
def test_rows_far_from_the_mean_have_their_true_neighbours(xp, kind, method):
    X = far_from_the_mean(kind)
    found = neighbors.nearest(xp.asarray(X), 5, method=method, n_probes=20, random_state=0)
    squares = ((X[:, None].astype(float) - X.astype(float)) ** 2).sum(2)
    np.fill_diagonal(squares, np.inf)
    if method == "exact":
        np.testing.assert_allclose(to_host(found.distances), np.sort(squares, axis=1)[:, :5], rtol=1e-9)
    true = np.sort(squares, axis=1)[:, 4:5]
    within = np.take_along_axis(squares, to_host(found.indices).astype(int), axis=1) <= true
    assert abs(within.mean() - found.recall) < 0.02


def test_a_sparse_matrix_in_float32_of_nearly_equal_rows():
    X = np.random.default_rng(0).random((1, 40)) * 1000 + np.random.default_rng(1).normal(size=(200, 40))
    X = X.astype("float32")
    found = neighbors.nearest(sparse.csr_array(X), 5, device="cpu")
    np.testing.assert_array_equal(found.indices, by_scikit_learn(X.astype(float), 5, "sqeuclidean")[0])


def test_copies_of_a_row_are_searched_once(monkeypatch):
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 3)) + 1e6, 10, axis=0)
    monkeypatch.setattr(distances.Rows, "about", None)
    assert (neighbors.nearest(X, 5, device="cpu").distances == 0).all()
