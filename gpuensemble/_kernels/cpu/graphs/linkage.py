"""Average linkage by chains of nearest neighbours, on the host, of groups that stand for many samples each.

There are two bodies: for a matrix of similarities, and for rows of H, without the matrix. A chain goes from a group to
the one that it is most alike, until two are each other's; these are merged. The merges come in the order in which the
chains find them, as pairs of places, of which the second is where the merged group goes on. On ties the earlier place
wins, and the last one of the chain above all, so that a chain ends.
"""

import numpy as np

from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.vector.empty import empty

TILE = 2048  # groups whose similarities are added up at a time: they stay in the first cache


def of_matrix(similarity, sizes):
    """Link groups of such sizes by a symmetric matrix, which is overwritten; return pairs and their similarities."""
    pairs, heights = np.empty((len(sizes) - 1, 2), np.int64), np.empty(len(sizes) - 1)
    _of_matrix(similarity, sizes.astype(np.float64), pairs, heights)
    return pairs, heights


def of_counts(counts, weight, sizes):
    """Link groups of such sizes by their counts in the columns of H, C x groups, overwritten; as `of_matrix`.

    The similarity of two groups is the weighted inner product of their counts, divided by their sizes. A merge adds up
    counts. Where half of the places are left, the counts are copied together.
    """
    place, sizes = np.arange(len(sizes)), sizes.astype(np.float64)
    pairs, heights = np.empty((len(sizes) - 1, 2), np.int64), np.empty(len(sizes) - 1)
    chain, n_chain, done = np.empty(len(sizes), np.int64), 0, 0
    while done < len(pairs):
        n_chain, done = _of_counts(counts, weight, sizes, place, chain, n_chain, pairs, heights, done)
        left = np.flatnonzero(sizes)
        chain[:n_chain] = np.searchsorted(left, chain[:n_chain])
        counts, sizes, place = np.ascontiguousarray(counts[:, left]), sizes[left], place[left]
    return pairs, heights


@kernel
def _of_matrix(similarity, sizes, pairs, heights):
    n = len(sizes)
    chain = empty(n, np.int64)
    n_chain, first = 0, 0
    for step in range(n - 1):
        if n_chain == 0:
            while sizes[first] == 0:
                first += 1
            chain[0], n_chain = first, 1
        while True:
            a = chain[n_chain - 1]
            best, height = -1, -np.inf
            if n_chain > 1:
                best = chain[n_chain - 2]
                height = similarity[a, best]
            for b in range(n):
                if sizes[b] > 0 and b != a and similarity[a, b] > height:
                    best, height = b, similarity[a, b]
            if n_chain > 1 and best == chain[n_chain - 2]:
                break
            chain[n_chain] = best
            n_chain += 1
        n_chain -= 2
        pairs[step, 0], pairs[step, 1], heights[step] = a, best, height
        _merge(similarity, sizes, a, best)


@kernel
def _merge(similarity, sizes, a, b):
    """Put the group at place a to the one at place b."""
    one, two = sizes[a] / (sizes[a] + sizes[b]), sizes[b] / (sizes[a] + sizes[b])
    for c in range(len(sizes)):
        mean = one * similarity[a, c] + two * similarity[b, c]
        similarity[b, c] = mean
        similarity[c, b] = mean
    sizes[b] += sizes[a]
    sizes[a] = 0


@kernel
def _of_counts(counts, weight, sizes, place, chain, n_chain, pairs, heights, done):
    """Go on until all is merged or half of the places are empty; return how long the chain is, and what is done."""
    n = len(sizes)
    found = empty(TILE, np.float64)
    columns, factors = empty(len(counts), np.int64), empty(len(counts), np.float64)
    first, left = 0, n
    while done < len(pairs) and 2 * left > n:
        if n_chain == 0:
            while sizes[first] == 0:
                first += 1
            chain[0], n_chain = first, 1
        a = chain[n_chain - 1]
        n_columns = _column(counts, weight, a, columns, factors)
        last = chain[n_chain - 2] if n_chain > 1 else -1
        best, height = _nearest(counts, columns[:n_columns], factors[:n_columns], sizes, a, last, found)
        if best != last:
            chain[n_chain] = best
            n_chain += 1
            continue
        n_chain -= 2
        pairs[done, 0], pairs[done, 1], heights[done] = place[a], place[best], height / sizes[a]
        for i in range(n_columns):
            counts[columns[i], best] += counts[columns[i], a]
        sizes[best] += sizes[a]
        sizes[a] = 0
        done += 1
        left -= 1
    return n_chain, done


@kernel
def _column(counts, weight, a, columns, factors):
    """List the columns that a group has samples in, and the weighted counts; return how many there are."""
    n_columns = 0
    for c in range(len(counts)):
        if counts[c, a] > 0:
            columns[n_columns], factors[n_columns] = c, weight[c] * counts[c, a]
            n_columns += 1
    return n_columns


@kernel
def _nearest(counts, columns, factors, sizes, a, last, found):
    """Return the group that a is most alike, and the sum of their samples' similarities over the group's size."""
    best, height, of_last = -1, -np.inf, -np.inf
    for begin in range(0, len(sizes), TILE):
        end = min(begin + TILE, len(sizes))
        found[:] = 0
        for i in range(len(columns)):
            row, factor = counts[columns[i], begin:end], factors[i]
            for b in range(end - begin):
                found[b] += factor * row[b]
        for b in range(begin, end):
            if sizes[b] > 0 and b != a:
                value = found[b - begin] / sizes[b]
                if b == last:
                    of_last = value
                if value > height:
                    best, height = b, value
    return (last, of_last) if last >= 0 and of_last >= height else (best, height)
