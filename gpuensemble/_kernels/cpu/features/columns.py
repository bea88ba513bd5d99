"""What k-means wants of a matrix, in one pass on the CPU: some columns of a sparse one, norms, rows of zeros."""

import numpy as np

from gpuensemble._array.csr import Csr
from gpuensemble._kernels.cpu.compiling import kernel


def taken(X: Csr, chosen: np.ndarray) -> Csr:
    """Return the named columns, which are in ascending order, of a sparse matrix."""
    new = np.full(X.shape[1], -1, X.indices.dtype)
    new[chosen] = np.arange(len(chosen), dtype=new.dtype)
    data, indices = np.empty(len(X.data) + 1, X.data.dtype), np.empty(len(X.data) + 1, X.indices.dtype)
    indptr = np.zeros(len(X.indptr), np.int64)
    size = _take(X.data, X.indices, X.indptr, new, data, indices, indptr)
    return Csr(data[:size].copy(), indices[:size].copy(), indptr, (X.shape[0], len(chosen)))


@kernel
def _take(data, indices, indptr, new, out, columns, ends):
    """Write each entry, and go on to the next place if its column is wanted: no branch, which nothing foresees."""
    m = 0
    for x in range(len(indptr) - 1):
        for i in range(indptr[x], indptr[x + 1]):
            out[m], columns[m] = data[i], new[indices[i]]
            m += columns[m] >= 0
        ends[x + 1] = m
    return m


def squared_norms(X: Csr) -> np.ndarray:
    """Sum the squares of each row of a sparse matrix, in float64."""
    out = np.empty(X.shape[0])
    _squared_norms(X.data, X.indptr, out)
    return out


@kernel
def _squared_norms(data, indptr, out):
    for x in range(len(out)):
        total = 0.0
        for i in range(indptr[x], indptr[x + 1]):
            total += np.float64(data[i]) * np.float64(data[i])
        out[x] = total


def zero_rows(X: Csr | np.ndarray) -> np.ndarray:
    """Mark the rows of a matrix, dense or sparse, that have no entry other than 0."""
    out = np.empty(X.shape[0], np.bool_)
    if isinstance(X, Csr):
        _mark_zeros(X.data, X.indptr, out)
    else:
        flat = np.ascontiguousarray(X).reshape(-1)
        _mark_zeros(flat, np.arange(X.shape[0] + 1) * X.shape[1], out)
    return out


@kernel
def _mark_zeros(data, indptr, out):
    for x in range(len(out)):
        i, end = indptr[x], indptr[x + 1]
        while i < end and data[i] == 0:
            i += 1
        out[x] = i == end
