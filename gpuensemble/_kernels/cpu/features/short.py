"""Costs in float32 tell which centre most rows are nearest to, in half the time; they say which rows they leave unsure.

An error is bounded, so that labels are those of costs in float64, to the last row.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner
from gpuensemble._kernels.cpu.features import steps
from gpuensemble._kernels.cpu.tiles import DOT_ROWS, aligned, dot_width
from gpuensemble._kernels.cpu.vector import dot_rows

UNIT = 2.0**-24  # of rounding in float32
TINY = 1e-30  # more than what is lost of the smallest numbers in float32


class Short(NamedTuple):
    """A `Short` holds dense rows in float32, and room for their table and scores: they tell most rows' centre."""

    rows: Any
    table: Any
    added: Any  # what each centre costs beside the product: in all, or for each label of the guide
    space: Any
    unsure: Any  # rows whose centre they do not tell


def short_of(features: Any, k: int) -> Short | None:
    """Return the rows in float32, where there are any and all are present, and room for tables of few clusters."""
    rows, width = features.short[0], dot_width(k, np.float32)
    if rows is None or features.present[0] is not None or not dot_width(k, features.dtype):
        return None
    n_labels = features.parts[1].shape[1] if len(features.parts) > 1 else 1
    return Short(
        rows=rows,
        table=aligned((rows.shape[1], width), np.float32),
        added=aligned((n_labels, width), np.float32),
        space=aligned((steps.BLOCK, width), np.float32),
        unsure=np.empty(steps.BLOCK, np.intp),
    )


@inner
def fill(short, block, work, guided, k, longest):
    """Fill tables in float32; return by how much a cost of a row, none of which is longer than `longest`, may be wrong.

    A sum of d products has an error of d + 2 units of rounding, at most, times the lengths of row and centre.
    """
    for j in range(work.table.shape[0]):
        for c in range(k):
            short.table[j, c] = work.table[j, c]
    largest = 0.0
    for label in range(len(short.added)):
        for c in range(k):
            added = work.offset[0, c]
            if guided is not None:
                added += work.guide_table[label, c]
            short.added[label, c] = added
            largest = max(largest, abs(added) if added < np.inf else 0.0)
    length = block.weight if block.cosine else 2 * math.sqrt(block.weight * np.max(work.own))
    return ((len(work.table) + 8) * length * longest + 8 * largest) * UNIT + TINY


@inner
def choose_sure(short, chosen, held, k, error, labelled, squared, rounding):
    """Do `choose` where the costs in float32 leave no doubt; return how many rows moved, and how many are unsure."""
    moved, m, label = 0, 0, 0
    for j in range(0, len(chosen), DOT_ROWS):
        dot_rows(short.rows, chosen, j, len(chosen), short.table, short.space)
    for j in range(len(chosen)):
        x, best, least, second = chosen[j], 0, np.float32(np.inf), np.float32(np.inf)
        if held is not None:
            label = held[x]
        for c in range(k):
            cost = short.space[j, c] + short.added[label, c]
            first = cost < least
            runner = cost if cost < second else second
            second = least if first else runner
            best = c if first else best
            least = cost if first else least
        low, high = np.float64(least) + error, np.float64(second) - error
        short.unsure[m] = x
        if low < high:
            moved += labelled.labels[x] != best
            labelled.labels[x] = best
            labelled.margin[x] = steps.margin_of(labelled.square[x], low, high, squared, rounding)
        else:
            m += 1
    return moved, m
