"""Launches kernels/lta.cu: names and arguments as in cpu/lta.py, same bits."""

import numpy as np

from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 256  # of a block: a warp for each of LINES rows of a tile
PAIR_ROWS = 16  # of the spectrum that a thread of pair_gram sums up: ROWS of cpu/lta.py


def lta_update(tensor, similarity, error, first, third, step):
    """What an iteration does after P: E, B, C, the multipliers, and the next T in the place of P; see cpu/lta.py."""
    import cupy

    n = len(similarity)
    blocks = grid((-(-n // 32)) ** 2)
    largest = cupy.empty((blocks, THREADS // 32), tensor.dtype)
    kernel = function(f"lta_update<{TYPE[tensor.dtype.name]}>", "lta.cu")
    factors = map(tensor.dtype.type, step)
    kernel((blocks,), (THREADS,), (tensor, similarity, error, first, third, np.int64(n), *factors, largest))
    return largest


def pair_spectrum(tensor, spectrum, basis):
    """The Fourier transform of the rows of both matrices, and sums of the slices' Gram matrices; see cpu/lta.py."""
    import cupy

    n, n_columns = spectrum.shape[1:]
    for matrix, out in zip(tensor, spectrum, strict=True):
        out[...] = cupy.fft.rfft(matrix, axis=-1)
    n_blocks = -(-n // PAIR_ROWS)
    sums = cupy.empty((n_blocks, 4, n_columns))
    kernel = function(f"pair_gram<{TYPE[tensor.dtype.name]}>", "lta.cu")
    arguments = (_real(spectrum), _real(basis), np.int64(n), np.int64(n_columns), np.int32(PAIR_ROWS), sums)
    kernel((grid(-(-n_blocks * n_columns // THREADS)),), (THREADS,), arguments)
    return sums


def pair_tensor(spectrum, factor, tensor):
    """The slices times their 2 x 2 factors, in place, and transformed back; see cpu/lta.py."""
    import cupy

    n, n_columns = spectrum.shape[1:]
    kernel = function(f"pair_multiply<{TYPE[tensor.dtype.name]}>", "lta.cu")
    blocks = grid(-(-n * n_columns // THREADS))
    kernel((blocks,), (THREADS,), (_real(spectrum), factor, np.int64(n), np.int64(n_columns)))
    for part, out in zip(spectrum, tensor, strict=True):
        out[...] = cupy.fft.irfft(part, n, axis=-1)


def _real(array):
    """Real and imaginary parts in turns: a view."""
    return array.view("float32" if array.dtype == "complex64" else "float64")
