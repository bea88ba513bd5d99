"""A table of labels is cut into blocks of rows: do this to each block, and add up what comes back.

A step is a function step(block, *shared) of a module; `shared` goes to every block. Where blocks are is not its affair:
in memory, on disk or on the workers of a Dask cluster. What a step returns adds up exactly (integers, or floats that
are whole multiples of one unit), so that neither the blocks nor the order they arrive in change a bit.

A block holds a `Membership` m of some rows of the table, or of merged rows. CONTRIBUTING.md defines the words.
"""

import abc
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuensemble._array.devices import ALL, Array, to_device, to_host
from gpuensemble._array.lanes import Once, lanes, mark
from gpuensemble._array.threads import ahead
from gpuensemble.membership import Membership

_IDENTITIES = itertools.count()


@dataclass(eq=False)
class Lasting:
    """Steps are given this again and again: a cluster sends it once, and caches know it by its identity."""

    identity: int = field(default_factory=_IDENTITIES.__next__, init=False)  # unlike any other of this process


_SHARED: weakref.WeakKeyDictionary[Lasting, dict[tuple[str, str], Once]] = weakref.WeakKeyDictionary()
_SHARING = threading.Lock()


def shared_on(device: str, lasting: Lasting, make: Callable[[], Any], part: str = "") -> Any:
    """Return what all blocks on a device share of a lasting object: made once for each device, while the object lives.

    The first block that asks for it calls `make`, with the device and its own stream current; streams of other blocks
    wait for that on the device. On the CPU it is made once, too. What comes back is read only, and must not refer to
    the object, which would keep it alive. `part` tells several things apart that are made of one object.
    """
    with _SHARING:
        once = _SHARED.setdefault(lasting, {}).setdefault((device, part), Once(device))
    return once(make)


@dataclass
class Cache:
    """A cache holds what steps remember of a block's rows: losing it at any time costs work, never an answer.

    Each field belongs to one module, which is the only one that reads, writes and clears it. A field holds a pair: the
    identity of what the value was made with, and the value.
    """

    degrees: tuple[int, Any] | None = None  # _kmeans.labels.costs: until what is known of rows is made of them
    rows: tuple[int, Any] | None = None  # _kmeans.labels.lloyd: what a method knows of each row
    slacks: tuple[int, Any] | None = None  # _kmeans.labels.lloyd: labels and slacks
    tallies: tuple[int, Any] | None = None  # _kmeans.labels.lloyd: what tables take off margins, by column
    distances: tuple[int, Any] | None = None  # _kmeans.labels.seeding: to the rows that were chosen so far
    shares: tuple[int, Any] | None = None  # _partition.bipartite: multiplicity over degree


@dataclass
class Block:
    """A `Block` holds some rows of a table, and what steps remember of them."""

    m: Membership
    first: int = 0  # the number of its first row in the table
    multiplicity: Array | None = None  # of the rows of m, integers; None: all 1
    group: Array | None = None  # of each row of the table: its row of m, where equal rows are merged; None: the same
    weight: Array | None = None  # of each row of the table, integers; None: all 1
    keeps: bool = True  # whether there is memory for what can be worked out again
    cache: Cache = field(default_factory=Cache)

    def __getstate__(self) -> dict:
        return self.__dict__ | {"cache": Cache()}

    def __sizeof__(self) -> int:
        return self.m.codes.nbytes  # so that a cluster knows what it would have to move

    @property
    def n_rows(self) -> int:
        """Return the number of rows of the table, merged or not."""
        return len(self.m.codes) if self.group is None else len(self.group)

    def of_table(self, of_m: Array) -> Array:
        """Spread what each row of m has over the rows of the table."""
        return of_m if self.group is None else of_m[self.group]

    def recalled(self, name: str, identity: int) -> Any:
        """Return the cached value if it was made with that identity, else None."""
        entry = getattr(self.cache, name)
        return entry[1] if entry is not None and entry[0] == identity else None

    def taken(self, name: str, identity: int) -> Any:
        """Return what `recalled` does, which is then no longer cached."""
        found = self.recalled(name, identity)
        setattr(self.cache, name, None)
        return found

    def kept(self, name: str, identity: int, make: Callable[[], Any]) -> Any:
        """Return the cached value, or what `make` makes, which is cached where there is memory for it."""
        found = self.recalled(name, identity)
        if found is None:
            found = make()
            if self.keeps:
                setattr(self.cache, name, (identity, found))
        return found


def add(one: Any, two: Any) -> Any:
    """Add numbers and arrays, tuples of them part by part; None stays None."""
    if isinstance(one, tuple):
        return tuple(None if a is None else a + b for a, b in zip(one, two, strict=True))
    return one + two


class Table(abc.ABC):
    """This is what tables of all kinds know of their labels in blocks, and how their rows are read."""

    device = "cpu"  # where what is not in blocks is worked out: the host, if blocks are in several places
    devices: tuple[str, ...] = ("cpu",)  # where this process works on blocks

    def __init__(self, bounds: list[int], widths: Any, complete: bool, categories: list | None, weight: Any = None):
        self.bounds, self.widths, self.complete, self.categories = bounds, widths, complete, categories
        self.weight = weight  # of each row, on the host; None: all 1
        self.n_rows, self.n_columns = bounds[-1], int(widths.sum())

    @abc.abstractmethod
    def in_turn(self, step: Callable, *shared: Any) -> Iterator:
        """Give step(block, *shared) of each block, in their order, as they are asked for."""

    @abc.abstractmethod
    def of(self, step: Callable, calls: dict[int, tuple]) -> list:
        """Give step(block, *arguments) of some blocks, each with arguments of its own."""

    @abc.abstractmethod
    def columns(self, step: Callable, shared: tuple, dtypes: tuple[str, ...]) -> tuple:
        """Give what the step finds for each row, as arrays with an entry for each row of the table, where they belong.

        That is the device of a table in memory, the host for one on disk, and Dask arrays on the workers of a cluster.
        """

    @abc.abstractmethod
    def forget(self, name: str) -> None:
        """Clear a field of the caches of all blocks."""

    def each(self, step: Callable, *shared: Any) -> list:
        """Give step(block, *shared) of each block, in their order."""
        return list(self.in_turn(step, *shared))

    def total(self, step: Callable, *shared: Any) -> Any:
        """Add up step(block, *shared) over the blocks."""
        return functools.reduce(add, self.in_turn(step, *shared))

    def take(self, rows: Any) -> Membership:
        """Read some rows of the table, ascending numbers on the host."""
        calls = {}
        for index, (first, last) in enumerate(itertools.pairwise(self.bounds)):
            inside = rows[(rows >= first) & (rows < last)] - first
            if len(inside):
                calls[index] = (inside,)
        codes = np.concatenate(self.of(_take, calls))
        return Membership.from_coded(codes, self.widths, self.complete, self.categories, self.device)

    def device_of_blocks(self) -> str:
        """Say where blocks are worked on."""
        return self.devices[0] if len(self.devices) == 1 else ALL


class InMemory(Table):
    """A table in memory is one block."""

    def __init__(self, block: Block):
        m = block.m
        weight = None if block.weight is None else to_host(block.weight)
        super().__init__([0, block.n_rows], m.widths, m.complete, m.categories, weight)
        self.block = block
        self.device, self.devices = m.device, (m.device,)

    def in_turn(self, step: Callable, *shared: Any) -> Iterator:
        """Give step(block, *shared) of the one block."""
        yield step(self.block, *shared)

    def of(self, step: Callable, calls: dict[int, tuple]) -> list:
        """Give step(block, *arguments) of the one block."""
        return [step(self.block, *arguments) for arguments in calls.values()]

    def columns(self, step: Callable, shared: tuple, dtypes: tuple[str, ...]) -> tuple:
        """Give arrays on the device of the codes."""
        found = step(self.block, *shared)
        return tuple(array.astype(dtype, copy=False) for array, dtype in zip(found, dtypes, strict=True))

    def forget(self, name: str) -> None:
        """Clear a field of the block's cache."""
        setattr(self.block.cache, name, None)

    def apart(self) -> "InMemory":
        """Return the same table for another thread: what steps remember from here on is its own."""
        return InMemory(replace(self.block, cache=replace(self.block.cache)))


def whole(m: Membership, multiplicity: Array | None = None) -> InMemory:
    """Make a table in memory, no rows of which are merged."""
    return InMemory(Block(m, multiplicity=multiplicity, weight=multiplicity))


class Streamed(Table):
    """This table reads blocks from a file of codes, some at a time: while one is worked on, the next is read.

    Blocks take turns on the lanes of the devices. A block always comes to the same lane, so that what its cache holds
    is used and freed on one stream.
    """

    def __init__(
        self,
        codes: Any,
        bounds: list[int],
        widths: Any,
        complete: bool,
        categories: list,
        weight: Any = None,
        devices: tuple[str, ...] = ("cpu",),
    ):
        super().__init__(bounds, widths, complete, categories, weight)
        self.codes, self.devices = codes, devices  # n x r on disk; where blocks go
        self.device = devices[0] if len(devices) == 1 else "cpu"
        self.lanes = lanes(*devices)
        self.caches = [Cache() for _ in bounds[1:]]
        self.columns_of = Lasting()  # what blocks share: the columns of their partitions

    def in_turn(self, step: Callable, *shared: Any) -> Iterator:
        """Give step(block, *shared) of each block, in their order; arrays come back on the host."""
        ready, width = mark(*self.devices), len(self.lanes)
        with ThreadPoolExecutor(width, thread_name_prefix="gpuensemble-block") as pool:  # they wait for kernels
            calls = ((self._one, step, shared, index, ready) for index in range(len(self.caches)))
            yield from ahead(pool.submit, calls, width)

    def of(self, step: Callable, calls: dict[int, tuple]) -> list:
        """Give step(block, *arguments) of some blocks, each with arguments of its own."""
        ready = mark(*self.devices)
        return [self._one(step, arguments, index, ready) for index, arguments in calls.items()]

    def columns(self, step: Callable, shared: tuple, dtypes: tuple[str, ...]) -> tuple:
        """Give arrays on the host."""
        return joined(self, self.in_turn(step, *shared), dtypes)

    def forget(self, name: str) -> None:
        """Clear a field of all caches; no block is read for it."""
        for cache in self.caches:
            setattr(cache, name, None)

    def take(self, rows: Any) -> Membership:
        """Read some rows of the table, ascending numbers, where they are on disk."""
        return self._coded(self.codes[rows], self.device)

    def _one(self, step: Callable, shared: tuple, index: int, ready: tuple) -> Any:
        first, last = self.bounds[index], self.bounds[index + 1]
        lane = self.lanes[index % len(self.lanes)]
        with lane.working(ready):
            codes = lane.load(self.codes[first:last])
            weight = None if self.weight is None else to_device(self.weight[first:last], lane.device)
            m = shared_on(lane.device, self.columns_of, lambda: self._coded(self.codes[:0], lane.device))
            m = m.filled(codes, self.complete)
            return hosted(step(Block(m, first, weight, weight=weight, keeps=False, cache=self.caches[index]), *shared))

    def _coded(self, codes: Any, device: str) -> Membership:
        codes = np.array(codes, order="C", subok=False)
        return Membership.from_coded(codes, self.widths, self.complete, self.categories, device)


def joined(table: Table, found: Iterator, dtypes: tuple[str, ...]) -> tuple:
    """Put together on the host what blocks found for each of their rows."""
    into = tuple(np.empty(table.n_rows, dtype) for dtype in dtypes)
    for first, parts in zip(table.bounds, found, strict=False):
        for array, part in zip(into, parts, strict=True):
            array[first : first + len(part)] = part
    return into


def hosted(found: Any) -> Any:
    """Bring what a step found to the host, where what comes from several places is put together."""
    return tuple(map(to_host, found)) if isinstance(found, tuple) else to_host(found)


def _take(block: Block, rows: Any) -> Any:
    """Return the codes of some rows of the table, on the host."""
    index = to_device(rows, block.m.device)
    return to_host(block.m.codes[index if block.group is None else block.group[index]])
