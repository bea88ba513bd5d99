"""Several iterations of k-means over labels are one call on the CPU: no Python runs between them, no thread sleeps.

An iteration is three jobs that threads share: PRICE adds up what they have counted and makes tables of costs, by
partitions; ROUND makes tables in 16 bits; RELABEL goes through the rows. The leader does what is left in between.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._kernels.cpu.compiling import inlined, inner, kernel
from gpuensemble._kernels.cpu.kmeans import pricing, relabel, sharing, short, tallies
from gpuensemble._kernels.cpu.kmeans.relabel import Drift, RowFacts, State
from gpuensemble._kernels.cpu.kmeans.tallies import Tallies
from gpuensemble._kernels.cpu.membership import codes_of
from gpuensemble._kernels.cpu.vector.tiles import all_tiles, in_one_piece

PRICE, ROUND, RELABEL = range(3)
SHARES = (
    4  # of the partitions for each thread: a call for each partition would count references, of all threads at once
)


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
    tallies: Tallies  # for the next call, if its labels, slacks and tables are those of this one


class _Room(NamedTuple):
    """These are arrays that threads share; of what there is several times, turn t uses t modulo the number."""

    turn: Any  # t, and whether its iteration counts anew
    sums: Any  # of each thread: see relabel.Sums
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
    bounds: Any  # 2 x edges x K: between what the changes of costs are
    tiles: Any  # of the table
    tiles_of_parts: Any
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
    kept: Tallies | None,
    edges: Any,
    limits: Limits,
) -> Last:
    """Iterate while the objective falls and no cluster is empty; `state` is updated.

    `statistics` are counts and masses of the labels in `state`. `tables` are those of costs and of partitions that
    these labels were evaluated by, if they are `known`; else only shape and type matter. `kept` is from the call that
    `state` comes from, or None.
    """
    (n, r), n_clusters = membership.codes.shape, statistics[0].shape[1]
    if kept is None:
        n_kept = n if limits.skip and tallies.pay(n_clusters) else 0
        kept = tallies.tallies_for(n_kept, membership.offsets, len(edges) - 1, n_clusters)
    n_threads = sharing.n_threads(n * r, relabel.ALONE)
    method = method._replace(safety=pricing.rounding_unit(method.safety, r, tables[0].dtype))
    sums = relabel.sums_for(n_threads, membership, n_clusters, rows)
    room = _room_for(r, len(edges), statistics, tables, sums)
    shortened = short.unknown(tables[0].shape, tables[1].shape)
    drift = Drift(edges, np.empty((len(edges) - 1, n_clusters), np.float32), np.empty(len(edges) - 1))
    facts = np.zeros((limits.n_iter + 1, 4))
    span = relabel.span_of(n, n_threads)
    task = (codes_of(membership), method, room, shortened, rows, state, drift, kept, span)
    own = [(me, relabel.room_for(room.tiles, shortened)) for me in range(n_threads)]
    t = sharing.led(_iterate, (task, limits, known, facts), own)
    turns = [(room.counts[i % 3], room.masses[i % 3] if rows.n_masses else None) for i in (t - 2, t - 1, t)]
    before, after = ((room.tables[i % 2], room.of_partitions[i % 2]) for i in (t, t + 1))
    return Last(turns, before, after, facts[1 : t + 1], kept)


def _room_for(r: int, n_edges: int, statistics: tuple, tables: tuple, sums: Any) -> _Room:
    counts, masses = statistics
    n_clusters = counts.shape[1]
    masses = np.zeros((0, n_clusters), np.int64) if masses is None else masses
    first = (3, counts), (3, masses), (2, tables[0]), (2, tables[1])
    kinds = [(of.dtype, (number, *of.shape)) for number, of in first]
    made = in_one_piece(*kinds, *((table.dtype, all_tiles(table)) for table in tables))
    turns, tiles = made[: len(first)], made[len(first) :]
    for some, (_, of) in zip(turns, first, strict=True):
        some[0] = of
    for some in tiles:
        some[:] = 0  # behind the last column, too
    parts, terms, low, high, size, middle = (np.empty((r, n_clusters)) for _ in range(6))
    seen = np.empty((r, n_clusters), np.bool_)
    turn, widest, numbers = np.zeros(2, np.int64), np.empty(r), np.empty(4)
    return _Room(
        *(turn, sums, *turns, parts, terms, seen, low, high, size),
        *(np.empty((2, n_edges, n_clusters)), *tiles, middle, widest, numbers),
    )


@kernel
def _iterate(task, limits, known, facts, me, own, control):
    """Lead, as the first thread, and return the number of iterations; or help, and return whether to come again."""
    task, facts, own, control = sharing.borrowed((task, facts, own, control))
    given, method, room, shortened, rows, state, drift, kept, span = task
    phase, job = np.int64(0), np.int64(PRICE)
    if me == 0:
        room.turn[0], room.turn[1] = 0, limits.anew
    while True:
        if me == 0:
            sharing.open_job(control, job)
        else:
            phase = sharing.join(control, phase)
            if phase <= 0:
                return np.int64(phase == 0)
            job = control[sharing.JOB]
        _work(job, given, method, room, shortened, rows, state, drift, kept, span, me, own, control)
        if me > 0:
            sharing.leave(control)
            continue
        sharing.close_job(control)
        job = _next_job(job, given, method, room, shortened, rows, drift, kept, limits, known, facts)
        if job < 0:
            return room.turn[0]


@inlined
def _work(job, given, method, room, shortened, rows, state, drift, kept, span, me, own, control):
    """Take part in a job."""
    if job == RELABEL:
        tables = room.tiles, room.tiles_of_parts, room.counts.shape[2]
        units, sums = _with_numbers(shortened, room.numbers), room.sums
        counting = sums.counts[me], sums.facts[me], sums.starts, room.turn[1] > 0
        relabel.relabel_spans(given, tables, units, rows, state, drift, kept, span, counting, own, control)
    else:
        r = len(method.of_partition)
        some = 1 + (r - 1) // (SHARES * len(room.sums.facts))
        first = sharing.next_span(control, some)
        while first < r:
            last = min(r, first + some)
            if job == PRICE:
                _price(method, room, given[2], first, last)
            else:
                _round(room, shortened.table, kept, drift.edges, given[2], first, last)
            first = sharing.next_span(control, some)


@inlined
def _next_job(job, given, method, room, shortened, rows, drift, kept, limits, known, facts):
    """Do what is between two jobs; return the next one, or -1 if there is none."""
    found = np.int64(RELABEL)
    if job == RELABEL:
        room.turn[0] += 1
        _add_up_threads(room, rows.n_masses, facts)
        found = np.int64(PRICE)
    elif job == PRICE and _is_last(method, room, limits, len(given[0]), facts):
        found = np.int64(-1)
    elif job == PRICE:
        t = room.turn[0]
        share = facts[t, 2] / len(given[0]) if t > 0 else np.float64(limits.anew)
        _bound(method, room, shortened, drift, kept, limits.skip and (known or t > 0), share)
        found = np.int64(ROUND)
    else:
        tallies.find_doubt(kept)
    return found


@inlined
def _with_numbers(shortened, numbers):
    """Return a table in 16 bits with its unit, ratio and errors."""
    table, of_parts, base, parts, bits, _, _, _, _ = shortened
    return short.Short(table, of_parts, base, parts, bits, numbers[0], numbers[1], numbers[2], numbers[3])


@inlined
def _price(method, room, offsets, first, last):
    """Add up what threads have counted in partitions first .. last - 1, and make their tables of costs."""
    t, anew = room.turn[0], room.turn[1]
    counts, masses, table = room.counts[t % 3], room.masses[t % 3], room.tables[(t + 1) % 2]
    if t > 0:
        before, n_clusters = room.counts[(t - 1) % 3], counts.shape[1]
        for c in range(offsets[first], offsets[last]):
            for k in range(n_clusters):
                counts[c, k] = 0 if anew else before[c, k]
        for me in range(len(room.sums.counts)):
            counted, at = room.sums.counts[me], np.int64(room.sums.starts[first])
            for c in range(offsets[first], offsets[last]):
                for k in range(n_clusters):
                    counts[c, k] += counted[at + k]
                    counted[at + k] = 0
                at += n_clusters
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
        first,
        last,
    )
    pricing.find_changes(room.tables[t % 2], table, offsets, room.low, room.high, room.size, first, last)
    widest = short.find_middles(table, offsets, method.complete, room.middle, first, last)
    for i in range(first, last):
        room.widest[i] = widest


@inlined
def _round(room, table, kept, edges, offsets, first, last):
    """Copy the costs of partitions first .. last - 1 into tiles, and round them to 16 bits."""
    t = room.turn[0]
    costs, before = room.tables[(t + 1) % 2], room.tables[t % 2]
    _tile(costs, room.tiles, offsets[first], offsets[last])
    if room.numbers[2] < np.inf:
        short.round_partitions(costs, room.middle, offsets, room.numbers[0], table, first, last)
    if len(kept.due) and not kept.fresh[0]:
        parts = room.of_partitions[t % 2], room.of_partitions[(t + 1) % 2]
        tallies.add_falls(kept, (before, costs), parts, edges, offsets, first, last)


@inlined
def _add_up_threads(room, n_masses, facts):
    """Add up what threads know of rows that moved and were evaluated, and of masses."""
    t, anew, n_clusters = room.turn[0], room.turn[1], room.counts.shape[2]
    masses, before = room.masses[t % 3], room.masses[(t - 1) % 3]
    for i in range(n_masses):
        for k in range(n_clusters):
            masses[i, k] = 0 if anew else before[i, k]
    for me in range(len(room.sums.facts)):
        sums = room.sums.facts[me]
        for place in range(2):
            facts[t, 2 + place] += sums[place]
            sums[place] = 0
        for i in range(n_masses):
            for k in range(n_clusters):
                masses[i, k] += sums[2 + i * n_clusters + k]
                sums[2 + i * n_clusters + k] = 0


@inlined
def _is_last(method, room, limits, n_rows, facts):
    """Judge the iteration that has just been priced: say whether it ends the call, else how the next one counts."""
    t = room.turn[0]
    pricing.add_up(room.parts, room.terms, room.seen, method.total, room.of_partitions[(t + 1) % 2], facts[t])
    if t == 0:
        return False
    room.turn[1] = facts[t, 2] > limits.moved_share * n_rows
    return facts[t, 1] > 0 or not facts[t, 0] < facts[t - 1, 0] or t == limits.n_iter


@inlined
def _bound(method, room, shortened, drift, kept, known, share):
    """Bound what the new tables take off margins, and choose the units of 16 bits."""
    t = room.turn[0]
    parts, before, widest = room.of_partitions[(t + 1) % 2], room.of_partitions[t % 2], 0.0
    pricing.bound_rounding(room.size, parts, method.safety, drift.edges, drift.rounding)
    least, largest = room.bounds[0], room.bounds[1]
    if known:
        pricing.bound_costs(room.low, room.high, before, parts, method.complete, drift.edges, least, largest)
        pricing.bound_margins(least, largest, drift.taken)
    else:
        for i in range(len(drift.rounding)):
            for k in range(drift.taken.shape[1]):
                drift.taken[i, k] = np.inf
    if len(kept.due):
        tallies.pass_turn(kept, known, share, largest, before, parts, drift.edges)
    _tile(parts, room.tiles_of_parts, 0, len(parts))
    room.numbers[2] = np.inf
    if len(shortened.table) > 1:  # there is room for it
        for i in range(len(room.widest)):
            widest = max(widest, room.widest[i])
        found = short.find_units(parts, room.middle, widest, method.complete, method.heaviest, shortened)
        room.numbers[0], room.numbers[1], room.numbers[2], room.numbers[3] = found


@inner
def _tile(table, tiles, first, last):
    """Copy some rows of a table into its tiles."""
    n_tiles, _, width = tiles.shape
    for tile in range(n_tiles):
        low = np.uintp(tile * width)
        some = np.uintp(min(width, table.shape[1] - tile * width))
        for c in range(first, last):
            for k in range(some):
                tiles[tile, c, k] = table[c, low + k]
