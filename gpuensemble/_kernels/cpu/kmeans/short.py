"""Tables of costs in 16 bits decide most rows with certainty, at a fraction of the loads.

An entry is rounded to a whole number of units, less the middle of its partition's column, so that 8 of them add up in
16 bits. A sum over r partitions is then wrong by r / 2 units at most, and the difference of two sums by r: a row whose
two cheapest clusters differ by more is decided. A row of the table has one cache line for up to 32 clusters, where
float64 has eight.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.vector.emitter import FIRST, WORD, generator, intrinsic, typed
from gpuensemble._kernels.cpu.vector.empty import empty
from gpuensemble._kernels.cpu.vector.tiles import LINE, WIDEST, aligned, padded

TOGETHER = 8  # entries that add up in 16 bits
LEVELS = 4095  # of an entry on either side of the middle: TOGETHER of them are less than 2**15
WIDTH = WIDEST * LINE // 2  # clusters at most
INT = ir.IntType(32)


class Short(NamedTuple):
    """This holds a table of costs in 16 bits; with an infinite error it decides nothing."""

    table: Any  # C + 1 rows of whole cache lines, int16; the last one is 0, for holes
    of_parts: Any  # r + 1 such rows, of the costs of partitions, in units of `ratio` units; 1 if these are one for all
    base: Any  # 1 row of float32, in units: what the table leaves out of each cluster's cost
    parts: Any  # 1 row of float32, in units: the factor of a row's weight
    bits: int  # that the number of a cluster takes
    unit: float
    ratio: float
    error: float  # in units: by how much a difference of costs can be wrong, and, for each unit of a row's weight,
    part_error: float  # by how much more


def shortened(table: Any, per_partition: Any, offsets: Any, complete: bool, heaviest: float) -> Short:
    """Round a table of costs to 16 bits, where the costs allow it; `heaviest` is the largest weight of a row."""
    r, found = len(offsets) - 1, unknown(table.shape, per_partition.shape)
    if not fits(table.shape[1]):
        return found
    middle = np.empty((r, table.shape[1]))
    widest = find_middles(table, offsets, complete, middle, 0, r)
    numbers = find_units(per_partition, middle, widest, complete, heaviest, found)
    if math.isfinite(numbers[2]):
        round_partitions(table, middle, offsets, numbers[0], found.table, 0, r)
    return Short(*found[:5], *numbers)


def fits(n_clusters: int) -> bool:
    """Tell whether there is a table in 16 bits of so many clusters."""
    return n_clusters <= WIDTH


def unknown(shape: tuple[int, int], shape_of_parts: tuple[int, int]) -> Short:
    """Make room for a table in 16 bits of these shapes, which decides nothing so far; no room if it would not fit."""
    (n_columns, n_clusters), (r, _) = shape, shape_of_parts
    if not fits(n_clusters):
        n_columns, n_clusters, r = 0, 1, 1
    width = padded(n_clusters, np.int16)
    table, of_parts = (aligned((n, width), np.int16) for n in (n_columns + 1, r + 1 if r > 1 else 1))
    base, parts = (aligned((1, width), np.float32) for _ in "bp")
    return Short(table, of_parts, base, parts, (width - 1).bit_length(), 1.0, 0.0, math.inf, 0.0)


@kernel
def find_middles(table, offsets, complete, middle, first, last):
    """Find the middle of each cluster in partitions first .. last - 1; return the widest range of a partition's costs.

    With holes a partition may be left out; what is taken off its entries must then be the same for all clusters.
    """
    n_clusters = table.shape[1]
    low, high, widest = empty(n_clusters, np.float64), empty(n_clusters, np.float64), 0.0
    for i in range(first, last):
        for k in range(n_clusters):
            low[k], high[k] = np.inf, -np.inf
        for c in range(offsets[i], offsets[i + 1]):
            for k in range(n_clusters):
                entry = np.float64(table[c, k])
                low[k], high[k] = min(low[k], entry), max(high[k], entry)
        if not complete:
            _to_ends(low, high)
        for k in range(n_clusters):
            middle[i, k] = (low[k] + high[k]) / 2
            span = high[k] - low[k]
            widest = max(widest, span if span >= 0 else np.inf)  # not a number: all are infinite
    return widest


@inner
def _to_ends(low, high):
    """Set all entries to the least of `low`, and to the largest of `high`."""
    least, largest = low[0], high[0]
    for k in range(len(low)):
        least, largest = min(least, low[k]), max(largest, high[k])
    for k in range(len(low)):
        low[k], high[k] = least, largest


@kernel
def find_units(per_partition, middle, widest, complete, heaviest, found):
    """Fill in all but the table; return unit, ratio and errors, the first of which is infinite if costs are too large.

    A cost and the number of a cluster must share 32 bits.
    """
    _, of_parts, base, parts, bits, _, _, _, _ = found
    r, n_clusters = middle.shape
    unit, ratio = _unit(widest), 0.0
    if len(per_partition) > 1:
        starts, own_middle = empty(r + 1, np.int32), empty((r, n_clusters), np.float64)
        for i in range(r + 1):
            starts[i] = i
        own = _unit(find_middles(per_partition, starts, False, own_middle, 0, r))
        ratio = own / unit
        if own < np.inf:
            round_partitions(per_partition, own_middle, starts, own, of_parts, 0, r)
    largest = _bases(per_partition, middle, complete, unit, heaviest, base, parts)
    largest += heaviest * ratio * r * LEVELS
    room = 2.0 ** (30 - bits)
    if not (unit < np.inf and largest + r * LEVELS < room / 2):
        return unit, ratio, np.inf, 0.0
    for k in range(n_clusters, base.shape[1]):
        base[0, k] = room / 2
    # the sums of entries, what is cut off costs when they become integers, and the rounding of float32
    return unit, ratio, r + 2 + largest * 2.0**-20, r * ratio


@inner
def _unit(widest):
    """Return the unit of a table whose widest range of costs is this; it is infinite if an entry is."""
    return max(widest / (2 * LEVELS), 1e-290)


@inner
def _bases(per_partition, middle, complete, unit, heaviest, base, parts):
    """Find what the table leaves out of the costs, in units; return how large that can be."""
    n_clusters, sums, mean = middle.shape[1], empty(middle.shape[1], np.float64), 0.0
    for k in range(n_clusters):
        sums[k] = 0.0
        for i in range(len(middle)):
            sums[k] += middle[i, k]
        mean += sums[k]
    mean /= n_clusters
    largest, largest_part = 0.0, 0.0
    for k in range(n_clusters):
        base[0, k] = (sums[k] - mean) / unit if complete else 0.0
        parts[0, k] = np.float64(per_partition[0, k]) / unit if len(per_partition) == 1 else 0.0
        largest, largest_part = max(largest, abs(base[0, k])), max(largest_part, abs(parts[0, k]))
    return largest + heaviest * largest_part


@kernel
def round_partitions(table, middle, offsets, unit, short, first, last):
    """Round the costs of partitions first .. last - 1."""
    for i in range(first, last):
        for c in range(offsets[i], offsets[i + 1]):
            for k in range(table.shape[1]):
                short[c, k] = np.rint((table[c, k] - middle[i, k]) / unit)


@intrinsic
def two_least(typing, total, y, base, parts, weight, bits, of_parts, ratio, hole):
    """Return the two least costs total[y] + base + weight * parts.

    The number of a cluster is in the last bits of its cost. With holes ratio * of_parts[y] is added to the parts.
    """
    return _least(2, total, y, base, parts, weight, bits, of_parts, ratio, hole)


@intrinsic
def three_least(typing, total, y, base, parts, weight, bits, of_parts, ratio, hole):
    """Return the three least costs, as `two_least` does."""
    return _least(3, total, y, base, parts, weight, bits, of_parts, ratio, hole)


def _least(number, *given):
    """Return the signature of a function that finds the least costs, so many, and what emits it."""
    holes = not isinstance(given[-1], types.NoneType)

    def body(emit, total, y, base, parts, weight, bits, of_parts, ratio, hole):
        found = _by_lane(emit, number, total, y, base, parts, weight, bits, of_parts, ratio, holes)
        return _over_lanes(emit.builder, found)

    return typed(types.UniTuple(types.int32, number), *given), generator(body)


def _by_lane(emit, number, total, y, base, parts, weight, bits, of_parts, ratio, holes):
    """Emit the least costs of each lane, so many, with the numbers of clusters in their last bits."""
    b, line = emit.builder, total.line
    shift, weights = emit.repeat(b.trunc(bits, INT), line), emit.repeat(weight, base.line)

    def one(at, so_far):
        sums, left_out, factor = (emit.load(*of, 1, at)[0] for of in ((total, y), (base, FIRST), (parts, FIRST)))
        if holes:
            own = b.sitofp(emit.load(of_parts, y, 1, at)[0], base.line)
            factor = b.fadd(factor, b.fmul(emit.repeat(ratio, base.line), own))
        cost = b.add(sums, b.fptosi(b.fadd(left_out, b.fmul(weights, factor)), line))
        first = b.trunc(b.mul(at, ir.Constant(WORD, line.count)), INT)
        column = b.add(emit.repeat(first, line), ir.Constant(line, list(range(line.count))))
        return _inserted(b, so_far, b.or_(b.shl(cost, shift), column))

    largest = ir.Constant(line, [2**31 - 1] * line.count)
    return emit.loop(emit.lines(total), [largest] * number, one)


def _over_lanes(b, found):
    """Emit the least of all lanes, as many as there are of each."""
    while found[0].type.count > 1:
        found = _merged(b, *_halves(b, found))
    return [b.extract_element(key, ir.Constant(INT, 0)) for key in found]


def _lesser(b, one, two):
    return b.select(b.icmp_signed("<", one, two), one, two)


def _greater(b, one, two):
    return b.select(b.icmp_signed("<", one, two), two, one)


def _inserted(b, least, key):
    """Return the least of some ascending vectors and a further one, as many as there were."""
    found = []
    for before in least:
        found.append(_lesser(b, before, key))
        key = _greater(b, before, key)
    return found


def _halves(b, vectors):
    """Return the lower and the upper halves of vectors."""
    half = vectors[0].type.count // 2
    undefined = ir.Constant(vectors[0].type, ir.Undefined)
    masks = [ir.Constant(ir.VectorType(INT, half), [*range(first, first + half)]) for first in (0, half)]
    return [[b.shuffle_vector(vector, undefined, mask) for vector in vectors] for mask in masks]


def _merged(b, one, two):
    """Return the least of two ascending lists: number k is one[k], two[k] or max(one[i], two[k - 1 - i])."""
    found = []
    for k in range(len(one)):
        last = _lesser(b, one[k], two[k])
        for i in range(k):
            last = _lesser(b, last, _greater(b, one[i], two[k - 1 - i]))
        found.append(last)
    return found
