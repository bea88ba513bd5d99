"""What a kernel moves and computes: its PTX is interpreted once for each shape of launch, and counted.

`CountedModule` stands in for cupy.RawModule. g++'s build of the kernel gives the result, which is quick; a launch with
sizes that were not seen before is first interpreted on copies of its arguments. LAUNCHES has every launch since the
process began, so that a caller can tell what is due to which kernel.
"""

import re
from dataclasses import dataclass

import numpy as np

from cudasim.ptx import Batch, PtxModule
from cudasim.shim import ShimModule
from cudasim.traffic import SECTOR, WARP

OPERATION = re.compile(r"(?:@\S+ )?(add|sub|mul|div|fma|mad|sqrt|rsqrt|rcp)\.(?:\w+\.)*f(32|64) ")
LAUNCHES = []  # (name of a kernel, its Traffic)


@dataclass
class Traffic:
    """What one launch asks of the device; sectors have 32 bytes."""

    sectors: int = 0  # that warps ask for, each once an instruction: the L2 cache serves them, if L1 does not
    read: int = 0  # different ones among those that are read
    written: int = 0  # different ones among those that are written
    flops32: int = 0
    flops64: int = 0

    @property
    def dram(self):
        """Bytes from and to memory, if the L2 cache holds what a launch asks for again."""
        return SECTOR * (self.read + self.written)

    @property
    def cached(self):
        """Bytes from and to the L2 cache."""
        return SECTOR * self.sectors


class CountedModule:
    """Stands in for cupy.RawModule."""

    def __init__(self, code, options=(), name_expressions=()):
        self.given = {"code": code, "options": options, "name_expressions": name_expressions}

    def get_function(self, expression):
        """The kernel of that name."""
        return CountedKernel(self.given, expression)


class CountedKernel:
    """A kernel whose `traffic` is that of its last launch."""

    def __init__(self, given, expression):
        self.expression = expression
        self.quick = ShimModule(**given).get_function(expression)
        self.module, self.known, self.traffic = PtxModule(**given), {}, None
        plain = self.module.get_function(expression)
        self.static_bytes, self.max_dynamic_shared_size_bytes = plain.static_bytes, plain.max_dynamic_shared_size_bytes

    def __call__(self, grid, block, args, *, shared_mem=0):
        """Runs the kernel, and says in `traffic` what it moved."""
        key = (grid, block, shared_mem, *map(_size, args))
        if key not in self.known:
            self.known[key] = self._counted(grid, block, args, shared_mem)
        self.traffic = self.known[key]
        LAUNCHES.append((self.expression.split("<")[0], self.traffic))
        self.quick.max_dynamic_shared_size_bytes = self.max_dynamic_shared_size_bytes
        self.quick(grid, block, args, shared_mem=shared_mem)

    def _counted(self, grid, block, args, shared_mem):
        plain = self.module.get_function(self.expression)  # its own: several threads may count at the same time
        plain.max_dynamic_shared_size_bytes = self.max_dynamic_shared_size_bytes
        copies = [np.array(x) if isinstance(x, np.ndarray) else x for x in args]
        plain.batch, plain.seen = _Counting, _Seen(copies)
        plain(grid, block, copies, shared_mem=shared_mem)
        return plain.seen.traffic()


def _size(value):
    """What the work of a launch depends on: shapes and integers, not what is in them."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str
    return int(value) if isinstance(value, np.integer | np.bool_) else None


class _Seen:
    """What the batches of a launch have done so far."""

    def __init__(self, args):
        self.found = Traffic()
        sectors = {i: x.nbytes // SECTOR + 1 for i, x in enumerate(args) if isinstance(x, np.ndarray)}
        self.marks = {(i, kind): np.zeros(n, bool) for i, n in sectors.items() for kind in ("read", "written")}

    def access(self, argument, warps, offsets, width, kinds):
        """An instruction accessed `width` bytes at each offset."""
        first, last = offsets // SECTOR, (offsets + width - 1) // SECTOR
        keys = np.concatenate([(warps << 40) | first, (warps << 40) | last])
        self.found.sectors += np.unique(keys).size
        for kind in kinds:
            self.marks[argument, kind][first] = True
            self.marks[argument, kind][last] = True

    def traffic(self):
        """All of it, now that it is known which sectors are different."""
        for (_, kind), marked in self.marks.items():
            setattr(self.found, kind, getattr(self.found, kind) + int(marked.sum()))
        return self.found


class _Counting(Batch):
    """Some blocks of a launch, whose accesses and floating point operations are counted."""

    def _step(self, statement):
        step, operation = super()._step(statement), OPERATION.match(statement.text)
        if operation is None:
            return step
        name, field = operation[1], f"flops{operation[2]}"
        each, found = 2 if name in ("fma", "mad") else 1, self.function.seen.found

        def counted(active):
            done = int(self.guarded(statement, active).sum())
            setattr(found, field, getattr(found, field) + each * done)
            step(active)

        return counted

    def places(self, statement, space, active, address, width):
        opcode = statement.text.split(" ", 1)[-1] if statement.guard else statement.text
        kinds = {"ld": ("read",), "st": ("written",)}.get(opcode.split(".")[0], ("read", "written"))
        for memory, argument, lanes, offsets in super().places(statement, space, active, address, width):
            if argument is not None:
                self.function.seen.access(argument, lanes // WARP, offsets, width, kinds)
            yield memory, argument, lanes, offsets
