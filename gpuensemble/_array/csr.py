"""This module has a sparse matrix by rows, of either array library, and the few things that k-means asks of it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.devices import Array, device_of, memory, namespace, to_device
from gpuensemble._array.messages import shown
from gpuensemble._array.threads import spans

# Squares of features of this size, and of 1 over it, are numbers, and so are sums of many of them.
LARGEST = {"float32": 1e15, "float64": 1e140}
IN_CACHE = 1 << 17  # entries whose float64 copy stays in a cache
COPIES = 64  # of a block of rows of a device: what is made dense takes a small share of its free memory


class Csr(NamedTuple):
    """A `Csr` holds the entries of a sparse matrix of SciPy or CuPy by rows, without duplicates."""

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]

    @property
    def dtype(self) -> Any:
        """Return the type of the entries."""
        return self.data.dtype

    def rows(self) -> Array:
        """Return the row of each entry."""
        if device_of(self.data) == "cpu":
            xp = namespace(self.data)
            return xp.repeat(xp.arange(self.shape[0]), xp.diff(self.indptr))
        return _rows_of(self.indptr, 0, len(self.data))

    def dense(self, begin: int, end: int) -> Array:
        """Return rows begin .. end - 1 as a dense array."""
        xp = namespace(self.data)
        first, last = int(self.indptr[begin]), int(self.indptr[end])
        row = _rows_of(self.indptr[begin : end + 1], first, last)
        out = xp.zeros((end - begin, self.shape[1]), self.data.dtype)
        out[row, self.indices[first:last]] = self.data[first:last]
        return out

    def take(self, rows: Array) -> "Csr":
        """Return the named rows, in that order."""
        xp = namespace(self.data)
        begins = self.indptr[rows]
        indptr = _from_zero(xp.cumsum(self.indptr[rows + 1] - begins))
        size = int(indptr[-1])
        row = _rows_of(indptr, 0, size)
        source = begins[row] + xp.arange(size) - indptr[row]
        return Csr(self.data[source], self.indices[source], indptr, (len(rows), self.shape[1]))

    def columns(self, chosen: Array) -> "Csr":
        """Return the named columns, which are in ascending order."""
        xp = namespace(self.data)
        new = xp.full(self.shape[1], -1, self.indices.dtype)
        new[chosen] = xp.arange(len(chosen), dtype=new.dtype)
        indices = new[self.indices]
        return self._replace(indices=indices, shape=(self.shape[0], len(chosen)))._keep(indices >= 0)

    def blank(self, rows: Array) -> "Csr":
        """Return the matrix with zeros in the rows that are marked."""
        return self._keep(~rows[self.rows()])

    def _keep(self, kept: Array) -> "Csr":
        """Return the matrix with the marked entries alone."""
        xp = namespace(kept)
        places = xp.nonzero(kept)[0]
        return Csr(self.data[places], self.indices[places], xp.searchsorted(places, self.indptr), self.shape)


class OneHot(Csr):
    """Each row of this matrix has a single 1; `indices` are the labels that the rows stand for."""


def onehot(labels: Array, n_labels: int, dtype: Any) -> OneHot:
    """Make a row for each label, 0 .. n_labels - 1, with a single 1 in the column of the label."""
    xp = namespace(labels)
    return OneHot(xp.ones(len(labels), dtype), labels, xp.arange(len(labels) + 1), (len(labels), n_labels))


def _rows_of(indptr: Array, first: int, last: int) -> Array:
    """Return the row of each of the entries first .. last - 1."""
    xp = namespace(indptr)
    return xp.searchsorted(indptr, xp.arange(first, last, dtype=indptr.dtype), side="right") - 1


def _from_zero(ends: Array) -> Array:
    """Put a 0 before the ends."""
    xp = namespace(ends)
    return xp.concatenate([xp.zeros(1, ends.dtype), ends])


def entries(X: Any) -> Any:
    """Return the array of a matrix, dense or sparse, that tells its library and device: the stored entries."""
    if hasattr(X, "tocsr"):
        return X.data if X.format in ("csr", "csc", "bsr", "coo", "dia") else np.empty(0)
    return X.data if isinstance(X, Csr) else X


def matrix(X: Any, name: str, device: str) -> Any:
    """Return a checked matrix of float32 or float64 on the device: a dense array, or a `Csr` of a sparse one."""
    value = unchecked(X, name, device)
    checks.finite(entries(value), f"{name}.data" if isinstance(value, Csr) else name)
    return value


def unchecked(X: Any, name: str, device: str) -> Any:
    """Do as `matrix` does, but let entries pass that are not finite."""
    value = _from_sparse(X, name, device) if hasattr(X, "tocsr") else checks.array(X, name, device, 2)
    if 0 in value.shape:
        raise ValueError(f"`{name}` must have at least one row and one column, got shape {value.shape}.")
    return value if isinstance(value, Csr) else _floating(value)


def _from_sparse(X: Any, name: str, device: str) -> Csr:
    """Read any sparse matrix of SciPy or CuPy by rows; the caller's own is left as it is."""
    if len(X.shape) != 2:
        raise ValueError(f"`{name}` must have 2 axes, got a sparse array of shape {X.shape}.")
    refuse_unsound(X, name)
    X = X.tocsr()
    refuse_unsound(X, name)
    if X.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold numbers, got dtype {X.dtype}.")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    data, indices, indptr = (to_device(part, device) for part in (X.data, X.indices, X.indptr))
    return Csr(_floating(data), indices, indptr, X.shape)


def refuse_unsound(X: Any, name: str) -> None:
    """Raise if an index of a sparse matrix of SciPy or CuPy lies outside of it: compiled code would follow it."""
    if X.format in ("csr", "csc", "bsr"):
        major, minor = X.shape if X.format != "csc" else X.shape[::-1]
        if X.format == "bsr":
            major, minor = major // X.blocksize[0], minor // X.blocksize[1]
        _refuse_pointers(X.indptr, major, min(len(X.indices), len(X.data)), name)
        _refuse_indices(X.indices, minor, name)
    elif X.format == "coo":
        for index, size in zip((X.row, X.col), X.shape, strict=True):
            _refuse_indices(index, size, name)
        if not len(X.row) == len(X.col) == len(X.data):
            raise ValueError(f"`{name}` must have a row and a column for each of its {len(X.data)} entries.")


def _refuse_pointers(indptr: Array, n: int, n_entries: int, name: str) -> None:
    rule = f"{n + 1} pointers that rise from 0 to at most its {n_entries} entries"
    if indptr.dtype.kind not in "iu" or indptr.shape != (n + 1,):
        raise ValueError(f"`{name}` must have {rule}, got {indptr.dtype} of shape {indptr.shape}.")
    low, high, rises = int(indptr[0]), int(indptr[-1]), bool((indptr[1:] >= indptr[:-1]).all())
    if low != 0 or high > n_entries or not rises:
        how = "" if rises else ", not always rising"
        raise ValueError(f"`{name}` must have {rule}, got {low} to {high}{how}.")


def _refuse_indices(indices: Array, size: int, name: str) -> None:
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise ValueError(f"`{name}` must have integers for indices, got {indices.dtype} of shape {indices.shape}.")
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= size):
        worst = int(indices.min()) if int(indices.min()) < 0 else int(indices.max())
        raise ValueError(f"`{name}` must have indices between 0 and {size - 1}, got {worst}.")


def _floating(values: Array) -> Array:
    return values if values.dtype.name in checks.FLOATS else values.astype("float64")


def columns(X: Any, chosen: Array, out: Array | None = None) -> Any:
    """Return the named columns, which are in ascending order, of a dense array or a `Csr`; `out` has room for them."""
    if isinstance(X, Csr):
        return X.columns(chosen)
    if out is None:
        return namespace(X).take(X, chosen, axis=1)  # by rows, unlike X[:, chosen]
    return np.take(X, chosen, axis=1, out=out, mode="clip")  # no column is beyond the last: to look would take a copy


def cast(X: Any, dtype: Any) -> Any:
    """Return a dense array or a `Csr` with numbers of a type."""
    if isinstance(X, Csr):
        return X._replace(data=X.data.astype(dtype, copy=False))
    return X.astype(dtype, copy=False)


def moved(X: Any, device: str) -> Any:
    """Return a dense array or a `Csr` on a device."""
    if isinstance(X, Csr):
        data, indices, indptr = (to_device(part, device) for part in X[:3])
        return Csr(data, indices, indptr, X.shape)
    return to_device(X, device)


def some_rows(X: Any, rows: Any) -> Any:
    """Return the rows of a dense array or a `Csr` that an array or a slice names."""
    if not isinstance(X, Csr):
        return X[rows]
    return X.take(namespace(X.data).arange(rows.start, rows.stop) if isinstance(rows, slice) else rows)


def zero_rows(X: Any) -> Array:
    """Mark the rows that have no entry other than 0."""
    if not isinstance(X, Csr):
        return ~(X != 0).any(1)
    filled = _from_zero(namespace(X.data).cumsum(X.data != 0))
    return filled[X.indptr[1:]] == filled[X.indptr[:-1]]


def first_place(X: Any, bad: Array) -> tuple[int, int]:
    """Return row and column of the first of the entries that are marked."""
    if not isinstance(X, Csr):
        row, column = (int(index[0]) for index in namespace(bad).nonzero(bad))
        return row, column
    i = int(bad.argmax())
    return int((X.indptr <= i).sum()) - 1, int(X.indices[i])


def refuse_unfit(
    X: Any,
    name: str,
    distance: str,
    rows: Sequence | None = None,
    present: Array | None = None,
    dtype: str | None = None,
) -> None:
    """Raise if a row cannot be measured: it is too large, or all zero, or negative for "kl".

    `rows` are the names of rows, `dtype` is what distances are measured in, where X comes in another one.
    """
    values, rows = entries(X), range(X.shape[0]) if rows is None else rows
    _refuse_size(X, values, name, rows, LARGEST[dtype or values.dtype.name])
    if distance == "kl" and bool((values < 0).any()):
        row, column = first_place(X, values < 0)
        place = f"row {shown(rows[row])}, column {column}"
        value = float(values[values < 0][0])
        raise ValueError(f"`{name}` must not be negative with the kl distance, got {value:g} in {place}.")
    zero = zero_rows(X) if present is None else zero_rows(X) & present
    if distance != "sqeuclidean" and bool(zero.any()):
        place = f"row {shown(rows[int(zero.argmax())])}"
        raise ValueError(f"`{name}` must have no row of zeros with the {distance} distance, got one at {place}.")


def is_finite(values: Array) -> bool:
    """Tell whether all numbers are finite: no maximum hides NaN."""
    xp = namespace(values)
    return not values.size or bool(xp.isfinite(values.max()) & xp.isfinite(values.min()))


def _refuse_size(X: Any, values: Array, name: str, rows: Sequence, limit: float) -> None:
    """Raise if the largest entry is one whose square is infinite, or lost among the smallest numbers."""
    high, low = (float(values.max()), float(values.min())) if values.size else (0.0, 0.0)
    size = max(high, -low)
    if size and not 1 / limit <= size <= limit:
        largest = high if high == size else low
        row, column = first_place(X, values == largest)
        rule = f"must have a largest entry of 0, or between {1 / limit:g} and {limit:g} in size"
        raise ValueError(f"`{name}` {rule}, got {largest:g} in row {shown(rows[row])}, column {column}.")


def dense(X: Any, begin: int = 0, end: int | None = None) -> Array:
    """Return rows begin .. end - 1, by default all, as a dense array."""
    end = X.shape[0] if end is None else end
    return X.dense(begin, end) if isinstance(X, Csr) else X[begin:end]


def scaled(X: Any, squared: bool) -> Any:
    """Scale rows so that their entries, or the squares of them, are 1 in all; a row of zeros stays what it is."""
    X = _divided(X, row_sums(X, lambda x, *_: abs(x)))  # in any case, as the squares of a small row may all be 0
    return _divided(X, row_sums(X, lambda x, *_: x * x) ** 0.5) if squared else X


def _divided(X: Any, size: Array) -> Any:
    """Divide rows by their sizes, where these are not 0."""
    size = namespace(size).where(size > 0, size, 1).astype(X.dtype)
    return X._replace(data=X.data / size[X.rows()]) if isinstance(X, Csr) else X / size[:, None]


def squared_norms(part: Any) -> Array:
    """Sum the squares of each row, in float64."""
    if isinstance(part, Csr) or device_of(part) != "cpu":
        return row_sums(part, lambda x, *_: x * x)
    return np.einsum("ij,ij->i", part, part, dtype="float64")


def column_sums(part: Any) -> Array:
    """Sum the columns, in float64."""
    xp = namespace(entries(part))
    if isinstance(part, Csr) and device_of(part.data) == "cpu":
        return xp.bincount(part.indices, part.data, part.shape[1])
    out = xp.zeros(part.shape[1])
    for some in _row_blocks(part):
        out += dense(part, some.start, some.stop).sum(0, dtype="float64")
    return out


def row_sums(part: Any, term: Callable[[Array, Any, Any], Array]) -> Array:
    """Sum term(entries, their rows, their columns), which is 0 for an entry of 0, over each row, in float64."""
    if isinstance(part, OneHot):
        return term(part.data.astype("float64"), namespace(part.data).arange(part.shape[0]), part.indices)
    if isinstance(part, Csr) and device_of(part.data) == "cpu":
        row = part.rows()
        terms = term(part.data.astype("float64", copy=False), row, part.indices)
        return namespace(part.data).bincount(row, terms, part.shape[0])
    out = namespace(part.data if isinstance(part, Csr) else part).empty(part.shape[0])
    for some in _row_blocks(part):
        entries_of = dense(part, some.start, some.stop).astype("float64", copy=False)
        out[some] = term(entries_of, some, slice(None)).sum(1)
    return out


def _row_blocks(part: Any) -> list[slice]:
    """Cut the rows into blocks that stay in a cache of the CPU; on a device a launch is to have many of them."""
    device = device_of(entries(part))
    n_entries = IN_CACHE if device == "cpu" else max(IN_CACHE, (memory(device) or 0) // (8 * COPIES))
    return spans(part.shape[0], max(1, n_entries // part.shape[1]))
