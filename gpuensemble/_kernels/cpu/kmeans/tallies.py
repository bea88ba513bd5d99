"""A row's own labels bound what new tables take off its margin: far less than the worst labels would.

The tally of a column adds up, turn after turn, by how much any cluster may have become cheaper in it; that of a row is
the sum over its columns, and what its own cluster may have become dearer by. A row is due to be looked at again when
its tally has risen by its margin. To find a tally takes one number for each label, and a fraction of an evaluation.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner
from gpuensemble._kernels.cpu.vector.empty import empty
from gpuensemble._kernels.cpu.vector.rows import prefetch
from gpuensemble._kernels.cpu.vector.tiles import LINE

MOST_MOVED = 0.05  # of the rows in a turn: if it is more, tables change so much that tallies begin anew
TOGETHER = 4  # rows whose tallies are added up side by side
AHEAD = 32  # rows whose codes are asked for early
EXACT = 1e-9  # of a sum in float64: more than the roundings that it went through
LARGEST = 3e38  # a number that float32 holds
SINGLE = 2.0**-22  # of a number in float32: more than a few roundings


class Tallies(NamedTuple):
    """These are the tallies of columns and of labels, and those at which rows are due."""

    of_column: Any  # C + 1, float32; the last one is 0, for holes
    of_label: Any  # bins of weights x K
    peaks: Any  # of each partition: its largest tally
    doubt: Any  # one number: by how much the sum of a row may be wrong
    fresh: Any  # whether all tallies are 0 in this turn
    due: Any  # of each row, float32; no rows if tallies are not kept


def pay(n_clusters: int) -> bool:
    """Tell whether tallies are worth their while: where a label takes more than one cache line to be evaluated."""
    return n_clusters > LINE // 2


def tallies_for(n: int, offsets: Any, n_bins: int, n_clusters: int) -> Tallies:
    """Make room for the tallies of n rows, of which nothing is known."""
    numbers = (np.zeros((n_bins, n_clusters)), np.zeros(len(offsets) - 1), np.zeros(1))
    due = np.full(n, -np.inf, np.float32)
    return Tallies(np.zeros(offsets[-1] + 1, np.float32), *numbers, np.ones(1, np.bool_), due)


@inner
def pass_turn(tallies, known, share, largest, before, after, edges):
    """Add what a turn's tables make each cluster dearer by, at most; or begin anew.

    `share` is that of the rows that moved in the turn before. `before` and `after` are the costs of partitions.
    """
    tallies.fresh[0] = not (known and share <= MOST_MOVED)
    if tallies.fresh[0]:
        _begin(tallies)
        return
    n_bins, n_clusters = tallies.of_label.shape
    off = empty(len(edges), np.float64)  # what weights off the middle add to the tallies of all columns
    for e in range(len(edges)):
        away, off[e] = edges[e] - middle_of(edges), 0.0
        for i in range(len(after)):
            most = 0.0
            for k in range(n_clusters):
                most = max(most, away * (np.float64(before[i, k]) - np.float64(after[i, k])))
            off[e] += most
    for b in range(n_bins):
        for k in range(n_clusters):
            dearer, cheaper = max(largest[b, k], largest[b + 1, k]), max(off[b], off[b + 1])
            tallies.of_label[b, k] += dearer + cheaper + EXACT * (abs(dearer) + cheaper)


@inner
def _begin(tallies):
    """Set all tallies to 0."""
    for c in range(len(tallies.of_column)):
        tallies.of_column[c] = 0
    for i in range(len(tallies.peaks)):
        tallies.peaks[i] = 0
    for b in range(len(tallies.of_label)):
        for k in range(tallies.of_label.shape[1]):
            tallies.of_label[b, k] = 0


@inner
def middle_of(edges):
    """Return the weight that the tallies of columns are made for."""
    return (edges[0] + edges[len(edges) - 1]) / 2


@inner
def add_falls(tallies, tables, parts, edges, offsets, first, last):
    """Add what the new ones of two tables make any cluster cheaper by, in the columns of partitions first .. last - 1.

    `parts` are the costs of partitions before and after.
    """
    (before, after), (parts_before, parts_after) = tables, parts
    of_column, n_clusters, r = tallies.of_column, after.shape[1], len(offsets) - 1
    summed, rise = len(parts_after) < r, empty(n_clusters, np.float64)
    factor = middle_of(edges) / (r if summed else 1)  # one for all partitions: each has its share of it
    for i in range(first, last):
        p, size, peak = 0 if summed else i, 0.0, 0.0
        for k in range(n_clusters):
            rise[k] = (np.float64(parts_after[p, k]) - np.float64(parts_before[p, k])) * factor
            size = max(size, abs(rise[k]))
        for c in range(offsets[i], offsets[i + 1]):
            fall = -np.inf
            for k in range(n_clusters):
                change = (np.float64(before[c, k]) - np.float64(after[c, k])) - rise[k]
                fall = change if change > fall else fall  # not a number: infinite before and after
            total = np.float64(of_column[c]) + fall + EXACT * (abs(fall) + size)
            of_column[c] = total + SINGLE * (abs(total) + abs(fall)) if total > -np.inf else np.inf  # NaN, too
            peak = max(peak, abs(of_column[c]))
        tallies.peaks[i] = peak


@inner
def find_doubt(tallies):
    """Bound the rounding error of a row's tally."""
    total = 0.0
    for i in range(len(tallies.peaks)):
        total += tallies.peaks[i]
    tallies.doubt[0] = 2 * SINGLE * (len(tallies.peaks) + 2) * total


@inner
def those_due(given, tallies, state, rounding, chosen, m):
    """Keep those of the chosen rows that their tallies do not show to stay; return how many there are.

    The slack of those that stay becomes what is left of their margin; `due` of the others becomes their tally.
    """
    codes = given[0]
    labels, slack, bins, due = state.labels, state.slack, state.bins, tallies.due
    sums, n_bins, doubt, kept = empty(TOGETHER, np.float32), len(tallies.of_label), tallies.doubt[0], np.uintp(0)
    for j in range(0, m, TOGETHER):
        for ahead in range(j + AHEAD, min(m, j + AHEAD + TOGETHER)):
            prefetch(codes, chosen[ahead])
        _add_up(given, tallies.of_column, chosen, j, m, sums)
        for d in range(min(TOGETHER, m - j)):
            x = np.uintp(chosen[j + d])
            b, stays = np.uintp(bins[x]), np.uintp(0)
            if b < n_bins:
                tally = np.float64(sums[d]) + tallies.of_label[b, np.uintp(labels[x])] + doubt
                left = np.float64(due[x]) - tally
                stays = np.uintp(left > rounding[b])
            if stays:
                slack[x] = left * (1 - SINGLE)
            else:
                due[x] = sums[d]
            chosen[kept] = x
            kept += np.uintp(1) - stays
    return np.intp(kept)


@inner
def _add_up(given, of_column, chosen, j, m, sums):
    """Find the sums over the columns of TOGETHER rows, from place j on; beyond m the last row stands again."""
    codes, hole, offsets = given
    last, r, spare = m - 1, np.uintp(codes.shape[1]), np.uintp(len(of_column) - 1)
    w, x = np.uintp(chosen[j]), np.uintp(chosen[min(j + 1, last)])
    y, z = np.uintp(chosen[min(j + 2, last)]), np.uintp(chosen[min(j + 3, last)])
    of_w, of_x, of_y, of_z = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for i in range(r):
        begin = np.uintp(offsets[i])
        of_w += of_column[_place(codes[w, i], hole, begin, spare)]
        of_x += of_column[_place(codes[x, i], hole, begin, spare)]
        of_y += of_column[_place(codes[y, i], hole, begin, spare)]
        of_z += of_column[_place(codes[z, i], hole, begin, spare)]
    sums[0], sums[1], sums[2], sums[3] = of_w, of_x, of_y, of_z


@inner
def _place(code, hole, begin, spare):
    """Return the column of a label, or the spare one of a hole."""
    if hole is None:
        return begin + np.uintp(code)
    return begin + np.uintp(code) if code != hole else spare


@inner
def set_due(tallies, x, b, label, left):
    """Say when a row is due that has just been evaluated, with so much left of its margin."""
    total = np.float64(tallies.due[x]) + tallies.of_label[b, label] + left - tallies.doubt[0]
    total = min(total, LARGEST)
    tallies.due[x] = total - SINGLE * abs(total)


@inner
def set_all_due(tallies, slack, begin, end):
    """Say when rows begin .. end - 1 are due, in a turn in which all tallies are 0."""
    for x in range(begin, end):
        tallies.due[x] = slack[x]
