"""Threads on the CPU have one pool, one way over spans of rows and one way to work ahead; BLAS is held to one thread.

The pool is for work that never waits for the pool itself: kernels without the GIL, whole k-means runs of features.

BLAS has one thread in every fit, whatever the size. Its own threads wait for each other by spinning: a product of
300 x 300 or a QR decomposition of 2000 x 100 takes ten times as long with two of them as with one if another process
wants a core, and the QR twice as long if none does (python bench/bench_threads.py pieces). What is large is shared out
to the pool instead, whose threads sleep while they wait (`_linear.dense.product`).
"""

import collections
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

NAME = "gpuensemble"  # of the pool's threads


def count() -> int:
    """Return how many threads to work with: NUMBA_NUM_THREADS, which is all cores by default."""
    return numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]


@functools.cache
def pool() -> ThreadPoolExecutor:
    """Return the one pool, which has `count()` threads."""
    return ThreadPoolExecutor(count(), thread_name_prefix=NAME)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)  # a child has none of its parent's threads


def inside() -> bool:
    """Tell whether this is one of the pool's threads."""
    return threading.current_thread().name.startswith(f"{NAME}_")


def spans(n: int, size: int) -> list[slice]:
    """Cut 0 .. n - 1 into spans of `size`, the last of which may be shorter."""
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def even_span(n: int, most: int) -> int:
    """Return the size of equal spans of at most `most`, as many for each thread."""
    return -(-n // (count() * -(-n // (count() * most))))


def over_spans(n: int, size: int, task: Callable[[int, int], None], alone: bool) -> None:
    """Call task(first, last) over 0 .. n - 1, in spans of `size`, here and in the pool; `alone` does it here, in one.

    Inside of the pool it is done here, too: the pool must not wait for itself.
    """
    if alone or count() == 1 or inside():
        task(0, n)
        return
    all_spans = spans(n, size)
    left = iter(all_spans)  # whoever is free takes the next one
    tasks = [task]  # it is taken away at the end: the pool keeps calls that were given up, and what they refer to

    def work() -> None:
        for span in left:
            tasks[0](span.start, span.stop)

    others = [pool().submit(work) for _ in range(min(count(), len(all_spans)) - 1)]
    try:
        work()
    finally:
        begun = [other for other in others if not other.cancel()]
        wait(begun)
        tasks.clear()
    for other in begun:
        other.result()


def shared(function: Callable, *arguments: Iterable) -> list:
    """Give a list of what `map` gives, worked out here and in the pool: a thread that only waits is in the way."""
    calls = list(zip(*arguments, strict=True))
    found: list = [None] * len(calls)

    def task(first: int, last: int) -> None:
        found[first:last] = [function(*some) for some in calls[first:last]]

    over_spans(len(calls), 1, task, alone=False)
    return found


def ahead(submit: Callable, calls: Iterable[tuple], width: int | None) -> Iterator:
    """Yield the results of calls (function, *arguments) in their order; `width` of them wait at a time (None: all).

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
    """Find the libraries that have threads of their own, once: it takes as long as a fit of little data."""
    import scipy.linalg  # noqa: F401  has a BLAS of its own, which must be there to be found

    return ThreadpoolController()


class _Limit:
    """This limit of BLAS is one for all threads of Python: it begins with the first of them, and ends with the last."""

    def __init__(self) -> None:
        self.lock, self.holders = threading.Lock(), 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.holders:
                self.limit = _libraries().limit(limits=1, user_api="blas")
            self.holders += 1

    def __exit__(self, *error: Any) -> None:
        with self.lock:
            self.holders -= 1
            if not self.holders:
                self.limit.restore_original_limits()


_limit = _Limit()


def one_blas_thread() -> AbstractContextManager:
    """Return a context in which BLAS has one thread: more would wait for each other, or change the last bits."""
    return _limit
