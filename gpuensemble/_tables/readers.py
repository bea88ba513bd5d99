"""A table of labels is read in pieces from memory, `.npy`, Parquet, Zarr or Dask: each piece loads some rows."""

import abc
import math
import mmap
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuensemble._array.devices import namespace, to_host
from gpuensemble._array.frames import columns, features, frame_of, warn_of_vectors
from gpuensemble._array.threads import spans
from gpuensemble._tables.files import UNREADABLE, damage_named, first_line
from gpuensemble._tables.on_dask import delayed_parts, is_dask

BLOCK_BYTES = 1 << 22  # of codes in a block, at most


@dataclass(frozen=True)
class Slice:
    """A `Slice` loads some rows of an array in memory or on disk."""

    opened: "Opened"
    first: int
    last: int

    def __call__(self) -> Any:
        return self.opened.rows(slice(self.first, self.last))


class Opened(abc.ABC):
    """A function of nothing that opens an array in memory or on disk, from which `rows` reads some."""

    @abc.abstractmethod
    def __call__(self) -> Any:
        """Open the array."""

    def rows(self, which: Any) -> Any:
        """Return the rows of a slice, or of these numbers."""
        return self()[which]


@dataclass(frozen=True)
class Mapped(Opened):
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
class Held(Opened):
    """This holds an array in memory."""

    array: Any

    def __call__(self) -> Any:
        return self.array


@dataclass(frozen=True)
class Zarr(Opened):
    """This opens a Zarr array."""

    path: str

    def __call__(self) -> Any:
        import zarr

        return zarr.open_array(self.path, mode="r")

    def rows(self, which: Any) -> Any:
        """Return the rows of a slice, or of these numbers: chunks are decoded here, and may be damaged."""
        with damage_named(self.path):
            return self().oindex[which]


@dataclass(frozen=True)
class RowGroup:
    """A `RowGroup` loads a row group of a Parquet file as a DataFrame."""

    path: str
    number: int
    columns: tuple  # in the order of the first file

    def __call__(self) -> Any:
        import pyarrow.parquet

        with damage_named(self.path, pyarrow.ArrowException):
            found = pyarrow.parquet.ParquetFile(self.path).read_row_group(self.number)
            return frame_of(found)[list(self.columns)]


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
    if isinstance(labels, list | tuple):
        warn_of_vectors(labels)
        labels = np.column_stack(columns(labels)[0])  # of objects
    array = labels if isinstance(labels, np.ndarray) or namespace(labels) is not np else np.asarray(labels)
    return [Held(read()) for read in _slices(Held(to_host(array)), array, at_least)]


def _of_file(path: str, at_least: int) -> list:
    if Path(path).suffix in (".npy", ".zarr"):
        opened = opened_array(path, "labels")
        array = opened()
        _check_shape(array.shape)
        if isinstance(opened, Zarr):
            _refuse_gaps(array, path)
        return _slices(opened, array, at_least)
    _check_there(path, "labels")
    return _row_groups(path)


def opened_array(given: Any, name: str) -> Any:
    """Return a function that opens an array, in any process if it is in a file: .npy, Zarr or memory-mapped."""
    if isinstance(given, np.memmap):
        return _mapped(given)
    if not isinstance(given, str | Path):
        given = features(given, name)
        return Held(to_host(given) if namespace(given) is not np else np.asarray(given))
    path = str(given)
    _check_there(path, name)
    if path.endswith(".npy"):
        return _mapped(opened_npy(path, name))
    if Path(path).suffix == ".zarr":
        return _checked_zarr(path, name)
    raise ValueError(f"`{name}` must be an array, or the path of an .npy file or a .zarr folder, got {path!r}.")


def _check_there(path: str, name: str) -> None:
    if not (Path(path).is_file() or Path(path).is_dir()):  # a pipe would be waited for
        raise ValueError(f"`{name}` must be a file that is there, got {path!r}.")


def _rows_of_block(n: int, r: int, at_least: int) -> int:
    return max(1, min(BLOCK_BYTES // max(1, r), -(-n // at_least)))


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"`labels` must be a table of at least one sample x one partition, got shape {tuple(shape)}.")


def _slices(opened: Any, array: Any, at_least: int) -> list:
    """Cut an array into slices of about a block of codes each."""
    _check_shape(array.shape)
    n, r = array.shape
    rows = _rows_of_block(n, r, at_least)
    return [Slice(opened, some.start, some.stop) for some in spans(n, rows)]


def load_array(file: Any, mmap_mode: Any = None) -> Any:
    """Load an array or an archive of NumPy, without pickles, and without warnings of Python 2 or of a damaged shape."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.load(file, mmap_mode, allow_pickle=False)


def opened_npy(path: str, name: str) -> np.memmap:
    """Map an .npy file into memory."""
    rule = f"`{name}` must be a whole .npy file of numbers or text, got {path!r}"
    try:
        found = load_array(path, mmap_mode="r")
    except UNREADABLE as error:
        raise ValueError(f"{rule}: {first_line(error)}.") from None
    if not isinstance(found, np.memmap):
        raise ValueError(f"{rule}, which is none.")
    more = os.path.getsize(path) - found.offset - found.nbytes
    if more:  # a damaged shape of fewer rows looks like that
        raise ValueError(f"{rule}: {more} bytes follow its table.")
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
        found = Zarr(path)()
    except (zarr.errors.BaseZarrError, *UNREADABLE) as error:
        raise ValueError(f"`{name}` must be a Zarr array, got {path!r}: {first_line(error)}.") from None
    _refuse_few_chunks(found, path, name)
    _refuse_cut_chunks(found, path)
    return Zarr(path)


def _chunk_files(path: str) -> Iterator[Path]:
    """Yield the files of a Zarr array that hold chunks, or shards."""
    files = (file for file in Path(path).rglob("*") if file.is_file())
    return (file for file in files if file.name != "zarr.json" and not file.name.startswith("."))


def _refuse_cut_chunks(array: Any, path: str) -> None:
    """Raise if a chunk of Blosc has not the length that it tells: its decoder would read on beyond the end."""
    if array.shards is not None or not any("Blosc" in type(codec).__name__ for codec in array.compressors[-1:]):
        return
    for file in _chunk_files(path):
        with file.open("rb") as opened:
            size = int.from_bytes(opened.read(16)[12:], "little")
        if file.stat().st_size != size:
            raise ValueError(f"`{file}` must be a whole chunk of {size} bytes, got {file.stat().st_size}.")


def _grid(array: Any) -> list[int]:
    """Return how many chunks, or shards, a Zarr array has along each axis."""
    return [-(-n // size) for n, size in zip(array.shape, array.shards or array.chunks, strict=True)]


def _refuse_few_chunks(array: Any, path: str, name: str) -> None:
    """Raise if a row or a column has no chunk: a damaged shape may be larger than any memory."""
    there, needed = sum(1 for _ in _chunk_files(path)), max(_grid(array), default=0)
    if there < needed:
        raise ValueError(f"`{name}` must have chunks for each row and column, got {there} of {needed} in {path!r}.")


def _refuse_gaps(array: Any, path: str) -> None:
    """Raise if a chunk of a Zarr array is missing that would read as a label."""
    fill = array.fill_value
    if fill is None or (np.asarray(fill).dtype.kind in "iuf" and bool(fill == -1 or np.isnan(fill))):
        return
    there, needed = sum(1 for _ in _chunk_files(path)), math.prod(_grid(array))
    if there >= needed:  # else there may be more of them than can be looked for
        there, needed = array.nchunks_initialized, array.nchunks
    if there < needed:
        rule = "`labels` must have all its chunks unless its fill value is a hole, -1 or NaN"
        raise ValueError(f"{rule}, got {there} of {needed} in {path!r}, whose fill value is {fill!s}.")


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
