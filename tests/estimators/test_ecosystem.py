"""Beside other libraries: scikit-learn's own checks, pipelines and searches; pandas; models that travel as pickles."""

import inspect
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpuensemble as ge
from cudasim import standin
from cudasim.shim import ShimModule, gxx
from gpuensemble._array.devices import to_host
from gpuensemble.estimators._base.registry import of_labels, of_views
from support import ensemble

NOT_LABELS = "feeds numbers that are not labels, which are refused; test_estimators.py has the same on labels"
# What scikit-learn wants the error to say. Ours is one sentence with name, rule and value.
WORDING = {
    "check_complex_data": "Complex data not supported",
    "check_estimators_empty_data_messages": "0 feature(s) (shape=(12, 0)) while a minimum of 1 is required",
    "check_fit2d_predict1d": "Reshape your data",
    "check_n_features_in_after_fitting": "X has 1 features, but the estimator is expecting 4 features as input",
}
OF_LABELS = {
    "check_clustering": NOT_LABELS,
    "check_positive_only_tag_during_fit": "wants 'Negative values in data' of numbers that are not whole either",
}
OF_PREDICTION = {
    "check_sample_weight_equivalence_on_dense_data": NOT_LABELS,
    "check_all_zero_sample_weights_error": "wants an error with 'zero'; ours says 'nor all 0'",
}
OF_FEATURES = {
    "check_dtype_object": "takes objects that are numbers, but wants 'argument must be a string or a number' of a dict",
    "check_estimators_nan_inf": "wants an error with 'NaN'; ours says 'nan', as NumPy does",
}
STRICT = {"xfail_strict": True} if "xfail_strict" in inspect.signature(parametrize_with_checks).parameters else {}


def expected_failures(estimator):
    """The checks of scikit-learn's that the estimator does not meet, each with the reason."""
    wording = {name: f"wants an error with {words!r}; ours is another sentence" for name, words in WORDING.items()}
    if isinstance(estimator, ge.ConsensusClustering):
        return wording | OF_FEATURES
    if hasattr(estimator, "predict"):
        return wording | OF_LABELS | OF_PREDICTION
    without = ("check_fit2d_predict1d", "check_n_features_in_after_fitting")
    return {name: reason for name, reason in wording.items() if name not in without} | OF_LABELS


OF_ALL = [
    *(method.make(2, 0, "cpu") for method in of_labels().values()),
    *(
        ge.ConsensusClustering(2, partitions=way, random_state=0, device="cpu")
        for way in ("neighbor-graph", "random-k")
    ),
]


@parametrize_with_checks(OF_ALL, expected_failed_checks=expected_failures, **STRICT)
@pytest.mark.filterwarnings("ignore")  # few distinct rows, few iterations: scikit-learn's data are not ours
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", OF_ALL, ids=lambda estimator: type(estimator).__name__)
def test_no_estimator_transforms_so_none_has_an_output_to_set(estimator):
    assert not hasattr(estimator, "transform")
    assert not hasattr(estimator, "set_output")


def test_features_in_another_order_are_refused():
    features, _ = make_blobs(40, centers=2, random_state=0)
    frame = pd.DataFrame(features, columns=["x", "y"])
    found = ge.ConsensusClustering(2, n_partitions=4, random_state=0, device="cpu").fit(frame)
    assert list(found.feature_names_in_) == ["x", "y"]
    assert ge.ConsensusClustering(2, n_partitions=4).fit(pl.DataFrame(frame.to_dict("list"))).n_features_in_ == 2
    for given in (frame, pl.DataFrame(frame.to_dict("list")), features):
        np.testing.assert_array_equal(found.predict(given), found.labels_)
    message = r"^`X` must have the columns that `fit` saw, in that order, got 'y' instead of 'x'\.$"
    for given in (frame[["y", "x"]], pl.DataFrame(frame.to_dict("list")).select("y", "x")):
        with pytest.raises(ValueError, match=message):
            found.predict(given)


def test_objects_that_are_numbers_are_features():
    features, _ = make_blobs(40, centers=2, random_state=0)
    one, two = (
        ge.generate.random_k(X, 3, (2, 4), random_state=0, device="cpu") for X in (features, features.astype(object))
    )
    np.testing.assert_array_equal(one, two)
    with pytest.raises(TypeError, match=r"^`X` must hold numbers, got dtype object\.$"):
        ge.generate.random_k(features.astype(str).astype(object), 3, (2, 4))


def base_partitions(features):
    return ge.generate.random_k(features, 10, (3, 6), random_state=0, device="cpu")


@pytest.mark.parametrize("name", of_labels())
def test_a_pipeline_from_features_to_consensus(name):
    features, truth = make_blobs(90, centers=3, cluster_std=0.5, random_state=0)
    steps = (StandardScaler(), FunctionTransformer(base_partitions), of_labels()[name].make(3, 0, "cpu"))
    assert ge.metrics.ari(truth, make_pipeline(*steps).fit_predict(features)) > 0.9


@pytest.mark.filterwarnings("ignore:.* labels were not seen by `fit`:UserWarning")  # in one fold only
def test_a_grid_search_by_prediction_finds_the_number_of_clusters():
    truth, labels = ensemble(n=120)

    def score(estimator, X, y):
        return ge.metrics.ari(y, estimator.predict(X))

    search = GridSearchCV(ge.SEC(2, random_state=0, device="cpu"), {"n_clusters": [2, 4, 7]}, scoring=score, cv=3)
    search.fit(labels, truth)
    assert search.best_params_ == {"n_clusters": 4}
    assert search.best_score_ > 0.9


def test_a_grid_search_without_prediction_scores_the_fitted_labels():
    truth, labels = ensemble()

    def score(estimator, X, y=None):
        return ge.metrics.ari(truth, estimator.labels_)

    every = np.arange(len(labels))
    grid = {"linkage": ["single", "average", "complete"]}
    search = GridSearchCV(ge.EAC(4, device="cpu"), grid, scoring=score, cv=[(every, every)]).fit(labels)
    assert search.best_score_ > 0.9


def observations(n=80, holes=True):
    """What an AnnData object's `obs` is: a frame of samples by name, with categories and other columns."""
    truth, labels = ensemble(n=n, r=3)
    index = [f"cell-{i}" for i in np.random.default_rng(0).permutation(n)]
    frame = pd.DataFrame({"n_genes": np.arange(n)}, index=index)
    for i, name in enumerate(("leiden", "louvain", "kmeans")):
        frame[name] = pd.Categorical([f"c{label}" for label in labels[:, i]])
    if holes:
        frame.loc[index[3], "louvain"] = None
    return truth, frame


@pytest.mark.parametrize("name", of_labels())
def test_a_column_comes_back_to_the_frame_of_observations(name):
    truth, obs = observations(holes=of_labels()[name].holes)
    index = obs.index.copy()
    estimator = of_labels()[name].make(4, 0, "cpu").fit(obs[["leiden", "louvain", "kmeans"]])
    obs["consensus"] = pd.Categorical(estimator.labels_.astype(str))
    assert obs.index.equals(index)
    least = 0.55 if name in ("cspa", "ecpcs-hc", "hgpa", "pta") else 0.8  # of three partitions
    assert ge.metrics.ari(truth, obs["consensus"]) > least
    assert estimator.n_features_in_ == 3
    assert list(estimator.feature_names_in_) == ["leiden", "louvain", "kmeans"]
    shuffled = obs.sample(frac=1, random_state=0)
    labels = pd.Series(estimator.labels_, index=obs.index)
    again = pd.Series(
        of_labels()[name].make(4, 0, "cpu").fit_predict(shuffled[["leiden", "louvain", "kmeans"]]), shuffled.index
    )
    assert ge.metrics.ari(labels, again.loc[labels.index]) > least


def test_filled_holes_come_back_as_a_frame():
    _, obs = observations()
    table = obs[["leiden", "louvain", "kmeans"]].astype(object)
    imputed = ge.PCE(4, random_state=0, device="cpu").fit(table).imputed_
    assert imputed.index.equals(table.index)
    assert list(imputed.columns) == list(table.columns)
    assert imputed.notna().all(axis=None)
    assert (imputed == table).to_numpy().sum() == table.notna().to_numpy().sum()


def test_columns_in_another_order_are_refused():
    _, obs = observations()
    estimator = ge.SEC(4, random_state=0, device="cpu").fit(obs[["leiden", "kmeans"]])
    np.testing.assert_array_equal(estimator.predict(obs[["leiden", "kmeans"]]), estimator.labels_)
    np.testing.assert_array_equal(estimator.predict(obs[["leiden", "kmeans"]].to_numpy()), estimator.labels_)
    message = r"`labels` must have the columns that `fit` saw, in that order, got 'kmeans' instead of 'leiden'\."
    with pytest.raises(ValueError, match=message):
        estimator.predict(obs[["kmeans", "leiden"]])
    with pytest.raises(ValueError, match="got 'louvain' instead of None"):
        estimator.predict(obs[["leiden", "kmeans", "louvain"]])
    estimator.fit(obs[["leiden", "kmeans"]].to_numpy())
    assert not hasattr(estimator, "feature_names_in_")


WITHOUT_CUPY = """
import pickle, sys
sys.modules["cupy"] = None  # as if it were not installed
import numpy as np
labels = np.load("labels.npy")
for model, expected, predicted in pickle.load(open("models.pickle", "rb")).values():
    assert all(type(value).__module__ != "cupy" for value in vars(model).values())
    np.testing.assert_array_equal(model.labels_, expected)
    if predicted is not None:
        np.testing.assert_array_equal(model.predict(labels), predicted)
    print(type(model).__name__)
"""


@pytest.mark.skipif(gxx() is None, reason="g++ is not installed")
def test_models_fitted_on_a_device_load_and_predict_without_one(tmp_path):
    _, labels = ensemble()
    np.save(tmp_path / "labels.npy", labels)
    with standin.installed(ShimModule) as cupy:
        fitted = {name: method.make(4, 0, "auto").fit(cupy.asarray(labels)) for name, method in of_labels().items()}
        views = [10.0 * np.eye(4)[labels[:, i] % 4] + np.arange(80)[:, None] % 5 for i in (0, 1)]
        fitted["cmvc"] = of_views()["cmvc"].make(4, 0, "auto").fit([cupy.asarray(view) for view in views])
        assert {model.device_ for model in fitted.values()} == {"cuda:0"}
        predicted = {
            name: to_host(model.predict(cupy.asarray(labels))) if hasattr(model, "predict") else None
            for name, model in fitted.items()
        }
        models = {name: (model, to_host(model.labels_), predicted[name]) for name, model in fitted.items()}
        (tmp_path / "models.pickle").write_bytes(pickle.dumps(models))
    environment = os.environ | {"PYTHONPATH": str(Path(ge.__file__).parents[1])}
    command = [sys.executable, "-c", WITHOUT_CUPY]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*(method.estimator.__name__ for method in of_labels().values()), "CMVC"]


def test_parameters_on_a_device_are_cloned_and_pickled():
    if gxx() is None:
        pytest.skip("g++ is not installed")
    with standin.installed(ShimModule) as cupy:
        estimator = ge.SEC(2, init=cupy.asarray([0, 1, 1]))
        assert type(clone(estimator).init) is type(estimator.init)
        state = pickle.dumps(estimator)
    assert pickle.loads(state).init.tolist() == [0, 1, 1]
