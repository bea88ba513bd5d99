"""Threads on the CPU: one pool, one way over spans of rows, one way to work ahead, and BLAS held to one thread.

The pool is for work that never waits for the pool itself: kernels without the GIL, whole k-means runs of features.
"""

import collections
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numba
from threadpoolctl import ThreadpoolController


def count() -> int:
    """How many threads to work with: NUMBA_NUM_THREADS, all cores by default."""
    return numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]


@functools.cache
def pool() -> ThreadPoolExecutor:
    """The one pool, of `count()` threads."""
    return ThreadPoolExecutor(count(), thread_name_prefix="gpuensemble")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)  # a child has none of its parent's threads


def spans(n: int, size: int) -> list[slice]:
    """0 .. n - 1 in spans of `size`, the last of which may be shorter."""
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def over_spans(n: int, size: int, task: Callable[[int, int], None], alone: bool) -> None:
    """task(first, last) over 0 .. n - 1: in spans of `size` by the pool; `alone`: in one, it is not worth a thread."""
    if alone or count() == 1:
        task(0, n)
        return
    list(pool().map(lambda span: task(span.start, span.stop), spans(n, size)))


def each(function: Callable, *arguments: Iterable) -> Iterator:
    """What `map` gives, worked out by the pool."""
    return ahead(pool().submit, ((function, *some) for some in zip(*arguments, strict=True)), None)


def ahead(submit: Callable, calls: Iterable[tuple], width: int | None) -> Iterator:
    """The results of calls (function, *arguments) in their order, `width` of them waiting at a time (None: all).

    `submit` begins a call and returns its future. If a call fails, those that wait are given up.
    """
    waiting: collections.deque = collections.deque()
    try:
        for call in calls:
            waiting.append(submit(*call))
            if width is not None and len(waiting) > width:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        wait([future for future in waiting if isinstance(future, Future)])


@functools.cache
def _libraries() -> ThreadpoolController:
    """What has threads of its own: finding it takes as long as a fit of little data."""
    import scipy.linalg  # noqa: F401  has a BLAS of its own, which must be there to be found

    return ThreadpoolController()


def one_blas_thread() -> Any:
    """A context in which BLAS has one thread: more would wait for each other, or change the last bits."""
    return _libraries().limit(limits=1, user_api="blas")
