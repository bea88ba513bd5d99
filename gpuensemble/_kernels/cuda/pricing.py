"""This launches kernels/pricing.cu, with the names, the arguments and the bits of cpu/kmeans/pricing.py."""

import numpy as np

from gpuensemble._kernels.cpu.kmeans.pricing import KINDS
from gpuensemble._kernels.cuda.membership import memory_of, pitch_of
from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 128  # of a block
WARP = 32


def price(kind, counts, masses, columns, offsets, scale, unit, dtype, summed, total):
    """Return the table of costs, C x K, that of partitions, r x K, or 1 x K if `summed`, and two facts."""
    import cupy

    (n_columns, n_clusters), r = counts.shape, len(offsets) - 1
    pitch = pitch_of(n_clusters, np.dtype(dtype).itemsize)
    table = cupy.empty((n_columns, pitch), dtype)  # so that `relabel` and `assign` take it as it is
    parts, terms = (cupy.empty((r, n_clusters)) for _ in "pt")
    seen, of_clusters, facts = cupy.empty((r, n_clusters), np.int32), cupy.empty((n_clusters, 3)), cupy.empty(2)
    of_partitions = cupy.empty((1 if summed else r, n_clusters), dtype)
    size, name = (np.int32(r), np.int32(n_clusters)), TYPE[table.dtype.name]
    of_masses = (np.uintp(0), np.int32(0)) if masses is None else (masses, np.int32(len(masses)))
    given = (np.int32(KINDS.index(kind)), counts, *of_masses, *columns, offsets, *size, np.float64(scale))
    _each(f"price<{name}>", r * n_clusters, (*given, np.float64(unit), table, np.int32(pitch), parts, terms, seen))
    left = (np.int32(summed), np.float64(total), of_partitions, of_clusters, facts)
    _launch(f"add_up<{name}>", 1, (parts, terms, seen, *size, *left))
    return table[:, :n_clusters], of_partitions, facts


def drift(before, after, parts, offsets, complete, edges, safety):
    """Bound what new tables take off the margin of a row, by bin of its weight and by label, and its rounding error."""
    import cupy

    n_clusters, r, n_bins = after.shape[1], len(offsets) - 1, len(edges) - 1
    low, high, largest_entry = (cupy.empty((r, n_clusters)) for _ in "lhs")
    rounding = cupy.empty(n_bins)
    size, name = (np.int32(r), np.int32(n_clusters)), TYPE[after.dtype.name]
    memory, pitches = zip(*map(memory_of, (after if before is None else before, after)), strict=True)
    given = (*memory, *map(np.int32, pitches), offsets, *size)
    _each(f"changes<{name}>", r * n_clusters, (*given, low, high, largest_entry))
    unit = np.float64(safety * (r + 4) * float(np.finfo(after.dtype).eps))
    of_parts, bins = (parts[1], np.int32(len(parts[1]))), (edges, np.int32(n_bins))
    room = cupy.empty((THREADS, 2))
    _launch(f"round_off<{name}>", 1, (largest_entry, *size, *of_parts, unit, *bins, room, rounding))
    if before is None:
        return cupy.full((n_bins, n_clusters), np.inf, np.float32), rounding
    taken = cupy.empty((n_bins, n_clusters), np.float32)
    least, largest = (cupy.empty((n_bins + 1, n_clusters)) for _ in "ll")
    of_edges = (np.int32(len(parts[1])), np.int32(complete), edges, np.int32(n_bins + 1))
    _each(f"bound<{name}>", (n_bins + 1) * n_clusters, (low, high, *size, *parts, *of_edges, least, largest))
    _launch("take", grid(n_bins), (least, largest, np.int32(n_bins), np.int32(n_clusters), taken), WARP)
    return taken, rounding


def _each(expression, n, arguments):
    """Launch a kernel with a thread for each of n cells."""
    _launch(expression, grid(-(-n // THREADS)), arguments)


def _launch(expression, blocks, arguments, threads=THREADS):
    function(expression, "pricing.cu")((blocks,), (threads,), arguments)
