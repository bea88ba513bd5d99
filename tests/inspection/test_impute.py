"""Holes filled with the commonest label of their cluster, against a loop over the holes."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import gpuensemble as ge
from gpuensemble._array.devices import namespace, to_host
from support import ensemble


def literal(labels, consensus):
    """The commonest label, the least of equally common ones, and its share."""
    out, confidence = labels.copy(), np.ones(labels.shape)
    for x, i in zip(*np.nonzero(labels < 0), strict=True):
        counts = Counter(labels[(consensus == consensus[x]) & (labels[:, i] >= 0), i].tolist())
        best = min(counts, key=lambda label: (-counts[label], label), default=-1)
        out[x, i] = best
        confidence[x, i] = counts[best] / counts.total() if counts else np.nan
    return out, confidence


@pytest.mark.parametrize("dtype", ["int64", "int8", "float64"])
def test_each_hole_has_the_commonest_label_of_its_cluster(xp, dtype):
    truth, labels = ensemble(n=60, r=5, holes=0.6)
    labels[(truth == 2), 1] = -1  # cluster 2 has no label there
    labels[(labels < 0).all(axis=1), 0] = 1
    labels[:, 3] = np.where(labels[:, 3] < 0, -1, 2 * labels[:, 3])
    expected, confidence = literal(labels, truth)
    found = ge.impute(xp.asarray(labels.astype(dtype)), xp.asarray(truth))
    assert namespace(found.labels) is namespace(found.confidence) is xp
    assert found.labels.dtype == dtype
    np.testing.assert_array_equal(to_host(found.labels), expected)
    np.testing.assert_allclose(to_host(found.confidence), confidence, rtol=0, atol=1e-15)
    assert (expected == -1).sum() == np.isnan(confidence).sum() > 0


def test_a_data_frame_stays_one():
    index = list("vwxyz")
    frame = pd.DataFrame({"text": ["a", "b", None, "b", None], 3: [np.nan, 4.0, 4.0, np.nan, np.nan], "all": 7}, index)
    found = ge.impute(frame, pd.Series([0, 0, 0, 1, 1], index))
    assert found.labels["text"].tolist() == ["a", "b", "a", "b", "b"]  # the first of equally common ones
    assert found.labels[3].tolist()[:3] == [4, 4, 4]
    assert found.labels[3].isna().tolist() == [False] * 3 + [True] * 2
    assert list(found.confidence.index) == index
    assert list(found.confidence.columns) == ["text", 3, "all"]
    assert found.confidence["text"].tolist() == [1, 1, 0.5, 1, 1]
    assert frame.isna().sum().sum() == 5  # the caller's table is as it was


def test_an_estimator_stands_for_its_labels():
    truth, labels = ensemble(holes=0.3)
    fitted = ge.ClusterWalk(4, device="cpu").fit(labels)
    found = ge.impute(labels, fitted)
    np.testing.assert_array_equal(found.labels, ge.impute(labels, fitted.labels_).labels)
    whole = ge.impute(labels[:, :3].clip(0), truth)
    assert (whole.confidence == 1).all()


def test_bad_arguments_get_one_sentence():
    with pytest.raises(ValueError, match=r"`consensus` must not hold missing labels .*, got one in row 1\."):
        ge.impute([[0], [1]], [0, None])
