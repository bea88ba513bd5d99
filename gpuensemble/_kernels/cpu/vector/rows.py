"""Rows of a table are added up here, and compared; sums stay in vector registers, WIDEST lines at a time at most."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from gpuensemble._kernels.cpu.vector.emitter import FIRST, WORD, generator, intrinsic, typed
from gpuensemble._kernels.cpu.vector.tiles import LINE, WIDEST


@intrinsic
def add_rows(typing, total, y, table, chosen, m):
    """Do total[y] += table[c] for c in chosen[:m], one after another."""

    def body(emit, total, y, table, chosen, m):
        def of_width(width):
            rows = table.of_lines(width)

            def one(j, sums):
                row = emit.load(rows, emit.entry(chosen, j), width)
                return [emit.add(s, v) for s, v in zip(sums, row, strict=True)]

            emit.store(total, y, emit.loop(m, emit.load(total, y, width), one))

        emit.by_width(emit.lines(table), of_width)

    return typed(types.void, total, y, table, chosen, m), generator(body)


@intrinsic
def add_to_rows(typing, table, chosen, m, addend):
    """Do table[c] += addend[0] for c in chosen[:m]."""

    def body(emit, table, chosen, m, addend):
        def of_width(width):
            rows, terms = table.of_lines(width), emit.load(addend, FIRST, width)

            def one(j, _):
                c = emit.entry(chosen, j)
                row = emit.load(rows, c, width)
                emit.store(rows, c, [emit.add(v, t) for v, t in zip(row, terms, strict=True)])
                return []

            emit.loop(m, [], one)

        emit.by_width(emit.lines(table), of_width)

    return typed(types.void, table, chosen, m, addend), generator(body)


@intrinsic
def add_scaled_rows(typing, total, y, table, chosen, factors, begin, end, low):
    """Do total[y] += factors[i] * table[chosen[i]] for i = begin .. end - 1, one after another.

    It works from line `low` of the rows on, on WIDEST lines at most.
    """

    def body(emit, total, y, table, chosen, factors, begin, end, low):
        b = emit.builder
        left = b.sub(emit.lines(table), low)

        def of_width(width):
            def one(j, sums):
                i = b.add(begin, j)
                factor, c = emit.repeat(emit.entry(factors, i), table.line), emit.word(emit.entry(chosen, i))
                row = emit.load(table, c, width, low)
                return [emit.add_product(s, factor, v) for s, v in zip(sums, row, strict=True)]

            emit.store(total, y, emit.loop(b.sub(end, begin), emit.load(total, y, width, low), one), low)

        widest = ir.Constant(WORD, WIDEST)
        emit.by_width(b.select(b.icmp_signed("<", left, widest), left, widest), of_width)

    return typed(types.void, total, y, table, chosen, factors, begin, end, low), generator(body)


@intrinsic
def cheapest(typing, t, y, p, z, weight, n_columns, low, best, least, second):
    """Compare the costs t[y] + weight * p[z] of n_columns columns with (best, least, second) so far.

    It returns the new three. The first of equals stays; column k counts as low + k.
    """
    result = types.Tuple((types.intp, t.dtype, t.dtype))

    def body(emit, t, y, p, z, weight, n_columns, low, best, least, second):
        return emit.cheapest(t, y, p, z, weight, n_columns, low, (best, least, second))

    return typed(result, t, y, p, z, weight, n_columns, low, best, least, second), generator(body)


@intrinsic
def prefetch(typing, array, x):
    """Ask for row x of an array, which is on its way while other work is done."""

    def body(emit, array, x):
        b, byte = emit.builder, ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, *[ir.IntType(32)] * 3])
        ask = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0i8")
        hints = [ir.Constant(ir.IntType(32), hint) for hint in (0, 3, 1)]  # to read, to keep, data
        start, end = (
            b.bitcast(b.gep(array.data, [b.mul(row, array.length)]), byte)
            for row in (x, b.add(x, ir.Constant(WORD, 1)))
        )
        size, line = b.sub(b.ptrtoint(end, WORD), b.ptrtoint(start, WORD)), ir.Constant(WORD, LINE)

        def one(i, _):
            b.call(ask, [b.gep(start, [b.mul(i, line)]), *hints])
            return []

        emit.loop(b.udiv(b.add(size, ir.Constant(WORD, LINE - 1)), line), [], one)
        b.call(ask, [b.gep(end, [ir.Constant(WORD, -1)]), *hints])

    return typed(types.void, array, x), generator(body)
