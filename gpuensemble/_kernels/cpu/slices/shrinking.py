"""This thresholds singular values of small slices on the CPU, with the arguments and the bits of kernels/slices.cu.

A slice X has V rows of n complex numbers, V at most 8. Its Gram matrix X X' = U diag(sigma^2) U' gives the factor
U diag((1 - tau / sigma)_+) U', which is applied to X in place. slices.cu says what is done about small singular values.
"""

import numpy as np

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.vector.empty import empty

LANES = 128  # sums that run side by side, as the threads of a block on CUDA do; added up at the end
CARE = 1e-4  # of the largest singular value: smaller ones take a second look
EPSILON = 2.0**-52
SWEEPS = 20  # of Jacobi's method at most
INLINE = 1 << 15  # fewer numbers than this are not worth a second thread


def shrink_slices(flat, layout, tau, weights):
    """Shrink the slices that `layout` finds in the real array `flat`, where real and imaginary parts alternate."""
    weights = np.ones(layout.n_rows) if weights is None else weights

    def task(first, last):
        _shrink(flat, *layout, tau, weights, first, last)

    span = -(-layout.n_slices // (4 * threads.count()))
    few = layout.n_slices * layout.n_rows * layout.length < INLINE
    threads.over_spans(layout.n_slices, span, task, alone=few)


@kernel
def _shrink(flat, n_slices, n_rows, length, slice_stride, row_stride, step, period, tau, weights, first, last):
    real, imag = empty((n_rows, LANES), np.float64), empty((n_rows, LANES), np.float64)
    work_real, work_imag = empty((n_rows, LANES), np.float64), empty((n_rows, LANES), np.float64)
    sums = empty((n_rows * n_rows, LANES), np.float64)
    gram = empty((2, n_rows, n_rows), np.float64)
    rotation, factor = empty((2, n_rows, n_rows), np.float64), empty((2, n_rows, n_rows), np.float64)
    narrow = factor.astype(flat.dtype)
    start, sign = empty(n_rows, np.int64), empty(n_rows, np.float64)
    for f in range(first, last):
        for v in range(n_rows):
            if period > 0:  # rows 2 j and 2 j + 1 are a row of frequency f and the conjugate of that of -f
                place = (period - f) % period if v % 2 else f
                start[v], sign[v] = place * slice_stride + v // 2 * row_stride, -1.0 if v % 2 else 1.0
            else:
                start[v], sign[v] = f * slice_stride + v * row_stride, 1.0
        rotation[:] = 0
        for v in range(n_rows):
            rotation[0, v, v] = 1
        for look in range(2):
            _sum_products(flat, start, sign, step, length, rotation, look, real, imag, work_real, work_imag, sums)
            _add_up(sums, gram)
            _diagonalise(gram, rotation)
            if not _factor(gram, rotation, tau, weights, factor):
                break
        narrow[:] = factor
        _apply(flat, start, sign, step, length, narrow)


@kernel
def _load(flat, start, sign, step, at, width, real, imag):
    for v in range(len(start)):
        origin = 2 * (start[v] + at * step)
        if step == 1:
            for lane in range(width):
                real[v, lane] = flat[origin + 2 * lane]
                imag[v, lane] = sign[v] * flat[origin + 2 * lane + 1]
        else:
            for lane in range(width):
                real[v, lane] = flat[origin + 2 * step * lane]
                imag[v, lane] = sign[v] * flat[origin + 2 * step * lane + 1]


@kernel
def _sum_products(flat, start, sign, step, length, rotation, look, real, imag, work_real, work_imag, sums):
    """Sum the products x_i conj(x_j) of the rows over every LANES-th place; at the second look, those of U' x."""
    n_rows = len(start)
    sums[:] = 0
    for at in range(0, length, LANES):
        width = min(LANES, length - at)
        _load(flat, start, sign, step, at, width, real, imag)
        left, right = real, imag
        if look:
            _rotate(rotation, real, imag, width, work_real, work_imag)
            left, right = work_real, work_imag
        cell = 0
        for i in range(n_rows):
            for lane in range(width):
                sums[cell, lane] += left[i, lane] * left[i, lane] + right[i, lane] * right[i, lane]
            cell += 1
            for j in range(i + 1, n_rows):
                for lane in range(width):
                    sums[cell, lane] += left[i, lane] * left[j, lane] + right[i, lane] * right[j, lane]
                for lane in range(width):
                    sums[cell + 1, lane] += right[i, lane] * left[j, lane] - left[i, lane] * right[j, lane]
                cell += 2


@kernel
def _rotate(rotation, real, imag, width, out_real, out_imag):
    """Put U' x into the outputs."""
    n_rows = len(real)
    for i in range(n_rows):
        out_real[i, :width] = 0
        out_imag[i, :width] = 0
        for v in range(n_rows):
            a, b = rotation[0, v, i], -rotation[1, v, i]
            for lane in range(width):
                out_real[i, lane] += a * real[v, lane] - b * imag[v, lane]
                out_imag[i, lane] += a * imag[v, lane] + b * real[v, lane]


@kernel
def _add_up(sums, gram):
    """Add up the sums of 32 lanes in pairs, then those of the groups one after the other."""
    n_rows = gram.shape[1]
    cell = 0
    for i in range(n_rows):
        gram[0, i, i], gram[1, i, i] = _total(sums[cell]), 0
        cell += 1
        for j in range(i + 1, n_rows):
            real, imag = _total(sums[cell]), _total(sums[cell + 1])
            gram[0, i, j], gram[1, i, j], gram[0, j, i], gram[1, j, i] = real, imag, real, -imag
            cell += 2


@kernel
def _total(lanes):
    total = 0.0
    for group in range(0, LANES, 32):
        step = 16
        while step:
            for lane in range(group, group + step):
                lanes[lane] += lanes[lane + step]
            step //= 2
        total += lanes[group]
    return total


@kernel
def _diagonalise(gram, rotation):
    """Make G diagonal by Jacobi's method; U collects the rotations. With two rows a single one is exact."""
    n_rows = gram.shape[1]
    for _ in range(SWEEPS):
        turned = False
        for p in range(n_rows - 1):
            for q in range(p + 1, n_rows):
                re, im = gram[0, p, q], gram[1, p, q]
                square = re * re + im * im
                if not square > EPSILON * EPSILON * abs(gram[0, p, p] * gram[0, q, q]):
                    continue
                turned = True
                size = np.sqrt(square)
                slope = (gram[0, q, q] - gram[0, p, p]) / (2 * size)
                tangent = 1 / (abs(slope) + np.sqrt(slope * slope + 1))
                if slope < 0:
                    tangent = -tangent
                cosine = 1 / np.sqrt(tangent * tangent + 1)
                a, b = tangent * cosine * (re / size), tangent * cosine * (im / size)
                for k in range(n_rows):
                    _turn(rotation, k, p, q, cosine, a, b)
                    if k not in (p, q):
                        _turn(gram, k, p, q, cosine, a, b)
                        gram[0, p, k], gram[1, p, k] = gram[0, k, p], -gram[1, k, p]
                        gram[0, q, k], gram[1, q, k] = gram[0, k, q], -gram[1, k, q]
                gram[0, p, p] -= tangent * size
                gram[0, q, q] += tangent * size
                gram[:, p, q] = 0
                gram[:, q, p] = 0
        if not turned:
            break


@kernel
def _turn(matrix, k, p, q, cosine, a, b):
    """Turn columns p and q of row k: (x, y) becomes (c x - conj(s) y, s x + c y), s = a + i b."""
    x, xi, y, yi = matrix[0, k, p], matrix[1, k, p], matrix[0, k, q], matrix[1, k, q]
    matrix[0, k, p] = cosine * x - (a * y + b * yi)
    matrix[1, k, p] = cosine * xi - (a * yi - b * y)
    matrix[0, k, q] = (a * x - b * xi) + cosine * y
    matrix[1, k, q] = (a * xi + b * x) + cosine * yi


@kernel
def _factor(gram, rotation, tau, weights, factor):
    """Set U diag((1 - threshold / sigma)_+) U'; tell whether a singular value that counts is too small to be exact."""
    n_rows = gram.shape[1]
    largest = 0.0
    for i in range(n_rows):
        largest = max(largest, gram[0, i, i])
    largest = np.sqrt(largest)
    factor[:] = 0
    unsure = False
    for i in range(n_rows):
        square, rank = gram[0, i, i], 0
        for j in range(n_rows):
            other = gram[0, j, j]
            rank += other > square or (other == square and j < i)
        sigma, threshold = np.sqrt(max(square, 0.0)), tau * weights[rank]
        unsure |= max(sigma, threshold) < CARE * largest
        if sigma > threshold:
            share = 1 - threshold / sigma
            for j in range(n_rows):
                a, b = share * rotation[0, j, i], share * rotation[1, j, i]
                for k in range(n_rows):
                    c, d = rotation[0, k, i], rotation[1, k, i]
                    factor[0, j, k] += a * c + b * d
                    factor[1, j, k] += b * c - a * d
    return unsure


@kernel
def _apply(flat, start, sign, step, length, factor):
    """Multiply the slice by the factor in place."""
    n_rows = len(start)
    real, imag = empty((n_rows, LANES), flat.dtype), empty((n_rows, LANES), flat.dtype)
    out_real, out_imag = empty(LANES, flat.dtype), empty(LANES, flat.dtype)
    for at in range(0, length, LANES):
        width = min(LANES, length - at)
        _load(flat, start, sign, step, at, width, real, imag)
        for i in range(n_rows):
            out_real[:width] = 0
            out_imag[:width] = 0
            for j in range(n_rows):
                a, b = factor[0, i, j], factor[1, i, j]
                for lane in range(width):
                    out_real[lane] += a * real[j, lane] - b * imag[j, lane]
                    out_imag[lane] += a * imag[j, lane] + b * real[j, lane]
            origin = 2 * (start[i] + at * step)
            for lane in range(width):
                flat[origin + 2 * step * lane] = out_real[lane]
                flat[origin + 2 * step * lane + 1] = sign[i] * out_imag[lane]
