"""This works on two stacked matrices, with Fourier slices of m x 2; it is the CPU's twin of kernels/pairs.cu.

`pair_spectrum` transforms some rows at a time and adds up the 2 x 2 Gram matrices of all slices while the rows are in
the cache; `pair_tensor` multiplies by 2 x 2 factors on the way back. Both have names of cuda/slices.py, and the bits of
their twins but for the Fourier transform, which is NumPy's here and cuFFT's there.
"""

import numpy as np

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.compiling import kernel

ROWS = 16  # rows transformed at a time: their spectrum stays in the L2 cache


def pair_spectrum(tensor, spectrum, basis):
    """Transform the rows of both matrices (Fourier), and sum the Gram matrices in a basis over rows.

    Parameters
    ----------
    tensor : array, 2 x m x n
    spectrum : complex array, 2 x m x F, F = n // 2 + 1
        Is written.
    basis : array of complex128, 2 x F
        alpha and beta of each frequency: the columns (alpha, -beta') and (beta, alpha') are orthonormal.

    Returns
    -------
    array of float64, blocks of rows x 4 x F
        |y1|^2, |y2|^2, and real and imaginary part of y1' y2, for the slice [y1 y2] in that basis.
    """
    sums = np.zeros((-(-tensor.shape[1] // ROWS), 4, spectrum.shape[2]))

    def task(block):
        rows = slice(block * ROWS, (block + 1) * ROWS)
        np.fft.rfft(tensor[:, rows], axis=-1, out=spectrum[:, rows])
        _gram(spectrum[0, rows], spectrum[1, rows], basis[0], basis[1], *sums[block])

    threads.shared(task, range(len(sums)))
    return sums


def pair_tensor(spectrum, factor, tensor):
    """Multiply the slices by their 2 x 2 factors in place, and transform them back.

    Parameters
    ----------
    spectrum : complex array, 2 x m x F
    factor : array, 4 x F, of the real type of the spectrum
        Of each frequency the Hermitian matrix (w11, w22, re w12, im w12).
    tensor : array, 2 x m x n
        Is written.
    """
    _, m, n = tensor.shape

    def task(first):
        rows = slice(first, first + ROWS)
        _multiply(spectrum[0, rows], spectrum[1, rows], *factor)
        np.fft.irfft(spectrum[:, rows], n, axis=-1, out=tensor[:, rows])

    threads.shared(task, range(0, m, ROWS))


@kernel
def _gram(first, second, alpha, beta, one, two, re, im):
    """Add the products of some rows to the sums of each frequency."""
    for y in range(len(first)):
        for f in range(len(one)):
            z1, z2 = first[y, f], second[y, f]
            a, ai, b, bi = alpha[f].real, alpha[f].imag, beta[f].real, beta[f].imag
            u, ui, v, vi = z1.real, z1.imag, z2.real, z2.imag
            p, pi = (u * a - ui * ai) - (v * b + vi * bi), (u * ai + ui * a) - (vi * b - v * bi)
            q, qi = (u * b - ui * bi) + (v * a + vi * ai), (u * bi + ui * b) + (vi * a - v * ai)
            one[f] += p * p + pi * pi
            two[f] += q * q + qi * qi
            re[f] += p * q + pi * qi
            im[f] += p * qi - pi * q


@kernel
def _multiply(first, second, one, two, re, im):
    for y in range(len(first)):
        for f in range(len(one)):
            z1, z2 = first[y, f], second[y, f]
            u, ui, v, vi = z1.real, z1.imag, z2.real, z2.imag
            a, b, c, d = one[f], two[f], re[f], im[f]
            first[y, f] = complex(u * a + (v * c + vi * d), ui * a + (vi * c - v * d))
            second[y, f] = complex(v * b + (u * c - ui * d), vi * b + (ui * c + u * d))
