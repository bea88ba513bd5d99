"""CSV and TSV files are read as tables. A text file has no types, so each column says itself what it holds.

Labels are numbers if all entries of their column are written as such, else text; `Membership` refuses numbers that are
not whole. A hole is an empty cell, NA, <NA>, N/A, NaN, None, null or -1.
"""

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

HOLES = frozenset(["", "na", "n/a", "nan", "none", "null", "<na>", "-1", "-1.0"])
# A leading zero makes text of a number: 007 is not 7.
NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
EXACT = 2.0**53  # beyond it two whole numbers may be one float64


def read(path: str, header: bool | None) -> Any:
    """Read all cells as text, without the line of names, which the columns are called by."""
    import pandas

    try:
        frame = pandas.read_csv(
            path, sep=separator(path), header=None, dtype=str, keep_default_na=False, encoding="utf-8-sig"
        )
    except pandas.errors.EmptyDataError:
        raise ValueError(f"`{path}` must hold a table, got an empty file.") from None
    except pandas.errors.ParserError as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise ValueError(f"`{path}` must be a table of {path[-3:].upper()}: {reason}.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"`{path}` must be text in UTF-8, got byte {error.object[error.start]:#x}.") from None
    if frame.shape[1] == 1 or (frame.iloc[:, -1] == "").any():
        _check_lengths(path)
    if not (_has_header(frame) if header is None else header):
        return frame.rename(columns=str)
    names = [name.strip() for name in frame.iloc[0]]
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"`{path}` must have a different name for each column, got {twice!r} twice.")
    return frame.iloc[1:].reset_index(drop=True).set_axis(names, axis=1)


def _check_lengths(path: str) -> None:
    """Raise if a line is short, which pandas fills up; blank lines are left out, unless there is one column only."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        try:
            lengths = [len(row) for row in csv.reader(file, delimiter=separator(path))]
        except csv.Error as error:
            raise ValueError(f"`{path}` must be a table of {path[-3:].upper()}: {error}.") from None
    while lengths[-1] == 0:
        lengths.pop()
    width = max(lengths)
    for line, length in enumerate(lengths):
        if length < width and (length > 0 or width == 1):
            raise ValueError(
                f"`{path}` must have lines of one length, got {width} cells in most and {length} in line {line + 1}."
            )


def _has_header(frame: Any) -> bool:
    """Tell whether the first line looks different from the others.

    It does if it names an `id`; if it has text above a column of numbers; if it counts columns as pandas does; or if it
    is all text, and none of it occurs again in its column, as a label would.
    """
    first = [cell.strip() for cell in frame.iloc[0]]
    if any(cell.lower() == "id" for cell in first):
        return True
    if first[1:] == [str(i) for i in range(len(first) - 1)] and len(first) > (3 if first[0] else 1):
        return not _is_number(first[0])
    named = [not _is_number(cell) and cell.lower() not in HOLES for cell in first]
    below = [set(frame[i].iloc[1:].str.strip()) for i in frame]
    if any(name and _all_numbers(cells) for name, cells in zip(named, below, strict=True)):
        return True
    again = any(cell in cells for cell, cells in zip(first, below, strict=True))
    return all(named) and len(set(first)) == len(first) and not again


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell) is not None and abs(float(cell)) < EXACT


def _all_numbers(cells: set[str]) -> bool:
    observed = [cell for cell in cells if cell.lower() not in HOLES]
    return bool(observed) and all(map(_is_number, observed))


def holds_ids(column: Any) -> bool:
    """Tell whether a column is text, and every entry different from the others."""
    if column.dtype.kind in "biuf" or not column.is_unique:
        return False
    cells = [cell.strip() if isinstance(cell, str) else "" for cell in column]
    return not any(cell.lower() in HOLES or _is_number(cell) for cell in cells)


def labels(column: Any) -> Any:
    """Convert text to numbers with NaN if all of it is numbers, else keep it as text with None."""
    import pandas

    codes, distinct = pandas.factorize(column.str.strip())
    numeric = _all_numbers(set(distinct))
    values = [None if cell.lower() in HOLES else float(cell) if numeric else cell for cell in distinct]
    return pandas.Series(np.array(values, float if numeric else object)[codes], index=column.index)


def numbers(column: Any, name: Any, path: str) -> np.ndarray:
    """Convert a column to float64."""
    import pandas

    if column.dtype.kind in "biuf":
        return column.to_numpy("float64")
    cells = column.astype(object).map(lambda cell: cell.strip() if isinstance(cell, str) else cell)
    hole = cells.map(lambda cell: isinstance(cell, str) and cell.lower() in HOLES - {"-1", "-1.0"})
    cells = cells.mask(hole, None)
    found = pandas.to_numeric(cells, errors="coerce")
    bad = (found.isna() & cells.notna()).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"`{path}` must hold numbers, got {cells.iloc[row]!r} in row {row}, column {name!r}; "
            "--drop leaves a column out, --id makes it the ids."
        )
    return found.to_numpy("float64")


def separator(path: str) -> str:
    return "\t" if path.endswith(".tsv") else ","
