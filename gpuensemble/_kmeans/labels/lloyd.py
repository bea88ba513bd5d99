"""Lloyd's k-means over a table in blocks: exact objectives, counts updated from the rows that moved, emptied clusters.

What is summed over rows are integers, and tables are made on the host from them, so that a run has the same bits on
every device and for any blocks. `Costs` say what a method does with those integers.

Labels are not kept: a `Recipe` tells how those of any block are found, and what a block remembers of them is a cache.
So a block that was lost is worked out again, and a run is saved as a few small tables.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host
from gpuensemble._kernels import products
from gpuensemble._kmeans.labels.bounds import Change, Changes, Margins, Rows, Tables, evaluate
from gpuensemble._tables.blocks import Block, Table, add
from gpuensemble.membership import Membership

NUMBERS = itertools.count()
SMALL = 1 << 21  # additions: an iteration of no more takes less time than to know which rows can have moved
MOVED_SHARE = 0.2  # up to this share of moved rows the next counts are updated, else made anew


class Statistics(NamedTuple):
    """What a partition is to a method, in integers on the host."""

    counts: Any  # C x K: multiplicity of the rows of a column that have a label
    masses: Any  # r x K, or 1 x K without holes: sum of the masses of the rows of a label that a partition saw


class Costs(Protocol):
    """What a method makes of statistics, on the host. Costs leave out a constant of each row."""

    number: int  # unlike that of any other costs of this process
    dtype: str
    weights: Any  # the least and the largest weight of a row; None: all 1

    def rows(self, m: Membership, multiplicity: Array | None = None, constant: bool = True) -> Rows:
        """What the method knows of each row; the constant on demand."""

    def tables(self, statistics: Statistics, summed: bool) -> Tables:
        """The cost of each cluster; `summed`: the per-partition costs as one row."""

    def objective(self, statistics: Statistics) -> float:
        """What the method minimises."""


class Recipe(Protocol):
    """How the labels of a block are found."""

    @property
    def number(self) -> int:
        """Unlike that of any other recipe of this process."""

    def labels(self, block: Block, costs: Costs) -> Array:
        """The labels of the rows of block.m."""


@dataclass(frozen=True)
class Given:
    """Labels as they are: one for each row of the table, where no rows are merged."""

    all: Array
    number: int = field(default_factory=NUMBERS.__next__)

    def labels(self, block: Block, costs: Costs) -> Array:
        """Those of the block."""
        return to_device(self.all[block.first : block.first + block.n_rows], block.m.device)


@dataclass(frozen=True)
class Cheapest:
    """The cheapest cluster by tables of costs, except for rows that fill a cluster which was left empty."""

    statistics: Statistics  # what the tables are made of
    tables: Tables
    fillers: tuple = ()  # pairs: the codes of a row, and the cluster of all rows equal to it
    number: int = field(default_factory=NUMBERS.__next__)

    def __getstate__(self) -> dict:
        return self.__dict__ | {"statistics": None}  # workers need the tables only

    def labels(self, block: Block, costs: Costs) -> Array:
        """Those of the block."""
        found, *_ = evaluate(block.m, self.tables, rows_of(block, costs).weight)
        for codes, k in self.fillers:
            found[_equal(block.m.codes, codes)] = k
        return found


class Progress(NamedTuple):
    """A run, so far."""

    recipe: Any
    statistics: Statistics
    path: list[float]  # the objective at the start and after each iteration
    evaluated: list[float]  # the share of rows whose costs were computed, in each iteration
    converged: bool = False

    @property
    def objective(self) -> float:
        """At the end."""
        return self.path[-1]


def rows_of(block: Block, costs: Costs) -> Rows:
    """What the method knows of the block's rows; kept where there is memory."""
    return block.kept(("rows", costs.number), lambda: costs.rows(block.m, block.multiplicity))


class _RowsOfStep:
    """What a step needs of the rows, all or some of them: worked out once at most, without the constants."""

    def __init__(self, block: Block, costs: Costs):
        self.block, self.costs = block, costs
        self.all = rows_of(block, costs) if block.keeps else None

    def __call__(self, index: Array | None = None) -> Rows:
        block = self.block
        if index is None or self.all is not None:
            self.all = self.all or self.costs.rows(block.m, block.multiplicity, constant=False)
            return self.all if index is None else self.all.take(index)
        multiplicity = None if block.multiplicity is None else block.multiplicity[index]
        return self.costs.rows(block.m.take(index), multiplicity, constant=False)


def lloyd(
    table: Table,
    costs: Costs,
    start: Any,
    n_clusters: int,
    max_iter: int,
    skip: bool = True,
    after_each: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Assign and update until the objective no longer falls.

    `start` is a recipe, or the progress of a run that was cut off. `skip=False` evaluates every row in every iteration.
    """
    if not isinstance(start, Progress):
        statistics = _statistics(table, costs, start, n_clusters)
        start = Progress(start, statistics, [costs.objective(statistics)], [])
    progress, anew = start, True
    skip = skip and table.n_rows * len(table.widths) * n_clusters > SMALL
    changes = Changes(table.widths, table.complete, costs.weights, costs.dtype)
    while len(progress.evaluated) < max_iter and not progress.converged:
        tables = costs.tables(progress.statistics, table.complete)
        following = Cheapest(progress.statistics, tables)
        *sums, moved, evaluated, seen = table.total(
            step, costs, progress.recipe, following, changes.to(tables) if skip else None, n_clusters, anew
        )
        statistics = Statistics(*sums)
        if not anew:
            statistics = Statistics(*add(tuple(progress.statistics), tuple(sums)))
        anew = moved > MOVED_SHARE * seen
        empty = (statistics.counts == 0).all(0).nonzero()[0].tolist()
        fillers = _fillers(table, costs, tables, empty) if empty else ()
        if fillers:
            following = Cheapest(progress.statistics, tables, fillers)  # with a number of its own
            statistics, anew = _statistics(table, costs, following, n_clusters), True
        objective = costs.objective(statistics)
        falls = objective < progress.objective
        # Where nothing moved, the labels are also those of the new tables.
        progress = Progress(
            following if falls or not moved else progress.recipe,
            statistics if falls else progress.statistics,
            [*progress.path, objective] if falls else progress.path,
            [*progress.evaluated, evaluated / seen],
            converged=not falls,
        )
        after_each(progress)
    return progress


def step(
    block: Block, costs: Costs, before: Any, after: Cheapest, change: Change | None, n_clusters: int, anew: bool
) -> tuple:
    """Counts and masses by the new tables (`anew`), or by how much they change; rows that moved, evaluated, and all.

    Without a `change` every row is evaluated.
    """
    number, margins = block.memo.get("margins", (None, None))
    if number != before.number:
        margins = Margins(before.labels(block, costs))
    old = margins.labels
    rows = _RowsOfStep(block, costs)
    evaluated = margins.to(after.tables, change, block.m, rows)
    new = margins.labels
    block.memo["margins"] = after.number, margins
    moved = namespace(old).nonzero(old != new)[0]
    if anew:
        sums = statistics_of(block.m, rows(), new, n_clusters)
    elif not len(moved):
        sums = Statistics(0, None if costs.weights is None else 0)
    else:
        some, of_some = block.m.take(moved), rows(moved)
        gone = statistics_of(some, of_some, old[moved], n_clusters)
        come = statistics_of(some, of_some, new[moved], n_clusters)
        sums = Statistics(*(None if a is None else b - a for a, b in zip(gone, come, strict=True)))
    return *sums, len(moved), evaluated, len(old)


def statistics_of(m: Membership, rows: Rows, labels: Array, n_clusters: int) -> Statistics:
    """Counts and masses of a partition."""
    if rows.mass is not None and not m.complete:
        counts, masses = products.count_masses(m, labels, rows.multiplicity, rows.mass, n_clusters)
        return Statistics(to_host(counts), to_host(masses))
    counts = to_host(products.count(m, labels, rows.multiplicity, n_clusters))
    if rows.mass is None:
        return Statistics(counts, None)
    masses = to_host(products.count(m.leading(), labels, rows.mass, n_clusters))
    return Statistics(counts, masses.sum(0, keepdims=True))


def _statistics(table: Table, costs: Costs, recipe: Any, n_clusters: int) -> Statistics:
    """Of the labels that a recipe makes."""
    return Statistics(*table.total(_count, costs, recipe, n_clusters))


def _count(block: Block, costs: Costs, recipe: Any, n_clusters: int) -> tuple:
    labels = recipe.labels(block, costs)
    for name in ("nearest", "closer"):  # of the seeding, which is over
        block.memo.pop(name, None)
    block.memo["margins"] = recipe.number, Margins(labels)
    return tuple(statistics_of(block.m, rows_of(block, costs), labels, n_clusters))


def _fillers(table: Table, costs: Costs, tables: Tables, empty: list[int]) -> tuple:
    """The costliest rows for the clusters that were left empty, while there are rows off their centre."""
    found = [row for rows in table.each(_costliest, costs, tables, len(empty)) for row in rows]
    distinct = dict.fromkeys(codes for _, codes in sorted(found, key=lambda row: -row[0]))
    return tuple(zip(distinct, empty, strict=False))


def _costliest(block: Block, costs: Costs, tables: Tables, n: int) -> list[tuple[float, tuple[int, ...]]]:
    """The cost and the codes of the n rows of the largest cost, the first of equals; none that costs nothing."""
    m, rows = block.m, rows_of(block, costs)
    _, cost, _ = evaluate(m, tables, rows.weight)
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
        full[_equal(m.codes, codes)] = 0
    return found


def _equal(codes: Array, row: tuple[int, ...]) -> Array:
    """Which rows are equal to this one."""
    xp = namespace(codes)
    return (codes == to_device(xp.asarray(row).astype(codes.dtype), device_of(codes))).all(1)


def finish(block: Block, costs: Costs, recipe: Any, tables: Tables) -> tuple[Array, Array]:
    """Of each row of the table: its label, and 1 - (cost of the best cluster) / (cost of the second), 0 .. 1."""
    rows = rows_of(block, costs)
    found, cost, second = evaluate(block.m, tables, rows.weight)
    labels = found if recipe is None else recipe.labels(block, costs)
    xp = namespace(cost)
    best, other = (xp.maximum(rows.constant + x, 0) for x in (cost, second))
    known = xp.isfinite(best) & (other > 0)
    ratio = xp.where(known, best, 1) / xp.where(known, other, 1)
    return block.of_table(labels), block.of_table(1 - xp.clip(ratio, 0, 1))


def labels_of(block: Block, costs: Costs, recipe: Any) -> tuple[Array]:
    """Of each row of the table: its label."""
    number, margins = block.memo.get("margins", (None, None))
    return (block.of_table(margins.labels if number == recipe.number else recipe.labels(block, costs)),)
