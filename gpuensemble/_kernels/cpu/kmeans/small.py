"""k-means over few rows of labels, all of which count alike, on the CPU: many steps in a call.

On small tables most of the time would go into the calls between two steps. Here these are the kernels of `membership`
and `pricing`, so that a run has the bits of `_kmeans.labels.lloyd`. Distances of k-means++ are whole numbers.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.kmeans.pricing import KINDS, _add_up, _price
from gpuensemble._kernels.cpu.membership import _assign, _count, codes_of
from gpuensemble._kernels.cpu.tiles import sums_of, tiled


class Workspace(NamedTuple):
    """A `Workspace` has room for what a step needs; Numba compiles `np.empty` anew for each of its types."""

    found: Any  # n: labels, costs, and those of the runners-up
    costs: Any
    seconds: Any
    cells: Any  # counts, then those of holes
    masses: Any  # none
    table: Any
    tiles: Any
    of_partitions: Any  # 1 x K zeros, in tiles: nothing is per partition
    sums: Any  # of a block of rows
    other: Any
    weights: Any  # of rows, columns and partitions: all 1
    of_column: Any
    of_partition: Any
    parts: Any  # r x K, as `pricing.price` has them
    terms: Any
    seen: Any
    facts: Any
    whole: Any  # one row, all weights being 1


def run(m, kind: str, start, n_clusters: int, max_iter: int):
    """Assign and update until the objective no longer falls, as KCC does with a `kind` of cost.

    It returns labels and objective, or None where a cluster is left empty, which this knows no row for.
    """
    labels, codes = start.astype(np.int32), codes_of(m)
    work = _workspace(m, n_clusters)
    n_labels = float(m.codes.size if m.complete else (m.codes != codes[1]).sum())
    objective, empty = _run(*codes, KINDS.index(kind), labels, n_clusters, max_iter, n_labels, work)
    return None if empty else (labels, objective)


def _workspace(m, k) -> Workspace:
    (n, r), n_columns = m.codes.shape, m.n_columns
    table = np.zeros((n_columns, k))
    tiles = tiled(table)
    return Workspace(
        found=np.empty(n, np.int32),
        costs=np.empty(n),
        seconds=np.empty(n),
        cells=np.empty((n_columns + (0 if m.complete else r), k), np.int64),
        masses=np.empty((0, k), np.int64),
        table=table,
        tiles=tiles,
        of_partitions=tiled(np.zeros((1, k))),
        sums=sums_of(tiles),
        other=sums_of(tiles),
        weights=np.ones(1, np.int64),
        of_column=np.ones((n_columns, 2)),
        of_partition=np.ones(r),
        parts=np.empty((r, k)),
        terms=np.empty((r, k)),
        seen=np.empty((r, k), np.bool_),
        facts=np.empty(2),
        whole=np.empty((1, k)),
    )


@kernel
def _run(codes, hole, offsets, kind, labels, k, max_iter, n_labels, work):
    n, one = len(codes), work.of_partition[:1]
    objective, _ = _priced(codes, hole, offsets, kind, labels, k, n_labels, work)
    for _ in range(max_iter):
        for tile in range(len(work.tiles)):
            low = tile * work.tiles.shape[2]
            for c in range(len(work.table)):
                for j in range(min(work.tiles.shape[2], k - low)):
                    work.tiles[tile, c, j] = work.table[c, low + j]
        found, costs, seconds = work.found, work.costs, work.seconds
        sums, other = work.sums, work.other
        _assign(
            *(codes, hole, offsets, work.tiles, work.of_partitions, one, k, found, costs, seconds, sums, other, 0, n)
        )
        new, empty = _priced(codes, hole, offsets, kind, found, k, n_labels, work)
        if empty:
            return new, empty
        if not new < objective:  # where nothing moved, the labels are the same
            break
        objective = new
        for x in range(n):
            labels[x] = found[x]
    return objective, 0


@inner
def _priced(codes, hole, offsets, kind, labels, k, n_labels, work):
    """Fill the table of what clusters of these labels cost; return the objective, and how many clusters are empty."""
    for c in range(len(work.cells)):
        for j in range(k):
            work.cells[c, j] = 0
    weights, cells = work.weights, work.cells
    _count(codes, hole, offsets, labels, weights, weights, k, cells.reshape(cells.size), 0, codes.shape[1])
    counts, columns = cells[: len(work.table)], work.of_column
    parts, terms, seen = work.parts, work.terms, work.seen
    _price(kind, counts, work.masses, columns, work.of_partition, offsets, 1.0, 1.0, work.table, parts, terms, seen)
    _add_up(parts, terms, seen, n_labels, work.whole, work.facts)
    return work.facts[0], int(work.facts[1])


def by_partition(m):
    """Return the codes of each partition, one after another, as `differing` takes them."""
    return np.ascontiguousarray(m.codes.T)


def differing(m, columns, chosen, nearest):
    """Count how the rows differ from each of chosen rows, or from the `nearest` one before, where that is less.

    A label that differs counts 2, and one in a partition that the chosen row lacks 1: it is the cost of a row in a
    cluster of the chosen one alone, by the category utility. Counts are chosen x rows; their sums come with them.
    """
    out, sums = np.empty((len(chosen), len(m.codes)), np.int32), np.empty(len(chosen), np.int64)
    _differing(columns, codes_of(m)[1], chosen, nearest, out, sums)
    return out, sums


@kernel
def _differing(columns, hole, chosen, nearest, out, sums):
    for j in range(len(chosen)):
        row, total = out[j], np.int64(0)
        row[:] = 0
        for i in range(len(columns)):
            column, code = columns[i], chosen[j, i]
            if hole is None:
                for x in range(len(row)):
                    row[x] += 2 * np.int32(column[x] != code)
            else:
                cost = 1 if code == hole else 2
                for x in range(len(row)):
                    row[x] += cost * (np.int32(column[x] != code) & np.int32(column[x] != hole))
        for x in range(len(row)):
            if nearest is not None:
                row[x] = min(row[x], nearest[x])
            total += row[x]
        sums[j] = total
