"""A tree over samples is cut into labels."""

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

LINKAGES = ("average", "single", "complete")


def tree_labels(similarity: Any, method: str, n_clusters: int, group: Any) -> Any:
    """Cut the tree over the distances 1 - S on the host into so many clusters, numbered by first occurrence.

    Samples of the same group, of equal rows, are at distance 0 from each other: with holes they do not agree in all
    partitions. There must be as many groups as clusters.
    """
    distance = 1 - similarity
    if len(distance) == 1:
        return np.zeros(1, "int32")  # a tree needs two rows
    np.fill_diagonal(distance, 0)
    order = np.argsort(group, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if len(members) > 1:
            distance[np.ix_(members, members)] = 0
    merges = linkage(squareform(distance, checks=False), method)
    return _cut(merges[:, :2].astype("int64"), n_clusters)


def _cut(merges: Any, n_clusters: int) -> Any:
    """Do the merges in their order until so many clusters are left: exactly so many, also where distances tie."""
    n = len(merges) + 1
    top = np.arange(2 * n - 1)  # the cluster that a cluster was merged into
    for i, pair in enumerate(merges[: n - n_clusters]):
        top[pair] = n + i
    for node in range(2 * n - 2, -1, -1):  # from the top down: a cluster is merged into one with a higher number
        top[node] = top[top[node]]
    _, first, inverse = np.unique(top[:n], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype("int32")
