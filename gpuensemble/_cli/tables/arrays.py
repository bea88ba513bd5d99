"""NPY and NPZ files are read whole or refused; pickled objects are never loaded."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from gpuensemble._array import csr
from gpuensemble._array.devices import Array
from gpuensemble._array.messages import shown
from gpuensemble._tables.files import UNREADABLE
from gpuensemble._tables.readers import load_array

LABELS, FEATURES = ("labels", "label"), ("X",)  # what tables of either kind are called in an archive
LISTED = 4  # names in a message, at most


def read(path: str, of_labels: bool, id_column: str | Literal[False] | None) -> tuple[Any, Any, str]:
    """Return the table of an NPY or NPZ file, its ids or None, and their name; False asks for no ids."""
    try:
        with Path(path).open("rb") as file:
            loaded = load_array(file)
            arrays = {"": _checked_end(loaded, file)} if path.endswith(".npy") else _checked_members(loaded, file)
    except UNREADABLE:
        rule = f"an {path[-3:].upper()} file of numbers or text (pickled objects are never loaded)"
        raise ValueError(f"`{path}` must be {rule}, got something else.") from None
    id_name = id_column if id_column else next((name for name in arrays if name in ("id", "ids")), "id")
    if id_column and id_column not in arrays:
        raise ValueError(f"`{path}` must have the array that --id names, got {id_column!r}.")
    ids = arrays.pop(id_name, None)
    ids = None if id_column is False else ids
    sparse = {"data", "indices", "indptr", "shape"} <= set(arrays)
    values = _sparse(arrays, path) if sparse else _chosen(arrays, path, of_labels)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "biufU":
        raise ValueError(
            f"`{path}` must hold a table of numbers or text, got {values.dtype} of shape {tuple(values.shape)}."
        )
    if ids is not None and ids.shape != values.shape[:1]:
        raise ValueError(f"`{path}` must have an id for each of {values.shape[0]} rows, got shape {ids.shape}.")
    return values, ids, id_name


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


def _chosen(arrays: dict[str, Array], path: str, of_labels: bool) -> Array:
    """Return the array whose name says that it holds labels or features, whichever is asked for, or else the only one.

    An archive often holds both: features are never taken for labels because they come first, nor labels for features.
    """
    name = next((name for name in (LABELS if of_labels else FEATURES) if name in arrays), None)
    if name is None and len(arrays) != 1:
        what = "labels in an array called labels or label" if of_labels else "features in an array called X"
        found = _readings(list(arrays)) if of_labels and "X" in arrays else _listed(arrays)
        raise ValueError(f"`{path}` must hold {what}, or in its only one beside the ids, got {found}.")
    return arrays[name] if name is not None else next(iter(arrays.values()))


def _readings(names: list[str]) -> str:
    """Say what may be meant where labels are asked for and features are there."""
    others = _listed(name for name in names if name != "X")
    return f"'X', which may be features, and {others}, which may be labels"


def _listed(names: Iterable[str]) -> str:
    some = list(map(repr, names))
    return ", ".join(some[:LISTED] + (["..."] if len(some) > LISTED else [])) or "none"


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
