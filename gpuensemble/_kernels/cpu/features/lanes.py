"""Sums in the order of a warp of CUDA, for twins that are to have its bits: each lane adds up every 32nd number."""

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner

LANES = 32


@inner
def sum_of_lanes(values, first, last):
    """Add up values first .. last - 1: each lane every 32nd, then lanes in pairs."""
    lanes = np.zeros(LANES)
    for c in range(first, last):
        lanes[(c - first) % LANES] += values[c]
    return total(lanes)


@inner
def dot(a, b, lanes):
    """Multiply two rows, each lane every 32nd column; `lanes` is room for them."""
    whole = len(a) // LANES * LANES
    lanes[:] = 0
    for first in range(0, whole, LANES):
        for lane in range(LANES):
            lanes[lane] += a[first + lane] * b[first + lane]
    for j in range(whole, len(a)):
        lanes[j - whole] += a[j] * b[j]
    return total(lanes)


@inner
def total(lanes):
    """Add up lanes in pairs, in place; each loop has a length that the compiler knows, so that it is vectorised."""
    for lane in range(16):
        lanes[lane] += lanes[lane + 16]
    for lane in range(8):
        lanes[lane] += lanes[lane + 8]
    for lane in range(4):
        lanes[lane] += lanes[lane + 4]
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
