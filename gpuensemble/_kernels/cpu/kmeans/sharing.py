"""Threads of the CPU share work: each runs the same kernel, and takes the next span of it until none is left.

A kernel is called once a thread, whatever the number of spans, and a thread that began late takes fewer of them.

A kernel that has several jobs, one after another, has a leader. He opens a job, takes part in it, closes it, and waits
for those who are at it. The others wait for jobs, and one that comes late helps with what is open then: nobody waits
for a thread that has not begun. Who waits lets other threads run, and a helper who has waited long sleeps.
"""

import ctypes
import functools
import sys
import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import numpy as np
from llvmlite import binding
from numba import types
from numba.core import cgutils

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.compiling import inner
from gpuensemble._kernels.cpu.vector.emitter import generator, intrinsic, typed
from gpuensemble._kernels.cpu.vector.tiles import LINE

WORDS = LINE // 8  # of a cache line
QUEUE, PHASE, BUSY, JOB = (line * WORDS for line in range(4))  # of `control`, a line each
END = -1  # the phase in which all go home; another is odd while a job is open
LOOKS = 100  # at the control, before others may run
PATIENCE = 5000  # times that others may run, some milliseconds: then a helper sleeps
NAP = 0.0005  # seconds


def _let_others_run() -> Any:
    """Return the function of the system that does it."""
    return ctypes.CDLL("kernel32").SwitchToThread if sys.platform == "win32" else ctypes.CDLL(None).sched_yield


binding.add_symbol("gpuensemble_yield", ctypes.cast(_let_others_run(), ctypes.c_void_p).value)
let_others_run = types.ExternalFunction("gpuensemble_yield", types.intc())


def led(kernel: Callable, shared: tuple, own: list[tuple]) -> int:
    """Call kernel(*shared, *own arguments, control) in a thread for each, of which this one leads; return what it does.

    A helper's call returns whether it is to be made again; who has not begun when the leader is done is not waited for.
    All arguments are there before the first call: a thread that makes some waits for Python, and others for it.
    """
    control = np.zeros(4 * WORDS, np.int64)
    if len(own) == 1:
        return kernel(*shared, *own[0], control)
    # They are taken away at the end, for the reason that threads.over_spans has.
    calls = {number: (*shared, *some, control) for number, some in enumerate(own)}

    def help_(number):
        while kernel(*calls[number]):
            time.sleep(NAP)

    others = threads.help_wanted([functools.partial(help_, number) for number in range(1, len(own))])
    try:
        found = kernel(*calls[0])
    finally:
        control[PHASE] = END
        begun = [other for other in others if not other.cancel()]
        wait(begun)
        calls.clear()
    for other in begun:
        other.result()
    return found


def n_threads(work: int, least: int) -> int:
    """Return how many threads are worth waking for so much work, of which a thread must have `least`."""
    return 1 if threads.inside() else max(1, min(threads.count(), work // least))


def apart(n_threads: int, size: int, dtype: Any) -> np.ndarray:
    """Make a row of `size` zeros and more for each thread: two in one cache line would wait for each other's."""
    return np.zeros((n_threads, int(size) + LINE // np.dtype(dtype).itemsize), dtype)


@intrinsic
def borrowed(typing, arguments):
    """Return the same arrays and tuples of them, which no kernel counts references to: their owner outlives the call.

    Numba counts in each function that is called. Threads that share arrays would wait for each other's counts.
    """

    def generate(context, builder, signature, values):
        return _uncounted(context, builder, arguments, values[0])

    return arguments(arguments), generate


def _uncounted(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if issubclass(type(kind), types.BaseTuple):
        parts = [_uncounted(context, builder, part, builder.extract_value(value, i)) for i, part in enumerate(kind)]
        return context.make_tuple(builder, kind, parts)
    if not isinstance(kind, types.Array):
        return value
    array = cgutils.create_struct_proxy(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    return array._getvalue()


@intrinsic
def next_span(typing, control, size):
    """Take the next `size` rows for this thread: return the first of them."""

    def body(emit, control, size):
        return emit.builder.atomic_rmw("add", control.data, size, "monotonic")

    return typed(types.intp, control, size), generator(body)


@intrinsic
def _add(typing, control, place, amount):
    """Do control[place] += amount at once, as all threads see it."""

    def body(emit, control, place, amount):
        return emit.builder.atomic_rmw("add", emit.builder.gep(control.data, [place]), amount, "seq_cst")

    return typed(types.intp, control, place, amount), generator(body)


@intrinsic
def _look(typing, control, place):
    """Return control[place] as it is now."""

    def body(emit, control, place):
        return emit.builder.load_atomic(emit.builder.gep(control.data, [place]), "seq_cst", 8)

    return typed(types.intp, control, place), generator(body)


@inner
def open_job(control, job):
    """Let all threads work on a job, from its first span on."""
    control[JOB], control[QUEUE] = job, 0
    _add(control, PHASE, 1)


@inner
def close_job(control):
    """Let nobody begin with the job any more, and wait for those who have."""
    _add(control, PHASE, 1)
    looks = 0
    while _look(control, BUSY) > 0:
        looks += 1
        if looks % LOOKS == 0:
            let_others_run()


@inner
def join(control, seen):
    """Wait for a job after phase `seen`, and begin with it; return its phase, END, or 0 if that took too long."""
    looks = 0
    while looks < LOOKS * PATIENCE:
        phase = _look(control, PHASE)
        if phase == END:
            return phase
        if phase % 2 == 1 and phase != seen:
            _add(control, BUSY, 1)
            if _look(control, PHASE) == phase:
                return phase
            _add(control, BUSY, -1)  # it was closed meanwhile
        looks += 1
        if looks % LOOKS == 0:
            let_others_run()
    return 0


@inner
def leave(control):
    """End this thread's part in the job that it joined."""
    _add(control, BUSY, -1)
