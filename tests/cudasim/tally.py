"""What a device would be asked to do is counted: launches, host reads, bytes over the bus, bytes of arrays, products.

`TALLY` counts from the beginning of the process; `counted()` gives what a block of code adds to it.
"""

import contextlib
import dataclasses
from typing import Any

import numpy as np

from cudasim import flops


@dataclasses.dataclass
class Tally:
    launches: int = 0  # of kernels, ours and the library's; a view, or memory that is not written, needs none
    kernels: int = 0  # those of them that are ours
    reads: int = 0  # times that the host waits for a number or an array
    up: int = 0  # bytes from the host
    down: int = 0  # bytes to the host
    touched: int = 0  # bytes of arrays that launches were given or gave, each once a launch
    multiplied: int = 0  # additions and products of matrix products
    dram: int = 0  # `touched`, and the bytes of memory that our kernels move, where their engine counts them
    cached: int = 0  # the same of the L2 cache, which is asked again for what memory gave once
    flops32: int = 0  # operations in float32: of kernels as counted, of the library as `flops` says
    flops64: int = 0

    def __sub__(self, other: "Tally") -> "Tally":
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Tally(*(a - b for a, b in pairs))

    def read(self, nbytes: int) -> None:
        """The host waits for so many bytes."""
        self.reads += 1
        self.down += nbytes

    def launch(self, result: Any, *given: Any, name: str = "") -> None:
        """A library's function made a result of what it was given; a result that is a view of that costs nothing."""
        results = [x for x in _flat((result,)) if isinstance(x, np.ndarray | np.generic)]
        arrays = [x for x in _flat(given) if isinstance(x, np.ndarray)]
        if results and all(any(np.may_share_memory(x, y) for y in arrays) for x in results):
            return
        self._library(name, arrays, results)

    def in_place(self, target: np.ndarray, *given: Any, name: str = "") -> None:
        """A launch wrote to an array, or to a part of it."""
        self._library(name, [x for x in _flat(given) if isinstance(x, np.ndarray)], [target])

    def product(self, left: Any, right: Any, result: Any) -> None:
        """A product of matrices has an addition and a product for each entry of its result and of the inner side."""
        self.multiplied += 2 * np.size(result) * np.shape(left)[-1]

    def kernel(self, traffic: Any) -> None:
        """A kernel of ours was launched; None: nobody counted what it moved."""
        self.kernels += 1
        self.launches += 1
        if traffic is not None:
            self.dram += traffic.dram
            self.cached += traffic.cached
            self.flops32 += traffic.flops32
            self.flops64 += traffic.flops64

    def _library(self, name: str, arrays: list, results: list) -> None:
        moved = sum(x.nbytes for x in (*results, *arrays))
        self.launches += 1
        self.touched += moved
        self.dram += moved
        self.cached += moved
        done, bits = flops.of(name, arrays, results)
        if bits == 32:
            self.flops32 += done
        else:
            self.flops64 += done


def _flat(values):
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


TALLY = Tally()


@contextlib.contextmanager
def counted():
    """Yields a tally that holds, once the block is left, what was counted inside of it."""
    before, found = dataclasses.replace(TALLY), Tally()
    try:
        yield found
    finally:
        found.__dict__.update((TALLY - before).__dict__)
