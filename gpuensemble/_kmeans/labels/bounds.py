"""Rows are assigned to clusters for one set of tables after another; rows that cannot have moved are left out."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.devices import Array, device_of, namespace, to_device
from gpuensemble._kmeans.labels.statistics import CostTables, by_partition, evaluate
from gpuensemble.membership import Membership

SAFETY = 4.0  # rounding errors are taken to be this much larger than their bound
BINS = 64  # of the rows' weights
SHRINK = 1 - 2.0**-21  # of a slack kept in float32, at each change of it: more than it is rounded by
LARGEST = 3e38  # a slack that float32 holds


class Drift(NamedTuple):
    """This tells how much the margin of a row may have shrunk from one set of tables to the next; it is on the host."""

    edges: Any  # of the bins of weights
    rounding: Any  # of each bin: a bound of the rounding error of a margin
    most: Any  # bins x K; None: not known, every row is to be evaluated


@dataclass
class DriftBounds:
    """This bounds the drift from each set of tables to the next.

    A row whose margin, the second least cost minus the least, is larger than what the changes of the tables since its
    last evaluation can have taken off it keeps its label. Rounding errors are taken off as well, so that the labels
    equal those of a full evaluation.
    """

    widths: Any
    complete: bool
    weights: tuple[float, float] | None  # the least and the largest of a row; None: all 1
    dtype: str
    before: CostTables | None = None

    def __post_init__(self) -> None:
        low, high = self.weights or (1.0, 1.0)
        inner = np.geomspace(low, high, BINS + 1)[1:-1] if low < high else np.empty(0)
        self.edges = np.concatenate([[low], inner.astype(self.dtype), [high]])

    def to(self, tables: CostTables) -> Drift:
        """Bound the drift to new tables."""
        most = None
        with np.errstate(invalid="ignore"):  # inf - inf: a NaN counts as too small a margin
            if self.before is not None:
                most = drift_bounds(self.before, tables, self.widths, self.complete, self.edges)
        self.before = tables
        return Drift(self.edges, self._rounding(tables), most)

    def _rounding(self, tables: CostTables) -> Any:
        size = np.abs(tables.table)
        size[np.isinf(size)] = 0
        unit = SAFETY * (len(self.widths) + 4) * float(np.finfo(tables.table.dtype).eps)
        of_table = unit * float(by_partition(size, self.widths, "maximum").astype("float64").sum(0).max())
        of_parts = unit * float(np.abs(tables.per_partition.astype("float64")).sum(0).max())
        return of_table + of_parts * self.edges[1:]


@dataclass
class Slacks:
    """This cache remembers the labels of a block's rows and their slack: what is left of their margins."""

    labels: Array
    slack: Any = None  # float32; None: not known
    bin: Array | None = None  # of each row's weight; None: there is one bin

    def to(self, tables: CostTables, drift: Drift | None, m: Membership, rows_of: Any) -> int:
        """Find the labels for new tables, and return how many rows were evaluated.

        `rows_of(index)` gives the `Rows` of some rows, or of all for None.
        """
        some = None if drift is None else self._unsure(drift, m.device)
        if drift is None or some is None:
            weight = rows_of(None).weight
            self.labels, cost, second = evaluate(m, tables, weight)
            if drift is not None:
                self._put_in_bins(drift.edges, weight)
                self.slack = _slack(cost, second, drift.rounding, self.bin)
            return len(self.labels)
        if len(some):
            self.labels = self.labels.copy()  # the caller compares with the ones before
            found = evaluate(m.take(some), tables, rows_of(some).weight)
            self.labels[some] = found[0]
            self.slack[some] = _slack(*found[1:], drift.rounding, None if self.bin is None else self.bin[some])
        return len(some)

    def _unsure(self, drift: Drift, device: str) -> Array | None:
        """Return the rows that may have moved; None stands for many of them, or for not known."""
        if self.slack is None or drift.most is None:
            return None
        xp = namespace(self.labels)
        n_clusters = drift.most.shape[1]
        index = self.labels if self.bin is None else self.bin.astype("int32") * n_clusters + self.labels
        taken = np.nextafter(drift.most.astype("float32"), np.float32(np.inf))
        with np.errstate(invalid="ignore"):
            self.slack = (self.slack - to_device(taken.ravel(), device)[index]) * SHRINK
            enough = self.slack > _looked_up(drift.rounding, self.bin)
        some = xp.nonzero(~enough)[0]
        return None if 2 * len(some) > len(self.labels) else some

    def _put_in_bins(self, edges: Any, weight: Array | None) -> None:
        if self.bin is None and weight is not None and len(edges) > 2:
            inner = to_device(edges[1:-1].astype(weight.dtype), device_of(weight))
            self.bin = namespace(weight).searchsorted(inner, weight, side="right").astype("uint8")


def _slack(cost: Array, second: Array, rounding: Any, bins: Array | None) -> Array:
    with np.errstate(invalid="ignore"):
        margin = second.astype("float64") - cost - _looked_up(rounding, bins)
        return namespace(margin).minimum(margin * SHRINK, LARGEST).astype("float32")


def _looked_up(of_bins: Any, bins: Array | None) -> Any:
    """Give each row the value of its bin; where there is one bin, return its value as a number."""
    return float(of_bins[0]) if bins is None else to_device(of_bins, device_of(bins))[bins]


def drift_bounds(before: CostTables, after: CostTables, widths: Any, complete: bool, edges: Any) -> Any:
    """Bound how much the margin of a row may have shrunk from one table to the next, by bin of weights and by label.

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
    """Bound the change of cost for weights at the edges, edges x K; with `limit` a partition may not count."""
    if limit is None:
        return side.sum(0) + edges[:, None] * of_parts.sum(0)
    return np.stack([limit(side + edge * of_parts, 0).sum(0) for edge in edges])


def _least_of_others(x: Any) -> Any:
    """Return the least entry of each row without the column itself."""
    if x.shape[1] == 1:
        return np.zeros_like(x)
    order = np.sort(x, axis=1)
    return np.where(x == order[:, :1], order[:, 1:2], order[:, :1])
