"""In Lloyd's step over features on the CPU a row is looked at again only if its cheapest centre may have changed.

Between two steps the distance of a row to centre k changes by at most shift[k]. So a row keeps its label as long as its
margin, second distance minus first, is more than the shifts since it was last looked at (Hamerly, SDM 2010). For the
cosine distance |x| - x.u the same holds of the distance divided by |x|, with u the unit vectors of the centres.
"""

import functools
import math

import numpy as np

from gpuensemble._array.csr import Csr
from gpuensemble._kernels.cpu.compiling import inlined, inner, kernel
from gpuensemble._kernels.cpu.vector.rows import add_scaled_rows, cheapest
from gpuensemble._kernels.cpu.vector.tiles import LINE, WIDEST, aligned, padded, side_by_side

TINY = 1e-300
FEW = 15  # centres: one after another they are compared in less time than a vector of them takes to be one number
BLOCK = 256  # rows of a matrix product: they stay in the L2 cache until the sums are updated


def step(features, state, found, shift) -> int:
    """Give each row the cheapest centre, and move it between the sums; return how many rows moved."""
    squared = features.distances[0] == "sqeuclidean"
    anew = "kl" in features.distances  # what rounding leaves of a sum that should be 0 has a logarithm
    k, rounding = len(found.offset), rounding_of(features.dtype)
    space, offset = scores_and_offset(k, features.dtype)
    offset[0, :k] = found.offset
    tables = [_turned(part, table) for part, table in zip(features.parts, found.tables, strict=True)]
    buffers = [
        None if isinstance(part, Csr) else np.empty((BLOCK, part.shape[1]), part.dtype) for part in features.parts
    ]
    rows = np.arange(len(state.labels))
    if shift is not None:
        rows = rows[: open_rows(state.labels, state.margin, shift, rows)]
    moved = 0
    for begin in range(0, len(rows), BLOCK):
        chosen = rows[begin : begin + BLOCK]
        before, out = state.labels[chosen], space[: len(chosen)]
        _scores(features, found, chosen, tables, buffers, out)
        moved += choose(out, offset, k, chosen, features.square, squared, rounding, state.labels, state.margin)
        if not anew:
            _move(features, state, chosen, before)
    if anew:
        sum_up(features, state)
    else:
        count(features, state)
    return moved


def scores_and_offset(k, dtype):
    """Make zeros for the scores of a block of rows, and for the offsets of k clusters, as `choose` takes them."""
    width = padded(k, dtype)
    return side_by_side(dtype, (BLOCK, width), (1, width))


@functools.cache
def rounding_of(dtype) -> float:
    """Return by what share scores of this type may be wrong."""
    return 64 * float(np.finfo(dtype).eps)


def sum_up(features, state) -> None:
    """Make sums, counts and masses anew from the labels."""
    rows, before = np.arange(len(state.labels)), np.full(len(state.labels), -1, np.int32)
    for total in state.sums:
        total[:] = 0
    _move(features, state, rows, before)
    count(features, state)


def count(features, state):
    """Find number and weight of the rows of each cluster in each block."""
    for present, counts, masses in zip(features.present, state.counts, state.masses, strict=True):
        count_rows(state.labels, np.empty(0, bool) if present is None else present, state.weight, counts, masses)


def scores(features, found):
    """Return what each cluster costs each row, as `scores` of _kmeans/features/distances.py does."""
    n, k = len(features.square), len(found.offset)
    out = aligned((n, padded(k, features.dtype)), features.dtype)
    tables = [_turned(part, table) for part, table in zip(features.parts, found.tables, strict=True)]
    _scores(features, found, np.arange(n), tables, [None] * len(tables), out)
    return out[:, :k]


def _scores(features, found, chosen, tables, buffers, out):
    for i, (part, table, buffer) in enumerate(zip(features.parts, tables, buffers, strict=True)):
        _add_scores(part, chosen, table, buffer, out, first=i == 0)
    for present, offset in found.partial:
        out[:, : len(offset)] += present[chosen, None] * offset


def _turned(part, table):
    """Turn a table to columns x clusters; a sparse row meets whole rows of it, which are cache lines."""
    if not isinstance(part, Csr):
        return table.T
    out = aligned((table.shape[1], padded(len(table), table.dtype)), table.dtype)
    out[:, : len(table)] = table.T
    return out


def _add_scores(part, chosen, table, buffer, out, first):
    """Set out = part[chosen] @ table, or += if there were parts before."""
    if isinstance(part, Csr):
        sparse_scores(part.data, part.indices, part.indptr, chosen, table, first, out)
    elif first:
        np.matmul(_rows(part, chosen, buffer), table, out=out[:, : table.shape[1]])
    else:
        out[:, : table.shape[1]] += _rows(part, chosen, buffer) @ table


def _rows(part, chosen, buffer):
    """Return rows, which are in ascending order: a view where they follow each other, else a copy."""
    low, high = chosen[0], chosen[-1] + 1
    if high - low == len(chosen):
        return part[low:high]
    return np.take(part, chosen, axis=0, out=buffer[: len(chosen)], mode="clip")


def _move(features, state, chosen, before):
    """Move rows from the sums of the clusters that they were in before to those of their labels."""
    for part, total in zip(features.parts, state.sums, strict=True):
        if isinstance(part, Csr):
            entries = part.data, part.indices, part.indptr
            move_sparse(*entries, chosen, before, state.labels, state.weight, total)
        else:
            move_dense(part, chosen, before, state.labels, state.weight, total)


@kernel
def open_rows(labels, margin, shift, rows):
    """Find the rows whose margin is used up by what their own centre and the fastest other one have moved.

    They are put into `rows`; it returns how many there are."""
    fastest, second, m = 0, 0.0, 0
    for k in range(1, len(shift)):
        if shift[k] > shift[fastest]:
            fastest = k
    for k in range(len(shift)):
        if k != fastest and shift[k] > second:
            second = shift[k]
    for x in range(len(labels)):
        label = labels[x]
        if label >= 0:
            margin[x] -= shift[label] + (second if label == fastest else shift[fastest])
        rows[m] = x
        m += label < 0 or not margin[x] > 0
    return m


@kernel
def count_rows(labels, present, weight, counts, masses):
    """Find number and weight of the rows of each cluster; unless `present` is empty, of those that are present."""
    for c in range(len(counts)):
        counts[c], masses[c] = 0, 0.0
    step = 0 if len(weight) == 1 else 1  # one weight for all
    for x in range(len(labels)):
        if labels[x] >= 0 and (len(present) == 0 or present[x]):
            counts[labels[x]] += 1
            masses[labels[x]] += weight[x * step]


@inlined
def count_few(labels, counts):
    """Count the rows of few clusters, of one after another: counts side by side would wait for each other."""
    for c in range(len(counts)):
        found, own = np.int32(0), np.int32(c)
        for x in range(len(labels)):
            found = np.int32(found + np.int32(labels[x] == own))
        counts[c] = found


@inlined
def counted(present, labelled, block, guide):
    """Find number and weight of the rows of each cluster, and return how many clusters have none.

    All rows are present if `present` is empty.
    """
    all_present = len(present) == 0
    if all_present and len(labelled.weight) == 1 and len(block.number) <= FEW:
        count_few(labelled.labels, block.number)
        for c in range(len(block.number)):
            block.mass[c] = labelled.weight[0] * block.number[c]
    else:
        count_rows(labelled.labels, present, labelled.weight, block.number, block.mass)
    if guide is not None and all_present:
        for c in range(len(block.number)):
            guide.number[c], guide.mass[c] = block.number[c], block.mass[c]
    if guide is not None and not all_present:
        count_rows(labelled.labels, present[:0], labelled.weight, guide.number, guide.mass)
    n_empty = 0
    for c in range(len(block.number)):
        n_empty += block.number[c] == 0
    return n_empty


@inner
def _root(square):
    """Return the square root of what is not negative but for rounding."""
    return math.sqrt(square) if square > 0 else 0.0


@kernel
def choose(scores, offset, k, chosen, square, squared, rounding, labels, margin):
    """Find the cheapest of k centres for each row and the margin to the second; return how many rows moved.

    The first of equal centres wins. Rows of `scores` and of `offset`, which has one, are whole cache lines.
    """
    if k <= FEW:
        return _choose_of_few(scores, offset, k, chosen, square, squared, rounding, labels, margin)
    one, infinite = scores.dtype.type(1), scores.dtype.type(np.inf)
    moved = 0
    for j in range(len(chosen)):
        x = chosen[j]
        best, least, second = cheapest(scores, j, offset, 0, one, k, 0, 0, infinite, infinite)
        moved += labels[x] != best
        labels[x] = best
        margin[x] = margin_of(square[x], least, second, squared, rounding)
    return moved


@inlined
def _choose_of_few(scores, offset, k, chosen, square, squared, rounding, labels, margin):
    """Do `choose` without a branch in the comparisons: those of rows that follow each other run side by side."""
    moved = 0
    for j in range(len(chosen)):
        x, best, least, second = chosen[j], 0, np.inf, np.inf
        for c in range(k):
            cost = scores[j, c] + offset[0, c]
            first = cost < least
            runner = cost if cost < second else second
            second = least if first else runner
            best = c if first else best
            least = cost if first else least
        moved += labels[x] != best
        labels[x] = best
        margin[x] = margin_of(square[x], least, second, squared, rounding)
    return moved


@inner
def margin_of(square, least, second, squared, rounding):
    """Return by how much the second distance is more than the first, less what rounding may have added."""
    if second == np.inf:
        return np.inf
    if squared:
        reach = _root(square + least) + _root(square + second)
        error = rounding * (square + abs(least) + abs(second))
        return (second - least - error) / (reach if reach > TINY else TINY)
    reach = _root(square)
    return (second - least) / (reach if reach > TINY else TINY) - rounding


@kernel
def sparse_scores(data, indices, indptr, chosen, table, first, out):
    """Set `out` to the products of chosen rows and the table, or add them if not `first`.

    Rows of the table and of `out` are whole cache lines."""
    n_lines = table.shape[1] * table.itemsize // LINE
    for j in range(len(chosen)):
        if first:
            out[j] = 0
        for low in range(0, n_lines, WIDEST):
            add_scaled_rows(out, j, table, indices, data, indptr[chosen[j]], indptr[chosen[j] + 1], low)


@kernel
def move_dense(part, chosen, before, labels, weight, total):
    step = 0 if len(weight) == 1 else 1  # one weight for all
    for j in range(len(chosen)):
        x, old = chosen[j], before[j]
        if old != labels[x]:
            w, row, new = weight[x * step], part[x], total[labels[x]]
            for c in range(len(row)):
                new[c] += w * row[c]
            if old >= 0:
                left = total[old]
                for c in range(len(row)):
                    left[c] -= w * row[c]


@kernel
def move_sparse(data, indices, indptr, chosen, before, labels, weight, total):
    step = 0 if len(weight) == 1 else 1
    for j in range(len(chosen)):
        x, old = chosen[j], before[j]
        if old != labels[x]:
            new = labels[x]
            for i in range(indptr[x], indptr[x + 1]):
                term = weight[x * step] * data[i]
                total[new, indices[i]] += term
                if old >= 0:
                    total[old, indices[i]] -= term
