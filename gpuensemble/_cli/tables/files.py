"""Tables in files hold labels and features; `outputs` writes such files.

They are text (CSV, TSV and TXT, packed or not), Parquet, NPY and NPZ files, by the name's ending.
"""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from gpuensemble._cli.tables import arrays, packed, recognition, text
from gpuensemble._tables.files import UNREADABLE, first_line
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
        check_ending(path, ENDINGS)
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
    values, ids, name = arrays.read(path, asked.of_labels, asked.id_column)
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
        rule = "that --drop does not leave out" if asked.drop else "beside the ids"
        found = "none" if asked.drop or at is None else f"{ids.name!r} alone"
        raise ValueError(f"`{path}` must have a column {rule}, got {found}.")
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
    if frame.index.nlevels > 1:
        instead = "--no-ids leaves it out, --id names a column of ids"
        raise ValueError(f"`{asked.path}` must have one column in its index, got {frame.index.nlevels}; {instead}.")
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


def check_ending(path: str, endings: tuple[str, ...]) -> None:
    if not path.endswith(endings):
        raise ValueError(f"`{path}` must end in one of {', '.join(endings)}.")


def _read_parquet(path: str) -> Any:
    with needs_pyarrow(path):
        from pyarrow import ArrowException, types
        from pyarrow.parquet import ParquetFile

        try:
            table = ParquetFile(path).read()
            frame = frame_of(table)
        except (ArrowException, *UNREADABLE) as error:
            raise ValueError(f"`{path}` must be a Parquet file: {first_line(error)}.") from None
    text.refuse_doubled(table.column_names, path)
    nested = next((column for column in table.schema if types.is_nested(column.type)), None)
    if nested is not None:
        raise ValueError(f"`{path}` must hold numbers or text, got {nested.type} in column {nested.name!r}.")
    return frame


@contextlib.contextmanager
def needs_pyarrow(path: str) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise ValueError(f"`{path}` needs a package that is not there: pip install pyarrow.") from None
