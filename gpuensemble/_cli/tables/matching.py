"""Rows of several tables are matched by their ids, or by their order where none has any."""

import re
from typing import Any

import numpy as np

from gpuensemble._array.messages import shown
from gpuensemble._cli.tables.files import FileTable
from gpuensemble._cli.tables.recognition import written

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # however it is written


def joined(views: list[FileTable]) -> tuple[FileTable, list, np.ndarray | None]:
    """Match features of the same samples: rows by their ids if all tables have them, by their order if none has.

    Return a table for the ids, the matrices, and which sample is in which view, n x views, or None if all are in all. A
    sample that is absent from a view is a row of NaN in it, or an empty one if it is sparse.
    """
    views = comparable(views)
    first = views[0]
    if first.ids is None:
        for view in views[1:]:
            if view.values.shape[0] != first.values.shape[0]:
                raise ValueError(
                    f"`{view.path}` must have ids, or as many rows as `{first.path}`, {first.values.shape[0]}, "
                    f"got {view.values.shape[0]}."
                )
        return first, [view.values for view in views], None
    _refuse_strangers(views)
    ids = first.ids
    for view in views[1:]:
        ids = ids.append(view.ids.difference(ids, sort=False))
    rows = [view.ids.get_indexer(ids) for view in views]
    present = np.column_stack(rows) >= 0
    matrices = [_rows(view.values, row) for view, row in zip(views, rows, strict=True)]
    return first._replace(ids=ids), matrices, None if present.all() else present


def paired(one: FileTable, two: FileTable) -> np.ndarray:
    """Return the row of the second table for each of the first; both must have the same ids, or none and one length."""
    one, two = comparable([one, two])
    if one.ids is None:
        n, found = one.values.shape[0], two.values.shape[0]
        if n != found:
            raise ValueError(f"`{two.path}` must have as many rows as `{one.path}`, {n}, got {found}.")
        return np.arange(n)
    absent = one.ids.difference(two.ids, sort=False).append(two.ids.difference(one.ids, sort=False))
    if len(absent):
        raise ValueError(f"`{two.path}` must have the ids of `{one.path}`, got {shown(absent[0])} in one of them only.")
    return two.ids.get_indexer(one.ids)


def comparable(tables: list[FileTable]) -> list[FileTable]:
    """Return the tables with ids that can be compared: as text, if some have text and others something else.

    A text file has only text, so that 7 of a Parquet file is '7' there. If it has '007' instead, nobody knows whether
    that is the same id.
    """
    _refuse_some_ids(tables)
    kinds = [None if table.ids is None else _kind(table.ids) for table in tables]
    if len(set(kinds)) < 2:
        return tables
    for table, kind in zip(tables, kinds, strict=True):
        for other, its_kind in zip(tables, kinds, strict=True):
            if kind == "text" and its_kind == "numbers":
                _refuse_other_writings(table, other)
    return [table._replace(ids=_as_text(table.ids)) for table in tables]


def _refuse_some_ids(tables: list[FileTable]) -> None:
    """Raise if some tables have ids and others do not: nobody knows whether their rows are in the same order."""
    without = next((table.path for table in tables if table.ids is None), None)
    having = next((table.path for table in tables if table.ids is not None), None)
    if without is not None and having is not None:
        raise ValueError(
            f"`{without}` must have ids, as `{having}` has, got none; "
            "--id says which column holds them, --no-ids that no column does."
        )


def _kind(ids: Any) -> str:
    """Return what ids are; categories of Parquet are what they stand for."""
    from pandas.api.types import infer_dtype, is_numeric_dtype

    plain = getattr(ids, "categories", ids)
    kind = infer_dtype(plain)
    return "numbers" if is_numeric_dtype(plain.dtype) and kind != "boolean" else kind.replace("string", "text")


def _as_text(ids: Any) -> Any:
    import pandas

    return pandas.Index([written(value) for value in ids.tolist()], dtype=object, name=ids.name)


def _refuse_other_writings(text: FileTable, numbers: FileTable) -> None:
    """Raise if text is an id among numbers that is written in another way, such as 007 or 7.0."""
    there = set(_as_text(numbers.ids))
    for entry in text.ids:
        number = written(float(entry)) if NUMBER.fullmatch(entry) else entry
        if number != entry and number in there:
            raise ValueError(
                f"`{text.path}` must write ids as `{numbers.path}` does, "
                f"got {shown(entry)} there and {number} here, which may be one id or two."
            )


def _refuse_strangers(views: list[FileTable]) -> None:
    """Raise if a view has no sample in common with the others: its ids name something else."""
    for i, view in enumerate(views):
        others = views[:i] + views[i + 1 :]
        if others and not any(view.ids.isin(other.ids).any() for other in others):
            raise ValueError(
                f"`{view.path}` must have ids of the other files, too, got {shown(view.ids[0])}, "
                f"and {shown(others[0].ids[0])} in `{others[0].path}`; --id says which column holds them."
            )


def _rows(matrix: Any, rows: np.ndarray) -> Any:
    """Return the rows of that number; -1 is a row of NaN, or an empty one of a sparse matrix."""
    if isinstance(matrix, np.ndarray):
        return np.where(rows[:, None] >= 0, matrix[rows], np.nan)
    from scipy.sparse import csr_matrix, vstack

    return vstack([matrix, csr_matrix((1, matrix.shape[1]), dtype=matrix.dtype)], format="csr")[rows]
