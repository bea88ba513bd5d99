"""This launches kernels/rotations.cu, with names and arguments of cpu/pce/rotations.py, and the counts of its first."""

import numpy as np

from gpuensemble._kernels.cuda import source
from gpuensemble._kernels.cuda.membership import CODE, SHARED_BYTES
from gpuensemble._kernels.cuda.source import function, grid

THREADS = 256  # of a block of count_pairs, and of programme: 8 pairs of partitions
TURN_WARPS = 16  # of the block of rotate at most: more would not have enough registers


def count_pairs(m, weight, first, last):
    """Count the rows of H.T @ diag(weight) @ H of the partitions from `first` to before `last`, in integers."""
    import cupy

    (n, r), widths = m.codes.shape, m.widths
    capacity = SHARED_BYTES // 8
    bounds = _groups(widths.tolist(), capacity // int(widths[first:last].max()))
    n_groups = len(bounds) - 1
    out = cupy.zeros((int(widths[first:last].sum()), m.n_columns), np.int64)
    tasks = (last - first) * n_groups
    # Each block clears and adds up its cells once: few blocks per task, but enough of them in all.
    blocks = min(-(-n // THREADS), -(-source.MAX_BLOCKS // tasks), 256)
    numbers = (np.int64(n), *map(np.int32, (r, first, last)))
    weight = np.uintp(0) if weight is None else weight
    arguments = (
        m.codes,
        m.offsets,
        *numbers,
        cupy.asarray(bounds),
        np.int32(n_groups),
        weight,
        np.int32(capacity),
        out,
    )
    kernel = function(f"count_pairs<{CODE[m.codes.dtype.name]}>", "rotations.cu")
    kernel((blocks, grid(tasks)), (THREADS,), arguments, shared_mem=SHARED_BYTES)
    return out


def _groups(widths, most):
    """Return the bounds of groups of neighbouring partitions: together at most so wide, or a single one."""
    bounds, total = [0], 0
    for i, width in enumerate(widths):
        if i > bounds[-1] and (total + width > most or i - bounds[-1] == THREADS):
            bounds.append(i)
            total = 0
        total += width
    return np.array([*bounds, len(widths)], np.int32)


def programme(m, tables, rows, counts, unit, first, last):
    """Return G, and f as its last column, of the programme for the weights: (last - first) x (r + 1) numbers."""
    import cupy

    r, k = len(m.widths), tables.shape[1]
    out = cupy.empty((last - first, r + 1))
    numbers = map(np.int32, (r, first, last, k))
    arguments = (m.offsets, *numbers, tables, rows, counts, np.float64(unit), out)
    function("programme<double>", "rotations.cu")((grid(-(-out.size * 32 // THREADS)),), (THREADS,), arguments)
    return out


def rotate(ends, tables, rows, closeness, counts=None, unit=1.0, share=None, first=0, last=1):
    """Replace R_i of each partition from `first` to before `last`, one after another; see cpu/pce/rotations.py."""
    import cupy

    n_columns, k = tables.shape
    lines = min(n_columns, k)  # of the tallest partition, at most
    nothing = np.uintp(0)
    weighted = nothing if counts is None else cupy.empty_like(tables)
    work = cupy.empty(lines * (n_columns + k))
    numbers = (*map(np.int32, (first, last, n_columns, k)), rows)
    optional = (nothing, np.float64(1)) if counts is None else (counts, np.float64(unit))
    share = nothing if share is None else share
    threads = 32 * min(TURN_WARPS, -(-lines // 2))
    arguments = (ends, *numbers, *optional, np.float64(closeness), share, tables, weighted, work)
    function("rotate<double>", "rotations.cu")((1,), (threads,), arguments)
