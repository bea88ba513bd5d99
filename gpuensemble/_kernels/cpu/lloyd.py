"""One call makes many of Lloyd's iterations over one block of features, and a guide if there is one, on the CPU.

On small data most of the time would go into the calls between two steps. A compiled loop has none, and holds no lock.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.csr import Csr, OneHot
from gpuensemble._kernels.cpu import features as steps
from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.tiles import DOT_ROWS, aligned, dot_width
from gpuensemble._kernels.cpu.vector import dot_rows
from gpuensemble._kernels.distances import AGREEMENT, CODES, KL, LACKING, SQUARED, fill_tables, place, saved_by


def fits(features: Any) -> bool:
    """Tell whether there is one block, or one and the labels of a guide that all rows have."""
    guide = features.parts[1:]
    return not guide or (len(guide) == 1 and isinstance(guide[0], OneHot))


class FeatureRows(NamedTuple):
    """These are the rows of one block, dense or sparse, which of them are present, and the labels of the guide.

    What there is not is an empty array of the same type, so that one compilation serves all cases.
    """

    dense: Any
    data: Any
    indices: Any
    indptr: Any
    present: Any
    guide: Any


class Clusters(NamedTuple):
    """This says what clusters are in one block, or in the guide; it is updated in place."""

    kind: int  # one of CODES
    weight: float  # of the block's distance
    sums: Any
    number: Any
    mass: Any
    position: Any
    background: Any  # that rows are mixed with; zeros: none


class Labelled(NamedTuple):
    """This is what is known of each row; it is updated in place, but for weight and squared length."""

    labels: Any
    margin: Any
    weight: Any  # a single one where all rows count the same
    square: Any


class Workspace(NamedTuple):
    """A `Workspace` holds tables of costs, and has room for the scores of some rows."""

    table: Any
    space: Any
    offset: Any
    buffer: Any
    lacking: float


class Stop(NamedTuple):
    """This says when to stop; `total` is the weighted sum of the rows' constants."""

    total: float
    objective: float
    limit: int
    tol: float


def advance(features: Any, state: Any, position: list, empty: Any, shift: Any, stop: Stop) -> tuple[int, int, float]:
    """Take steps until no row moves, a cluster is empty, or the objective falls too little, `stop.limit` at most.

    Labels, sums, counts and masses are then those of the last step, and positions those that it used. The call returns
    how many steps there were, how many rows the last one moved, and the objective before it.
    """
    rows = _rows(features)
    clusters = [
        Clusters(CODES[features.distances[i]], features.weights[i], *parts, _background(features, i))
        for i, parts in enumerate(zip(state.sums, state.counts, state.masses, position, strict=True))
    ]
    if len(clusters) == 1:
        nowhere = np.empty((0, 0))
        clusters.append(Clusters(AGREEMENT, 0.0, nowhere, np.empty(0, np.int64), np.empty(0), nowhere, np.empty(0)))
    labelled = Labelled(state.labels, state.margin, state.weight, features.square)
    work = _workspace(features, len(empty), rows)
    return _advance(rows, *clusters, labelled, work, stop, empty, shift, features.bounded)


def _background(features: Any, i: int) -> np.ndarray:
    background = features.measures[i].background
    return np.zeros(features.parts[i].shape[1]) if background is None else background


def _rows(features: Any) -> FeatureRows:
    part, dtype, present = features.parts[0], features.dtype, features.present[0]
    none = np.empty(0, np.int32)
    if isinstance(part, Csr):
        dense, entries = np.empty((0, 0), dtype), (part.data, part.indices, part.indptr.astype(np.int64, copy=False))
    else:
        dense, entries = np.ascontiguousarray(part), (np.empty(0, dtype), none, np.empty(0, np.int64))
    present = np.empty(0, bool) if present is None else np.ascontiguousarray(present)
    return FeatureRows(dense, *entries, present, features.parts[1].indices if len(features.parts) > 1 else none)


def _workspace(features: Any, k: int, rows: FeatureRows) -> Workspace:
    dtype = features.dtype
    space, offset = steps.scores_and_offset(k, dtype)
    width = dot_width(k, dtype) if len(rows.dense) else space.shape[1]
    table = aligned((features.parts[0].shape[1], width or k), dtype)
    buffer = np.empty((0 if width else len(space), rows.dense.shape[1]), dtype)
    return Workspace(table, space, offset, buffer, LACKING[dtype.name])


@kernel
def _advance(rows, block, guide, labelled, work, stop, empty, shift, bounded):
    k, objective, space = len(block.sums), stop.objective, work.space
    guide_table = np.empty((guide.sums.shape[1], k), rows.data.dtype)
    products = np.empty((len(work.buffer), k), rows.data.dtype)
    own, guide_own, size, guide_size = [np.empty(k) for _ in range(4)]
    every, none = np.arange(len(labelled.labels)), np.full(len(labelled.labels), -1, np.int32)
    fill_tables(block.kind, block.position, block.background, block.weight, work.lacking, work.table, own)
    fill_tables(guide.kind, guide.position, guide.background, guide.weight, work.lacking, guide_table, guide_own)
    n_steps = 0
    while True:
        n_steps += 1
        for c in range(k):
            work.offset[0, c] = np.inf if empty[c] else guide_own[c] + (0.0 if len(rows.present) else own[c])
        unsure = steps.open_rows(labelled.labels, labelled.margin, shift)
        moved = 0
        for begin in range(0, len(unsure), len(space)):
            chosen = unsure[begin : begin + len(space)]
            before = labelled.labels[chosen]
            _scores(rows, chosen, work, products)
            _add_guide(rows, chosen, guide_table, own, space)
            squared = block.kind == SQUARED
            moved += steps.choose(
                space, work.offset, k, chosen, labelled.square, squared, labelled.labels, labelled.margin
            )
            if block.kind != KL:
                _move(rows, chosen, before, labelled, block.sums, guide.sums)
        if block.kind == KL:
            _clear(block.sums)
            _clear(guide.sums)
            _move(rows, every, none, labelled, block.sums, guide.sums)
        steps.count_rows(labelled.labels, rows.present, labelled.weight, block.number, block.mass)
        if len(rows.guide):
            steps.count_rows(labelled.labels, rows.present[:0], labelled.weight, guide.number, guide.mass)
        if moved == 0 or (block.number == 0).any() or n_steps == stop.limit:
            return n_steps, moved, objective
        found = stop.total - block.weight * saved_by(block.kind, block.sums, block.background, block.mass, size)
        found -= guide.weight * saved_by(guide.kind, guide.sums, guide.background, guide.mass, guide_size)
        if objective - found <= stop.tol * found:
            return n_steps, moved, objective
        objective = found
        for c in range(k):
            shift[c] = 0.0
        place(block.kind, block.sums, block.background, size, block.weight, block.position, shift)
        place(guide.kind, guide.sums, guide.background, guide_size, guide.weight, guide.position, shift)
        fill_tables(block.kind, block.position, block.background, block.weight, work.lacking, work.table, own)
        fill_tables(guide.kind, guide.position, guide.background, guide.weight, work.lacking, guide_table, guide_own)
        for c in range(k):
            empty[c] = False
            shift[c] = np.sqrt(shift[c]) if bounded else np.inf


@kernel
def _scores(rows, chosen, work, products):
    """Put the products of the chosen rows, which are in ascending order, and the table into `space`."""
    m, dense, table, out = len(chosen), rows.dense, work.table, work.space
    if not len(dense):
        steps.sparse_scores(rows.data, rows.indices, rows.indptr, chosen, table, True, out)
    elif not len(work.buffer):  # few clusters: BLAS would spend its time on copies of the rows
        for j in range(0, m, DOT_ROWS):
            dot_rows(dense, chosen, j, m, table, out)
    else:
        if chosen[m - 1] - chosen[0] == m - 1:
            np.dot(dense[chosen[0] : chosen[0] + m], table, products[:m])
        else:
            for j in range(m):
                for c in range(dense.shape[1]):
                    work.buffer[j, c] = dense[chosen[j], c]
            np.dot(work.buffer[:m], table, products[:m])
        for j in range(m):
            for c in range(products.shape[1]):
                out[j, c] = products[j, c]


@kernel
def _clear(sums):
    for c in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            sums[c, j] = 0.0


@kernel
def _add_guide(rows, chosen, guide_table, own, out):
    """Add what the labels of the guide cost, and the offsets of a block that some rows are absent from."""
    for j in range(len(chosen)):
        for c in range(len(own)):
            if len(rows.guide):
                out[j, c] += guide_table[rows.guide[chosen[j]], c]
            if len(rows.present) and rows.present[chosen[j]]:
                out[j, c] += own[c]


@kernel
def _move(rows, chosen, before, labelled, sums, guide_sums):
    """Move rows from the sums of the clusters that they were in before to those of their labels."""
    labels, weight = labelled.labels, labelled.weight
    if len(rows.dense):
        steps.move_dense(rows.dense, chosen, before, labels, weight, sums)
    else:
        steps.move_sparse(rows.data, rows.indices, rows.indptr, chosen, before, labels, weight, sums)
    step = min(1, len(weight) - 1)
    if len(rows.guide):
        for j in range(len(chosen)):
            x, old = chosen[j], before[j]
            guide_sums[labels[x], rows.guide[x]] += weight[x * step]
            if old >= 0:
                guide_sums[old, rows.guide[x]] -= weight[x * step]
