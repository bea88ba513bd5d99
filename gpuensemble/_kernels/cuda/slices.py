"""This launches kernels/slices.cu, with the arguments and the bits of cpu/slices.py."""

import numpy as np

from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 128  # of a block: THREADS of slices.cu


def shrink_slices(flat, layout, tau, weights):
    """Shrink the slices that `layout` finds in the real array `flat`, where real and imaginary parts alternate."""
    n_slices, n_rows, *sizes = layout
    kernel = function(f"shrink_slices<{TYPE[flat.dtype.name]}, {n_rows}>", "slices.cu")
    weights = np.uintp(0) if weights is None else weights
    arguments = (flat, np.int64(n_slices), *map(np.int64, sizes), np.float64(tau), weights)
    kernel((grid(n_slices),), (THREADS,), arguments)
