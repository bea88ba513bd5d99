"""This launches kernels/short.cu, with the name and the bits of cpu/kmeans/short.py, for `relabel` to read."""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._kernels.cpu.kmeans.short import WIDTH
from gpuensemble._kernels.cpu.vector.tiles import padded
from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 256  # of a block of shorten: as many as a row of the table has entries at most
WARP = 32
NOTHING = np.uintp(0)  # no address


class Short(NamedTuple):
    """This holds a table of costs in 16 bits, in the order of the arguments of `relabel`."""

    table: Any  # C x W, uint16; no address: there is none
    of_parts: Any  # r x W, of the costs of partitions; no address if these are one for all
    base: Any  # 2 x W, float32, in units: what the table leaves out, and the factor of a row's weight
    facts: Any  # float64: the unit, which is 0 if the table decides nothing, and three more
    bits: np.int32  # that the number of a cluster takes


def lanes_of(n_clusters: int) -> tuple[int, int]:
    """Return how many lanes serve a row, and how many pairs of entries each of them loads: 0 without a table."""
    if n_clusters > WIDTH:
        return WARP, 0
    pairs = 2 if n_clusters <= 16 else 4
    return next(lanes for lanes in (4, 8, 16, WARP) if n_clusters <= 2 * pairs * lanes), pairs


def shortened(given, given_parts, shape, offsets, complete, heaviest):
    """Round a table of costs to 16 bits; it is given with its pitch, the costs of partitions with how many they are."""
    import cupy

    (table, pitch), (parts, n_parts), (n_columns, n_clusters), r = given, given_parts, shape, len(offsets) - 1
    lanes, pairs = lanes_of(n_clusters)
    if not pairs:
        return Short(NOTHING, NOTHING, NOTHING, NOTHING, np.int32(0))
    width = 2 * lanes * pairs
    bits = np.int32((padded(n_clusters, np.int16) - 1).bit_length())
    middle, wide, of_parts = cupy.empty((r, n_clusters)), cupy.empty(r), cupy.empty((2, r))
    base, facts = cupy.empty((2, width), np.float32), cupy.empty(4)
    short = cupy.empty((n_columns, width), np.uint16)
    short_parts = cupy.empty((r, width), np.uint16) if n_parts > 1 else NOTHING
    name = TYPE[table.dtype.name]
    start = (table, offsets, *map(np.int32, (r, n_clusters, pitch, complete)), parts, np.int32(n_parts))
    function(f"middles<{name}>", "short.cu")((grid(r),), (WARP,), (*start, middle, wide, of_parts))
    made = (np.float64(heaviest), bits, np.int32(width), short, short_parts, base, facts)
    function(f"shorten<{name}>", "short.cu")((grid(r),), (THREADS,), (*start, middle, wide, of_parts, *made))
    return Short(short, short_parts, base, facts, bits)
