"""Margins of rows to each centre, in float32: those of a row are a few vectors, which stay in registers."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from gpuensemble._kernels.cpu.vector.emitter import FIRST, WORD, Value, generator, intrinsic, typed
from gpuensemble._kernels.cpu.vector.tiles import DOT_LINES

INFINITE = float("inf")


@intrinsic
def two_least(typing, scores, j, added, label):
    """Return the column of the least cost scores[j] + added[label], that cost and the second; of equals either column.

    Rows have `dot_width` entries, and those of `added` are infinite behind the last column.
    """
    result = types.Tuple((types.intp, scores.dtype, scores.dtype))

    def body(emit, scores, j, added, label):
        def of_width(width):
            costs = _costs(emit, scores, j, added, label, width)
            least, second = _two_least(emit, costs)
            equal = [emit.builder.fcmp_ordered("==", cost, emit.repeat(least, cost.type)) for cost in costs]
            return [_first(emit, equal), least, second]

        kinds = [WORD, scores.line.element, scores.line.element]
        return _by_width(emit, emit.lines(scores.halved()), of_width, kinds)

    return typed(result, scores, j, added, label), generator(body)


@intrinsic
def keep_margins(typing, scores, j, added, label, least, nearer, factor, reach, most, squared, margins, x):
    """Set margins[x] from the costs scores[j] + added[label], of which `least` is the row's own.

    The margin is (cost - nearer) * factor, if `squared` over the sum of the roots of cost + reach and least + reach;
    `most` at most, and as much for the own centre and where the cost is infinite.
    """

    def body(emit, scores, j, added, label, least, nearer, factor, reach, most, squared, margins, x):
        b = emit.builder

        def of_width(width):
            costs = _costs(emit, scores, j, added, label, width)
            own, limit, taken, times, far = (
                emit.repeat(one, costs[0].type) for one in (least, most, nearer, factor, reach)
            )
            over = [b.fmul(b.fsub(cost, taken), times) for cost in costs]

            def keep(values):
                kept = [_lesser(b, value, limit) for value in values]
                kept = [
                    b.select(b.fcmp_ordered(">", cost, own), one, limit) for cost, one in zip(costs, kept, strict=True)
                ]
                emit.store(margins.halved(), x, kept)

            with b.if_else(squared) as (then, otherwise):
                with then:
                    roots = [_root(b, b.fadd(cost, far)) for cost in costs]
                    root = emit.repeat(_root(b, b.fadd(least, reach)), costs[0].type)
                    keep([b.fdiv(one, b.fadd(two, root)) for one, two in zip(over, roots, strict=True)])
                with otherwise:
                    keep(over)
            return []

        _by_width(emit, emit.lines(scores.halved()), of_width, [])

    given = (scores, j, added, label, least, nearer, factor, reach, most, squared, margins, x)
    return typed(types.void, *given), generator(body)


@intrinsic
def use_up(typing, margins, labels, shifts, rows):
    """Do margins[x] -= shifts[labels[x]]; put each x that has one not above 0 into `rows`, and return how many."""

    def body(emit, margins, labels, shifts, rows):
        b = emit.builder

        def of_width(width):
            def one(x, counted):
                own = emit.word(emit.entry(labels, x))
                old, fall = (emit.load(t.halved(), y, width) for t, y in ((margins, x), (shifts, own)))
                new = [b.fsub(v, w) for v, w in zip(old, fall, strict=True)]
                emit.store(margins.halved(), x, new)
                b.store(x, b.gep(rows.data, counted))
                used = [b.fcmp_unordered("<=", v, ir.Constant(v.type, [0.0] * v.type.count)) for v in new]
                is_open = b.icmp_signed("!=", _bits(emit, used), FIRST)
                return [b.add(counted[0], b.zext(is_open, WORD))]

            return emit.loop(labels.length, [FIRST], one)

        (found,) = _by_width(emit, emit.lines(margins.halved()), of_width, [WORD])
        return found

    return typed(types.intp, margins, labels, shifts, rows), generator(body)


def _costs(emit: Any, scores: Any, j: Value, added: Any, label: Value, width: int) -> list[Value]:
    """Load scores[j] + added[label]."""
    pairs = zip(emit.load(scores.halved(), j, width), emit.load(added.halved(), label, width), strict=True)
    return [emit.builder.fadd(one, two) for one, two in pairs]


def _two_least(emit: Any, costs: list[Value]) -> tuple[Value, Value]:
    """Return the least and the second of the entries of vectors."""
    b, least, second = emit.builder, costs[0], emit.repeat(_constant(costs[0], INFINITE), costs[0].type)
    for cost in costs[1:]:
        least, second = _lesser(b, least, cost), _lesser(b, second, _greater(b, least, cost))
    half = least.type.count // 2
    while half:
        one, two = (emit.turned(vector, half) for vector in (least, second))
        second = _lesser(b, _lesser(b, second, two), _greater(b, least, one))
        least, half = _lesser(b, least, one), half // 2
    zero = ir.Constant(ir.IntType(32), 0)
    return b.extract_element(least, zero), b.extract_element(second, zero)


def _first(emit: Any, marks: list[Value]) -> Value:
    """Return the position of the first entry that is marked."""
    b = emit.builder
    kind = ir.FunctionType(WORD, [WORD, ir.IntType(1)])
    count = cgutils.get_or_insert_function(b.module, kind, "llvm.cttz.i64")
    return b.call(count, [_bits(emit, marks), ir.Constant(ir.IntType(1), 0)])


def _bits(emit: Any, marks: list[Value]) -> Value:
    """Return the marks of vectors as the bits of a word."""
    b, bits = emit.builder, FIRST
    for i, one in enumerate(marks):
        word = b.zext(b.bitcast(one, ir.IntType(one.type.count)), WORD)
        bits = b.or_(bits, b.shl(word, ir.Constant(WORD, i * one.type.count)))
    return bits


def _lesser(b: Any, one: Value, two: Value) -> Value:
    return b.select(b.fcmp_ordered("<", one, two), one, two)


def _greater(b: Any, one: Value, two: Value) -> Value:
    return b.select(b.fcmp_ordered(">", one, two), one, two)


def _root(b: Any, square: Value) -> Value:
    """Return the square root of numbers, and 0 where they are less."""
    count = getattr(square.type, "count", None)
    zero = ir.Constant(square.type, 0.0 if count is None else [0.0] * count)
    name = f"llvm.sqrt.{'' if count is None else f'v{count}'}f32"
    root = cgutils.get_or_insert_function(b.module, ir.FunctionType(square.type, [square.type]), name)
    return b.call(root, [_greater(b, square, zero)])


def _constant(like: Value, number: float) -> Value:
    return ir.Constant(getattr(like.type, "element", like.type), number)


def _by_width(emit: Any, n_lines: Value, of_width: Callable, kinds: list) -> list[Value]:
    """Emit of_width(n_lines) for each number of half lines, and return what it returns."""
    b = emit.builder
    found: list = []

    def noted(width: int) -> None:
        values = of_width(width)
        found.append((values, b.block))

    before = b.block
    emit.by_width(n_lines, noted, DOT_LINES)
    results = []
    for i, kind in enumerate(kinds):
        phi = b.phi(kind)
        phi.add_incoming(ir.Constant(kind, ir.Undefined), before)
        for values, block in found:
            phi.add_incoming(values[i], block)
        results.append(phi)
    return results
