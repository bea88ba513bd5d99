"""Tables in files hold labels and features on the way in, labels on the way out.

They are text (CSV, TSV and TXT, packed or not), Parquet, NPY and NPZ files, by the name's ending.
"""

import contextlib
import io
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from gpuensemble._cli.tables import arrays, packed, recognition, text
from gpuensemble._tables.files import UNREADABLE, first_line, whole_file
from gpuensemble._tables.readers import frame_of

TEXT = tuple(f".{kind}{packing}" for packing in packed.PACKINGS for kind in ("csv", "tsv", "txt"))
ENDINGS = (*TEXT, ".parquet", ".npy", ".npz")


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


def read_labels(
    path: str,
    id_column: str | Literal[False] | None = None,
    header: bool | None = None,
    sep: str | None = None,
    drop: tuple[str, ...] = (),
) -> FileTable:
    """Read a table of labels: samples x partitions; say on stderr what it was taken for.

    Parameters
    ----------
    path : str
        The file, `-` for text on stdin.
    id_column : str or False, optional
        The name of the column of ids, or its number from 0; False if there is none. By default it is told by evidence:
        its name, or entries of text that are all different.
    header : bool, optional
        Whether the first line of a text file holds names. By default it is told by evidence.
    sep : str, optional
        The separator of a text file. By default it is told by the file's ending, or else by evidence.
    drop : tuple of str
        Columns to leave out.
    """
    table = _read(_Request(path, True, id_column, header, sep, drop))
    for name in getattr(table.values, "columns", ()) if id_column is not False else ():
        if len(table.values) > 2 and table.values[name].nunique() == len(table.values):
            warnings.warn(
                f"column {name!r} of `{path}` has another label in every row; if it holds ids, name it with --id.",
                stacklevel=2,
            )
    return table


def read_features(
    path: str,
    id_column: str | Literal[False] | None = None,
    header: bool | None = None,
    drop: tuple[str, ...] = (),
    sep: str | None = None,
) -> FileTable:
    """Read a table of numbers: samples x features.

    It is dense, or sparse from an NPZ file as `scipy.sparse.save_npz` writes it. The parameters are as in
    `read_labels`. An empty cell is NaN.
    """
    table = _read(_Request(path, False, id_column, header, sep, drop))
    if not hasattr(table.values, "columns"):
        if table.values.dtype.kind == "U":
            raise ValueError(f"`{path}` must hold numbers, got text.")
        return table
    values = table.values
    return table._replace(values=np.column_stack([text.numbers(values[name], name, path) for name in values.columns]))


def joined(views: list[FileTable]) -> tuple[FileTable, list, np.ndarray | None]:
    """Match features of the same samples: rows by their ids if all tables have them, by their order if none has.

    Return a table for the ids, the matrices, and which sample is in which view, n x views, or None if all are in all. A
    sample that is absent from a view is a row of NaN in it, or an empty one if it is sparse.
    """
    first = views[0]
    if any(view.ids is None for view in views):
        refuse_some_ids(views)
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


def refuse_some_ids(tables: list[FileTable]) -> None:
    """Raise if some tables have ids and others do not: nobody knows whether their rows are in the same order."""
    without = next((table.path for table in tables if table.ids is None), None)
    having = next((table.path for table in tables if table.ids is not None), None)
    if without is not None and having is not None:
        raise ValueError(
            f"`{without}` must have ids, as `{having}` has, got none; "
            "--id says which column holds them, --no-ids that no column does."
        )


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
            separator = "," if packed.bare(path).endswith(".csv") else "\t"
            file.write(packed.pack(path, frame(columns, table).to_csv(index=False, sep=separator).encode()))


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
    packed.check(path)
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise ValueError(f"`{path}` must be a file, or nothing yet, got something else.")
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise ValueError(f"`{path}` must be in a folder that is there and can be written to.")


def write_json(path: str, value: Any) -> None:
    """Write JSON, whole or not at all."""
    with whole_file(path) as file:
        file.write(json.dumps(value, indent=1).encode())


class _Request(NamedTuple):
    """This is what the caller says of a file; the parameters are those of `read_labels`."""

    path: str
    of_labels: bool
    id_column: str | Literal[False] | None
    header: bool | None
    sep: str | None
    drop: tuple[str, ...]


def _read(asked: _Request) -> FileTable:
    """Read a table, and say on stderr what it was taken for."""
    path = asked.path
    if path != "-":
        _check_ending(path, ENDINGS)
        if not Path(path).is_file():
            kind = "a folder" if Path(path).is_dir() else "none"
            raise ValueError(f"`{path}` must be a file that is there, got {kind}.")
    table, said = _of_arrays(asked) if path.endswith((".npy", ".npz")) else _of_frame(asked)
    size = "{} samples x {} ".format(*table.values.shape) + ("partitions" if asked.of_labels else "features")
    print(f"gpuensemble: {path}: {', '.join([size, *said])}", file=sys.stderr)
    return table


def _of_arrays(asked: _Request) -> tuple[FileTable, list[str]]:
    """Return a table of NPY or NPZ, and what is to be said of it."""
    import pandas

    path = asked.path
    if asked.drop:
        raise ValueError(f"`{path}` must have names of columns for --drop, got an array.")
    values, ids, name = arrays.read(path, asked.id_column)
    if ids is None:
        return FileTable(path, values, None, name), ["no ids"]
    return FileTable(path, values, recognition.checked_ids(pandas.Index(ids), path), name), [f"ids in array {name!r}"]


def _of_frame(asked: _Request) -> tuple[FileTable, list[str]]:
    """Return a table of text or Parquet, and what is to be said of it."""
    path, parquet = asked.path, asked.path.endswith(".parquet")
    frame, named = (_read_parquet(path), True) if parquet else _read_text(asked)
    if not len(frame):
        raise ValueError(f"`{path}` must have at least one row, got none below the header.")
    frame = _without(frame, asked.drop, path)
    at = _place_of_ids(frame, named, asked)
    ids = _ids_at(frame, at, asked)
    numbered = [i for i in recognition.row_numbers(frame, named) if i != at]
    values = frame.iloc[:, [i for i in range(frame.shape[1]) if i != at and i not in numbered]]
    if not values.shape[1]:
        rule = "that --drop does not leave out, got none" if asked.drop else f"beside the ids, got {ids.name!r} alone"
        raise ValueError(f"`{path}` must have a column {rule}.")
    if asked.of_labels and not parquet:
        values = values.apply(text.labels)
    values.index = range(len(frame)) if ids is None else ids
    name = str(ids.name or "") if named and ids is not None else ""
    said = [] if parquet else ["names in the first line" if named else "no names"]
    said += ["row numbers left out"] if numbered else []
    said += ["no ids" if ids is None else f"ids in {_place(frame, at)}"]
    return FileTable(path, values, ids, "id" if name.isdigit() else name or "id"), said


def _place(frame: Any, at: int | None) -> str:
    return "the index" if at is None else f"column {str(frame.columns[at])!r}" if at else "the first column"


def _place_of_ids(frame: Any, named: bool, asked: _Request) -> int | None:
    """Return the number of the column of ids, None if there is none; names in an index of Parquet go before it."""
    if asked.id_column:
        return recognition.named_ids(frame, asked.id_column, asked.path)
    if asked.id_column is False or frame.index.dtype.kind not in "iu":
        return None
    return recognition.find_ids(frame, named, asked.of_labels, asked.path)


def _ids_at(frame: Any, at: int | None, asked: _Request) -> Any:
    """Return the ids in that column, or in an index of Parquet that does not only count."""
    import pandas

    if at is not None:
        return recognition.checked_ids(pandas.Index(frame.iloc[:, at]), asked.path)
    if asked.id_column is False or isinstance(frame.index, pandas.RangeIndex):
        return None
    return recognition.checked_ids(frame.index, asked.path)


def _read_text(asked: _Request) -> tuple[Any, bool]:
    """Return the table with the names of its columns, or else their numbers, and whether it has names.

    A name that a flag has in common with the first line says that it holds names.
    """
    frame, corner = text.read(asked.path, asked.sep)
    given = {name for name in (asked.id_column, *asked.drop) if name and not name.isdecimal()}
    named = asked.header
    if named is None:
        named = not given.isdisjoint(frame.iloc[0].str.strip()) or recognition.has_header(frame, asked.path)
    if corner and not named:
        raise ValueError(
            f"`{asked.path}` must have lines of one length, got a first line that is shorter and no names."
        )
    return (text.with_names(frame, asked.path) if named else frame.rename(columns=str)), named


def _without(frame: Any, drop: tuple[str, ...], path: str) -> Any:
    for name in drop:
        if name not in frame.columns:
            raise ValueError(f"`{path}` must have the column that --drop names, got {name!r}.")
    return frame.drop(columns=list(drop))


def _check_ending(path: str, endings: tuple[str, ...]) -> None:
    if not path.endswith(endings):
        raise ValueError(f"`{path}` must end in one of {', '.join(endings)}.")


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
