"""Starting partitions for k-means over a Membership: k-means++ and random rows.

Random draws are made on the host. Potentials are rounded to integers and drawn from with exact sums, so that a seed
means the same rows on every device.
"""

import math
from typing import Any

from gpuensemble._array import Array, namespace, to_device, to_host
from gpuensemble.assignment import Rows, Tables, evaluate
from gpuensemble.kmeans import Costs, statistics_of
from gpuensemble.membership import Membership

# Rows tried for each centre, K at most: a cache line of costs. More than scikit-learn's 2 + log K, which ends higher.
CANDIDATES = 8


def plus_plus(m: Membership, rows: Rows, costs: Costs, n_clusters: int, rng: Any) -> Array:
    """Labels by the nearest of rows that greedy k-means++ has chosen."""
    chosen = [_first(rows, len(m.codes), rng)]
    nearest = _distances(m, rows, costs, chosen)[:, 0]
    scale = _scale(nearest, rows)
    while len(chosen) < n_clusters:
        sums = _potential(nearest, rows, scale).cumsum()
        total = int(sums[-1])
        if total == 0:  # every row is equal to one chosen before
            break
        draws = rng.integers(total, size=min(CANDIDATES, n_clusters))
        candidates = to_host(namespace(sums).searchsorted(sums, to_device(draws, m.device), side="right")).tolist()
        closer = namespace(nearest).minimum(nearest[:, None], _distances(m, rows, costs, candidates))
        best = int(to_host(_potential(closer, rows, scale).sum(0)).argmin())
        chosen.append(candidates[best])
        nearest = closer[:, best]
    return nearest_row(m, rows, costs, chosen)


def random_rows(m: Membership, rows: Rows, costs: Costs, n_clusters: int, rng: Any) -> Array:
    """Labels by the nearest of rows drawn at random."""
    n = len(m.codes)
    counted = None if rows.multiplicity is None else to_host(rows.multiplicity.nonzero()[0])
    size = min(n if counted is None else len(counted), n_clusters)
    return nearest_row(m, rows, costs, rng.choice(n if counted is None else counted, size, replace=False).tolist())


def nearest_row(m: Membership, rows: Rows, costs: Costs, chosen: list[int]) -> Array:
    """Labels by the nearest of the chosen rows."""
    return evaluate(m, _tables(m, rows, costs, chosen, m.complete), rows.weight)[0]


def _first(rows: Rows, n: int, rng: Any) -> int:
    """A row with probability in proportion to its mass, or multiplicity."""
    mass = rows.mass if rows.mass is not None else rows.multiplicity
    if mass is None:
        return int(rng.integers(n))
    sums = mass.cumsum()
    return int((sums <= int(rng.integers(int(sums[-1])))).sum())


def _tables(m: Membership, rows: Rows, costs: Costs, chosen: list[int], summed: bool) -> Tables:
    """The tables of clusters of one row each."""
    xp = namespace(m.codes)
    index = xp.asarray(chosen)
    some = rows.take(index)
    if some.multiplicity is not None:  # a centre is the same for every multiplicity but 0
        mass = None if some.mass is None else some.mass // xp.maximum(some.multiplicity, 1)
        some = some._replace(multiplicity=None, mass=mass)
    labels = xp.arange(len(chosen), dtype="int32")
    return costs.tables(statistics_of(m.take(index), some, labels, len(chosen)), summed)


def _distances(m: Membership, rows: Rows, costs: Costs, chosen: list[int]) -> Array:
    """The full cost of every row in clusters of one chosen row each: n x len(chosen)."""
    tables = _tables(m, rows, costs, chosen, m.complete)
    cost = m._kernels.gather_sum(m, to_device(tables.table, m.device))
    parts = tables.per_partition
    if parts.any():
        if m.complete:
            summed = to_device(parts, m.device)
        else:
            summed = m._kernels.gather_sum(m, to_device(parts.repeat(m.widths, axis=0), m.device))
        cost = cost + (summed if rows.weight is None else rows.weight[:, None] * summed)
    return namespace(cost).maximum(rows.constant[:, None] + cost, 0)


def _scale(distance: Array, rows: Rows) -> float:
    """A power of two that brings n times the largest potential just below 2**61."""
    largest = float(_weighted(distance, rows).max()) * len(distance)
    return 2.0 ** (60 - math.frexp(largest)[1]) if largest > 0 else 1.0


def _potential(distance: Array, rows: Rows, scale: float) -> Array:
    return namespace(distance).rint(_weighted(distance, rows) * scale).astype("int64")


def _weighted(distance: Array, rows: Rows) -> Array:
    distance = distance.astype("float64")
    if rows.multiplicity is None:
        return distance
    return distance * (rows.multiplicity if distance.ndim == 1 else rows.multiplicity[:, None])
