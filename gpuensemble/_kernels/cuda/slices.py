"""This launches kernels/slices.cu, jacobi.cu and pairs.cu, with the arguments and the bits of cpu/slices.

In pairs.cu all but cuFFT's transforms.
"""

import numpy as np

from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 128  # of a block: THREADS of slices.cu
WARPS = 16  # of a block at most: WARPS of jacobi.cu
PAIR_THREADS = 256  # of a block of pairs.cu
ROWS = 16  # of the spectrum that a thread of pair_gram sums up: ROWS of cpu/slices/pairs.py


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


def pair_spectrum(tensor, spectrum, basis):
    """Transform the rows of both matrices (Fourier), and sum the slices' Gram matrices; see cpu/slices/pairs.py."""
    import cupy

    n, n_columns = spectrum.shape[1:]
    for matrix, out in zip(tensor, spectrum, strict=True):
        out[...] = cupy.fft.rfft(matrix, axis=-1)
    n_blocks = -(-n // ROWS)
    sums = cupy.empty((n_blocks, 4, n_columns))
    kernel = function(f"pair_gram<{TYPE[tensor.dtype.name]}>", "pairs.cu")
    arguments = (_real(spectrum), _real(basis), np.int64(n), np.int64(n_columns), np.int32(ROWS), sums)
    kernel((grid(-(-n_blocks * n_columns // PAIR_THREADS)),), (PAIR_THREADS,), arguments)
    return sums


def pair_tensor(spectrum, factor, tensor):
    """Multiply the slices by their 2 x 2 factors in place, and transform them back; see cpu/slices/pairs.py."""
    import cupy

    n, n_columns = spectrum.shape[1:]
    kernel = function(f"pair_multiply<{TYPE[tensor.dtype.name]}>", "pairs.cu")
    blocks = grid(-(-n * n_columns // PAIR_THREADS))
    kernel((blocks,), (PAIR_THREADS,), (_real(spectrum), factor, np.int64(n), np.int64(n_columns)))
    for part, out in zip(spectrum, tensor, strict=True):
        out[...] = cupy.fft.irfft(part, tensor.shape[2], axis=-1)


def _real(array):
    """Return a view of real and imaginary parts in turns."""
    return array.view("float32" if array.dtype == "complex64" else "float64")
