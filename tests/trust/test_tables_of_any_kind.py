"""Labels of any type, partitions of any width, and tables that are none: an answer, or one sentence of ours."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from every_method import METHODS, STREAMED, UNCLEAR, fitted, holds_on_all, same_bits, tables

from gpuensemble import Membership, metrics
from gpuensemble._array import checks

# --- labels: a code, counted from 0 in the order of first occurrence, and its name

DAY = datetime.date(2020, 2, 29)
MIXED = ["a", 0, (1, 2), DAY, b"x", frozenset([3]), decimal.Decimal("0.5"), 2**70, pd.Timestamp(0), "", np.str_("b")]
NAMES = {
    "strings": lambda code: f"cluster {code}",
    "bytes": lambda code: str(code).encode(),
    "tuples": lambda code: (code, "x"),
    "dates": lambda code: DAY + datetime.timedelta(code),
    "large integers": lambda code: 2**80 + code,
    "mixed": lambda code: MIXED[code] if code < len(MIXED) else f"more {code}",
}


def named(codes, name):
    """A table of objects, with None for a hole."""
    table = np.empty(codes.shape, object)
    for place in np.ndindex(codes.shape):
        table[place] = None if codes[place] < 0 else name(int(codes[place]))
    return table


def kinds(codes):
    """Tables that have these codes."""
    holes, texts = codes < 0, named(codes, NAMES["strings"])
    found = [named(codes, name) for name in NAMES.values()]
    found += [
        texts.tolist(),
        pd.DataFrame(texts),
        pd.DataFrame(texts).astype("category"),
        pd.DataFrame(codes, dtype="Int64"),
    ]
    found += [pd.DataFrame(named(codes, lambda code: pd.Timestamp(code, unit="D"))).astype("datetime64[ns]")]
    found += [np.ma.masked_array(codes, holes), np.where(holes, np.nan, codes), np.where(holes, -1, 2**62 + codes)]
    if not holes.any():
        found += [
            np.uint64(2**64 - 400) + codes.astype("uint64"),
            codes.astype(">i2"),
            codes.astype("M8[D]"),
            codes.astype("U"),
        ]
        found += [codes.astype(bool)] if codes.max() <= 1 else []
    return found


def names_of_labels_do_not_matter(name, labels, k):
    """Objects are coded in the order of their first occurrence; numbers that are in that order have the same codes."""
    codes = np.stack([pd.factorize(np.where(column < 0, np.nan, column))[0] for column in labels.T], axis=1)
    expected, _ = fitted(name, codes, k)
    for table in kinds(codes):
        same_bits(expected, fitted(name, table, k)[0])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_names_of_labels_do_not_matter(name, record_property):
    holds_on_all(name, names_of_labels_do_not_matter, tables, record_property, share=6)


# --- widths: the types of codes have 255 and 65535 values beside the hole


NARROW, WIDE = [255, 256], [65535, 65536]
# Tables of all pairs of clusters are too large there.
AT_THE_ENDS = [(name, width) for name in ("sec", "kcc", "hbgf") for width in WIDE]
# Where nearly each row is a cluster of its own, weights by entropy take those for the surest clusters of all, average
# linkage of clusters for groups, and parts are to be balanced.
MISLED = ("cluster-walk", "lwea", "lwea-groups", "mcla", *UNCLEAR)
AT_THE_ENDS += [(name, width) for name in STREAMED if name not in MISLED for width in NARROW]


@pytest.mark.parametrize(("name", "width"), AT_THE_ENDS)
def test_wide_partitions_at_the_ends_of_code_types(name, width):
    """Five partitions with the answer and a hole in each row, one as wide as a type allows or wider, one of width 1."""
    rng = np.random.default_rng(width)
    n = width + 500
    truth = rng.integers(0, 3, n)
    wide = np.concatenate([rng.permutation(width), rng.integers(0, width, 500)])
    labels = np.column_stack([*([truth] * 5), wide, np.zeros(n, int)])
    labels[np.arange(n), rng.integers(0, 5, n)] = -1
    labels[-300:, 5] = -1
    codes = Membership.from_labels(labels, "cpu").codes
    assert codes.dtype == {255: "uint8", 256: "uint16", 65535: "uint16", 65536: "int32"}[width]
    estimator, _ = fitted(name, labels, 3)
    assert metrics.ari(truth, estimator.labels_) == 1
    np.testing.assert_array_equal(estimator.predict(labels[-500:]), estimator.labels_[-500:])


def test_entropies_of_wide_partitions_that_do_not_fit_get_one_sentence(monkeypatch):
    monkeypatch.setattr(checks, "memory", lambda device: 10**6)
    labels = np.column_stack([np.arange(400), np.arange(400) % 3])
    with pytest.raises(
        ValueError, match=r"^`cluster_weight`'s contingency tables of 403 x 403 must fit into memory: 0\.0"
    ):
        fitted("sec-entropy", labels, 3)


@pytest.mark.filterwarnings("ignore:Partitions of one cluster carry no information")
@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("cspa", "hgpa")])
def test_partitions_that_say_nothing_change_no_clear_answer(name):
    truth = np.repeat([0, 1, 2], [9, 12, 20])
    labels = np.column_stack([*([truth] * 5), np.arange(41), np.full(41, 3)])
    assert metrics.ari(truth, fitted(name, labels, 3)[0].labels_) == 1


# --- tables that are none


def spoiled(place, value, dtype=object):
    """A table of 6 x 3 labels with one of them replaced."""
    labels = (np.arange(18).reshape(6, 3) % 4).astype(dtype)
    labels[place] = value
    return labels


ILLEGAL = {
    "nothing": None,
    "a number": 3,
    "an empty list": [],
    "rows of nothing": [[], []],
    "no rows": np.empty((0, 3), int),
    "no columns": np.empty((3, 0), int),
    "no axis": np.array(3),
    "one axis": np.arange(6),
    "a list of labels": [0, 1, 2],
    "three axes": np.zeros((2, 2, 2), int),
    "ragged rows": [[0, 1], [0], [1, 2]],
    "nested rows": [[[0], [1]], [[0], [2]]],
    "a set": {0, 1},
    "a ragged dictionary": {"a": [0, 1], "b": [0]},
    "a dictionary of numbers": {0: 0, 1: 1},
    "a list of series": [pd.Series([0, 1, 2]), pd.Series([0, 1, 1])],
    "a generator": (row for row in [[0], [1]]),
    "a series": pd.Series([0, 1, 2]),
    "an empty frame": pd.DataFrame(),
    "a sparse matrix": scipy.sparse.eye(3, format="csr"),
    "a sparse array": scipy.sparse.coo_array(np.eye(3)),
    "a row of holes": spoiled((2, slice(None)), -1, int),
    "a row of None": spoiled((2, slice(None)), None),
    "a column of holes": spoiled((slice(None), 1), np.nan, float),
    "all holes": np.full((6, 3), -1),
    "infinity": spoiled((1, 1), np.inf, float),
    "minus infinity": spoiled((1, 1), -np.inf),
    "a fraction": spoiled((1, 1), 0.5, float),
    "a negative label": spoiled((1, 1), -2, int),
    "a negative object": spoiled((1, 1), -2),
    "a complex number": spoiled((1, 1), 1j, complex),
    "a record": np.zeros((6, 3), [("a", "i4")]),
    "a list as a label": spoiled((1, 1), [1]),
    "an array as a label": spoiled((1, 1), np.zeros(2)),
    "a signalling NaN": spoiled((1, 1), decimal.Decimal("sNaN")),
}


def one_sentence(error, name):
    message = str(error)
    assert message.startswith(f"`{name}` "), message
    assert message.endswith("."), message
    assert "\n" not in message, message
    assert len(message) < 300, message


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("table", ILLEGAL.values(), ids=ILLEGAL)
def test_a_table_that_is_none_gets_one_sentence(name, table):
    with pytest.raises((TypeError, ValueError)) as caught:
        METHODS[name].make(1, 0, "cpu").fit(table)
    one_sentence(caught.value, "labels")


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("k", [0, -1, 7, 2**70, True, 2.0, "2", None, float("nan"), [2]])
def test_a_number_of_clusters_that_is_none_gets_one_sentence(name, k):
    with pytest.raises((TypeError, ValueError)) as caught:
        METHODS[name].make(k, 0, "cpu").fit(np.arange(18).reshape(6, 3) % 4)
    one_sentence(caught.value, "n_clusters")


# A value that `fit` cannot have seen counts as a hole, with a warning, and a column may be of holes.
UNSEEN = ["a column of holes", "infinity", "minus infinity", "a fraction", "a negative label", "a negative object"]
UNREADABLE = {key: table for key, table in ILLEGAL.items() if key not in UNSEEN}


@pytest.mark.parametrize("name", STREAMED)
@pytest.mark.parametrize("table", UNREADABLE.values(), ids=UNREADABLE)
def test_nor_can_it_be_predicted(name, table):
    estimator = METHODS[name].make(2, 0, "cpu").fit(np.arange(18).reshape(6, 3) % 4)
    with pytest.raises((TypeError, ValueError)) as caught:
        estimator.predict(table)
    one_sentence(caught.value, "labels")
