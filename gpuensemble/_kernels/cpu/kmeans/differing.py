"""Distances between rows of labels that all count alike are whole numbers, which are counted on the CPU."""

import numpy as np

from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.membership import codes_of


def by_partition(m):
    """Return the codes of each partition, one after another, as `differing` takes them."""
    return np.ascontiguousarray(m.codes.T)


def differing(m, columns, chosen, nearest):
    """Count how the rows differ from each of chosen rows, or from the `nearest` one before, where that is less.

    A label that differs counts 2, and one in a partition that the chosen row lacks 1: it is the cost of a row in a
    cluster of the chosen one alone, by the category utility. Counts are chosen x rows; their sums come with them.
    """
    out, sums = np.empty((len(chosen), len(m.codes)), np.int32), np.empty(len(chosen), np.int64)
    _differing(columns, codes_of(m)[1], chosen, nearest, out, sums)
    return out, sums


@kernel
def _differing(columns, hole, chosen, nearest, out, sums):
    for j in range(len(chosen)):
        row, total = out[j], np.int64(0)
        row[:] = 0
        for i in range(len(columns)):
            column, code = columns[i], chosen[j, i]
            if hole is None:
                for x in range(len(row)):
                    row[x] += 2 * np.int32(column[x] != code)
            else:
                cost = 1 if code == hole else 2
                for x in range(len(row)):
                    row[x] += cost * (np.int32(column[x] != code) & np.int32(column[x] != hole))
        for x in range(len(row)):
            if nearest is not None:
                row[x] = min(row[x], nearest[x])
            total += row[x]
        sums[j] = total
