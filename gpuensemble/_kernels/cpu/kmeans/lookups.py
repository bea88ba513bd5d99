"""Sums of rows of a table in 16 bits stay in vector registers: `short` says what its entries are."""

from llvmlite import binding, ir
from numba import config, types

from gpuensemble._kernels.cpu.compiling import inner
from gpuensemble._kernels.cpu.kmeans.short import INT, TOGETHER
from gpuensemble._kernels.cpu.vector.emitter import WORD, generator, intrinsic, typed
from gpuensemble._kernels.cpu.vector.tiles import LINE, WIDEST


def _has_wide_registers():
    """Tell whether there are 32 registers of a cache line each."""
    given = config.CPU_FEATURES  # type: ignore[attr-defined]
    if given is not None:
        return "+avx512f" in given
    try:
        return bool(binding.get_host_cpu_features().get("avx512f"))
    except RuntimeError:  # LLVM does not know this processor
        return False


# Rows whose sums are in registers side by side, and lines of their tables at most: three registers of a line for each.
ROWS, TABLE_LINES = (4, 2) if _has_wide_registers() else (2, 1)
TABLE_WIDTH = TABLE_LINES * LINE // 2


@inner
def sum_short_rows(total, table, codes, rows, m, offsets, hole):
    """Do total[j] = the sum over i of table[offsets[i] + codes[rows[j], i]] for j < m; a hole is the last row."""
    j = 0
    if table.shape[1] <= TABLE_WIDTH:
        while j + ROWS <= m:
            add_several_short_rows(total, j, table, codes, rows, offsets, hole)
            j += ROWS
    for left in range(j, m):
        add_short_rows(total, left, table, codes, rows[left], offsets, hole)


@intrinsic
def add_short_rows(typing, total, y, table, codes, x, offsets, hole):
    """Do total[y] = the sum over i of table[offsets[i] + codes[x, i]]."""

    def body(emit, total, y, table, codes, x, offsets, hole):
        _sum_rows(emit, total, y, table, [_column(emit, codes, x, offsets, hole, given)], codes.length, WIDEST)

    given = _facts(codes, hole)
    return typed(types.void, total, y, table, codes, x, offsets, hole), generator(body)


@intrinsic
def add_several_short_rows(typing, total, y, table, codes, rows, offsets, hole):
    """Do `add_short_rows` for y .. y + ROWS - 1, where x is the entry of `rows`: of a table of few lines.

    Each row's sums are in registers, and the first column of a partition is loaded once for all of them.
    """

    def body(emit, total, y, table, codes, rows, offsets, hole):
        places = [emit.entry(rows, emit.builder.add(y, ir.Constant(WORD, j))) for j in range(ROWS)]
        columns = [_column(emit, codes, x, offsets, hole, given) for x in places]
        _sum_rows(emit, total, y, table, columns, codes.length, TABLE_LINES)

    given = _facts(codes, hole)
    return typed(types.void, total, y, table, codes, rows, offsets, hole), generator(body)


@intrinsic
def add_short_parts(typing, total, y, table, codes, x, hole):
    """Do total[y] = the sum over i of table[i], in 32 bits; a hole is the last row. Without holes nothing is done."""
    signed, holes = _facts(codes, hole)

    def body(emit, total, y, table, codes, x, hole):
        b, code = emit.builder, _code(emit, codes, x, signed)
        if not holes:
            return

        def column(i):
            return b.select(b.icmp_signed("==", code(i), hole), codes.length, i)

        _sum_rows(emit, total, y, table, [column], codes.length, WIDEST)

    return typed(types.void, total, y, table, codes, x, hole), generator(body)


def _code(emit, codes, x, signed):
    """Return a function that loads codes[x, i] as a word."""
    b = emit.builder
    row = b.gep(codes.data, [b.mul(x, codes.length)])

    def code(i):
        found = b.load(b.gep(row, [i]))
        return b.sext(found, WORD) if signed else b.zext(found, WORD)

    return code


def _facts(codes, hole):
    """Tell whether codes are signed, and whether there are holes."""
    return codes.dtype.signed, not isinstance(hole, types.NoneType)


def _column(emit, codes, x, offsets, hole, facts):
    """Return a function that finds the row of the table that codes[x, i] stands for."""
    b, (signed, holes) = emit.builder, facts
    code = _code(emit, codes, x, signed)

    def column(i):
        found = b.add(code(i), emit.word(emit.entry(offsets, i)))
        if not holes:
            return found
        return b.select(b.icmp_signed("==", code(i), hole), emit.word(emit.entry(offsets, codes.length)), found)

    return column


def _sum_rows(emit, total, y, table, columns, r, widest):
    """Emit total[y + j] = the sum of table[columns[j](i)] for i < r: TOGETHER of them in 16 bits, these in 32."""
    b = emit.builder
    zero = ir.Constant(table.line, [0] * table.line.count)
    whole = b.udiv(r, ir.Constant(WORD, TOGETHER))
    begin = b.mul(whole, ir.Constant(WORD, TOGETHER))

    def of_width(width):
        rows = table.of_lines(width)

        def added(short, i):
            entries = [entry for column in columns for entry in emit.load(rows, column(i), width)]
            return [b.add(one, entry) for one, entry in zip(short, entries, strict=True)]

        def widened(sums, short):
            halves = [half for one in short for half in _widened(emit, one)]
            return [b.add(one, half) for one, half in zip(sums, halves, strict=True)]

        def several(j, sums):
            short, first = [zero] * (width * len(columns)), b.mul(j, ir.Constant(WORD, TOGETHER))
            for d in range(TOGETHER):
                short = added(short, b.add(first, ir.Constant(WORD, d)))
            return widened(sums, short)

        wide = ir.VectorType(INT, table.line.count // 2)
        sums = [ir.Constant(wide, [0] * wide.count)] * (2 * width * len(columns))
        sums = emit.loop(whole, sums, several)
        left = emit.loop(
            b.sub(r, begin), [zero] * (width * len(columns)), lambda j, short: added(short, b.add(begin, j))
        )
        sums = widened(sums, left)
        for j in range(len(columns)):
            emit.store(total, b.add(y, ir.Constant(WORD, j)), sums[2 * width * j : 2 * width * (j + 1)])

    emit.by_width(emit.lines(table), of_width, widest)


def _widened(emit, short):
    """Return both halves of a vector of 16-bit integers, in 32 bits."""
    b, count = emit.builder, short.type.count // 2
    halves = ([*range(first, first + count)] for first in (0, count))
    masks = (ir.Constant(ir.VectorType(INT, count), lanes) for lanes in halves)
    undefined = ir.Constant(short.type, ir.Undefined)
    return [b.sext(b.shuffle_vector(short, undefined, mask), ir.VectorType(INT, count)) for mask in masks]
