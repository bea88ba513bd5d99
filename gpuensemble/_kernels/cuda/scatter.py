"""This launches scatter.cu of kernels/: `scatter_add` with the bits of cpu/membership.py.

A block sums some columns (a tile) of some partitions (a group) in shared memory. More groups read the rows more often,
more tiles the codes. Of the tilings that keep all processors at work the one is taken that reads the fewest sectors.
"""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpuensemble._kernels.cuda.membership import CODE, SECTOR, SHARED_BYTES
from gpuensemble._kernels.cuda.source import TYPE, function, grid

CODE_BYTES, ROW_BYTES = 2048, 4096  # of shared memory for codes and rows that are on their way, as in the kernel's file
BANKS = 128  # bytes that shared memory gives at a time, in one turn
SHAPES = ((1, 256), (2, 256), (4, 256), (4, 512), (8, 512))  # partitions of a thread, and threads of a block
BUSY = 128  # threads that hide the way to shared memory and back; where there are more, each has more partitions
FAR = 16  # turns of shared memory that an addition to device memory takes as long as
SLACK = 1.1  # how many times the turns of wide tiles in balance a tiling may take
PART_THREADS = 256  # of a block of add_parts


def scatter_add(membership, rows, segment_rows):
    """Return H.T @ rows: segments of `segment_rows` rows are summed in ascending order, then added up in that order."""
    import cupy

    codes, (n, n_columns) = membership.codes, rows.shape
    n_segments = -(-n // segment_rows)
    partial = cupy.empty((n_segments, membership.n_columns, n_columns), rows.dtype)
    tiling = tiling_of(membership, rows, n_segments)
    kernel = function(
        f"scatter_add<{TYPE[rows.dtype.name]}, {CODE[codes.dtype.name]}, {tiling.template}>", "scatter.cu"
    )
    shared_mem = (tiling.capacity + tiling.threads) * rows.itemsize
    if shared_mem + CODE_BYTES + ROW_BYTES > SHARED_BYTES:
        # As much as there may be, which is a limit and takes nothing: another thread may launch the kernel with more.
        kernel.max_dynamic_shared_size_bytes = _device()[0] - CODE_BYTES - ROW_BYTES
    blocks = grid(n_segments * tiling.n_groups * tiling.n_tiles)
    sizes = np.int64(segment_rows), np.int32(n_segments), *map(np.int32, tiling.arguments)
    arguments = (codes, membership.offsets, np.int64(n), np.int32(codes.shape[1]), rows, np.int32(n_columns), *sizes)
    kernel((blocks,), (tiling.threads,), (*arguments, partial), shared_mem=shared_mem)
    return partial[0] if n_segments == 1 else _added(partial)


def _added(parts):
    """Return the sum over the first axis, in ascending order."""
    import cupy

    out = cupy.empty(parts.shape[1:], parts.dtype)
    kernel = function(f"add_parts<{TYPE[out.dtype.name]}>", "scatter.cu")
    blocks = grid(-(-out.size // PART_THREADS))
    kernel((blocks,), (PART_THREADS,), (parts, np.int64(out.size), np.int32(len(parts)), out))
    return out


class Tiling(NamedTuple):
    """This says how `scatter_add` divides its work among blocks, and the work of a block among threads."""

    n_groups: int
    n_tiles: int
    each: int  # bundles of partitions of a thread
    threads: int
    group: int  # partitions of a block
    tile: int  # columns of a block
    per: int  # partitions of a bundle: neighbours that share a line of sums, and some threads
    lanes: int  # threads of a bundle
    pitch: int  # sums from line to line
    chunk: int  # rows that are in shared memory at a time
    capacity: int  # sums that are there

    @property
    def template(self) -> str:
        """What the kernel is instantiated with."""
        return f"{self.each}, {self.threads}"

    @property
    def arguments(self) -> tuple[int, ...]:
        """What the kernel is given."""
        return self[4:]


def tiling_of(membership, rows, n_segments) -> Tiling:
    """Return how `scatter_add` divides its work on CuPy's current device."""
    sizes = rows.itemsize, membership.codes.itemsize
    widths = membership.widths.astype(np.int64).tobytes()
    return _chosen(widths, rows.shape[1], *sizes, n_segments, *_device())


def _device() -> tuple[int, int]:
    """Return how many bytes of shared memory a block of CuPy's current device may ask for, and its processors."""
    import cupy

    runtime, device = cupy.cuda.runtime, cupy.cuda.Device().id
    shared = runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, device)
    return max(shared, SHARED_BYTES), runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, device)


class _Choice(NamedTuple):
    sectors: float  # of codes and rows that all blocks read, a row
    turns: float  # of shared memory of the busiest processor, a row
    tiling: Tiling


@functools.lru_cache(maxsize=256)
def _chosen(widths, n_columns, size, code_size, n_segments, shared, processors) -> Tiling:
    """Choose the tiling with the fewest sectors of those that keep the processors busy in few turns.

    Few are as many as tiles that are as wide as the banks take, if all processors have the same share of them.
    """
    of = np.frombuffer(widths, np.int64)
    room = shared - CODE_BYTES - ROW_BYTES
    share = n_segments / processors
    balanced = max(_busy(size), len(of) * -(-n_columns * size // BANKS) * share)
    choices = []
    for tile in _tiles(n_columns, size):
        row_sectors = _sectors(n_columns, size, tile)
        for group in _groups(len(of)):
            tiling = _laid(of, n_columns, size, code_size, group, tile, room)
            if tiling is None:
                continue
            turns = _turns(of, tiling, size, share)
            sectors = tiling.n_groups * row_sectors + tiling.n_tiles * _sectors(len(of), code_size, group)
            choices.append(_Choice(sectors, turns, tiling))
            fills = tiling.n_groups * tiling.n_tiles * share >= 1
            if fills and turns <= SLACK * balanced:
                break  # smaller groups read more
    return _best(choices, balanced, share, _busy(size))


def _best(choices, balanced, share, busy) -> Tiling:
    """Return the tiling with the fewest sectors of the quick ones that give each processor a block, or enough to do."""
    full = [x for x in choices if x.tiling.n_groups * x.tiling.n_tiles * share >= 1 or x.turns <= busy]
    some = full or choices
    quick = SLACK * max(balanced, min(x.turns for x in some))
    return min(x for x in some if x.turns <= quick).tiling


def _busy(size) -> int:
    """Return how many turns a row of a processor are hidden behind the way to shared memory and back."""
    return BUSY * size // BANKS


def _tiles(n_columns, size) -> list[int]:
    """Return widths of tiles: equal ones, those of whole sectors, and those of which several fill the banks."""
    line = BANKS // size
    equal = {-(-n_columns // n) for n in range(1, n_columns + 1)}
    whole = {-(-tile * size // SECTOR) * SECTOR // size for tile in equal}
    return sorted(tile for tile in equal | whole | {line // n for n in range(1, line + 1)} if tile <= n_columns)


def _groups(r) -> list[int]:
    """Return sizes of groups that are about equal, the largest first."""
    return sorted({-(-r // n) for n in range(1, r + 1)}, reverse=True)


def _sectors(n, size, step) -> float:
    """Return how many sectors a row of n numbers has, read in pieces of `step` numbers by different blocks.

    Rows follow each other without a gap, so that pieces start anywhere in a sector; a sector that has numbers of two
    rows is read once. The mean over all places of a row in a sector.
    """
    period = SECTOR // math.gcd(n * size, SECTOR)
    start = np.arange(period + 1)[:, None] * n * size + np.arange(0, n, step) * size
    stop = np.minimum(start + step * size, np.arange(1, period + 2)[:, None] * n * size)
    first, last = start // SECTOR, (stop - 1) // SECTOR
    return float((last - first + 1)[:-1].sum() - (first[1:] == last[:-1]).sum()) / period


def _laid(of, n_columns, size, code_size, group, tile, room) -> Tiling | None:
    """Return how a group and a tile lie in shared memory, or None where they do not fit.

    Partitions that would not fit alone are summed in device memory, with the others of their slots.
    """
    line = BANKS // size
    per = min(group, max(1, line // tile))
    lanes = -(-tile // line) * line
    pitch = tile if per == 1 else 1 << (per * tile - 1).bit_length()
    bundles = -(-group // per)
    shapes = (shape for shape in _shapes(bundles * lanes) if -(-bundles // shape[0]) * lanes <= shape[1])
    each, threads = next(shapes, (0, 0))
    by_codes = (CODE_BYTES - SECTOR) // code_size - group
    by_rows = (ROW_BYTES - SECTOR) // size - tile
    if not each or by_codes < 0 or by_rows < 0:
        return None
    lines = (room // size - threads) // pitch
    heights = _heights(of, group, per)
    if not ((heights <= lines) | (_heights(of, group, per, np.maximum) > lines)).all():
        return None
    chunk = 1 + min(by_codes // len(of), by_rows // n_columns)
    capacity = int(heights[heights <= lines].max(initial=0)) * pitch
    counts = -(-len(of) // group), -(-n_columns // tile)
    return Tiling(*counts, each, threads, group, tile, per, lanes, pitch, chunk, capacity)


def _shapes(active) -> Iterator[tuple[int, int]]:
    """Return the shapes of blocks to try for so many threads with a partition each: first those that keep BUSY."""
    return (shape for shape in SHAPES if shape[0] == 1 or active >= BUSY * shape[0])


def _heights(of, group, per, add=np.add) -> np.ndarray:
    """Return how many clusters the partitions of each slot of each group have: together, or the largest of them."""
    n_groups, bundles = -(-len(of) // group), -(-group // per)
    padded = np.zeros(n_groups * group, np.int64)
    padded[: len(of)] = of
    slots = np.zeros((n_groups, bundles * per), np.int64)
    slots[:, :group] = padded.reshape(n_groups, group)
    return add.reduce(slots.reshape(n_groups, bundles, per), axis=1)


def _turns(of, tiling, size, share) -> float:
    """Return how many turns of shared memory the sums of a row take on the busiest processor."""
    line = BANKS // size
    bundles = -(-tiling.group // tiling.per)
    turns = bundles * tiling.lanes // line
    far = int((_heights(of, tiling.group, tiling.per) * tiling.pitch > tiling.capacity).sum())
    of_far = far * bundles * tiling.n_tiles * tiling.lanes // line * FAR
    return max(_busy(size), math.ceil(tiling.n_groups * tiling.n_tiles * share) * turns) + of_far * share
