"""A table in memory is spread over several devices of one process: a block on each, at the same time."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gpuensemble._array.devices import on, to_device
from gpuensemble._array.threads import ahead
from gpuensemble._tables.blocks import Block, Table, hosted, joined
from gpuensemble.membership import Membership


class Spread(Table):
    """Each device holds one block of this table, with its cache; what comes from all of them goes over the host."""

    def __init__(self, m: Membership, devices: list[str], weight: Any = None):
        bounds = sorted({len(m.codes) * i // len(devices) for i in range(len(devices) + 1)})
        super().__init__(bounds, m.widths, m.complete, m.categories, weight)
        self.devices = tuple(devices[: len(bounds) - 1])
        self.blocks = [self._placed(m, index) for index in range(len(self.devices))]

    def _placed(self, m: Membership, index: int) -> Block:
        rows, device = slice(self.bounds[index], self.bounds[index + 1]), self.devices[index]
        some = Membership.from_coded(m.codes[rows], m.widths, m.complete, m.categories, device)
        weight = None if self.weight is None else to_device(self.weight[rows], device)
        return Block(some, rows.start, weight, weight=weight)

    def in_turn(self, step: Callable, *shared: Any) -> Iterator:
        """Give step(block, *shared) of each block, in their order; the devices work at the same time."""
        with ThreadPoolExecutor(len(self.blocks), thread_name_prefix="gpuensemble-block") as pool:
            yield from ahead(pool.submit, ((_one, step, block, shared) for block in self.blocks), None)

    def of(self, step: Callable, calls: dict[int, tuple]) -> list:
        """Give step(block, *arguments) of some blocks, each with arguments of its own."""
        return [_one(step, self.blocks[index], arguments) for index, arguments in calls.items()]

    def columns(self, step: Callable, shared: tuple, dtypes: tuple[str, ...]) -> tuple:
        """Give arrays on the host."""
        return joined(self, self.in_turn(step, *shared), dtypes)

    def forget(self, name: str) -> None:
        """Clear a field of the blocks' caches."""
        for block in self.blocks:
            setattr(block.cache, name, None)


def _one(step: Callable, block: Block, shared: tuple) -> Any:
    with on(block.m.device):
        return hosted(step(block, *shared))
