"""Work goes to a device along lanes: a lane is a stream, and page-locked memory through which blocks go up.

While one lane works, the next block goes up on another. Arrays of a lane are freed to its stream's part of CuPy's pool,
and taken from there in the order of the stream; so what outlives a block must come back to the same lane, or be free of
work on every other one.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpuensemble._array.devices import Array, on

ABREAST = 2  # lanes of a device: one works while the other loads


class Lane:
    """A lane takes one block at a time to a device, or to the CPU, where it only reads."""

    def __init__(self, device: str, number: int):
        self.device = device
        self.stream = None if device == "cpu" else _stream(device, number)
        self.turn = threading.Lock()  # one block at a time
        self.staging: Any = None  # bytes of page-locked memory

    @contextlib.contextmanager
    def working(self, ready: tuple = ()) -> Iterator[None]:
        """Make device and stream current, behind what was marked `ready`; what was begun inside is done at its end."""
        if self.stream is None:
            yield
            return
        with self.turn, on(self.device), self.stream:
            wait_for(ready)
            try:
                yield
            finally:
                self.stream.synchronize()  # arrays and staging memory are free for any stream

    def load(self, host: Any) -> Array:
        """Copy an array of the host, of a file perhaps, to the device; inside `working` the copy goes on meanwhile."""
        if self.stream is None:
            return np.array(host, order="C", subok=False)
        import cupy

        if self.staging is None or len(self.staging) < host.nbytes:
            self.staging = np.frombuffer(cupy.cuda.alloc_pinned_memory(max(1, host.nbytes)), "uint8")
        staged = self.staging[: host.nbytes].view(host.dtype).reshape(host.shape)
        staged[...] = host
        found = cupy.empty(host.shape, host.dtype)
        found.set(staged)
        return found


def lanes(*devices: str) -> list[Lane]:
    """Return lanes of devices, which take turns; staging memory is theirs, streams are those of all others' lanes."""
    return [Lane(device, number) for number in range(ABREAST) for device in devices]


def _stream(device: str, number: int) -> Any:
    import cupy

    return _streams(cupy, device, number)


@functools.cache
def _streams(cupy: Any, device: str, number: int) -> Any:
    """Make a stream once in a process: CuPy's pool keeps memory for each, which a new one could not use."""
    with on(device):
        return cupy.cuda.Stream(non_blocking=True)


def mark(*devices: str) -> tuple:
    """Mark what was begun on the current streams of devices, for `wait_for`; there is nothing to mark on the CPU."""
    marks = []
    for device in devices:
        if device != "cpu":
            import cupy

            with on(device):
                marks.append(cupy.cuda.get_current_stream().record())
    return tuple(marks)


def wait_for(ready: tuple) -> None:
    """Let the current stream wait until what was marked is done; the host does not wait."""
    for one in ready:
        import cupy

        cupy.cuda.get_current_stream().wait_event(one)


class Once:
    """The first who asks for this value makes it, on a device and his stream; the streams of others wait for it."""

    def __init__(self, device: str):
        self.device, self.lock = device, threading.Lock()
        self.found: tuple[Any, tuple] | None = None  # the value, and marks of when it is ready

    def __call__(self, make: Callable[[], Any]) -> Any:
        """Return the value, which `make` makes if nobody has asked for it before."""
        with self.lock, on(self.device):
            if self.found is None:
                value = make()
                self.found = value, mark(self.device)
            value, ready = self.found
            wait_for(ready)
            return value
