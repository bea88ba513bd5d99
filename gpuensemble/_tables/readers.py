"""A table of labels is read in pieces from memory, `.npy`, Parquet, Zarr or Dask: each piece loads some rows."""

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuensemble._array.devices import namespace, to_host
from gpuensemble._array.threads import spans
from gpuensemble._tables.files import UNREADABLE, first_line
from gpuensemble._tables.on_dask import delayed_parts, is_dask

BLOCK_BYTES = 1 << 22  # of codes in a block, at most


@dataclass(frozen=True)
class Slice:
    """A `Slice` loads some rows of an array, which `opened` opens in memory or on disk."""

    opened: Any
    first: int
    last: int

    def __call__(self) -> Any:
        return self.opened()[self.first : self.last]


@dataclass(frozen=True)
class Mapped:
    """This opens an array in a file, memory-mapped."""

    path: str
    dtype: Any
    offset: int
    shape: tuple[int, ...]
    order: Any

    def __call__(self) -> Any:
        size = self.offset + int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        if os.path.getsize(self.path) < size:
            found = os.path.getsize(self.path)
            raise ValueError(f"`{self.path}` must be a whole file of {size} bytes, got {found}.")
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, self.order)


@dataclass(frozen=True)
class Held:
    """This holds an array in memory."""

    array: Any

    def __call__(self) -> Any:
        return self.array


@dataclass(frozen=True)
class Zarr:
    """This opens a Zarr array."""

    path: str

    def __call__(self) -> Any:
        import zarr

        return zarr.open_array(self.path, mode="r")


@dataclass(frozen=True)
class RowGroup:
    """A `RowGroup` loads a row group of a Parquet file as a DataFrame."""

    path: str
    number: int
    columns: tuple  # in the order of the first file

    def __call__(self) -> Any:
        import pyarrow.parquet

        frame = pyarrow.parquet.ParquetFile(self.path).read_row_group(self.number).to_pandas()
        return frame[list(self.columns)]


@dataclass(frozen=True)
class Delayed:
    """This computes a part of a Dask collection, where there is no cluster."""

    part: Any

    def __call__(self) -> Any:
        return self.part.compute()


def readers(labels: Any, at_least: int = 1) -> list:
    """Return functions of nothing, each of which loads some rows, and which can be sent to a worker.

    `at_least` says how many there should be, where the table can be cut anywhere.
    """
    if is_dask(labels):
        return [Delayed(part) for part in delayed_parts(labels)]
    if isinstance(labels, np.memmap):
        return _slices(_mapped(labels), labels, at_least)
    if isinstance(labels, str | Path):
        return _of_file(str(labels), at_least)
    if hasattr(labels, "iloc"):
        rows = _rows_of_block(len(labels), labels.shape[1], at_least)
        return [Held(labels.iloc[some]) for some in spans(len(labels), rows)]
    array = labels if isinstance(labels, np.ndarray) or namespace(labels) is not np else np.asarray(labels)
    return [Held(read()) for read in _slices(Held(to_host(array)), array, at_least)]


def _of_file(path: str, at_least: int) -> list:
    if Path(path).suffix in (".npy", ".zarr"):
        opened = opened_array(path, "labels")
        if isinstance(opened, Zarr):
            _refuse_gaps(opened(), path)
        return _slices(opened, opened(), at_least)
    _check_there(path, "labels")
    return _row_groups(path)


def opened_array(given: Any, name: str) -> Any:
    """Return a function that opens an array, in any process if it is in a file: .npy, Zarr or memory-mapped."""
    if isinstance(given, np.memmap):
        return _mapped(given)
    if not isinstance(given, str | Path):
        return Held(to_host(given) if namespace(given) is not np else np.asarray(given))
    path = str(given)
    _check_there(path, name)
    if path.endswith(".npy"):
        return _mapped(opened_npy(path, name))
    if Path(path).suffix == ".zarr":
        return _checked_zarr(path, name)
    raise ValueError(f"`{name}` must be an array, or the path of an .npy file or a .zarr folder, got {path!r}.")


def _check_there(path: str, name: str) -> None:
    if not Path(path).exists():
        raise ValueError(f"`{name}` must be a file that is there, got {path!r}.")


def _rows_of_block(n: int, r: int, at_least: int) -> int:
    return max(1, min(BLOCK_BYTES // max(1, r), -(-n // at_least)))


def _slices(opened: Any, array: Any, at_least: int) -> list:
    """Cut an array into slices of about a block of codes each."""
    if len(array.shape) != 2 or 0 in array.shape:
        shape = tuple(array.shape)
        raise ValueError(f"`labels` must be a table of at least one sample x one partition, got shape {shape}.")
    n, r = array.shape
    rows = _rows_of_block(n, r, at_least)
    return [Slice(opened, some.start, some.stop) for some in spans(n, rows)]


def opened_npy(path: str, name: str) -> np.memmap:
    """Map an .npy file into memory."""
    rule = f"`{name}` must be a whole .npy file of numbers or text, got {path!r}"
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except UNREADABLE as error:
        raise ValueError(f"{rule}: {first_line(error)}.") from None
    if not isinstance(found, np.memmap):
        raise ValueError(f"{rule}, which is none.")
    return found


def _mapped(array: np.memmap) -> Any:
    """Return what opens the array in another process; a view of a mapped array goes there as it is."""
    if array.filename is None or not isinstance(array.base, mmap.mmap) or not array.flags.forc:
        return Held(array)
    order = "C" if array.flags.c_contiguous else "F"
    return Mapped(str(array.filename), array.dtype, array.offset, array.shape, order)


def _checked_zarr(path: str, name: str) -> Zarr:
    try:
        import zarr
    except ImportError:
        raise ValueError(f"`{name}` needs a package that is not there for {path!r}: pip install zarr.") from None
    try:
        Zarr(path)()
    except (zarr.errors.BaseZarrError, *UNREADABLE) as error:
        raise ValueError(f"`{name}` must be a Zarr array, got {path!r}: {first_line(error)}.") from None
    return Zarr(path)


def _refuse_gaps(array: Any, path: str) -> None:
    """Raise if a chunk of a Zarr array is missing that would read as a label."""
    fill, there = array.fill_value, array.nchunks_initialized
    is_hole = fill is None or fill == -1 or bool(np.isnan(fill))
    if there < array.nchunks and not is_hole:
        rule = "`labels` must have all its chunks unless its fill value is a hole, -1 or NaN"
        raise ValueError(f"{rule}, got {there} of {array.nchunks} in {path!r}, whose fill value is {fill!s}.")


def _row_groups(path: str) -> list:
    """Return the row groups of a Parquet file, or of all those in a folder in the order of their names."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise ValueError(f"`labels` needs a package that is not there for {path!r}: pip install pyarrow.") from None
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    found: list[RowGroup] = []
    for file in files:
        try:
            opened = pyarrow.parquet.ParquetFile(file)
            sizes = [opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)]
            columns = tuple(opened.schema_arrow.empty_table().to_pandas().columns)
        except (pyarrow.ArrowException, *UNREADABLE) as error:
            raise ValueError(
                "`labels` must be an .npy, .zarr or Parquet file, or a folder of these, "
                f"got {str(file)!r}: {first_line(error)}."
            ) from None
        _refuse_columns(columns, file, found)
        order = found[0].columns if found else columns
        found += [RowGroup(str(file), i, order) for i, size in enumerate(sizes) if size]
    if not found:
        raise ValueError(f"`labels` must have at least one row, got none in {path!r}.")
    return found


def _refuse_columns(columns: tuple, file: Path, others: list) -> None:
    """Raise unless a file has the columns of those before it, in any order: they are joined by name."""
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise ValueError(f"`labels` must have every column once, got {twice!r} twice in {str(file)!r}.")
    if others and (differ := set(columns) ^ set(others[0].columns)):
        name, pair = sorted(map(str, differ))[0], f"{others[0].path!r} and {str(file)!r}"
        raise ValueError(f"`labels` must have the same columns in all files, got {name!r} in only one of {pair}.")
