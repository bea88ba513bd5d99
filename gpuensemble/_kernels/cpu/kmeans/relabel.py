"""An iteration of k-means over labels goes through the rows once on the CPU; it is the twin of kernels/relabel.cu.

A row that cannot have moved costs a look at its slack. The others are decided by a table in 16 bits (`short`), or, the
few that are too near a tie for it, by the costs themselves. Rows that moved are counted while their codes are at hand.

Each function works on a block of rows: a call for each row would cost more than its work, as Numba counts references to
the arrays of a call.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._kernels.cpu.compiling import inlined, inner, kernel
from gpuensemble._kernels.cpu.kmeans import sharing, short
from gpuensemble._kernels.cpu.kmeans.lookups import add_short_parts, sum_short_rows
from gpuensemble._kernels.cpu.kmeans.short import two_least
from gpuensemble._kernels.cpu.kmeans.tallies import LARGEST, set_all_due, set_due, those_due
from gpuensemble._kernels.cpu.membership import codes_of
from gpuensemble._kernels.cpu.rows import assign_rows
from gpuensemble._kernels.cpu.vector.empty import empty
from gpuensemble._kernels.cpu.vector.rows import prefetch
from gpuensemble._kernels.cpu.vector.tiles import aligned, tiled

SPAN = 8192  # rows that a thread takes at a time, at most: of few that are looked at the codes are asked for early
BLOCK = 128  # rows worked on together: their sums stay in the first cache
ALONE = 1 << 15  # codes that a thread must have to be worth waking
NEW = 255  # the bin of a row that was never evaluated
SHRINK = 1 - 2.0**-21  # of a slack in float32, at each change of it: more than it is rounded by


class RowFacts(NamedTuple):
    """This is what is known of the rows: arrays with an entry for each row, or one for all.

    Weight and mass may be empty. They are then the degree, and that times the multiplicity.
    """

    multiplicity: Any
    weight: Any
    mass: Any
    sizes: Any  # of clusters, whose sum, without the last `shift` bits, is a row's degree
    shift: int
    n_masses: int  # 0: no masses are asked for; 1: of all rows; r: of those that each partition saw


class Sums(NamedTuple):
    """This is what threads add up, a row for each."""

    counts: Any  # of each cell of the table, and at last those of holes; int32 if it can hold them: fewer cache lines
    facts: Any  # number of rows that moved, that of evaluated ones, and masses
    starts: Any  # where the counts of each partition begin, and of holes


class State(NamedTuple):
    """This is what a block remembers of its rows."""

    labels: Any  # int32
    slack: Any  # float32: what is left of the margin, the second cost less the first
    bins: Any  # uint8: of the weight; NEW: the row was never evaluated


class Drift(NamedTuple):
    """This bounds what new tables take off the margins of rows, by bins of their weights."""

    edges: Any  # of the bins, ascending
    taken: Any  # bins x K, float32: of the slack of a row with that label; infinite: unknown
    rounding: Any  # of each bin: the rounding error of a margin


def prepared(table, per_partition, offsets, complete, heaviest):
    """Return tables of costs as `relabel` takes them; `heaviest` is the largest weight of a row."""
    return tiled(table), tiled(per_partition), short.shortened(table, per_partition, offsets, complete, heaviest)


def relabel(membership, tables, rows, state, drift, n_clusters, anew):
    """Find the labels of all rows for new tables; return counts, masses, and how many rows moved and were evaluated.

    `tables` are `prepared`; `state` is updated. Counts, C x K, and masses, as many rows as `rows` asks for, are those
    of the new labels if `anew`, else by how much they changed.
    """
    n, r = membership.codes.shape
    tiles, parts, shortened = tables
    n_threads = sharing.n_threads(n * r, ALONE)
    sums = sums_for(n_threads, membership, n_clusters, rows)
    shared = (codes_of(membership), (tiles, parts, n_clusters), shortened, rows, state, drift, span_of(n, n_threads))
    own = [((*some, sums.starts, anew), room_for(tiles, shortened)) for some in zip(*sums[:2], strict=True)]
    sharing.led(_relabel, shared, own)
    counts, facts = (sums.counts.sum(0, np.int64), sums.facts.sum(0))
    n_cells, n_facts = membership.offsets[-1] * n_clusters, 2 + rows.n_masses * n_clusters
    return counts[:n_cells].reshape(-1, n_clusters), facts[2:n_facts].reshape(-1, n_clusters), facts[:2]


def span_of(n, n_threads):
    """Return how many rows a thread takes at a time: whole blocks, and some times for each thread."""
    return min(SPAN, max(1, n // (8 * n_threads * BLOCK)) * BLOCK)


def sums_for(n_threads, membership, n_clusters, rows):
    """Make zeros for what each thread adds up."""
    starts = membership.offsets.astype(np.int64) * n_clusters
    total = rows.multiplicity.sum() * (len(membership.codes) if len(rows.multiplicity) == 1 else 1)
    dtype = np.int32 if total < 2**31 else np.int64
    counts = sharing.apart(n_threads, starts[-1] + 1, dtype)
    facts = sharing.apart(n_threads, 2 + rows.n_masses * n_clusters, np.int64)
    return Sums(counts, facts, starts.view(np.uint64))


def room_for(tiles, shortened):
    """Make room for sums of a block of rows: of the table and of partitions, whole and in units."""
    whole, short = (BLOCK, tiles.shape[2]), (BLOCK, shortened.table.shape[1])
    return *(aligned(whole, tiles.dtype) for _ in "tp"), *(aligned(short, np.int32) for _ in "tp")


@kernel
def _relabel(given, tables, shortened, rows, state, drift, span, counting, room, queue):
    shared, own = sharing.borrowed(((given, tables, shortened, rows, state, drift), (counting, room, queue)))
    given, tables, shortened, rows, state, drift = shared
    counting, room, queue = own
    relabel_spans(given, tables, shortened, rows, state, drift, None, span, counting, room, queue)


@inlined
def relabel_spans(given, tables, shortened, rows, state, drift, tallies, span, counting, room, queue):
    """Work on spans of rows until none is left; `tallies` say more of which rows cannot have moved, or are None."""
    codes, hole, offsets = given
    tiles, parts, n_clusters = tables
    n, (_, facts, _, anew) = len(codes), counting
    looked_at, unsure, places = empty(span, np.intp), empty(BLOCK, np.intp), empty(BLOCK, np.intp)
    weights, best, margin = empty(BLOCK, tiles.dtype), empty(BLOCK, np.int32), empty(BLOCK, np.float64)
    found = empty(BLOCK, np.int32), empty(BLOCK, tiles.dtype), empty(BLOCK, tiles.dtype)
    old = empty(BLOCK, np.int32)
    together = BLOCK if anew else span  # all rows are counted while their codes are at hand
    first = sharing.next_span(queue, span)
    while first < n:
        end = min(n, first + span)
        for begin in range(first, end, together):
            stop = min(end, begin + together)
            n_looked_at = _choose(state, drift, begin, stop, looked_at)
            if tallies is not None and len(tallies.due) and not tallies.fresh[0]:
                n_looked_at = those_due(given, tallies, state, drift.rounding, looked_at, n_looked_at)
            facts[1] += n_looked_at
            for block in range(0, n_looked_at, BLOCK):
                chosen = looked_at[block : min(n_looked_at, block + BLOCK)]
                m = len(chosen)
                for j in range(block + (BLOCK if block else 0), min(n_looked_at, block + 2 * BLOCK)):
                    prefetch(codes, looked_at[j])  # of the next block: they are here when that is worked on
                _weigh(given, rows, state.bins, drift.edges, chosen, m, weights)
                left = _screen(given, shortened, state.bins, drift, chosen, m, weights, best, margin, places, room[2:])
                for j in range(left):
                    unsure[j], weights[j] = chosen[places[j]], weights[places[j]]
                if left:
                    assign_rows(
                        codes, hole, offsets, tiles, parts, weights, n_clusters, unsure, left, found, room[0], room[1]
                    )
                for j in range(left):
                    best[places[j]], margin[places[j]] = found[0][j], np.float64(found[2][j]) - found[1][j]
                moved = _settle(state, drift.rounding, tallies, chosen, m, best, margin, old)
                facts[0] += moved
                if not anew:
                    _add(given, rows, chosen, moved, old, n_clusters, np.int64(-1), counting)
                    _add(given, rows, chosen, moved, best, n_clusters, np.int64(1), counting)
            if tallies is not None and len(tallies.due) and tallies.fresh[0]:
                set_all_due(tallies, state.slack, begin, stop)
            if anew:
                for x in range(begin, stop):
                    unsure[x - begin], best[x - begin] = x, state.labels[x]
                _add(given, rows, unsure, stop - begin, best, n_clusters, np.int64(1), counting)
        first = sharing.next_span(queue, span)


@inner
def _choose(state, drift, begin, end, chosen):
    """List the rows whose slack does not show that they stay; return how many there are."""
    labels, slack, bins, taken, rounding = state.labels, state.slack, state.bins, drift.taken, drift.rounding
    m = np.uintp(0)
    for x in range(np.uintp(begin), np.uintp(end)):
        edge = np.uintp(bins[x])
        chosen[m] = x
        if edge == NEW:
            m += np.uintp(1)
        else:
            left = (slack[x] - taken[edge, np.uintp(labels[x])]) * np.float32(SHRINK)
            slack[x] = left
            m += np.uintp(not left > rounding[edge])  # NaN, where all costs are infinite, is not enough
    return np.intp(m)


@inner
def _weigh(given, rows, bins, edges, chosen, m, weights):
    """Find the weights of rows, and the bins of new ones: the last whose lower edge is not above the weight."""
    weight, step = rows.weight, min(1, len(rows.weight) - 1)
    if step < 0:
        degrees = _degrees(given, rows, chosen, m)
        for j in range(m):
            weights[j] = degrees[j]
    else:
        for j in range(m):
            weights[j] = weight[np.uintp(chosen[j] * step)]
    for j in range(m):
        if bins[np.uintp(chosen[j])] == NEW:
            low, high = 0, len(edges) - 2
            while low < high:
                middle = (low + high + 1) // 2
                if edges[middle] <= weights[j]:
                    low = middle
                else:
                    high = middle - 1
            bins[chosen[j]] = low


@inner
def _degrees(given, rows, chosen, m):
    """Return the degrees of rows."""
    codes, hole, offsets = given
    sizes, shift, found = rows.sizes, rows.shift, empty(m, np.int64)
    for j in range(m):
        x, total = chosen[j], 0
        for i in range(codes.shape[1]):
            seen = 1 if hole is None else np.int64(codes[x, i] != hole)
            total += seen * sizes[offsets[i] + seen * codes[x, i]]
        found[j] = max((total + ((1 << shift) >> 1)) >> shift, 1)
    return found


@inner
def _screen(given, shortened, bins, drift, chosen, m, weights, best, margin, places, totals):
    """Find labels and margins by the table in 16 bits; list the places of rows that it leaves open, and count them."""
    codes, hole, offsets = given
    table, of_parts, base, parts, bits, unit, ratio, error, part_error = shortened
    total, total_of_parts = totals
    if error == np.inf:
        for j in range(m):
            places[j] = j
        return m
    sum_short_rows(total, table, codes, chosen, m, offsets, hole)
    if len(of_parts) > 1:
        for j in range(m):
            add_short_parts(total_of_parts, j, of_parts, codes, chosen[j], hole)
    left, last, rounding = np.uintp(0), (1 << bits) - 1, drift.rounding
    for j in range(m):
        weight = np.float32(weights[j])
        least, second = two_least(total, j, base, parts, weight, bits, total_of_parts, np.float32(ratio), hole)
        doubt, edge = error + weights[j] * part_error, bins[np.uintp(chosen[j])]
        best[j] = least & last
        margin[j] = ((second >> bits) - (least >> bits) - doubt) * unit
        places[left] = j
        left += np.uintp(not margin[j] > rounding[edge])
    return np.intp(left)


@inner
def _settle(state, rounding, tallies, chosen, m, best, margin, old):
    """Give rows their labels, and what is left of their margins after a rounding error.

    The rows that moved come first in `chosen`, with the labels that they had and have; return how many there are.
    """
    labels, slack, bins = state.labels, state.slack, state.bins
    moved = np.uintp(0)
    for j in range(m):
        x, label = np.uintp(chosen[j]), best[j]
        left = (margin[j] - rounding[bins[x]]) * SHRINK
        before = labels[x]
        slack[x] = np.float32(LARGEST if left > LARGEST else left)  # a NaN stays one
        labels[x] = label
        if tallies is not None and len(tallies.due) and not tallies.fresh[0]:
            set_due(tallies, x, bins[x], label, left)
        chosen[moved], old[moved], best[moved] = x, before, label
        moved += np.uintp(before != label)
    return np.intp(moved)


@inner
def _add(given, rows, chosen, m, labels, n_clusters, sign, counting):
    """Count rows with these labels, or take them off."""
    codes, hole, _ = given
    counts, facts, starts, _ = counting
    multiplicity, step, width = rows.multiplicity, min(1, len(rows.multiplicity) - 1), np.uintp(n_clusters)
    spare = starts[len(starts) - 1]
    for j in range(m):
        x, k, amount = np.uintp(chosen[j]), np.uintp(labels[j]), sign * multiplicity[chosen[j] * step]
        for i in range(codes.shape[1]):
            cell = starts[i] + np.uintp(codes[x, i]) * width + k
            if hole is not None:  # no branch on what no processor could foresee
                cell = spare + np.uintp(codes[x, i] != hole) * (cell - spare)
            counts[cell] += amount
    if rows.n_masses:
        _add_masses(given, rows, chosen, m, labels, n_clusters, sign, facts)


@inner
def _add_masses(given, rows, chosen, m, labels, n_clusters, sign, facts):
    """Add the masses of rows to those of their labels: in all, or in each partition that saw the row."""
    codes, hole, _ = given
    mass, multiplicity, step = rows.mass, rows.multiplicity, min(1, len(rows.multiplicity) - 1)
    known = len(mass) > 0
    degrees = _degrees(given, rows, chosen, 0 if known else m)
    for j in range(m):
        x = chosen[j]
        amount = sign * (mass[x] if known else degrees[j] * multiplicity[x * step])
        for i in range(rows.n_masses):
            seen = 1 if rows.n_masses == 1 or hole is None else np.int64(codes[x, i] != hole)
            facts[2 + i * n_clusters + labels[j]] += seen * amount
