"""Scores by entropy: mutual information, normalised or adjusted for chance, variation of information, v-measure."""

import math
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.devices import Array
from gpuensemble._kernels.cpu.contingency import expected_information
from gpuensemble.metrics import contingency


class VMeasure(NamedTuple):
    """`v_measure` returns this.

    Attributes
    ----------
    homogeneity, completeness : float
        As in `v_measure`.
    v : float
        Their harmonic mean.
    """

    homogeneity: float
    completeness: float
    v: float


def nmi(y: Any, z: Any) -> float:
    """Score how alike two partitions are by the normalised mutual information.

    It is I(y, z) / sqrt(H(y) H(z)): the geometric mean of the entropies normalises. This is scikit-learn's
    `normalized_mutual_info_score` with ``average_method="geometric"``, also in its conventions: it is 1 if both
    partitions are a single cluster, 0 if only one of them is.

    Parameters
    ----------
    y, z : vectors of n labels
        Swapping them changes nothing.

    Returns
    -------
    float
        Between 0 (independent) and 1 (the same partition).

    Examples
    --------
    >>> from gpuensemble import metrics
    >>> metrics.nmi([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> metrics.nmi([0, 0, 1, 1], [0, 1, 0, 1])
    0.0
    """
    return normalised(contingency.table(y, z))


def ami(y: Any, z: Any) -> float:
    """Score how alike two partitions are by the adjusted mutual information, which is corrected for chance.

    It is (I - E) / ((H(y) + H(z)) / 2 - E), E the mean mutual information I of shuffled labels. It is 0 on average for
    random labels with these cluster sizes, however many clusters there are, where `nmi` grows with their number. This
    is scikit-learn's `adjusted_mutual_info_score`, also in its conventions. E is exact: sizes that are equal share
    their part of it, and a sum ends where its terms no longer count, so that it takes about (distinct pairs of sizes) *
    sqrt(size) steps.

    Parameters
    ----------
    y, z : vectors of n labels
        Swapping them changes nothing.

    Returns
    -------
    float
        At most 1 (the same partition); less than 0 if they agree less than shuffled labels do.

    Examples
    --------
    >>> from gpuensemble import metrics
    >>> metrics.ami([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> round(metrics.ami([0, 0, 1, 1], [0, 1, 0, 1]), 6)
    -0.5
    """
    return adjusted(contingency.table(y, z))


def vi(y: Any, z: Any, *, per_sample: bool = False) -> Any:
    """Return how far two partitions are apart by the variation of information, in nats.

    It is H(y | z) + H(z | y), and a metric.

    Parameters
    ----------
    y, z : vectors of n labels
        Swapping them changes nothing.
    per_sample : bool
        Return what each sample adds, the logarithm of 1 / (its share of y's cluster in z's, times that of z's in y's):
        the mean of these is the distance.

    Returns
    -------
    float, or array of n
        0 (the same partition) to log(n); the array is where the labels are.

    Examples
    --------
    >>> from gpuensemble import metrics
    >>> metrics.vi([0, 0, 1, 1], ["b", "b", "a", "a"])
    0.0
    >>> metrics.vi([0, 0, 0, 0], [0, 0, 0, 1], per_sample=True).round(2).tolist()
    [0.29, 0.29, 0.29, 1.39]
    """
    pair = contingency.coded(y, z)
    table = contingency.counted(pair)
    if checks.flag(per_sample, "per_sample"):
        return contingency.spread(_surprise(table), table, pair)
    return variation(table)


def v_measure(y: Any, z: Any) -> VMeasure:
    """Return homogeneity, completeness and their harmonic mean.

    Homogeneity, I / H(y), is 1 if no cluster of z holds two classes of y, completeness, I / H(z), if no class is in two
    clusters. Where y, or z, is a single cluster its quotient is 1. This is scikit-learn's
    `homogeneity_completeness_v_measure`.

    Parameters
    ----------
    y : vector of n labels
        The classes.
    z : vector of n labels
        The clusters; swapping y and z swaps homogeneity and completeness.

    Returns
    -------
    VMeasure
        homogeneity, completeness and v, each between 0 and 1.

    Examples
    --------
    >>> from gpuensemble import metrics
    >>> [round(part, 6) for part in metrics.v_measure([0, 0, 1, 1], ["a", "a", "b", "c"])]
    [1.0, 0.666667, 0.8]
    """
    table = contingency.table(y, z)
    information, entropy_y, entropy_z = _informations(table)
    # One cell in each column, or row: exactly 1, whatever was rounded.
    homogeneity = 1.0 if len(table.counts) == table.shape[1] else _share(information, entropy_y)
    completeness = 1.0 if len(table.counts) == table.shape[0] else _share(information, entropy_z)
    both = homogeneity + completeness
    return VMeasure(homogeneity, completeness, 2 * homogeneity * completeness / both if both else 0.0)


def normalised(table: contingency.Table) -> float:
    """Return the normalised mutual information of a contingency table."""
    if (known := _known(table)) is not None:
        return known
    information, entropy_y, entropy_z = _informations(table)
    return _share(information, math.sqrt(entropy_y * entropy_z))


def adjusted(table: contingency.Table) -> float:
    """Return the adjusted mutual information of a contingency table."""
    if (known := _known(table)) is not None:
        return known
    information, entropy_y, entropy_z = _informations(table)
    expected = expected_information(table.sizes_y, table.sizes_z, table.n)
    return min(1.0, (information - expected) / ((entropy_y + entropy_z) / 2 - expected))


def variation(table: contingency.Table) -> float:
    """Return the variation of information of a contingency table."""
    return contingency.mean(_surprise(table), table)


def _known(table: contingency.Table) -> float | None:
    """Return what needs no entropies: 1 for the same partition, 0 if only one is a single cluster; else None."""
    if len(table.counts) == min(table.shape):  # one cell in each row and column
        return 1.0
    return 0.0 if min(table.shape) == 1 else None


def _surprise(table: contingency.Table) -> Array:
    """Return log(size_y / count) + log(size_z / count) of each cell."""
    sizes_y, sizes_z, counts = table.sizes_y[table.row], table.sizes_z[table.column], table.counts
    return np.log1p((sizes_y - counts) / counts) + np.log1p((sizes_z - counts) / counts)


def _informations(table: contingency.Table) -> tuple[float, float, float]:
    """Return the mutual information and both entropies: that of a partition is its information about itself."""
    sizes_y, sizes_z = table.sizes_y, table.sizes_z
    information = _information(table.counts, sizes_y[table.row], sizes_z[table.column])
    return information, _information(sizes_y, sizes_y, sizes_y), _information(sizes_z, sizes_z, sizes_z)


def _information(count: Array, size_y: Array, size_z: Array) -> float:
    """Sum count / n * log(count * n / (size_y * size_z)) over cells, in an order that does not matter.

    log1p of an exact difference keeps the digits where a cell is close to what independence gives; fsum rounds once.
    """
    n = int(count.sum())
    expected = size_y * size_z
    terms = count * np.log1p((count * n - expected) / expected)
    return math.fsum(terms.tolist()) / n


def _share(part: float, whole: float) -> float:
    """Return the quotient between 0 and 1: rounding may lead a little outside."""
    return min(1.0, max(0.0, part / whole))
