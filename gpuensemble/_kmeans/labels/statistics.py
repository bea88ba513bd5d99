"""k-means over labels is made of these: statistics of clusters, what a method knows of rows, and tables of costs.

CONTRIBUTING.md defines the words.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.devices import Array, device_of, namespace, to_device
from gpuensemble._array.threads import spans
from gpuensemble._kernels import products
from gpuensemble.membership import Membership

TOGETHER = 8192  # rows on the CPU, whose numbers stay in the cache from one operation to the next


class Statistics(NamedTuple):
    """This is all that a method needs to know of a partition, in integers; a fit keeps it on its table's device."""

    counts: Any  # C x K: multiplicity of the rows of a column that have a label
    masses: Any  # r x K, or 1 x K without holes: sum of the masses of the rows of a label that a partition saw; or None

    def to(self, device: str) -> "Statistics":
        """Return them on a device."""
        return Statistics(*(None if x is None else to_device(x, device) for x in self))


class Rows(NamedTuple):
    """This is what a method knows of each row, on the device of the codes."""

    multiplicity: Array | None  # integers; None: all 1
    mass: Array | None  # integers that the statistics of a cluster add up; None: not needed
    weight: Array | None  # the factor of the per-partition costs; None: 1
    constant: Any  # what the tables leave out; None: not asked for

    def take(self, index: Array) -> "Rows":
        """Return what is known of some of the rows."""
        return Rows(*(None if x is None else x[index] for x in self))


class CostTables(NamedTuple):
    """This says what each cluster costs: the arguments of `Membership.assign`."""

    table: Any  # C x K
    per_partition: Any  # r x K, or 1 x K: their sum, the same for every row

    def to(self, device: str) -> "CostTables":
        """Return them on a device."""
        return CostTables(*(to_device(part, device) for part in self))


class Priced(NamedTuple):
    """This says what the clusters of a partition cost, and what a run goes by: it is on one device."""

    tables: CostTables
    facts: Any  # the objective, and how many clusters are empty, in float64


def evaluate(m: Membership, tables: CostTables, weight: Array | None) -> tuple[Array, Array, Array]:
    """Find the cheapest cluster of each row; return labels, costs and the costs of the runners-up."""
    return products.assign(m, *tables.to(m.device), weight)


def confidence(best: Array, second: Array) -> Array:
    """Return 1 - best / second of what the nearest cluster and the next cost: 0 .. 1, and 0 where both cost nothing."""
    xp = namespace(best)
    best, second = xp.maximum(best, 0), xp.maximum(second, 0)
    known = xp.isfinite(best) & (second > 0)
    return 1 - xp.clip(xp.where(known, best, 1) / xp.where(known, second, 1), 0, 1)


def confidences(constant: Array, cost: Array, second: Array) -> Array:
    """Return the confidence of each row with these costs and its constant; on the CPU some rows after others."""
    if device_of(cost) != "cpu":
        return confidence(constant + cost, constant + second)
    found = np.empty(len(cost), np.result_type(constant, cost))
    for some in spans(len(cost), TOGETHER):
        found[some] = confidence(constant[some] + cost[some], constant[some] + second[some])
    return found


def statistics_of(m: Membership, rows: Rows, labels: Array, n_clusters: int) -> Statistics:
    """Count a partition, and add up its masses."""
    if rows.mass is not None and not m.complete:
        return Statistics(*products.count_masses(m, labels, rows.multiplicity, rows.mass, n_clusters))
    counts = products.count(m, labels, rows.multiplicity, n_clusters)
    if rows.mass is None:
        return Statistics(counts, None)
    masses = products.count(m.partitions(0, 1), labels, rows.mass, n_clusters)
    return Statistics(counts, masses.sum(0, keepdims=True))


def by_partition(columns: Any, widths: Any, reduce: str = "add") -> Any:
    """Add up the rows of a C x K array on the host within each partition, or take their least or largest: r x K."""
    return getattr(np, reduce).reduceat(columns, np.cumsum(widths) - widths, axis=0)


def per_column(x: Any, widths: Any) -> Any:
    """Repeat the rows of an r x K array for the columns of each partition; a single row stands for all."""
    return x.repeat(widths, axis=0) if len(x) == len(widths) else x


def inverse(x: Any) -> Any:
    """Return 1 / x, and 0 where x is 0."""
    return np.where(x > 0, 1.0 / np.where(x > 0, x, 1), 0.0)
