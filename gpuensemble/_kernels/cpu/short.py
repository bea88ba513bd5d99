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

from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.tiles import LINE, WIDEST, aligned, padded
from gpuensemble._kernels.cpu.vector import FIRST, WORD, generator, intrinsic, typed

TOGETHER = 8  # entries that add up in 16 bits
LEVELS = 4095  # of an entry on either side of the middle: TOGETHER of them are less than 2**15
WIDTH = WIDEST * LINE // 2  # clusters at most
INT = ir.IntType(32)


class Short(NamedTuple):
    """This holds a table of costs in 16 bits; without a row it decides nothing."""

    table: Any  # C + 1 rows of whole cache lines, int16; the last one is 0, for holes
    base: Any  # 1 row of float32, in units: what the table leaves out of each cluster's cost
    parts: Any  # 1 row of float32, in units: the factor of a row's weight
    bits: int  # that the number of a cluster takes
    unit: float
    error: int  # in units: by how much a difference of costs can be wrong


def none() -> Short:
    """Return a table that decides nothing."""
    return Short(aligned((0, LINE // 2), np.int16), *(aligned((1, LINE // 2), np.float32) for _ in "bp"), 5, 1.0, 0)


def shortened(table: Any, per_partition: Any, offsets: Any, complete: bool, heaviest: float) -> Short:
    """Round a table of costs to 16 bits, where the costs allow it; `heaviest` is the largest weight of a row."""
    n_columns, n_clusters = table.shape
    if n_clusters > WIDTH or (len(per_partition) > 1 and per_partition.any()):
        return none()
    low, high = (reduce.reduceat(table, offsets[:-1], axis=0).astype("float64") for reduce in (np.minimum, np.maximum))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return none()
    if not complete:  # a hole leaves out a partition, and so what is taken off its entries must be the same for all
        low, high = low.min(1, keepdims=True), high.max(1, keepdims=True)
    middle = (low + high) / 2
    unit = max(float((high - low).max()) / (2 * LEVELS), 1e-290)
    width = padded(n_clusters, np.int16)
    bits = (width - 1).bit_length()
    base, parts = (aligned((1, width), np.float32) for _ in "bp")
    if complete:
        left_out = middle.sum(0)
        base[0, :n_clusters] = (left_out - left_out.mean()) / unit
    parts[0, :n_clusters] = per_partition.sum(0, dtype="float64") / unit
    largest = float(np.abs(base).max()) + heaviest * float(np.abs(parts).max())
    room = 2.0 ** (30 - bits)
    if not largest + len(middle) * LEVELS < room / 2:  # a cost and a number must share 32 bits
        return none()
    base[0, n_clusters:], parts[0, n_clusters:] = room / 2, 0
    short = aligned((n_columns + 1, width), np.int16)
    _round(table, middle, offsets, unit, short)
    # the sums of entries, what is cut off costs when they become integers, and the rounding of float32
    error = len(middle) + 2 + math.ceil(largest * 2.0**-20)
    return Short(short, base, parts, bits, unit, error)


@kernel
def _round(table, middle, offsets, unit, short):
    one = middle.shape[1] == 1
    for i in range(len(offsets) - 1):
        for c in range(offsets[i], offsets[i + 1]):
            for k in range(table.shape[1]):
                short[c, k] = np.rint((table[c, k] - middle[i, 0 if one else k]) / unit)


@intrinsic
def add_short_rows(typing, total, y, table, codes, x, offsets, hole):
    """Do total[y] = the sum over i of table[offsets[i] + codes[x, i]], in 32 bits; a hole is the last row."""
    signed, holes = codes.dtype.signed, not isinstance(hole, types.NoneType)

    def body(emit, total, y, table, codes, x, offsets, hole):
        b = emit.builder
        row, r = b.gep(codes.data, [b.mul(x, codes.length)]), codes.length

        def column(i):
            code = b.load(b.gep(row, [i]))
            code = b.sext(code, WORD) if signed else b.zext(code, WORD)
            found = b.add(code, emit.word(emit.entry(offsets, i)))
            if not holes:
                return found
            return b.select(b.icmp_signed("==", code, hole), emit.word(emit.entry(offsets, r)), found)

        def of_width(width):
            def several(first, n):
                sums = [ir.Constant(table.line, [0] * table.line.count)] * width
                for d in range(n):
                    entries = emit.load(table, column(b.add(first, ir.Constant(WORD, d))), width)
                    sums = [b.add(s, v) for s, v in zip(sums, entries, strict=True)]
                return [half for s in sums for half in _widened(emit, s)]

            def some(n, begin):
                def one(j, sums):
                    first = b.add(begin, b.mul(j, ir.Constant(WORD, n)))
                    return [b.add(s, v) for s, v in zip(sums, several(first, n), strict=True)]

                return one

            whole = b.udiv(r, ir.Constant(WORD, TOGETHER))
            wide = ir.VectorType(INT, table.line.count // 2)
            sums = emit.loop(whole, [ir.Constant(wide, [0] * wide.count)] * (2 * width), some(TOGETHER, FIRST))
            begin = b.mul(whole, ir.Constant(WORD, TOGETHER))
            emit.store(total, y, emit.loop(b.sub(r, begin), sums, some(1, begin)))

        emit.by_width(emit.lines(table), of_width)

    return typed(types.void, total, y, table, codes, x, offsets, hole), generator(body)


def _widened(emit, short):
    """Return both halves of a vector of 16-bit integers, in 32 bits."""
    b, count = emit.builder, short.type.count // 2
    halves = ([*range(first, first + count)] for first in (0, count))
    masks = (ir.Constant(ir.VectorType(INT, count), lanes) for lanes in halves)
    undefined = ir.Constant(short.type, ir.Undefined)
    return [b.sext(b.shuffle_vector(short, undefined, mask), ir.VectorType(INT, count)) for mask in masks]


@intrinsic
def two_least(typing, total, y, base, parts, weight, bits):
    """Return the two least costs total[y] + base + weight * parts, with the numbers of their clusters as last bits."""

    def body(emit, total, y, base, parts, weight, bits):
        b, line = emit.builder, total.line
        shift, weights = emit.repeat(b.trunc(bits, INT), line), emit.repeat(weight, base.line)

        def lesser(one, two):
            return b.select(b.icmp_signed("<", one, two), one, two)

        def greater(one, two):
            return b.select(b.icmp_signed("<", one, two), two, one)

        def one(at, state):
            least, second = state
            sums, left_out, factor = (emit.load(*of, 1, at)[0] for of in ((total, y), (base, FIRST), (parts, FIRST)))
            cost = b.add(sums, b.fptosi(b.fadd(left_out, b.fmul(weights, factor)), line))
            first = b.trunc(b.mul(at, ir.Constant(WORD, line.count)), INT)
            number = b.add(emit.repeat(first, line), ir.Constant(line, list(range(line.count))))
            key = b.or_(b.shl(cost, shift), number)
            return [lesser(least, key), lesser(second, greater(least, key))]

        largest = ir.Constant(line, [2**31 - 1] * line.count)
        least, second = emit.loop(emit.lines(total), [largest, largest], one)
        while least.type.count > 1:
            half = least.type.count // 2
            low, high = ([*range(first, first + half)] for first in (0, half))
            masks = [ir.Constant(ir.VectorType(INT, half), lanes) for lanes in (low, high)]
            undefined = ir.Constant(least.type, ir.Undefined)
            (one_least, two_least), (one_second, two_second) = (
                [b.shuffle_vector(state, undefined, mask) for mask in masks] for state in (least, second)
            )
            second = lesser(greater(one_least, two_least), lesser(one_second, two_second))
            least = lesser(one_least, two_least)
        zero = ir.Constant(INT, 0)
        return b.extract_element(least, zero), b.extract_element(second, zero)

    return typed(types.UniTuple(types.int32, 2), total, y, base, parts, weight, bits), generator(body)
