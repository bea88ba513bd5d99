"""Threads on the CPU have one pool, one way over spans of rows and one way to work ahead; BLAS is held to one thread.

The pool is for work that never waits for the pool itself: kernels without the GIL, whole k-means runs of features.

BLAS has one thread in every fit, whatever the size. Its own threads wait for each other by spinning: a product of
300 x 300 or a QR decomposition of 2000 x 100 takes ten times as long with two of them as with one if another process
wants a core, and the QR twice as long if none does (python bench/bench_threads.py pieces). What is large is shared out
to the pool instead, whose threads sleep while they wait (`_linear.dense.product`).

Whoever shares out one pass asks for help (`help_wanted`), which comes while there is a core for it. Whole runs wait for
nobody, and go to the pool in any case: beside busy processes they have their part of the cores, too.
"""

import collections
import functools
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

from gpuensemble._array import cores

NAME = "gpuensemble"  # of the pool's threads
LOST = 1.5e-3  # seconds without a core that make a helper rest: half of what a busy process takes at a time
SHORTEST, LONGEST = 0.01, 0.64  # seconds of a rest


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


class _Rests:
    """Helpers who lost their core rest: for so long as many fewer are asked for.

    Threads that share a pass meet at its end, and wait there for one that takes turns with another process on its core,
    as long as the other's turn lasts. Beside a busy process fits were slower with two threads than with one.
    """

    def __init__(self) -> None:
        self.lock, self.ends = threading.Lock(), [-math.inf]
        self.length, self.worked = SHORTEST, math.inf  # seconds of a rest, and of a helper's work after it

    def left_of(self, number: int) -> int:
        """Return how many of so many helpers are not at rest."""
        now = time.monotonic()
        with self.lock:
            return max(0, number - sum(end > now for end in self.ends))

    def note(self, worked: float, lost: float) -> None:
        """Note how long a helper worked, and was without a core in it: then one rests.

        Where nobody else runs, the system put a helper on a core with another of our threads: it will move one of them.
        A rest is twice as long as the one before it, if after that helpers worked for less time than they had rested.
        """
        now = time.monotonic()
        with self.lock:
            if lost <= LOST or not cores.crowded(count()):
                self.worked += worked / (count() - 1)
                return
            if now > self.ends[-1]:
                self.length = min(2 * self.length, LONGEST) if self.worked < self.length else SHORTEST
                self.worked = 0.0
            self.ends = [*(end for end in self.ends if end > now), now + self.length]


_rests = _Rests()


def at_hand() -> int:
    """Return how many threads to share one pass with, this one included: those that rest are left out."""
    return 1 + _rests.left_of(count() - 1)


def help_wanted(tasks: list[Callable[[], None]]) -> list[Future]:
    """Begin tasks in the pool that have a part in one pass, as many as there are cores for as far as is known.

    A task that is not begun leaves its part to others.
    """
    here = cores.current()
    return [pool().submit(_help, task, here) for task in tasks[: _rests.left_of(len(tasks))]]


def _help(task: Callable[[], None], core: int) -> None:
    """Call the task on another core than that of the thread that asked for help."""
    cores.move_off(core)
    waited, begun = cores.waited(), time.monotonic()
    task()
    _rests.note(time.monotonic() - begun, cores.waited() - waited)


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

    others = help_wanted([work] * (min(count(), len(all_spans)) - 1))
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
