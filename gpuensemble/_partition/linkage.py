"""A tree over samples is cut into labels."""

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

LINKAGES = ("average", "single", "complete")


def tree_labels(similarity: Any, method: str, n_clusters: int) -> Any:
    """Cut the tree over the distances 1 - S on the host into labels, numbered by first occurrence."""
    distance = 1 - similarity
    if len(distance) == 1:
        return np.zeros(1, "int32")  # a tree needs two rows
    distance.flat[:: len(distance) + 1] = 0  # with holes a sample does not agree with itself in all partitions
    flat = fcluster(linkage(squareform(distance, checks=False), method), n_clusters, "maxclust")
    _, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype("int32")
