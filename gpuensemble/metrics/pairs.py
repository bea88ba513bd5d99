"""Scores over pairs of samples: the adjusted Rand index, precision and recall."""

from typing import Any, NamedTuple

from gpuensemble._array.devices import Array
from gpuensemble.metrics import contingency


class PairScores(NamedTuple):
    """`pair_scores` returns this.

    Attributes
    ----------
    precision, recall : float
        As in `pair_scores`, over pairs of samples.
    f1 : float
        Their harmonic mean.
    """

    precision: float
    recall: float
    f1: float


class _Pairs(NamedTuple):
    """This counts the pairs of samples that are together in both partitions, in one of them only, in neither."""

    both: int
    only_y: int
    only_z: int
    neither: int


def ari(y: Any, z: Any) -> float:
    """Return the adjusted Rand index: agreement over pairs of samples, 0 on average for random labels with these sizes.

    Parameters
    ----------
    y, z : vectors of n labels
        Swapping them changes nothing.

    Returns
    -------
    float
        Between -0.5 and 1 (the same partition).

    Examples
    --------
    >>> from gpuensemble import metrics
    >>> metrics.ari([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> metrics.ari([0, 0, 1, 1], [0, 1, 0, 1])
    -0.5
    """
    return adjusted_rand(contingency.table(y, z))


def adjusted_rand(table: contingency.Table) -> float:
    """Return the adjusted Rand index of a contingency table."""
    both, only_y, only_z, neither = _pairs(table)
    agreement = 2 * (both * neither - only_y * only_z)
    most = (both + only_y) * (only_y + neither) + (both + only_z) * (only_z + neither)
    return _ratio(agreement, most)


def pair_scores(y: Any, z: Any) -> PairScores:
    """Return precision, recall and F1 of z over pairs of samples, where a pair counts as found if z puts it together.

    Precision is the share of the pairs together in z that are so in y, recall the share of those in y that are so in z.
    A share of no pairs at all is 1: a z without two samples together says nothing wrong, and of a y without any there
    is nothing to miss. F1 is 2 * both / (pairs in y + pairs in z): 0 if just one of the two has no pairs.

    Parameters
    ----------
    y : vector of n labels
        The classes.
    z : vector of n labels
        The clusters; swapping y and z swaps precision and recall.

    Returns
    -------
    PairScores
        precision, recall and f1, each between 0 and 1.

    Examples
    --------
    >>> from gpuensemble import metrics
    >>> metrics.pair_scores([0, 0, 0, 1], ["b", "b", "a", "a"])
    PairScores(precision=0.5, recall=0.3333333333333333, f1=0.4)
    """
    both, only_y, only_z, _ = _pairs(contingency.table(y, z))
    return PairScores(
        precision=_ratio(both, both + only_z),
        recall=_ratio(both, both + only_y),
        f1=_ratio(2 * both, 2 * both + only_y + only_z),
    )


def _pairs(table: contingency.Table) -> _Pairs:
    """Count the pairs of samples in Python integers, since products of them follow."""
    both, in_y, in_z = (_together(sizes) for sizes in (table.counts, table.sizes_y, table.sizes_z))
    n = table.n
    return _Pairs(both, in_y - both, in_z - both, n * (n - 1) // 2 - in_y - in_z + both)


def _together(sizes: Array) -> int:
    """Return the number of pairs within groups of those sizes; the sum is less than n**2, which fits into 63 bits."""
    return int((sizes * (sizes - 1)).sum()) // 2


def _ratio(part: int, whole: int) -> float:
    """Return the quotient, rounded once; it is 1 where there is nothing to have a part of."""
    return part / whole if whole else 1.0
