"""Rows that cannot have moved from one set of tables of costs to the next are left out.

A row whose margin, the second least cost minus the least, is larger than what the changes of the tables since its last
evaluation can have taken off it keeps its label. Rounding errors are taken off as well, so that the labels equal those
of a full evaluation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuensemble._array.devices import Array, device_of, namespace, to_device
from gpuensemble._kernels import kmeans
from gpuensemble._kmeans.labels.statistics import CostTables
from gpuensemble._tables.blocks import Lasting, shared_on

SAFETY = 4.0  # rounding errors are taken to be this much larger than their bound
BINS = 64  # of the rows' weights


@dataclass(eq=False)
class Drift(Lasting):
    """This bounds how much the margins of rows may have shrunk from one set of tables to the next."""

    bounds: kmeans.Drift

    def on(self, device: str) -> kmeans.Drift:
        """Return the bounds on a device; they are sent there once."""
        bounds = self.bounds
        return shared_on(device, self, lambda: kmeans.Drift(*(to_device(x, device) for x in bounds)))


class DriftBounds:
    """This bounds the drift from each set of tables to the next; without `skip` nothing is known of it."""

    def __init__(
        self, offsets: Any, complete: bool, weights: tuple[float, float] | None, dtype: str, skip: bool = True
    ):
        self.offsets, self.complete, self.skip = offsets, complete, skip
        low, high = weights or (1.0, 1.0)
        inner = low * (high / low) ** (np.arange(1, BINS) / BINS) if low < high else np.empty(0)
        self.edges: Any = np.concatenate([[low], inner.astype(dtype), [high]])
        self.before: CostTables | None = None

    def to(self, tables: CostTables) -> Drift:
        """Bound the drift to new tables."""
        device = device_of(tables.table)
        self.edges = to_device(self.edges, device)
        before = self.before if self.skip else None
        parts = (None if before is None else before.per_partition, tables.per_partition)
        table = None if before is None else before.table
        found = kmeans.drift(table, tables.table, parts, self.offsets, self.complete, self.edges, SAFETY)
        self.before = tables
        return Drift(kmeans.Drift(self.edges, *found))


def state_of(labels: Array) -> kmeans.State:
    """Return what is known of rows with these labels before they were ever evaluated."""
    xp, n = namespace(labels), len(labels)
    return kmeans.State(labels.astype("int32"), xp.zeros(n, "float32"), xp.full(n, kmeans.NEW, "uint8"))
