"""The sum of T^k Z T^k over k, for a tridiagonal T: columns of Z in tiles, through which all steps go as one wave.

Row x of a step needs three rows of the step before it. So a tile of Z is read once, from top to bottom, and of each
step three rows are kept, in the second cache. A step spoils one more column at both sides of a tile: it has as many
columns more than it is to give.
"""

import functools

import numpy as np

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.vector.empty import empty

COLUMNS = 256  # that a tile gives
STEPS = 32  # that go through it at a time


def summed(diagonal, beside, z, steps):
    """Return T Z T + T^2 Z T^2 + .. + T^steps Z T^steps, float64.

    Parameters
    ----------
    diagonal, beside : arrays of n and of n - 1 float64
        T: what is beside its diagonal is there twice, so that it is symmetric.
    z : array, n x n float64
    steps : int, at least 1
    """
    own, before = np.pad(diagonal, 1), np.pad(beside, 2)  # T[x, x] at x + 1, and T[x - 1, x]: 0 outside of T
    found = None
    while steps:
        some = (steps - 1) % STEPS + 1
        task = functools.partial(_summed, own, before, z, found, some, np.empty_like(z, order="C"))
        threads.over_spans(len(z), COLUMNS, task, alone=len(z) <= COLUMNS)
        found, steps = task.args[-1], steps - some
    return found


@kernel
def _summed(own, before, z, start, steps, out, first, last):
    """Do Y <- T (Z + Y) T so many times from Y = `start`, or 0, for the columns first .. last - 1."""
    n, low = len(z), max(first - steps, 0)
    width = min(last + steps, n) - low
    kept, left = empty((steps + 1, 3, width + 2), np.float64), empty(width + 2, np.float64)  # with a 0 at both ends
    flat = kept.reshape(kept.size)
    for i in range(len(flat)):
        flat[i] = 0.0
    for i in range(n + steps):
        if i < n:
            row = kept[0, i % 3]
            for c in range(width):
                row[1 + c] = z[i, low + c]
            if start is not None:
                _add(start[i, low : low + width], row)
        for k in range(max(1, i - n + 1), min(i, steps) + 1):
            x = i - k
            rows, row = kept[k - 1], kept[k, x % 3]
            _step(rows[(x + 2) % 3], rows[x % 3], rows[(x + 1) % 3], own, before, x, low, left, row)
            if k < steps:
                _add(z[x, low : low + width], row)
            else:
                for c in range(first, last):
                    out[x, c] = row[1 + c - low]


@inner
def _step(above, middle, below, own, before, x, low, left, out):
    """Make row x of T Y T from three rows of Y, the columns from `low` on."""
    one, two, three = before[x + 1], own[x + 1], before[x + 2]
    for c in range(len(left)):
        left[c] = one * above[c] + two * middle[c] + three * below[c]
    for c in range(1, len(left) - 1):
        out[c] = before[low + c] * left[c - 1] + own[low + c] * left[c] + before[low + c + 1] * left[c + 1]


@inner
def _add(row, out):
    for c in range(len(row)):
        out[1 + c] += row[c]
