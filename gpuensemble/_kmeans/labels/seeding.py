"""k-means++ or random rows give a first partition to k-means over a table in blocks.

Random draws are made on the host. Potentials are rounded to integers and drawn from with exact sums, in the order of
the table's rows, so that a seed means the same rows on every device, for any blocks, and with equal rows merged or not.
"""

import bisect
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from gpuensemble._array.devices import Array, namespace, to_device, to_host
from gpuensemble._kernels import products
from gpuensemble._kernels.cpu.kmeans.differing import by_partition, differing
from gpuensemble._kmeans.labels.costs import Costs, KCCCosts
from gpuensemble._kmeans.labels.labellings import rows_of
from gpuensemble._kmeans.labels.statistics import CostTables, Rows, evaluate, statistics_of
from gpuensemble._tables.blocks import Block, InMemory, Lasting, Table
from gpuensemble.membership import Membership

# Rows tried for each centre, K at most: a cache line of costs. More than scikit-learn's 2 + log K, which ends higher.
CANDIDATES = 8


@dataclass(eq=False)
class Seeded(Lasting):
    """This labelling sends each row to the nearest of the chosen rows."""

    tables: CostTables

    def labels(self, block: Block, costs: Costs) -> Array:
        """Find the labels of the rows of block.m."""
        found, *_ = evaluate(block.m, self.tables, rows_of(block, costs).weight)
        return found


class Seeds(NamedTuple):
    """This holds the rows that were chosen so far."""

    of: Lasting  # this seeding, which the blocks' caches know by its identity
    costs: Costs
    chosen: Any  # Membership; None: not one yet
    scale: float  # of potentials
    last: int = 0  # which of the candidates was chosen last


class Distances(NamedTuple):
    """A block remembers this: the distance of each row to the nearest of the first `known` rows that were chosen.

    `with_candidates` is the distance to the nearest of them and of one more, for each of the candidates tried last.
    """

    known: int
    nearest: Array
    with_candidates: Array | None = None


def plus_plus(table: Table, costs: Costs, n_clusters: int, rng: Any) -> Seeded:
    """Choose rows by greedy k-means++, and send each row to the nearest of them."""
    if _alike(table, costs):
        return _nearest(costs, _by_counting(table.block.m, n_clusters, rng))
    seeds = Seeds(Lasting(), costs, None, 0.0)
    chosen = _drawn(table, seeds, table.each(_masses, costs), rng, 1)
    seeds = seeds._replace(chosen=chosen)
    # A power of two that brings the sum of all potentials below 2**61.
    bound = max(table.each(_farthest, seeds)) * (table.n_rows if table.weight is None else int(table.weight.sum()))
    seeds = seeds._replace(scale=2.0 ** (60 - math.frexp(bound)[1]) if bound > 0 else 1.0)
    totals = [int(sums[0]) for sums in table.each(_potentials, seeds, None)]
    while len(chosen.codes) < n_clusters and any(totals):  # 0: every row is equal to one chosen before
        candidates = _drawn(table, seeds, totals, rng, min(CANDIDATES, n_clusters))
        sums = table.each(_potentials, seeds, candidates)
        best = int(sum(sums).argmin())
        totals = [int(one[best]) for one in sums]
        chosen = _joined(chosen, candidates, best)
        seeds = seeds._replace(chosen=chosen, last=best)
    table.forget("distances")
    return _nearest(costs, chosen)


def _alike(table: Table, costs: Costs) -> TypeGuard[InMemory]:
    """Tell whether distances count labels that differ: all have the same weight, on the CPU, and no row is merged."""
    if not isinstance(table, InMemory) or table.device != "cpu" or table.block.multiplicity is not None:
        return False
    return isinstance(costs, KCCCosts) and costs.utility == "category" and bool((costs.of_column == 1).all())


def _by_counting(m: Membership, n_clusters: int, rng: Any) -> Membership:
    """Choose the rows of `plus_plus`, with its draws, by whole numbers."""
    codes, columns = m.codes, by_partition(m)
    rows = rng.integers(len(codes), size=1)
    (nearest, *_), (total, *_) = differing(m, columns, codes[rows], None)
    shift = 60 - math.frexp(float(nearest.max()) * len(codes))[1]  # to draw from the same sum of potentials
    while len(rows) < n_clusters and total:
        draws = rng.integers(int(total) << shift, size=min(CANDIDATES, n_clusters)) >> shift
        candidates = np.cumsum(nearest).searchsorted(draws, side="right")
        found, totals = differing(m, columns, codes[candidates], nearest)
        best = int(totals.argmin())
        rows, nearest, total = np.append(rows, candidates[best]), found[best], totals[best]
    return m.take(rows)


def random_rows(table: Table, costs: Costs, n_clusters: int, rng: Any) -> Seeded:
    """Draw rows at random, and send each row to the nearest of them."""
    counted = None if table.weight is None else table.weight.nonzero()[0]
    population = table.n_rows if counted is None else counted
    size = min(table.n_rows if counted is None else len(counted), n_clusters)
    rows = rng.choice(population, size, replace=False)
    rows.sort()
    return _nearest(costs, table.take(rows))


def _nearest(costs: Costs, chosen: Membership) -> Seeded:
    return Seeded(_tables(costs, chosen, chosen.complete))


def _tables(costs: Costs, chosen: Membership, summed: bool) -> CostTables:
    """Return what clusters of one row each cost, on the host."""
    labels = namespace(chosen.codes).arange(len(chosen.codes), dtype="int32")
    alone = statistics_of(chosen, costs.rows(chosen, constant=False), labels, len(labels))
    return costs.priced(alone.to("cpu"), summed).tables


def _joined(chosen: Membership, candidates: Membership, best: int) -> Membership:
    codes = namespace(chosen.codes).concatenate([chosen.codes, candidates.codes[best : best + 1]])
    return Membership.from_coded(codes, chosen.widths, chosen.complete, None, chosen.device)


def _drawn(table: Table, seeds: Seeds, totals: list[int], rng: Any, n: int) -> Membership:
    """Draw rows in proportion to their potentials or, before one is chosen, to their masses."""
    calls: dict[int, tuple] = {}
    order = []
    ends = list(itertools.accumulate(totals))
    for draw in rng.integers(ends[-1], size=n).tolist():
        index = bisect.bisect_right(ends, draw)
        offsets = calls.setdefault(index, (seeds, []))[-1]
        order.append((index, len(offsets)))
        offsets.append(draw - (ends[index] - totals[index]))
    found = dict(zip(calls, table.of(_located, calls), strict=True))
    codes = [found[index][place] for index, place in order]
    return Membership.from_coded(np.stack(codes), table.widths, table.complete, None, table.device)


def _masses(block: Block, costs: Costs) -> int:
    return int(_of_table(block, _unit_mass(block, costs)).sum())


def _unit_mass(block: Block, costs: Costs) -> Array:
    """Return the mass of each row of m, for a multiplicity of 1."""
    mass = costs.rows(block.m, constant=False).mass
    return namespace(block.m.codes).ones(len(block.m.codes), "int64") if mass is None else mass


def _of_table(block: Block, of_m: Array) -> Array:
    """Spread integers of the rows of m over the rows of the table, times their weights."""
    values = block.of_table(of_m)
    return values if block.weight is None else values * block.weight


def _located(block: Block, seeds: Seeds, offsets: list[int]) -> list:
    """Find where the running sum of potentials (or masses) passes the offsets; return the codes of the rows there.

    The codes are on the host.
    """
    drawn_by_mass = seeds.chosen is None
    units = _unit_mass(block, seeds.costs) if drawn_by_mass else _rounded(_to_chosen(block, seeds), seeds.scale)
    sums = _of_table(block, units).cumsum()
    rows = namespace(sums).searchsorted(sums, to_device(np.asarray(offsets), block.m.device), side="right")
    return list(to_host(block.m.codes[rows if block.group is None else block.group[rows]]))


def _farthest(block: Block, seeds: Seeds) -> float:
    """Return how far the farthest row that counts is from the chosen rows."""
    distance = _to_chosen(block, seeds)
    return float((distance if block.multiplicity is None else distance * (block.multiplicity > 0)).max())


def _potentials(block: Block, seeds: Seeds, candidates: Membership | None) -> Any:
    """Sum the potentials of all rows, for each candidate as if it were chosen next; the sums are on the host."""
    nearest = _to_chosen(block, seeds)[:, None]
    if candidates is not None:
        nearest = namespace(nearest).minimum(nearest, _distances(block, seeds.costs, candidates))
        if block.keeps:
            _remember(block, seeds, block.recalled("distances", seeds.of.identity)._replace(with_candidates=nearest))
    units = _rounded(nearest, seeds.scale)
    return to_host((units if block.multiplicity is None else units * block.multiplicity[:, None]).sum(0))


def _rounded(distance: Array, scale: float) -> Array:
    return namespace(distance).rint(distance * scale).astype("int64")


def _to_chosen(block: Block, seeds: Seeds) -> Array:
    """Return the distance of each row of m to the nearest chosen row; it is remembered, and brought up to date."""
    n_chosen = len(seeds.chosen.codes)
    last: Distances | None = block.recalled("distances", seeds.of.identity)
    if last is not None and last.known == n_chosen:
        return last.nearest
    if last is not None and last.with_candidates is not None and last.known + 1 == n_chosen:
        nearest = last.with_candidates[:, seeds.last].copy()
    else:
        known = 0 if last is None else last.known
        nearest = _distances(block, seeds.costs, seeds.chosen.take(slice(known, None))).min(1)
        nearest = nearest if last is None else namespace(nearest).minimum(last.nearest, nearest)
    _remember(block, seeds, Distances(n_chosen, nearest))
    return nearest


def _remember(block: Block, seeds: Seeds, distances: Distances) -> None:
    block.cache.distances = seeds.of.identity, distances


def _distances(block: Block, costs: Costs, chosen: Membership) -> Array:
    """Return the full cost of every row in clusters of one chosen row each, in float64."""
    m, rows = block.m, rows_of(block, costs)
    tables = _tables(costs, chosen, m.complete)
    cost = products.gather_sum(m, to_device(tables.table, m.device))
    if tables.per_partition.any():
        cost = cost + _of_partitions(m, rows, tables)
    return namespace(cost).maximum(rows.constant[:, None] + cost, 0).astype("float64")


def _of_partitions(m: Membership, rows: Rows, tables: CostTables) -> Array:
    parts = tables.per_partition
    if m.complete:
        summed = to_device(parts, m.device)
    else:
        summed = products.gather_sum(m, to_device(parts.repeat(m.widths, axis=0), m.device))
    return summed if rows.weight is None else rows.weight[:, None] * summed
