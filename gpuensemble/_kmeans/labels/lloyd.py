"""Lloyd's k-means runs over a table in blocks, and keeps its objectives exact.

What is summed over rows are integers, and tables are made from them in a fixed order, so that a run has the same bits
on every device and for any blocks. Counts are updated from the rows that moved, and a cluster that was left empty gets
a row. `Costs` say what a method does with the integers.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host
from gpuensemble._kernels import kmeans
from gpuensemble._kmeans.labels.bounds import SAFETY, Drift, DriftBounds, state_of
from gpuensemble._kmeans.labels.costs import Costs, offsets_on
from gpuensemble._kmeans.labels.labellings import ByCosts, equal_rows, heaviest, rows_of
from gpuensemble._kmeans.labels.statistics import (
    CostTables,
    Priced,
    Statistics,
    confidences,
    evaluate,
    statistics_of,
)
from gpuensemble._tables.blocks import Block, InMemory, Table, add, shared_on

SMALL = 1 << 21  # additions: an iteration of no more takes less time than to know which rows can have moved
AT_ONCE = 1 << 28  # labels looked up in a call, some tenths of a second: then others have a say
MOST_AT_ONCE = 1000  # iterations, since a call has room for the facts of each
MOVED_SHARE = 0.4  # up to this share of moved rows the next counts are updated, else made anew: a move counts twice


class Problem(NamedTuple):
    """This is what k-means solves: a table, what clusters of its rows cost, and how many of them there are to be."""

    table: Table
    costs: Costs
    n_clusters: int
    total: float  # the constants of all rows

    @classmethod
    def of(cls, table: Table, costs: Costs, n_clusters: int) -> "Problem":
        """State the problem; two passes over the table add up the constants of its rows."""
        return cls(table, costs, n_clusters, _total_constant(table, costs) / costs.scale)

    def priced(self, statistics: Statistics) -> Priced:
        """Make the tables of what the clusters of a partition cost, and what the method minimises."""
        return self.costs.priced(statistics, self.table.complete, self.total)


class Progress(NamedTuple):
    """This tells how far a run has got: how its labels are found, their statistics, and its objectives."""

    labelling: Any
    statistics: Statistics
    path: list[float]  # the objective at the start and after each iteration that lowered it
    evaluated: list[float]  # the share of rows whose costs were computed, in each iteration
    converged: bool = False

    @property
    def objective(self) -> float:
        """Return the objective after the last iteration."""
        return self.path[-1]


class Sweep(NamedTuple):
    """This tells of an iteration what is judged."""

    following: ByCosts  # how its labels are found
    statistics: Statistics  # of them
    priced: Priced  # what these cost
    facts: list[float]  # objective, number of empty clusters, rows that moved, rows that were evaluated
    n_rows: int


def lloyd(
    problem: Problem,
    start: Any,
    max_iter: int,
    skip: bool | None = None,
    after_each: Callable[[Progress, int], None] = lambda progress, n_new: None,
) -> Progress:
    """Assign and update until the objective no longer falls.

    `start` is a labelling, or the progress of a run that was cut off. `skip` says whether rows that cannot have moved
    are left out; None leaves them out where that pays. It changes no label. `after_each` is told of the progress after
    an iteration, or after a few of them that were one call, and how many there were. Four numbers are read off a device
    in an iteration.
    """
    table, costs, n_clusters, _ = problem
    if isinstance(start, Progress):
        progress, priced = start, problem.priced(start.statistics)
    else:
        statistics = _statistics(problem, start)
        priced = problem.priced(statistics)
        progress = Progress(start, statistics, [float(priced.facts[0])], [])
    anew = True
    if skip is None:
        skip = table.n_rows * len(table.widths) * n_clusters > SMALL
    offsets = offsets_on(device_of(priced.facts), costs)
    bounds = DriftBounds(offsets, table.complete, costs.weights, costs.dtype, skip)
    here = _here(problem)
    while len(progress.evaluated) < max_iter and not progress.converged:
        n_before = len(progress.evaluated)
        if here is not None:
            limits = kmeans.Limits(max_iter - n_before, skip, MOVED_SHARE, anew)
            progress, sweep = _several(problem, *here, progress, priced, bounds, limits)
        else:
            sweep = _one(problem, progress, priced, bounds, anew)
        following, statistics, priced, (objective, empty, moved, evaluated), n_rows = sweep
        anew = moved > MOVED_SHARE * n_rows
        fillers = _fillers(table, costs, following, statistics) if empty else ()
        if fillers:
            following = ByCosts(following.statistics, following.tables, fillers)  # with an identity of its own
            statistics, anew = _statistics(problem, following), True
            priced = problem.priced(statistics)
            objective = float(priced.facts[0])
        falls = objective < progress.objective
        # Where nothing moved, the labels are also those of the new tables.
        progress = Progress(
            following if falls or not (moved or fillers) else progress.labelling,
            statistics if falls else progress.statistics,
            [*progress.path, objective] if falls else progress.path,
            [*progress.evaluated, evaluated / n_rows],
            converged=not falls,
        )
        after_each(progress, len(progress.evaluated) - n_before)
    return progress


def _one(problem: Problem, progress: Progress, priced: Priced, bounds: DriftBounds, anew: bool) -> Sweep:
    """Do an iteration in all blocks, wherever they are."""
    following, drift = ByCosts(progress.statistics, priced.tables), bounds.to(priced.tables)
    table, costs, n_clusters, _ = problem
    *sums, facts, n_rows = table.total(step, costs, progress.labelling, following, drift, n_clusters, anew)
    statistics = Statistics(*sums)
    if not anew:
        statistics = Statistics(*add(tuple(progress.statistics), tuple(statistics)))
    priced = problem.priced(statistics)
    return Sweep(following, statistics, priced, _read(priced.facts, facts), n_rows)


def _several(
    problem: Problem,
    block: Block,
    method: kmeans.Method,
    progress: Progress,
    priced: Priced,
    bounds: DriftBounds,
    limits: kmeans.Limits,
) -> tuple[Progress, Sweep]:
    """Do iterations in one call, until one does not lower the objective or leaves a cluster empty; judge all but it."""
    costs, (n, r) = problem.costs, block.m.codes.shape
    state = _state(block, costs, progress.labelling)
    limits = limits._replace(n_iter=min(limits.n_iter, max(1, AT_ONCE // (n * r)), MOST_AT_ONCE))
    before = bounds.before or priced.tables
    known = bounds.before is not None
    kept, rows = block.taken("tallies", progress.labelling.identity), _row_facts(block, costs)
    found = kmeans.iterate(block.m, method, progress.statistics, before, known, rows, state, kept, bounds.edges, limits)
    earlier, made, last = (Statistics(*pair) for pair in found.statistics)
    *judged, facts = found.facts.tolist()
    if judged:
        labelling = ByCosts(earlier, problem.priced(earlier).tables)
        path = [*progress.path, *(one[0] for one in judged)]
        progress = Progress(labelling, made, path, [*progress.evaluated, *(one[3] / n for one in judged)])
    following = ByCosts(progress.statistics, CostTables(*found.tables))
    bounds.before = following.tables
    block.cache.slacks, block.cache.tallies = (following.identity, state), (following.identity, found.tallies)
    return progress, Sweep(following, last, Priced(CostTables(*found.priced), found.facts[-1, :2]), facts, n)


def _here(problem: Problem) -> tuple[Block, kmeans.Method] | None:
    """Return the block and what clusters cost, if iterations can be one call: if all rows are in memory of the host."""
    table, costs = problem.table, problem.costs
    if not isinstance(table, InMemory) or table.device != "cpu":
        return None
    pricing = costs.pricing("cpu")
    if pricing is None:
        return None
    kind, (of_column, of_partition), _, scale, unit, _ = pricing
    number = kmeans.KINDS.index(kind)
    facts = (scale, unit, problem.total, table.complete, heaviest(costs), SAFETY)
    return table.block, kmeans.Method(number, of_column, of_partition, *facts)


def _read(*facts: Array) -> list[float]:
    """Read numbers off the device at once."""
    xp = namespace(*facts)
    return to_host(xp.concatenate([x.astype("float64", copy=False) for x in facts])).tolist()


def step(block: Block, costs: Costs, before: Any, after: ByCosts, drift: Drift, n_clusters: int, anew: bool) -> tuple:
    """Label the rows of a block by new tables, and return what adds up over the blocks.

    That is counts and masses by the new tables (`anew`), or by how much they change; then how many rows moved and were
    evaluated, one array; then the number of all.
    """
    m = block.m
    state = _state(block, costs, before)
    rows, tables = _row_facts(block, costs), after.prepared(m, costs)
    counts, masses, facts = kmeans.relabel(m, tables, rows, state, drift.on(m.device), n_clusters, anew)
    block.cache.slacks = after.identity, state
    return counts, masses if rows.n_masses else None, facts, len(m.codes)


def _state(block: Block, costs: Costs, labelling: Any) -> kmeans.State:
    """Return what is known of the rows of a block with these labels, which the caller is about to change."""
    state = block.recalled("slacks", labelling.identity) or state_of(labelling.labels(block, costs))
    block.cache.slacks = None
    return state


def _row_facts(block: Block, costs: Any) -> kmeans.RowFacts:
    """Return what `relabel` needs of the rows; where it is not kept, degrees come from the sizes of clusters."""
    m, xp = block.m, namespace(block.m.codes)
    multiplicity = xp.ones(1, "int64") if block.multiplicity is None else block.multiplicity
    none = xp.empty(0, "int64")
    if costs.sizes is None:
        return kmeans.RowFacts(multiplicity, xp.ones(1, costs.dtype), none, none, 0, 0)
    sizes = shared_on(m.device, costs, lambda: to_device(costs.sizes[:, 0].copy(), m.device), "sizes")
    n_masses = 1 if m.complete else len(m.widths)
    weight, mass = none.astype(costs.dtype), none
    if block.keeps:
        _, mass, weight, _ = rows_of(block, costs)
    return kmeans.RowFacts(multiplicity, weight, mass, sizes, costs.shift, n_masses)


def _statistics(problem: Problem, labelling: Any) -> Statistics:
    """Count the partition that a labelling makes."""
    return Statistics(*problem.table.total(_count, problem.costs, labelling, problem.n_clusters))


def _count(block: Block, costs: Costs, labelling: Any, n_clusters: int) -> tuple:
    labels = labelling.labels(block, costs)
    block.cache.slacks = labelling.identity, state_of(labels)
    return tuple(statistics_of(block.m, rows_of(block, costs), labels, n_clusters))


def _fillers(table: Table, costs: Costs, labelling: ByCosts, statistics: Statistics) -> tuple:
    """Choose the costliest rows for the clusters that were left empty, while there are rows off their centre."""
    empty = (to_host(statistics.counts) == 0).all(0).nonzero()[0].tolist()
    found = [row for rows in table.each(_costliest, costs, labelling, len(empty)) for row in rows]
    distinct = dict.fromkeys(codes for _, codes in sorted(found, key=lambda row: -row[0]))
    return tuple(zip(distinct, empty, strict=False))


def _costliest(block: Block, costs: Costs, labelling: ByCosts, n: int) -> list[tuple[float, tuple[int, ...]]]:
    """Find the cost and the codes of the n costliest distinct rows, the first of equals.

    Rows that cost nothing are left out.
    """
    m, rows = block.m, rows_of(block, costs)
    _, cost, _ = evaluate(m, labelling.on(m.device), rows.weight)
    full = rows.constant + cost
    if rows.multiplicity is not None:
        full[rows.multiplicity == 0] = 0  # a row that does not count fills no cluster
    found: list[tuple[float, tuple[int, ...]]] = []
    while len(found) < n:
        row = int(full.argmax())
        largest = float(full[row])
        if not largest > 0:
            break
        codes = tuple(to_host(m.codes[row]).tolist())
        found.append((largest, codes))
        full[equal_rows(m.codes, codes)] = 0
    return found


def finish(block: Block, costs: Costs, labelling: Any, cheapest: ByCosts) -> tuple[Array, Array]:
    """Find the label of each row of the table, and its confidence by the tables of the last labels.

    The confidence is 1 - (cost of the best cluster) / (cost of the second), 0 .. 1. Without a labelling the label is
    that of the best cluster.
    """
    rows = rows_of(block, costs)
    found, cost, second = evaluate(block.m, cheapest.on(block.m.device), rows.weight)
    labels = found if labelling is None else _labels(block, costs, labelling)
    share = confidences(rows.constant, cost, second)
    return block.of_table(labels), block.of_table(share)


def labels_of(block: Block, costs: Costs, labelling: Any) -> tuple[Array]:
    """Find the label of each row of the table."""
    return (block.of_table(_labels(block, costs, labelling)),)


def _labels(block: Block, costs: Costs, labelling: Any) -> Array:
    """Return the labels of the rows of block.m, which may be known."""
    state = block.recalled("slacks", labelling.identity)
    return labelling.labels(block, costs) if state is None else state.labels


def _total_constant(table: Table, costs: Costs) -> float:
    """Add up what the costs leave out, of all rows: in whole multiples of a power of two, so that no order matters."""
    largest = max(table.each(_largest_constant, costs))
    if largest <= 0:
        return 0.0
    scale = 2.0 ** (61 - math.frexp(largest * table.n_rows)[1])
    return table.total(_sum_of_constants, costs, scale) / scale


def _largest_constant(block: Block, costs: Costs) -> float:
    return float(_constants(block, costs).max())


def _sum_of_constants(block: Block, costs: Costs, scale: float) -> int:
    terms = _constants(block, costs)
    return int(namespace(terms).rint(terms * scale).astype("int64").sum())


def _constants(block: Block, costs: Costs) -> Array:
    """Return the constant of each row of the table, times its weight."""
    constant = block.of_table(rows_of(block, costs).constant)
    return constant if block.weight is None else constant * block.weight
