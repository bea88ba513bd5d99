"""Threads of the CPU share work: each runs the same kernel, and takes the next span of rows until none is left.

A kernel is called once a thread, whatever the number of spans, and a thread that began late takes fewer of them.
"""

from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import numpy as np
from numba import types

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.vector import generator, intrinsic, typed


def together(task: Callable[[Any, int], None], n_tasks: int) -> None:
    """Call task(queue, number) in so many threads at once, this one among them; `queue` is what they share."""
    queue = np.zeros(1, np.int64)
    others = [threads.pool().submit(task, queue, number) for number in range(1, n_tasks)]
    try:
        task(queue, 0)
    finally:
        wait(others)
    for other in others:
        other.result()


def n_threads(work: int, least: int) -> int:
    """Return how many threads are worth waking for so much work, of which a thread must have `least`."""
    return 1 if threads.inside() else max(1, min(threads.count(), work // least))


@intrinsic
def next_span(typing, queue, size):
    """Take the next `size` rows for this thread: return the first of them."""

    def body(emit, queue, size):
        return emit.builder.atomic_rmw("add", queue.data, size, "monotonic")

    return typed(types.intp, queue, size), generator(body)
