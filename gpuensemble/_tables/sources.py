"""Labels come from memory, `.npy`, Parquet, Zarr or Dask. One function, `table`, makes a table in blocks of them.

A source is a list of pieces, each of which loads some rows. What is not yet in compact codes is read twice: to learn
the label values of each column, and to write the codes to a temporary file (or to the workers' memory), which k-means
then reads as often as it needs to.
"""

import itertools
import mmap
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuensemble._array import checks, coding
from gpuensemble._array.devices import choose_device, namespace, on, to_host
from gpuensemble._array.threads import spans
from gpuensemble._tables.blocks import Block, Streamed, Table, whole
from gpuensemble._tables.on_dask import Cluster, OnDask, current_client, delayed_parts, is_dask
from gpuensemble.membership import Membership

BLOCK_BYTES = 1 << 22  # of codes in a block, at most
BLOCKS_OF_THREAD = 4  # of a cluster, at least


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

    def __call__(self) -> Any:
        import pyarrow.parquet

        return pyarrow.parquet.ParquetFile(self.path).read_row_group(self.number).to_pandas()


@dataclass(frozen=True)
class Delayed:
    """This computes a part of a Dask collection, where there is no cluster."""

    part: Any

    def __call__(self) -> Any:
        return self.part.compute()


def table(labels: Any, device: str, client: Any, sample_weight: Any) -> tuple[Table, float]:
    """Return the table in blocks, and what one unit of its weights stands for."""
    client = current_client(client) if is_dask(labels) else client
    if client is not None:
        return _on_workers(labels, device, client, sample_weight)
    if not (isinstance(labels, str | Path | np.memmap) or is_dask(labels)):
        device = choose_device(device, labels)
        with on(device):
            m = Membership.from_labels(labels, device)
            weight, unit = checks.multiplicities(sample_weight, "sample_weight", device, len(m.codes))
            return whole(m, weight), unit
    device = choose_device(device)
    codes, widths, complete, categories = _codes(labels)
    weight, unit = checks.multiplicities(sample_weight, "sample_weight", "cpu", len(codes))
    rows = max(1, BLOCK_BYTES // (codes.shape[1] * codes.dtype.itemsize))
    bounds = [*range(0, len(codes), rows), len(codes)]
    return Streamed(codes, bounds, widths, complete, categories, weight, device), unit


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
        return _mapped(_opened_npy(path, name))
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


def _opened_npy(path: str, name: str) -> np.memmap:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"`{name}` must be a whole .npy file of numbers or text, got {path!r}: {error}.") from None


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
    except (ValueError, OSError, KeyError, zarr.errors.BaseZarrError) as error:
        raise ValueError(f"`{name}` must be a Zarr array, got {path!r}: {str(error).splitlines()[0]}.") from None
    return Zarr(path)


def _row_groups(path: str) -> list:
    """Return the row groups of a Parquet file, or of all those in a folder in the order of their names."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError(f"`labels` needs a package that is not there for {path!r}: pip install pyarrow.") from None
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [Path(path)]
    found = []
    for file in files:
        try:
            groups = pyarrow.parquet.ParquetFile(file).metadata
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ValueError(
                f"`labels` must be an .npy, .zarr or Parquet file, or a folder of these, got {str(file)!r}: {reason}."
            ) from None
        sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        found += [RowGroup(str(file), i) for i, size in enumerate(sizes) if size]
    if not found:
        raise ValueError(f"`labels` must have at least one row, got none in {path!r}.")
    return found


def _codes(labels: Any) -> tuple[Any, Any, bool, list]:
    """Return n x r codes on disk, their widths, whether there is no hole, and the label values of each column."""
    reads = readers(labels)
    first, scans = 0, []
    for read in reads:
        rows = read()
        scans.append(coding.scan(rows, first))
        first += len(rows)
    categories, complete = coding.joined(scans)
    widths = np.array([len(values) for values in categories], "int64")
    direct = _direct(labels, categories)
    if direct is not None:
        return direct, widths, complete, categories
    dtype = coding.code_dtype(int(widths.max()))
    shape = (first, len(widths))
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    try:
        with tempfile.TemporaryFile(prefix="gpuensemble-") as file:  # without a name: it goes with the mapping
            for read in reads:
                coded, _ = coding.from_known_labels(read(), categories)
                file.write(np.ascontiguousarray(coded.codes).tobytes())
            file.flush()
            return np.memmap(file, dtype, "r", 0, shape), widths, complete, categories
    except OSError as error:
        place = tempfile.gettempdir()
        raise OSError(f"The codes of `labels` need {size} bytes in {place!r}: {error.strerror}.") from None


def _direct(labels: Any, categories: list) -> Any:
    """Return the table itself if its labels are codes already: 0 .. K_i - 1 in one or two bytes, -1 for a hole."""
    if isinstance(labels, str | Path):
        if not str(labels).endswith(".npy"):
            return None
        labels = _opened_npy(str(labels), "labels")
    if labels.dtype.kind not in "iu" or labels.dtype.itemsize > 2 or not labels.dtype.isnative:
        return None
    widest = max(map(len, categories))
    code = {1: "uint8", 2: "uint16"}[labels.dtype.itemsize]
    consecutive = all(int(values[-1]) == len(values) - 1 for values in categories)
    return labels.view(code) if consecutive and widest <= np.iinfo(code).max else None


def _on_workers(labels: Any, device: str, client: Any, sample_weight: Any) -> tuple[Table, float]:
    """Make a table whose blocks are on the workers of a Dask cluster."""
    threads = sum(client.nthreads().values())
    parts = delayed_parts(labels) if is_dask(labels) else readers(labels, BLOCKS_OF_THREAD * threads)
    raw = Cluster.loading(client, parts)
    sizes = raw.each(len)
    raw = raw.some([i for i, size in enumerate(sizes) if size])
    bounds = [0, *np.cumsum([size for size in sizes if size]).tolist()]
    categories, complete = coding.joined(raw.each(coding.scan, own=[(first,) for first in bounds[:-1]]))
    weight, unit = checks.multiplicities(sample_weight, "sample_weight", "cpu", bounds[-1])
    widths = np.array([len(values) for values in categories], "int64")
    weights = [None if weight is None else weight[a:b] for a, b in itertools.pairwise(bounds)]
    own = list(zip(bounds, weights, strict=False))
    blocks = Cluster(client, raw.submit(_coded_block, (categories, complete, device), own))
    return OnDask(blocks, bounds, widths, complete, categories, weight), unit


def _coded_block(raw: Any, first: int, weight: Any, categories: list, complete: bool, device: str) -> Block:
    """Make a block of some rows on a worker; its codes go to the device that the worker has."""
    coded, _ = coding.from_known_labels(raw, categories)
    device = choose_device(device, coded.codes)
    m = Membership.from_coded(coded.codes, coded.widths, complete, categories, device)
    with on(device):
        weight = None if weight is None else namespace(m.codes).asarray(weight)
    return Block(m, first, weight, weight=weight)
