"""A table of labels in blocks of rows: do this to each block, and add up what comes back.

A step is a function step(block, *shared) of a module; `shared` goes to every block. Where blocks are is not its affair:
in memory, on disk or on the workers of a Dask cluster. What a step returns adds up exactly (integers, or floats that
are whole multiples of one unit), so that neither the blocks nor the order they arrive in change a bit.
"""

import abc
import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuensemble._array.devices import Array, on, to_device, to_host
from gpuensemble._array.threads import ahead
from gpuensemble.membership import Membership


@dataclass
class Block:
    """Some rows of a table. `memo` is what steps remember of them: a cache, which may be lost at any time."""

    m: Membership
    first: int = 0  # the number of its first row in the table
    multiplicity: Array | None = None  # of the rows of m, integers; None: all 1
    group: Array | None = None  # of each row of the table: its row of m, where equal rows are merged; None: the same
    weight: Array | None = None  # of each row of the table, integers; None: all 1
    keeps: bool = True  # whether there is memory for what can be worked out again
    memo: dict = field(default_factory=dict)

    def __getstate__(self) -> dict:
        return self.__dict__ | {"memo": {}}

    def __sizeof__(self) -> int:
        return self.m.codes.nbytes  # so that a cluster knows what it would have to move

    @property
    def n_rows(self) -> int:
        """Rows of the table, merged or not."""
        return len(self.m.codes) if self.group is None else len(self.group)

    def of_table(self, of_m: Array) -> Array:
        """What each row of m has, for each row of the table."""
        return of_m if self.group is None else of_m[self.group]

    def kept(self, name: Any, make: Callable[[], Any]) -> Any:
        """What `make` makes, from memory if it was kept."""
        if name not in self.memo:
            made = make()
            if not self.keeps:
                return made
            self.memo[name] = made
        return self.memo[name]


def add(one: Any, two: Any) -> Any:
    """Sums of numbers and arrays, part by part; None stays None."""
    if isinstance(one, tuple):
        return tuple(None if a is None else a + b for a, b in zip(one, two, strict=True))
    return one + two


class Table(abc.ABC):
    """What all tables in blocks know, and how their rows are read."""

    device = "cpu"  # where what is not in blocks is worked out

    def __init__(self, bounds: list[int], widths: Any, complete: bool, categories: list | None, weight: Any = None):
        self.bounds, self.widths, self.complete, self.categories = bounds, widths, complete, categories
        self.weight = weight  # of each row, on the host; None: all 1
        self.n_rows, self.n_columns = bounds[-1], int(widths.sum())

    @abc.abstractmethod
    def in_turn(self, step: Callable, *shared: Any) -> Iterator:
        """step(block, *shared) of each block, in their order, as they are asked for."""

    @abc.abstractmethod
    def of(self, step: Callable, calls: dict[int, tuple]) -> list:
        """step(block, *arguments) of some blocks, each with arguments of its own."""

    def each(self, step: Callable, *shared: Any) -> list:
        """step(block, *shared) of each block, in their order."""
        return list(self.in_turn(step, *shared))

    def total(self, step: Callable, *shared: Any) -> Any:
        """The sum of step(block, *shared) over the blocks."""
        return functools.reduce(add, self.in_turn(step, *shared))

    def take(self, rows: Any) -> Membership:
        """Some rows of the table, ascending numbers on the host."""
        calls = {}
        for index, (first, last) in enumerate(itertools.pairwise(self.bounds)):
            inside = rows[(rows >= first) & (rows < last)] - first
            if len(inside):
                calls[index] = (inside,)
        codes = np.concatenate(self.of(_take, calls))
        return Membership.from_coded(codes, self.widths, self.complete, self.categories, self.device)

    def device_of_blocks(self) -> str:
        """Where the first block is worked on."""
        (found,) = self.of(_device, {0: ()})
        return found


class InMemory(Table):
    """One block: the whole table."""

    def __init__(self, block: Block):
        m = block.m
        weight = None if block.weight is None else to_host(block.weight)
        super().__init__([0, block.n_rows], m.widths, m.complete, m.categories, weight)
        self.block = block
        self.device = m.device

    def in_turn(self, step: Callable, *shared: Any) -> Iterator:
        """Of the one block."""
        yield step(self.block, *shared)

    def of(self, step: Callable, calls: dict[int, tuple]) -> list:
        """Of the one block."""
        return [step(self.block, *arguments) for arguments in calls.values()]

    def columns(self, step: Callable, *shared: Any) -> tuple:
        """Arrays with an entry for each row of the table."""
        return step(self.block, *shared)


def whole(m: Membership, multiplicity: Array | None = None) -> InMemory:
    """A table in memory, no rows of which are merged."""
    return InMemory(Block(m, multiplicity=multiplicity, weight=multiplicity))


class Streamed(Table):
    """Blocks read from a file of codes, some at a time: while one is read, or waits for one thread, others go on."""

    ABREAST = 2  # blocks in work

    def __init__(
        self,
        codes: Any,
        bounds: list[int],
        widths: Any,
        complete: bool,
        categories: list,
        weight: Any = None,
        device: str = "cpu",
    ):
        super().__init__(bounds, widths, complete, categories, weight)
        self.codes, self.device = codes, device  # n x r on disk; where blocks go
        self.memos: list[dict] = [{} for _ in bounds[1:]]
        self.turn = threading.Lock()  # a device works on one block at a time, while the next one is read

    def in_turn(self, step: Callable, *shared: Any) -> Iterator:
        """step(block, *shared) of each block, in their order."""
        with ThreadPoolExecutor(self.ABREAST, thread_name_prefix="gpuensemble-block") as pool:  # they wait for kernels
            calls = ((self._one, step, shared, index) for index in range(len(self.memos)))
            yield from ahead(pool.submit, calls, self.ABREAST)

    def of(self, step: Callable, calls: dict[int, tuple]) -> list:
        """step(block, *arguments) of some blocks, each with arguments of its own."""
        return [self._one(step, arguments, index) for index, arguments in calls.items()]

    def _one(self, step: Callable, shared: tuple, index: int) -> Any:
        first, last = self.bounds[index], self.bounds[index + 1]
        codes = np.array(self.codes[first:last], order="C", subok=False)
        with contextlib.nullcontext() if self.device == "cpu" else self.turn, on(self.device):
            weight = None if self.weight is None else to_device(self.weight[first:last], self.device)
            m = Membership.from_coded(codes, self.widths, self.complete, self.categories, self.device)
            return step(Block(m, first, weight, weight=weight, keeps=False, memo=self.memos[index]), *shared)


def _take(block: Block, rows: Any) -> Any:
    """The codes of some rows, on the host."""
    index = to_device(rows, block.m.device)
    return to_host(block.m.codes[index if block.group is None else block.group[index]])


def _device(block: Block) -> str:
    return block.m.device
