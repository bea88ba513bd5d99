"""Tables, vectors and matrices of other libraries give what the same numbers in NumPy give, to the last bit."""

import subprocess
import sys
import types

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array, hstack
from sklearn.cluster import DBSCAN, KMeans

import gpuensemble as ge
from cudasim import standin
from cudasim.shim import ShimModule, gxx
from gpuensemble._array import coding, frames
from gpuensemble._tables import readers
from gpuensemble.estimators._base.registry import of_labels
from support import ensemble

NAMES = list("abcde")
LARGE = 2**60  # floats cannot tell it from its neighbours


class Speaks:
    """An object that has nothing but some protocols of another."""

    def __init__(self, value, *names):
        self.value, self.names = value, names

    def __getattr__(self, name):
        if name in self.__dict__["names"]:
            return getattr(self.value, name)
        raise AttributeError(name)


class SpeaksDLPack:
    """What a tensor of another library is to NumPy."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class SpeaksArray:
    """An object that only has `__array__`."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def integers(holes):
    """Labels that begin with the greatest, so that order of occurrence and order of size differ; -1 is a hole."""
    _, labels = ensemble(n=60, r=5)
    labels = labels.max() - labels.astype("int64")
    if holes:
        labels[np.random.default_rng(0).random(labels.shape) < 0.1] = -1
    return labels


def nulled(labels):
    return {name: [None if x < 0 else x for x in row] for name, row in zip(NAMES, labels.T.tolist(), strict=True)}


def typed(labels, dtype):
    return {name: pl.Series(name, column, dtype=dtype) for name, column in nulled(labels).items()}


def clusterers(labels):
    return [types.SimpleNamespace(labels_=column) for column in labels.T]


FRAMES = {
    "pandas": lambda labels: pd.DataFrame(labels, columns=NAMES),
    "pandas, nullable": lambda labels: pd.DataFrame(nulled(labels), dtype="Int64"),
    "pandas, of Arrow": lambda labels: pd.DataFrame(nulled(labels), dtype="int64[pyarrow]"),
    "polars": lambda labels: pl.DataFrame(nulled(labels)),
    "polars, narrow": lambda labels: pl.DataFrame(typed(labels, pl.UInt8)),
    "pyarrow": lambda labels: pa.table(nulled(labels)),
    "a batch of pyarrow": lambda labels: pa.record_batch(nulled(labels)),
    "the stream of Arrow": lambda labels: Speaks(pl.DataFrame(nulled(labels)), "__arrow_c_stream__"),
    "the interchange protocol": lambda labels: Speaks(pa.table(nulled(labels)), "__dataframe__"),
    "a dict of lists": nulled,
    "a dict of arrays": lambda labels: dict(zip(NAMES, labels.T, strict=True)),
    "a dict of polars' Series": lambda labels: typed(labels, pl.Int64),
    "a dict of Series": lambda labels: dict(pd.DataFrame(labels, columns=NAMES).items()),
    "a dict of masked arrays": lambda labels: dict(zip(NAMES, np.ma.array(labels, mask=labels < 0).T, strict=True)),
}
ARRAYS = {
    "`__array__`": SpeaksArray,
    "DLPack": SpeaksDLPack,
    "clusterers": clusterers,
    "rows": lambda labels: [list(row) for row in labels],
    "rows with None": lambda labels: [[None if x < 0 else x for x in row] for row in labels.tolist()],
    "rows of arrays": list,
    "a masked array": lambda labels: np.ma.array(labels, mask=labels < 0),
    "objects": lambda labels: labels.astype(object),
}
KINDS = FRAMES | ARRAYS


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_every_kind_have_the_same_codes(kind, holes):
    labels = integers(holes)
    expected, found = (ge.Membership.from_labels(given, "cpu") for given in (labels, KINDS[kind](labels)))
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert [values.tolist() for values in found.categories] == [values.tolist() for values in expected.categories]
    assert found.complete is not holes


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_every_kind_have_the_same_bits(kind):
    labels, given = integers(True), KINDS[kind](integers(True))
    expected, found = (ge.SEC(3, random_state=0, device="cpu").fit(table) for table in (labels, given))
    assert type(found.labels_) is np.ndarray
    for name in ("labels_", "confidence_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(found.predict(given), expected.labels_)
    np.testing.assert_array_equal(found.predict_proba(given), expected.predict_proba(labels))
    one, two = (ge.stability(table, expected.labels_, device="cpu") for table in (labels, given))
    np.testing.assert_array_equal(two.samples, one.samples)
    assert list(two.partitions.index) == (NAMES if kind in FRAMES else list(range(5)))
    np.testing.assert_array_equal(ge.metrics.pairwise(given), ge.metrics.pairwise(labels))
    np.testing.assert_array_equal(ge.coassociation(given), ge.coassociation(labels))
    filled = [np.array(ge.impute(table, expected.labels_).labels, "float64") for table in (labels, given)]
    np.testing.assert_array_equal(*filled)
    aligned = [np.array(ge.align(table, expected.labels_), "float64") for table in (labels, given)]
    np.testing.assert_array_equal(*(np.nan_to_num(table, nan=-1) for table in aligned))
    trees = [ge.consensus_tree(table, expected.labels_, device="cpu").linkage for table in (labels, given)]
    np.testing.assert_array_equal(*trees)


@pytest.mark.parametrize("name", of_labels())
def test_every_method_takes_frames_and_dicts(name):
    labels = integers(of_labels()[name].holes)
    expected = of_labels()[name].make(3, 0, "cpu").fit(labels).labels_
    for kind in ("polars", "a dict of lists", "DLPack", "clusterers"):
        found = of_labels()[name].make(3, 0, "cpu").fit(KINDS[kind](labels))
        np.testing.assert_array_equal(found.labels_, expected)
        assert list(getattr(found, "feature_names_in_", NAMES)) == NAMES
        assert hasattr(found, "feature_names_in_") == (kind in FRAMES)


TEXT = {
    "polars": pl.DataFrame,
    "categories of polars": lambda table: pl.DataFrame(table, schema=dict.fromkeys(table, pl.Categorical)),
    "an Enum of polars": lambda table: pl.DataFrame(
        table, schema=dict.fromkeys(table, pl.Enum(["c0", "c1", "x", "c2"]))
    ),
    "pyarrow": pa.table,
    "dictionaries of pyarrow": lambda table: pa.table(
        {name: pa.array(x).dictionary_encode() for name, x in table.items()}
    ),
    "large text of pyarrow": lambda table: pa.table(
        {name: pa.array(x, pa.large_string()) for name, x in table.items()}
    ),
    "pandas": pd.DataFrame,
    "categories of pandas": lambda table: pd.DataFrame(table, dtype="category"),
    "a dict": dict,
}


@pytest.mark.parametrize("kind", TEXT)
def test_text_of_every_kind_has_the_same_codes(kind):
    table = {"a": ["c2", "c0", None, "c2", "c1"], "b": ["c1", "c1", "c0", None, "c1"]}
    rows = [list(row) for row in zip(*table.values(), strict=True)]
    expected, found = (ge.Membership.from_labels(given, "cpu") for given in (rows, TEXT[kind](table)))
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert [values.tolist() for values in found.categories] == [["c2", "c0", "c1"], ["c1", "c0"]]


@pytest.mark.parametrize("kind", [pl.DataFrame, pa.table, dict, lambda table: {x: pl.Series(table[x]) for x in table}])
def test_large_integers_beside_a_null_stay_apart(kind):
    m = ge.Membership.from_labels(kind({"a": [LARGE, LARGE + 1, None, LARGE]} | {"b": [0, 0, 1, 1]}), "cpu")
    assert m.categories[0].tolist() == [LARGE, LARGE + 1]


def points():
    return np.random.default_rng(0).standard_normal((40, 3)) + 9 * (np.arange(40)[:, None] % 2)


MATRICES = {
    "polars": lambda X: pl.DataFrame(X, schema=["x", "y", "z"]),
    "pyarrow": lambda X: pa.table(dict(zip("xyz", X.T, strict=True))),
    "the stream of Arrow": lambda X: Speaks(pl.DataFrame(X, schema=["x", "y", "z"]), "__arrow_c_stream__"),
    "a dict of lists": lambda X: dict(zip("xyz", X.T.tolist(), strict=True)),
    "a dict of Series": lambda X: dict(pd.DataFrame(X, columns=list("xyz")).items()),
    "`__array__`": SpeaksArray,
    "DLPack": SpeaksDLPack,
    "Dask": lambda X: dask.array.from_array(X, chunks=(9, 3)),
}


@pytest.mark.parametrize("kind", MATRICES)
def test_features_of_every_kind_have_the_same_labels(kind):
    X, given = points(), MATRICES[kind](points())
    base = [ge.generate.random_k(one, 4, (2, 5), random_state=0, device="cpu") for one in (X, given)]
    np.testing.assert_array_equal(*base)
    one, two = (ge.ConsensusClustering(2, n_partitions=4, random_state=0, device="cpu").fit(x) for x in (X, given))
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.labels_, two.predict(given))
    views = [ge.CMVC(2, random_state=0, device="cpu").fit([x, x]).labels_ for x in (X, given)]
    np.testing.assert_array_equal(*views)


def test_choose_k_takes_a_frame_of_labels_and_one_of_features():
    labels = integers(False)
    one, two = (
        ge.choose_k(table, [2, 3], n_bootstrap=3, random_state=0, device="cpu") for table in (labels, nulled(labels))
    )
    pd.testing.assert_frame_equal(one.table, two.table)
    way = ge.ConsensusClustering(2, n_partitions=4, device="cpu")
    common = {"consensus": way, "n_bootstrap": 3, "random_state": 0, "device": "cpu"}
    one, two = (ge.choose_k(X, [2, 3], **common) for X in (points(), MATRICES["polars"](points())))
    pd.testing.assert_frame_equal(one.table, two.table)


def test_the_index_of_a_frame_in_arrow_is_no_column():
    index = np.arange(40)[::-1] * 7
    frame = pd.DataFrame(points(), index=index, columns=list("xyz"))
    found = [
        ge.generate.random_k(X, 3, (2, 5), random_state=0, device="cpu") for X in (frame, pa.Table.from_pandas(frame))
    ]
    np.testing.assert_array_equal(*found)
    labels = pd.DataFrame(np.column_stack([np.arange(40) % 2, np.arange(40) % 3]), index, ["a", "b"])
    assert list(ge.stability(pa.Table.from_pandas(labels), np.arange(40) % 2).samples.index) == index.tolist()


VECTORS = {
    "polars": pl.Series,
    "categories of polars": lambda y: pl.Series([f"c{x}" for x in y], dtype=pl.Categorical),
    "pyarrow": pa.array,
    "chunks of pyarrow": lambda y: pa.chunked_array([y[:7], y[7:]]),
    "DLPack": SpeaksDLPack,
    "`__array__`": SpeaksArray,
}


@pytest.mark.parametrize("kind", VECTORS)
def test_vectors_of_every_kind_have_the_same_scores(kind):
    truth, labels = ensemble(n=60, r=1)
    found = ge.metrics.ari(VECTORS[kind](truth), VECTORS[kind](labels[:, 0]))
    assert found == ge.metrics.ari(truth, labels[:, 0])


def test_weights_of_samples_may_be_a_series_of_polars():
    labels, weight = integers(False), np.arange(60) % 3 + 1
    one, two = (ge.SEC(3, random_state=0).fit(labels, sample_weight=w) for w in (weight, pl.Series(weight)))
    np.testing.assert_array_equal(one.labels_, two.labels_)


def test_nothing_is_copied_that_can_be_read_where_it_is():
    X = points()
    for kind in (SpeaksArray, SpeaksDLPack):
        assert np.shares_memory(frames.table(kind(X)), X)
    assert frames.table(X) is X
    frame = pd.DataFrame(X)
    assert frames.table(frame) is frame


@pytest.mark.skipif(gxx() is None, reason="g++ is not installed")
def test_an_array_on_a_device_goes_to_cupy_without_a_copy():
    labels = integers(True)
    expected = ge.SEC(3, random_state=0, device="cpu").fit(labels).labels_
    given = types.SimpleNamespace(__cuda_array_interface__=labels.__array_interface__)
    with standin.installed(ShimModule) as cupy:
        table = frames.table(given)
        assert isinstance(table, cupy.ndarray)
        assert np.shares_memory(table.host, labels)
        found = ge.SEC(3, random_state=0).fit(given)
        assert isinstance(found.labels_, cupy.ndarray)
        assert found.device_ == "cuda:0"
        table = ge.Membership.from_labels({"a": cupy.asarray(labels[:, 0]), "b": cupy.asarray(labels[:, 1])}, "cpu")
        np.testing.assert_array_equal(table.codes, ge.Membership.from_labels(labels[:, :2], "cpu").codes)
        np.testing.assert_array_equal(found.labels_.get(), expected)


def test_an_array_on_a_device_needs_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    given = types.SimpleNamespace(__dlpack__=None, __dlpack_device__=lambda: (2, 0))
    with pytest.raises(ImportError, match=r"^An array on a CUDA device, SimpleNamespace, needs CuPy: .*\.$"):
        ge.Membership.from_labels(given)


def test_a_frame_needs_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    rule = r"^`labels`, a polars.DataFrame, is read by pyarrow: `pip install pyarrow` brings it\.$"
    with pytest.raises(ImportError, match=rule):
        ge.Membership.from_labels(pl.DataFrame({"a": [1, 2]}))
    assert ge.generate.random_k(MATRICES["polars"](points()), 2, (2, 3), device="cpu").shape == (40, 2)


def test_other_libraries_are_not_imported_for_arrays():
    code = (
        "import sys, numpy as np, gpuensemble as ge; ge.SEC(2).fit(np.array([[0, 1], [1, 0], [1, 1]]));"
        "print([name for name in ('polars', 'dask', 'torch') if name in sys.modules])"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"


# --- fitted clusterers


def test_fitted_clusterers_are_columns_and_noise_is_a_hole():
    X = points()
    fitted = [
        KMeans(2, n_init=1, random_state=0).fit(X),
        DBSCAN(1.0).fit(X),
        KMeans(3, n_init=1, random_state=0).fit(X),
    ]
    table = np.column_stack([one.labels_ for one in fitted])
    assert (table == -1).any()
    m = ge.Membership.from_labels(fitted, "cpu")
    np.testing.assert_array_equal(m.codes, ge.Membership.from_labels(table, "cpu").codes)


# --- lists of vectors


def test_a_list_of_vectors_longer_than_they_are_many_is_warned_of():
    vectors = list(integers(False).T)
    rule = (
        r"^`labels`, a list of 5 arrays, is read as 5 samples x 60 partitions: if each array is a partition of 60 "
        r"samples, give np.column_stack\(labels\), which is np.array\(labels\).T\.$"
    )
    for given in (vectors, tuple(vectors)):
        with pytest.warns(UserWarning, match=rule) as told:
            ge.SEC(2, random_state=0).fit(given)
        assert len(told) == 1
    assert ge.Membership.from_labels(np.column_stack(vectors), "cpu").shape[0] == 60  # warnings are errors here


def test_a_list_of_rows_is_not_warned_of():
    labels = integers(False)
    for rows in (list(labels), labels[:3].tolist(), list(labels[:5])):
        assert ge.Membership.from_labels(rows, "cpu").shape[0] == len(rows)


# --- one-hot matrices


def onehot(labels, kind=csr_array):
    parts = [csr_array(column[:, None] == np.unique(column[column >= 0])) for column in labels.T]
    return kind(hstack(parts)), np.cumsum([0, *(part.shape[1] for part in parts)])


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dense"])
def test_a_onehot_matrix_has_the_codes_of_its_labels(kind, holes):
    labels = integers(holes)
    H, offsets = onehot(labels)
    m = ge.Membership.from_onehot(H.toarray() if kind == "dense" else H.asformat(kind), offsets, "cpu")
    expected = ge.Membership.from_labels(labels, "cpu")
    np.testing.assert_array_equal(m.codes, expected.codes)
    np.testing.assert_array_equal(m.offsets, expected.offsets)
    assert m.complete is not holes
    found = ge.SEC(3, random_state=0, device="cpu").fit(m.labels())
    np.testing.assert_array_equal(found.labels_, ge.SEC(3, random_state=0, device="cpu").fit(labels).labels_)


BAD_ONEHOT = {
    "two clusters": (
        [[1, 1, 1], [0, 1, 1]],
        [0, 2, 3],
        r"`H` must have one 1 at most in each partition, got more in row 0, partition 0\.",
    ),
    "a count": ([[2, 0], [0, 1]], [0, 2], r"`H` must be 1 where a sample is in a cluster, else 0, got 2\."),
    "too few columns": ([[1, 0], [0, 1]], [0, 3], r"`offsets` must be the first column .* then 2 = .*, got \[0, 3\]\."),
    "no last offset": ([[1, 0], [0, 1]], [0], r"`offsets` must be .*, got \[0\]\."),
    "an empty partition": ([[1, 0], [0, 1]], [0, 0, 2], r"`offsets` must be .* rising, got \[0, 0, 2\]\."),
    "an empty row": ([[0, 0], [0, 1]], [0, 2], r"must have a label in every row, got only missing ones in row 0\."),
}


@pytest.mark.parametrize(("H", "offsets", "message"), BAD_ONEHOT.values(), ids=BAD_ONEHOT)
@pytest.mark.parametrize("kind", [np.array, csr_array])
def test_a_bad_onehot_matrix_gets_one_sentence(kind, H, offsets, message):
    with pytest.raises(ValueError, match=message):
        ge.Membership.from_onehot(kind(H), offsets, "cpu")


# --- what is refused


BAD = {
    "sparse": (csr_array(np.eye(3)), TypeError, r"through `Membership.from_onehot` .*, got a sparse csr_array\."),
    "clusterers not fitted": ([KMeans(2), KMeans(2)], TypeError, r"with `labels_`, got KMeans without it at \[0\]\."),
    "one without labels": ([*clusterers(np.eye(2, dtype=int)), "x"], TypeError, r"got str without it at \[2\]\."),
    "clusterers of other samples": (
        [*clusterers(np.ones((3, 1), int)), *clusterers(np.ones((2, 1), int))],
        ValueError,
        r"clusterers of the same samples, got \[3, 2\] labels\.",
    ),
    "columns of other lengths": ({"a": [1, 2], "b": [1]}, ValueError, r"one length, got \{'a': 2, 'b': 1\}\."),
    "Series in another order": (
        {"a": pd.Series([1, 2]), "b": pd.Series([1, 2], [1, 0])},
        ValueError,
        r"columns with the same index, got another one in column 'b'\.",
    ),
    "a number as a column": ({"a": 1}, TypeError, r"must have a vector in each column, got int in column 'a'\."),
    "text as a column": ({"a": "xy"}, TypeError, r"must have a vector in each column, got str in column 'a'\."),
    "a table as a column": (
        {"a": np.eye(2, dtype=int)},
        TypeError,
        r"vector in each column, got ndarray in column 'a'\.",
    ),
    "a list of Series": (
        [pd.Series([1, 2])] * 2,
        TypeError,
        r"columns go into a dict, got a pandas.Series in the list\.",
    ),
    "a list of polars' Series": ([pl.Series([1, 2])], TypeError, r"into a dict, got a polars.Series in the list\."),
    "no columns": ({}, ValueError, "a table of at least one sample x one partition"),
    "a Series of polars": (pl.Series([1, 2]), TypeError, r"must be a table of columns, got a polars.Series: .*\."),
    "a lazy frame": (pl.LazyFrame({"a": [1]}), TypeError, r"got LazyFrame\."),
    "lists in cells": (pl.DataFrame({"a": [[1], [2]]}), TypeError, "must hold hashable values"),
    "fractions": (pl.DataFrame({"a": [0.5, 1.0]}), ValueError, r"got 0.5 in row 0, column 'a'\."),
    "only nulls": (pl.DataFrame({"a": [None, None]}), ValueError, r"got only missing ones in column 'a'\."),
    "Dask": (dask.array.ones((4, 2), chunks=2), TypeError, r"got Dask's Array: give `labels.compute\(\)`\."),
}


@pytest.mark.parametrize(("labels", "error", "message"), BAD.values(), ids=BAD)
def test_other_tables_get_one_sentence(labels, error, message):
    with pytest.raises(error, match=message) as told:
        ge.Membership.from_labels(labels, "cpu")
    assert "\n" not in str(told.value)


# --- Dask without a client


def with_an_empty_part(frame):
    collection = dask.dataframe.from_pandas(frame, npartitions=3)
    return dask.dataframe.concat([collection, collection[collection["a"] < -9], collection])


COLLECTIONS = {
    "DataFrame": lambda labels: dask.dataframe.from_pandas(pd.DataFrame(labels, columns=NAMES), npartitions=3),
    "array": lambda labels: dask.array.from_array(labels, chunks=(17, 2)),
    "array of codes": lambda labels: dask.array.from_array(labels.astype("int8"), chunks=(17, 5)),
    "array of unknown length": lambda labels: COLLECTIONS["DataFrame"](labels).to_dask_array(),
}


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_a_dask_collection_without_a_client_is_computed_part_by_part(kind):
    labels = integers(True)
    one, two = (ge.SEC(3, random_state=0, device="cpu").fit(x) for x in (labels, COLLECTIONS[kind](labels)))
    np.testing.assert_array_equal(two.labels_, one.labels_)
    assert isinstance(two.labels_, np.ndarray)
    with pytest.raises(
        TypeError, match=r"must be in memory here, got Dask's (Array|DataFrame): give `labels.compute\(\)`\."
    ):
        two.predict(COLLECTIONS[kind](labels))


def test_a_vector_of_dask_is_to_be_computed_first():
    y = COLLECTIONS["DataFrame"](integers(False))["a"]
    with pytest.raises(TypeError, match=r"^`y` must be in memory here, got Dask's Series: give `y.compute\(\)`\.$"):
        ge.metrics.ari(y, integers(False)[:, 0])


def test_a_part_without_rows_is_passed_over():
    frame = pd.DataFrame(integers(True), columns=NAMES)
    one, two = (ge.SEC(3, random_state=0).fit(x) for x in (pd.concat([frame, frame]), with_an_empty_part(frame)))
    np.testing.assert_array_equal(two.labels_, one.labels_)
    none = dask.dataframe.from_pandas(frame, npartitions=3)
    with pytest.raises(
        ValueError, match=r"^`labels` must be a table of at least one sample x one partition, got no row\.$"
    ):
        ge.SEC(3).fit(none[none["a"] < -9])


def test_rows_in_a_list_stay_what_they_are_on_their_way_to_workers():
    rows = [["a", float("nan")], ["b", 1], ["a", 2]]
    (read,) = readers.readers(rows)
    assert [values.tolist() for values in coding.scan(read(), 0).values] == [["a", "b"], [1, 2]]
    with pytest.warns(UserWarning, match="a list of 2 arrays, is read as 2 samples x 3 partitions"):
        readers.readers([np.array([0, 1, 1]), np.array([1, 0, 0])])
