"""The contingency tables of all pairs of partitions, counted on the CPU; a pair's table stays in the first cache.

And what comes from them: how alike clusters are, entropies, the information that tables have by chance. And how counts
change with a partition's labels: one pass over the codes of the rows that move, with twins in cuda/membership.py.
"""

import functools
import math

import numpy as np

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.membership import codes_of, over_spans
from gpuensemble._kernels.cpu.vector.empty import empty

ROWS = 1 << 17  # counted in one go: fewer would add up a pair's table too often, more would copy too many codes
INLINE = 1 << 12  # fewer rows than this are not worth a second thread
LOOKED_UP = 1 << 12  # counts below this have x log x in a table, which stays in the first cache
COLUMNS = 256  # whose entropies are worked out in one go
FEW_CELLS = 1 << 14  # of tables that are not worth a second thread
NEGLIGIBLE = 1e-18  # share of the greatest probability at which a tail is cut off


def contingency(membership, weight):
    """Count G = H' diag(weight) H in integers; no weight means all 1."""
    codes, widths, r = membership.codes, membership.widths, len(membership.widths)
    starts = np.cumsum(widths) - widths
    found = np.zeros((membership.n_columns, membership.n_columns), np.int64)
    spare = int(widths.max()) + 1  # holes are counted, and left out
    none = np.empty(0, np.int64)
    for rows in threads.spans(len(codes), ROWS):
        of_partition = np.ascontiguousarray(codes[rows].T)
        often = none if weight is None else weight[rows]

        def task(first, last, of_partition=of_partition, often=often):
            cells = np.empty(spare * spare, np.int64)
            for i in range(first, last):
                _count_pairs(of_partition, often, widths, starts, i, cells, found)

        threads.over_spans(r, 1, task, rows.stop - rows.start < INLINE)
    for begin, width in zip(starts, widths, strict=True):
        found[begin + width :, begin : begin + width] = found[begin : begin + width, begin + width :].T
    return found


@kernel
def _count_pairs(codes, weight, widths, starts, i, cells, found):
    """Count partition i with itself and each later one; a code that is no cluster's is a hole."""
    n, one = codes.shape[1], widths[i]
    for j in range(i, len(widths)):
        two = widths[j]
        cells[: (one + 1) * (two + 1)] = 0
        for x in range(n):
            a, b = int(codes[i, x]), int(codes[j, x])
            row = one if a < 0 or a > one else a
            column = two if b < 0 or b > two else b
            cells[row * (two + 1) + column] += weight[x] if len(weight) else 1
        for a in range(one):
            for b in range(two):
                found[starts[i] + a, starts[j] + b] += cells[a * (two + 1) + b]


def jaccard(counts, widths, first, weight):
    """Return what two clusters share, divided by what they have together, times the weights of both.

    `counts` are the columns of G from `first` on, those of whole partitions. Of two partitions only the samples count
    that both saw. It is 0 for a cluster with itself.
    """
    counts, starts = np.ascontiguousarray(counts), np.append(0, np.cumsum(widths))
    of_columns = starts[(starts >= first) & (starts <= first + counts.shape[1])] - first
    found = np.empty(counts.shape)
    task = functools.partial(_jaccard, counts, starts, of_columns, first, np.asarray(weight, np.float64), found)
    threads.over_spans(len(widths), 1, task, counts.size < FEW_CELLS)
    return found


@kernel
def _jaccard(counts, starts, of_columns, first, weight, found, begin, end):
    """Do it for the rows of partitions begin .. end - 1."""
    seen = empty(counts.shape[1], np.int64)  # by the partition of the rows, of each column's samples
    for i in range(begin, end):
        for c in range(len(seen)):
            seen[c] = 0
        for x in range(starts[i], starts[i + 1]):
            for c in range(len(seen)):
                seen[c] += counts[x, c]
        for x in range(starts[i], starts[i + 1]):
            for j in range(len(of_columns) - 1):
                own = 0  # samples of x that partition j saw
                for c in range(of_columns[j], of_columns[j + 1]):
                    own += counts[x, c]
                for c in range(of_columns[j], of_columns[j + 1]):
                    both = counts[x, c]
                    union = seen[c] + own - both
                    share = both * (1.0 / union) if both > 0 and x != first + c else 0.0
                    found[x, c] = share * weight[first + c] * weight[x]


def entropies(counts, widths):
    """Return the entropy in bits of all partitions' labels inside each of some clusters, whose columns of G are given.

    A partition counts by the samples that it saw. A cluster's own partition adds nothing.
    """
    counts, starts = np.ascontiguousarray(counts), np.append(0, np.cumsum(widths))
    found = np.zeros(counts.shape[1])
    terms = np.arange(LOOKED_UP, dtype="float64")
    terms[1:] *= np.log2(terms[1:])
    task = functools.partial(_entropies, counts, starts, terms, found)
    threads.over_spans(len(found), COLUMNS, task, counts.size < FEW_CELLS)
    return found


@kernel
def _entropies(counts, starts, terms, found, first, last):
    """Add up log t - (sum of x log x) / t over partitions, x the counts of their labels and t the sum of these."""
    seen, total = empty(last - first, np.int64), empty(last - first, np.float64)
    for i in range(len(starts) - 1):
        for c in range(last - first):
            seen[c], total[c] = 0, 0.0
        for x in range(starts[i], starts[i + 1]):
            for c in range(last - first):
                count = counts[x, first + c]
                if count > 0:
                    seen[c] += count
                    total[c] += terms[count] if count < len(terms) else count * math.log2(count)
        for c in range(last - first):
            if seen[c] > 0:
                found[first + c] += math.log2(seen[c]) - total[c] / seen[c]


def expected_information(sizes_y, sizes_z, n):
    """Return the mean mutual information, in nats, of two partitions of n samples whose labels are shuffled.

    Cells depend on the sizes alone: of sizes that are equal one is worked out.
    """
    (y, often_y), (z, often_z) = (np.unique(sizes, return_counts=True) for sizes in (sizes_y, sizes_z))
    cells = np.empty((len(y), len(z)))
    _expected_cells(y, z, n, cells)
    return float(often_y @ cells @ often_z) / n


@kernel
def _expected_cells(y, z, n, cells):
    for i in range(len(y)):
        for j in range(len(z)):
            cells[i, j] = _expected_cell(y[i], z[j], n)


@kernel
def _expected_cell(a, b, n):
    """Return the mean of x log(x / mean), where x is hypergeometric: how many of a samples, drawn from n, are among b.

    Ratios of neighbouring probabilities lead from the mode to both sides, and their sum is divided by: logarithms of
    factorials would lose the digits of a large n. x - mean is taken off, whose mean is 0, so that no term is negative.
    """
    mean = float(a) * float(b) / n
    low, high = max(0, a + b - n), min(a, b)
    mode = min(max(int(mean), low), high)
    total, excess = 1.0, _excess(mode, mean)
    share, x = 1.0, mode
    while x < high and share > NEGLIGIBLE:
        share *= float(a - x) * float(b - x) / (float(x + 1) * float(n - a - b + x + 1))
        x += 1
        total += share
        excess += share * _excess(x, mean)
    share, x = 1.0, mode
    while x > low and share > NEGLIGIBLE:
        share *= float(x) * float(n - a - b + x) / (float(a - x + 1) * float(b - x + 1))
        x -= 1
        total += share
        excess += share * _excess(x, mean)
    return excess / total


@kernel
def _excess(x, mean):
    if x == 0:
        return mean
    return x * math.log1p((x - mean) / mean) - (x - mean)


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
