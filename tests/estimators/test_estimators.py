"""Every estimator, and the laws that all of them keep."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import gpuensemble as ge
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._tables.blocks import whole
from gpuensemble.estimators._base import kmeans
from gpuensemble.estimators._base.registry import of_labels
from support import ensemble

# Every method of the registry, and settings of it that take another way through the code.
ESTIMATORS = {method.title: method.make(4, 0, "auto") for method in of_labels().values()} | {
    "SEC k-means++": ge.SEC(4, init="k-means++", n_init=3, random_state=0),
    "SEC random": ge.SEC(4, init="random", n_init=3, random_state=0),
    "SEC float32": ge.SEC(4, dtype="float32", random_state=0),
    "KCC entropy": ge.KCC(4, utility="entropy", init="k-means++", random_state=0),
    "KCC cosine": ge.KCC(4, utility="cosine", normalized=True, random_state=0),
    "EAC spectral": ge.EAC(4, linkage="spectral", random_state=0),
    "LTA average": ge.LTA(4, assign="average", random_state=0),
    "HBGF float32": ge.HBGF(4, dtype="float32", random_state=0),
    "PCE published": ge.PCE(4, scale="published", tol=1e-4, random_state=0),
    "PCE float32": ge.PCE(4, self_paced=False, dtype="float32", random_state=0),
}
WITH_HOLES = [name for name, estimator in ESTIMATORS.items() if estimator._takes_holes]
K_MEANS = [name for name in ESTIMATORS if name.startswith(("SEC", "KCC"))]
PREDICTING = [name for name, estimator in ESTIMATORS.items() if hasattr(estimator, "predict")]
# Labels come from a tree, a partitioner or a factorisation; new rows go by their mean similarity with clusters.
BY_ANOTHER_RULE = (
    "EAC, average linkage",
    "LWEA",
    "LWEA, 400 groups",
    "ECPCS-HC",
    "PTA",
    "PTGP",
    "CSPA",
    "HGPA",
    "NMFC",
)
# What is to be found of a hidden partition: less where parts have to be balanced, or stray samples make small clusters.
FOUND = {"CSPA": 0.7, "HGPA": 0.5, "ClusterWalk": 0.8}
# A vote may leave a cluster without samples, which a warning says.
VOTED = ("ClusterWalk", "MCLA", "MCLA, spectral", "ECPCS-MC", "PTGP", "Voting")


@pytest.fixture(autouse=True)
def rows_are_left_out(monkeypatch):
    """Tables are small here: rows that cannot have moved would all be evaluated by default."""
    monkeypatch.setattr(kmeans.KMeansConsensus, "_skip", True)


@pytest.mark.parametrize(
    ("name", "holes"), [*((name, 0) for name in ESTIMATORS), *((name, 0.3) for name in WITH_HOLES)]
)
def test_a_hidden_partition_is_found_in_every_library(xp, name, holes):
    truth, labels = ensemble(holes=holes)
    estimator = clone(ESTIMATORS[name])
    assert estimator.fit(xp.asarray(labels)) is estimator
    assert namespace(estimator.labels_) is xp
    assert estimator.labels_.dtype == "int32"
    assert ge.metrics.ari(truth, to_host(estimator.labels_)) > FOUND.get(name, 0.9)
    assert estimator.device_ == ("cpu" if xp is np else "cuda:0")
    assert isinstance(estimator.objective_, float)
    assert estimator.objective_path_[-1] == estimator.objective_
    expected = clone(ESTIMATORS[name]).set_params(device="cpu").fit(labels)
    np.testing.assert_array_equal(to_host(estimator.labels_), expected.labels_)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_seed_means_one_result_and_parameters_round_trip(name):
    _, labels = ensemble()
    estimator = clone(ESTIMATORS[name]).set_params(device="cpu")
    first = estimator.fit_predict(labels)
    again = clone(estimator).fit_predict(labels)
    np.testing.assert_array_equal(first, again)
    assert clone(estimator).get_params() == estimator.get_params()


@pytest.mark.parametrize("name", PREDICTING)
def test_prediction_of_the_fitted_table_gives_its_labels(xp, name):
    _, labels = ensemble(holes=0.2)
    estimator = clone(ESTIMATORS[name]).fit(xp.asarray(labels))
    found = estimator.predict(xp.asarray(labels))
    assert namespace(found) is xp
    confidence = to_host(estimator.confidence_)
    sure = confidence > 0 if name in BY_ANOTHER_RULE else slice(None)
    np.testing.assert_array_equal(to_host(found)[sure], to_host(estimator.labels_)[sure])
    assert confidence.shape == (len(labels),)
    assert ((confidence >= 0) & (confidence <= 1)).all()
    if name in K_MEANS:
        assert estimator.centers_.shape == (sum(map(len, estimator._categories)), 4)


@pytest.mark.parametrize("name", PREDICTING)
def test_holes_and_unknown_labels_can_be_predicted(name):
    truth, labels = ensemble()
    estimator = clone(ESTIMATORS[name]).set_params(device="cpu").fit(labels)
    new = labels.copy()
    new[:, 1] = -1
    assert ge.metrics.ari(truth, estimator.predict(new)) > 0.8
    new[:3, 2] = 99
    with pytest.warns(UserWarning, match=r"^3 labels were not seen by `fit` and count as missing\.$"):
        assert ge.metrics.ari(truth, estimator.predict(new)) > 0.8
    with pytest.raises(ValueError, match=r"`labels` must have the 8 columns that `fit` saw, got 7\."):
        estimator.predict(new[:, 1:])
    with pytest.raises(ValueError, match="`labels` must have a label in every row, got only missing ones in row 0"):
        estimator.predict(np.full((1, 8), 99))


@pytest.mark.parametrize("name", PREDICTING)
def test_a_fitted_model_pickles(name):
    _, labels = ensemble()
    estimator = clone(ESTIMATORS[name]).set_params(device="cpu").fit(labels)
    loaded = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(loaded.predict(labels), estimator.predict(labels))
    np.testing.assert_array_equal(loaded.labels_, estimator.labels_)


@pytest.mark.parametrize("copies", [40, 120])  # all rows tell that they are to be merged, or a sample of them
@pytest.mark.parametrize("name", K_MEANS)
def test_equal_rows_are_merged_without_a_difference(name, copies, monkeypatch):
    _, labels = ensemble()
    labels = np.tile(labels, (copies, 1))
    table = whole(ge.Membership.from_labels(labels, device="cpu"))
    assert len(kmeans._merged(table).block.m.codes) == len(np.unique(labels, axis=0))
    estimator = clone(ESTIMATORS[name]).set_params(device="cpu")
    for weight in (None, np.arange(len(labels)) % 5):
        merged = clone(estimator).fit(labels, sample_weight=weight)
        with monkeypatch.context() as patch:
            patch.setattr(kmeans, "_merged", lambda table: table)
            plain = clone(estimator).fit(labels, sample_weight=weight)
        np.testing.assert_array_equal(merged.labels_, plain.labels_)
        np.testing.assert_array_equal(merged.confidence_, plain.confidence_)
        assert merged.objective_path_ == plain.objective_path_


@pytest.mark.parametrize("name", K_MEANS)
def test_fractional_weights_are_those_of_a_multiple(name):
    _, labels = ensemble()
    start = np.arange(80) % 4
    weight = np.random.default_rng(0).integers(1, 9, 80)
    estimator = clone(ESTIMATORS[name]).set_params(device="cpu", init=start)
    whole = clone(estimator).fit(labels, sample_weight=weight)
    halves = clone(estimator).fit(labels, sample_weight=weight / 2)
    np.testing.assert_array_equal(whole.labels_, halves.labels_)
    factor = 1 if name.startswith("SEC") else 0.5
    assert halves.objective_ == pytest.approx(factor * whole.objective_, rel=1e-4)


def test_the_objective_of_eac_is_the_mean_distance_within_clusters():
    _, labels = ensemble(holes=0.3)
    fitted = ge.EAC(4, device="cpu").fit(labels)
    together = fitted.labels_[:, None] == fitted.labels_
    assert fitted.objective_ == pytest.approx((1 - fitted.coassociation_)[together].mean(), rel=1e-12)


def test_a_dataframe_of_strings_goes_in():
    truth, labels = ensemble()
    frame = pd.DataFrame(labels, index=[f"s{i}" for i in range(80)]).map(lambda x: f"c{x}")
    assert ge.metrics.ari(truth, ge.SEC(4, random_state=0, device="cpu").fit_predict(frame)) > 0.9


def test_partition_weights_choose_among_partitions():
    truth, labels = ensemble()
    other = np.random.default_rng(0).integers(0, 4, 80)
    labels[:, 4:] = other[:, None]
    first = ge.KCC(4, partition_weight=[1] * 4 + [0] * 4, random_state=0, device="cpu").fit_predict(labels)
    second = ge.KCC(4, partition_weight=[0] * 4 + [1] * 4, random_state=0, device="cpu").fit_predict(labels)
    assert ge.metrics.ari(truth, first) > 0.8
    assert ge.metrics.ari(other, second) == 1


def test_cluster_weights_of_one_change_nothing():
    _, labels = ensemble()
    start = np.arange(80) % 4
    plain = ge.SEC(4, init=start, device="cpu").fit(labels)
    ones = np.ones(len(plain.centers_))
    weighted = ge.SEC(4, init=start, cluster_weight=ones, device="cpu").fit(labels)
    np.testing.assert_array_equal(plain.labels_, weighted.labels_)
    assert weighted.objective_ == pytest.approx(plain.objective_, rel=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", [ge.SEC, ge.KCC], ids=["SEC", "KCC"])
@pytest.mark.parametrize("size", [1e-150, 3e-9, 5e11, 1e150])
def test_only_the_ratios_of_weights_matter(kind, size, dtype):
    _, labels = ensemble(holes=0.2)
    start, rng = np.arange(80) % 4, np.random.default_rng(0)
    plain = kind(4, init=start, device="cpu").fit(labels)
    of_clusters, of_partitions = 1 + rng.integers(0, 4, len(plain.centers_)), 1 + rng.integers(0, 4, 8)
    options = {"init": start, "dtype": dtype, "device": "cpu"}
    one = kind(4, cluster_weight=of_clusters, partition_weight=of_partitions, **options).fit(labels)
    two = kind(4, cluster_weight=of_clusters * size, partition_weight=of_partitions, **options).fit(labels)
    three = kind(4, cluster_weight=of_clusters, partition_weight=of_partitions * size, **options).fit(labels)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.labels_, three.labels_)
    assert two.objective_ == pytest.approx(one.objective_ * (size if kind is ge.KCC else 1), rel=1e-5)
    assert three.objective_ == pytest.approx(one.objective_ * size, rel=1e-12)


@pytest.mark.parametrize("name", ["cluster_weight", "partition_weight", "sample_weight"])
@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e308])
def test_weights_beyond_the_range_of_numbers_are_refused(name, size):
    _, labels = ensemble()
    n = {
        "cluster_weight": len(ge.SEC(4, random_state=0).fit(labels).centers_),
        "partition_weight": 8,
        "sample_weight": 80,
    }
    parameters, arguments = ({}, {name: [size] * 80}) if name == "sample_weight" else ({name: [size] * n[name]}, {})
    with pytest.raises(ValueError, match=rf"^`{name}` must have a largest weight from 1e-200 to 1e\+200, got "):
        ge.SEC(4, **parameters).fit(labels, **arguments)


def test_cluster_weights_that_would_be_rounded_away_are_refused():
    _, labels = ensemble()
    weight = np.ones(len(ge.SEC(4, random_state=0).fit(labels).centers_))
    weight[0] = 1e-9
    with pytest.raises(
        ValueError, match=r"^`cluster_weight` must not differ by more than a factor of 2\*\*20, but for 0"
    ):
        ge.SEC(4, cluster_weight=weight).fit(labels)


SMALL = {
    "one cluster": ([[0, 0], [1, 1], [0, 1]], 1, 1),
    "as many clusters as rows": ([[0, 0], [1, 1], [0, 1]], 3, 3),
    "one partition": ([[0], [1], [1], [2]], 3, 3),
    "one row": ([[0, 5]], 1, 1),
    "partitions of one cluster": ([[0, 0], [0, 0], [0, 1]], 2, 2),
}


@pytest.mark.filterwarnings("ignore:Partitions of one cluster carry no information")
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(("labels", "n_clusters", "expected"), SMALL.values(), ids=SMALL)
def test_small_tables(name, labels, n_clusters, expected):
    estimator = clone(ESTIMATORS[name]).set_params(n_clusters=n_clusters, device="cpu")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        found = len(set(estimator.fit_predict(labels).tolist()))
    if name in VOTED and said:
        assert str(said[0].message).endswith(f"but only {found} are not empty.")
    else:
        assert not said
        assert found == expected


@pytest.mark.parametrize("name", K_MEANS)
def test_fewer_distinct_rows_than_clusters_warn(name):
    estimator = clone(ESTIMATORS[name]).set_params(n_clusters=3, device="cpu")
    with pytest.warns(ConvergenceWarning, match=r"`n_clusters` = 3 is more than there are distinct rows: 1 clusters\."):
        assert estimator.fit_predict([[2, 2]] * 6).tolist() == [0] * 6


def test_too_few_iterations_warn():
    _, labels = ensemble()
    with pytest.warns(ConvergenceWarning, match="`max_iter` = 1 iterations did not lead to convergence"):
        ge.SEC(4, init=np.arange(80) % 4, max_iter=1, device="cpu").fit(labels)


BAD = {
    "no clusters": ({"n_clusters": 0}, {}, "`n_clusters` must be between 1 and n_samples=80, got 0."),
    "too many clusters": ({"n_clusters": 81}, {}, "`n_clusters` must be between 1 and n_samples=80, got 81."),
    "a fraction": ({"n_clusters": 2.5}, {}, "`n_clusters` must be an integer, got 2.5 of type float."),
    "no iterations": ({"max_iter": 0}, {}, "`max_iter` must be at least 1, got 0."),
    "no starts": ({"n_init": 0}, {}, "`n_init` must be at least 1, got 0."),
    "a start": ({"init": "kmeans"}, {}, "`init` must be one of 'spectral', 'k-means\\+\\+', 'random', got 'kmeans'."),
    "a short start": ({"init": np.zeros(3, int)}, {}, "`init` must have n_samples=80 entries, got 3."),
    "an empty cluster": ({"init": np.zeros(80, int)}, {}, "`init` must use all n_clusters=4 labels, got none of 1."),
    "a dtype": ({"dtype": "float16"}, {}, "`dtype` must be one of 'float32', 'float64', got 'float16'."),
    "a seed": (
        {"random_state": -1},
        {},
        "`random_state` must be None, an integer of at least 0 or a generator, got -1.",
    ),
    "few weights": ({"partition_weight": [1.0]}, {}, "`partition_weight` must have n_partitions=8 entries, got 1."),
    "negative weights": ({"partition_weight": [-1.0] * 8}, {}, "`partition_weight` must not be negative, nor all 0"),
    "no weight": (
        {"partition_weight": [0.0] * 8},
        {},
        "`partition_weight` must not be negative, nor all 0, got 0 to 0.",
    ),
    "NaN weights": ({"partition_weight": [np.nan] * 8}, {}, r"`partition_weight` must be finite, got nan at \[0\]."),
    "cluster weights": ({"cluster_weight": [1.0]}, {}, "`cluster_weight` must have n_columns=47 entries, got 1."),
    "a cluster weight": ({"cluster_weight": "size"}, {}, "`cluster_weight` must be one of 'entropy', got 'size'."),
    "short sample weights": ({}, {"sample_weight": [1]}, "`sample_weight` must have n_samples=80 entries, got 1."),
    "negative": ({}, {"sample_weight": [-1] * 80}, "`sample_weight` must not be negative, nor all 0, got -1 to -1."),
    "all zero": ({}, {"sample_weight": [0] * 80}, "`sample_weight` must not be negative, nor all 0, got 0 to 0."),
    "NaN": ({}, {"sample_weight": [np.nan] * 80}, r"`sample_weight` must be finite, got nan at \[0\]."),
    "text": ({}, {"sample_weight": ["a"] * 80}, "`sample_weight` must hold numbers, got dtype <U1."),
}


@pytest.mark.parametrize(("parameters", "arguments", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("estimator", [ge.SEC(4), ge.KCC(4)], ids=["SEC", "KCC"])
def test_bad_parameters_get_one_sentence(estimator, parameters, arguments, message):
    _, labels = ensemble()
    with pytest.raises((TypeError, ValueError), match=message) as error:
        clone(estimator).set_params(device="cpu", **parameters).fit(labels, **arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (ge.KCC(4, utility="size"), "`utility` must be one of 'category', 'entropy', 'cosine', got 'size'."),
        (
            ge.EAC(4, linkage="ward"),
            "`linkage` must be one of 'average', 'single', 'complete', 'spectral', got 'ward'.",
        ),
        (ge.EAC(99), "`n_clusters` must be between 1 and n_samples=80, got 99."),
        (ge.PCE(81), "`n_clusters` must be between 1 and n_samples=80, got 81."),
        (ge.PCE(4, gamma=0), "`gamma` must be finite and greater than 0, got 0."),
        (ge.PCE(4, init="spectral"), "`init` must be one of 'aligned', 'identity', got 'spectral'."),
        (ge.PCE(4, scale=2), "`scale` must be one of 'balanced', 'published', got 2."),
        (ge.PCE(4, tol=-1), "`tol` must be finite and at least 0, got -1."),
        (ge.PCE(4, max_iter=0), "`max_iter` must be at least 1, got 0."),
        (ge.PCE(4, self_paced="no"), "`self_paced` must be one of True, False, got 'no'."),
        (ge.PCE(4, dtype="float16"), "`dtype` must be one of 'float32', 'float64', got 'float16'."),
    ],
)
def test_bad_options_get_one_sentence(estimator, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(ensemble()[1])


def test_prediction_needs_a_fit():
    with pytest.raises(NotFittedError, match="SEC"):
        ge.SEC(2).predict([[0]])


@pytest.mark.parametrize("holes", [0, 0.2])
def test_views_keep_the_laws_that_tables_of_labels_keep(xp, holes):
    truth, _ = ensemble()
    rng = np.random.default_rng(0)
    views = [np.eye(4, 12)[:, rng.permutation(12)][truth] + 0.1 * rng.random((80, 12)) for _ in range(3)]
    for view in views[1:]:
        view[rng.random(80) < holes] = np.nan
    estimator = ge.CMVC(4, feature_ratio=0.8, random_state=0)
    assert estimator.fit([xp.asarray(view) for view in views]) is estimator
    assert namespace(estimator.labels_) is xp
    assert estimator.labels_.dtype == "int32"
    assert ge.metrics.ari(truth, to_host(estimator.labels_)) > 0.9
    assert isinstance(estimator.objective_, float)
    assert estimator.objective_path_[-1] == estimator.objective_
    again = clone(estimator).set_params(device="cpu").fit(views)
    np.testing.assert_array_equal(to_host(estimator.labels_), again.labels_)
    assert clone(estimator).get_params() == estimator.get_params()


def test_weights_and_starts_in_another_order_are_refused():
    frame = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 0, 1, 2]}, list("wxyz"))
    other = pd.Series([0, 0, 1, 1], list("zyxw"))
    with pytest.raises(ValueError, match=r"`sample_weight` must have its samples in the order of `labels`, got 'z'"):
        ge.SEC(2, device="cpu").fit(frame, sample_weight=other)
    with pytest.raises(ValueError, match=r"`init` must have its samples in the order of `labels`, got 'z'"):
        ge.KCC(2, init=other, device="cpu").fit(frame)
