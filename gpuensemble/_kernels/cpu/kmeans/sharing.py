"""Threads of the CPU share work: each runs the same kernel, and takes the next span of rows until none is left.

A kernel is called once a thread, whatever the number of spans, and a thread that began late takes fewer of them.
"""

import math
from collections.abc import Callable
from concurrent.futures import wait

import numpy as np
from numba import types

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.tiles import LINE
from gpuensemble._kernels.cpu.vector import generator, intrinsic, typed


def together(kernel: Callable, shared: tuple, own: list[tuple]) -> None:
    """Call kernel(*shared, *own arguments, queue) in a thread for each, this one among them; they share the queue.

    All arguments are there before the first call: a thread that makes some waits for Python, and others for it.
    """
    queue = np.zeros(1, np.int64)
    others = [threads.pool().submit(kernel, *shared, *some, queue) for some in own[1:]]
    try:
        kernel(*shared, *own[0], queue)
    finally:
        wait(others)
    for other in others:
        other.result()


def n_threads(work: int, least: int) -> int:
    """Return how many threads are worth waking for so much work, of which a thread must have `least`."""
    return 1 if threads.inside() else max(1, min(threads.count(), work // least))


def apart(n_threads: int, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Make zeros for each thread, in int64, no two of which share a cache line: each would wait for the other's."""
    size, line = math.prod(shape), LINE // 8
    room = np.zeros((n_threads, size + 2 * line), np.int64)
    return [row[line : line + size].reshape(shape) for row in room]


@intrinsic
def next_span(typing, queue, size):
    """Take the next `size` rows for this thread: return the first of them."""

    def body(emit, queue, size):
        return emit.builder.atomic_rmw("add", queue.data, size, "monotonic")

    return typed(types.intp, queue, size), generator(body)
