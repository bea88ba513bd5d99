"""The rotations of PCE's base partitions on the CPU, by LAPACK, with names and arguments of cuda/pce/rotations.py.

`counts` are the rows of H'V^2H, C x C, of the partitions from `first` to before `last`, in whole numbers of units.
"""

import numpy as np

from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.membership import codes_of, over_spans


def count_pairs(m, weight, first, last):
    """Count the rows of H.T @ diag(weight) @ H of the partitions from `first` to before `last`, in integers."""
    weight = np.ones(1, np.int64) if weight is None else weight
    offsets = m.offsets
    out = np.zeros((offsets[last] - offsets[first], m.n_columns), np.int64)

    def task(low, high):
        _count_pairs(*codes_of(m), weight, first + low, first + high, offsets[first], out)

    over_spans(m, last - first, 1, task)
    return out


@kernel
def _count_pairs(codes, hole, offsets, weight, first, last, base, cells):
    step = min(1, len(weight) - 1)  # 0: one for all
    for i in range(first, last):
        for x in range(len(codes)):
            if hole is not None and codes[x, i] == hole:
                continue
            amount, row = weight[x * step], np.uintp(offsets[i] - base + codes[x, i])
            for j in range(codes.shape[1]):
                if hole is None or codes[x, j] != hole:
                    cells[row, np.uintp(offsets[j] + codes[x, j])] += amount


def programme(m, tables, rows, counts, unit, first, last):
    """Return G, and f as its last column, of the programme for the weights: (last - first) x (r + 1) numbers.

    G_ij = tr(R_i'Y_i'V^2Y_j R_j), f_i = tr(R_i' rows_i), with the tables R_i one below the other.
    """
    ends = m.offsets
    out = np.empty((last - first, len(ends)))
    for i in range(first, last):
        own, part = slice(ends[i], ends[i + 1]), slice(ends[i] - ends[first], ends[i + 1] - ends[first])
        products = ((counts[part].T @ tables[own]) * tables).sum(1)
        out[i - first, :-1] = unit * np.add.reduceat(products, ends[:-1])
        out[i - first, -1] = (rows[own] * tables[own]).sum()
    return out


def rotate(ends, tables, rows, closeness, counts=None, unit=1.0, share=None, first=0, last=1):
    """Replace R_i of each partition from `first` to before `last`, one after another, so that each sees the new ones.

    R_i becomes the polar factor of rows_i - unit (N_i a R - own a_i R_i), N_i its rows of `counts`, own the diagonal of
    N_ii, or its largest entry where K_i > K; without counts that of rows_i. `share` has the a_i of each row of the
    tables. A matrix is drawn by `closeness` of its length to the R_i before.
    """
    for i in range(first, last):
        part, target = slice(ends[i], ends[i + 1]), rows[ends[i] : ends[i + 1]]
        before = tables[part]
        if counts is not None:
            own_rows = counts[ends[i] - ends[first] : ends[i + 1] - ends[first]]
            weighted = share[:, None] * tables
            own = own_rows[:, part].diagonal()[:, None]
            own = own.max() if len(own) > tables.shape[1] else own
            target = target - unit * (own_rows @ weighted - own * weighted[part])
        tables[part] = polar(target + closeness * (np.linalg.norm(target) or 1.0) * before)


def polar(x):
    """Return the matrices with orthonormal rows or columns that have the largest inner product with x."""
    left, _, right = np.linalg.svd(x, full_matrices=False)
    return left @ right
