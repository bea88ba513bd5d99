"""LLVM code is written here for kernels whose sums stay in vector registers: `rows` and `dots` say what it does."""

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic as numba_intrinsic

from gpuensemble._kernels.cpu.vector.tiles import LINE, WIDEST

Value = Any  # of LLVM
WORD = ir.IntType(64)
FIRST = ir.Constant(WORD, 0)
FUSED = ("contract",)  # multiplied and added in one instruction where there is one
intrinsic: Any = numba_intrinsic


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
