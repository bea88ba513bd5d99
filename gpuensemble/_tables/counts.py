"""Counts of a table that many methods need, exact sums over its blocks: sizes of clusters, and contingency tables."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuensemble._array.devices import namespace, to_host
from gpuensemble._kernels import products
from gpuensemble._kernels.cpu import contingency as cpu
from gpuensemble._tables.blocks import Block, Table

WHOLE = 1 << 25  # cells of G that may be there at once where only its columns are asked for
CELLS = 1 << 22  # of contingency tables counted in one go where not


def sizes(table: Table) -> Any:
    """Return the size of each cluster of all partitions."""
    return table.total(_sizes)


def contingency(table: Table) -> Any:
    """Count G = H' H, how many samples two clusters share, for all pairs of clusters: C x C integers on the host."""
    return table.total(_contingency)


def contingencies(table: Table) -> Iterator[Any]:
    """Give the columns of G: all of them where they are few, else those of some partitions after the others'."""
    if table.n_columns**2 <= WHOLE:
        yield contingency(table)
        return
    for first, last in _spans(table):
        yield np.concatenate(table.total(_counts, first, last), axis=1)


def _spans(table: Table) -> Iterator[tuple[int, int]]:
    """Give the partitions that are counted in one pass: as many as CELLS allows, one at least."""
    first, r = 0, len(table.widths)
    while first < r:
        last = first + 1
        while last < r and int(table.widths[first : last + 1].sum()) * table.n_columns <= CELLS:
            last += 1
        yield first, last
        first = last


def _sizes(block: Block) -> Any:
    return to_host(block.m.sizes(block.multiplicity))


def _contingency(block: Block) -> Any:
    if block.m.device == "cpu":
        return cpu.contingency(block.m, block.multiplicity)
    return np.concatenate(_counts(block, 0, len(block.m.widths)), axis=1)


def _counts(block: Block, first: int, last: int) -> tuple:
    """Count the contingency tables of partitions first .. last - 1 with all partitions, on the host."""
    m, multiplicity = block.m, block.multiplicity
    xp = namespace(m.codes)
    hole = xp.asarray(-1).astype(m.codes.dtype)
    found = []
    for i in range(first, last):
        rows = slice(None) if m.complete else xp.nonzero(m.codes[:, i] != hole)[0]
        some, weight = m.take(rows), None if multiplicity is None else multiplicity[rows]
        width, labels = int(m.widths[i]), m.codes[rows, i].astype("int32")
        if len(labels):
            found.append(to_host(products.count(some, labels, weight, width)))
        else:
            found.append(np.zeros((m.n_columns, width), "int64"))
    return tuple(found)
