"""The PTX instructions that ptx.py executes: what each does to the registers and the memory of a batch of blocks.

A decoder takes (batch, statement, *what its pattern captured) and gives a function of the active lanes. That of a
branch or a synchronisation returns where the lanes go next, as [(index of a statement, lanes)].
"""

import ctypes
import ctypes.util
import re

import numpy as np

WARP = 32
SHARED_WINDOW = 1 << 40  # the generic address of the first byte of shared memory

DTYPES = {
    f"{letter}{8 * size}": np.dtype(f"{code}{size}") for letter, code in ("bu", "uu", "si") for size in (1, 2, 4, 8)
}
DTYPES |= {"f32": np.dtype("f4"), "f64": np.dtype("f8"), "pred": np.dtype(bool)}
INTEGER, ANY = r"[su](?:8|16|32|64)", r"[subf](?:8|16|32|64)"  # kinds in a pattern
OPCODES = []  # (pattern, decoder, role); the role is "" for straight-line code, "branch" or "sync"


def lookup(opcode):
    """The decoder of an instruction, what its pattern captured, and its role; None if there is none."""
    for pattern, decode, role in OPCODES:
        if match := pattern.fullmatch(opcode):
            return decode, match.groups(), role
    return None


def opcode(pattern, role=""):
    """Registers a decoder."""

    def register(decode):
        OPCODES.append((re.compile(pattern), decode, role))
        return decode

    return register


def elementwise(batch, statement, kinds, function):
    """Destination = function(sources), with the kinds of the destination and of each source."""
    target = batch.target(statement.operands[0], kinds[0])
    sources = [batch.value(o, kind) for o, kind in zip(statement.operands[1:], kinds[1:], strict=True)]
    return lambda active: np.copyto(target, function(*sources), where=active)


def flushed(x):
    """Subnormal float32 numbers become zeros of the same sign."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def flushing(function, ftz):
    return (lambda *x: flushed(function(*map(flushed, x)))) if ftz else function


# Arithmetic. An add or mul of floats without .rn is left out: ptxas may fuse it, so the PTX does not fix its result.

FUNCTIONS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "mul.lo": np.multiply, "div": np.divide}
FUNCTIONS |= {"min": np.minimum, "max": np.maximum, "neg": np.negative, "abs": np.abs, "not": np.invert}
FUNCTIONS |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "mad.lo": lambda a, b, c: a * b + c}


@opcode(rf"(add|sub|mul\.lo|mad\.lo|min|max|neg|abs)\.({INTEGER})")
@opcode(r"(and|or|xor|not)\.(pred|b16|b32|b64)")
def _integer(batch, statement, name, kind):
    return elementwise(batch, statement, [kind] * len(statement.operands), FUNCTIONS[name])


@opcode(r"(add|sub|mul|div)\.rn(\.ftz)?\.(f32|f64)")
@opcode(r"(neg|abs)(\.ftz)?\.(f32|f64)")
def _float(batch, statement, name, ftz, kind):
    return elementwise(batch, statement, [kind] * len(statement.operands), flushing(FUNCTIONS[name], ftz))


@opcode(r"(min|max)(\.ftz)?\.(f32|f64)")
def _least(batch, statement, name, ftz, kind):
    def chosen(a, b):
        """A number rather than NaN, and -0 below +0."""
        less = (a < b) | (a == b) & np.signbit(a) | np.isnan(b)
        first = less if name == "min" else (a > b) | (a == b) & ~np.signbit(a) | np.isnan(b)
        return np.where(first, a, b)

    return elementwise(batch, statement, [kind] * 3, flushing(chosen, ftz))


@opcode(r"(sqrt|rcp)\.rn(\.ftz)?\.(f32|f64)")
def _root(batch, statement, name, ftz, kind):
    one = DTYPES[kind].type(1)
    return elementwise(batch, statement, [kind] * 2, flushing(np.sqrt if name == "sqrt" else (lambda a: one / a), ftz))


@opcode(r"fma\.rn(\.ftz)?\.(f32|f64)")
def _fma(batch, statement, ftz, kind):
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    fused, c_type = (library.fmaf, ctypes.c_float) if kind == "f32" else (library.fma, ctypes.c_double)
    fused.argtypes, fused.restype = [c_type] * 3, c_type
    each = np.vectorize(fused, otypes=[DTYPES[kind]])
    return elementwise(batch, statement, [kind] * 4, flushing(each, ftz))


@opcode(r"(?:mul|mad)\.wide\.([su])(16|32)")
def _wide(batch, statement, sign, bits):
    kind, wide = f"{sign}{bits}", f"{sign}{2 * int(bits)}"
    zero = DTYPES[wide].type(0)
    kinds = [wide, kind, kind, wide][: len(statement.operands)]
    return elementwise(batch, statement, kinds, lambda a, b, c=zero: np.multiply(a, b, dtype=zero.dtype) + c)


@opcode(r"mul\.hi\.([su])(32|64)")
def _high(batch, statement, sign, bits):
    kind = f"{sign}{bits}"

    def high(a, b):
        return np.asarray(a.astype(object) * b.astype(object) >> int(bits)).astype(DTYPES[kind])

    return elementwise(batch, statement, [kind] * 3, high)


@opcode(rf"(div|rem)\.({INTEGER})")
def _divide(batch, statement, name, kind):
    target = batch.target(statement.operands[0], kind)
    a, b = (batch.value(operand, kind) for operand in statement.operands[1:])

    def step(active):
        if (active & (b == 0)).any():
            raise ZeroDivisionError(f"`{statement.text}`: PTX leaves the result open")
        remainder = np.fmod(a, b)
        np.copyto(target, remainder if name == "rem" else (a - remainder) // b, where=active)

    return step


@opcode(r"(shl|shr)\.([sub](?:16|32|64))")
def _shift(batch, statement, name, kind):
    shift = np.left_shift if name == "shl" else np.right_shift

    def clamped(a, n):
        return shift(a, np.minimum(n, 64).astype(a.dtype))  # NumPy shifts all bits out from the width on, as PTX does

    return elementwise(batch, statement, [kind, kind, "u32"], clamped)


@opcode(r"bfi\.(b32|b64)")
def _insert_bits(batch, statement, kind):
    one = DTYPES[kind].type(1)

    def insert(a, b, position, length):
        position, length = ((x & 0xFF).astype(one.dtype) for x in (position, length))
        field = np.left_shift(np.left_shift(one, length) - one, position)
        return (b & ~field) | (np.left_shift(a, position) & field)

    return elementwise(batch, statement, [kind, kind, kind, "u32", "u32"], insert)


# Comparison, selection, moves and conversions.

COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}
COMPARISONS |= {"ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}


@opcode(r"setp\.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs)\.([sub](?:16|32|64))")
def _compare(batch, statement, name, kind):
    return elementwise(batch, statement, ["pred", kind, kind], COMPARISONS[name])


@opcode(r"setp\.(eq|ne|lt|le|gt|ge)(u?)(\.ftz)?\.(f32|f64)")
def _compare_floats(batch, statement, name, unordered, ftz, kind):
    def compare(a, b):
        a, b = (flushed(a), flushed(b)) if ftz else (a, b)
        nan = np.isnan(a) | np.isnan(b)
        return COMPARISONS[name](a, b) | nan if unordered else COMPARISONS[name](a, b) & ~nan

    return elementwise(batch, statement, ["pred", kind, kind], compare)


@opcode(r"setp\.(num|nan)(\.ftz)?\.(f32|f64)")
def _compare_numbers(batch, statement, name, ftz, kind):
    def compare(a, b):
        nan = np.isnan(a) | np.isnan(b)
        return nan if name == "nan" else ~nan

    return elementwise(batch, statement, ["pred", kind, kind], compare)


@opcode(rf"selp\.({ANY})")
def _select(batch, statement, kind):
    return elementwise(batch, statement, [kind, kind, kind, "pred"], lambda a, b, p: np.where(p, a, b))


@opcode(rf"mov\.(pred|{ANY})")
def _move(batch, statement, kind):
    left, right = statement.operands
    if left[0] == "{":
        parts, whole = _parts(left), batch.registers[right]
    elif right[0] == "{":
        parts, whole = _parts(right), batch.registers[left]
    else:
        return elementwise(batch, statement, [kind, kind], lambda a: a)
    part = f"b{8 * DTYPES[kind].itemsize // len(parts)}"
    places = [(name, whole.view(DTYPES[part])[i :: len(parts)]) for i, name in enumerate(parts) if name != "_"]
    if left[0] == "{":
        return _copies([(batch.target(name, part), place) for name, place in places])
    return _copies([(place, batch.value(name, part)) for name, place in places])


def _parts(operand):
    """The registers of `{a, b}`, or of a single one."""
    return re.findall(r"[^{},\s]+", operand)


def _copies(pairs):
    def step(active):
        for target, source in pairs:
            np.copyto(target, source, where=active)

    return step


@opcode(rf"cvt\.({INTEGER})\.({INTEGER})")
@opcode(rf"cvt\.rn\.(f32|f64)\.({INTEGER})")
def _convert(batch, statement, to, kind):
    return elementwise(batch, statement, [to, kind], lambda a: a.astype(DTYPES[to]))


@opcode(r"cvt(?:\.rn)?(\.ftz)?\.(f32|f64)\.(f32|f64)")
def _convert_float(batch, statement, ftz, to, kind):
    def flush(a):
        return flushed(a) if ftz and a.dtype == np.float32 else a

    return elementwise(batch, statement, [to, kind], lambda a: flush(flush(a).astype(DTYPES[to])))


@opcode(r"cvt\.(rni|rzi)(?:\.ftz)?\.(s32|f64)\.(f32|f64)")
def _round(batch, statement, mode, to, kind):
    """To a whole number, the nearest or the next towards 0; PTX clamps what an integer cannot hold."""
    whole, nan = np.rint if mode == "rni" else np.trunc, 0 if kind == "f32" else -(2.0**31)

    def rounded(a):
        found = whole(a).astype("f8")
        return found if to == "f64" else np.clip(np.where(np.isnan(found), nan, found), -(2.0**31), 2.0**31 - 1)

    return elementwise(batch, statement, [to, kind], lambda a: rounded(a).astype(DTYPES[to]))


@opcode(r"cvt\.rzi\.s64\.f64")
def _truncate(batch, statement):
    def towards_zero(a):
        whole = np.trunc(np.where(np.isnan(a), -np.inf, a))  # a number that is not one becomes the least integer
        fits = abs(whole) < 2.0**63
        ends = np.where(whole > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
        return np.where(fits, np.where(fits, whole, 0).astype(np.int64), ends)

    return elementwise(batch, statement, ["s64", "f64"], towards_zero)


@opcode(r"cvta(\.to)?\.(global|shared)\.u64")
def _convert_address(batch, statement, to, space):
    window = np.uint64(SHARED_WINDOW if space == "shared" else 0)
    return elementwise(batch, statement, ["u64", "u64"], (lambda a: a - window) if to else (lambda a: a + window))


# Memory.


@opcode(rf"ld\.param\.({ANY})")
def _load_parameter(batch, statement, kind):
    target = batch.target(statement.operands[0], kind)
    name, offset = re.fullmatch(r"\[(\w+)(?:\+(\d+))?\]", statement.operands[1]).groups()
    value = np.frombuffer(batch.parameters[name], DTYPES[kind], count=1, offset=int(offset or 0))
    return lambda active: np.copyto(target, value, where=active)


@opcode(rf"ld(\.global|\.shared)?(?:\.nc)?(?:\.v[24])?\.({ANY})")
def _load(batch, statement, space, kind):
    targets = [batch.target(name, kind) for name in _parts(statement.operands[0])]
    address, dtype = batch.address(statement.operands[1]), DTYPES[kind]
    width = dtype.itemsize * len(targets)

    def step(active):
        for memory, argument, lanes, offsets in batch.places(statement, space, active, address, width):
            for number, target in enumerate(targets):
                elements, places = _elements(memory, dtype, offsets, number)
                target[lanes] = elements[places]
            batch.traffic.add("loads", statement, argument, lanes, offsets, width)

    return step


@opcode(rf"st(\.global|\.shared)?(?:\.v[24])?\.({ANY})")
def _store(batch, statement, space, kind):
    sources = [batch.values(name, kind) for name in _parts(statement.operands[1])]
    address, dtype = batch.address(statement.operands[0]), DTYPES[kind]
    width = dtype.itemsize * len(sources)

    def step(active):
        for memory, argument, lanes, offsets in batch.places(statement, space, active, address, width):
            for number, source in enumerate(sources):
                elements, places = _elements(memory, dtype, offsets, number)
                elements[places] = source[lanes]
            batch.traffic.add("stores", statement, argument, lanes, offsets, width)

    return step


# The words `relaxed` and `gpu`, which some compilers write, say what is so without them.
@opcode(r"(atom|red)(?:\.relaxed\.gpu)?(\.global|\.shared)?\.add\.([su](?:32|64))")
def _atomic_add(batch, statement, name, space, kind):
    dtype = DTYPES[kind]
    target = batch.target(statement.operands[0], kind) if name == "atom" else np.empty(batch.lane.size, dtype)
    address, source = batch.address(statement.operands[-2]), batch.values(statement.operands[-1], kind)

    def step(active):
        for memory, argument, lanes, offsets in batch.places(statement, space, active, address, dtype.itemsize):
            elements, places = _elements(memory, dtype, offsets, 0)
            for lane, place in zip(lanes, places, strict=True):
                target[lane] = elements[place]
                elements[place] += source[lane]
            batch.traffic.add("atomics", statement, argument, lanes, offsets, dtype.itemsize)

    return step


def _elements(memory, dtype, offsets, number):
    """A piece of memory as an array, and the place in it of element `number` of each vector."""
    whole = memory[: memory.size // dtype.itemsize * dtype.itemsize].view(dtype)
    return whole, offsets // dtype.itemsize + number


# Control.


@opcode(r"bra(?:\.uni)?", role="branch")
def _branch(batch, statement):
    there = batch.function.labels[statement.operands[0]]

    def end(active):
        taken = batch.guarded(statement, active)
        return [(there, taken), (statement.at + 1, active & ~taken)]

    return end


@opcode(r"ret|exit", role="branch")
def _return(batch, statement):
    def end(active):
        leaving = batch.guarded(statement, active)
        batch.alive, batch.exited = batch.alive & ~leaving, True
        return [(statement.at + 1, active & ~leaving)]

    return end


@opcode(r"(?:bar|barrier)\.sync", role="sync")
def _block_barrier(batch, statement):
    if statement.operands != ["0"]:
        raise NotImplementedError(f"PTX instruction `{statement.text}`")

    def end(active):
        complete = (active | ~batch.alive).reshape(len(batch.shared), -1).all(axis=1)
        return batch.wait(statement, active, complete[batch.block])

    return end


@opcode(r"bar\.warp\.sync", role="sync")
def _warp_barrier(batch, statement):
    members = batch.value(statement.operands[0], "u32")
    return lambda active: batch.wait(statement, active, _arrived(active, members))


@opcode(r"shfl\.sync\.(up|down|bfly|idx)\.b32", role="sync")
def _shuffle(batch, statement, mode):
    name, _, predicate = statement.operands[0].partition("|")
    target, inside_target = batch.target(name, "b32"), batch.target(predicate, "pred") if predicate else None
    source = batch.values(statement.operands[1], "b32")
    control = [batch.value(operand, "u32") for operand in statement.operands[2:]]
    lane, warp = batch.lane, np.arange(batch.lane.size) - batch.lane

    def end(active):
        distance, clamp, members = (x.astype(np.int64) for x in control)
        other, inside = _partner(mode, lane, distance & 31, clamp >> 8 & 31, clamp & 31)
        other = np.where(inside, other, lane)
        going = active & _arrived(active, members)
        if (going & ((members >> lane & members >> other & 1) == 0)).any():
            raise RuntimeError(f"`{statement.text}`: a lane that is not in the mask takes part")
        np.copyto(target, source[warp + other], where=going)
        if predicate:
            np.copyto(inside_target, inside, where=going)
        return batch.wait(statement, active, going)

    return end


def _partner(mode, lane, distance, segment, clamp):
    """The lane to read from, and whether it is within the segment: the formulas of the PTX manual."""
    last = lane & segment | clamp & ~segment
    if mode == "up":
        return lane - distance, lane - distance >= last
    other = {"down": lane + distance, "bfly": lane ^ distance, "idx": lane & segment | distance & ~segment}[mode]
    return other, other <= last


def _arrived(active, members):
    """The lanes for which all members (a bit mask) of their warp are active."""
    present = np.packbits(active.reshape(-1, WARP), axis=1, bitorder="little").view(np.uint32)
    return (members & ~np.repeat(present, WARP)) == 0
