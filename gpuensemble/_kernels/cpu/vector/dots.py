"""Rows are multiplied with a table of few columns here; products of DOT_ROWS rows stay in vector registers."""

import itertools
from typing import Any

from llvmlite import ir
from numba import types

from gpuensemble._kernels.cpu.vector.emitter import WORD, Value, generator, intrinsic, typed
from gpuensemble._kernels.cpu.vector.tiles import DOT_LINES, DOT_ROWS


@intrinsic
def dot_rows(typing, rows, chosen, j, m, table, out):
    """Set out[i] = rows[chosen[i]] @ table for i = j .. j + DOT_ROWS - 1, but for those that are not less than m.

    Rows of the table have `dot_width` entries, and those of `out` as many or more.
    """

    def body(emit, rows, chosen, j, m, table, out):
        b = emit.builder
        table, out = table.halved(), out.halved()
        _, places, starts = _dotted(emit, rows, chosen, j, m)

        def of_width(width):
            def one(c, sums):
                row = emit.load(table, c, width)
                entries = [emit.repeat(b.load(b.gep(start, [c])), table.line) for start in starts]
                pairs = itertools.product(entries, row)
                return [emit.add_product(s, x, t) for s, (x, t) in zip(sums, pairs, strict=True)]

            zero = ir.Constant(table.line, [0.0] * table.line.count)
            sums = emit.loop(rows.length, [zero] * (DOT_ROWS * width), one)
            for i, place in enumerate(places):
                emit.store(out, place, sums[i * width : (i + 1) * width])

        emit.by_width(emit.lines(table), of_width, DOT_LINES)

    return typed(types.void, rows, chosen, j, m, table, out), generator(body)


@intrinsic
def add_outer_rows(typing, rows, chosen, j, m, factors, total):
    """Do total[c] += rows[chosen[i], c] * factors[i], one after another, for all c and i = j .. j + DOT_ROWS - 1.

    Rows of `factors` and of `total` have `dot_width` entries. Those of `factors` that are not less than m must be 0.
    """

    def body(emit, rows, chosen, j, m, factors, total):
        b = emit.builder
        factors, total = factors.halved(), total.halved()
        further, starts = _dotted(emit, rows, chosen, j, m)[::2]

        def of_width(width):
            held = [emit.load(factors, i, width) for i in further]

            def one(c, _):
                sums = emit.load(total, c, width)
                for start, row in zip(starts, held, strict=True):
                    entry = emit.repeat(b.load(b.gep(start, [c])), total.line)
                    sums = [emit.add_product(s, entry, f) for s, f in zip(sums, row, strict=True)]
                emit.store(total, c, sums)
                return []

            emit.loop(rows.length, [], one)

        emit.by_width(emit.lines(total), of_width, DOT_LINES)

    return typed(types.void, rows, chosen, j, m, factors, total), generator(body)


def _dotted(emit: Any, rows: Any, chosen: Any, j: Value, m: Value) -> tuple[list, list, list]:
    """Return j .. j + DOT_ROWS - 1, the same with m - 1 for what is not less than m, and where these rows begin."""
    b = emit.builder
    last = b.sub(m, ir.Constant(WORD, 1))
    further = [b.add(j, ir.Constant(WORD, i)) for i in range(DOT_ROWS)]
    places = [b.select(b.icmp_signed("<", i, last), i, last) for i in further]  # the last one, again and again
    return further, places, [b.gep(rows.data, [b.mul(emit.entry(chosen, i), rows.length)]) for i in places]
