"""Blocks stay on the workers of a Dask cluster. No other file knows Dask, but that the command line opens a client."""

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpuensemble._array.devices import on
from gpuensemble._array.messages import shown
from gpuensemble._tables.blocks import Block, Lasting, Table, add, hosted
from gpuensemble._tables.files import first_line


def large_graphs() -> contextlib.AbstractContextManager:
    """Return a context in which Dask does not warn of large tasks.

    Tables are sent as tasks on purpose, so that what is lost is redone."""
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"})


@contextlib.contextmanager
def told_of_loss() -> Iterator[None]:
    """Let it be one sentence if Dask loses its scheduler, or what it cannot make again; it lists all tasks for that."""
    from concurrent.futures import CancelledError

    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except (CancelledError, ClosedClientError, CommClosedError, KilledWorker) as error:
        found = f"{type(error).__name__}: {first_line(error).rstrip(':')}"
        raise ConnectionError(f"`client` must keep its scheduler, workers and data, got {found}.") from None


def is_dask(value: Any) -> bool:
    """Tell whether a value is a Dask array or DataFrame."""
    return type(value).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(value, "to_delayed")


def current_client(client: Any) -> Any:
    """Return the client that was given, else the current one of this process, else None."""
    if client is not None:
        if not (hasattr(client, "submit") and hasattr(client, "nthreads")):
            raise TypeError(
                f"`client` must be a dask.distributed.Client, got {shown(client)} of type {type(client).__name__}."
            )
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
    """Return the parts of a Dask array or DataFrame; each holds some of its rows."""
    if hasattr(collection, "rechunk"):
        if collection.ndim != 2:
            raise ValueError(f"`labels` must be a table of samples x partitions, got shape {collection.shape}.")
        return collection.rechunk({1: -1}).to_delayed().ravel().tolist()
    return collection.to_delayed()


class Cluster:
    """A `Cluster` has an object for each block on Dask's workers. All of them are tasks, so what is lost is redone."""

    TOGETHER = 8  # blocks of a worker whose sums one task adds up
    FAN_IN = 4  # sums of workers added up at a time

    def __init__(self, client: Any, futures: list):
        self.client, self.futures = client, futures
        self.sent: dict[int, Any] = {}

    @classmethod
    def loading(cls, client: Any, parts: list) -> "Cluster":
        """Make the objects: from functions of nothing, as many on each worker, or from parts of a collection."""
        with large_graphs(), told_of_loss():
            if hasattr(parts[0], "dask"):
                return cls(client, client.compute(parts))
            workers = [name for name, threads in client.nthreads().items() for _ in range(threads)]
            homes = [workers[i * len(workers) // len(parts)] for i in range(len(parts))]
            return cls(
                client,
                [client.submit(_call, part, **_at(home)) for part, home in zip(parts, homes, strict=True)],
            )

    def each(self, function: Callable, shared: tuple = (), own: Iterable[tuple] | None = None) -> list:
        """Give function(object, *own, *shared) of each object."""
        futures = self.submit(function, shared, own)
        with told_of_loss():
            return self.client.gather(futures)

    def submit(self, function: Callable, shared: tuple, own: Iterable[tuple] | None = None) -> list:
        """Begin function(object, *own, *shared) of each object, and return the futures."""
        own = [()] * len(self.futures) if own is None else own
        with large_graphs(), told_of_loss():
            sent = self._sent(shared)
            return [
                self.client.submit(_apply, function, one, more, *sent, **_at(home))
                for one, more, home in zip(self.futures, own, self._homes(), strict=True)
            ]

    def total(self, function: Callable, shared: tuple) -> Any:
        """Add up function(object, *shared): on each worker first, then between them."""
        with large_graphs(), told_of_loss():
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
        """Return the same cluster with some of the blocks."""
        return Cluster(self.client, [self.futures[i] for i in indices])

    def _sent(self, shared: tuple) -> list:
        """Return futures of what all blocks are given: it is sent to one worker, and passed on between them.

        What is `Lasting`, such as the tables of an iteration, is needed again in the next one, and sent once.
        """
        lasting = {value.identity: value for value in shared if isinstance(value, Lasting)}
        self.sent = {identity: future for identity, future in self.sent.items() if identity in lasting}
        for identity in lasting.keys() - self.sent.keys():
            self.sent[identity] = self.client.submit(_same, lasting[identity], pure=False)
        rest = tuple(None if isinstance(value, Lasting) else value for value in shared)
        kept = [self.sent[value.identity] if isinstance(value, Lasting) else None for value in shared]
        return [self.client.submit(_same, rest, pure=False), *kept]

    def _homes(self) -> list:
        """Return the worker that has each block, or None where none has it."""
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
    """The blocks of this table stay on the workers of a Dask cluster."""

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
        """Add up step(block, *shared) over the blocks, on the workers."""
        return self.cluster.total(_Step(step), shared)

    def each(self, step: Callable, *shared: Any) -> list:
        """Give step(block, *shared) of each block, in their order."""
        return self.cluster.each(_Step(step), shared)

    def in_turn(self, step: Callable, *shared: Any) -> Iterator:
        """Give step(block, *shared) of each block, in their order, one at a time in this process."""
        futures = self.cluster.submit(_Step(step), shared)
        while futures:
            with told_of_loss():
                found = futures.pop(0).result()
            yield found

    def of(self, step: Callable, calls: dict[int, tuple]) -> list:
        """Give step(block, *arguments) of some blocks, each with arguments of its own."""
        return self.cluster.some(calls).each(_Step(step), own=calls.values())

    def device_of_blocks(self) -> str:
        """Say where the first block is worked on, by its worker."""
        (found,) = self.of(_device, {0: ()})
        return found

    def forget(self, name: str) -> None:
        """Clear a field of the caches of the blocks on the workers."""
        self.each(_forget, name)

    def columns(self, step: Callable, shared: tuple, dtypes: tuple[str, ...]) -> tuple:
        """Give Dask arrays on the workers."""
        import dask.array

        futures = self.cluster.submit(_Step(step), shared)
        lengths = [last - first for first, last in itertools.pairwise(self.bounds)]
        found = []
        for i, dtype in enumerate(dtypes):
            parts = [self.cluster.client.submit(operator.getitem, future, i, pure=False) for future in futures]
            chunks = [dask.array.from_delayed(part, (n,), dtype) for part, n in zip(parts, lengths, strict=True)]
            found.append(dask.array.concatenate(chunks))
        return tuple(found)


@dataclass(frozen=True)
class _Step:
    """On a worker this takes a step on the device of the block; a tuple of arrays comes back on the host."""

    step: Callable

    def __call__(self, block: Block, *shared: Any) -> Any:
        with on(block.m.device):
            return hosted(self.step(block, *shared))


def _device(block: Block) -> str:
    return block.m.device


def _forget(block: Block, name: str) -> None:
    setattr(block.cache, name, None)


def _at(home: Any) -> dict[str, Any]:
    """Return the options that submit a task to a worker, or to any if that one is lost."""
    return {"pure": False} if home is None else {"pure": False, "workers": [home], "allow_other_workers": True}


def _call(function: Callable) -> Any:
    return function()


def _same(value: Any) -> Any:
    return value


def _apply(function: Callable, value: Any, own: tuple, rest: tuple, *kept: Any) -> Any:
    """Call the function with the shared arguments put together again: those that were kept, and the rest."""
    return function(value, *own, *(one if one is not None else two for one, two in zip(kept, rest, strict=True)))


def _total_of(function: Callable, n: int, *given: Any) -> Any:
    """Add up the function over the first n of the given values; the others are shared arguments."""
    return functools.reduce(add, (_apply(function, value, (), *given[n:]) for value in given[:n]))


def _add_all(*parts: Any) -> Any:
    return functools.reduce(add, parts)


def _in_lots(values: list, size: int) -> list[list]:
    return [values[i : i + size] for i in range(0, len(values), size)]
