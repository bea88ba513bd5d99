"""One call makes many of Lloyd's iterations over one block of features, and a guide if there is one, on the CPU.

On small data most of the time would go into the calls between two steps. A compiled loop has none, and holds no lock.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.csr import Csr, OneHot
from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.features import steps
from gpuensemble._kernels.cpu.tiles import DOT_ROWS, aligned, dot_width
from gpuensemble._kernels.cpu.vector import dot_rows
from gpuensemble._kernels.distances import LACKING, fill_tables, place, saved_by


def fits(features: Any) -> bool:
    """Tell whether there is one block, or one and the labels of a guide that all rows have."""
    guide = features.parts[1:]
    return not guide or (len(guide) == 1 and isinstance(guide[0], OneHot))


class Clusters(NamedTuple):
    """This says what clusters are in one block, or in the guide; it is updated in place."""

    cosine: bool
    weight: float  # of the block's distance
    sums: Any
    number: Any
    mass: Any
    position: Any


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
    lacking: float
    rounding: float


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

    What there is not is None: Numba leaves out what it is for, and compiles what the data need.
    """
    part, present, agreement = features.parts[0], features.present[0], "agreement" in features.distances
    sparse = (part.data, part.indices, part.indptr.astype(np.int64, copy=False)) if isinstance(part, Csr) else None
    dense = np.ascontiguousarray(part) if sparse is None else None
    clusters = [
        Clusters(*parts)
        for parts in zip(
            *([kind == "cosine" for kind in features.distances], features.weights),
            *(state.sums, state.counts, state.masses, position),
            strict=True,
        )
    ]
    guided = len(clusters) > 1
    work, buffer = _workspace(features, len(empty), dense)
    return _advance(
        *(dense, sparse, buffer, None if present is None else np.ascontiguousarray(present)),
        *(clusters[0], _background(features, 0)),
        *((clusters[1], _background(features, 1), features.parts[1].indices) if guided else (None, None, None)),
        *(True if agreement else None, Labelled(state.labels, state.margin, state.weight, features.square)),
        *(work, stop, empty, shift, features.bounded),
    )


def _background(features: Any, i: int) -> np.ndarray | None:
    """Return what the rows of a block are mixed with for "kl", None for another distance."""
    background = features.measures[i].background
    if features.distances[i] != "kl":
        return None
    return np.zeros(features.parts[i].shape[1]) if background is None else background


def _workspace(features: Any, k: int, dense: Any) -> tuple[Workspace, Any]:
    """Return room for tables and scores, and for copies of rows where BLAS multiplies them."""
    dtype = features.dtype
    space, offset = steps.scores_and_offset(k, dtype)
    width = space.shape[1] if dense is None else dot_width(k, dtype)
    table = aligned((features.parts[0].shape[1], width or k), dtype)
    buffer = None if width else np.empty((len(space), dense.shape[1]), dtype)
    return Workspace(table, space, offset, LACKING[dtype.name], steps.rounding_of(dtype)), buffer


@kernel
def _advance(  # noqa: PLR0912
    dense,
    sparse,
    buffer,
    present,
    block,
    behind,
    guide,
    guide_behind,
    held,
    shares,
    labelled,
    work,
    stop,
    empty,
    shift,
    bounded,
):
    k, objective, space, n_steps = len(block.sums), stop.objective, work.space, 0
    own, guide_own, size, guide_size = np.empty(k), np.zeros(k), np.empty(k), np.empty(k)
    before, squared = np.empty(len(labelled.labels), np.int32), behind is None and not block.cosine
    fill_tables(block.cosine, behind, None, block.position, block.weight, work.lacking, work.table, own)
    if guide is not None:
        guide_table = np.empty((guide.sums.shape[1], k), space.dtype)
        fill_tables(
            guide.cosine, guide_behind, shares, guide.position, guide.weight, work.lacking, guide_table, guide_own
        )
    while True:
        n_steps += 1
        for c in range(k):
            work.offset[0, c] = np.inf if empty[c] else guide_own[c] + (own[c] if present is None else 0.0)
        unsure = steps.open_rows(labelled.labels, labelled.margin, shift)
        moved = 0
        for begin in range(0, len(unsure), len(space)):
            chosen = unsure[begin : begin + len(space)]
            for j in range(len(chosen)):
                before[j] = labelled.labels[chosen[j]]
            _scores(dense, sparse, buffer, chosen, work.table, k, space)
            if held is not None:
                _add_guide(held, chosen, guide_table, space)
            if present is not None:
                _add_own(present, chosen, own, space)
            labels, margin, square = labelled.labels, labelled.margin, labelled.square
            moved += steps.choose(space, work.offset, k, chosen, square, squared, work.rounding, labels, margin)
            if behind is None:
                _move(dense, sparse, held, chosen, before, labelled, block, guide)
        if behind is not None:
            _sum_up(dense, sparse, held, before, labelled, block, guide)
        steps.count_rows(labelled.labels, present, labelled.weight, block.number, block.mass)
        if guide is not None:
            steps.count_rows(labelled.labels, None, labelled.weight, guide.number, guide.mass)
        n_empty = 0
        for c in range(k):
            n_empty += block.number[c] == 0
        if moved == 0 or n_empty or n_steps == stop.limit:
            return n_steps, moved, objective
        found = stop.total - block.weight * saved_by(block.cosine, behind, None, block.sums, block.mass, size)
        if guide is not None:
            found -= guide.weight * saved_by(guide.cosine, guide_behind, shares, guide.sums, guide.mass, guide_size)
        if objective - found <= stop.tol * found:
            return n_steps, moved, objective
        objective = found
        for c in range(k):
            shift[c] = 0.0
        place(behind, None, block.sums, size, block.weight, block.position, shift)
        fill_tables(block.cosine, behind, None, block.position, block.weight, work.lacking, work.table, own)
        if guide is not None:
            place(guide_behind, shares, guide.sums, guide_size, guide.weight, guide.position, shift)
            fill_tables(
                guide.cosine, guide_behind, shares, guide.position, guide.weight, work.lacking, guide_table, guide_own
            )
        for c in range(k):
            empty[c] = False
            shift[c] = np.sqrt(shift[c]) if bounded else np.inf


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
    products = np.empty((m, k), out.dtype)
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


@inner
def _add_guide(held, chosen, shares, out):
    """Add what the labels of the guide cost."""
    for j in range(len(chosen)):
        for c in range(shares.shape[1]):
            out[j, c] += shares[held[chosen[j]], c]


@inner
def _add_own(present, chosen, own, out):
    """Add the offsets of a block that some rows are absent from."""
    for j in range(len(chosen)):
        for c in range(len(own)):
            if present[chosen[j]]:
                out[j, c] += own[c]


@inner
def _sum_up(dense, sparse, held, before, labelled, block, guide):
    """Make the sums of the clusters anew from the labels."""
    _clear(block.sums)
    if guide is not None:
        _clear(guide.sums)
    every = np.empty(len(before), np.intp)
    for x in range(len(before)):
        every[x], before[x] = x, -1
    _move(dense, sparse, held, every, before, labelled, block, guide)


@inner
def _clear(sums):
    for c in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            sums[c, j] = 0.0


@inner
def _move(dense, sparse, held, chosen, before, labelled, block, guide):
    """Move rows from the sums of the clusters that they were in before to those of their labels."""
    labels, weight = labelled.labels, labelled.weight
    if sparse is not None:
        steps.move_sparse(sparse[0], sparse[1], sparse[2], chosen, before, labels, weight, block.sums)
    if dense is not None:
        steps.move_dense(dense, chosen, before, labels, weight, block.sums)
    if guide is not None:
        step = min(1, len(weight) - 1)
        for j in range(len(chosen)):
            x, old = chosen[j], before[j]
            guide.sums[labels[x], held[x]] += weight[x * step]
            if old >= 0:
                guide.sums[old, held[x]] -= weight[x * step]
