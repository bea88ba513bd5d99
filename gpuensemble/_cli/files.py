"""Tables in files hold labels and features on the way in, labels on the way out.

They are CSV, TSV, Parquet, NPY and NPZ files, by the name's ending.
"""

import contextlib
import io
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gpuensemble._array import csr
from gpuensemble._array.devices import Array
from gpuensemble._array.messages import shown
from gpuensemble._cli import text
from gpuensemble._tables.files import UNREADABLE, first_line, whole_file
from gpuensemble._tables.readers import frame_of, load_array

ENDINGS = (".csv", ".tsv", ".parquet", ".npy", ".npz")


class FileTable(NamedTuple):
    """This is a table without its ids; `values` is a DataFrame indexed by ids, an array, or a SciPy sparse matrix."""

    path: str
    values: Any
    ids: Any  # pandas Index, or None
    id_name: str = "id"

    def labels(self, column: str | None = None) -> Any:
        """Return the one column of labels: the named one, else the only one, else the one called `label`."""
        names = [str(name) for name in getattr(self.values, "columns", range(self.values.shape[1]))]
        chosen = column if column is not None else names[0] if len(names) == 1 else "label"
        if chosen not in names:
            raise ValueError(
                f"`{self.path}` must have one column of labels, one called 'label', or one named by a flag, "
                f"got {', '.join(map(repr, names))}{'' if column is None else f' and the flag {column!r}'}."
            )
        at = names.index(chosen)
        return self.values.iloc[:, at] if hasattr(self.values, "iloc") else self.values[:, at]


def read_labels(path: str, id_column: str | None = None, header: bool | None = None) -> FileTable:
    """Read a table of labels: samples x partitions.

    Parameters
    ----------
    path : str
        The file.
    id_column : str, optional
        The name of the column of ids, or its number from 0 if there is no header. By default a column called `id`, or
        without a name, or the first whose entries are text and all different.
    header : bool, optional
        Whether the first line of a text file holds names. By default it does if it looks different from the others.
    """
    table = _read(path, id_column, header, text.labels)
    for name in getattr(table.values, "columns", ()):
        if len(table.values) > 2 and table.values[name].nunique() == len(table.values):
            warnings.warn(
                f"column {name!r} of `{path}` has another label in every row; if it holds ids, name it with --id.",
                stacklevel=2,
            )
    return table


def read_features(
    path: str, id_column: str | None = None, header: bool | None = None, drop: tuple[str, ...] = ()
) -> FileTable:
    """Read a table of numbers: samples x features.

    It is dense, or sparse from an NPZ file as `scipy.sparse.save_npz` writes it. `drop` names columns to leave out; the
    rest is as in `read_labels`. An empty cell is NaN.
    """
    table = _read(path, id_column, header, None)
    if not hasattr(table.values, "columns"):
        if drop:
            raise ValueError(f"`{path}` must have names of columns for --drop, got an array.")
        if table.values.dtype.kind == "U":
            raise ValueError(f"`{path}` must hold numbers, got text.")
        return table
    values = table.values
    for name in drop:
        if name not in values.columns:
            raise ValueError(f"`{path}` must have the column that --drop names, got {name!r}.")
    values = values.drop(columns=list(drop))
    if not values.shape[1]:
        raise ValueError(f"`{path}` must have a column that --drop does not leave out, got none.")
    return table._replace(values=np.column_stack([text.numbers(values[name], name, path) for name in values.columns]))


def joined(views: list[FileTable]) -> tuple[FileTable, list, np.ndarray | None]:
    """Match features of the same samples: rows by their ids if all tables have them, else by their order.

    Return a table for the ids, the matrices, and which sample is in which view, n x views, or None if all are in all. A
    sample that is absent from a view is a row of NaN in it, or an empty one if it is sparse.
    """
    first = views[0]
    if any(view.ids is None for view in views):
        for view in views[1:]:
            if view.values.shape[0] != first.values.shape[0]:
                raise ValueError(
                    f"`{view.path}` must have ids, or as many rows as `{first.path}`, {first.values.shape[0]}, "
                    f"got {view.values.shape[0]}."
                )
        return first, [view.values for view in views], None
    ids = first.ids
    for view in views[1:]:
        ids = ids.append(view.ids.difference(ids, sort=False))
    rows = [view.ids.get_indexer(ids) for view in views]
    present = np.column_stack(rows) >= 0
    matrices = [_rows(view.values, row) for view, row in zip(views, rows, strict=True)]
    return first._replace(ids=ids), matrices, None if present.all() else present


def _rows(matrix: Any, rows: np.ndarray) -> Any:
    """Return the rows of that number; -1 is a row of NaN, or an empty one of a sparse matrix."""
    if isinstance(matrix, np.ndarray):
        return np.where(rows[:, None] >= 0, matrix[rows], np.nan)
    from scipy.sparse import csr_matrix, vstack

    return vstack([matrix, csr_matrix((1, matrix.shape[1]), dtype=matrix.dtype)], format="csr")[rows]


def write(path: str, columns: dict[str, Any], table: FileTable) -> None:
    """Write columns of labels beside the ids of the table that they belong to: whole, or not at all.

    An NPY file holds the columns alone; an NPZ file holds one array for each, and the ids.
    """
    with whole_file(path) as file:
        if path.endswith(".npy"):
            values, content = list(columns.values()), io.BytesIO()
            np.save(content, values[0] if len(values) == 1 else np.column_stack(values))
            file.write(content.getbuffer())  # where NumPy writes to a file itself, it does not notice a full disk
        elif path.endswith(".npz"):
            ids: dict[str, Any] = {} if table.ids is None else {table.id_name: np.asarray(table.ids, str)}
            np.savez(file, **ids, **columns)
        elif path.endswith(".parquet"):
            with _needs_pyarrow(path):
                frame(columns, table).to_parquet(file, index=False)
        else:
            frame(columns, table).to_csv(file, index=False, sep=text.separator(path), mode="wb")


def written(columns: dict[str, Any], table: FileTable, out: str | None) -> dict[str, Any]:
    """Write columns into a file, if one is named; say for a report where they are: there, or in the report itself."""
    ids = {} if table.ids is None else {"ids": table.id_name}
    if out is not None:
        write(out, columns, table)
        return {"out": out} | ids
    return {"table": frame(columns, table)} | ids


def frame(columns: dict[str, Any], table: FileTable) -> Any:
    """Put columns of labels beside the ids of the table that they belong to, as a DataFrame."""
    import pandas

    ids = {} if table.ids is None else {table.id_name: table.ids}
    return pandas.DataFrame({**ids, **columns})


def check_output(path: str | None, endings: tuple[str, ...] = ENDINGS) -> None:
    """Raise, before any work, if a file cannot be written there."""
    if path is None:
        return
    _check_ending(path, endings)
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise ValueError(f"`{path}` must be a file, or nothing yet, got something else.")
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise ValueError(f"`{path}` must be in a folder that is there and can be written to.")


def write_json(path: str, value: Any) -> None:
    """Write JSON, whole or not at all."""
    with whole_file(path) as file:
        file.write(json.dumps(value, indent=1).encode())


def _read(path: str, id_column: str | None, header: bool | None, convert: Any) -> FileTable:
    _check_ending(path, ENDINGS)
    if not Path(path).is_file():
        raise ValueError(f"`{path}` must be a file that is there, got {'a folder' if Path(path).is_dir() else 'none'}.")
    if path.endswith((".npy", ".npz")):
        return _read_arrays(path, id_column)
    frame = _read_parquet(path) if path.endswith(".parquet") else text.read(path, header)
    if not len(frame):
        raise ValueError(f"`{path}` must have at least one row, got none below the header.")
    frame, ids, id_name = _without_ids(frame, path, id_column)
    if not frame.shape[1]:
        raise ValueError(f"`{path}` must have a column beside the ids, got {id_name!r} alone.")
    if convert is not None and not path.endswith(".parquet"):
        frame = frame.apply(convert)
    frame.index = range(len(frame)) if ids is None else ids
    return FileTable(path, frame, ids, id_name)


def _check_ending(path: str, endings: tuple[str, ...]) -> None:
    if not path.endswith(endings):
        raise ValueError(f"`{path}` must end in one of {', '.join(endings)}.")


def _without_ids(frame: Any, path: str, id_column: str | None) -> tuple[Any, Any, str]:
    """Return the table without the column of ids, the ids, and their name."""
    import pandas

    name = id_column
    if name is None:
        name = next((column for column in frame.columns if _names_ids(column)), None)
    if name is None and not isinstance(frame.index, pandas.RangeIndex):
        return frame, _checked_ids(frame.index, path), str(frame.index.name or "id")
    if name is None:
        name = next((column for column in frame.columns if text.holds_ids(frame[column])), None)
        if name is None:
            return frame, None, "id"
    if name not in frame.columns:
        raise ValueError(f"`{path}` must have the column that --id names, got {name!r}.")
    ids = _checked_ids(pandas.Index(frame[name]), path)
    return frame.drop(columns=name), ids, "id" if str(name).isdigit() else str(name) or "id"


def _names_ids(column: Any) -> bool:
    return str(column).strip().lower() in ("id", "")


def _checked_ids(ids: Any, path: str) -> Any:
    if ids.hasnans or (ids == "").any():
        raise ValueError(f"`{path}` must have an id in every row, got none in row {int((ids == '').argmax())}.")
    if not ids.is_unique:
        raise ValueError(f"`{path}` must have every id once, got {ids[ids.duplicated()][0]!r} twice.")
    return ids


def _read_parquet(path: str) -> Any:
    with _needs_pyarrow(path):
        from pyarrow import ArrowException, types
        from pyarrow.parquet import ParquetFile

        try:
            table = ParquetFile(path).read()
            frame = frame_of(table)
        except (ArrowException, *UNREADABLE) as error:
            raise ValueError(f"`{path}` must be a Parquet file: {first_line(error)}.") from None
    nested = next((column for column in table.schema if types.is_nested(column.type)), None)
    if nested is not None:
        raise ValueError(f"`{path}` must hold numbers or text, got {nested.type} in column {nested.name!r}.")
    return frame


@contextlib.contextmanager
def _needs_pyarrow(path: str) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise ValueError(f"`{path}` needs a package that is not there: pip install pyarrow.") from None


def _read_arrays(path: str, id_column: str | None) -> FileTable:
    """Read an NPY file, or the table and the ids of an NPZ file; pickled objects are never loaded."""
    try:
        with Path(path).open("rb") as file:
            loaded = load_array(file)
            arrays = {"": _checked_end(loaded, file)} if path.endswith(".npy") else _checked_members(loaded, file)
    except UNREADABLE:
        rule = f"an {path[-3:].upper()} file of numbers or text (pickled objects are never loaded)"
        raise ValueError(f"`{path}` must be {rule}, got something else.") from None
    id_name = id_column or next((name for name in arrays if name in ("id", "ids")), "id")
    if id_column and id_column not in arrays:
        raise ValueError(f"`{path}` must have the array that --id names, got {id_column!r}.")
    ids = arrays.pop(id_name, None)
    values = _sparse(arrays, path) if {"data", "indices", "indptr", "shape"} <= set(arrays) else _only(arrays, path)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "biufU":
        raise ValueError(
            f"`{path}` must hold a table of numbers or text, got {values.dtype} of shape {tuple(values.shape)}."
        )
    if ids is None:
        return FileTable(path, values, None, id_name)
    if ids.shape != values.shape[:1]:
        raise ValueError(f"`{path}` must have an id for each of {values.shape[0]} rows, got shape {ids.shape}.")
    import pandas

    return FileTable(path, values, _checked_ids(pandas.Index(ids), path), id_name)


def _checked_end(loaded: Any, file: BinaryIO) -> Array:
    """Return the array of a file that ends with it; a damaged shape of fewer rows leaves some."""
    if file.read(1):
        raise ValueError("more follows")
    return loaded


def _checked_members(loaded: Any, file: BinaryIO) -> dict[str, Array]:
    """Return the arrays of an archive, all of them: its end tells their number, which nobody else compares.

    A damaged header may end an array before the checksum, which is at the end.
    """
    file.seek(-min(1 << 16, file.seek(0, os.SEEK_END)), os.SEEK_END)
    end = file.read().rpartition(b"PK\5\6")[2]
    number = int.from_bytes(end[6:8], "little")  # all bits set: it is written elsewhere
    if number not in (len(loaded.files), 0xFFFF) or loaded.zip.testzip() is not None:
        raise ValueError("a member is damaged or lost")
    return {name: loaded[name] for name in loaded.files}


def _only(arrays: dict[str, Array], path: str) -> Array:
    """Return the one array, or the one that is called `labels`, `label` or `X`."""
    name = next((name for name in ("labels", "label", "X") if name in arrays), None)
    if name is None and len(arrays) != 1:
        raise ValueError(
            f"`{path}` must hold one array, or one called labels, label or X, got {', '.join(map(repr, arrays))}."
        )
    return arrays[name] if name is not None else next(iter(arrays.values()))


def _sparse(arrays: dict[str, Array], path: str) -> Any:
    from scipy.sparse import csc_matrix, csr_matrix

    kinds = (("csr", csr_matrix), ("csc", csc_matrix))
    how = arrays.get("format", np.array(None)).tolist()
    kind = next((kind for name, kind in kinds if how in (name, name.encode())), None)
    if kind is None:
        raise ValueError(f"`{path}` must hold a sparse matrix by rows or columns, got format {shown(how)}.")
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    try:
        found = kind(parts, shape=tuple(arrays["shape"].tolist()))
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{path}` must hold a sparse matrix: {str(error).splitlines()[0]}.") from None
    csr.refuse_unsound(found, path)
    return found.tocsr()
