"""Columns of labels are written into files beside the ids of their rows; no output takes the place of another file."""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gpuensemble._cli.tables import packed
from gpuensemble._cli.tables.files import ENDINGS, FileTable, check_ending, needs_pyarrow
from gpuensemble._tables.files import refuse_input, refuse_shared, whole_file

OWN_NAME = "id"  # of ids whose own name is that of a column that is written


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
            _write_archive(file, columns, table)
        elif path.endswith(".parquet"):
            with needs_pyarrow(path):
                frame(columns, table).to_parquet(file, index=False)
        else:
            separator = "," if packed.bare(path).endswith(".csv") else "\t"
            file.write(packed.pack(path, frame(columns, table).to_csv(index=False, sep=separator).encode()))


def _write_archive(file: Any, columns: dict[str, Any], table: FileTable) -> None:
    """Write what `numpy.savez` would, which has parameters of its own whose names no array may have."""
    ids = {} if table.ids is None else {id_name(columns, table): np.asarray(table.ids, str)}
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in (ids | columns).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(values), allow_pickle=False)


def written(columns: dict[str, Any], table: FileTable, out: str | None) -> dict[str, Any]:
    """Write columns into a file, if one is named; say for a report where they are: there, or in the report itself."""
    ids = {} if table.ids is None else {"ids": id_name(columns, table)}
    if out is not None:
        write(out, columns, table)
        return {"out": out} | ids
    return {"table": frame(columns, table)} | ids


def frame(columns: dict[str, Any], table: FileTable) -> Any:
    """Put columns of labels beside the ids of the table that they belong to, as a DataFrame."""
    import pandas

    ids = {} if table.ids is None else {id_name(columns, table): table.ids}
    return pandas.DataFrame({**ids, **columns})


def id_name(columns: dict[str, Any], table: FileTable) -> str:
    """Return what the ids are called beside these columns: as they were, unless a column is called so."""
    return OWN_NAME if table.id_name in columns else table.id_name


def check(path: str | None, endings: tuple[str, ...] = ENDINGS) -> None:
    """Raise, before any work, if a file cannot be written there."""
    if path is None:
        return
    check_ending(path, endings)
    packed.check(path)
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise ValueError(f"`{path}` must be a file, or nothing yet, got something else.")
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise ValueError(f"`{path}` must be in a folder that is there and can be written to.")


def refuse_overwriting(read: list[str], written: list[tuple[str, str | None]]) -> None:
    """Raise, before any work, if an output, beside its flag, is a file that is read, or two of them are one file."""
    for flag, path in written:
        refuse_input(path, flag, *read)
    refuse_shared(written)


def write_json(path: str, value: Any) -> None:
    """Write JSON, whole or not at all."""
    with whole_file(path) as file:
        file.write(json.dumps(value, indent=1).encode())
