"""Text files are read as tables. A text file has no types, so each column says itself what it holds.

Labels are numbers if all entries of their column are written as such, else text; `Membership` refuses numbers that are
not whole. A hole is an empty cell, NA, <NA>, N/A, NaN, None, null or -1.
"""

import csv
import datetime
import io
import re
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np

from gpuensemble._cli.tables import packed

HOLES = frozenset(["", "na", "n/a", "nan", "none", "null", "<na>", "-1", "-1.0"])
# A leading zero makes text of a number: 007 is not 7.
NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"[+-]?\d[\d.]*,\d+([eE][+-]?\d+)?", re.ASCII)
DATES = (datetime.date, datetime.timedelta)  # of pandas and NaT, too
EXACT = 2.0**53  # beyond it two whole numbers may be one float64
SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'", " ": "space"}  # and how they are called
LOOKED_AT = 100  # lines that tell the separator


def read(path: str, sep: str | None) -> tuple[Any, bool]:
    """Read all cells as text, the first line among them; say whether it lacked the cell above the ids, as R's do."""
    import pandas

    content = packed.read(path)
    if not content.strip():
        found = "white space alone" if content.strip("\r\n") else "an empty file"
        raise ValueError(f"`{path}` must hold a table, got {found}.")
    sep = _separator(path, content) if sep is None else sep
    corner = _lacks_corner(content, sep)
    if corner:
        content = '""' + sep + content.lstrip(_white(sep) + "\r\n")
    try:
        frame = pandas.read_csv(
            io.StringIO(content), sep=r"\s+" if sep == " " else sep, header=None, dtype=str, keep_default_na=False
        )
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise ValueError(f"`{path}` must be a table separated by {SEPARATORS[sep]}: {reason}.") from None
    if frame.shape[1] == 1 or (frame.iloc[:, -1] == "").any():
        _check_lengths(path, content, sep)
    return frame, corner


def _white(sep: str) -> str:
    """Return the white space that pandas leaves out, with its line, where nothing else is in it."""
    return " " if sep == "\t" else " \t"


def _rows(content: str, sep: str) -> Any:
    """Return an iterator over lines of cells, none of a line of white space; several spaces are one separator."""
    if sep != " ":
        white, read = _white(sep), io.StringIO(content, newline="")
        return csv.reader((line if line.strip() else line.lstrip(white) for line in read), delimiter=sep)
    lines = (line.strip() for line in io.StringIO(content, newline=None))
    return csv.reader(lines, delimiter=" ", skipinitialspace=True)


def _lacks_corner(content: str, sep: str) -> bool:
    """Tell whether every line has one cell more than the first; lines that all end in a separator do not count."""
    try:
        rows = filter(None, _rows(content, sep))
        width = len(next(rows, ())) + 1
        if width < 2 or not all(len(row) == width for row in rows):
            return False
        ends = [row[-1].strip() for row in _rows(content, sep) if row][1:]
    except csv.Error:
        return False  # pandas says what is wrong with it
    return len(ends) > 1 and any(ends)


def _separator(path: str, content: str) -> str:
    """Return the separator that the ending stands for, or else the one that splits all lines evenly."""
    ending = {".csv": ",", ".tsv": "\t"}.get(packed.bare(path)[-4:])
    head = "".join(islice(io.StringIO(content, newline=None), LOOKED_AT))
    even = [sep for sep in ",;\t|" if _splits_evenly(head, sep)]
    names = [SEPARATORS[sep] for sep in even if sep != ending]
    if names and (ending is not None or len(even) > 1):
        rule = f"be separated by {SEPARATORS[ending]}, as its ending says" if ending else "have one separator"
        flags = " or ".join(f"--sep {name}" for name in names)
        raise ValueError(
            f"`{path}` must {rule}, got lines that {' and '.join(names)} splits evenly; {flags} reads them so."
        )
    if ending is not None or even:
        return ending or even[0]
    if _splits_evenly(head, " "):
        return " "
    if re.search(r"\S[ ,;\t|]+\S", head):
        listed = ", ".join(SEPARATORS.values())
        raise ValueError(f"`{path}` must have a separator, got none of {listed} that splits all lines evenly.")
    return ","


def _splits_evenly(head: str, sep: str) -> bool:
    """Tell whether lines have as many cells, and more than one; the first may lack the cell above the ids."""
    try:
        first, *below = map(len, filter(None, _rows(head, sep)))
    except csv.Error:
        return False
    widths = set(below) or {first}
    return len(widths) == 1 and max(widths) > 1 and (first in widths or (len(below) > 1 and first + 1 in widths))


def _check_lengths(path: str, content: str, sep: str) -> None:
    """Raise if a line is short, which pandas fills up; blank lines are left out, unless there is one column only."""
    try:
        lengths = list(map(len, _rows(content, sep)))
    except csv.Error as error:
        raise ValueError(f"`{path}` must be a table separated by {SEPARATORS[sep]}: {error}.") from None
    while lengths[-1] == 0:
        lengths.pop()
    width = max(lengths)
    for line, length in enumerate(lengths):
        if length < width and (length > 0 or width == 1):
            raise ValueError(
                f"`{path}` must have lines of one length, got {width} cells in most and {length} in line {line + 1}."
            )


def with_names(frame: Any, path: str) -> Any:
    """Return the table without its first line, whose cells are the names of its columns."""
    names = [name.strip() for name in frame.iloc[0]]
    refuse_doubled(names, path)
    return frame.iloc[1:].reset_index(drop=True).set_axis(names, axis=1)


def refuse_doubled(names: list[str], path: str) -> None:
    """Raise if two columns have one name."""
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"`{path}` must have a different name for each column, got {twice!r} twice.")


def is_number(cell: str) -> bool:
    """Tell whether a cell is a number that float64 holds exactly if it is whole."""
    return NUMBER.fullmatch(cell) is not None and abs(float(cell)) < EXACT


def all_numbers(cells: Any) -> bool:
    """Tell whether all cells that are no holes are numbers, and there are some."""
    observed = [cell for cell in cells if cell.lower() not in HOLES]
    return bool(observed) and all(map(is_number, observed))


def labels(column: Any) -> Any:
    """Convert text to numbers with NaN if all of it is numbers, else keep it as text with None."""
    import pandas

    codes, distinct = pandas.factorize(column.str.strip())
    numeric = all_numbers(distinct)
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
    dates = cells.map(lambda cell: isinstance(cell, DATES))  # pandas takes nanoseconds for them
    bad = (found.isna() & cells.notna()) | dates
    if bad.any():
        row = int((bad & cells.notna()).to_numpy().argmax())
        _refuse_number(str(cells.iloc[row]), f"in row {row}, column {name!r}", path)
    return found.to_numpy("float64")


def _refuse_number(cell: str, place: str, path: str) -> None:
    if DECIMAL_COMMA.fullmatch(cell):
        raise ValueError(
            f"`{path}` must have points in its decimal numbers, got {cell!r} {place}; "
            "`pandas.read_csv(..., decimal=',').to_csv(...)` writes them so."
        )
    raise ValueError(
        f"`{path}` must hold numbers, got {cell!r} {place}; --drop leaves a column out, --id makes it the ids."
    )
