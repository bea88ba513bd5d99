"""Labels come from memory, `.npy`, Parquet, Zarr or Dask. One function, `table`, makes a table in blocks of them.

A source is a list of pieces, each of which loads some rows. What is not yet in compact codes is read twice: to learn
the label values of each column, and to write the codes to a temporary file (or to the workers' memory), which k-means
then reads as often as it needs to.
"""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gpuensemble._array import checks, coding
from gpuensemble._array.devices import choose_device, choose_devices, device_of, memory, namespace, on, to_host
from gpuensemble._array.lanes import ABREAST
from gpuensemble._tables import readers
from gpuensemble._tables.blocks import Block, Streamed, Table, whole
from gpuensemble._tables.on_dask import Cluster, OnDask, current_client, delayed_parts, is_dask
from gpuensemble._tables.spread import Spread
from gpuensemble.membership import Membership

BLOCKS_OF_THREAD = 4  # of a cluster, at least
DEVICE_BYTES = 1 << 28  # of codes in a block on a CUDA device, at most: a few launches for each
STEP_BYTES = 256  # of a row of a block while a step is worked out there: labels, costs, candidates


def table(labels: Any, device: str, client: Any, sample_weight: Any) -> tuple[Table, float]:
    """Return the table in blocks, and what one unit of its weights stands for."""
    if client is not None or is_dask(labels):
        client = current_client(client)
    if client is not None:
        return _on_workers(labels, device, client, sample_weight)
    devices = choose_devices(device, labels)
    if not (isinstance(labels, str | Path | np.memmap) or is_dask(labels)):
        return _in_memory(labels, devices, sample_weight)
    codes, widths, complete, categories = _codes(labels)
    weight, unit = checks.multiplicities(sample_weight, "sample_weight", "cpu", len(codes))
    bounds = [*range(0, len(codes), _rows_of_block(codes, devices)), len(codes)]
    return Streamed(codes, bounds, widths, complete, categories, weight, tuple(devices)), unit


def _in_memory(labels: Any, devices: list[str], sample_weight: Any) -> tuple[Table, float]:
    """Make a table of labels in memory: one block on a device, or a block on each of several."""
    place = devices[0] if len(devices) == 1 else device_of(labels)
    with on(place):
        m = Membership.from_labels(labels, place)
        weight, unit = checks.multiplicities(sample_weight, "sample_weight", place, len(m.codes))
    if len(devices) == 1:
        return whole(m, weight), unit
    return Spread(m, devices, None if weight is None else to_host(weight)), unit


def _rows_of_block(codes: Any, devices: list[str]) -> int:
    """Return how many rows a block has: what a cache holds on the CPU, what keeps a device busy and fits there."""
    n, size = len(codes), codes.shape[1] * codes.dtype.itemsize
    few = max(1, readers.BLOCK_BYTES // size)
    if devices == ["cpu"]:
        return few
    free = min(memory(device) or 0 for device in devices)
    most = min(DEVICE_BYTES // size, free // 2 // (ABREAST * (size + STEP_BYTES)))
    in_turns = -(-n // (ABREAST * len(devices)))  # all lanes have work, if it is worth it
    return max(1, min(most, max(few, in_turns)))


def _codes(labels: Any) -> tuple[Any, Any, bool, list]:
    """Return n x r codes on disk, their widths, whether there is no hole, and the label values of each column."""
    first, scans, reads = 0, [], []
    for read in readers.readers(labels):
        rows = read()
        if len(rows):  # a part of a Dask DataFrame may have none
            scans.append(coding.scan(rows, first))
            reads.append(read)
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
    if is_dask(labels):
        return None
    if isinstance(labels, str | Path):
        if not str(labels).endswith(".npy"):
            return None
        labels = readers.opened_npy(str(labels), "labels")
    if labels.dtype.kind not in "iu" or labels.dtype.itemsize > 2 or not labels.dtype.isnative:
        return None
    widest = max(map(len, categories))
    code = {1: "uint8", 2: "uint16"}[labels.dtype.itemsize]
    consecutive = all(int(values[-1]) == len(values) - 1 for values in categories)
    return labels.view(code) if consecutive and widest <= np.iinfo(code).max else None


def _on_workers(labels: Any, device: str, client: Any, sample_weight: Any) -> tuple[Table, float]:
    """Make a table whose blocks are on the workers of a Dask cluster."""
    threads = sum(client.nthreads().values())
    parts = delayed_parts(labels) if is_dask(labels) else readers.readers(labels, BLOCKS_OF_THREAD * threads)
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
