"""Numba kernels loop over the rows of a table here, with sums that stay in vector registers.

Numba's own vectoriser keeps such sums in memory, and looks for overlapping arrays at each row of the table, which takes
longer than the additions. Here tables and sums have rows of whole cache lines (`tiles`), WIDEST of them at most, and a
line is one vector. Per column the additions are those of a plain loop, in its order.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic as numba_intrinsic

from gpuensemble._kernels.cpu.tiles import DOT_LINES, DOT_ROWS, LINE, WIDEST

Value = Any  # of LLVM
WORD = ir.IntType(64)
FIRST = ir.Constant(WORD, 0)
FUSED = ("contract",)  # multiplied and added in one instruction where there is one
intrinsic: Any = numba_intrinsic


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


@intrinsic
def dot_rows(typing, rows, chosen, j, m, table, out):
    """Set out[i] = rows[chosen[i]] @ table for i = j .. j + DOT_ROWS - 1, but for those that are not less than m.

    Rows of the table have `dot_width` entries, and those of `out` as many or more.
    """

    def body(emit, rows, chosen, j, m, table, out):
        b = emit.builder
        table, out = table.halved(), out.halved()
        last = b.sub(m, ir.Constant(WORD, 1))
        further = [b.add(j, ir.Constant(WORD, i)) for i in range(DOT_ROWS)]
        places = [b.select(b.icmp_signed("<", i, last), i, last) for i in further]  # the last one, again and again
        starts = [b.gep(rows.data, [b.mul(emit.entry(chosen, i), rows.length)]) for i in places]

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


def typed(result: Any, *arguments: Any) -> Any:
    """Return the signature, in which integers are words."""
    if any(isinstance(a, types.Array) and a.layout != "C" for a in arguments):
        raise TypingError("arrays must be contiguous")
    return result(*[types.intp if isinstance(a, types.Integer) else a for a in arguments])


def generator(body: Callable) -> Callable:
    """Return the function that Numba calls to emit the code of `body`."""

    def generate(context, builder, signature, values):
        operands = [
            _array(cgutils.create_struct_proxy(kind)(context, builder, value), kind, builder)
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(signature.args, values, strict=True)
        ]
        found = body(_Emitter(builder), *operands)
        if isinstance(found, list | tuple):
            return context.make_tuple(builder, signature.return_type, found)
        return context.get_dummy_value() if found is None else found

    return generate


class _Array(NamedTuple):
    """This stands for a contiguous array in the code that is emitted."""

    data: Value
    length: Value  # of a row
    line: Any  # the type of a vector of its entries
    size: int = LINE  # bytes of a vector

    def of_lines(self, width: int) -> "_Array":
        """Return the same array, whose rows are known to have so many lines: their places need no product."""
        return self._replace(length=ir.Constant(WORD, width * self.line.count))

    def halved(self) -> "_Array":
        """Return the same array in vectors of half a line."""
        return self._replace(line=ir.VectorType(self.line.element, self.line.count // 2), size=LINE // 2)


def _array(record: Any, kind: Any, builder: Any) -> _Array:
    length = builder.extract_value(record.shape, kind.ndim - 1)
    return _Array(record.data, length, ir.VectorType(record.data.type.pointee, LINE * 8 // kind.dtype.bitwidth))


class _Emitter:
    """An `_Emitter` writes LLVM code; a row of lines is a list of vectors."""

    def __init__(self, builder: Any):
        self.builder = builder

    def entry(self, array: _Array, index: Value) -> Value:
        """Load array[index] of an array with one axis."""
        return self.builder.load(self.builder.gep(array.data, [index]))

    def load(self, array: _Array, row: Value, width: int, low: Value = FIRST) -> list[Value]:
        """Load `width` lines of a row, from line `low` on."""
        at = [self.line(array, row, self.builder.add(low, ir.Constant(WORD, line))) for line in range(width)]
        return [self.builder.load(pointer, align=array.size) for pointer in at]

    def store(self, array: _Array, row: Value, vectors: list[Value], low: Value = FIRST) -> None:
        """Write lines of a row, from line `low` on."""
        for line, vector in enumerate(vectors):
            at = self.line(array, row, self.builder.add(low, ir.Constant(WORD, line)))
            self.builder.store(vector, at, align=array.size)

    def lines(self, array: _Array) -> Value:
        """Return how many lines a row has."""
        return self.builder.udiv(array.length, ir.Constant(WORD, array.line.count))

    def line(self, array: _Array, row: Value, line: Value) -> Value:
        """Return a pointer to a line of a row."""
        b = self.builder
        start = b.gep(array.data, [b.mul(row, array.length)])
        return b.gep(b.bitcast(start, array.line.as_pointer()), [line])

    def add(self, x: Value, y: Value) -> Value:
        """Return x + y."""
        return self.builder.add(x, y) if isinstance(x.type.element, ir.IntType) else self.builder.fadd(x, y)

    def add_product(self, s: Value, x: Value, y: Value) -> Value:
        """Return s + x * y."""
        return self.builder.fadd(s, self.builder.fmul(x, y, flags=FUSED), flags=FUSED)

    def word(self, index: Value) -> Value:
        """Widen an integer to a word."""
        return index if index.type == WORD else self.builder.sext(index, WORD)

    def loop(self, n: Value, carried: list[Value], one: Callable) -> list[Value]:
        """Emit carried = one(i, carried) for i in 0 .. n - 1, and return what is carried at the end."""
        b = self.builder
        before, head, inside, after = b.block, *(b.append_basic_block(name) for name in ("head", "inside", "after"))
        b.branch(head)
        b.position_at_end(head)
        i, *values = (b.phi(v.type) for v in (FIRST, *carried))
        b.cbranch(b.icmp_signed("<", i, n), inside, after)
        b.position_at_end(inside)
        new = [b.add(i, ir.Constant(WORD, 1)), *one(i, values)]
        b.branch(head)
        for phi, start, again in zip((i, *values), (FIRST, *carried), new, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(again, b.block)
        b.position_at_end(after)
        return values

    def by_width(self, n_lines: Value, of_width: Callable, widest: int = WIDEST) -> None:
        """Emit of_width(n_lines) for each number of lines from 1 to `widest`."""
        b = self.builder
        after = b.append_basic_block("done")
        switch = b.switch(n_lines, after)
        for width in range(1, widest + 1):
            block = b.append_basic_block(f"lines_{width}")
            switch.add_case(width, block)
            b.position_at_end(block)
            of_width(width)
            b.branch(after)
        b.position_at_end(after)

    def cheapest(self, t, y, p, z, weight, n_columns, low, so_far) -> list[Value]:
        """Find least, its column and second least in each lane, then over the lanes, then against what was before."""
        b, vector = self.builder, t.line
        index = ir.VectorType(ir.IntType(LINE * 8 // vector.count), vector.count)
        lanes = ir.Constant(WORD, vector.count)
        iota = ir.Constant(index, list(range(vector.count)))
        weights = self.repeat(weight, vector)
        last = self.repeat(b.trunc(n_columns, index.element), index)
        infinite = self.repeat(ir.Constant(vector.element, float("inf")), vector)
        n_lines = b.udiv(b.add(n_columns, b.sub(lanes, ir.Constant(WORD, 1))), lanes)

        def one(line, state):
            row, part = (b.load(self.line(array, at, line), align=LINE) for array, at in ((t, y), (p, z)))
            column = b.add(self.repeat(b.trunc(b.mul(line, lanes), index.element), index), iota)
            cost = b.fadd(row, b.fmul(weights, part))
            cost = b.select(b.icmp_signed("<", column, last), cost, infinite)
            return self._insert(state, column, cost)

        state = self.loop(n_lines, [ir.Constant(index, [0] * vector.count), infinite, infinite], one)
        half = vector.count // 2
        while half:
            state = self._merge(state, half)
            half //= 2
        zero = ir.Constant(ir.IntType(32), 0)
        best, least, second = (b.extract_element(x, zero) for x in state)
        found = (b.add(b.sext(best, WORD), low), least, second)
        return self._combine(so_far, found)

    def repeat(self, scalar: Value, vector: Any) -> Value:
        """Return a vector of one number, repeated."""
        zero = ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, zero)
        mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
        return self.builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), mask)

    def _insert(self, state, column, cost):
        """Add a further column in each lane: it comes after those of the state, so that it must be strictly cheaper."""
        b = self.builder
        best, least, second = state
        first = b.fcmp_ordered("<", cost, least)
        runner = b.select(b.fcmp_ordered("<", cost, second), cost, second)
        return [b.select(first, column, best), b.select(first, cost, least), b.select(first, least, runner)]

    def _merge(self, state, half):
        """Combine the lanes with those `half` further up."""
        return self._combine(state, [self.turned(x, half) for x in state])

    def turned(self, vector: Value, by: int) -> Value:
        """Return a vector whose lanes are those `by` further up, in a circle."""
        count = vector.type.count
        mask = ir.Constant(ir.VectorType(ir.IntType(32), count), [(lane + by) % count for lane in range(count)])
        return self.builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)

    def _combine(self, one, two):
        """Join two states (best, least, second): the better one, the lower column of equals, the least of the rest."""
        b = self.builder
        tie = b.and_(b.fcmp_ordered("==", two[1], one[1]), b.icmp_signed("<", two[0], one[0]))
        wins = b.or_(b.fcmp_ordered("<", two[1], one[1]), tie)
        loser = b.select(wins, one[1], two[1])
        second = b.select(b.fcmp_ordered("<", two[2], one[2]), two[2], one[2])
        second = b.select(b.fcmp_ordered("<", loser, second), loser, second)
        return [b.select(wins, two[0], one[0]), b.select(wins, two[1], one[1]), second]
