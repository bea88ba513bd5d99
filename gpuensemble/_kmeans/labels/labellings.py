"""Labels are not kept: a labelling tells how those of any block are found; what a block remembers of them is a cache.

So a block that was lost is worked out again, and a run is saved as a few small tables.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from gpuensemble._array.devices import Array, device_of, namespace, to_device
from gpuensemble._kernels import kmeans
from gpuensemble._kmeans.labels.costs import Costs
from gpuensemble._kmeans.labels.statistics import CostTables, Rows, Statistics, evaluate
from gpuensemble._tables.blocks import Block, Lasting, shared_on
from gpuensemble.membership import Membership


class Labelling(Protocol):
    """A labelling tells how the labels of a block are found; it is `Lasting`."""

    identity: int

    def labels(self, block: Block, costs: Costs) -> Array:
        """Find the labels of the rows of block.m."""


@dataclass(eq=False)
class Given(Lasting):
    """This labelling takes labels as they are: one for each row of the table, where no rows are merged."""

    all: Array

    def labels(self, block: Block, costs: Costs) -> Array:
        """Return the labels of the rows of block.m."""
        return to_device(self.all[block.first : block.first + block.n_rows], block.m.device)


@dataclass(eq=False)
class ByCosts(Lasting):
    """This labelling takes the cheapest cluster by tables of costs, except for rows that fill a cluster left empty."""

    statistics: Statistics  # what the tables are made of
    tables: CostTables
    fillers: tuple = ()  # pairs: the codes of a row, and the cluster of all rows equal to it

    def __getstate__(self) -> dict:
        return self.__dict__ | {"statistics": None}  # workers need the tables only

    def on(self, device: str) -> CostTables:
        """Return the tables on a device; they are sent there once."""
        tables = self.tables
        return shared_on(device, self, lambda: tables.to(device))

    def prepared(self, m: Membership, costs: Costs) -> Any:
        """Return the tables as `relabel` takes them, made once for each device."""
        tables, weight = self.on(m.device), heaviest(costs)
        return shared_on(m.device, self, lambda: kmeans.prepared(*tables, m.offsets, m.complete, weight), "prepared")

    def labels(self, block: Block, costs: Costs) -> Array:
        """Find the labels of the rows of block.m."""
        found, *_ = evaluate(block.m, self.on(block.m.device), rows_of(block, costs).weight)
        for codes, k in self.fillers:
            found[equal_rows(block.m.codes, codes)] = k
        return found


@dataclass(eq=False)
class Renumbered(Lasting):
    """This labelling gives the clusters of another one new numbers, so that empty clusters have none."""

    labelling: Any
    number: Any  # of each cluster, on the host

    def labels(self, block: Block, costs: Costs) -> Array:
        """Return the labels of the rows of block.m."""
        return to_device(self.number, block.m.device)[self.labelling.labels(block, costs)]


def rows_of(block: Block, costs: Costs) -> Rows:
    """Return what the method knows of the block's rows; it is kept where there is memory."""
    return block.kept("rows", costs.identity, lambda: costs.rows_of_block(block))


def equal_rows(codes: Array, row: tuple[int, ...]) -> Array:
    """Tell which rows are equal to this one."""
    xp = namespace(codes)
    return (codes == to_device(xp.asarray(row).astype(codes.dtype), device_of(codes))).all(1)


def heaviest(costs: Costs) -> float:
    """Return the largest weight of a row."""
    return 1.0 if costs.weights is None else costs.weights[1]
