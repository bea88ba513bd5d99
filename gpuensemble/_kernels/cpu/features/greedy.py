"""Greedy k-means++ of dense rows is one call on the CPU: where rows are few, Python between its steps takes longer.

`seeding` says what a device does, for several starts side by side; both choose the same rows, but for rounding.
"""

import math

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.features.steps import BLOCK
from gpuensemble._kernels.cpu.vector.dots import dot_rows
from gpuensemble._kernels.cpu.vector.tiles import DOT_ROWS, dot_width, side_by_side

UNITS = 2.0**62  # of all potentials together, at most


def choose_rows(part, constant, noise, cosine, factor, weight, places, n_tries, k):
    """Choose k rows, each the best of some that are drawn with a probability proportional to what they cost.

    Parameters
    ----------
    part : array, n x d
    constant, noise : arrays of n float64
        The distance of each row without a centre, and what is no more than rounding of one.
    cosine : bool
        Whether the distance is the cosine's; else it is the squared Euclidean one.
    factor : float
        How often the distance counts.
    weight : array of float64, n or one for all
    places : array of float64
        0 to 1: of the first row, then of each of the `n_tries` for each further one.

    Returns
    -------
    array of int64
        Fewer than k rows if no cost is left.
    """
    n, width, part = len(part), dot_width(n_tries, part.dtype), np.ascontiguousarray(part)
    table, scores = side_by_side(part.dtype, (part.shape[1], width), (BLOCK, width))
    fresh, costs, ends, rows = np.empty((n, n_tries)), np.full(n, np.inf), np.empty(n, np.int64), np.empty(k, np.int64)
    work = (table, scores, fresh, costs, ends, np.arange(n), np.empty(n_tries, np.int64), np.empty((2, n_tries)))
    return rows[: _choose(part, constant, noise, cosine, factor, weight, places, work, rows)]


@kernel
def _choose(part, constant, noise, cosine, factor, weight, places, work, rows):
    table, scores, fresh, costs, ends, numbers, tried, (offset, sums) = work
    step, n_tries = min(1, len(weight) - 1), len(tried)
    for i in range(len(rows)):
        total = _potentials(i == 0, costs, weight, step, ends)
        if total == 0:
            return i
        m, first = (1, 0) if i == 0 else (n_tries, 1 + (i - 1) * n_tries)
        for t in range(m):
            target = min(np.int64(places[first + t] * total), total - 1)
            tried[t] = _first_above(ends, target)
            offset[t] = _fill(part[tried[t]], cosine, factor, table, t)
            sums[t] = 0
        for begin in range(0, len(numbers), len(scores)):
            chosen = numbers[begin : begin + len(scores)]
            for j in range(0, len(chosen), DOT_ROWS):
                dot_rows(part, chosen, j, len(chosen), table, scores)
            for j in range(len(chosen)):
                x = begin + j
                for t in range(m):
                    cost = constant[x] + offset[t] + scores[j, t]
                    fresh[x, t] = min(0.0 if cost <= noise[x] else cost, costs[x])
                    sums[t] += fresh[x, t] * weight[x * step]
        best = 0
        for t in range(1, m):
            best = t if sums[t] < sums[best] else best
        rows[i] = tried[best]
        for x in range(len(costs)):
            costs[x] = fresh[x, best]
    return len(rows)


@inner
def _first_above(ends, target):
    """Return the first place of an ascending array whose number is above the target."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        if ends[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def _potentials(first, costs, weight, step, ends):
    """Add up what rows cost, or weigh before one is chosen, in whole units, one after another; return the sum."""
    most, total = 0.0, np.int64(0)
    for x in range(len(costs)):
        most = max(most, (1.0 if first else costs[x]) * weight[x * step])
    scale = UNITS / (len(costs) * most) if most > 0 else 0.0
    for x in range(len(costs)):
        total += np.int64((1.0 if first else costs[x]) * weight[x * step] * scale)
        ends[x] = total
    return total


@inner
def _fill(row, cosine, factor, table, t):
    """Put what a row costs as a centre into column t of the table; return what it costs all rows."""
    square = 0.0
    for j in range(len(row)):
        square += np.float64(row[j]) * np.float64(row[j])
    length = math.sqrt(square) if square > 0 else np.inf
    for j in range(len(row)):
        table[j, t] = -factor * (row[j] / length) if cosine else -2 * factor * row[j]
    return 0.0 if cosine else factor * square
