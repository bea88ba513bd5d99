"""This launches kernels/lta.cu, with the names, the arguments and the bits of cpu/lta.py."""

import numpy as np

from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 256  # of a block: a warp for each of LINES rows of a tile


def lta_update(tensor, similarity, error, first, third, step):
    """Do what follows P in an iteration: E, B, C, the multipliers, and the next T in the place of P; see cpu/lta.py."""
    import cupy

    n = len(similarity)
    blocks = grid((-(-n // 32)) ** 2)
    largest = cupy.empty((blocks, THREADS // 32), tensor.dtype)
    kernel = function(f"lta_update<{TYPE[tensor.dtype.name]}>", "lta.cu")
    factors = map(tensor.dtype.type, step)
    kernel((blocks,), (THREADS,), (tensor, similarity, error, first, third, np.int64(n), *factors, largest))
    return largest
