"""Lloyd's k-means over a Membership: exact objectives, counts updated from the rows that moved, emptied clusters.

What is summed over rows are integers, and tables are made on the host from them, so that a run has the same bits on
every device. `Costs` say what a method does with those integers.
"""

import math
from typing import Any, NamedTuple, Protocol

from gpuensemble._array import Array, namespace, to_host
from gpuensemble.assignment import Assignment, Rows, Tables, evaluate
from gpuensemble.membership import Membership

MOVED_SHARE = 0.2  # up to this share of moved rows the counts are updated, else made anew


class Statistics(NamedTuple):
    """What a partition is to a method, in integers on the host."""

    counts: Any  # C x K: multiplicity of the rows of a column that have a label
    masses: Any  # r x K, or 1 x K without holes: sum of the masses of the rows of a label that a partition saw


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
