"""`predict_proba` is the mean over a row's partitions of the shares that consensus labels have in its clusters."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gpuensemble as ge
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._partition import votes
from gpuensemble._tables import readers
from gpuensemble.estimators._base.registry import of_labels
from support import ensemble, two_workers

ESTIMATORS = {method.title: method.make(4, 0, "auto") for method in of_labels().values()}
PREDICTING = [name for name, estimator in ESTIMATORS.items() if hasattr(estimator, "predict")]


def expected(fitted, consensus, new, weight=None):
    """By its definition, label by label; a cluster whose samples all weigh nothing has no share to give."""
    weight = np.ones(len(fitted)) if weight is None else weight
    k = consensus.max() + 1
    found = np.full((len(new), k), np.nan)
    for x, row in enumerate(new):
        shares = []
        for i, label in enumerate(row):
            inside = (fitted[:, i] == label) & (label >= 0)
            if weight[inside].sum():
                shares.append([weight[inside & (consensus == j)].sum() / weight[inside].sum() for j in range(k)])
        if shares:
            found[x] = np.mean(shares, axis=0)
    return found


@pytest.mark.parametrize("holes", [0, 0.3])
@pytest.mark.parametrize("name", PREDICTING)
def test_shares_of_votes_are_their_definition(xp, name, holes):
    _, labels = ensemble(holes=holes)
    estimator = clone(ESTIMATORS[name]).fit(xp.asarray(labels))
    found = estimator.predict_proba(xp.asarray(labels))
    assert namespace(found) is xp
    assert found.dtype == "float64"
    found, consensus = to_host(found), to_host(estimator.labels_)
    np.testing.assert_allclose(found, expected(labels, consensus, labels), atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("name", PREDICTING)
def test_weights_count_in_the_shares(name):
    _, labels = ensemble(holes=0.2)
    weight = np.random.default_rng(1).integers(0, 4, len(labels))
    estimator = clone(ESTIMATORS[name]).set_params(device="cpu").fit(labels, sample_weight=weight)
    found = estimator.predict_proba(labels)
    np.testing.assert_allclose(found, expected(labels, estimator.labels_, labels, weight), atol=1e-12)


@pytest.mark.parametrize("max_iter", [1, 2, 100])
@pytest.mark.parametrize("kind", [ge.SEC, ge.KCC])
def test_shares_are_those_of_the_labels_wherever_a_fit_stops(kind, max_iter):
    _, labels = ensemble(n=200, holes=0.2)
    labels = np.concatenate([labels] * 3)  # rows that are merged
    for init in ("k-means++", np.arange(600) % 4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = kind(4, init=init, max_iter=max_iter, random_state=0, device="cpu").fit(labels)
        found = fitted.predict_proba(labels[:200])
        np.testing.assert_allclose(found, expected(labels, fitted.labels_, labels[:200]), atol=1e-12)


def test_a_cluster_that_weighs_nothing_has_no_share_and_a_row_of_such_is_unknown():
    labels = np.array([[0, 0], [0, 0], [1, 1], [1, 1], [2, 2], [1, 2]])
    fitted = ge.SEC(2, random_state=0, device="cpu").fit(labels, sample_weight=[1, 1, 1, 1, 0, 0])
    found = fitted.predict_proba(labels)
    assert np.isnan(found[4]).all()
    assert found[5].tolist() == found[2].tolist()
    assert sorted(found[2].tolist()) == [0, 1]


def test_labels_that_fit_did_not_see_are_holes():
    _, labels = ensemble()
    fitted = ge.ClusterWalk(4, random_state=0, device="cpu").fit(labels)
    new, holes = labels.copy(), labels.copy()
    new[:3, 2], holes[:3, 2] = 99, -1
    with pytest.warns(UserWarning, match=r"^3 labels were not seen by `fit` and count as missing\.$"):
        found = fitted.predict_proba(new)
    np.testing.assert_array_equal(found, fitted.predict_proba(holes))
    np.testing.assert_allclose(found, expected(labels, fitted.labels_, holes), atol=1e-12)
    with pytest.raises(ValueError, match="`labels` must have a label in every row, got only missing ones in row 0"):
        fitted.predict_proba(np.full((1, 8), 99))
    with pytest.raises(ValueError, match=r"`labels` must have the 8 columns that `fit` saw, got 7\."):
        fitted.predict_proba(labels[:, 1:])
    with pytest.raises(NotFittedError):
        ge.ClusterWalk(2).predict_proba(labels)


def test_rows_come_in_blocks(xp, monkeypatch):
    _, labels = ensemble(holes=0.2)
    fitted = ge.HBGF(4, random_state=0).fit(xp.asarray(labels))
    whole = to_host(fitted.predict_proba(xp.asarray(labels)))
    monkeypatch.setattr(votes, "CELLS", 33)
    np.testing.assert_array_equal(to_host(fitted.predict_proba(xp.asarray(labels))), whole)


@pytest.mark.parametrize("name", ["SEC", "KCC", "ClusterWalk", "HBGF", "Voting", "MCLA"])
def test_a_file_gives_the_bits_of_the_array(name, tmp_path, monkeypatch):
    _, labels = ensemble(n=600, holes=0.2)
    weight = np.random.default_rng(1).integers(1, 4, len(labels))
    loaded = clone(ESTIMATORS[name]).set_params(device="cpu").fit(labels, sample_weight=weight)
    pd.DataFrame(labels).rename(columns=str).to_parquet(tmp_path / "t.parquet", row_group_size=100)
    monkeypatch.setattr(readers, "BLOCK_BYTES", 800)
    streamed = clone(ESTIMATORS[name]).set_params(device="cpu").fit(tmp_path / "t.parquet", sample_weight=weight)
    np.testing.assert_array_equal(streamed.predict_proba(labels), loaded.predict_proba(labels))


def test_a_cluster_of_computers_gives_the_bits_of_the_array():
    import dask.array

    _, labels = ensemble(n=300, holes=0.2)
    with two_workers():
        for name in ("SEC", "ClusterWalk"):
            loaded = clone(ESTIMATORS[name]).fit(labels)
            there = clone(ESTIMATORS[name]).fit(dask.array.from_array(labels, chunks=(70, 4)))
            np.testing.assert_array_equal(there.predict_proba(labels), loaded.predict_proba(labels))
