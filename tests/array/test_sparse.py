"""What k-means asks of a sparse matrix, against SciPy and dense arrays."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

from gpuensemble._array import csr
from gpuensemble._array.devices import device_of, namespace, to_host
from support import check


def made(xp, dtype="float64", seed=0, shape=(9, 6)):
    """A matrix with rows that are empty, on a device; and the dense array of it."""
    X = sparse.random_array(shape, density=0.4, random_state=np.random.default_rng(seed), dtype="float64").tocsr()
    X = sparse.vstack([X[:3], sparse.csr_array((1, shape[1])), X[4:-1], sparse.csr_array((1, shape[1]))]).tocsr()
    X = X.astype(dtype)
    return csr.matrix(X, "X", device_of(xp.zeros(1))), X.toarray()


def dense_of(found):
    return to_host(found.dense(0, found.shape[0]))


def test_parts_of_a_matrix_are_those_of_the_dense_one(xp):
    found, dense = made(xp)
    assert found.dtype == "float64"
    assert namespace(found.data) is xp
    np.testing.assert_array_equal(dense_of(found), dense)
    np.testing.assert_array_equal(to_host(found.rows()), np.nonzero(dense)[0])
    for begin, end in ((0, 1), (2, 5), (3, 4), (4, 4), (8, 9)):
        np.testing.assert_array_equal(to_host(found.dense(begin, end)), dense[begin:end])
        np.testing.assert_array_equal(to_host(csr.dense(found, begin, end)), dense[begin:end])
        np.testing.assert_array_equal(to_host(csr.dense(xp.asarray(dense), begin, end)), dense[begin:end])
    rows = [5, 0, 8, 5, 3]
    taken = found.take(xp.asarray(rows))
    assert taken.shape == (5, 6)
    np.testing.assert_array_equal(dense_of(taken), dense[rows])
    for chosen in ([0, 1, 5], [3], [0, 1, 2, 3, 4, 5]):
        for X in (found, xp.asarray(dense)):
            part = csr.columns(X, xp.asarray(chosen))
            assert part.shape == (9, len(chosen))
            np.testing.assert_array_equal(dense_of(part) if X is found else to_host(part), dense[:, chosen])
    marked = np.arange(9) % 3 == 1
    np.testing.assert_array_equal(dense_of(found.blank(xp.asarray(marked))), np.where(marked[:, None], 0, dense))


def test_a_one_hot_matrix_has_a_row_for_each_label(xp):
    labels = np.array([2, 0, 0, 3], "int32")
    found = csr.onehot(xp.asarray(labels), 5, "float32")
    assert isinstance(found, csr.OneHot)
    assert found.dtype == "float32"
    np.testing.assert_array_equal(dense_of(found), np.eye(5, dtype="float32")[labels])


def test_rows_of_zeros_are_found_also_where_zeros_are_stored(xp):
    found, dense = made(xp)
    stored = found._replace(data=found.data.copy())
    row = int(np.flatnonzero(dense.any(1))[0])
    stored.data[stored.rows() == row] = 0
    dense[row] = 0
    for X in (stored, xp.asarray(dense)):
        np.testing.assert_array_equal(to_host(csr.zero_rows(X)), ~dense.any(1))


def test_the_first_bad_entry_is_named_by_row_and_column(xp):
    found, dense = made(xp)
    for row, column in zip(*np.nonzero(dense), strict=True):
        at = dense[row, column]
        assert csr.first_place(found, found.data == at) == (row, column)
        assert csr.first_place(xp.asarray(dense), xp.asarray(dense == at)) == (row, column)
    assert csr.first_place(xp.asarray(dense), xp.asarray(dense > 0)) == tuple(np.argwhere(dense > 0)[0])
    assert csr.first_place(found, found.data > 0) == tuple(np.argwhere(dense > 0)[0])


@pytest.mark.parametrize("cache", [1, 13, 1 << 17])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_over_rows_are_in_float64(xp, dtype, cache, monkeypatch):
    monkeypatch.setattr(csr, "IN_CACHE", cache)
    found, dense = made(xp, dtype)
    of_row, of_column = np.arange(9.0) + 1, np.arange(6.0) + 2

    def term(entries, rows, columns):
        weight = xp.asarray(of_row)[rows]
        return entries**2 * (weight[:, None] if isinstance(rows, slice) else weight) * xp.asarray(of_column)[columns]

    expected = (dense.astype("float64") ** 2 * of_row[:, None] * of_column).sum(1)
    for X in (found, xp.asarray(dense)):
        sums = csr.row_sums(X, term)
        assert sums.dtype == "float64"
        np.testing.assert_allclose(to_host(sums), expected, rtol=1e-14)


def test_sums_of_dense_rows_are_made_in_parts_that_fit_into_a_cache(monkeypatch):
    _, dense = made(np)
    parts = []
    monkeypatch.setattr(csr, "IN_CACHE", 13)
    csr.row_sums(dense, lambda entries, rows, columns: parts.append(entries.size) or entries)
    assert parts == [12, 12, 12, 12, 6]


@pytest.mark.parametrize("cache", [1, 13, 1 << 17])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_over_columns_are_in_float64(xp, dtype, cache, monkeypatch):
    monkeypatch.setattr(csr, "IN_CACHE", cache)
    found, dense = made(xp, dtype)
    for X in (found, xp.asarray(dense)):
        check(csr.column_sums(X), dense.sum(0, dtype="float64"), xp)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("squared", "norm"), [(False, "l1"), (True, "l2")])
def test_scaled_rows_have_size_one_and_rows_of_zeros_stay(xp, dtype, squared, norm):
    found, dense = made(xp, dtype)
    found, dense = found._replace(data=-found.data), -dense
    expected = normalize(dense.astype("float64"), norm).astype(dtype)
    assert not expected.any(1).all()
    check(csr.scaled(xp.asarray(dense), squared), expected, xp)
    check(csr.scaled(found, squared).dense(0, 9), expected, xp)


@pytest.mark.parametrize(("dtype", "small"), [("float32", 1e-30), ("float64", 1e-200)])
def test_rows_whose_squares_are_no_numbers_are_scaled_too(xp, dtype, small):
    X = np.array([[3 * small, 4 * small], [1 / small, 0], [1, 1]], dtype)
    expected = np.array([[0.6, 0.8], [1, 0], [0.5**0.5, 0.5**0.5]], dtype)
    check(csr.scaled(xp.asarray(X), True), expected, xp)


KINDS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind_become_floats(kind):
    dense = np.array([[0, 3, 0, 1], [2, 0, 0, 0]])
    for dtype, expected in (("int8", "float64"), ("bool", "float64"), ("float32", "float32"), ("float64", "float64")):
        X = sparse.coo_array(dense.astype(dtype)).asformat(kind)
        found = csr.matrix(X, "X", "cpu")
        assert found.dtype == expected
        np.testing.assert_array_equal(dense_of(found), dense.astype(dtype).astype(expected))
        assert csr.matrix(dense.astype(dtype), "X", "cpu").dtype == expected
    X = sparse.coo_array(dense.astype(complex)).asformat(kind)
    with pytest.raises(TypeError, match=r"^`X` must hold numbers, got dtype complex128\.$"):
        csr.matrix(X, "X", "cpu")


def test_the_entries_tell_library_and_device():
    X = sparse.csr_array(np.eye(3))
    assert csr.entries(X) is X.data
    assert csr.entries(X.tolil()).shape == (0,)
    assert csr.entries(csr.matrix(X, "X", "cpu")).tolist() == [1, 1, 1]
    dense = np.eye(2)
    assert csr.entries(dense) is dense


def test_duplicates_are_added_up_and_the_callers_matrix_stays():
    X = sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    np.testing.assert_array_equal(dense_of(csr.matrix(X, "X", "cpu")), [[0, 3], [4, 0]])
    assert X.data.tolist() == [1, 2, 4]


def entries_given(kind, **parts):
    X = sparse.csr_array(np.arange(12.0).reshape(4, 3) % 5).asformat(kind)
    for name, value in parts.items():
        setattr(X, name, np.asarray(value))
    return X


RISE = "`X` must have 5 pointers that rise from 0 to at most its 9 entries, got "
UNSOUND = {
    "pointers of floats": ("csr", {"indptr": [0.0, 2, 5, 8, 9]}, RISE + r"float64 of shape \(5,\)\."),
    "too few pointers": ("csr", {"indptr": [0, 2, 5, 9]}, RISE + r"int64 of shape \(4,\)\."),
    "falling pointers": ("csr", {"indptr": [0, 5, 2, 8, 9]}, RISE + r"0 to 9, not always rising\."),
    "a late start": ("csr", {"indptr": [1, 2, 5, 8, 9]}, RISE + r"1 to 9\."),
    "beyond the end": ("csr", {"indptr": [0, 2, 5, 8, 10]}, RISE + r"0 to 10\."),
    "fewer values than indices": ("csr", {"data": np.ones(8)}, "at most its 8 entries, got 0 to 9"),
    "fewer indices than values": ("csr", {"indices": np.zeros(8, int)}, "at most its 8 entries, got 0 to 9"),
    "indices of floats": ("csr", {"indices": np.zeros(9)}, r"integers for indices, got float64 of shape \(9,\)\."),
    "indices in two axes": ("csr", {"indices": np.zeros((9, 1), int)}, r"integers for indices, got int64 of shape"),
    "a column": ("csr", {"indices": [0, 1, 2, 0, 1, 2, 0, 1, 3]}, r"indices between 0 and 2, got 3\."),
    "a negative column": ("csr", {"indices": [0, 1, 2, 0, 1, 2, 9, 1, -1]}, r"indices between 0 and 2, got -1\."),
    "a row among coordinates": ("coo", {"row": [0, 0, 1, 1, 1, 2, 2, 3, 4]}, r"indices between 0 and 3, got 4\."),
    "a column among coordinates": ("coo", {"col": [0, 0, 1, 1, 1, 2, 2, 3, 2]}, r"indices between 0 and 2, got 3\."),
    "fewer coordinates": ("coo", {"data": np.ones(8)}, r"a row and a column for each of its 8 entries\."),
}


@pytest.mark.parametrize(("kind", "parts", "message"), UNSOUND.values(), ids=UNSOUND)
def test_parts_that_do_not_fit_together_are_refused(kind, parts, message):
    with pytest.raises(ValueError, match=message):
        csr.refuse_unsound(entries_given(kind, **parts), "X")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (2, 2)])
def test_sound_parts_pass_up_to_the_last_row_and_column(kind, shape):
    X = sparse.csr_array(np.ones(shape))
    X = X.tobsr((2, 2)) if kind == "bsr" else X.asformat(kind)
    csr.refuse_unsound(X, "X")
    np.testing.assert_array_equal(dense_of(csr.matrix(X, "X", "cpu")), np.ones(shape))
    csr.refuse_unsound(sparse.csr_array((3, 3)).asformat(kind), "X")


def test_a_block_matrix_counts_its_indices_in_blocks():
    X = sparse.csr_array(np.ones((4, 6))).tobsr((2, 3))
    X.indices = np.array([0, 2, 0, 1])
    with pytest.raises(ValueError, match=r"indices between 0 and 1, got 2\."):
        csr.refuse_unsound(X, "X")


BAD = {
    "one axis": (sparse.coo_array(np.ones(2)), r"`X` must have 2 axes, got a sparse array of shape"),
    "no row": (sparse.csr_array((0, 3)), r"at least one row and one column, got shape \(0, 3\)\."),
    "no column": (np.zeros((3, 0)), r"at least one row and one column, got shape \(3, 0\)\."),
    "nan in sparse": (sparse.csr_array([[1.0, np.nan]]), r"`X\.data` must be finite, got nan"),
    "inf in dense": (np.array([[1.0, np.inf]]), r"`X` must be finite, got inf"),
}


@pytest.mark.parametrize(("X", "message"), BAD.values(), ids=BAD)
def test_bad_matrices_get_one_sentence(X, message):
    with pytest.raises(ValueError, match=message):
        csr.matrix(X, "X", "cpu")


def test_what_is_not_finite_may_pass_unchecked():
    assert np.isnan(csr.unchecked(np.array([[1.0, np.nan]]), "X", "cpu")[0, 1])
    assert np.isnan(csr.unchecked(sparse.csr_array([[1.0, np.nan]]), "X", "cpu").data[1])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_rows_that_no_distance_can_measure_are_named(kind):
    X = csr.matrix(kind(np.array([[1.0, 0], [0, 0], [2, -3]])), "X", "cpu")
    with pytest.raises(ValueError, match=r"negative with the kl distance, got -3 in row 2, column 1\.$"):
        csr.refuse_unfit(X, "X", "kl")
    with pytest.raises(ValueError, match=r"negative with the kl distance, got -3 in row 'c', column 1\.$"):
        csr.refuse_unfit(X, "X", "kl", rows=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"no row of zeros with the cosine distance, got one at row 1\.$"):
        csr.refuse_unfit(X, "X", "cosine")
    csr.refuse_unfit(X, "X", "sqeuclidean")
    csr.refuse_unfit(X, "X", "cosine", present=np.array([True, False, True]))
    with pytest.raises(ValueError, match="got one at row 1"):
        csr.refuse_unfit(X, "X", "cosine", present=np.array([False, True, False]))
