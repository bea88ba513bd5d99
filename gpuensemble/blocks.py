"""A table of labels in blocks of rows: do this to each block, and add up what comes back.

A step is a function step(block, *shared) of a module; `shared` goes to every block. Where blocks are is not its affair:
in memory, on disk or on the workers of a Dask cluster. What a step returns adds up exactly (integers, or floats that
are whole multiples of one unit), so that neither the blocks nor the order they arrive in change a bit.
"""

import collections
import contextlib
import functools
import operator
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuensemble._array import Array, namespace, on, to_device, to_host
from gpuensemble.membership import Membership

LARGE_GRAPHS = {"distributed.admin.large-graph-warning-threshold": "1 TB"}  # tables are sent as tasks, on purpose


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


class Table:
    """What all tables in blocks know, and how their rows are read."""

    def __init__(self, bounds: list[int], widths: Any, complete: bool, categories: list | None, weight: Any = None):
        self.bounds, self.widths, self.complete, self.categories = bounds, widths, complete, categories
        self.weight = weight  # of each row, on the host; None: all 1
        self.n_rows, self.n_columns = bounds[-1], int(widths.sum())

    device = "cpu"  # where what is not in blocks is worked out

    def total(self, step: Callable, *shared: Any) -> Any:
        """The sum of step(block, *shared) over the blocks."""
        return functools.reduce(add, self.in_turn(step, *shared))

    def each(self, step: Callable, *shared: Any) -> list:
        """step(block, *shared) of each block, in their order."""
        return list(self.in_turn(step, *shared))

    def in_turn(self, step: Callable, *shared: Any) -> Iterator:
        """step(block, *shared) of each block, in their order, one at a time."""
        return self._run(step, shared, range(len(self.bounds) - 1))

    def of(self, step: Callable, calls: dict[int, tuple]) -> list:
        """step(block, *arguments) of some blocks, each with arguments of its own."""
        return [next(iter(self._run(step, arguments, [index]))) for index, arguments in calls.items()]

    def take(self, rows: Any) -> Membership:
        """Some rows of the table, ascending numbers on the host."""
        calls = {}
        for index, (first, last) in enumerate(zip(self.bounds, self.bounds[1:], strict=False)):
            inside = rows[(rows >= first) & (rows < last)] - first
            if len(inside):
                calls[index] = (inside,)
        parts = self.of(_take, calls)
        codes = namespace(parts[0]).concatenate(parts)
        return Membership.from_coded(codes, self.widths, self.complete, self.categories, self.device)

    def _run(self, step: Callable, shared: tuple, indices: Iterable[int]) -> Iterator:
        raise NotImplementedError


class InMemory(Table):
    """One block: the whole table."""

    def __init__(self, block: Block):
        m = block.m
        weight = None if block.weight is None else to_host(block.weight)
        super().__init__([0, block.n_rows], m.widths, m.complete, m.categories, weight)
        self.block = block
        self.device = m.device

    def _run(self, step: Callable, shared: tuple, indices: Iterable[int]) -> Iterator:
        for _ in indices:
            yield step(self.block, *shared)

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

    def _run(self, step: Callable, shared: tuple, indices: Iterable[int]) -> Iterator:
        with ThreadPoolExecutor(self.ABREAST, thread_name_prefix="gpuensemble-block") as pool:
            ahead: collections.deque = collections.deque()
            for index in indices:
                ahead.append(pool.submit(self._one, step, shared, index))
                if len(ahead) > self.ABREAST:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

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


def is_dask(value: Any) -> bool:
    """Whether it is a Dask array or DataFrame."""
    return type(value).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(value, "to_delayed")


def current_client(client: Any) -> Any:
    """The client that was given, else the current one of this process; None: there is none."""
    if client is not None:
        return client
    try:
        from distributed import get_client
    except ImportError:
        return None
    try:
        return get_client()
    except ValueError:
        return None


def delayed_parts(collection: Any) -> list:
    """The parts of a Dask array or DataFrame, rows of it each."""
    if hasattr(collection, "rechunk"):
        if collection.ndim != 2:
            raise ValueError(f"`labels` must be a table of samples x partitions, got shape {collection.shape}.")
        return collection.rechunk({1: -1}).to_delayed().ravel().tolist()
    return collection.to_delayed()


class Cluster:
    """One object for each block, on the workers of a Dask cluster. All of it are tasks, so what is lost is redone."""

    TOGETHER = 8  # blocks of a worker whose sums one task adds up
    FAN_IN = 4  # sums of workers added up at a time

    def __init__(self, client: Any, futures: list):
        self.client, self.futures = client, futures
        self.sent: dict[int, Any] = {}

    @classmethod
    def loading(cls, client: Any, parts: list) -> "Cluster":
        """From functions of nothing, as many on each worker, or parts of a collection, where they are."""
        import dask

        with dask.config.set(LARGE_GRAPHS):
            if hasattr(parts[0], "dask"):
                return cls(client, client.compute(parts))
            workers = [name for name, threads in client.nthreads().items() for _ in range(threads)]
            homes = [workers[i * len(workers) // len(parts)] for i in range(len(parts))]
            return cls(
                client,
                [client.submit(_call, part, **_at(home)) for part, home in zip(parts, homes, strict=True)],
            )

    def each(self, function: Callable, shared: tuple = (), own: Iterable[tuple] | None = None) -> list:
        """function(object, *own, *shared) of each."""
        return self.client.gather(self.submit(function, shared, own))

    def submit(self, function: Callable, shared: tuple, own: Iterable[tuple] | None = None) -> list:
        """Futures of function(object, *own, *shared)."""
        import dask

        own = [()] * len(self.futures) if own is None else own
        with dask.config.set(LARGE_GRAPHS):
            sent = self._sent(shared)
            return [
                self.client.submit(_apply, function, one, more, *sent, **_at(home))
                for one, more, home in zip(self.futures, own, self._homes(), strict=True)
            ]

    def total(self, function: Callable, shared: tuple) -> Any:
        """The sum of function(object, *shared): added up on each worker, then between them."""
        import dask

        with dask.config.set(LARGE_GRAPHS):
            sent = self._sent(shared)
            threads = self.client.nthreads()
            blocks: dict[Any, list] = {}
            for future, home in zip(self.futures, self._homes(), strict=True):
                blocks.setdefault(home, []).append(future)
            futures = [
                self._sum_of_worker(function, home, some, threads.get(home, 1), sent) for home, some in blocks.items()
            ]
            while len(futures) > 1:
                futures = [self.client.submit(_add_all, *some, pure=False) for some in _in_lots(futures, self.FAN_IN)]
        return futures[0].result()

    def some(self, indices: Iterable[int]) -> "Cluster":
        """Of some blocks."""
        return Cluster(self.client, [self.futures[i] for i in indices])

    def _sent(self, shared: tuple) -> list:
        """Futures of what all blocks are given: sent to one worker, and passed on between them.

        What has a number, such as the tables of an iteration, is needed again in the next one, and sent once.
        """
        numbered = [getattr(value, "number", None) for value in shared]
        rest = tuple(value if number is None else None for value, number in zip(shared, numbered, strict=True))
        self.sent = {number: future for number, future in self.sent.items() if number in numbered}
        for value, number in zip(shared, numbered, strict=True):
            if number is not None and number not in self.sent:
                self.sent[number] = self.client.submit(_same, value, pure=False)
        kept = [None if number is None else self.sent[number] for number in numbered]
        return [self.client.submit(_same, rest, pure=False), *kept]

    def _homes(self) -> list:
        """The worker that has each block; None: none."""
        from distributed import wait

        wait(self.futures)
        where = self.client.who_has(self.futures)
        return [min(where.get(future.key, ()), default=None) for future in self.futures]

    def _sum_of_worker(self, function: Callable, home: Any, blocks: list, threads: int, sent: list) -> Any:
        size = max(1, min(self.TOGETHER, len(blocks) // threads))
        parts = [
            self.client.submit(_total_of, function, len(some), *some, *sent, **_at(home))
            for some in _in_lots(blocks, size)
        ]
        return parts[0] if len(parts) == 1 else self.client.submit(_add_all, *parts, **_at(home))


class OnDask(Table):
    """Blocks that stay on the workers of a Dask cluster."""

    def __init__(
        self,
        cluster: Cluster,
        bounds: list[int],
        widths: Any,
        complete: bool,
        categories: list | None,
        weight: Any = None,
    ):
        super().__init__(bounds, widths, complete, categories, weight)
        self.cluster = cluster

    def total(self, step: Callable, *shared: Any) -> Any:
        """The sum of step(block, *shared) over the blocks."""
        return self.cluster.total(_Step(step), shared)

    def each(self, step: Callable, *shared: Any) -> list:
        """step(block, *shared) of each block, in their order."""
        return self.cluster.each(_Step(step), shared)

    def in_turn(self, step: Callable, *shared: Any) -> Iterator:
        """step(block, *shared) of each block, in their order, one at a time in this process."""
        futures = self.cluster.submit(_Step(step), shared)
        while futures:
            yield futures.pop(0).result()

    def of(self, step: Callable, calls: dict[int, tuple]) -> list:
        """step(block, *arguments) of some blocks, each with arguments of its own."""
        return self.cluster.some(calls).each(_Step(step), own=calls.values())

    def arrays(self, step: Callable, shared: tuple, dtypes: Iterable[str]) -> tuple:
        """What the step finds for each row, as Dask arrays on the workers."""
        import dask.array

        futures = self.cluster.submit(_Step(step), shared)
        lengths = [last - first for first, last in zip(self.bounds, self.bounds[1:], strict=False)]
        found = []
        for i, dtype in enumerate(dtypes):
            parts = [self.cluster.client.submit(operator.getitem, future, i, pure=False) for future in futures]
            chunks = [dask.array.from_delayed(part, (n,), dtype) for part, n in zip(parts, lengths, strict=True)]
            found.append(dask.array.concatenate(chunks))
        return tuple(found)


@dataclass(frozen=True)
class _Step:
    """A step on a worker: on the device of the block; arrays come back on the host."""

    step: Callable

    def __call__(self, block: Block, *shared: Any) -> Any:
        with on(block.m.device):
            found = self.step(block, *shared)
        return tuple(map(to_host, found)) if isinstance(found, tuple) else found


def _at(home: Any) -> dict[str, Any]:
    """How to submit a task to a worker, or to any if that one is lost."""
    return {"pure": False} if home is None else {"pure": False, "workers": [home], "allow_other_workers": True}


def _call(function: Callable) -> Any:
    return function()


def _same(value: Any) -> Any:
    return value


def _apply(function: Callable, value: Any, own: tuple, rest: tuple, *kept: Any) -> Any:
    """With the shared arguments put together again: those that were kept, and the rest."""
    return function(value, *own, *(one if one is not None else two for one, two in zip(kept, rest, strict=True)))


def _total_of(function: Callable, n: int, *given: Any) -> Any:
    """The sum over n objects."""
    return functools.reduce(add, (_apply(function, value, (), *given[n:]) for value in given[:n]))


def _add_all(*parts: Any) -> Any:
    return functools.reduce(add, parts)


def _in_lots(values: list, size: int) -> list[list]:
    return [values[i : i + size] for i in range(0, len(values), size)]
