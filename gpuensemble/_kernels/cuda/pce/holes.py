"""This launches kernels/holes.cu, with the name, the arguments and the bits of cpu/pce/holes.py."""

import numpy as np

from gpuensemble._kernels.cuda.membership import CODE, SHARED_BYTES
from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 128  # of a block


def impute(m, observed, points, rotations, weighted, lengths):
    """Fill holes, as `impute` of estimators/pce/steps.py does; the hole code in m is a hole that holds nothing yet."""
    import cupy

    (n, r), k = m.codes.shape, points.shape[1]
    lanes = next((size for size in (4, 8, 16) if m.widths.max() <= size), 32)
    kernel = function(f"impute<{TYPE[points.dtype.name]}, {CODE[m.codes.dtype.name]}, {lanes}>", "holes.cu")
    blocks, groups = grid(-(-n * lanes // THREADS)), THREADS // lanes
    shared = groups * k * points.itemsize
    rests = np.uintp(0)
    if shared > SHARED_BYTES:
        shared, rests = 0, cupy.empty((blocks * groups, k), points.dtype)
    tables = (points, rotations, weighted, lengths)
    arguments = (m.codes, observed.codes, m.offsets, np.int64(n), np.int32(r), *tables, np.int32(k), rests)
    kernel((blocks,), (THREADS,), arguments, shared_mem=shared)
