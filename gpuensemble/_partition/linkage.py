"""A tree over samples or clusters is cut into labels."""

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._kernels.cpu.graphs import linkage as average

LINKAGES = ("average", "single", "complete")


def tree(similarity: Any, sizes: Any, method: str = "average") -> Any:
    """Link nodes that stand for so many samples each; return the merges in their order, pairs of nodes.

    The similarity is symmetric, on the host, and is overwritten. Node n + i is what merge i made. On ties of merges the
    one that was found first comes first.
    """
    if len(sizes) == 1:
        return np.zeros((0, 2), "int64")
    if method == "average":
        return ordered(*average.of_matrix(similarity, sizes))
    distance = np.subtract(similarity.max(), similarity, out=similarity)
    np.fill_diagonal(distance, 0)
    return linkage(squareform(distance, checks=False), method)[:, :2].astype("int64")


def ordered(pairs: Any, heights: Any) -> Any:
    """Bring merges of places, in any order in which they could be done, into that of falling similarities, as nodes."""
    n = len(pairs) + 1
    node = np.arange(n)  # of each place
    top = list(range(n))  # of each place, the place that its group goes by
    found = np.empty((n - 1, 2), "int64")
    for i, step in enumerate(np.argsort(-heights, kind="stable")):
        one, two = (_root(top, int(place)) for place in pairs[step])
        found[i] = node[one], node[two]
        top[one], node[two] = two, n + i
    return found


def _root(top: list[int], place: int) -> int:
    """Follow a place to the one that its group goes by, and halve the way for the next."""
    while top[place] != place:
        top[place] = top[top[place]]
        place = top[place]
    return place


def cut(merges: Any, n_clusters: int) -> Any:
    """Do the merges in their order until so many clusters are left, numbered by first occurrence.

    There are exactly so many, also where similarities tie.
    """
    n = len(merges) + 1
    top = np.arange(2 * n - 1)  # the cluster that a cluster was merged into
    for i, pair in enumerate(merges[: n - n_clusters]):
        top[pair] = n + i
    for node in range(2 * n - 2, -1, -1):  # from the top down: a cluster is merged into one with a higher number
        top[node] = top[top[node]]
    return by_first_occurrence(top[:n])
