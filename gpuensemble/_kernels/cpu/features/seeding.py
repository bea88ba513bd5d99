"""First centres of k-means: greedy k-means++ for several starts side by side, and QR with pivoting.

It is the CPU's twin of kernels/seeding.cu, and has its bits. Of k-means++ the CPU has a faster way to the same rows
(`_kmeans.features.seeding`); these functions say what the device does, and take its arguments.
"""

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.features.lanes import LANES, total
from gpuensemble._kernels.cpu.vector.empty import empty

SIDE_BY_SIDE = 64  # rows whose lanes stay in the first cache


def draw_rows(step, places, tries, sizes, rows, weight, fresh, costs, totals, scales, drawn, chosen, found):
    """Choose the best of the rows that were tried, and draw those to be tried next.

    Parameters
    ----------
    step : int
        How many rows are chosen; 0 draws the first.
    places : array of float64, S x p
        0 to 1, of each start: for the first row, then for each try of each further one.
    tries, sizes : arrays of S int32
        How many rows a start draws at a time, and how many it chooses.
    rows : array of int64, S x m, or None
        The rows that a start draws from; None: all.
    weight : array of float64, n or one for all
    fresh : array of float64, S x m x t
    costs : array of float64, S x m
        Is written: the distance of rows from the nearest one chosen.
    totals : array of int64, S x t
        Becomes 0.
    scales : array of S float64
        Is written: units of the totals.
    drawn : array of int64, S x t
        Is written: the rows to be tried.
    chosen : array of int64, S x k
        Is written, column step - 1.
    found : array of S int32
        Is written: how many rows had a cost left when they were drawn.
    """
    _draw_rows(step, places, tries, sizes, rows, weight, fresh, costs, totals, scales, drawn, chosen, found)


def try_rows(
    step, part, constant, cosine, factor, noise, tries, sizes, rows, weight, scales, drawn, costs, fresh, totals
):
    """Find what costs become with each of the rows that are drawn, and their sums.

    Parameters
    ----------
    step : int
    part : array, n x d
    constant : array of n float64
        The distance of each row without a centre.
    cosine : bool
        Whether the distance is the cosine's; else it is the squared Euclidean one.
    factor : float
        How often the distance counts.
    noise : float
        A distance of no more than this part of the constant is 0.
    tries, sizes, rows, weight, scales, drawn, costs
        As in `draw_rows`.
    fresh : array of float64, S x m x t
        Is written.
    totals : array of int64, S x t
        Is added to, but in step 0, whose only try needs none.
    """
    how = (cosine, factor, noise, tries, sizes, rows, weight, scales, drawn, costs)
    _try_rows(step, part, constant, *how, fresh, totals)


def pivots(x, k):
    """Choose k rows of x, n x d float64, each the longest beyond the span of those before it, the first of equals.

    Returns
    -------
    rows : array of k int64
    squares : array of k float64
        Of the length beyond the span.
    """
    (n, d), rows, squares = x.shape, np.empty(k, np.int64), np.empty(k)
    blocks = np.zeros((-(-n // SIDE_BY_SIDE), SIDE_BY_SIDE, d))  # rows beyond the last are 0, and not chosen
    blocks.reshape(-1, d)[:n] = x
    _pivots(blocks.transpose(0, 2, 1).copy(), np.empty(d), np.empty((LANES, SIDE_BY_SIDE)), rows, squares)
    return rows, squares


@kernel
def _draw_rows(step, places, tries, sizes, rows, weight, fresh, costs, totals, scales, drawn, chosen, found):
    m, weight_step = costs.shape[1], min(1, len(weight) - 1)
    for s in range(len(sizes)):
        if step > sizes[s]:
            continue
        best, n = 0, 1 if step == 0 else tries[s]
        if step > 0:
            for t in range(1, n):
                if totals[s, t] < totals[s, best]:
                    best = t
            chosen[s, step - 1] = drawn[s, best]
        if step == sizes[s]:
            continue
        most = 0.0
        for y in range(m):
            costs[s, y] = fresh[s, y, best] if step > 0 else np.inf
            most = max(most, _potential(step, costs, rows, weight, weight_step, s, y))
        scale = 4611686018427387904.0 / (m * (most if most > 0 else 1.0))
        total = np.int64(0)
        for y in range(m):
            total += np.int64(_potential(step, costs, rows, weight, weight_step, s, y) * scale)
        for t in range(n):
            place = places[s, 0 if step == 0 else 1 + (step - 1) * n + t]
            target = np.int64(place * total)
            target = min(target, total - 1)
            y, end = 0, np.int64(_potential(step, costs, rows, weight, weight_step, s, 0) * scale)
            while end <= target:
                y += 1
                end += np.int64(_potential(step, costs, rows, weight, weight_step, s, y) * scale)
            drawn[s, t] = y if rows is None else rows[s, y]
        totals[s] = 0
        scales[s] = scale
        if most > 0:
            found[s] = step + 1


@inner
def _potential(step, costs, rows, weight, weight_step, s, y):
    """Return the cost of a row times its weight; before a row is chosen, its weight."""
    own = weight[(y if rows is None else rows[s, y]) * weight_step]
    return costs[s, y] * own if step > 0 else own


@kernel
def _try_rows(
    step, part, constant, cosine, factor, noise, tries, sizes, rows, weight, scales, drawn, costs, fresh, totals
):
    lanes, squares, weight_step = empty(LANES, np.float64), empty(LANES, np.float64), min(1, len(weight) - 1)
    for s in range(len(sizes)):
        if step >= sizes[s]:
            continue
        n = 1 if step == 0 else tries[s]
        for y in range(costs.shape[1]):
            row = y if rows is None else rows[s, y]
            for t in range(n):
                other = drawn[s, t]
                lanes[:] = 0
                squares[:] = 0
                for j in range(part.shape[1]):
                    a, b = np.float64(part[row, j]), np.float64(part[other, j])
                    lanes[j % LANES] += a * b if cosine else (a - b) * (a - b)
                    squares[j % LANES] += b * b
                found, square = total(lanes), total(squares)
                cost = factor * found
                if cosine:
                    cost = constant[row] - (factor * (found / np.sqrt(square)) if square > 0 else 0.0)
                if cost <= noise * abs(constant[row]):
                    cost = 0.0
                cost = min(cost, costs[s, y])
                fresh[s, y, t] = cost
                if n > 1:
                    totals[s, t] += np.int64(cost * weight[row * weight_step] * scales[s])


@kernel
def _pivots(x, pivot, lanes, rows, squares):
    """Work on blocks of rows, whose entries lie side by side: blocks x d x rows of a block."""
    d, size, square = x.shape[1], x.shape[2], 1.0
    for i in range(len(rows)):
        newest, largest = 0, -1.0
        for block in range(len(x)):
            some = x[block]
            if i > 0:
                _take_off(some, pivot, square, lanes)
            _clear(lanes)
            for j in range(d):
                for y in range(size):
                    lanes[j % LANES, y] += some[j, y] * some[j, y]
            _add_up(lanes)
            for y in range(size):
                if lanes[0, y] > largest:
                    newest, largest = block * size + y, lanes[0, y]
        rows[i], squares[i] = newest, largest
        for j in range(d):
            pivot[j] = x[newest // size, j, newest % size]
        square = max(largest, 1e-300)


@inner
def _take_off(some, pivot, square, lanes):
    """Take off the rows of a block what they have along the pivot, whose square is given."""
    _clear(lanes)
    for j in range(len(some)):
        for y in range(some.shape[1]):
            lanes[j % LANES, y] += some[j, y] * pivot[j]
    _add_up(lanes)
    for y in range(some.shape[1]):
        lanes[0, y] /= square
    for j in range(len(some)):
        for y in range(some.shape[1]):
            some[j, y] -= lanes[0, y] * pivot[j]


@inner
def _clear(lanes):
    for lane in range(LANES):
        for y in range(lanes.shape[1]):
            lanes[lane, y] = 0.0


@inner
def _add_up(lanes):
    """Do `total` for each row of a block: its sum is put into the first lane."""
    half = LANES // 2
    while half > 2:
        for lane in range(half):
            for y in range(lanes.shape[1]):
                lanes[lane, y] += lanes[lane + half, y]
        half //= 2
    for y in range(lanes.shape[1]):
        lanes[0, y] = (lanes[0, y] + lanes[2, y]) + (lanes[1, y] + lanes[3, y])
