"""One call makes many of Lloyd's iterations over one block of features, and a guide if there is one, on the CPU.

On small data most of the time would go into the calls between two steps. A compiled loop has none, and holds no lock.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.csr import Csr, OneHot
from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.features import short as in_short
from gpuensemble._kernels.cpu.features import steps
from gpuensemble._kernels.cpu.vector.dots import dot_rows
from gpuensemble._kernels.cpu.vector.empty import empty
from gpuensemble._kernels.cpu.vector.tiles import DOT_ROWS, dot_width, padded, side_by_side
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
    """A `Workspace` holds tables of costs, and has room for the scores of some rows.

    What a kernel would make for itself is made here: Numba compiles `np.empty` anew for each of its types.
    """

    table: Any
    space: Any
    offset: Any
    lacking: float
    rounding: float
    rows: Any  # n of them, and their labels before
    before: Any
    own: Any  # k: the offsets of block and guide, and what sums are divided by
    guide_own: Any
    size: Any
    guide_size: Any
    guide_table: Any


class Stop(NamedTuple):
    """This says when to stop; totals are the weighted sums of the rows' constants, of the block and of the guide."""

    total: float
    of_guide: float
    objective: float
    limit: int
    tol: float


def advance(
    features: Any, state: Any, position: list, empty: Any, shift: Any, stop: Stop, placed: bool
) -> tuple[int, int, float, list[float] | None]:
    """Take steps until no row moves, a cluster is empty, or the objective falls too little, `stop.limit` at most.

    If the centres are not `placed`, it puts them at the means of the rows that have a label; there are no steps if one
    of the clusters is empty. Labels, sums, counts and masses are then those of the last step, and positions those that
    it used. The call returns how many steps there were, how many rows the last one moved, the objective before it, and
    what each block costs after it, or None if a cluster is empty.

    What there is not is None: Numba leaves out what it is for, and compiles what the data need. Who is present is an
    empty array if all are: it takes little time to look at, and would otherwise double what there is to compile.
    """
    part, present, agreement = features.parts[0], features.present[0], "agreement" in features.distances
    sparse = (part.data, part.indices, part.indptr.astype(np.int64, copy=False)) if isinstance(part, Csr) else None
    dense = np.ascontiguousarray(part) if sparse is None else None
    clusters = [
        Clusters(distance == "cosine", *parts)
        for distance, *parts in zip(
            features.distances, features.weights, state.sums, state.counts, state.masses, position, strict=True
        )
    ]
    guided = len(clusters) > 1
    work, buffer = _workspace(features, len(empty), dense)
    n_steps, moved, objective, n_empty, *costs = _advance(
        *(
            dense,
            sparse,
            buffer,
            in_short.short_of(features, len(empty)),
            np.empty(0, bool) if present is None else np.ascontiguousarray(present),
        ),
        *(clusters[0], _background(features, 0)),
        *((clusters[1], _background(features, 1), features.parts[1].indices) if guided else (None, None, None)),
        *(True if agreement else None, Labelled(state.labels, state.margin, state.weight, features.square)),
        *(work, stop, empty, shift, features.bounded, not placed),
    )
    return n_steps, moved, objective, None if n_empty else costs[: len(clusters)]


def _background(features: Any, i: int) -> np.ndarray | None:
    """Return what the rows of a block are mixed with for "kl", None for another distance."""
    background = features.measures[i].background
    if features.distances[i] != "kl":
        return None
    return np.zeros(features.parts[i].shape[1]) if background is None else background


def _workspace(features: Any, k: int, dense: Any) -> tuple[Workspace, Any]:
    """Return room for tables and scores, and for copies of rows where BLAS multiplies them."""
    dtype, n, broad = features.dtype, len(features.square), padded(k, features.dtype)
    width = broad if dense is None else dot_width(k, dtype)
    space, offset, table = side_by_side(
        dtype, (steps.BLOCK, broad), (1, broad), (features.parts[0].shape[1], width or k)
    )
    own, guide_own, size, guide_size = np.zeros((4, k))
    buffer = None if width else np.empty((len(space), dense.shape[1]), dtype)
    guide = [np.empty((part.shape[1], k), dtype) for part in features.parts[1:]]
    work = Workspace(
        table=table,
        space=space,
        offset=offset,
        lacking=LACKING[dtype],
        rounding=steps.rounding_of(dtype),
        rows=np.empty(n, np.intp),
        before=np.empty(n, np.int32),
        own=own,
        guide_own=guide_own,
        size=size,
        guide_size=guide_size,
        guide_table=guide[0] if guide else None,
    )
    return work, buffer


@kernel
def _advance(  # noqa: PLR0912, PLR0915
    dense,
    sparse,
    buffer,
    short,
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
    from_labels,
):
    k, objective, space, n_steps, moved = len(block.sums), stop.objective, work.space, 0, 0
    own, guide_own, size, guide_size = work.own, work.guide_own, work.size, work.guide_size
    before, squared, all_present = work.before, behind is None and not block.cosine, len(present) == 0
    cost, guide_cost, longest = 0.0, 0.0, 0.0
    if short is not None:
        longest = in_short.begin(short, block.cosine, labelled.square)
    if from_labels:
        _sum_up(dense, sparse, held, work, labelled, block, guide)
    while True:
        if from_labels or n_steps:
            n_empty = steps.counted(present, labelled, block, guide)
            cost = _positive(
                stop.total - block.weight * saved_by(block.cosine, behind, None, block.sums, block.mass, size)
            )
            if guide is not None:
                saved = saved_by(guide.cosine, guide_behind, shares, guide.sums, guide.mass, guide_size)
                guide_cost = _positive(stop.of_guide - guide.weight * saved)
            found = cost + guide_cost
            ends = moved == 0 or n_steps == stop.limit or objective - found <= stop.tol * found
            if n_empty or (n_steps and ends):
                return n_steps, moved, objective, n_empty, cost, guide_cost
            if n_steps:
                objective = found
            for c in range(k):
                shift[c], empty[c] = 0.0, False
            place(behind, None, block.sums, size, block.weight, block.position, shift)
            if guide is not None:
                place(guide_behind, shares, guide.sums, guide_size, guide.weight, guide.position, shift)
            for c in range(k):
                shift[c] = math.sqrt(shift[c]) if bounded and n_steps else np.inf
        fill_tables(block.cosine, behind, None, block.position, block.weight, work.lacking, work.table, own)
        if guide is not None:
            fill_tables(
                guide.cosine,
                guide_behind,
                shares,
                guide.position,
                guide.weight,
                work.lacking,
                work.guide_table,
                guide_own,
            )
        n_steps += 1
        for c in range(k):
            work.offset[0, c] = np.inf if empty[c] else guide_own[c] + (own[c] if all_present else 0.0)
        if short is not None:
            in_short.fill(short, block, work, held, k, longest)
            n_open = in_short.open_rows(short, labelled.labels, shift, bounded and n_steps > 1, work.rows)
        if short is None:
            n_open = steps.open_rows(labelled.labels, labelled.margin, shift, work.rows)
        moved = 0
        for begin in range(0, n_open, len(space)):
            chosen = work.rows[begin : begin + len(space) if begin + len(space) < n_open else n_open]
            for j in range(len(chosen)):
                before[j] = labelled.labels[chosen[j]]
            open_rows = chosen
            if short is not None:
                told, n_unsure = in_short.choose_sure(short, chosen, held, labelled, squared)
                moved, open_rows = moved + told, short.unsure[:n_unsure]
            if len(open_rows):
                _scores(dense, sparse, buffer, open_rows, work.table, k, space)
                if held is not None:
                    _add_guide(held, open_rows, work.guide_table, space)
                if not all_present:
                    _add_own(present, open_rows, own, space)
                labels, margin, square = labelled.labels, labelled.margin, labelled.square
                moved += steps.choose(space, work.offset, k, open_rows, square, squared, work.rounding, labels, margin)
            if behind is None:
                _move(dense, sparse, held, chosen, before, labelled, block, guide)
        if behind is not None:
            _sum_up(dense, sparse, held, work, labelled, block, guide)


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
def _sum_up(dense, sparse, held, work, labelled, block, guide):
    """Make the sums of the clusters anew from the labels."""
    _clear(block.sums)
    if guide is not None:
        _clear(guide.sums)
    for x in range(len(work.before)):
        work.rows[x], work.before[x] = x, -1
    _move(dense, sparse, held, work.rows, work.before, labelled, block, guide)


@inner
def _positive(cost):
    """Return a cost, or 0 if rounding has made it less than that."""
    return cost if cost > 0 else 0.0


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
        step = 0 if len(weight) == 1 else 1
        for j in range(len(chosen)):
            x, old = chosen[j], before[j]
            if old != labels[x]:
                guide.sums[labels[x], held[x]] += weight[x * step]
                if old >= 0:
                    guide.sums[old, held[x]] -= weight[x * step]
