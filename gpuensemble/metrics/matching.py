"""Scores that take the majority: accuracy under the best matching of clusters, and purity."""

import math
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array, eye_array, hstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from gpuensemble._array.devices import Array
from gpuensemble.metrics import contingency


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
    table = contingency.table(y, z)
    return int(table.counts[partners(table)[table.row] == table.column].sum()) / table.n


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
    table = contingency.table(y, z)
    most = np.zeros(table.shape[1], "int64")
    np.maximum.at(most, table.column, table.counts)
    return int(most.sum()) / table.n


def partners(table: contingency.Table) -> Array:
    """Match rows with columns one to one, so that most samples are covered; return the column of each row.

    It is -1 where there is none left, or none that shares a sample with the row.
    """
    found = np.full(table.shape[0], -1)
    cells = (table.row, table.column)
    if math.prod(table.shape) <= contingency.DENSE_CELLS:
        dense = coo_array((table.counts, cells), table.shape).toarray()
        row, column = linear_sum_assignment(dense, maximize=True)
        inside = dense[row, column] > 0
    else:
        # A matching of the nonzero cells alone need not cover every row, and must here: each row gets a column of its
        # own, worth nothing. All are worth 1 more, as a zero would be no edge.
        raised = coo_array((table.counts + 1, cells), table.shape)
        padded = hstack([raised, eye_array(table.shape[0], dtype=raised.dtype)]).tocsr()
        row, column = min_weight_full_bipartite_matching(padded, maximize=True)
        inside = column < table.shape[1]
    found[row[inside]] = column[inside]
    return found
