"""Repeated assignment of rows to clusters, leaving out the rows that cannot have moved."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import Array, namespace, to_device
from gpuensemble.membership import Membership

SAFETY = 4.0  # rounding errors are taken to be this much larger than their bound
BINS = 64  # of the rows' weights


class Tables(NamedTuple):
    """The arguments of `Membership.assign`, on the host."""

    table: Any
    per_partition: Any  # r x K, or 1 x K: the sum over all partitions


class Rows(NamedTuple):
    """What a method knows of each row, on the device of the codes."""

    multiplicity: Array | None  # integers; None: all 1
    mass: Array | None  # integers that the statistics of a cluster add up; None: not needed
    weight: Array | None  # the factor of the per-partition costs; None: 1
    constant: Array  # what the costs leave out

    def take(self, index: Array) -> "Rows":
        """Of some rows."""
        return Rows(*(None if x is None else x[index] for x in self))


def evaluate(m: Membership, tables: Tables, weight: Array | None) -> tuple[Array, Array, Array]:
    """Labels, costs and the costs of the runners-up for tables on the host."""
    moved = (to_device(array, m.device) for array in tables)
    return m._kernels.assign(m, *moved, weight)


def by_partition(columns: Any, widths: Any, reduce: str = "add") -> Any:
    """Rows of a C x K array on the host added up, or their least or largest taken, within each partition: r x K."""
    return getattr(np, reduce).reduceat(columns, np.cumsum(widths) - widths, axis=0)


@dataclass
class Assignment:
    """Labels of the rows of a Membership for one set of tables after another.

    A row whose margin, the second least cost minus the least, is larger than what the changes of the tables since its
    last evaluation can have taken off it keeps its label. Rounding errors are taken off as well, so that the labels
    equal those of a full evaluation.
    """

    m: Membership
    rows: Rows
    labels: Array
    skip: bool
    share: float = 1.0  # of the rows that were evaluated in the last step
    slack: Any = None  # what is left of the margin of each row
    before: Tables | None = None

    def __post_init__(self) -> None:
        weight = self.rows.weight
        self.edges, self.bin = np.zeros(2), None
        if self.skip and weight is not None:
            low, high = float(weight.min()), float(weight.max())
            self.edges = np.concatenate([[low], np.geomspace(low, high, BINS + 1)[1:-1], [high]])
            inner = to_device(self.edges[1:-1].astype(weight.dtype), self.m.device)
            self.edges[1:-1] = self.edges[1:-1].astype(weight.dtype)
            self.bin = namespace(weight).searchsorted(inner, weight, side="right")

    def step(self, tables: Tables) -> Array:
        """The labels for new tables."""
        rows = None
        with np.errstate(invalid="ignore"):  # inf - inf: a NaN counts as too small a margin
            if self.skip and self.before is not None:
                self.slack = self.slack - self._drift(self.before, tables)
                rows = namespace(self.labels).nonzero(~(self.slack > self._rounding(tables)))[0]
            self.before = tables
            if rows is None or 2 * len(rows) > len(self.labels):
                return self._all(tables)
            return self._some(tables, rows)

    def _all(self, tables: Tables) -> Array:
        labels, cost, second = evaluate(self.m, tables, self.rows.weight)
        self.share = 1.0
        if self.skip:
            self.slack = second.astype("float64") - cost - self._rounding(tables)
        return labels

    def _some(self, tables: Tables, rows: Array) -> Array:
        self.share = len(rows) / len(self.labels)
        labels = self.labels.copy()
        if not len(rows):
            return labels
        weight = None if self.rows.weight is None else self.rows.weight[rows]
        labels[rows], cost, second = evaluate(self.m.take(rows), tables, weight)
        rounding = self._rounding(tables)
        rounding = rounding if isinstance(rounding, float) else rounding[rows]
        self.slack[rows] = second.astype("float64") - cost - rounding
        return labels

    def _drift(self, before: Tables, after: Tables) -> Array:
        """How much the margin of each row may have shrunk: a table of bins of weights x labels, looked up."""
        table = drift_bounds(before, after, self.m.widths, self.m.complete, self.edges)
        index = self.labels if self.bin is None else self.bin * table.shape[1] + self.labels
        return to_device(table.ravel(), self.m.device)[index]

    def _rounding(self, tables: Tables) -> Array | float:
        """A bound of the rounding error of a margin: a number, or one for each row."""
        size = np.abs(np.where(np.isinf(tables.table), 0, tables.table)).astype("float64")
        unit = SAFETY * (len(self.m.widths) + 4) * float(np.finfo(tables.table.dtype).eps)
        of_table = unit * float(by_partition(size, self.m.widths, "maximum").sum(0).max())
        of_parts = unit * float(np.abs(tables.per_partition.astype("float64")).sum(0).max())
        if self.rows.weight is None or of_parts == 0:
            return of_table
        return of_table + of_parts * self.rows.weight.astype("float64")


def drift_bounds(before: Tables, after: Tables, widths: Any, complete: bool, edges: Any) -> Any:
    """For each bin of weights and each label: how much the margin of a row may have shrunk from one table to the next.

    The cost of cluster k changes by the change of the table, somewhere between its least and largest entry in each
    partition, plus the weight times the change of the per-partition costs; with holes a partition may not count. The
    bounds are concave and convex in the weight, so that the ends of a bin bound what is between them.
    """
    change = after.table.astype("float64") - before.table
    change[np.isnan(change)] = 0  # infinite before and after
    low, high = (by_partition(change, widths, reduce) for reduce in ("minimum", "maximum"))
    of_parts = after.per_partition.astype("float64") - before.per_partition
    least = _at_ends(low, of_parts, None if complete else np.minimum, edges)
    largest = _at_ends(high, of_parts, None if complete else np.maximum, edges)
    least, largest = np.minimum(least[:-1], least[1:]), np.maximum(largest[:-1], largest[1:])
    others = _least_of_others(least)
    return largest - others + 1e-9 * (np.abs(largest) + np.abs(others))  # for the rounding of these very sums


def _at_ends(side: Any, of_parts: Any, limit: Any, edges: Any) -> Any:
    """A bound of the change of cost for weights at the edges, edges x K; with `limit` a partition may not count."""
    if limit is None:
        return side.sum(0) + edges[:, None] * of_parts.sum(0)
    return np.stack([limit(side + edge * of_parts, 0).sum(0) for edge in edges])


def _least_of_others(x: Any) -> Any:
    """The least entry of each row without the column itself."""
    if x.shape[1] == 1:
        return np.zeros_like(x)
    order = np.sort(x, axis=1)
    return np.where(x == order[:, :1], order[:, 1:2], order[:, :1])
