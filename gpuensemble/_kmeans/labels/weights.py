"""Clusters get weights from their sizes and contingency tables, which are exact sums over blocks."""

import math
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._kernels import products
from gpuensemble._kmeans.labels.statistics import by_partition, inverse, per_column
from gpuensemble._tables.blocks import Block, Table

UNIT = 1 << 20  # weights of clusters by entropy are whole multiples of 1 / UNIT
THETA = 0.4  # of the entropy weights
CELLS = 1 << 22  # of contingency tables counted in one go
COPIES = 4  # of a contingency table, at most at one time


class Weighting(NamedTuple):
    """This says how much partitions and clusters count, and the type that costs are in."""

    partitions: Any  # r numbers
    clusters: Any  # C whole numbers of units; None: all count the same
    dtype: str
    unit: float = 1 / UNIT  # of the weights of clusters, a power of two


def in_units(given: Any) -> tuple[Any, float]:
    """Round weights of clusters to whole numbers of a unit, 2**-20 of the largest or a bit less; return both.

    A cluster counts a unit at least, so that every row has a degree: 0 stands for that.
    """
    low, high = float(given[given > 0].min()), float(given.max())
    unit = 2.0 ** (math.frexp(high)[1] - 1) / UNIT
    if low < unit:
        rule = "must not differ by more than a factor of 2**20, but for 0"
        raise ValueError(f"`cluster_weight` {rule}, got {low:g} and {high:g}.")
    return (given / unit).round().clip(1).astype("int64"), unit


def sizes(table: Table) -> Any:
    """Return the size of each cluster of all partitions."""
    return table.total(_sizes)


def _sizes(block: Block) -> Any:
    return to_host(block.m.sizes(block.multiplicity))


def entropy_weights(table: Table) -> Any:
    """Weigh each cluster by how well the other partitions agree inside it.

    The weight is exp(-h_c / (THETA r)) in units of 1 / UNIT, h_c the entropy of the others' labels inside c. After
    Huang, Wang and Lai, Locally Weighted Ensemble Clustering, IEEE Transactions on Cybernetics, 2018.
    """
    widest = int(table.widths.max())
    what = f"`cluster_weight`'s contingency tables of {table.n_columns} x {widest}"
    checks.fits(COPIES * 8 * table.n_columns * widest, what, "cpu", "leave out partitions that are so wide")
    entropies, first, r = [], 0, len(table.widths)
    while first < r:
        last = first + 1
        while last < r and int(table.widths[first : last + 1].sum()) * table.n_columns <= CELLS:
            last += 1
        for i, counts in zip(range(first, last), table.total(_contingencies, first, last), strict=True):
            inside = _entropy(counts, table.widths)
            entropies.append(inside.sum(0) - inside[i])
        first = last
    weights = np.exp(-np.concatenate(entropies) / (THETA * r))
    return np.maximum(np.rint(UNIT * weights), 1).astype("int64")


def _contingencies(block: Block, first: int, last: int) -> tuple:
    """Count the contingency tables of partitions first .. last - 1 with all partitions, on the host."""
    m, multiplicity = block.m, block.multiplicity
    xp = namespace(m.codes)
    hole = xp.asarray(-1).astype(m.codes.dtype)
    found = []
    for i in range(first, last):
        rows = slice(None) if m.complete else xp.nonzero(m.codes[:, i] != hole)[0]
        some, weight = m.take(rows), None if multiplicity is None else multiplicity[rows]
        width = int(m.widths[i])
        if len(some.codes):
            found.append(to_host(products.count(some, some.codes[:, i].astype("int32"), weight, width)))
        else:
            found.append(np.zeros((m.n_columns, width), "int64"))
    return tuple(found)


def _entropy(counts: Any, widths: Any) -> Any:
    """Return the entropy of each partition's labels inside each cluster, in bits: r x K."""
    share = counts * per_column(inverse(by_partition(counts, widths)), widths)
    return by_partition(-share * np.log2(np.where(share > 0, share, 1)), widths)
