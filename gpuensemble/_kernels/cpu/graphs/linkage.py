"""Average linkage by chains of nearest neighbours, on the host, of groups that stand for many samples each.

There are two bodies: for a matrix of similarities, and for rows of H, without the matrix. A chain goes from a group to
the one that it is most alike, until two are each other's; these are merged. The merges come in the order in which the
chains find them, as pairs of places, of which the second is where the merged group goes on. On ties the earlier place
wins, and the last one of the chain above all, so that a chain ends: two groups must be equally alike, to the last bit,
seen from either. All chains begin at the first place, which is never empty: a merged group goes on where the chain came
from.
"""

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.vector.empty import empty

SQUARE = 64  # rows and columns of a matrix that are copied together: both stay in the first cache
TILE = 2048  # groups whose similarities are added up at a time: they stay in the first cache


def of_matrix(similarity, sizes):
    """Link groups of such sizes by a symmetric matrix, which is overwritten; return pairs and their similarities.

    Where rounding made it lopsided, what is above the diagonal counts.
    """
    pairs, heights = np.empty((len(sizes) - 1, 2), np.int64), np.empty(len(sizes) - 1)
    if not _of_matrix(similarity, sizes.astype(np.float64), pairs, heights):
        raise ValueError("`similarity` must be finite, got NaN or infinity.")
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
    """Link, and return True; do nothing and return False if an entry is not finite: chains might not end."""
    n = len(sizes)
    if not _made_symmetric(similarity, n):
        return False
    chain, place, absent = empty(n, np.int64), empty(n, np.int64), empty(n, np.float64)
    for c in range(n):
        place[c], absent[c], similarity[c, c] = c, 0.0, -np.inf
    n_chain, left = 0, n
    for step in range(n - 1):
        if 2 * left <= n:
            _close_up(similarity, sizes, place, absent, chain[:n_chain], n)
            n = left
        if n_chain == 0:
            chain[0], n_chain = 0, 1
        while True:
            a = chain[n_chain - 1]
            last = chain[n_chain - 2] if n_chain > 1 else -1
            best, height = _most_alike(similarity[a], absent, n, last)
            if best == last:
                break
            n_chain = _longer(chain, n_chain, best)
        n_chain -= 2
        left -= 1
        pairs[step, 0], pairs[step, 1], heights[step] = place[a], place[best], height
        _merge(similarity, sizes, n, a, best)
        absent[a] = -np.inf
    return True


@inner
def _made_symmetric(x, n):
    """Copy what is above the diagonal to below it; tell whether all of that is finite."""
    finite = True
    for i in range(0, n, SQUARE):
        for j in range(i, n, SQUARE):
            for a in range(i, min(n, i + SQUARE)):
                for b in range(max(a, j), min(n, j + SQUARE)):
                    x[b, a] = x[a, b]
                    finite &= x[a, b] - x[a, b] == 0
    return finite


@inner
def _longer(chain, n_chain, best):
    """Put a group at the end of a chain, and return its length; it ends at the group if that is in it already.

    A merged group may be more alike to one in the chain, by rounding, than the two groups were that it is made of.
    """
    for i in range(n_chain):
        if chain[i] == best:
            return i + 1
    chain[n_chain] = best
    return n_chain + 1


@inner
def _most_alike(row, absent, n, last):
    """Return the place of the largest of n sums, of equal ones `last`, or else the first, and that sum.

    There are four of everything, so that the compiler makes vectors of them.
    """
    one, two, three, four = -np.inf, -np.inf, -np.inf, -np.inf
    for c in range(0, n - 3, 4):
        a, b = row[c] + absent[c], row[c + 1] + absent[c + 1]
        d, e = row[c + 2] + absent[c + 2], row[c + 3] + absent[c + 3]
        one = a if a > one else one
        two = b if b > two else two
        three = d if d > three else three
        four = e if e > four else four
    for c in range(n // 4 * 4, n):
        one = max(one, row[c] + absent[c])
    height = max(one, two, three, four)
    if last >= 0 and row[last] == height:
        return last, height
    for best in range(n):
        if row[best] + absent[best] == height:
            break
    return best, height


@inner
def _close_up(similarity, sizes, place, absent, chain, n):
    """Bring the groups that are left of n places together, at the front."""
    old, new, left = empty(n, np.int64), empty(n, np.int64), 0
    for c in range(n):
        if sizes[c] > 0:
            old[left], new[c] = c, left
            left += 1
    for i in range(len(chain)):
        chain[i] = new[chain[i]]
    for x in range(left):
        y = old[x]
        place[x], sizes[x], absent[x] = place[y], sizes[y], 0.0
        for c in range(left):
            similarity[x, c] = similarity[y, old[c]]


@inner
def _merge(similarity, sizes, n, a, b):
    """Put the group at place a to the one at place b."""
    one, two = sizes[a] / (sizes[a] + sizes[b]), sizes[b] / (sizes[a] + sizes[b])
    of_a, of_b = similarity[a], similarity[b]
    for c in range(n):
        of_b[c] = one * of_a[c] + two * of_b[c]
    sizes[b] += sizes[a]
    sizes[a] = 0
    for c in range(n):
        if sizes[c] > 0:
            similarity[c, b] = of_b[c]


@kernel
def _of_counts(counts, weight, sizes, place, chain, n_chain, pairs, heights, done):
    """Go on until all is merged or half of the places are empty; return how long the chain is, and what is done."""
    n = len(sizes)
    found = empty(TILE, np.float64)
    columns, own = empty(len(counts), np.int64), empty(len(counts), np.float64)
    left = n
    while done < len(pairs) and 2 * left > n:
        if n_chain == 0:
            chain[0], n_chain = 0, 1
        a = chain[n_chain - 1]
        n_columns = _column(counts, a, columns, own)
        last = chain[n_chain - 2] if n_chain > 1 else -1
        best, height = _nearest(counts, weight, columns[:n_columns], own, sizes, a, last, found)
        if best != last:
            n_chain = _longer(chain, n_chain, best)
            continue
        n_chain -= 2
        pairs[done, 0], pairs[done, 1], heights[done] = place[a], place[best], height
        for i in range(n_columns):
            counts[columns[i], best] += counts[columns[i], a]
        sizes[best] += sizes[a]
        sizes[a] = 0
        done += 1
        left -= 1
    return n_chain, done


@kernel
def _column(counts, a, columns, own):
    """List the columns that a group has samples in, and its counts; return how many there are."""
    n_columns = 0
    for c in range(len(counts)):
        if counts[c, a] > 0:
            columns[n_columns], own[n_columns] = c, counts[c, a]
            n_columns += 1
    return n_columns


@kernel
def _nearest(counts, weight, columns, own, sizes, a, last, found):
    """Return the group that a is most alike, and their similarity, in whose bits neither of them comes first."""
    best, height, of_last = -1, -np.inf, -np.inf
    for begin in range(0, len(sizes), TILE):
        end = min(begin + TILE, len(sizes))
        found[:] = 0
        for i in range(len(columns)):
            row, of_a, of_column = counts[columns[i], begin:end], own[i], weight[columns[i]]
            for b in range(end - begin):
                found[b] += of_column * (of_a * row[b])
        for b in range(begin, end):
            if sizes[b] > 0 and b != a:
                value = found[b - begin] / (sizes[a] * sizes[b])
                if b == last:
                    of_last = value
                if value > height:
                    best, height = b, value
    return (last, of_last) if last >= 0 and of_last >= height else (best, height)
