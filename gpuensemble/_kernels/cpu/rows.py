"""What the kernels on rows of the membership operator share on the CPU, as kernels/rows.cu has it for CUDA."""

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner
from gpuensemble._kernels.cpu.vector.empty import empty
from gpuensemble._kernels.cpu.vector.rows import add_rows, cheapest

GROUP = 32  # partitions summed at a time: their part of the table stays in the L2 cache


@inner
def decode(codes, hole, offsets, x, first, last, columns, partitions):
    """Find columns and partitions of the labels that row x has in first .. last - 1; return how many there are.

    A hole costs no branch, which no processor could foresee.
    """
    if hole is None:
        for i in range(first, last):
            columns[i - first] = offsets[i] + codes[x, i]
            partitions[i - first] = i
        return last - first
    m = 0
    for i in range(first, last):
        code = codes[x, i]
        columns[m] = offsets[i] + code
        partitions[m] = i
        m += code != hole
    return m


@inner
def assign_rows(codes, hole, offsets, tiles, parts, weights, n_columns, rows, n_rows, found, t, p):
    """Do `assign` for n_rows rows, SUMS at most, in room t and p for their sums; found = (labels, costs, seconds)."""
    r, width = codes.shape[1], tiles.shape[2]
    summed = parts.shape[1] == 1
    labels, costs, seconds = found
    columns, partitions = empty(GROUP, np.uintp), empty(GROUP, np.uintp)
    for j in range(n_rows):
        labels[j], costs[j], seconds[j] = 0, np.inf, np.inf
    for tile in range(len(tiles)):
        table, part = tiles[tile], parts[tile]
        t[:n_rows] = 0
        p[:n_rows] = 0
        for first in range(0, r, GROUP):
            last = min(r, first + GROUP)
            for j in range(n_rows):
                m = decode(codes, hole, offsets, rows[j], first, last, columns, partitions)
                add_rows(t, j, table, columns, m)
                if not summed:
                    add_rows(p, j, part, partitions, m)
        low, some = tile * width, min(width, n_columns - tile * width)
        for j in range(n_rows):
            p_of_row, z = (part, 0) if summed else (p, j)
            labels[j], costs[j], seconds[j] = cheapest(
                t, j, p_of_row, z, weights[j], some, low, labels[j], costs[j], seconds[j]
            )
    for j in range(n_rows):
        if costs[j] == np.inf:
            labels[j] = _fewest_infinite(codes[rows[j]], hole, offsets, tiles, parts, weights[j], n_columns)


@inner
def _fewest_infinite(row, hole, offsets, tables, parts, weight, n_columns):
    """Return the column with the fewest infinite terms, then the least cost of finite ones, then the lowest index."""
    best, least, fewest = 0, tables.dtype.type(np.inf), len(row) + 1
    for column in range(n_columns):
        table, part, k = tables[column // tables.shape[2]], parts[column // tables.shape[2]], column % tables.shape[2]
        t, p, infinite = tables.dtype.type(0), tables.dtype.type(0), 0
        for i in range(len(row)):
            if hole is None or row[i] != hole:
                term = table[offsets[i] + row[i], k]
                if term == np.inf:
                    infinite += 1
                else:
                    t += term
                if len(part) > 1:
                    p += part[i, k]
        if len(part) == 1:
            p = part[0, k]
        cost = t + weight * p
        if not cost < np.inf:  # a sum that overflowed may be NaN
            cost = tables.dtype.type(np.inf)
        if infinite < fewest or (infinite == fewest and cost < least):
            best, least, fewest = column, cost, infinite
    return best
