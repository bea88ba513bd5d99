"""Arrays of n x n are worked on in blocks of rows, so that what is computed from them takes little memory."""

import functools
import operator
from collections.abc import Callable
from typing import Any

from gpuensemble._array.devices import Array, device_of
from gpuensemble._array.threads import over_spans, spans

BLOCK_NUMBERS = {"cpu": 1 << 16, "cuda": 1 << 26}  # of a block; on the CPU so many stay in the cache
PARTS = 8  # in which the pool's threads take blocks


def sum_over_blocks(x: Array, task: Callable[[slice], Any]) -> Any:
    """Return the sum of what a task returns for blocks of rows, in their order; on the CPU the pool does them."""
    blocks = row_blocks(x)
    found: list = [0] * len(blocks)

    def some(first: int, last: int) -> None:
        for block in range(first, last):
            found[block] = task(blocks[block])

    alone = device_of(x) != "cpu" or len(blocks) < PARTS
    over_spans(len(blocks), -(-len(blocks) // PARTS), some, alone)
    return functools.reduce(operator.add, found)


def row_blocks(x: Array) -> list[slice]:
    """Split the rows of a matrix so that what is computed from so many at a time takes little memory."""
    size = BLOCK_NUMBERS["cpu" if device_of(x) == "cpu" else "cuda"] // x.shape[1]
    return spans(len(x), max(1, size))
