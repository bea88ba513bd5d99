"""Executes the PTX that NVRTC emits, over NumPy, and counts the memory traffic of each instruction.

A register is an array over lanes: the threads of several blocks at once, each block padded to whole warps. Threads that
branch apart run lowest program counter first, so they meet again where their paths join. opcodes.py has what can be
executed; anything else raises NotImplementedError. Not modelled: the payload of a NaN, and what a data race does.
"""

import re
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cudasim import nvrtc
from cudasim.opcodes import DTYPES, SHARED_WINDOW, WARP, lookup
from cudasim.traffic import Traffic

LANES = 4096  # that run at once, at most, unless one block has more
SHARED_BYTES = 48 << 10  # of a block, static and dynamic, unless a kernel asks for more
GARBAGE = 0xA5  # in every byte of fresh registers and shared memory
SHARED_ALIGNMENT = 16  # of dynamic shared memory and of the shared memory of a block
FIRST_ADDRESS, ALIGNMENT, GUARD = 0x7F0000000000, 512, 4096  # of array arguments; CuPy's allocator aligns to 512


class IllegalAddress(RuntimeError):
    """An access outside every buffer, or not aligned to its size."""


class PtxModule:
    """Stands in for cupy.RawModule. A kernel is compiled when it is asked for."""

    arch = "compute_80"

    def __init__(self, code, options=nvrtc.OPTIONS, name_expressions=()):
        self.code, self.options, self.name_expressions = code, tuple(options), tuple(name_expressions)

    def get_function(self, expression):
        """The kernel that a name expression stands for."""
        if expression not in self.name_expressions:
            raise KeyError(f"{expression!r} is not among the name expressions")
        compiled = nvrtc.compile(self.code, (expression,), self.arch, self.options)
        return PtxFunction(compiled.ptx, compiled.lowered[expression])


class PtxFunction:
    """A kernel to launch.

    `loads`, `stores` and `atomics` have the traffic of the last launch, an Access for each instruction and argument;
    `shared_accesses` that of shared memory.
    """

    batch: type  # what runs some blocks: Batch, or one that counts

    def __init__(self, ptx, name):
        text = re.sub(r"//.*", "", ptx)
        header = re.search(rf"\.entry\s+{re.escape(name)}\s*\((.*?)\)[^{{]*{{", text, re.DOTALL)
        body = text[header.end() : _closing_brace(text, header.end())]
        self.name = name
        self._tell(Traffic())
        self.parameters = _parameters(header[1])
        self.shared, self.static_bytes = _shared_layout(text, body)
        self.max_dynamic_shared_size_bytes = SHARED_BYTES - self.static_bytes
        self.registers, self.labels, self.statements = _parse(body)
        breaks = {s.at + 1 for s in self.statements if s.role} | {s.at for s in self.statements if s.role == "sync"}
        self.leaders = sorted({0, *self.labels.values(), *breaks} - {len(self.statements)})

    def __call__(self, grid, block, args, shared_mem=0):
        """Launches on NumPy arrays, in place of device memory, and NumPy scalars of the exact C types."""
        grid, block = ((*shape, 1, 1)[:3] for shape in (grid, block))
        if not (0 < prod(block) <= 1024 and min(grid) > 0 and max(grid[1:]) < 65536):
            raise ValueError(f"grid {grid} of blocks {block} is not a launch that CUDA takes")
        if shared_mem > self.max_dynamic_shared_size_bytes:
            raise ValueError(f"{shared_mem} bytes of dynamic shared memory are too many")
        memory, traffic = GlobalMemory(), Traffic()
        parameters = self._pack(args, memory)
        step = max(1, LANES // prod(block))
        with np.errstate(all="ignore"):
            for first in range(0, prod(grid), step):
                blocks = np.arange(first, min(first + step, prod(grid)))
                self.batch(self, grid, block, blocks, memory, parameters, shared_mem, traffic).run()
        self._tell(traffic)

    def _tell(self, traffic):
        self.loads, self.stores = list(traffic.loads.values()), list(traffic.stores.values())
        self.atomics, self.shared_accesses = list(traffic.atomics.values()), list(traffic.shared.values())

    def _pack(self, args, memory):
        """The bytes of each parameter, by name."""
        if len(args) != len(self.parameters):
            raise TypeError(f"{self.name} takes {len(self.parameters)} arguments, got {len(args)}")
        packed = {}
        for index, (arg, (name, size)) in enumerate(zip(args, self.parameters.items(), strict=True)):
            scalar = memory.add(index, arg) if isinstance(arg, np.ndarray) else arg
            if not isinstance(scalar, np.generic):
                raise TypeError(f"argument {index} must be a NumPy array or scalar, got {type(arg).__name__}")
            if scalar.nbytes != size:
                raise TypeError(f"argument {index} of {self.name} has {size} bytes, got {scalar.nbytes}")
            packed[name] = scalar.tobytes()
        return packed


class GlobalMemory:
    """The array arguments at virtual addresses far apart. The first entry is empty and stands for the null page."""

    def __init__(self):
        self.starts, self.ends, self.buffers, self.arguments = [0], [0], [None], [None]
        self.free = FIRST_ADDRESS

    def add(self, argument, array):
        """Maps an array and gives its address."""
        if not array.flags.c_contiguous:
            raise TypeError(f"argument {argument} is not C-contiguous")
        self.starts.append(self.free)
        self.ends.append(self.free + array.nbytes)
        self.buffers.append(array.reshape(-1).view(np.uint8))
        self.arguments.append(argument)
        self.free += _round_up(array.nbytes + GUARD, ALIGNMENT)
        return np.uint64(self.starts[-1])

    def places(self, lanes, addresses, width):
        """Yields (bytes, argument, lanes, offsets) for each buffer that the addresses fall in."""
        numbers = np.searchsorted(self.starts, addresses, side="right") - 1
        outside = (numbers < 0) | (addresses + width > np.take(self.ends, numbers))
        if outside.any():
            address, number = int(addresses[outside][0]), int(numbers[outside][0])
            near = f", {address - self.ends[number]} bytes past argument {self.arguments[number]}" if number > 0 else ""
            raise IllegalAddress(f"address {address:#x} is outside every argument{near}")
        for number in np.unique(numbers):
            here = numbers == number
            yield self.buffers[number], self.arguments[number], lanes[here], addresses[here] - self.starts[number]


class Batch:
    """Some blocks of a launch, executed together."""

    def __init__(self, function, grid, block, blocks, memory, parameters, dynamic_bytes, traffic):
        self.function, self.memory, self.parameters, self.traffic = function, memory, parameters, traffic
        padded = _round_up(prod(block), WARP)
        thread = np.tile(np.arange(padded), blocks.size)
        self.lane = thread % WARP
        self.block = np.repeat(np.arange(blocks.size), padded)
        self.alive = thread < prod(block)
        self.waiting, self.exited = {}, False
        self.shared_bytes = function.static_bytes + dynamic_bytes
        self.shared = np.full((blocks.size, _round_up(self.shared_bytes, SHARED_ALIGNMENT)), GARBAGE, np.uint8)
        self.registers = {"%laneid": self.lane.astype(np.uint32)}
        for name, shape, index in (("tid", block, thread), ("ctaid", grid, np.repeat(blocks, padded))):
            places = index % shape[0], index // shape[0] % shape[1], index // shape[0] // shape[1]
            for axis, size, place in zip("xyz", shape, places, strict=True):
                self.registers[f"%{name}.{axis}"] = place.astype(np.uint32)
                self.registers[f"%n{name}.{axis}"] = np.full(thread.size, size, np.uint32)
        for name, kind in function.registers.items():
            garbage = np.full(thread.size * DTYPES[kind].itemsize, GARBAGE, np.uint8)
            self.registers[name] = garbage > 0 if kind == "pred" else garbage.view(f"u{DTYPES[kind].itemsize}")
        self.code = self._decode()

    def _decode(self):
        """The straight-line stretches of the kernel: {start: (steps, end)}; end(active) gives [(next, lanes)]."""
        statements, leaders, code = self.function.statements, self.function.leaders, {}
        for start, following in zip(leaders, [*leaders[1:], len(statements)], strict=True):
            *stretch, last = statements[start:following]
            if last.role:
                end = last.decode(self, last, *last.groups)
            else:
                stretch, end = [*stretch, last], _fall_through(following)
            code[start] = [self._step(statement) for statement in stretch], end
        return code

    def _step(self, statement):
        step = statement.decode(self, statement, *statement.groups)
        return (lambda active: step(self.guarded(statement, active))) if statement.guard else step

    def run(self):
        """Runs all threads to their end, always those with the lowest program counter first."""
        ready = {0: self.alive}
        while ready or self.waiting:
            if not ready:
                ready = self._retry()
            at = min(ready)
            active = ready.pop(at)
            if at in self.waiting:
                active = active | self.waiting.pop(at)
            steps, end = self.code[at]
            for step in steps:
                step(active)
            for to, lanes in end(active):
                if lanes.any():
                    ready[to] = ready[to] | lanes if to in ready else lanes

    def _retry(self):
        """Lets waiting threads look again, which helps only if others have exited in the meantime."""
        if not self.exited:
            where = ", ".join(f"`{self.function.statements[at].text}`" for at in self.waiting)
            raise RuntimeError(f"deadlock: threads wait for others that never arrive, at {where}")
        waiting, self.waiting, self.exited = self.waiting, {}, False
        return waiting

    def wait(self, statement, active, going):
        """Lets some of the active lanes go on to the next instruction and holds the others back."""
        if (active & ~going).any():
            self.waiting[statement.at] = active & ~going
        return [(statement.at + 1, active & going)]

    def guarded(self, statement, active):
        """The active lanes whose predicate holds."""
        if not statement.guard:
            return active
        predicate = self.registers[statement.guard.lstrip("!")]
        return active & ~predicate if statement.guard[0] == "!" else active & predicate

    def value(self, operand, kind):
        """A source operand as an array, a scalar if it is a constant; of a wider register the low bits."""
        dtype = DTYPES[kind]
        if operand in self.registers:
            register = self.registers[operand]
            return register.view(dtype)[:: max(1, register.itemsize // dtype.itemsize)]
        bits = self.function.shared[operand] if operand in self.function.shared else _constant(operand)
        return np.array(bits & ((1 << (8 * dtype.itemsize)) - 1), f"u{dtype.itemsize}").view(dtype)

    def values(self, operand, kind):
        """A source operand as an array over the lanes in any case."""
        return np.broadcast_to(self.value(operand, kind), self.lane.shape)

    def target(self, operand, kind):
        """A destination register as an array; what is copied to a wider one is extended as `kind` demands."""
        if operand not in self.function.registers:
            raise NotImplementedError(f"destination {operand}")
        register = self.registers[operand]
        return register if kind == "pred" else register.view(f"{DTYPES[kind].kind}{register.itemsize}")

    def address(self, operand):
        """A function from lanes to the addresses `[register]`, `[register+constant]` or `[symbol+constant]`."""
        base, offset = re.fullmatch(r"\[([^+]+)(?:\+(-?\d+))?\]", operand).groups()
        start = self.values(base, f"u{8 * self.registers[base].itemsize}" if base in self.registers else "u64")
        return lambda lanes: start[lanes].astype(np.int64) + int(offset or 0)

    def places(self, statement, space, active, address, width):
        """Yields (bytes, argument or None, lanes, offsets) for each piece of memory that an access touches."""
        lanes = np.flatnonzero(active)
        addresses = address(lanes)
        if (addresses % width).any():
            raise IllegalAddress(f"`{statement.text}`: an address is not a multiple of {width}")
        if space is None:
            window = (addresses >= SHARED_WINDOW) & (addresses < SHARED_WINDOW + (1 << 32))
            addresses = np.where(window, addresses - SHARED_WINDOW, addresses)
        else:
            window = np.full(lanes.shape, space == ".shared")
        try:
            if window.any():
                yield self._shared_place(lanes[window], addresses[window], width)
            if not window.all():
                yield from self.memory.places(lanes[~window], addresses[~window], width)
        except IllegalAddress as error:
            raise IllegalAddress(f"`{statement.text}`: {error}") from None

    def _shared_place(self, lanes, offsets, width):
        if ((offsets < 0) | (offsets + width > self.shared_bytes)).any():
            raise IllegalAddress(f"outside the {self.shared_bytes} bytes of shared memory")
        return self.shared.reshape(-1), None, lanes, self.block[lanes] * self.shared.shape[1] + offsets


PtxFunction.batch = Batch


def _fall_through(following):
    return lambda active: [(following, active)]


class Statement(NamedTuple):
    """One instruction, with its decoder from opcodes.py and what the decoder's pattern captured."""

    at: int
    text: str
    guard: str  # "", "%p1" or "!%p1"
    decode: Any
    groups: tuple
    role: str
    operands: list


def _parse(body):
    """The registers {name: kind}, the labels {name: index} and the statements of a kernel."""
    registers, labels, statements = {}, {}, []
    for label, text in re.findall(r"\s*(?:[{}]|([$\w]+):|([^{};\s][^;]*);)", body):
        if label:
            labels[label] = len(statements)
        elif text.startswith(".reg"):
            kind, names = re.fullmatch(r"\.reg\s+\.(\w+)\s+(.*)", text).groups()
            for name in _declared(names):
                if DTYPES[registers.setdefault(name, kind)].itemsize != DTYPES[kind].itemsize:
                    raise NotImplementedError(f"{name} is declared with two sizes")
        elif text and not text.startswith((".shared", ".pragma")):
            statements.append(_statement(len(statements), " ".join(text.split())))
    return registers, labels, statements


def _statement(at, text):
    guard, opcode, operands = re.fullmatch(r"(?:@(\S+) )?(\S+) ?(.*)", text).groups(default="")
    found = lookup(opcode)
    if found is None or (guard and found[2] == "sync"):
        raise NotImplementedError(f"PTX instruction `{text}`")
    return Statement(at, text, guard, *found, re.findall(r"{[^}]*}|[^,\s{}]+", operands))


def _declared(names):
    """The names in `%a, %b` or in `%r<62>`."""
    for name in re.split(r"\s*,\s*", names):
        family = re.fullmatch(r"(.*)<(\d+)>", name)
        yield from (f"{family[1]}{i}" for i in range(int(family[2]))) if family else (name,)


def _constant(operand):
    """The bits of a literal."""
    if not re.fullmatch(r"-?\d+|0x[0-9A-Fa-f]+|0f[0-9A-Fa-f]{8}|0d[0-9A-Fa-f]{16}", operand):
        raise NotImplementedError(f"operand {operand}")
    return int(re.sub("^0[fd]", "0x", operand), 0)


def _parameters(declarations):
    """{name: bytes} of the `.param` declarations of a kernel."""
    pattern = r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)??\.align\s+\d+\s+)?(\w+)(?:\[(\d+)\])?"
    found = {name: DTYPES[kind].itemsize * int(count or 1) for kind, name, count in re.findall(pattern, declarations)}
    if len(found) != len(re.findall(r"\.param\b", declarations)):
        raise NotImplementedError(f"parameters {declarations}")
    return found


def _shared_layout(text, body):
    """The offsets of the shared variables that a kernel uses, and their size, after which the dynamic ones start."""
    offsets, dynamic, end = {}, [], 0
    declaration = r"\.shared\s+\.align\s+(\d+)\s+\.(\w+)\s+(\w+)(\[(\d*)\])?;"
    for align, kind, name, brackets, count in re.findall(declaration, text):
        if brackets == "[]":
            dynamic.append(name)
        elif name in body:
            offsets[name] = _round_up(end, int(align))
            end = offsets[name] + DTYPES[kind].itemsize * int(count or 1)
    end = _round_up(end, SHARED_ALIGNMENT) if dynamic else end
    return offsets | dict.fromkeys(dynamic, end), end


def _round_up(size, unit):
    return -(-size // unit) * unit


def _closing_brace(text, start):
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.start()
    raise ValueError("unbalanced braces in PTX")
