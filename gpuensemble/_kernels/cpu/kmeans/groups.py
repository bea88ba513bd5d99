"""Margins of rows to groups of clusters show more rows that cannot have moved than one margin to all others does.

One cluster that has changed much takes nothing off the margins to the others. The clusters k, k + LANES, ... are a
group: the lanes of the vectors that find the cheapest cluster find the cheapest of each group, too. What tables have
taken off since a row was evaluated is kept for each iteration of a call, so that nothing is written for a row that
stays. Margins are the upper halves of numbers in float32: what is cut off makes them smaller, as it must.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.tiles import LINE, aligned, padded
from gpuensemble._kernels.cpu.vector import generator, intrinsic, typed

LANES = LINE // 4
WORTH = 128  # cache lines that a row takes to be evaluated: where it takes fewer, margins to groups cost more than that
MOST_TURNS = 64  # of a call: there are bounds for each of them
MOST_MOVED = 0.05  # of the rows in a turn: if it is more, the next one does not keep margins to groups
ROUNDED = 2.0**-20  # more than a few roundings in float32 take
DOWN = 1 - ROUNDED
LARGEST = 3e38  # a margin that float32 holds
INT, FLOAT = ir.VectorType(ir.IntType(32), LANES), ir.VectorType(ir.FloatType(), LANES)
HALF = ir.VectorType(ir.IntType(16), LANES)


class Since(NamedTuple):
    """This says what is left of the margins of rows: how large they were, when, and what has been taken off since."""

    when: Any  # of each row, uint8: the turn after which it was evaluated; 0: before this call
    lanes: Any  # n x LANES, uint16: its margins to groups then; no rows if these are not kept
    rise: Any  # turns x bins x K: by how much that cluster may have become dearer since
    fall: Any  # turns * bins x LANES, float32: by how much a cluster of each group may have become cheaper
    kept: Any  # whether rows that are evaluated in this turn get margins to groups


def pay(r: int, n_clusters: int) -> bool:
    """Tell whether margins to groups are worth their while."""
    return r * (padded(n_clusters, np.int16) * 2 // LINE) >= WORTH


def since_for(n: int, n_bins: int, n_clusters: int, n_turns: int) -> Since:
    """Make room for the margins of n rows, of which nothing is known, and for bounds in a call of so many turns."""
    when, lanes = np.zeros(n, np.uint8), aligned((n, LANES), np.uint16)
    rise, fall = (np.zeros((n_turns + 1, n_bins, n_clusters)), aligned(((n_turns + 1) * n_bins, LANES), np.float32))
    return Since(when, lanes, rise, fall, np.zeros(1, np.bool_))


@inner
def upwards(x):
    """Return a number in float32 that is more than this one, also after a few roundings."""
    return np.float32(x + ROUNDED * abs(x))


@inner
def pass_turn(since, turn, least, largest, share):
    """Add what the tables of a turn take off to what earlier ones took.

    `share` is that of the rows that moved in the turn before: tables that change much leave no margins.
    """
    rise, fall = since.rise, since.fall
    since.kept[0] = share <= MOST_MOVED
    if not since.kept[0]:
        rise[turn + 1] = np.inf
    _, n_bins, n_clusters = rise.shape
    for b in range(n_bins):
        cheaper = np.zeros(LANES, np.float64)
        for k in range(n_clusters):
            drop = -min(least[b, k], least[b + 1, k])
            cheaper[k % LANES] = drop if k < LANES else max(cheaper[k % LANES], drop)
        for s in range(turn + 1):
            for k in range(n_clusters):
                dearer = max(largest[b, k], largest[b + 1, k])
                rise[s, b, k] += dearer + 1e-9 * abs(dearer)  # for the rounding of the sums that it is from
            for lane in range(LANES):
                total = fall[s * n_bins + b, lane] + cheaper[lane]
                fall[s * n_bins + b, lane] = total + 2.0**-22 * (abs(total) + abs(cheaper[lane]))


@inner
def those_that_may_move(since, labels, bins, rounding, chosen, m):
    """Keep those of the chosen rows that a margin to some group does not show to stay; return how many there are."""
    when, lanes, rise, fall = since.when, since.lanes, since.rise, since.fall
    n_bins, kept = np.uintp(rise.shape[1]), np.uintp(0)
    for j in range(m):
        x = np.uintp(chosen[j])
        s, b = np.uintp(when[x]), np.uintp(bins[x])
        stays = np.uintp(0)
        if b < n_bins:
            needed = rise[s, b, np.uintp(labels[x])] + rounding[b]
            stays = np.uintp(_all_above(lanes, x, fall, s * n_bins + b, upwards(needed)))
        chosen[kept] = x
        kept += np.uintp(1) - stays
    return np.intp(kept)


@kernel
def settle_accounts(labels, bins, since, begin, end):
    """Take what is gone off the margins of rows begin .. end - 1, as if they were evaluated after it."""
    n_bins = np.uintp(since.rise.shape[1])
    for x in range(np.uintp(begin), np.uintp(end)):
        s, b, label = np.uintp(since.when[x]), np.uintp(bins[x]), np.uintp(labels[x])
        if b < n_bins:
            _take_off(since.lanes, x, since.fall, s * n_bins + b, upwards(since.rise[s, b, label]))
        since.when[x] = 0


@intrinsic
def keep_lanes(typing, lanes, x, spread, y, bits, nearest, doubt, unit, rounding):
    """Set lanes[x] to ((spread[y] >> bits) - nearest - doubt) * unit - rounding, or 0 if that is less."""

    def body(emit, lanes, x, spread, y, bits, nearest, doubt, unit, rounding):
        b = emit.builder
        shift, own = (emit.repeat(b.trunc(one, INT.element), INT) for one in (bits, nearest))
        units = b.sub(b.ashr(emit.load(spread, y, 1)[0], shift), own)
        far = b.fsub(b.sitofp(units, FLOAT), emit.repeat(doubt, FLOAT))
        _store(emit, lanes, x, b.fsub(b.fmul(far, emit.repeat(unit, FLOAT)), emit.repeat(rounding, FLOAT)))

    return typed(types.void, lanes, x, spread, y, bits, nearest, doubt, unit, rounding), generator(body)


@intrinsic
def forget_lanes(typing, lanes, x):
    """Set lanes[x] to 0: nothing is known of groups."""

    def body(emit, lanes, x):
        _store(emit, lanes, x, ir.Constant(FLOAT, [0.0] * LANES))

    return typed(types.void, lanes, x), generator(body)


@intrinsic
def _all_above(typing, lanes, x, fall, row, needed):
    """Tell whether lanes[x] - fall[row] is above `needed` in each lane."""

    def body(emit, lanes, x, fall, row, needed):
        b = emit.builder
        left = b.fsub(_load(emit, lanes, x), emit.load(fall, row, 1)[0])
        above = b.bitcast(b.fcmp_ordered(">", left, emit.repeat(needed, FLOAT)), ir.IntType(LANES))
        return b.zext(b.icmp_signed("==", above, ir.Constant(above.type, -1)), ir.IntType(64))

    return typed(types.intp, lanes, x, fall, row, needed), generator(body)


@intrinsic
def _take_off(typing, lanes, x, fall, row, rise):
    """Do lanes[x] -= fall[row] + rise; a margin is 0 at least."""

    def body(emit, lanes, x, fall, row, rise):
        b = emit.builder
        left = b.fsub(b.fsub(_load(emit, lanes, x), emit.load(fall, row, 1)[0]), emit.repeat(rise, FLOAT))
        _store(emit, lanes, x, b.fmul(left, ir.Constant(FLOAT, [DOWN] * LANES)))

    return typed(types.void, lanes, x, fall, row, rise), generator(body)


def _load(emit: Any, lanes: Any, x: Any) -> Any:
    """Emit the margins of a row, in float32."""
    b = emit.builder
    (halves,) = emit.load(lanes.halved(), x, 1)
    return b.bitcast(b.shl(b.zext(halves, INT), ir.Constant(INT, [16] * LANES)), FLOAT)


def _store(emit: Any, lanes: Any, x: Any, margins: Any) -> None:
    """Emit what keeps margins from 0 to LARGEST; what is not a number becomes 0."""
    b, zero, most = emit.builder, *(ir.Constant(FLOAT, [limit] * LANES) for limit in (0.0, LARGEST))
    margins = b.select(b.fcmp_ordered(">", margins, zero), margins, zero)
    margins = b.select(b.fcmp_ordered("<", margins, most), margins, most)
    halves = b.trunc(b.lshr(b.bitcast(margins, INT), ir.Constant(INT, [16] * LANES)), HALF)
    emit.store(lanes.halved(), x, [halves])
