"""Tables are read from files by others than our readers: `csv`, NumPy, pyarrow and zarr themselves.

Where these readers leave a choice, this is what is right, as the documents of the command line say it:

- A text file is UTF-8. Lines without a cell are left out; all others have as many cells as the first. Spaces around a
  cell are not part of it. A column holds numbers if every cell that is no hole is written as one, without leading zeros
  and below 2**53; else it holds text, in which 1.0 and 1 differ.
- An NPY file may go on after its table for `numpy.load`; we may refuse it, as a damaged shape looks like that.
- A null of Parquet is a hole. Files of a folder follow each other by name, and are joined by the names of columns.
- A chunk that a Zarr array lacks has its fill value; we may refuse such an array all the same.
- A table of more cells than `MOST` was not in a file of a few kilobytes: it is unreadable, whatever a reader says.
"""

import csv
import math
import re
import tokenize
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import zarr

MOST = 100_000
HOLES = {"", "na", "n/a", "nan", "none", "null", "<na>"}
PLAIN = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?")
# What those readers raise for a file that they cannot read.
ERRORS = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, NotImplementedError, OSError, RuntimeError),
    *(SyntaxError, TypeError, ValueError, csv.Error, tokenize.TokenError),
    *(pyarrow.ArrowException, zarr.errors.BaseZarrError),
)


class Read(NamedTuple):
    """A table and the ids of its rows, if the file has them."""

    values: Any
    ids: list | None = None


def text_labels(path: Path) -> Read:
    """Labels and ids of a text file with a header."""
    columns = _text_columns(path)
    ids = columns.pop("id")
    return Read(pd.DataFrame({name: _labels(cells) for name, cells in columns.items()}), _checked(ids))


def text_features(path: Path) -> Read:
    """Numbers and ids of a text file with a header."""
    columns = _text_columns(path)
    ids = columns.pop("id")
    numbers = [[math.nan if cell.lower() in HOLES else float(cell) for cell in cells] for cells in columns.values()]
    return Read(np.array(numbers).T, _checked(ids))


def _text_columns(path: Path) -> dict[str, list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True))
    rows = [row for row in rows if len(row) > 1 or "".join(row).strip()]
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names):
        raise ValueError("a name is there twice")
    cells = zip(*rows[1:], strict=True)
    return {
        name: [cell if name == "id" else cell.strip() for cell in column]
        for name, column in zip(names, cells, strict=True)
    }


def _checked(ids: list[str]) -> list[str]:
    if "" in ids or len(set(ids)) < len(ids):
        raise ValueError("an id is missing, or there twice")
    return ids


def _labels(cells: list[str]) -> Any:
    holes = [cell.lower() in HOLES or cell in ("-1", "-1.0") for cell in cells]
    observed = [cell for cell, hole in zip(cells, holes, strict=True) if not hole]
    if all(PLAIN.fullmatch(cell) and abs(float(cell)) < 2**53 for cell in observed):
        return np.array([math.nan if hole else float(cell) for cell, hole in zip(cells, holes, strict=True)])
    return np.array([None if hole else cell for cell, hole in zip(cells, holes, strict=True)], object)


def array(path: Path) -> Read:
    """The table of an NPY file."""
    return Read(np.load(path, allow_pickle=False))


def arrow(path: Path) -> Read:
    """The table of a Parquet file, or of all of a folder."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    tables = [pyarrow.parquet.ParquetFile(file).read() for file in files]
    names = tables[0].column_names
    if any(
        len(set(table.column_names)) < table.num_columns or set(table.column_names) != set(names) for table in tables
    ):
        raise ValueError("columns differ")
    for table in tables:
        table.validate(full=True)
    columns = {name: [cell for table in tables for cell in table[name].to_pylist()] for name in names}
    ids = columns.pop("id", None)
    return Read(pd.DataFrame({name: _cells(cells) for name, cells in columns.items()}), ids)


def _cells(cells: list) -> Any:
    """Numbers as an array, which they are ordered in; anything else as objects."""
    if all(cell is None or isinstance(cell, int | float) for cell in cells):
        found = np.array([-1 if cell is None else cell for cell in cells])
        return found if found.dtype.kind in "biuf" else np.array(cells, object)
    return np.fromiter(cells, object, len(cells))


def zarr_array(path: Path) -> Read:
    """The table of a Zarr array."""
    found = zarr.open_array(str(path), mode="r")
    if math.prod(found.shape) > MOST:
        raise ValueError("a table of this size was not in the file")
    return Read(np.asarray(found[:]))
