"""These score a partition against another: accuracy, nmi, ari, purity, and precision and recall over pairs of samples.

Labels `y` and `z` are vectors of n labels of any kind, NumPy or CuPy array, pandas Series or list: whole numbers that
are not negative, or any hashable values; none may be missing. Work is done where the labels are: of CuPy arrays only
the nonzero cells of the contingency table leave the device. All counts are exact up to n = 3 * 10**9, and the scores
have the same bits whatever the device.
"""

import math
from typing import Any, NamedTuple

from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array, eye_array, hstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from gpuensemble._array import coding
from gpuensemble._array.devices import Array, device_of, namespace, on, to_device, to_host
from gpuensemble.membership import Membership

# Up to so many cells (80 MB) a contingency table is counted, and matched, as a dense one; past it by its nonzero cells.
DENSE_CELLS = 10**7


class PairScores(NamedTuple):
    """`pair_scores` returns this: precision, recall and F1 over pairs of samples."""

    precision: float
    recall: float
    f1: float


class _Pairs(NamedTuple):
    """This counts the pairs of samples that are together in both partitions, in one of them only, in neither."""

    both: int
    only_y: int
    only_z: int
    neither: int


def accuracy(y: Any, z: Any) -> float:
    """Return the share of samples that agree under the best one-to-one matching of clusters of z with classes of y.

    Where one partition has more clusters than the other, those left over match nothing.

    Parameters
    ----------
    y, z : vectors of n labels
        The classes and the clusters; swapping them changes nothing.

    Returns
    -------
    float
        Between 0 (never reached) and 1 (the same partition).

    Examples
    --------
    >>> from gpuensemble import metrics
    >>> metrics.accuracy([0, 0, 0, 1], ["b", "b", "a", "a"])
    0.75
    """
    table = _contingency(y, z)
    return _matched(table) / int(table.sum())


def nmi(y: Any, z: Any) -> float:
    """Return the mutual information over the geometric mean of the two entropies, I(y, z) / sqrt(H(y) H(z)).

    This is scikit-learn's `normalized_mutual_info_score` with ``average_method="geometric"``, also in its conventions:
    it is 1 if both partitions are a single cluster, 0 if only one of them is.

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
    table = _contingency(y, z)
    if table.nnz == min(table.shape):  # one cell in each row and column: the same partition
        return 1.0
    if min(table.shape) == 1:
        return 0.0
    sizes_y, sizes_z = table.sum(axis=1), table.sum(axis=0)
    information = _information(table.data, sizes_y[table.row], sizes_z[table.col])
    # The entropy of a partition is its information about itself.
    entropies = _information(sizes_y, sizes_y, sizes_y) * _information(sizes_z, sizes_z, sizes_z)
    return min(1.0, max(0.0, information / math.sqrt(entropies)))


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
    both, only_y, only_z, neither = _pairs(y, z)
    agreement = 2 * (both * neither - only_y * only_z)
    most = (both + only_y) * (only_y + neither) + (both + only_z) * (only_z + neither)
    return _ratio(agreement, most)


def purity(y: Any, z: Any) -> float:
    """Return the share of samples in the majority class of their cluster.

    It never falls as clusters are split, and is 1 for clusters of one sample each.

    Parameters
    ----------
    y : vector of n labels
        The classes.
    z : vector of n labels
        The clusters.

    Returns
    -------
    float
        Between 0 (never reached) and 1 (no cluster holds two classes).

    Examples
    --------
    >>> from gpuensemble import metrics
    >>> metrics.purity([0, 0, 0, 1], ["b", "b", "a", "a"])
    0.75
    """
    table = _contingency(y, z)
    return int(table.max(axis=0).sum()) / int(table.sum())


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
    both, only_y, only_z, _ = _pairs(y, z)
    return PairScores(
        precision=_ratio(both, both + only_z),
        recall=_ratio(both, both + only_y),
        f1=_ratio(2 * both, 2 * both + only_y + only_z),
    )


def _contingency(y: Any, z: Any) -> coo_array:
    """Count the samples that each class of y (row) and cluster of z (column) share: the nonzero cells, on the host."""
    coded_y, coded_z = _coded(y, "y"), _coded(z, "z")
    if len(coded_y.codes) != len(coded_z.codes):
        raise ValueError(
            f"`y` and `z` must have the same number of samples, got {len(coded_y.codes)} and {len(coded_z.codes)}."
        )
    shape = (int(coded_y.widths[0]), int(coded_z.widths[0]))
    device = device_of(y) if device_of(y) != "cpu" else device_of(z)
    with on(device):
        count = _count if math.prod(shape) <= DENSE_CELLS else _count_sparse
        row, column, counts = count(to_device(coded_y.codes, device), to_device(coded_z.codes, device), shape)
        return coo_array((to_host(counts), (to_host(row), to_host(column))), shape)


def _coded(labels: Any, name: str) -> coding.Coded:
    """Return a vector as codes, on the device where it is."""
    with on(device_of(labels)):
        return coding.from_vector(labels, name)


def _count(y: Array, z: Array, shape: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Return row, column and count of each nonzero cell, by way of the dense table."""
    table = Membership(y, [shape[0]], device=device_of(y)).count(z[:, 0], shape[1])
    row, column = namespace(table).nonzero(table)
    return row, column, table[row, column]


def _count_sparse(y: Array, z: Array, shape: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Do the same by sorting the samples, in memory linear in n."""
    cells = y[:, 0].astype("int64") * shape[1] + z[:, 0]
    cell, counts = namespace(cells).unique(cells, return_counts=True)
    return cell // shape[1], cell % shape[1], counts


def _matched(table: coo_array) -> int:
    """Return the most samples that a one-to-one matching of rows with columns covers."""
    if math.prod(table.shape) <= DENSE_CELLS:
        dense = table.toarray()
        return int(dense[linear_sum_assignment(dense, maximize=True)].sum())
    # A matching of the nonzero cells alone need not cover every row, and must here: each row gets a column of its own,
    # worth nothing. All are worth 1 more, as a zero would be no edge.
    raised = coo_array((table.data + 1, (table.row, table.col)), table.shape)
    padded = hstack([raised, eye_array(table.shape[0], dtype=table.dtype)]).tocsr()
    return int(padded[min_weight_full_bipartite_matching(padded, maximize=True)].sum()) - table.shape[0]


def _information(count: Array, size_y: Array, size_z: Array) -> float:
    """Sum count / n * log(count * n / (size_y * size_z)) over cells, in an order that does not matter.

    log1p of an exact difference keeps the digits where a cell is close to what independence gives; fsum rounds once.
    """
    n = int(count.sum())
    expected = size_y * size_z
    terms = count * namespace(count).log1p((count * n - expected) / expected)
    return math.fsum(terms.tolist()) / n


def _pairs(y: Any, z: Any) -> _Pairs:
    """Count the pairs of samples in Python integers, since products of them follow."""
    table = _contingency(y, z)
    both, in_y, in_z = (_together(sizes) for sizes in (table.data, table.sum(axis=1), table.sum(axis=0)))
    n = int(table.sum())
    return _Pairs(both, in_y - both, in_z - both, n * (n - 1) // 2 - in_y - in_z + both)


def _together(sizes: Array) -> int:
    """Return the number of pairs within groups of those sizes; the sum is less than n**2, which fits into 63 bits."""
    return int((sizes * (sizes - 1)).sum()) // 2


def _ratio(part: int, whole: int) -> float:
    """Return the quotient, rounded once; it is 1 where there is nothing to have a part of."""
    return part / whole if whole else 1.0
