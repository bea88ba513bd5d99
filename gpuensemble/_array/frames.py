"""What a caller may give as a table, a vector or a matrix becomes one of the few kinds that the package works on.

These are arrays of NumPy or CuPy, DataFrames of pandas, lists of rows, sparse matrices, paths and Dask collections. A
library of the caller's is known by the protocols of its objects, and none is imported here but pandas, CuPy for what is
on a GPU, and pyarrow for frames that speak Arrow.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.devices import Array, from_cuda, is_on_cuda, namespace, to_host
from gpuensemble._array.messages import shown

ARROW = ("__arrow_c_stream__", "__arrow_c_array__")
KINDS = "an array, a DataFrame, a dict of columns, a list of rows or of fitted clusterers"


class Names(NamedTuple):
    """These are the caller's names of the table, its rows and its columns: numbers, unless a DataFrame names them."""

    table: str
    rows: Sequence
    columns: Sequence | None  # None: it is a vector

    def place(self, i: int, row: int | None = None) -> str:
        """Say where column i, or a label in it, is: " in row 2, column 1"; a vector has rows only."""
        parts = [] if row is None else [f"row {shown(self.rows[row])}"]
        if self.columns is not None:
            parts.append(f"column {shown(self.columns[i])}")
        return " in " + ", ".join(parts) if parts else ""


def table(labels: Any) -> Any:
    """Return a table of labels as one of the kinds above; what is one already, or is none, is returned itself."""
    if _is_ours(labels):
        return labels
    if isinstance(labels, Mapping):
        return _from_mapping(labels, "labels", column)
    if isinstance(labels, list | tuple):
        return _from_clusterers(labels) if any(map(_is_clusterer, labels)) else labels
    if _speaks_arrow(labels):
        return frame_of(_arrow(labels, "labels"))
    return array(labels)


def features(X: Any, name: str = "X") -> Any:
    """Return a matrix of features as one of the kinds above, as `table` does with labels."""
    if _is_ours(X) or isinstance(X, list | tuple):
        return X
    if isinstance(X, Mapping):
        return _from_mapping(X, name, lambda values: np.asarray(array(values)))
    if not _speaks_arrow(X):
        return array(X)
    is_arrow = hasattr(X, "column_names")  # which may hold the index of a DataFrame as a further column
    return _named_matrix(X) if hasattr(X, "__array__") and not is_arrow else frame_of(_arrow(X, name))


def refuse_another_order(one: Any, name: str, other: Any, other_name: str) -> None:
    """Raise if both have names of their samples, the same ones in another order."""
    if not (hasattr(one, "iloc") and hasattr(other, "iloc")):
        return
    ours, theirs = one.index, other.index
    if len(ours) == len(theirs) and bool(theirs.isin(ours).all()) and bool(ours.isin(theirs).all()):
        row = next((row for row, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]), None)
        if row is not None:
            raise ValueError(
                f"`{name}` must have its samples in the order of `{other_name}`, got {shown(ours[row])} "
                f"instead of {shown(theirs[row])} in row {row}."
            )


def matrices(given: Any, name: str) -> Any:
    """Return a list of matrices of features as `features` returns each; what is no list is returned itself."""
    if not isinstance(given, list | tuple):
        return given
    return [features(X, f"{name}[{i}]") for i, X in enumerate(given)]


def column(values: Any) -> Any:
    """Return a vector of labels as an array or a Series; what is none is returned itself."""
    if isinstance(values, list | tuple):
        return np.fromiter(values, object, len(values))
    if any(hasattr(values, name) for name in ARROW) and not hasattr(values, "iloc"):
        pyarrow = _pyarrow("labels", values)
        chunks = pyarrow.chunked_array(values) if hasattr(values, "__arrow_c_stream__") else pyarrow.array(values)
        return frame_of(pyarrow.table({"labels": chunks}))["labels"]
    return unmasked(array(values))


def array(value: Any) -> Any:
    """Return an object that is an array by a protocol as one of NumPy or CuPy, not copied where that is possible."""
    if _is_ours(value):
        return value
    if is_on_cuda(value):
        return from_cuda(value)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    return _from_dlpack(value) if hasattr(value, "__dlpack__") else value


def frame_of(table: Any) -> Any:
    """Return a table of Arrow as a DataFrame, after a look at its text, which pandas takes on trust.

    Integers with nulls become floats, unless they are so large that two of them might be one.
    """
    import pyarrow.compute

    table.validate(full=True)
    holey = [column for column in table.columns if pyarrow.types.is_integer(column.type) and column.null_count]
    large = any((pyarrow.compute.max(column).as_py() or 0) > 2**53 for column in holey)
    return table.to_pandas(integer_object_nulls=large)


def columns(labels: Any, first: int = 0) -> tuple[list, Names]:
    """Return the columns of a table in memory and the names; rows without a name are numbered from `first`."""
    labels = table(labels)
    _refuse_dask(labels, "labels")
    if hasattr(labels, "iloc") and hasattr(labels, "columns"):
        found = [labels.iloc[:, i] for i in range(labels.shape[1])]
        names = Names("labels", labels.index, labels.columns)
        shape = labels.shape
    elif isinstance(labels, list | tuple):
        found, shape = _from_rows(labels)
        names = Names("labels", range(first, first + shape[0]), range(len(found)))
    elif isinstance(labels, np.ndarray) or namespace(labels) is not np:
        labels = unmasked(labels)
        shape = labels.shape
        found = list(labels.T) if len(shape) == 2 else []
        names = Names("labels", range(first, first + (shape[0] if shape else 0)), range(len(found)))
    elif hasattr(labels, "tocsr"):
        rule = "a dense table, or go through `Membership.from_onehot` with the offsets of its partitions"
        raise TypeError(f"`labels` must be {rule}, got a sparse {type(labels).__name__}.")
    else:
        raise TypeError(f"`labels` must be {KINDS}, got {type(labels).__name__}.")
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"`labels` must be a table of at least one sample x one partition, got shape {tuple(shape)}.")
    return found, names


def vector(labels: Any, name: str) -> tuple[Any, Names]:
    """Return the one column that a vector is, and its names."""
    labels = column(labels)
    _refuse_dask(labels, name)
    if not (isinstance(labels, np.ndarray) or namespace(labels) is not np or hasattr(labels, "iloc")):
        raise TypeError(f"`{name}` must be a NumPy or CuPy array, a Series or a list, got {type(labels).__name__}.")
    if len(labels.shape) != 1 or not len(labels):
        raise ValueError(f"`{name}` must be a vector of at least one label, got shape {tuple(labels.shape)}.")
    return labels, Names(name, getattr(labels, "index", range(len(labels))), None)


def factorized(column: Any) -> tuple[np.ndarray, Any]:
    """Return the codes of the values of a column, -1 for a hole, and the values that differ.

    Where all are text that Python keeps, pandas compares it as C does, to the first NUL: it gets a number beside it.
    """
    import pandas

    is_plain = isinstance(column.dtype, np.dtype) and column.dtype.kind != "O"
    if is_plain or "pyarrow" in repr(column.dtype) or not _has_nul(column):
        return pandas.factorize(column)
    codes, values = pandas.factorize(np.fromiter([*column, 0], object, len(column) + 1))
    return codes[:-1], values[:-1]


def _has_nul(column: Any) -> bool:
    """Tell whether all is text, with a NUL in it."""
    try:
        return "\0" in "".join(column)
    except TypeError:
        return False


def _refuse_dask(value: Any, name: str) -> None:
    if hasattr(value, "to_delayed"):
        raise TypeError(f"`{name}` must be in memory here, got Dask's {type(value).__name__}: give `{name}.compute()`.")


def unmasked(labels: Array) -> Array:
    """Turn a masked array into objects, with None where it is masked; return any other array itself."""
    if isinstance(labels, np.matrix):
        return np.asarray(labels)
    if not isinstance(labels, np.ma.MaskedArray):
        return labels
    masked, labels = np.ma.getmaskarray(labels), labels.data.astype(object)
    labels[masked] = None
    return labels


def _from_rows(rows: list | tuple) -> tuple[list, tuple]:
    """Return the columns of a list of rows as objects: NumPy would turn None or NaN beside a string into text."""
    others = [row for row in rows if not isinstance(row, list | tuple | np.ndarray)]
    if others and hasattr(others[0], "__array__") and not isinstance(others[0], np.generic):
        rule = "a list of rows that are lists, tuples or arrays of NumPy; columns go into a dict"
        raise TypeError(f"`labels` must be {rule}, got {_kind(others[0])} in the list.")
    if others:
        return [], (len(rows),)
    lengths = [len(row) for row in rows]
    for row, length in enumerate(lengths):
        if length != lengths[0]:
            raise ValueError(
                f"`labels` must have rows of one length, got {lengths[0]} labels in row 0 and {length} in row {row}."
            )
    found = [np.fromiter(column, object, len(rows)) for column in zip(*rows, strict=True)]
    return found, (len(rows), len(found))


def warn_of_vectors(labels: Any) -> None:
    """Warn if rows might be partitions: arrays, as clusterers give their labels, that are longer than they are many."""
    if not isinstance(labels, list | tuple) or not all(isinstance(row, np.ndarray) and row.ndim == 1 for row in labels):
        return
    n, r = len(labels), max(map(len, labels), default=0)
    if r > n:
        warnings.warn(
            f"`labels`, a list of {n} arrays, is read as {n} samples x {r} partitions: if each array is a partition of "
            f"{r} samples, give np.column_stack(labels), which is np.array(labels).T.",
            stacklevel=4,
        )


def _is_ours(value: Any) -> bool:
    """Tell whether a value is of a kind that the package works on, lists aside."""
    known = isinstance(value, np.ndarray | str | Path) or namespace(value) is not np
    return known or any(hasattr(value, name) for name in ("iloc", "tocsr", "to_delayed"))


def _from_mapping(given: Mapping, name: str, read: Any) -> Any:
    """Return a dict of columns as a DataFrame; Series must have the same index, by which nothing is sorted."""
    import pandas

    found = [to_host(read(values)) for values in given.values()]
    for key, values in zip(given, found, strict=True):
        if len(getattr(values, "shape", ())) != 1:
            kind = type(given[key]).__name__
            raise TypeError(f"`{name}` must have a vector in each column, got {kind} in column {shown(key)}.")
    lengths = {key: len(values) for key, values in zip(given, found, strict=True)}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"`{name}` must have columns of one length, got {shown(lengths)}.")
    named = {key: values.index for key, values in given.items() if hasattr(values, "iloc")}
    index = next(iter(named.values()), None)
    for key, other in named.items():
        if not other.equals(index):
            raise ValueError(f"`{name}` must have columns with the same index, got another one in column {shown(key)}.")
    columns = {i: getattr(values, "array", values) for i, values in enumerate(found)}
    return pandas.DataFrame(columns, index, copy=False).set_axis(list(given), axis=1)


def _named_matrix(X: Any) -> Any:
    """Return a frame of numbers, such as one of polars, with the names of its columns, without the help of pyarrow."""
    import pandas

    names = getattr(X, "columns", None)
    return array(X) if names is None else pandas.DataFrame(array(X), columns=list(names), copy=False)


def _is_clusterer(value: Any) -> bool:
    return hasattr(value, "labels_") or hasattr(value, "fit_predict")


def _from_clusterers(clusterers: list | tuple) -> Array:
    """Return the labels of fitted clusterers, a column each."""
    for i, one in enumerate(clusterers):
        if not hasattr(one, "labels_"):
            rule = "a list of fitted clusterers with `labels_`"
            raise TypeError(f"`labels` must be {rule}, got {type(one).__name__} without it at [{i}].")
    found = [array(one.labels_) for one in clusterers]
    lengths = [len(labels) for labels in found]
    if len(set(lengths)) > 1:
        raise ValueError(f"`labels` must be clusterers of the same samples, got {shown(lengths)} labels.")
    return namespace(*found).stack(found, axis=1)


def _speaks_arrow(value: Any) -> bool:
    return any(hasattr(value, name) for name in (*ARROW, "__dataframe__"))


def _arrow(value: Any, name: str) -> Any:
    """Return a frame of any library as a table of Arrow."""
    pyarrow = _pyarrow(name, value)
    if not hasattr(value, "__dataframe__") or hasattr(value, "__arrow_c_stream__"):
        try:
            return pyarrow.table(value)
        except (TypeError, ValueError) as error:  # a single column, mostly
            raise TypeError(f"`{name}` must be a table of columns, got {_kind(value)}: {error}.") from None
    from pyarrow.interchange import from_dataframe

    return from_dataframe(value)


def _pyarrow(name: str, value: Any) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"`{name}`, {_kind(value)}, is read by pyarrow: `pip install pyarrow` brings it.") from None
    return pyarrow


def _kind(value: Any) -> str:
    return f"a {type(value).__module__.split('.')[0]}.{type(value).__name__}"


def _from_dlpack(value: Any) -> np.ndarray:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError) as error:
        raise TypeError(
            f"An array by DLPack must be one that NumPy reads, got {type(value).__name__}: {error}."
        ) from None
