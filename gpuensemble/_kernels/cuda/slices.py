"""This launches kernels/slices.cu and kernels/jacobi.cu, with the arguments and the bits of cpu/slices."""

import numpy as np

from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 128  # of a block: THREADS of slices.cu
WARPS = 16  # of a block at most: WARPS of jacobi.cu


def shrink_slices(flat, layout, tau, weights):
    """Shrink the slices that `layout` finds in the real array `flat`, where real and imaginary parts alternate."""
    n_slices, n_rows, *sizes = layout
    kernel = function(f"shrink_slices<{TYPE[flat.dtype.name]}, {n_rows}>", "slices.cu")
    weights = np.uintp(0) if weights is None else weights
    arguments = (flat, np.int64(n_slices), *map(np.int64, sizes), np.float64(tau), weights)
    kernel((grid(n_slices),), (THREADS,), arguments)


def orthogonalise(rows, turns, wanted, tolerance, noise):
    """Turn the rows of each slice that is `wanted` until they are orthogonal, those of `turns` with them, in place."""
    n_slices, n_rows, length = rows.shape
    parts, real = 2 if rows.dtype.kind == "c" else 1, rows.real.dtype
    kernel = function(f"orthogonalise<{TYPE[real.name]}, {parts}>", "jacobi.cu")
    sizes = np.int64(n_slices), np.int32(n_rows), np.int64(length)
    arguments = (rows.view(real), turns.view(real), wanted, *sizes, np.float64(tolerance), np.float64(noise))
    kernel((grid(n_slices),), (32 * min(WARPS, (n_rows + 1) // 2),), arguments)
