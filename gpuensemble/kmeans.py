"""Lloyd's k-means over a Membership: seeding, exact objectives, emptied clusters, restarts.

What is summed over rows are integers, and tables are made on the host from them, so that a run has the same bits on
every device. `Costs` say what a method does with those integers.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpuensemble._array import Array, namespace, to_device, to_host
from gpuensemble.membership import Membership

MOVED_SHARE = 0.2  # up to this share of moved rows the counts are updated, else made anew
SAFETY = 4.0  # rounding errors are taken to be this much larger than their bound


class Statistics(NamedTuple):
    """What a partition is to a method, in integers on the host."""

    counts: Any  # C x K: multiplicity of the rows of a column that have a label
    masses: Any  # r x K, or 1 x K without holes: sum of the masses of the rows of a label that a partition saw


class Tables(NamedTuple):
    """The arguments of `Membership.assign`, on the host."""

    table: Any
    per_partition: Any  # r x K, or 1 x K: the sum over all partitions


class Rows(NamedTuple):
    """What a method knows of each row, on the device of the codes."""

    multiplicity: Array | None  # integers; None: all 1
    mass: Array | None  # integers that `Statistics.masses` adds up; None: not needed
    weight: Array | None  # the factor of the per-partition costs; None: 1
    constant: Array  # what the costs leave out

    def take(self, index: Array) -> "Rows":
        """Of some rows."""
        return Rows(*(None if x is None else x[index] for x in self))


class Costs(Protocol):
    """What a method makes of statistics, on the host. Costs leave out a constant of each row."""

    widths: Any

    def tables(self, statistics: Statistics, summed: bool) -> Tables:
        """The cost of each cluster; `summed`: the per-partition costs as one row."""

    def objective(self, statistics: Statistics) -> float:
        """What the method minimises."""


class Run(NamedTuple):
    """The outcome of a run."""

    labels: Array
    statistics: Statistics
    objective: float
    path: list[float]  # the objective at the start and after each iteration
    evaluated: list[float]  # the share of rows whose costs were computed, in each iteration
    converged: bool


def statistics_of(m: Membership, rows: Rows, labels: Array, n_clusters: int) -> Statistics:
    """Counts and masses of a partition."""
    kernels = m._kernels
    if rows.mass is not None and not m.complete:
        counts, masses = kernels.count_masses(m, labels, rows.multiplicity, rows.mass, n_clusters)
        return Statistics(to_host(counts), to_host(masses))
    counts = to_host(kernels.count(m, labels, rows.multiplicity, n_clusters))
    if rows.mass is None:
        return Statistics(counts, None)
    masses = to_host(kernels.count(m.leading(), labels, rows.mass, n_clusters))
    return Statistics(counts, masses.sum(0, keepdims=True))


def by_partition(columns: Any, widths: Any, reduce: str = "add") -> Any:
    """Rows of a C x K array on the host added up, or their maximum taken, within each partition: r x K."""
    return getattr(np, reduce).reduceat(columns, np.cumsum(widths) - widths, axis=0)


def updated(m: Membership, rows: Rows, before: Statistics, old: Array, new: Array) -> Statistics:
    """The statistics of new labels from those of the old: only the rows that moved are looked at, if they are few."""
    n_clusters = before.counts.shape[1]
    moved = namespace(old).nonzero(old != new)[0]
    if len(moved) > MOVED_SHARE * len(old):
        return statistics_of(m, rows, new, n_clusters)
    if not len(moved):
        return before
    some, of_some = m.take(moved), rows.take(moved)
    gone = statistics_of(some, of_some, old[moved], n_clusters)
    come = statistics_of(some, of_some, new[moved], n_clusters)
    masses = None if before.masses is None else before.masses - gone.masses + come.masses
    return Statistics(before.counts - gone.counts + come.counts, masses)


def lloyd(
    m: Membership, rows: Rows, costs: Costs, labels: Array, n_clusters: int, max_iter: int, skip: bool = True
) -> Run:
    """Assign and update until the objective no longer falls. `skip=False` evaluates every row in every iteration."""
    statistics = statistics_of(m, rows, labels, n_clusters)
    path, evaluated, converged = [costs.objective(statistics)], [], False
    assignment = Assignment(m, rows, labels, skip)
    for _ in range(max_iter):
        tables = costs.tables(statistics, m.complete)
        new = assignment.step(tables)
        after = updated(m, rows, statistics, labels, new)
        evaluated.append(assignment.share)
        empty = (after.counts == 0).all(0)
        if empty.any():
            new = _reseeded(m, rows, tables, empty)
            after = statistics_of(m, rows, new, n_clusters)
            assignment = Assignment(m, rows, new, skip)
        objective = costs.objective(after)
        if not objective < path[-1]:
            converged = True
            break
        labels, statistics, assignment.labels = new, after, new
        path.append(objective)
    return Run(labels, statistics, path[-1], path, evaluated, converged)


def evaluate(m: Membership, tables: Tables, weight: Array | None) -> tuple[Array, Array, Array]:
    """Labels, costs and the costs of the runners-up for tables on the host."""
    moved = (to_device(array, m.device) for array in tables)
    return m._kernels.assign(m, *moved, weight)


@dataclass
class Assignment:
    """Repeated assignment of the rows of a Membership, leaving out those that cannot have moved.

    From one iteration to the next the cost of cluster k for row x changes by at most B[k] = sum over i of the largest
    change of the table in partition i, plus weight[x] times the change of the per-partition part. A row whose margin
    between the best and the second cluster is larger than what B of its own cluster and the largest B can have taken
    off it since it was last evaluated keeps its label. Rounding errors are taken off as well, so that labels equal
    those of a full evaluation.
    """

    m: Membership
    rows: Rows
    labels: Array
    skip: bool
    share: float = 1.0
    slack: Any = None
    before: Tables | None = None

    def step(self, tables: Tables) -> Array:
        """The labels for new tables."""
        rows = None
        with np.errstate(invalid="ignore"):  # inf - inf: a NaN counts as too small a margin
            if self.skip and self.slack is not None and self.before is not None:
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
        """How much the margin of each row may have shrunk."""
        with np.errstate(invalid="ignore"):
            change = np.abs(after.table.astype("float64") - before.table)
        change[np.isnan(change)] = 0  # infinite before and after
        of_table = by_partition(change, self.m.widths, "maximum").sum(0)
        of_parts = np.abs(after.per_partition.astype("float64") - before.per_partition).sum(0)
        inflate = 1 + 1e-9  # for the rounding of these very sums
        return self._per_row(inflate * (of_table + of_table.max()), inflate * (of_parts + of_parts.max()))

    def _per_row(self, of_table: Any, of_parts: Any) -> Array:
        own = to_device(of_table, self.m.device)[self.labels]
        if self.rows.weight is None or not of_parts.any():
            return own
        return own + self.rows.weight * to_device(of_parts, self.m.device)[self.labels]

    def _rounding(self, tables: Tables) -> Array | float:
        """A bound of the rounding error of a margin: a number, or one for each row."""
        size = np.abs(np.where(np.isinf(tables.table), 0, tables.table)).astype("float64")
        unit = SAFETY * (len(self.m.widths) + 4) * float(np.finfo(tables.table.dtype).eps)
        of_table = unit * float(by_partition(size, self.m.widths, "maximum").sum(0).max())
        of_parts = unit * float(np.abs(tables.per_partition.astype("float64")).sum(0).max())
        if self.rows.weight is None or of_parts == 0:
            return of_table
        return of_table + of_parts * self.rows.weight.astype("float64")


def _reseeded(m: Membership, rows: Rows, tables: Tables, empty: Any) -> Array:
    """Labels with the costliest rows in the clusters that were left empty, while there are rows off their centre."""
    labels, cost, _ = evaluate(m, tables, rows.weight)
    full = rows.constant + cost
    if rows.multiplicity is not None:
        full[rows.multiplicity == 0] = -math.inf  # a row that does not count fills no cluster
    for k in empty.nonzero()[0].tolist():
        row = int(full.argmax())
        if not float(full[row]) > 0:
            break
        labels[row] = k
        full[row] = -math.inf
    return labels
