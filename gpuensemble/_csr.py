"""A sparse matrix by rows, of either array library: the few things that k-means asks of it."""

from typing import Any, NamedTuple

from gpuensemble import _check
from gpuensemble._array import Array, namespace, to_device


class Csr(NamedTuple):
    """The entries of a sparse matrix by rows, without duplicates; made from a `csr_matrix` of SciPy or CuPy."""

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]

    @property
    def dtype(self) -> Any:
        """The type of the entries."""
        return self.data.dtype

    def rows(self) -> Array:
        """The row of each entry."""
        return _rows_of(self.indptr, 0, len(self.data))

    def dense(self, begin: int, end: int) -> Array:
        """Rows begin .. end - 1 as a dense array."""
        xp = namespace(self.data)
        first, last = int(self.indptr[begin]), int(self.indptr[end])
        row = _rows_of(self.indptr[begin : end + 1], first, last)
        out = xp.zeros((end - begin, self.shape[1]), self.data.dtype)
        out[row, self.indices[first:last]] = self.data[first:last]
        return out

    def take(self, rows: Array) -> "Csr":
        """The named rows, in that order."""
        xp = namespace(self.data)
        begins = self.indptr[rows]
        indptr = _from_zero(xp.cumsum(self.indptr[rows + 1] - begins))
        size = int(indptr[-1])
        row = _rows_of(indptr, 0, size)
        source = begins[row] + xp.arange(size) - indptr[row]
        return Csr(self.data[source], self.indices[source], indptr, (len(rows), self.shape[1]))

    def columns(self, chosen: Array) -> "Csr":
        """The named columns, which are in ascending order."""
        xp = namespace(self.data)
        new = xp.full(self.shape[1], -1)
        new[chosen] = xp.arange(len(chosen))
        indices = new[self.indices]
        kept = indices >= 0
        indptr = _from_zero(xp.cumsum(kept))[self.indptr]
        return Csr(self.data[kept], indices[kept], indptr, (self.shape[0], len(chosen)))


def _rows_of(indptr: Array, first: int, last: int) -> Array:
    """The row of each of the entries first .. last - 1."""
    xp = namespace(indptr)
    return xp.searchsorted(indptr, xp.arange(first, last, dtype=indptr.dtype), side="right") - 1


def _from_zero(ends: Array) -> Array:
    """Ends, with a 0 before them."""
    xp = namespace(ends)
    return xp.concatenate([xp.zeros(1, ends.dtype), ends])


def entries(X: Any) -> Any:
    """What tells the library and device of a matrix, dense or sparse."""
    return X.tocsr().data if hasattr(X, "tocsr") else X.data if isinstance(X, Csr) else X


def matrix(X: Any, name: str, device: str) -> Any:
    """A checked matrix of float32 or float64 on the device: a dense array, or a `Csr` of a sparse one."""
    value = _from_sparse(X, name, device) if hasattr(X, "tocsr") else _check.array(X, name, device, 2)
    if 0 in value.shape:
        raise ValueError(f"`{name}` must have at least one row and one column, got shape {value.shape}.")
    if isinstance(value, Csr):
        _check.finite(value.data, f"{name}.data")
        return value
    value = _floating(value)
    _check.finite(value, name)
    return value


def _from_sparse(X: Any, name: str, device: str) -> Csr:
    """Any sparse matrix of SciPy or CuPy, by rows; the caller's own is left as it is."""
    X = X.tocsr()
    if len(X.shape) != 2:
        raise ValueError(f"`{name}` must have 2 axes, got a sparse array of shape {X.shape}.")
    if X.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold numbers, got dtype {X.dtype}.")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    data, indices, indptr = (to_device(part, device) for part in (X.data, X.indices, X.indptr))
    return Csr(_floating(data), indices, indptr, X.shape)


def _floating(values: Array) -> Array:
    return values if values.dtype.name in _check.FLOATS else values.astype("float64")


def refuse_zero_rows(X: Any, name: str, when: str) -> None:
    """Raise if a row has no entry other than 0."""
    xp = namespace(entries(X))
    if isinstance(X, Csr):
        filled = _from_zero(xp.cumsum(X.data != 0))
        zero = filled[X.indptr[1:]] == filled[X.indptr[:-1]]
    else:
        zero = ~(X != 0).any(1)
    if bool(zero.any()):
        raise ValueError(f"`{name}` must have no row of zeros {when}, got one at row {int(xp.argmax(zero))}.")
