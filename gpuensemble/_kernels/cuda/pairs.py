"""This launches kernels/pairs.cu, with names, arguments and bits of cpu/slices/pairs.py, but for cuFFT's transforms."""

import numpy as np

from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 256  # of a block
ROWS = 16  # of the spectrum that a thread of pair_gram sums up: ROWS of cpu/slices/pairs.py


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
    kernel((grid(-(-n_blocks * n_columns // THREADS)),), (THREADS,), arguments)
    return sums


def pair_tensor(spectrum, factor, tensor):
    """Multiply the slices by their 2 x 2 factors in place, and transform them back; see cpu/slices/pairs.py."""
    import cupy

    n, n_columns = spectrum.shape[1:]
    kernel = function(f"pair_multiply<{TYPE[tensor.dtype.name]}>", "pairs.cu")
    blocks = grid(-(-n * n_columns // THREADS))
    kernel((blocks,), (THREADS,), (_real(spectrum), factor, np.int64(n), np.int64(n_columns)))
    for part, out in zip(spectrum, tensor, strict=True):
        out[...] = cupy.fft.irfft(part, tensor.shape[2], axis=-1)


def _real(array):
    """Return a view of real and imaginary parts in turns."""
    return array.view("float32" if array.dtype == "complex64" else "float64")
