"""Clusters get weights from their sizes and contingency tables, which are exact sums over blocks."""

import math
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import checks
from gpuensemble._kernels.cpu.contingency import entropies
from gpuensemble._tables.blocks import Table
from gpuensemble._tables.counts import WHOLE, contingencies

UNIT = 1 << 20  # weights of clusters by entropy are whole multiples of 1 / UNIT
THETA = 0.4  # of the entropy weights
COPIES = 4  # of contingency tables, at most at one time


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


def entropy_weights(table: Table, theta: float = THETA, counts: Any = None) -> Any:
    """Weigh each cluster by how well the other partitions agree inside it, in units of 1 / UNIT.

    `counts` is G, if it was counted already.
    """
    widest = max(int(table.widths.max()), min(table.n_columns, WHOLE // table.n_columns))
    what = f"`cluster_weight`'s contingency tables of {table.n_columns} x {widest}"
    checks.fits(COPIES * 8 * table.n_columns * widest, what, "cpu", "leave out partitions that are so wide")
    parts = contingencies(table) if counts is None else [counts]
    found = [entropies(part, table.widths) for part in parts]
    return weights_of(np.concatenate(found), len(table.widths), theta)


def weights_of(entropy: Any, n_partitions: int, theta: float) -> Any:
    """Return exp(-h_c / (theta r)) in units of 1 / UNIT, h_c the entropy of the others' labels inside c.

    After Huang, Wang and Lai, Locally Weighted Ensemble Clustering, IEEE Transactions on Cybernetics, 2018.
    """
    weights = np.exp(-entropy / (theta * n_partitions))
    return np.maximum(np.rint(UNIT * weights), 1).astype("int64")
