"""`assign` for many clusters on the CPU: costs in 16 bits leave two clusters of most rows, whose costs are added up.

The two are sure to be the cheapest where the third cheapest in 16 bits is too far from the second for any error. Their
costs are sums in the order of `assign_rows`, so that they have its bits. A few in a hundred rows are left to it.
"""

import math

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.kmeans import short
from gpuensemble._kernels.cpu.kmeans.lookups import add_short_parts, sum_short_rows
from gpuensemble._kernels.cpu.kmeans.short import three_least
from gpuensemble._kernels.cpu.rows import assign_rows
from gpuensemble._kernels.cpu.vector.empty import empty
from gpuensemble._kernels.cpu.vector.tiles import LINE, aligned

BLOCK = 128  # rows worked on together: their sums stay in the first cache
LINES = 3  # of a row of the table: of fewer, 16 bits take nothing off
WORTH = 2  # labels that are looked up for each entry that is rounded
SAFETY = 4.0  # rounding errors are taken to be this much larger than their bound


def shortened(membership, table, per_partition, weight):
    """Return tables in 16 bits, whose error is that of their own and of the costs; None where they would not pay.

    They would not where costs may be infinite, either.
    """
    n_labels, n_clusters = membership.codes.size, table.shape[1]
    if n_clusters * table.itemsize <= (LINES - 1) * LINE or not short.fits(n_clusters) or n_labels < WORTH * table.size:
        return None
    r, limits = len(membership.widths), np.finfo(table.dtype)
    heaviest, largest, of_parts = (max(float(x.max()), -float(x.min())) for x in (weight, table, per_partition))
    size = r * (largest + heaviest * of_parts)
    if not size < float(limits.max) / 2:
        return None
    found = short.shortened(table, per_partition, membership.offsets, membership.complete, heaviest)
    rounding = SAFETY * (r + 4) * float(limits.eps) * size
    error = found.error + 2 * rounding / found.unit
    return found._replace(error=error) if math.isfinite(error) else None


def cells_of(table):
    """Return the entries of a table, row after row, and a row of zeros for holes."""
    return np.append(table.ravel(), np.zeros(table.shape[1], table.dtype))


def room_for(shortened):
    """Make room for the sums of a block of rows in units: of the table and of partitions."""
    return tuple(aligned((BLOCK, shortened.table.shape[1]), np.int32) for _ in "tp")


@kernel
def assign_screened(given, whole, cells, shortened, weight, n_clusters, results, totals, whole_room, begin, end):
    """Do `assign` for rows begin .. end - 1; `whole` are tables for `assign_rows`, and `whole_room` its room."""
    codes, hole, offsets = given
    tiles, parts = whole
    labels, costs, seconds = results
    step = min(1, len(weight) - 1)  # 0: one weight for all
    rows, weights, pairs = empty(BLOCK, np.intp), empty(BLOCK, weight.dtype), empty((BLOCK, 2), np.uintp)
    found = empty(BLOCK, np.int32), empty(BLOCK, tiles.dtype), empty(BLOCK, tiles.dtype)
    for block in range(begin, end, BLOCK):
        some = min(end - block, BLOCK)
        for j in range(some):
            rows[j], weights[j] = block + j, weight[(block + j) * step]
        _screen(given, shortened, weights, rows, some, pairs, totals)
        _add_pairs(given, cells, weights, n_clusters, block, some, pairs, results)
        left = 0
        for j in range(some):
            rows[left], weights[left] = block + j, weights[j]
            left += pairs[j, 0] == pairs[j, 1]
        if left:
            assign_rows(
                codes, hole, offsets, tiles, parts, weights, n_clusters, rows, left, found, whole_room[0], whole_room[1]
            )
        for j in range(left):
            x = rows[j]
            labels[x], costs[x], seconds[x] = found[0][j], found[1][j], found[2][j]


@inner
def _screen(given, shortened, weights, rows, some, pairs, totals):
    """Find the two cheapest clusters of rows, the lower one first; where they are not sure, twice the same."""
    codes, hole, offsets = given
    table, of_parts, base, parts, bits, _, ratio, error, part_error = shortened
    total, total_of_parts = totals
    sum_short_rows(total, table, codes, rows, some, offsets, hole)
    if len(of_parts) > 1:
        for j in range(some):
            add_short_parts(total_of_parts, j, of_parts, codes, rows[j], hole)
    last = (1 << bits) - 1
    for j in range(some):
        weight = np.float32(weights[j])
        least, second, third = three_least(total, j, base, parts, weight, bits, total_of_parts, np.float32(ratio), hole)
        sure = (third >> bits) - (second >> bits) > error + abs(weights[j]) * part_error
        one, two = least & last, second & last if sure else least & last
        pairs[j, 0], pairs[j, 1] = min(one, two), max(one, two)


@inner
def _add_pairs(given, cells, weights, n_clusters, block, some, pairs, results):
    """Add up the costs of two clusters of each row; the lower cluster wins a tie."""
    codes, hole, offsets = given
    of_table, of_parts = cells
    labels, costs, seconds = results
    width, r, zero = np.uintp(n_clusters), codes.shape[1], of_table.dtype.type(0)
    spare, spare_part = np.uintp(len(of_table)) - width, np.uintp(len(of_parts)) - width
    for j in range(some):
        x, low, high = block + j, pairs[j, 0], pairs[j, 1]
        one, two, part_of_one, part_of_two = zero, zero, of_parts[low], of_parts[high]
        for i in range(r):
            cell = np.uintp(offsets[i] + codes[x, i]) * width
            if hole is not None:  # no branch on what no processor could foresee
                cell = spare + np.uintp(codes[x, i] != hole) * (cell - spare)
            one += of_table[cell + low]
            two += of_table[cell + high]
        if spare_part > width:  # a row for each partition
            part_of_one, part_of_two = zero, zero
            for i in range(r):
                cell = np.uintp(i) * width
                if hole is not None:
                    cell = spare_part + np.uintp(codes[x, i] != hole) * (cell - spare_part)
                part_of_one += of_parts[cell + low]
                part_of_two += of_parts[cell + high]
        one += weights[j] * part_of_one
        two += weights[j] * part_of_two
        labels[x], costs[x], seconds[x] = (low, one, two) if one <= two else (high, two, one)
