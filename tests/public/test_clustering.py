"""From features to labels: the estimator, its parts and parameters, prediction, and one sentence for bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpuensemble as ge
from gpuensemble._array.devices import namespace, to_host
from gpuensemble.clustering import WAYS


def table(n=150, d=6):
    return 8 * np.eye(3, d)[np.arange(n) % 3] + np.random.default_rng(0).standard_normal((n, d))


TRUTH = np.arange(150) % 3


def fitted(X=None, **options):
    return ge.ConsensusClustering(3, **{"random_state": 0, "device": "cpu", **options}).fit(table() if X is None else X)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_finds_clear_clusters(way):
    found = fitted(partitions=way)
    assert ge.metrics.ari(TRUTH, found.labels_) == 1
    assert found.base_labels_.shape == (150, 20)
    assert found.n_features_in_ == 6
    assert found.confidence_.shape == (150,)


@pytest.mark.parametrize("method", ["cluster-walk", "lwgp", "kcc", "eac", ge.SEC(9, n_init=2)])
def test_any_consensus(method):
    found = fitted(consensus=method, n_partitions=5)
    assert ge.metrics.ari(TRUTH, found.labels_) == 1
    assert found.consensus_.n_clusters == 3


def test_digits_are_told_apart_better_than_by_k_means():
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    X, y = X[rows], y[rows]
    found = ge.ConsensusClustering(10, random_state=0, device="cpu").fit_predict(X)
    single = KMeans(10, n_init=10, random_state=0).fit_predict(X)
    assert ge.metrics.nmi(y, found) > 0.88
    assert ge.metrics.nmi(y, single) < 0.78


def test_clusters_need_not_be_round():
    X, y = make_moons(500, noise=0.05, random_state=0)
    assert ge.metrics.ari(y, ge.ConsensusClustering(2, random_state=0, device="cpu").fit_predict(X)) == 1


def test_every_library_gives_the_same(xp):
    X = table()
    expected = fitted(X)
    found = fitted(xp.asarray(X), device="auto")
    assert namespace(found.labels_) is xp
    np.testing.assert_array_equal(to_host(found.base_labels_), expected.base_labels_)
    assert ge.metrics.ari(to_host(found.labels_), expected.labels_) == 1
    predicted = found.predict(xp.asarray(X + 0.1))
    assert namespace(predicted) is xp
    assert ge.metrics.ari(to_host(predicted), expected.predict(X + 0.1)) == 1


@pytest.mark.parametrize("distance", ["sqeuclidean", "cosine"])
@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array, pd.DataFrame, np.ndarray.tolist])
def test_prediction_keeps_labels_and_votes(distance, as_given):
    X = table()
    found = fitted(as_given(X), distance=distance)
    np.testing.assert_array_equal(found.predict(as_given(X)), found.labels_)
    new = X + 0.3 * np.random.default_rng(1).standard_normal(X.shape)
    assert ge.metrics.ari(found.labels_, found.predict(as_given(new))) == 1


def test_the_nearest_row_counts_most():
    X = np.array([[0.0], [1], [2], [10], [11], [12]])
    found = ge.ConsensusClustering(2, partitions=np.repeat([[0], [1]], 3, axis=0), device="cpu").fit(X)
    first, second = found.labels_[[0, 3]]
    assert found.predict([[2.5], [5.9], [9.0]]).tolist() == [first, first, second]


def test_a_function_and_a_table_as_partitions():
    X = table()

    def three_times(X, n_clusters, n_partitions, seed):
        return ge.generate.random_k(X, n_partitions, (n_clusters, n_clusters), seed)

    found = fitted(X, partitions=three_times, n_partitions=4)
    assert found.base_labels_.shape == (150, 4)
    again = fitted(X, partitions=found.base_labels_)
    assert ge.metrics.ari(again.labels_, found.labels_) == 1


def test_arguments_of_the_way_are_passed_on():
    few, many = (fitted(partition_params={"k_range": (k, k), "n_neighbors": 10}) for k in (3, 20))
    assert few.base_labels_.max() + 1 < 6
    assert many.base_labels_.max() + 1 > 12


def test_it_is_an_estimator_of_scikit_learn():
    model = ge.ConsensusClustering(3, random_state=0, device="cpu")
    assert clone(model).get_params() == model.get_params()
    labels = make_pipeline(StandardScaler(), model).fit_predict(table())
    assert ge.metrics.ari(TRUTH, labels) == 1
    found = fitted()
    loaded = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(loaded.predict(table() + 0.1), found.predict(table() + 0.1))


def test_the_same_seed_gives_the_same():
    np.testing.assert_array_equal(fitted().base_labels_, fitted().base_labels_)
    assert not np.array_equal(fitted().base_labels_, fitted(random_state=1).base_labels_)


BAD = [
    ({"n_clusters": 151}, ValueError, r"`n_clusters` must be between 1 and n_samples=150, got 151\."),
    ({"partitions": "knn"}, ValueError, r"`partitions` must be one of 'neighbor-graph', .*, got 'knn'\."),
    ({"partitions": np.zeros((3, 2))}, ValueError, r"`partitions` must be a table of labels with n_samples=150 rows"),
    ({"partitions": 7}, ValueError, r"`partitions` must be a table of labels with n_samples=150 rows, got 7\."),
    ({"consensus": "best"}, ValueError, r"`consensus` must be one of .*, got 'best'\."),
    ({"consensus": ge.SEC}, TypeError, r"`consensus` must be the name of a method or an estimator of a table"),
    ({"distance": "kl"}, ValueError, r"`distance` must be one of 'sqeuclidean', 'cosine', got 'kl'\."),
    ({"partition_params": [1]}, TypeError, r"`partition_params` must be None or a dict of arguments, got \[1\]\."),
    ({"partition_params": 0}, TypeError, r"`partition_params` must be None or a dict of arguments, got 0\."),
    ({"n_partitions": 0}, ValueError, r"`n_partitions` must be at least 1, got 0\."),
]


@pytest.mark.parametrize(("options", "error", "sentence"), BAD)
def test_bad_parameters(options, error, sentence):
    with pytest.raises(error, match=sentence):
        ge.ConsensusClustering(**{"n_clusters": 3, "device": "cpu", **options}).fit(table())


def test_prediction_wants_the_columns_of_fit():
    with pytest.raises(ValueError, match=r"`X` must have n_features=6 columns, got 2\."):
        fitted().predict(np.ones((3, 2)))


@pytest.mark.parametrize("numbers", [range(2, 6), [2, 3, 5]])
def test_of_several_numbers_of_clusters_one_is_chosen(numbers):
    found = ge.ConsensusClustering(numbers, random_state=0, device="cpu").fit(table())
    assert found.n_clusters_ == found.choice_.recommended == 3
    np.testing.assert_array_equal(found.labels_, found.choice_.labels[3])
    one = ge.ConsensusClustering(3, random_state=found.choice_.seed, device="cpu").fit(table())
    np.testing.assert_array_equal(found.base_labels_, one.base_labels_)
    assert one.choice_ is None
    assert one.n_clusters_ == 3


def test_without_a_clear_number_of_clusters_a_warning_says_which_is_taken():
    X = np.random.default_rng(0).standard_normal((60, 20))
    noise = np.random.default_rng(1).integers(0, 3, (60, 4))
    with pytest.warns(UserWarning, match=r"^No clear K: .* K = \d is taken\.$"):
        found = ge.ConsensusClustering(range(2, 6), partitions=noise, random_state=0, device="cpu").fit(X)
    assert len(set(found.labels_.tolist())) == found.n_clusters_ == found.choice_.chosen


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (
            (2, 5),
            r"^`n_clusters` must be a range or a list of integers, got \(2, 5\): range\(2, 5 \+ 1\) or \[2, 5\]\.$",
        ),
        ([3, 2], r"^`n_clusters` must hold ascending numbers, each once, got \[3, 2\]\.$"),
        (range(0, 3), r"^`n_clusters` must be between 2 and n_samples=150, got 0\.$"),
    ],
)
def test_numbers_of_clusters_are_checked(numbers, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ge.ConsensusClustering(numbers).fit(table())


def test_rows_that_fit_saw_keep_their_labels(xp):
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[12:30], X[10] = X[11] + 1e-9 * np.arange(1, 19)[:, None], X[11] - 1e-9  # more near copies than rows that vote
    labels = np.arange(60) % 2
    found = ge.ConsensusClustering(2, partitions=np.column_stack([labels] * 3)).fit(xp.asarray(X))
    np.testing.assert_array_equal(to_host(found.predict(xp.asarray(X))), to_host(found.labels_))
    one = ge.ConsensusClustering(2, random_state=0).fit(xp.ones((30, 2)))  # all rows are equal to the first one
    assert (to_host(one.predict(xp.ones((30, 2)))) == int(one.labels_[0])).all()


def test_new_rows_far_from_the_mean_are_labelled_by_their_true_neighbours(xp):
    y = np.repeat(np.arange(4), 50)
    X = np.array([[0, 0], [12, 0], [3e9, 0], [3e9, 12]])[y] + np.random.default_rng(0).random((200, 2))
    labels = np.column_stack([y] * 3)
    found = ge.ConsensusClustering(4, partitions=labels[::2], random_state=0).fit(xp.asarray(X[::2]))
    assert ge.metrics.ari(y[1::2], to_host(found.predict(xp.asarray(X[1::2])))) == 1


def test_partitions_may_be_a_list_of_rows():
    X = np.random.default_rng(0).random((40, 2))
    found = ge.ConsensusClustering(2, partitions=[[0, "a"]] * 20 + [[1, "b"]] * 20, device="cpu").fit(X)
    assert found.labels_.tolist() in ([0] * 20 + [1] * 20, [1] * 20 + [0] * 20)


def test_partitions_in_another_order_than_the_rows_are_refused():
    X = pd.DataFrame({"x": np.arange(20.0)}, index=[f"s{i}" for i in range(20)])
    table = pd.DataFrame({"a": np.arange(20) // 10}, index=X.index[::-1])
    rule = r"`partitions` must have its samples in the order of `X`, got 's19' instead of 's0' in row 0\."
    with pytest.raises(ValueError, match=rule):
        ge.ConsensusClustering(2, partitions=table, device="cpu").fit(X)
