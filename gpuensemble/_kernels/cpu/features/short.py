"""Costs in float32 tell which centre most rows are nearest to, in half the time; they say which rows they leave unsure.

An error is bounded, so that labels are those of costs in float64, to the last row.

The margin of a row to centre c is how much farther c is than its own centre a, at least. Between two steps it falls by
at most shift[c] + shift[a]. So a row keeps its label as long as all its margins are above 0 (Elkan, ICML 2003): more
rows do than with one margin for all centres, as most of these hardly move.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner
from gpuensemble._kernels.cpu.features import steps
from gpuensemble._kernels.cpu.features.margins import keep_margins, two_least, use_up
from gpuensemble._kernels.cpu.vector.dots import dot_rows
from gpuensemble._kernels.cpu.vector.tiles import DOT_ROWS, dot_width, side_by_side
from gpuensemble._kernels.distances import COSINE

UNIT = 2.0**-24  # of rounding in float32
TINY = 1e-30  # more than what is lost of the smallest numbers in float32
SURE = 1 - 2.0**-18  # of a bound: its few roundings take less away
MOST = 4.0  # times the length of the longest row, or for the cosine of 1: no margin is more


class Short(NamedTuple):
    """A `Short` holds dense rows in float32, and room for their table: scores by it tell most rows' centre."""

    rows: Any
    table: Any
    added: Any  # what each centre costs beside the product: in all, or for each label of the guide
    margins: Any  # of each row to each centre
    shifts: Any  # by how much they fall, for each own centre
    factors: Any  # of each row: its margins are costs times that
    facts: Any  # doubt of a cost, and of a squared distance; the most of a margin


def short_of(features: Any, k: int) -> Short | None:
    """Return the rows in float32, where there are any and all are present, and room for tables of few clusters."""
    rows, width = features.short[0], dot_width(k, np.float32)
    if rows is None or features.present[0] is not None or not dot_width(k, features.dtype):
        return None
    n_labels = features.parts[1].shape[1] if len(features.parts) > 1 else 1
    table, added, shifts = side_by_side(np.float32, (rows.shape[1], width), (n_labels, width), (k, width))
    (margins,) = side_by_side(np.float32, (len(rows), width), zero=False)
    return Short(rows, table, added, margins, shifts, np.empty(len(rows), np.float32), np.empty(3))


def room_of(short: Short | None) -> tuple[Any, Any]:
    """Make room for the scores of a block of rows, and for those rows that they leave unsure."""
    if short is None:
        return None, None
    (space,) = side_by_side(np.float32, (steps.BLOCK, short.table.shape[1]), zero=False)
    return space, np.empty(steps.BLOCK, np.intp)


@inner
def begin(short, cosine, square):
    """Work out the factors of the rows from their squared lengths; return the length of the longest row."""
    most = 0.0
    for x in range(len(square)):
        most = max(most, square[x])
        short.factors[x] = SURE / math.sqrt(square[x]) if cosine else SURE
    return math.sqrt(most)


@inner
def fill(short, block, work, guided, k, longest):
    """Fill tables in float32, and note by how much a cost may be wrong; no row is longer than `longest`.

    A sum of d products has an error of d + 2 units of rounding, at most, times the lengths of row and centre.
    """
    for j in range(work.table.shape[0]):
        for c in range(k):
            short.table[j, c] = work.table[j, c]
    largest = 0.0
    for label in range(len(short.added)):
        for c in range(short.added.shape[1]):
            added = work.offset[0, c] if c < k else np.inf
            if guided is not None and c < k:
                added += work.guide_table[label, c]
            short.added[label, c] = added
            largest = max(largest, abs(added) if added < np.inf else 0.0)
    length = block.weight if block.kind == COSINE else 2 * math.sqrt(block.weight * np.max(work.own))
    error = ((len(work.table) + 8) * length * longest + 8 * largest) * UNIT + TINY
    short.facts[0], short.facts[1] = error, error + 8 * UNIT * longest * longest
    short.facts[2] = MOST * (1.0 if block.kind == COSINE else longest)


@inner
def fill_shifts(short, shift):
    """Work out by how much margins fall if the centres shift by so much."""
    lost = 8 * UNIT * short.facts[2]  # by rounding of a margin, and of costs in float64
    for own in range(len(shift)):
        for c in range(len(shift)):
            short.shifts[own, c] = (shift[own] + shift[c]) / SURE + lost


@inner
def open_rows(short, labels, first, last, bounded, rows):
    """Find which of the rows first .. last - 1 have a margin not above 0 after the shifts, counted from `first`.

    They are put into `rows`; it returns how many there are: all if the shifts do not bound what costs change.
    """
    if not bounded:
        for x in range(last - first):
            rows[x] = x
        return last - first
    return use_up(short.margins[first:last], labels[first:last], short.shifts, rows)


@inner
def choose_sure(short, space, unsure, chosen, held, labelled, squared):
    """Do `choose` where the costs in float32 leave no doubt; return how many rows moved, and how many are unsure."""
    moved, m, label, (doubt, noise, most) = 0, 0, 0, short.facts
    for j in range(0, len(chosen), DOT_ROWS):
        dot_rows(short.rows, chosen, j, len(chosen), short.table, space)
    for j in range(len(chosen)):
        x = chosen[j]
        if held is not None:
            label = held[x]
        best, least, second = two_least(space, j, short.added, label)
        unsure[m] = x
        if least + 2 * doubt < second:
            moved += labelled.labels[x] != best
            labelled.labels[x] = best
            nearer, reach = least + 2 * doubt + 4 * UNIT * abs(least), labelled.square[x] + noise
            bounds = np.float32(nearer), short.factors[x], np.float32(reach), np.float32(most)
            keep_margins(space, j, short.added, label, least, *bounds, squared, short.margins, x)
        else:
            m += 1
            for c in range(short.margins.shape[1]):
                short.margins[x, c] = 0.0
    return moved, m
