"""Labels of every kind at the boundary."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuensemble import Membership
from gpuensemble._array import coding
from gpuensemble._array.devices import to_host


def decoded(m):
    """The labels back from the codes: None for a hole."""
    hole = np.array(-1).astype(m.codes.dtype)[()]
    codes = to_host(m.codes)
    return [[None if c == hole else m.categories[i][c] for i, c in enumerate(row)] for row in codes]


GOOD = {
    "integers": ([[0, 5], [3, 5], [0, 7]], [[0, 5], [3, 5], [0, 7]]),
    "-1 is a hole": ([[0, -1], [3, 5]], [[0, None], [3, 5]]),
    "strings": ([["a", "x"], ["b", "x"]], [["a", "x"], ["b", "x"]]),
    "None is a hole": ([["a", None], ["b", "x"]], [["a", None], ["b", "x"]]),
    "NaN among strings is a hole": ([["a", float("nan")], ["b", "x"]], [["a", None], ["b", "x"]]),
    "NA is a hole": ([[1, pd.NA], [2, 3]], [[1, None], [2, 3]]),
    "booleans": ([[True, False], [False, False]], [[True, False], [False, False]]),
    "tuples": ([[(1, 2), 0], [(3,), 1]], [[(1, 2), 0], [(3,), 1]]),
    "mixed columns": ([[1, "a"], [2, "b"]], [[1, "a"], [2, "b"]]),
    "integers past 64 bits": ([[2**70, 0], [1, 0]], [[2**70, 0], [1, 0]]),
    "whole floats": ([[1.0, 2.0], [3.0, float("nan")]], [[1, 2], [3, None]]),
    "an array of strings": (np.array([["a", "b"], ["c", "b"]]), [["a", "b"], ["c", "b"]]),
    "an array of objects": (np.array([["a", None], [2, 3]], object), [["a", None], [2, 3]]),
    "small unsigned": (np.array([[255, 0], [3, 0]], np.uint8), [[255, 0], [3, 0]]),
    "large unsigned": (np.array([[2**64 - 1, 0], [2**63, 0]], np.uint64), [[2**64 - 1, 0], [2**63, 0]]),
    "large integers": (np.array([[2**62, 0], [1, 0]]), [[2**62, 0], [1, 0]]),
    "large floats": (np.array([[1e300, 0], [1, 0]]), [[1e300, 0], [1, 0]]),
    "half floats": (np.array([[np.nan, 0], [1, 0]], np.float16), [[None, 0], [1, 0]]),
    "masked": (np.ma.array([[7, 8], [9, 8]], mask=[[0, 1], [0, 0]]), [[7, None], [9, 8]]),
    "transposed": (np.array([[0, 1], [2, 3]]).T, [[0, 2], [1, 3]]),
    "a table of one": ([["only"]], [["only"]]),
    "a DataFrame": (pd.DataFrame({"a": [1, 2], "b": ["x", None]}), [[1, "x"], [2, None]]),
    "nullable integers": (pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [0, 1]}), [[1, 0], [None, 1]]),
    "large nullable integers": (
        pd.DataFrame({"a": pd.array([2**53, 2**53 + 1, None], "Int64"), "b": [0, 1, 0]}),
        [[2**53, 0], [2**53 + 1, 1], [None, 0]],
    ),
    "categories": (pd.DataFrame({"a": pd.Categorical(["u", "v"]), "b": [0, -1]}), [["u", 0], ["v", None]]),
    "dates": (
        pd.DataFrame({"a": pd.to_datetime(["2020-01-01", None]), "b": [0, 1]}),
        [[pd.Timestamp(2020, 1, 1), 0], [None, 1]],
    ),
    "dates in rows": ([[datetime.date(2020, 1, 1)], [datetime.date(2021, 1, 1)]],) * 2,
}


@pytest.mark.parametrize(("labels", "expected"), GOOD.values(), ids=GOOD)
def test_labels_of_any_kind_are_read(labels, expected):
    m = Membership.from_labels(labels, device="cpu")
    assert decoded(m) == expected
    assert m.complete == (not any(None in row for row in expected))
    assert m.widths.tolist() == [len(values) for values in m.categories]
    assert m.widths.tolist() == [len(set(column) - {None}) for column in zip(*expected, strict=True)]


NUMBER_RULE = "`labels` given as numbers must be whole and not negative, with -1 or NaN for a missing one, got "
BAD = {
    "one axis": ([0, 1, 2], r"`labels` must be a table of at least one sample x one partition, got shape \(3,\)."),
    "an array of one axis": (np.zeros(3, int), r"got shape \(3,\)."),
    "three axes": (np.zeros((2, 2, 2), int), r"got shape \(2, 2, 2\)."),
    "no rows": (np.zeros((0, 3), int), r"got shape \(0, 3\)."),
    "an empty list": ([], r"got shape \(0, 0\)."),
    "no columns": (pd.DataFrame(index=[1, 2]), r"got shape \(2, 0\)."),
    "ragged": ([[0, 1], [0]], "`labels` must have rows of one length, got 2 labels in row 0 and 1 in row 1."),
    "a row of holes": (
        [[0, 1], [-1, None]],
        "`labels` must have a label in every row, got only missing ones in row 1.",
    ),
    "a named row": (pd.DataFrame({"a": [1, None]}, index=["s1", "s2"]), "in row 's2'."),
    "a column of holes": (
        [[0, -1], [1, None]],
        "`labels` must have a label in every column, got only missing ones in column 1.",
    ),
    "a named column": (pd.DataFrame({"a": [1, 2], "b": [None, None]}), "only missing ones in column 'b'."),
    "fractions": (np.array([[0, 0.5]]), NUMBER_RULE + r"0\.5 in row 0, column 1\."),
    "fractions in objects": ([["a", 0], ["b", 1.5]], NUMBER_RULE + r"1\.5 in row 1, column 1\."),
    "infinity": (np.array([[0, np.inf]]), NUMBER_RULE + "inf in row 0, column 1"),
    "negative": (np.array([[0, 1], [0, -2]]), NUMBER_RULE + "-2 in row 1, column 1"),
    "negative in objects": ([["a", -7]], NUMBER_RULE + "-7 in row 0, column 1"),
    "negative and small": (np.array([[-100, 1], [100, 1]], np.int8), NUMBER_RULE + "-100 in row 0, column 0"),
    "named place": (pd.DataFrame({"u": [1, -3]}, index=["x", "y"]), NUMBER_RULE + "-3 in row 'y', column 'u'"),
    "complex": (np.zeros((2, 2), complex), "got dtype complex128 in column 0."),
    "unhashable": ([[[1], 2]], "`labels` must hold hashable values, got one that is not in column 0"),
    "no character": (
        np.array([[0x61, 0x110000], [0x62, 0x7F000061]], "uint32").view("U1"),
        "`labels` must hold text of Unicode, got a character that is none in row 0, column 1.",
    ),
    "no character, swapped": (
        np.array([[0x61, 0x61], [0x62, 0x61], [0x80000000, 0]], ">u4").view(">U2"),
        "`labels` must hold text of Unicode, got a character that is none in row 2, column 0.",
    ),
    "text": ("abc", "`labels` must be an array, a DataFrame, a dict of columns, a list of rows .* got str."),
    "nothing": (None, "got NoneType."),
    "a Series": (pd.Series([1, 2]), "or of fitted clusterers, got Series."),
}


@pytest.mark.parametrize(("labels", "message"), BAD.values(), ids=BAD)
def test_bad_labels_get_one_sentence(labels, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        Membership.from_labels(labels, device="cpu")
    assert "\n" not in str(error.value)


NUMERIC = {
    name: labels for name, (labels, _) in GOOD.items() if isinstance(labels, np.ndarray) and labels.dtype.kind in "iuf"
}
NUMERIC_BAD = {
    name: case for name, case in BAD.items() if isinstance(case[0], np.ndarray) and case[0].dtype.kind not in "UO"
}


@pytest.mark.parametrize("labels", NUMERIC.values(), ids=NUMERIC)
def test_numbers_are_read_alike_in_every_library(xp, labels):
    labels = np.asarray(labels)
    expected, m = Membership.from_labels(labels, device="cpu"), Membership.from_labels(xp.asarray(labels))
    assert type(m.codes) is xp.ndarray
    assert decoded(m) == decoded(expected)


@pytest.mark.parametrize(("labels", "message"), NUMERIC_BAD.values(), ids=NUMERIC_BAD)
def test_bad_numbers_get_the_same_sentence_in_every_library(xp, labels, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Membership.from_labels(xp.asarray(labels))


@given(
    st.lists(
        st.tuples(*[st.one_of(st.none(), st.integers(0, 2**64 - 1), st.integers(0, 5), st.text(max_size=2))] * 3),
        min_size=1,
    )
)
def test_codes_and_categories_give_the_labels_back(rows):
    rows = [list(row) for row in rows if any(label is not None for label in row)]
    if not rows or not all(any(row[i] is not None for row in rows) for i in range(3)):
        return
    assert decoded(Membership.from_labels(rows, device="cpu")) == rows


def test_many_clusters_widen_the_codes():
    labels = np.stack([np.arange(70000) % 7, np.arange(70000) % 300, np.arange(70000)], axis=1)
    labels[3, 0] = labels[5, 1] = -1
    m = Membership.from_labels(labels, device="cpu")
    assert m.codes.dtype == "int32"
    assert m.codes[3].tolist() == [-1, 3, 3]
    assert m.codes[5].tolist() == [5, -1, 5]
    assert not m.complete


@pytest.mark.parametrize("mix", [coding.MIX, np.uint64(0)])  # hashes that differ, and hashes that are all the same
@pytest.mark.parametrize("order", ["<", ">"])
def test_an_array_of_text_is_coded_like_its_objects(order, mix, monkeypatch):
    """Texts that begin alike, that are empty, and that differ in one character of two words."""
    monkeypatch.setattr(coding, "MIX", mix)
    names = np.array(["", "a", "ab", "ba", "aa", "cluster 10", "cluster 1", "claster 1", "é", "\U0001f600"])
    texts = names[np.random.default_rng(0).integers(0, len(names), (200, 3))]
    found, categories = coding.from_labels(texts.astype(f"{order}U10"))
    expected, expected_categories = coding.from_labels(texts.astype(object))
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert [one.tolist() for one in categories] == [one.tolist() for one in expected_categories]


@pytest.mark.parametrize("kind", [object, "string[python]", "string[pyarrow]", "str"])
@pytest.mark.parametrize("more", [[], [None], [7]])
def test_text_goes_on_behind_a_nul(kind, more):
    """C's text ends there, and so do comparisons of pandas."""
    texts = ["x\0y", "x\0z", "x", "x\0y", *more]
    frame = pd.DataFrame({"a": pd.Series(texts, dtype=object).astype(kind), "b": 0})
    coded, (values, _) = coding.from_labels(frame)
    assert coded.codes[:4, 0].tolist() == [list(values).index(text) for text in texts[:4]] == [0, 1, 2, 0]
    coded, _ = coding.from_labels(np.array(texts[:4])[:, None])
    assert coded.codes[:, 0].tolist() == [0, 1, 2, 0]
