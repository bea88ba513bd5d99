"""Several iterations of k-means over labels are one call on the CPU: no Python runs between them, no thread sleeps.

An iteration is three jobs that threads share: PRICE adds up what they have counted and makes tables of costs, by
partitions; ROUND makes tables in 16 bits; RELABEL goes through the rows. The leader does what is left in between.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.kmeans import pricing, relabel, sharing, short
from gpuensemble._kernels.cpu.kmeans.relabel import Drift, RowFacts, State
from gpuensemble._kernels.cpu.membership import codes_of
from gpuensemble._kernels.cpu.tiles import tiled

PRICE, ROUND, RELABEL = range(3)
split = inner(relabel.split)


class Method(NamedTuple):
    """This says what clusters cost, as `pricing.price` takes it."""

    kind: int  # place in pricing.KINDS
    of_column: Any
    of_partition: Any
    scale: float
    unit: float
    total: float
    complete: bool
    heaviest: float  # weight of a row
    safety: float  # of bounds of rounding errors: see pricing.drift


class Limits(NamedTuple):
    """This says when to stop, which rows to look at, and when to count all of them."""

    n_iter: int
    skip: bool  # rows that cannot have moved are left out
    moved_share: float  # of rows: if more have moved, the next iteration counts anew
    anew: bool  # the first iteration does


class Last(NamedTuple):
    """This tells what iterations led to: the last of them is to be judged, those before have lowered the objective."""

    statistics: list  # counts and masses: before the last iteration but one, before the last, after it
    tables: tuple  # of costs, and those of partitions: of the last iteration
    priced: tuple  # and of what it led to
    facts: Any  # of each iteration: objective, empty clusters, rows that moved, rows that were evaluated


class _Room(NamedTuple):
    """These are arrays that threads share; of what there is several times, turn t uses t modulo the number."""

    turn: Any  # t, and whether its iteration counts anew
    sums: Any  # of each thread: see relabel.sums_for
    counts: Any  # 3 x C x K
    masses: Any  # 3 x as many rows as there are x K
    tables: Any  # 2 x C x K
    of_partitions: Any  # 2 x r or 1 x K
    parts: Any  # of price and drift: r x K
    terms: Any
    seen: Any
    low: Any
    high: Any
    size: Any
    tiles: Any  # of the table
    tiles_of_partitions: Any
    middle: Any  # of costs in 16 bits: r x K
    widest: Any  # r
    numbers: Any  # unit, ratio and errors


def iterate(
    membership: Any,
    method: Method,
    statistics: tuple,
    tables: tuple,
    known: bool,
    rows: RowFacts,
    state: State,
    edges: Any,
    limits: Limits,
) -> Last:
    """Iterate while the objective falls and no cluster is empty; `state` is updated.

    `statistics` are counts and masses of the labels in `state`. `tables` are those of costs and of partitions that
    these labels were evaluated by, if they are `known`; else only shape and type matter.
    """
    (n, r), (n_columns, n_clusters) = membership.codes.shape, statistics[0].shape
    n_threads = sharing.n_threads(n * r, relabel.ALONE)
    method = method._replace(safety=pricing.rounding_unit(method.safety, r, tables[0].dtype))
    sums = relabel.sums_for(n_threads, n_columns, n_clusters, rows.n_masses)
    room = _room_for(r, statistics, tables, sums)
    shortened = short.unknown(tables[0].shape, tables[1].shape)
    drift = Drift(edges, np.empty((len(edges) - 1, n_clusters), np.float32), np.empty(len(edges) - 1))
    cells = relabel.span_of(n, n_threads), relabel.starts_of(membership.offsets, n_clusters)
    facts = np.zeros((limits.n_iter + 1, 4))
    task = (codes_of(membership), method, room, shortened, rows, state, drift, cells)
    own = [(me, relabel.room_for(room.tiles, shortened)) for me in range(n_threads)]
    t = sharing.led(_iterate, (task, limits, known, facts), own)
    turns = [(room.counts[i % 3], room.masses[i % 3] if rows.n_masses else None) for i in (t - 2, t - 1, t)]
    before, after = ((room.tables[i % 2], room.of_partitions[i % 2]) for i in (t, t + 1))
    return Last(turns, before, after, facts[1 : t + 1])


def _room_for(r: int, statistics: tuple, tables: tuple, sums: Any) -> _Room:
    counts, masses = statistics
    n_clusters = counts.shape[1]
    counts = np.repeat(counts[None], 3, axis=0)
    masses = np.zeros((3, 0, n_clusters), np.int64) if masses is None else np.repeat(masses[None], 3, axis=0)
    pairs = [np.repeat(table[None], 2, axis=0) for table in tables]
    parts, terms, low, high, size, middle = (np.empty((r, n_clusters)) for _ in range(6))
    seen = np.empty((r, n_clusters), np.bool_)
    tiles = [tiled(table) for table in tables]
    turn, widest, numbers = np.zeros(2, np.int64), np.empty(r), np.empty(4)
    return _Room(  # type: ignore[call-arg]  # mypy does not count the pairs
        turn, sums, counts, masses, *pairs, parts, terms, seen, low, high, size, *tiles, middle, widest, numbers
    )


@kernel
def _iterate(task, limits, known, facts, me, own, control):
    """Lead, as the first thread, and return the number of iterations; or help, and return whether to come again."""
    phase = np.int64(0)
    while me > 0:
        phase = sharing.join(control, phase)
        if phase <= 0:
            return np.int64(phase == 0)
        _work(control[sharing.JOB], task, me, own, control)
        sharing.leave(control)
    given, method, room, _, rows, _, _, _ = task
    room.turn[1] = limits.anew
    priced = np.empty(2)
    for t in range(limits.n_iter + 1):
        room.turn[0] = t
        if t > 0:
            _add_up_threads(room, rows.n_masses, facts[t])
        _share(PRICE, task, own, control)
        parts, before = room.of_partitions[(t + 1) % 2], room.of_partitions[t % 2]
        pricing.add_up(room.parts, room.terms, room.seen, method.total, parts, priced)
        facts[t, :2] = priced
        if t > 0:
            if facts[t, 1] > 0 or not facts[t, 0] < facts[t - 1, 0] or t == limits.n_iter:
                return np.int64(t)
            room.turn[1] = facts[t, 2] > limits.moved_share * len(given[0])
        _bound(task, parts, before, limits.skip and (known or t > 0))
        _share(ROUND, task, own, control)
        _share(RELABEL, task, own, control)
    return np.int64(0)


@inner
def _share(job, task, own, control):
    """Do a job, with whoever helps."""
    sharing.open_job(control, job)
    _work(job, task, 0, own, control)
    sharing.close_job(control)


@inner
def _work(job, task, me, own, control):
    """Take part in a job."""
    given, method, room, shortened, rows, state, drift, (span, starts) = task
    if job == RELABEL:
        cells, masses, facts = _parts_of(room, me)
        tables = room.tiles, room.tiles_of_partitions, room.counts.shape[2]
        unit, ratio, error, part_error = room.numbers[0], room.numbers[1], room.numbers[2], room.numbers[3]
        table, of_parts, base, parts, bits, _, _, _, _ = shortened
        units = short.Short(table, of_parts, base, parts, bits, unit, ratio, error, part_error)
        counting = cells, masses, facts, room.turn[1] > 0, starts
        relabel.relabel_spans(given, tables, units, rows, state, drift, span, counting, own, control)
        return
    i = sharing.next_span(control, 1)
    while i < len(method.of_partition):
        if job == PRICE:
            _price(method, room, given[2], i)
        else:
            table = room.tables[(room.turn[0] + 1) % 2]
            _tile(table, room.tiles, given[2][i], given[2][i + 1])
            if room.numbers[2] < np.inf:
                short.round_partitions(table, room.middle, given[2], room.numbers[0], shortened.table, i, i + 1)
        i = sharing.next_span(control, 1)


@inner
def _parts_of(room, me):
    """Return what a thread has counted."""
    _, n_columns, n_clusters = room.counts.shape
    return split(room.sums[me], n_columns, n_clusters, room.masses.shape[1])


@inner
def _price(method, room, offsets, i):
    """Add up what threads have counted in a partition, and make its tables of costs."""
    t, anew = room.turn
    counts, masses, table = room.counts[t % 3], room.masses[t % 3], room.tables[(t + 1) % 2]
    first, last, n_clusters = offsets[i], offsets[i + 1], counts.shape[1]
    if t > 0:
        before = room.counts[(t - 1) % 3]
        if anew:
            counts[first:last] = 0
        else:
            counts[first:last] = before[first:last]
        for me in range(len(room.sums)):
            counted = _parts_of(room, me)[0]
            for c in range(first, last):
                for k in range(n_clusters):
                    counts[c, k] += counted[c * n_clusters + k]
                    counted[c * n_clusters + k] = 0
    pricing.price_partitions(
        method.kind,
        counts,
        masses,
        method.of_column,
        method.of_partition,
        offsets,
        method.scale,
        method.unit,
        table,
        room.parts,
        room.terms,
        room.seen,
        i,
        i + 1,
    )
    pricing.find_changes(room.tables[t % 2], table, offsets, room.low, room.high, room.size, i, i + 1)
    room.widest[i] = short.find_middles(table, offsets, method.complete, room.middle, i, i + 1)


@inner
def _add_up_threads(room, n_masses, facts):
    """Add up what threads know of rows that moved and were evaluated, and masses."""
    t, anew = room.turn
    masses, before = room.masses[t % 3], room.masses[(t - 1) % 3]
    masses[:] = before * (1 - anew)
    for me in range(len(room.sums)):
        _, more, seen = _parts_of(room, me)
        masses += more
        facts[2:] += seen
        more[:], seen[:] = 0, 0


@inner
def _bound(task, parts, before, known):
    """Bound what the new tables take off margins, and choose the units of 16 bits."""
    _, method, room, shortened, _, _, drift, _ = task
    pricing.bound_rounding(room.size, parts, method.safety, drift.edges, drift.rounding)
    drift.taken[:] = np.inf
    if known:
        pricing.bound_drift(room.low, room.high, before, parts, method.complete, drift.edges, drift.taken)
    _tile(parts, room.tiles_of_partitions, 0, len(parts))
    room.numbers[:] = np.inf
    if len(shortened.table) > 1:  # there is room for it
        widest = room.widest.max()
        found = short.find_units(parts, room.middle, widest, method.complete, method.heaviest, shortened)
        room.numbers[0], room.numbers[1], room.numbers[2], room.numbers[3] = found


@inner
def _tile(table, tiles, first, last):
    """Copy some rows of a table into its tiles."""
    n_tiles, _, width = tiles.shape
    for tile in range(n_tiles):
        low = tile * width
        some = min(width, table.shape[1] - low)
        for c in range(first, last):
            for k in range(some):
                tiles[tile, c, k] = table[c, low + k]
