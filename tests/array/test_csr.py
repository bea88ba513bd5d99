"""Sparse matrices that say more than they hold are refused before compiled code follows them."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import gpuensemble as ge
from gpuensemble._array import csr
from support import dealt


def broken(kind, **parts):
    """A sparse matrix whose parts were changed behind SciPy's back."""
    X = sparse.random_array((6, 5), density=0.5, random_state=np.random.default_rng(0)).asformat(kind)
    for name, change in parts.items():
        array = getattr(X, name).copy()
        change(array)
        setattr(X, name, array)
    return X


def put(place, value):
    def change(array):
        array[place] = value

    return change


RISE = "7 pointers that rise from 0 to at most its 15 entries, got "
UNSOUND = {
    "a column beyond the last": ("csr", {"indices": put(3, 5)}, "indices between 0 and 4, got 5."),
    "a negative column": ("csr", {"indices": put(3, -1)}, "indices between 0 and 4, got -1."),
    "a huge column": ("csr", {"indices": put(0, 2**30)}, "indices between 0 and 4, got 1073741824."),
    "a row beyond the last": ("csc", {"indices": put(3, 6)}, "indices between 0 and 5, got 6."),
    "pointers that fall": ("csr", {"indptr": put(2, 0)}, RISE),
    "a negative pointer": ("csr", {"indptr": put(2, -4)}, RISE),
    "a pointer beyond the end": (
        "csr",
        {"indptr": put(-1, 99)},
        RISE,
    ),
    "a late start": (
        "csc",
        {"indptr": put(0, 1)},
        "entries, got 1 to 15.",
    ),
    "a coordinate": ("coo", {"row": put(0, 77)}, "indices between 0 and 5, got 77."),
    "a negative coordinate": ("coo", {"col": put(0, -77)}, "indices between 0 and 4, got -77."),
}


@pytest.mark.parametrize(("kind", "parts", "message"), UNSOUND.values(), ids=UNSOUND)
def test_indices_outside_of_the_matrix_are_refused(kind, parts, message):
    X = broken(kind, **parts)
    for attempt in (
        lambda: ge.generate.random_k(X, 2, (2, 2), device="cpu"),
        lambda: ge.CMVC(2, distance="sqeuclidean", device="cpu").fit([X]),
    ):
        with pytest.raises(ValueError, match="must have ") as error:
            attempt()
        assert message in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_sound_matrices_of_every_kind_pass(kind):
    X = broken(kind)
    found = csr.matrix(X, "X", "cpu")
    np.testing.assert_array_equal(found.dense(0, 6), X.toarray())
    assert isinstance(csr.entries(X), np.ndarray)


def test_widths_that_would_overflow_are_refused():
    with pytest.raises(ValueError, match=r"fewer than 2\*\*31 clusters in all, got 9223372036854775808\."):
        ge.Membership(np.zeros((3, 2), int), [2**62, 2**62])
    with pytest.raises(ValueError, match=r"fewer than 2\*\*31 clusters in all, got 18446744073709551614\."):
        ge.Membership(np.zeros((3, 2), int), np.array([2**63 - 1, 2**63 - 1], "uint64"))


SPARSE_FILES = {
    "a column out of range": {"indices": put(2, 1 << 20)},
    "falling pointers": {"indptr": put(2, 0)},
    "a negative pointer": {"indptr": put(2, -1000)},
}


@pytest.mark.parametrize(("damage", "kind"), dealt(SPARSE_FILES, ["csr", "csc"]))
def test_a_damaged_sparse_file_ends_a_command_with_a_sentence(damage, kind, tmp_path):
    X = broken(kind, **SPARSE_FILES[damage])
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    np.savez(tmp_path / "X.npz", format=np.array(kind.encode()), **arrays)
    command = [sys.executable, "-m", "gpuensemble", "generate", str(tmp_path / "X.npz"), "-r", "2", "-k", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("gpuensemble: `")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_and_norms_of_rows_of_every_kind(dtype):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((30, 7)) < 0.5, rng.standard_normal((30, 7)), 0).astype(dtype)
    labels = rng.integers(0, 4, 30).astype("int32")
    onehot = csr.onehot(labels, 4, dtype)
    for part, rows in ((X, X), (csr.matrix(sparse.csr_array(X), "X", "cpu"), X), (onehot, np.eye(4)[labels])):
        norms = csr.squared_norms(part)
        assert norms.dtype == np.float64
        np.testing.assert_allclose(norms, (rows.astype("float64") ** 2).sum(1), rtol=1e-14)
    factors = np.arange(1.0, 5)
    found = csr.row_sums(onehot, lambda x, rows, columns: x * factors[columns] + 10 * rows)
    np.testing.assert_array_equal(found, factors[labels] + 10 * np.arange(30))
