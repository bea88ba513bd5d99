"""Rows take the nearest centres in one step of k-means over features: threads take one span of them after another.

A thread finds the rows of a span whose cheapest centre may have changed, and looks at these in blocks.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._kernels.cpu.compiling import inlined, inner
from gpuensemble._kernels.cpu.features import short as in_short
from gpuensemble._kernels.cpu.features import steps
from gpuensemble._kernels.cpu.kmeans import sharing
from gpuensemble._kernels.cpu.vector.dots import dot_rows
from gpuensemble._kernels.cpu.vector.empty import empty
from gpuensemble._kernels.cpu.vector.tiles import DOT_ROWS
from gpuensemble._kernels.distances import KL, SQUARED

SPAN = 16 * steps.BLOCK  # rows


class Room(NamedTuple):
    """A thread works in this room on a block of rows."""

    space: Any  # scores
    buffer: Any  # copies of rows where BLAS multiplies them
    short_space: Any  # scores in float32
    unsure: Any  # rows whose centre these do not tell


@inlined
def choose(dense, sparse, present, held, short, block, guide, labelled, work, shift, me, room, control):
    """Choose the centres of the open rows of spans, until none is left; who is alone moves rows between sums, too."""
    labels, square, n = labelled.labels, labelled.square, len(labelled.labels)
    k, squared, moves = len(block.sums), block.kind == SQUARED, block.kind != KL and len(work.moved) == 1
    first = sharing.next_span(control, SPAN)
    while first < n:
        last = min(first + SPAN, n)
        rows = work.rows[first:last]
        if short is not None:
            n_open = in_short.open_rows(short, labels, first, last, work.bounded[0], rows)
        if short is None:
            n_open = steps.open_rows(labels[first:last], labelled.margin[first:last], shift, rows)
        work.n_open[first // SPAN] = n_open
        for j in range(n_open):
            rows[j] += first
        for begin in range(0, n_open, len(room.space)):
            end = min(begin + len(room.space), n_open)
            chosen, before = rows[begin:end], work.before[first + begin : first + end]
            for j in range(len(chosen)):
                before[j] = labels[chosen[j]]
            open_rows = chosen
            if short is not None:
                told, n_unsure = in_short.choose_sure(
                    short, room.short_space, room.unsure, chosen, held, labelled, squared
                )
                work.moved[me, 0] += told
                open_rows = room.unsure[:n_unsure]
            if len(open_rows):
                _scores(dense, sparse, room.buffer, open_rows, work.table, k, room.space)
                if held is not None:
                    _add_guide(held, open_rows, work.guide_table, room.space)
                if len(present):
                    _add_own(present, open_rows, work.own, room.space)
                work.moved[me, 0] += steps.choose(
                    room.space, work.offset, k, open_rows, square, squared, work.rounding, labels, labelled.margin
                )
            if moves:
                move(dense, sparse, held, chosen, before, labelled, block, guide)
        first = sharing.next_span(control, SPAN)


@inlined
def open_all(work):
    """Let all rows be open, as rows that had no label before."""
    n = len(work.rows)
    for x in range(n):
        work.rows[x], work.before[x] = x, -1
    for i in range(len(work.n_open)):
        work.n_open[i] = min(SPAN, n - i * SPAN)


@inner
def move_all(dense, sparse, held, work, labelled, block, guide):
    """Move the open rows of all spans."""
    for i in range(len(work.n_open)):
        first = i * SPAN
        last = first + work.n_open[i]
        move(dense, sparse, held, work.rows[first:last], work.before[first:last], labelled, block, guide)


@inner
def _scores(dense, sparse, buffer, chosen, table, k, out):
    """Put the products of the chosen rows, which are in ascending order, and the table into `out`."""
    if sparse is not None:
        steps.sparse_scores(sparse[0], sparse[1], sparse[2], chosen, table, True, out)
    if dense is not None:
        if buffer is None:  # few clusters: BLAS would spend its time on copies of the rows
            for j in range(0, len(chosen), DOT_ROWS):
                dot_rows(dense, chosen, j, len(chosen), table, out)
        if buffer is not None:
            _dense_scores(dense, buffer, chosen, table, k, out)


@inner
def _dense_scores(dense, buffer, chosen, table, k, out):
    m = len(chosen)
    products = empty((m, k), out.dtype)
    if chosen[m - 1] - chosen[0] == m - 1:
        np.dot(dense[chosen[0] : chosen[0] + m], table, products)
    else:
        for j in range(m):
            for c in range(dense.shape[1]):
                buffer[j, c] = dense[chosen[j], c]
        np.dot(buffer[:m], table, products)
    for j in range(m):
        for c in range(k):
            out[j, c] = products[j, c]


@inlined
def _add_guide(held, chosen, shares, out):
    """Add what the labels of the guide cost."""
    for j in range(len(chosen)):
        for c in range(shares.shape[1]):
            out[j, c] += shares[held[chosen[j]], c]


@inlined
def _add_own(present, chosen, own, out):
    """Add the offsets of a block that some rows are absent from."""
    for j in range(len(chosen)):
        for c in range(len(own)):
            if present[chosen[j]]:
                out[j, c] += own[c]


@inner
def move(dense, sparse, held, chosen, before, labelled, block, guide):
    """Move rows from the sums of the clusters that they were in before to those of their labels."""
    labels, weight = labelled.labels, labelled.weight
    if sparse is not None:
        steps.move_sparse(sparse[0], sparse[1], sparse[2], chosen, before, labels, weight, block.sums)
    if dense is not None:
        steps.move_dense(dense, chosen, before, labels, weight, block.sums)
    if guide is not None:
        step = 0 if len(weight) == 1 else 1
        for j in range(len(chosen)):
            x, old = chosen[j], before[j]
            if old != labels[x]:
                guide.sums[labels[x], held[x]] += weight[x * step]
                if old >= 0:
                    guide.sums[old, held[x]] -= weight[x * step]
