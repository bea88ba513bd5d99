"""Partitions renamed after a reference: the best of all ways to rename them, in the caller's kind of table."""

import doctest
import importlib
import itertools

import numpy as np
import pandas as pd
import pytest

import gpuensemble as ge
from gpuensemble._array.devices import namespace, to_host
from gpuensemble.metrics import contingency
from support import ensemble, random_codes

RNG = np.random.default_rng(5)
REFERENCE = RNG.integers(0, 3, 60)
LABELS = random_codes(RNG, 60, [4, 3, 2, 5])


def best_agreement(column, reference):
    """The most samples that agree, over all ways to give the clusters different names."""
    clusters, names = np.unique(column[column >= 0]), np.unique(reference)
    names = [*names, *range(-9, len(clusters) - 9)]
    return max(
        sum((reference[column == cluster] == name).sum() for cluster, name in zip(clusters, some, strict=True))
        for some in itertools.permutations(names, len(clusters))
    )


@pytest.mark.parametrize("cells", [contingency.DENSE_CELLS, 0])
def test_no_other_names_agree_with_more_samples(xp, monkeypatch, cells):
    monkeypatch.setattr(contingency, "DENSE_CELLS", cells)
    found = ge.align(xp.asarray(LABELS), xp.asarray(REFERENCE))
    assert namespace(found) is xp
    found = to_host(found)
    np.testing.assert_array_equal(found == -1, LABELS == -1)
    for column, old in zip(found.T, LABELS.T, strict=True):
        assert (column == REFERENCE).sum() == best_agreement(old, REFERENCE)
        assert ge.metrics.ari(column[column >= 0], old[old >= 0]) == 1


def test_clusters_left_over_get_new_names_the_largest_first():
    labels = np.array([[7, 0], [7, 0], [7, 0], [4, 0], [9, 0], [9, 0], [3, 1]])
    found = ge.align(labels, [10, 10, 10, 20, 20, 20, 20])
    np.testing.assert_array_equal(found[:, 0], [10, 10, 10, 22, 20, 20, 21])
    np.testing.assert_array_equal(found[:, 1], [10, 10, 10, 10, 10, 10, 20])


def test_a_cluster_takes_no_name_that_none_of_its_samples_has():
    labels = [[0, 0], [0, 0], [1, 0], [1, None]]
    assert ge.align(labels, ["a", "a", "a", "b"]) == [["a", "a"], ["a", "a"], ["b", "a"], ["b", None]]
    assert ge.align([[0], [1], [2]], ["new 1", "x", "x"]) == [["new 1"], ["x"], ["new 2"]]
    assert ge.align([[5, 0], [5, 0], [6, 1], [None, 2]], [1, 1, 1, 0]) == [[1, 1], [1, 1], [2, 2], [None, 0]]


def test_a_data_frame_keeps_index_and_columns():
    index = [f"s{i}" for i in range(4)]
    frame = pd.DataFrame(
        {
            "whole": [1, 1, 0, -1],
            "float": [np.nan, 3.0, 2.0, 2.0],
            "text": ["x", "x", None, "y"],
            "nullable": pd.array([1, None, 0, 0], "Int64"),
            "category": pd.Categorical(["u", "u", "v", None]),
        },
        index,
    ).rename(columns={"category": "text"})
    found = ge.align(frame, pd.Series([0, 0, 1, 1], index))
    assert list(found.index) == index
    assert list(found.columns) == ["whole", "float", "text", "nullable", "text"]
    assert (found.isna() == frame.isna()).all(axis=None)
    assert found["whole"].tolist() == [0, 0, 1, -1]
    assert found["float"].tolist()[1:] == [0, 1, 1]
    assert found.iloc[:, 2].dropna().tolist() == [0, 0, 1]
    assert found["nullable"].dropna().tolist() == [0, 1, 1]
    assert found.iloc[:, 4].dropna().tolist() == [0, 0, 1]
    assert ge.align(frame.iloc[:, :2], list("aabb"))["whole"].tolist() == ["a", "a", "b", -1]


def test_arrays_keep_their_holes():
    masked = np.ma.array([[5, 1], [5, 1], [6, 2]], mask=[[0, 0], [1, 0], [0, 0]])
    found = ge.align(masked, [0, 0, 1])
    assert found.tolist() == [[0, 0], [None, 0], [1, 1]]
    floats = ge.align(np.array([[5, np.nan], [5, 1], [6, 2]]), np.array([0, 0, 1], "uint8"))
    np.testing.assert_array_equal(floats, [[0, np.nan], [0, 0], [1, 1]])
    assert ge.align(np.array([["u"], ["u"], ["v"]]), ["x", "x", "y"]).tolist() == [["x"], ["x"], ["y"]]
    small = ge.align(np.array([[0, -1], [1, 0], [2, 1]], "int8"), np.array([255, 255, 255], "uint8"))
    assert sorted(small[:, 0].tolist()) == [255, 256, 257]
    assert small[0, 1] == -1


def test_names_too_long_for_floats_are_refused(xp):
    names = xp.asarray([2**60, 2**60 + 1, 2**60 + 1])
    assert to_host(ge.align(xp.asarray([[0, -1], [1, 0], [1, 0]]), names))[:, 0].tolist() == names.tolist()
    rule = r"`reference` must be at most 2\*\*53 where `labels` has holes among floats, got 1152921504606846977\."
    with pytest.raises(ValueError, match=rule):
        ge.align(xp.asarray([[0, np.nan], [1, 0], [1, 0]]), names)


def test_dates_may_be_labels():
    days = np.array(
        [["2020-01-01", "2020-01-02"], ["2020-01-03", "NaT"], ["2020-01-03", "2020-01-05"]], "datetime64[D]"
    )
    found = ge.align(days, [4, 5, 5])
    assert found[:, 0].tolist() == [4, 5, 5]
    assert pd.isna(found[1, 1])
    assert found[[0, 2], 1].tolist() == [4, 5]


def test_an_estimator_stands_for_its_labels():
    _, labels = ensemble(holes=0.2)
    fitted = ge.ClusterWalk(4, device="cpu").fit(labels)
    np.testing.assert_array_equal(ge.align(labels, fitted), ge.align(labels, fitted.labels_))


BAD = {
    "length": ([0, 1], r"`reference` must have n_samples=3 entries, got 2\."),
    "hole": ([0, 1, -1], r"`reference` must not hold missing labels \(NaN, None or -1\), got one in row 2\."),
    "not fitted": (ge.SEC(2), r"`reference` must be a NumPy or CuPy array, a Series or a list, got SEC\."),
}


@pytest.mark.parametrize(("reference", "message"), BAD.values(), ids=BAD)
def test_a_bad_reference_gets_one_sentence(reference, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ge.align([[0], [1], [1]], reference)


def test_the_same_samples_in_another_order_are_refused():
    frame = pd.DataFrame({"a": [0, 1, 1]}, list("xyz"))
    rule = r"`reference` must have its samples in the order of `labels`, got 'z' instead of 'y' in row 1\."
    with pytest.raises(ValueError, match=rule):
        ge.align(frame, pd.Series([0, 1, 1], list("xzy")))
    assert ge.align(frame, pd.Series([3, 4, 4]))["a"].tolist() == [3, 4, 4]  # numbered, not named
    some = frame.set_axis([0, 2, 5])  # rows of a larger frame
    assert ge.align(some, pd.Series([3, 4, 4]))["a"].tolist() == [3, 4, 4]


def test_text_cannot_go_to_a_device(xp):
    labels, reference = xp.asarray([[0], [1]]), ["a", "b"]
    if xp is np:
        assert ge.align(labels, reference).tolist() == [["a"], ["b"]]
        return
    with pytest.raises(TypeError, match=r"`reference` must hold numbers, as `labels` is a CuPy array, got 'a'\."):
        ge.align(labels, reference)


@pytest.mark.parametrize("name", ["align", "impute", "stability"])
def test_the_examples_in_the_documentation(name):
    result = doctest.testmod(importlib.import_module(f"gpuensemble._inspection.{name}"))
    assert result.attempted > 1
    assert not result.failed


def test_names_beyond_every_type_of_numbers_stay_apart():
    assert ge.align([[0], [1], [2]], [2**63 - 1, 5, 5]) == [[2**63 - 1], [5], [2**63]]
    assert ge.align([[0], [1], [2]], [1e300, 5, 5])[2][0] == int(1e300) + 1
