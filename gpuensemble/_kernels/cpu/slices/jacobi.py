"""Jacobi rotations make the rows of matrices orthogonal, with the arguments and the bits of kernels/jacobi.cu.

jacobi.cu says in which order pairs of rows meet, and which of them are turned. On the CPU LAPACK is faster, and is
called instead: this is what the CUDA kernel is held against.
"""

import numpy as np

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.vector.empty import empty

LANES = 32  # sums that run side by side, as the lanes of a warp do; added up at the end
SWEEPS = 100  # over all pairs of rows at most
INLINE = 1 << 14  # fewer numbers than this are not worth a second thread


def orthogonalise(rows, turns, wanted, tolerance, noise):
    """Turn the rows of each slice that is `wanted` until they are orthogonal, and those of `turns` with them, in place.

    Two rows count as orthogonal if the cosine between them is at most `tolerance`, and a row as zero if its length is
    at most `noise` times that of the longest one.
    """
    real, parts = rows.real.dtype, 2 if rows.dtype.kind == "c" else 1

    def task(first, last):
        _orthogonalise(rows.view(real), turns.view(real), wanted, parts, tolerance, noise, first, last)

    span = -(-len(rows) // (4 * threads.count()))
    threads.over_spans(len(rows), span, task, alone=rows.size < INLINE)


@kernel
def _orthogonalise(rows, turns, wanted, parts, tolerance, noise, first, last):
    n_rows = rows.shape[1]
    size = n_rows + n_rows % 2
    sums, narrow = empty((4, LANES), np.float64), empty(3, rows.dtype)
    for f in range(first, last):
        sweep, turned = 0, wanted[f]
        while turned and sweep < SWEEPS:
            largest = 0.0
            for i in range(n_rows):
                square = _products(rows[f, i], rows[f, i], parts, sums)[0]
                largest = max(largest, square)
            floor = noise * noise * largest
            turned = False
            for lap in range(size - 1):
                for k in range(size // 2):
                    one = (lap + k) % (size - 1)
                    two = (lap - k + size - 1) % (size - 1) if k else size - 1
                    p, q = min(one, two), max(one, two)
                    if q < n_rows and _rotation(rows[f, p], rows[f, q], parts, tolerance, floor, sums, narrow):
                        _turn(rows[f, p], rows[f, q], parts, narrow)
                        _turn(turns[f, p], turns[f, q], parts, narrow)
                        turned = True
            sweep += 1


@inner
def _products(x, y, parts, sums):
    """Return |x|^2, |y|^2 and x y', in double precision."""
    sums[:] = 0
    length = len(x) // parts
    for at in range(0, length, LANES):
        width = min(LANES, length - at)
        if parts == 1:
            for lane in range(width):
                a, c = np.float64(x[at + lane]), np.float64(y[at + lane])
                sums[0, lane] += a * a
                sums[1, lane] += c * c
                sums[2, lane] += a * c
        else:
            for lane in range(width):
                a, b = np.float64(x[2 * (at + lane)]), np.float64(x[2 * (at + lane) + 1])
                c, d = np.float64(y[2 * (at + lane)]), np.float64(y[2 * (at + lane) + 1])
                sums[0, lane] += a * a + b * b
                sums[1, lane] += c * c + d * d
                sums[2, lane] += a * c + b * d
                sums[3, lane] += b * c - a * d
    return _total(sums[0]), _total(sums[1]), _total(sums[2]), _total(sums[3])


@inner
def _total(lanes):
    step = LANES // 2
    while step:
        for lane in range(step):
            lanes[lane] += lanes[lane + step]
        step //= 2
    return lanes[0]


@inner
def _rotation(x, y, parts, tolerance, floor, sums, narrow):
    """Tell whether rows x and y are to be turned, and by what: 1 - cosine, real and imaginary part of the sine."""
    xx, yy, re, im = _products(x, y, parts, sums)
    square = re * re + im * im
    if not (square > tolerance * tolerance * xx * yy and xx > floor and yy > floor):
        return False
    size = np.sqrt(square)
    slope = (yy - xx) / (2 * size)
    tangent = 1 / (abs(slope) + np.sqrt(slope * slope + 1))
    if slope < 0:
        tangent = -tangent
    cosine = 1 / np.sqrt(tangent * tangent + 1)
    sine = tangent * cosine
    narrow[0] = sine * sine / (1 + cosine)
    narrow[1] = sine * (re / size)
    narrow[2] = sine * (im / size)
    return True


@inner
def _turn(x, y, parts, narrow):
    """Replace the rows by x - (h x + s y) and y + (conj(s) x - h y), s = a + i b."""
    h, a, b = narrow[0], narrow[1], narrow[2]
    if parts == 1:
        for i in range(len(x)):
            u, v = x[i], y[i]
            x[i] = u - (h * u + a * v)
            y[i] = v + (a * u - h * v)
    else:
        for i in range(0, len(x), 2):
            u, ui, v, vi = x[i], x[i + 1], y[i], y[i + 1]
            x[i] = u - (h * u + (a * v - b * vi))
            x[i + 1] = ui - (h * ui + (a * vi + b * v))
            y[i] = v + ((a * u + b * ui) - h * v)
            y[i + 1] = vi + ((a * ui - b * u) - h * vi)
