"""Changes of counts on the CPU are twins of cuda/moves.py: one pass over the codes of the rows whose labels change."""

import numpy as np

from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.membership import codes_of, over_spans


def count_moves(membership, rows, old, new, weight, n_clusters):
    """Return by how much `count` changes where labels `old` become `new`; only `rows` are looked at, or all: None.

    `rows` are indices, each at most once; labels and weights are those of all rows.
    """
    counts, _ = _changes(membership, rows, old, new, weight, None, n_clusters)
    return counts


def count_moved_masses(membership, rows, old, new, weight, mass, n_clusters):
    """Return by how much `count_masses` changes where labels `old` become `new`."""
    return _changes(membership, rows, old, new, weight, mass, n_clusters)


def _changes(membership, rows, old, new, weight, mass, n_clusters):
    """Return the changes of counts and of masses. A thread owns whole partitions: no two write to one cell."""
    rows = np.flatnonzero(old != new) if rows is None else rows[old[rows] != new[rows]]
    weight = np.ones(1, np.int64) if weight is None else weight[rows]
    mass = np.zeros(1, np.int64) if mass is None else mass[rows]
    counts = np.zeros((membership.n_columns, n_clusters), np.int64)
    masses = np.zeros((len(membership.widths), n_clusters), np.int64)
    arguments = (*codes_of(membership), rows, old[rows], new[rows], weight, mass, counts, masses)
    over_spans(membership, len(masses), 8, lambda first, last: _count_moves(*arguments, first, last))
    return counts, masses


@kernel
def _count_moves(codes, hole, offsets, rows, old, new, weight, mass, counts, masses, first, last):
    weight_step, mass_step = min(1, len(weight) - 1), min(1, len(mass) - 1)  # 0: one for all
    for y in range(len(rows)):
        x, gone, come = rows[y], old[y], new[y]
        amount, of_mass = weight[y * weight_step], mass[y * mass_step]
        for i in range(first, last):
            if hole is None or codes[x, i] != hole:
                column = offsets[i] + codes[x, i]
                counts[column, come] += amount
                counts[column, gone] -= amount
                masses[i, come] += of_mass
                masses[i, gone] -= of_mass
