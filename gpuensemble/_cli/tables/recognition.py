"""Names and ids of a table are told from its labels by evidence; where two readings are plausible, both are refused.

Names differ from each other, and occur nowhere below in their column; ids are different in every row, and labels are
not. A table of few rows gives little evidence.
"""

import re
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.messages import shown
from gpuensemble._cli.tables.text import DECIMAL_COMMA, HOLES, is_number

ID_NAMES = frozenset(["id", "ids"])
# Names that ids often have: they are ids only if they are different in every row.
LIKELY_NAMES = frozenset(
    [
        *("sample", "samples", "sampleid", "cell", "cells", "cellid", "barcode", "barcodes", "name", "names", "index"),
        *("rowname", "rownames", "row.names", "row", "key", "uuid", "guid", "subject", "patient", "accession"),
    ]
)
LABEL_NAMES = frozenset(["label", "labels", "class", "cluster", "clusters", "target"])
DECIMAL = re.compile(r"[+-]?\d*\.\d*([eE][+-]?\d+)?", re.ASCII)
FEW, MANY = 6, 10  # fewer rows show little; so many show that a column without repetitions holds no labels
LOOKED_AT = 2000  # rows that tell whether the first line holds names, and whether a column may hold ids


class Column(NamedTuple):
    """This is what a column holds: its entries without holes, as text, in order, and how often each is there."""

    entries: dict[str, int]
    rows: int
    holes: bool

    @property
    def unique(self) -> bool:
        return not self.holes and len(self.entries) == self.rows > 0

    @property
    def repeats(self) -> bool:
        return len(self.entries) <= self.rows / 2

    @property
    def whole(self) -> bool:
        return all(is_number(entry) and float(entry).is_integer() for entry in self.entries)

    @property
    def text(self) -> bool:
        """Whether no entry is a number, however it is written; 007 is text."""
        return not any(is_number(entry) or _is_decimal(entry) for entry in self.entries)

    @property
    def counts(self) -> bool:
        """Whether it numbers the rows, from 0 or from 1."""
        first = next(iter(self.entries), "")
        return self.unique and first in ("0", "1") and list(self.entries) == _numbers(int(first), self.rows)

    @property
    def mostly_different(self) -> bool:
        """Whether it has too many different entries for labels, which are whole numbers or text."""
        return self.rows >= MANY and len(self.entries) > 0.75 * self.rows and (self.whole or self.text)

    @property
    def shapes(self) -> set[str]:
        return {_shape(entry) for entry in self.entries}


def describe(column: Any) -> Column:
    """Look at a column of numbers or of text."""
    import pandas

    cells = column.dropna()
    if column.dtype.kind not in "iuf":
        cells = cells.astype(str).str.strip()
    codes, distinct = pandas.factorize(cells)
    entries = dict(zip(map(written, distinct.tolist()), np.bincount(codes).tolist(), strict=True))
    observed = {entry: times for entry, times in entries.items() if entry.lower() not in HOLES}
    return Column(observed, len(column), len(cells) < len(column) or len(observed) < len(entries))


def _described_ids(column: Any) -> Column:
    """Look at a column as far as it may hold ids: to its end only if its first rows do."""
    head = describe(column.iloc[:LOOKED_AT])
    return head if head.repeats or not (head.text or head.whole) else describe(column)


def written(value: Any) -> str:
    """Write a number or text as text; 7.0 is written 7."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class _Top(NamedTuple):
    """This is a cell of the first line, and the column below it."""

    cell: str
    below: Column

    @property
    def again(self) -> bool:
        return self.cell in self.below.entries

    @property
    def number(self) -> bool:
        return is_number(self.cell)

    @property
    def word(self) -> bool:
        return not self.number and self.cell.lower() not in HOLES

    @property
    def over_numbers(self) -> bool:
        return all(is_number(entry) or _is_decimal(entry) for entry in self.below.entries) and bool(self.below.entries)

    @property
    def odd(self) -> bool:
        """Whether it is a word that is not written as the ids below it are, which are all alike."""
        shapes = self.below.shapes if self.word and self.below.unique else set()
        return len(shapes) == 1 and shapes != {_shape(self.cell)}

    @property
    def alike(self) -> bool:
        """Whether it is written as the ids below it are: all with numbers in the same places, or long as a barcode."""
        if not self.below.unique or self.below.shapes != {_shape(self.cell)}:
            return False
        return "0" in _shape(self.cell) or {len(entry) for entry in self.below.entries} == {max(len(self.cell), 8)}


def has_header(frame: Any, path: str) -> bool:
    """Tell whether the first line holds names; raise if it may or may not."""
    tops = [_Top(frame[name].iloc[0].strip(), describe(frame[name].iloc[1 : LOOKED_AT + 1])) for name in frame]
    found = _holds_names(tops)
    if found is None:
        cells = ", ".join(repr(top.cell) for top in tops[:4]) + (", ..." if len(tops) > 4 else "")
        raise ValueError(
            f"`{path}` must show whether its first line holds names, got {cells}; --header takes them for names "
            f"above {len(frame) - 1} samples, --no-header for the first of {len(frame)} samples."
        )
    return found


def _holds_names(tops: list[_Top]) -> bool | None:
    """Return None if it is unclear."""
    cells = [top.cell for top in tops]
    if not tops[0].below.rows:
        return all(top.word for top in tops)
    if any(_is_telling(top) for top in tops):
        return True
    if len(set(cells)) == len(cells) and not cells[0] and len(cells) > 1:
        return _corner_is_empty(tops[0].below, tops[1:])
    for first in (0, 1):
        if cells[first:] == _numbers(0, len(cells) - first) and len(cells) > first and (not first or tops[0].word):
            return _columns_are_counted(tops[:first], tops[first:])
    numbers = [top for top in tops if top.over_numbers and top.number]
    words = [top for top in tops if top.over_numbers and top.word]
    if words:
        return _words_over_numbers(words, tops, numbers)
    return _numbers_over_numbers(numbers, tops) if numbers else _words_over_words(tops)


def _is_telling(top: _Top) -> bool:
    name = top.cell.lower()
    return name in ID_NAMES or (not (top.again or top.alike) and (_is_likely(name) or name in LABEL_NAMES))


def _corner_is_empty(ids: Column, tops: list[_Top]) -> bool | None:
    """Tell an index of pandas or R from a first label that is a hole."""
    again = any(top.again for top in tops)
    if all(top.word for top in tops) and not again:
        return True if ids.rows > 1 or any(top.over_numbers for top in tops) else None
    if [top.cell for top in tops] == _numbers(0, len(tops)):
        return True if ids.unique else None
    if any(_is_decimal(top.cell) for top in tops):
        return False
    if ids.unique and (ids.text or ids.counts):
        return True if ids.rows > 2 else None
    return False if again and not ids.unique else None


def _columns_are_counted(ids: list[_Top], tops: list[_Top]) -> bool | None:
    """Tell numbers of columns, from 0, as pandas writes them, from labels of the first sample."""
    if any(top.below.text or any(map(_is_decimal, top.below.entries)) for top in tops):
        return True
    absent = sum(not top.again for top in tops)
    if any(top.alike for top in ids):
        return None if absent else False
    if absent > 1 and tops[0].below.rows > 2:
        return True
    return True if len(tops) > 4 or (ids and len(tops) > 2) or any(top.odd for top in ids) else None


def _words_over_numbers(words: list[_Top], tops: list[_Top], numbers: list[_Top]) -> bool | None:
    """Tell names from a first sample with a strange label, which others' labels would follow."""
    if numbers:
        return True if all(not top.again and top.below.repeats for top in numbers) else None
    follows = any(top.alike for top in tops) and len({_shape(top.cell) for top in tops}) > 1
    return True if len(words) > 1 or not (follows or any(top.again for top in tops)) else None


def _numbers_over_numbers(numbers: list[_Top], tops: list[_Top]) -> bool | None:
    """Tell names that are numbers, such as numbers of clusters, from labels or features."""
    odd, rows, cells = any(top.odd for top in tops), tops[0].below.rows, [float(top.cell) for top in numbers]
    if any(_is_decimal(top.cell) for top in numbers):
        return False
    if all(all(map(_is_decimal, top.below.entries)) for top in numbers):
        return True if len(numbers) > 2 and rows >= FEW - 1 else None
    if any(top.again or not top.below.repeats for top in numbers):
        rising = cells == sorted(set(cells)) and len(cells) > (2 if rows < FEW else 4)
        return None if odd or rising else False
    if len(numbers) > 3 or (odd and len(numbers) > 1):
        return True
    return None if odd or len(numbers) > 1 or rows >= MANY else False


def _words_over_words(tops: list[_Top]) -> bool | None:
    """Tell names of columns from labels and ids of the first sample."""
    cells, rows = [top.cell for top in tops], tops[0].below.rows
    again = sum(top.again for top in tops)
    absent = sum(not top.again for top in tops if not top.below.unique and top.cell.lower() not in HOLES)
    odd, letters = any(top.odd for top in tops), any(_are_letters(cells[first:]) for first in (0, 1))
    if again:
        return False if again > absent and not odd and not letters else None
    if len(set(cells)) < len(cells) or any(cell.lower() in HOLES for cell in cells):
        return False
    if any(cell in top.below.entries for cell in cells for top in tops):
        return None
    if any(top.number for top in tops) and not (rows >= FEW - 1 and all(top.below.text for top in tops if top.number)):
        return None
    if any(top.alike for top in tops):
        return True if absent > 1 and rows >= FEW - 1 else None
    alone = [top for top in tops if not top.below.unique and 1 in top.below.entries.values()]
    return True if rows > 1 and (odd or absent > 1 or (absent and rows >= FEW - 1 and not alone)) else None


def _are_letters(cells: list[str]) -> bool:
    """Tell whether columns are called a, b, c, as labels often are."""
    return bool(cells) and "".join(cells).lower() == ascii_lowercase[: len(cells)]


def find_ids(frame: Any, names: bool, of_labels: bool, path: str) -> int | None:
    """Return the position of the column of ids, None if there is none; raise if it is unclear."""
    columns = [_described_ids(frame.iloc[:, at]) for at in range(frame.shape[1])]
    called = [str(name).strip().lower() if names else None for name in frame.columns]
    numbered = row_numbers(frame, names)
    likely = [at for at, name in enumerate(called) if name is not None and _is_likely(name)]
    several = len(columns) > 1
    groups = (
        [at for at, name in enumerate(called) if name in ID_NAMES],
        [at for at, name in enumerate(called) if name is not None and _is_index(name) and at not in numbered],
        [at for at in likely if columns[at].unique and (columns[at].text or columns[at].whole)],
        [at for at, column in enumerate(columns) if several and column.unique and column.text],
        numbered,
    )
    group = next(filter(None, groups), [])
    if len(group) > 1 or (of_labels and group is groups[3] and group and _may_be_labels(columns, group[0])):
        _refuse_ids(frame, group, "different entries in every row of", path)
    if not group:
        doubtful = [at for at in likely if of_labels and not columns[at].repeats]
        doubtful += [at for at, column in enumerate(columns) if column.rows >= FEW - 1 and column.counts]
        doubtful += [at for at, column in enumerate(columns) if of_labels and column.mostly_different]
        if doubtful:
            _refuse_ids(frame, doubtful[:1], "different entries in most rows of", path)
    return group[0] if group else None


def _may_be_labels(columns: list[Column], at: int) -> bool:
    """Tell whether a few words, all different, may be labels, as they are written like those of another column."""
    others = [column for i, column in enumerate(columns) if i != at and column.text]
    return columns[at].rows < FEW and any(columns[at].shapes & column.shapes for column in others)


def _refuse_ids(frame: Any, places: list[int], what: str, path: str) -> None:
    names = [str(frame.columns[at]) for at in places]
    raise ValueError(
        f"`{path}` must show which column holds ids, got {what} column {' and '.join(map(repr, names))}; "
        f"--id {names[0] or places[0]} takes it for ids, which must all be different, --no-ids for data."
    )


def row_numbers(frame: Any, names: bool) -> list[int]:
    """Return the columns without a name that hold different whole numbers: an index of pandas, which is no data."""
    found = [at for at, name in enumerate(frame.columns) if names and _is_index(str(name).strip().lower())]
    columns = {at: describe(frame.iloc[:, at]) for at in found}
    return [at for at, column in columns.items() if column.unique and column.whole]


def named_ids(frame: Any, given: str, path: str) -> int:
    """Return the position of the column that --id names: by its name, or else its number."""
    names = [str(name) for name in frame.columns]
    number = int(given) if given.isdecimal() and int(given) < len(names) else None
    if given not in names and number is None:
        raise ValueError(f"`{path}` must have the column that --id names, got {given!r}.")
    at = names.index(given) if given in names else int(given)
    if number not in (None, at) and describe(frame.iloc[:, number]).unique:
        raise ValueError(f"`{path}` must have one column that --id means, got {given!r}, a name and a number.")
    return at


def refuse_ids_among_labels(frame: Any, path: str) -> None:
    """Raise if a column of a table of labels has too many different entries for labels."""
    for name in getattr(frame, "columns", ()):
        if _described_ids(frame[name]).mostly_different:
            raise ValueError(
                f"`{path}` must hold labels beside the ids, got different entries in most rows of column {name!r}; "
                "--drop leaves it out, --id makes it the ids, --no-ids takes all for labels."
            )


def checked_ids(ids: Any, path: str) -> Any:
    """Raise if a row has no id, or another one's."""
    if ids.hasnans or (ids == "").any():
        raise ValueError(f"`{path}` must have an id in every row, got none in row {int((ids == '').argmax())}.")
    if not ids.is_unique:
        place = "" if ids.name is None else f" in column {str(ids.name)!r}"
        raise ValueError(
            f"`{path}` must have every id once, got {shown(ids[ids.duplicated()][0])} twice{place}; "
            "--id names another column, --no-ids takes all for data."
        )
    return ids


def _is_likely(name: str) -> bool:
    return name in LIKELY_NAMES or name.endswith(("_id", " id", ".id", "-id"))


def _is_index(name: str) -> bool:
    return name == "" or name.startswith("unnamed: ")


def _is_decimal(cell: str) -> bool:
    """Tell whether it is a number with a point, or the comma of other countries; also where it has leading zeros."""
    return any(map(str.isdigit, cell)) and bool(DECIMAL.fullmatch(cell) or DECIMAL_COMMA.fullmatch(cell))


def _numbers(first: int, many: int) -> list[str]:
    return [str(number) for number in range(first, first + many)]


def _shape(entry: str) -> str:
    return re.sub(r"\d+", "0", re.sub(r"[^\W\d_]+", "a", entry))
