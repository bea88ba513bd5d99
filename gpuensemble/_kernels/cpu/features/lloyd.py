"""One call makes many of Lloyd's iterations over one block of features, and a guide if there is one, on the CPU.

On small data most of the time would go into the calls between two steps. A compiled loop has none, and holds no lock.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.csr import Csr, OneHot
from gpuensemble._kernels.cpu.compiling import inlined, inner, kernel
from gpuensemble._kernels.cpu.features import short as in_short
from gpuensemble._kernels.cpu.features import spans, steps
from gpuensemble._kernels.cpu.kmeans import sharing
from gpuensemble._kernels.cpu.vector.tiles import dot_width, padded, side_by_side
from gpuensemble._kernels.distances import CODES, COSINE, KL, LACKING, fill_tables, place, saved_by

ALONE = 1 << 22  # products of a step that are worth a thread


def fits(features: Any) -> bool:
    """Tell whether there is one block, or one and the labels of a guide that all rows have."""
    guide = features.parts[1:]
    return not guide or (len(guide) == 1 and isinstance(guide[0], OneHot))


class Clusters(NamedTuple):
    """This says what clusters are in one block, or in the guide; it is updated in place."""

    kind: int  # of the distance, one of `CODES`
    background: Any  # what rows are mixed with for "kl", else zeros
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
    """A `Workspace` holds tables of costs, what threads tell each other, and room.

    What a kernel would make for itself is made here: Numba compiles `np.empty` anew for each of its types.
    """

    table: Any
    offset: Any
    lacking: float
    rounding: float
    rows: Any  # n of them, and their labels before: those of a span that are open, from its place on
    before: Any
    n_open: Any  # rows of each span
    bounded: Any  # whether shifts bound what costs change
    moved: Any  # rows of each thread
    found: Any  # steps, the rows that moved in the last one, the objective before it, empty clusters, and two costs
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
    part, present = features.parts[0], features.present[0]
    sparse = (part.data, part.indices, part.indptr.astype(np.int64, copy=False)) if isinstance(part, Csr) else None
    dense = np.ascontiguousarray(part) if sparse is None else None
    clusters = [
        Clusters(CODES[distance], np.zeros(of_block[1].shape[1]) if behind is None else behind, *of_block)
        for distance, behind, *of_block in zip(
            *(features.distances, [measure.background for measure in features.measures]),
            *(features.weights, state.sums, state.counts, state.masses, position),
            strict=True,
        )
    ]
    guided, k = len(clusters) > 1, len(empty)
    short = in_short.short_of(features, k)
    n_threads = sharing.n_threads(k * (len(part.data) if isinstance(part, Csr) else part.size), ALONE)
    work = _workspace(features, k, dense, n_threads)
    shared = (
        *(dense, sparse, np.empty(0, bool) if present is None else np.ascontiguousarray(present)),
        *(features.parts[1].indices if guided else None, short, clusters[0], clusters[1] if guided else None),
        Labelled(state.labels, state.margin, state.weight, features.square),
        *(work, stop, empty, shift, features.bounded, not placed),
    )
    own = [(me, _room(features, k, dense, short)) for me in range(n_threads)]
    sharing.led(_advance, shared, own)
    n_steps, moved, objective, n_empty, *costs = work.found.tolist()
    return int(n_steps), int(moved), objective, None if n_empty else costs[: len(clusters)]


def _room(features: Any, k: int, dense: Any, short: Any) -> spans.Room:
    """Make a thread's room for scores, and for copies of rows where BLAS multiplies them."""
    (space,) = side_by_side(features.dtype, (steps.BLOCK, padded(k, features.dtype)))
    by_blas = dense is not None and not dot_width(k, features.dtype)
    buffer = np.empty((steps.BLOCK, dense.shape[1]), features.dtype) if by_blas else None
    return spans.Room(space, buffer, *in_short.room_of(short))


def _workspace(features: Any, k: int, dense: Any, n_threads: int) -> Workspace:
    dtype, n, broad = features.dtype, len(features.square), padded(k, features.dtype)
    width = broad if dense is None else dot_width(k, dtype)
    offset, table = side_by_side(dtype, (1, broad), (features.parts[0].shape[1], width or k))
    own, guide_own, size, guide_size = np.zeros((4, k))
    guide = [np.empty((part.shape[1], k), dtype) for part in features.parts[1:]]
    return Workspace(
        table=table,
        offset=offset,
        lacking=LACKING[dtype],
        rounding=steps.rounding_of(dtype),
        rows=np.empty(n, np.intp),
        before=np.empty(n, np.int32),
        n_open=np.zeros(-(-n // spans.SPAN), np.int64),
        bounded=np.zeros(1, bool),
        moved=sharing.apart(n_threads, 1, np.int64),
        found=np.zeros(6),
        own=own,
        guide_own=guide_own,
        size=size,
        guide_size=guide_size,
        guide_table=guide[0] if guide else None,
    )


@kernel
def _advance(  # noqa: PLR0912, PLR0915
    dense,
    sparse,
    present,
    held,
    short,
    block,
    guide,
    labelled,
    work,
    stop,
    empty,
    shift,
    bounded,
    from_labels,
    me,
    room,
    control,
):
    """Make steps: the leader does what is between them, and all choose centres. A helper returns whether to come again.

    What may be None keeps its name: Numba must see it as the argument that it is.
    """
    block, labelled, work, shift, room, control = sharing.borrowed((block, labelled, work, shift, room, control))
    k, objective, n_steps, moved, phase = len(block.sums), stop.objective, 0, 0, np.int64(0)
    own, guide_own, size, guide_size = work.own, work.guide_own, work.size, work.guide_size
    all_present = len(present) == 0
    cost, guide_cost, longest = 0.0, 0.0, 0.0
    if me == 0:
        if short is not None:
            longest = in_short.begin(short, block.kind == COSINE, labelled.square)
        if from_labels:
            _sum_up(dense, sparse, held, work, labelled, block, guide)
    while True:
        if me > 0:
            phase = sharing.join(control, phase)
            if phase <= 0:
                return np.int64(phase == 0)
        else:
            if from_labels or n_steps:
                n_empty = steps.counted(present, labelled, block, guide)
                saved = saved_by(block.kind, block.background, block.sums, block.mass, size)
                cost = _positive(stop.total - block.weight * saved)
                if guide is not None:
                    saved = saved_by(guide.kind, guide.background, guide.sums, guide.mass, guide_size)
                    guide_cost = _positive(stop.of_guide - guide.weight * saved)
                found = cost + guide_cost
                ends = moved == 0 or n_steps == stop.limit or objective - found <= stop.tol * found
                if n_empty or (n_steps and ends):
                    work.found[0], work.found[1], work.found[2] = n_steps, moved, objective
                    work.found[3], work.found[4], work.found[5] = n_empty, cost, guide_cost
                    return np.int64(0)
                if n_steps:
                    objective = found
                for c in range(k):
                    shift[c], empty[c] = 0.0, False
                place(block.kind, block.background, block.sums, size, block.weight, block.position, shift)
                if guide is not None:
                    place(guide.kind, guide.background, guide.sums, guide_size, guide.weight, guide.position, shift)
                for c in range(k):
                    shift[c] = math.sqrt(shift[c]) if bounded and n_steps else np.inf
            given = block.kind, block.background, block.position, block.weight, work.lacking
            fill_tables(*given, work.table, own)
            if guide is not None:
                given = guide.kind, guide.background, guide.position, guide.weight, work.lacking
                fill_tables(*given, work.guide_table, guide_own)
            n_steps += 1
            for c in range(k):
                work.offset[0, c] = np.inf if empty[c] else guide_own[c] + (own[c] if all_present else 0.0)
            work.bounded[0] = bounded and n_steps > 1
            if short is not None:
                in_short.fill(short, block, work, held, k, longest)
                in_short.fill_shifts(short, shift)
            sharing.open_job(control, 0)
        spans.choose(dense, sparse, present, held, short, block, guide, labelled, work, shift, me, room, control)
        if me > 0:
            sharing.leave(control)
            continue
        sharing.close_job(control)
        if block.kind == KL:  # what rounding leaves of a sum that should be 0 has a logarithm
            _sum_up(dense, sparse, held, work, labelled, block, guide)
        elif len(work.moved) > 1:
            spans.move_all(dense, sparse, held, work, labelled, block, guide)
        moved = 0
        for i in range(len(work.moved)):
            moved += work.moved[i, 0]
            work.moved[i, 0] = 0


@inner
def _sum_up(dense, sparse, held, work, labelled, block, guide):
    """Make the sums of the clusters anew from the labels."""
    _clear(block.sums)
    if guide is not None:
        _clear(guide.sums)
    spans.open_all(work)
    spans.move_all(dense, sparse, held, work, labelled, block, guide)


@inlined
def _positive(cost):
    """Return a cost, or 0 if rounding has made it less than that."""
    return cost if cost > 0 else 0.0


@inner
def _clear(sums):
    for c in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            sums[c, j] = 0.0
