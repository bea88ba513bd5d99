"""Lloyd's step over features, for several sets of centres side by side; it is the CPU's twin of kernels/batches.cu.

Set b owns the centres starts[b] .. starts[b + 1] - 1, C in all; `labels` and `before` are B x n. What rows add up to is
kept in whole units, so that the order of additions, of rows and of sets changes no bit. On the CPU `features` and
`lloyd` have faster ways to the same clusters; these functions say what the device does, and take its arguments.
"""

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.features.lanes import sum_of_lanes
from gpuensemble._kernels.cpu.vector.empty import empty


def csr_scores(matrix, begin, table, add, out):
    """Set out = rows begin .. of a `Csr` @ table, or += the same if `add`.

    Parameters
    ----------
    matrix : Csr
        With int32 indices and int64 pointers.
    begin : int
        The first of as many rows as `out` has.
    table : array, columns x C
    add : bool
    out : array, rows x C
        Is written.
    """
    _csr_scores(matrix.data, matrix.indices, matrix.indptr, begin, table, add, out)


def csr_rows(matrix, rows):
    """Return the named rows (int64) of a `Csr` as a dense array."""
    out = np.zeros((len(rows), matrix.shape[1]), matrix.dtype)
    _csr_rows(matrix.data, matrix.indices, matrix.indptr, rows, out)
    return out


def choose(scores, offset, starts, status, begin, labels, before, moved):
    """Give rows the cheapest centre of each set, the first of equals; sets with a status other than 0 keep theirs.

    Parameters
    ----------
    scores : array, rows x C
        Of the rows from `begin` on.
    offset : array of C
        Is added to each row of the scores.
    starts : array of B + 1 int32
    status : array of B int32
    begin : int
    labels, before : arrays of int32, B x n
        Are written: the labels, and what they were.
    moved : array of B int32
        Is added to: the rows whose label changes.
    """
    _choose(scores, offset, starts, status, begin, labels, before, moved)


def move_rows(part, scale, weight, mass_scale, present, starts, labels, before, sums, counts, masses):
    """Move the rows that changed their label between sums, counts and masses, which are in units of 1 / scale.

    Parameters
    ----------
    part : array, n x d, or Csr
    scale : array of d float64
        Powers of two, so that w * x * scale is less than 2**51 for each entry, and 2**62 for each sum.
    weight : array of float64, n or one for all
    mass_scale : float
        The scale of the weights.
    present : array of n booleans, or None
        Rows that are absent count in no cluster.
    starts : array of B + 1 int32
    labels, before : arrays of int32, B x n
    sums : array of int64, C x d
    counts, masses : arrays of int64, C
        Are added to.
    """
    entries = (part,) if isinstance(part, np.ndarray) else (part.data, part.indices, part.indptr)
    move = _move_dense if len(entries) == 1 else _move_sparse
    move(*entries, scale, weight, mass_scale, present, starts, labels, before, sums, counts, masses)


def place(sums, counts, masses, scale, mass_scale, cosine, weight, add, table, offset, partial, saved, empty):
    """Make what the next step needs of the centres of one block of columns, from what their rows add up to.

    Parameters
    ----------
    sums : array of int64, C x d
    counts, masses : arrays of int64, C
    scale : array of d float64
    mass_scale : float
    cosine : bool
        Whether the distance is the cosine's; else it is the squared Euclidean one.
    weight : float
        How often the distance counts.
    add : bool
        Whether the costs of other blocks are in `offset`, and their empty clusters in `empty`.
    table : array, C x d
        Is written: what rows are multiplied with.
    offset : array of C
        Is written, or added to: what a centre costs every row; an empty one costs infinity.
    partial : array of C, or None
        Is written in place of `offset` where rows are absent from the block.
    saved : array of C float64
        Is written: what each centre saves of the totals.
    empty : array of C booleans
        Is written, or added to.
    """
    _place(sums, counts, masses, scale, mass_scale, cosine, weight, add, table, offset, partial, saved, empty)


def judge(saved, totals, empty, starts, moved, tol, limit, objective, costs, steps, status):
    """End a step of each set of status 0: count it, find its costs, and set the status to 1 if it is the last.

    Parameters
    ----------
    saved : array of float64, parts x C
        What the centres save of the totals.
    totals : array of float64, parts x B
    empty : array of C booleans
        A set with an empty cluster gets the status 2, and keeps its objective.
    starts : array of B + 1 int32
    moved : array of B int32
        The rows that the step has moved; becomes 0 for a set that goes on.
    tol : float
    limit : int
        The most steps.
    objective : array of B float64
        Is written: the sum of the costs.
    costs : array of float64, parts x B
    steps, status : arrays of B int32
        Are written.
    """
    _judge(saved, totals, empty, starts, moved, tol, limit, objective, costs, steps, status)


@kernel
def _csr_scores(data, indices, indptr, begin, table, add, out):
    for y in range(out.shape[0]):
        for c in range(out.shape[1]):
            total = out.dtype.type(0)
            for i in range(indptr[begin + y], indptr[begin + y + 1]):
                total += data[i] * table[indices[i], c]
            out[y, c] = out[y, c] + total if add else total


@kernel
def _csr_rows(data, indices, indptr, rows, out):
    for y in range(len(rows)):
        for i in range(indptr[rows[y]], indptr[rows[y] + 1]):
            out[y, indices[i]] = data[i]


@kernel
def _choose(scores, offset, starts, status, begin, labels, before, moved):
    for y in range(len(scores)):
        for b in range(len(status)):
            x = begin + y
            before[b, x] = labels[b, x]
            if status[b] != 0:
                continue
            best, least = 0, scores.dtype.type(np.inf)
            for k in range(starts[b + 1] - starts[b]):
                cost = scores[y, starts[b] + k] + offset[starts[b] + k]
                if cost < least:
                    best, least = k, cost
            labels[b, x] = best
            moved[b] += best != before[b, x]


@kernel
def _move_dense(rows, scale, weight, mass_scale, present, starts, labels, before, sums, counts, masses):
    step = min(1, len(weight) - 1)  # 0: one weight for all
    for b in range(len(labels)):
        for x in range(len(rows)):
            if labels[b, x] != before[b, x] and (present is None or present[x]):
                for label, sign in ((before[b, x], -1), (labels[b, x], 1)):
                    if label >= 0:
                        c, w = starts[b] + label, weight[x * step]
                        for j in range(rows.shape[1]):
                            sums[c, j] += sign * _whole(w * rows[x, j] * scale[j])
                        counts[c] += sign
                        masses[c] += sign * _whole(w * mass_scale)


@kernel
def _move_sparse(
    data, indices, indptr, scale, weight, mass_scale, present, starts, labels, before, sums, counts, masses
):
    step = min(1, len(weight) - 1)
    for b in range(len(labels)):
        for x in range(len(indptr) - 1):
            if labels[b, x] != before[b, x] and (present is None or present[x]):
                for label, sign in ((before[b, x], -1), (labels[b, x], 1)):
                    if label >= 0:
                        c, w = starts[b] + label, weight[x * step]
                        for i in range(indptr[x], indptr[x + 1]):
                            j = indices[i]
                            sums[c, j] += sign * _whole(w * data[i] * scale[j])
                        counts[c] += sign
                        masses[c] += sign * _whole(w * mass_scale)


@inner
def _whole(value):
    """Round to a whole number, ties to even; what is not 0 is at least 1 in size."""
    found = np.int64(np.rint(value))
    return found if found != 0 or value == 0 else np.int64(1) if value > 0 else np.int64(-1)


@kernel
def _place(sums, counts, masses, scale, mass_scale, cosine, weight, add, table, offset, partial, saved, unused):
    number = offset.dtype.type
    squares = empty(sums.shape[1], np.float64)
    for c in range(len(sums)):
        for j in range(len(squares)):
            squares[j] = (sums[c, j] / scale[j]) ** 2
        square = sum_of_lanes(squares, 0, len(squares))
        size = np.sqrt(square) if cosine else masses[c] / mass_scale
        for j in range(len(squares)):
            position = sums[c, j] / scale[j] / size if size > 0 else 0.0
            table[c, j] = weight * (-position if cosine else -2.0 * position)
            squares[j] = position * position
        cost = number(0.0 if cosine else weight * sum_of_lanes(squares, 0, len(squares)))
        unused[c] = counts[c] == 0 or (add and unused[c])
        saved[c] = (weight * size if cosine else weight * (square / size)) if size > 0 else 0.0
        total = offset[c] if add else number(0)
        if partial is None:
            total += cost
        else:
            partial[c] = cost
        offset[c] = np.inf if unused[c] else total


@kernel
def _judge(saved, totals, empty, starts, moved, tol, limit, objective, costs, steps, status):
    for b in range(len(status)):
        if status[b] != 0:
            continue
        n_empty, found = 0, 0.0
        for c in range(starts[b], starts[b + 1]):
            n_empty += empty[c]
        for part in range(len(saved)):
            cost = max(0.0, totals[part, b] - sum_of_lanes(saved[part], starts[b], starts[b + 1]))
            found += cost
            costs[part, b] = cost
        ends = moved[b] == 0 or steps[b] + 1 == limit or objective[b] - found <= tol * found
        steps[b] += 1
        if n_empty == 0:
            objective[b] = found
        status[b] = 2 if n_empty else 1 if ends else 0
        if status[b] == 0:
            moved[b] = 0
