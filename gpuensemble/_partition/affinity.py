"""A dense affinity of samples is cut into labels by its leading eigenvectors, or by a tree."""

from typing import Any

from gpuensemble._array.devices import Array, device_of, to_device, to_host
from gpuensemble._partition.linkage import cut, tree
from gpuensemble._partition.spectral import affinity_points, point_labels
from gpuensemble.membership import Merged


def labels(given: Array, how: str, n_clusters: int, merged: Merged, rng: Any) -> Array:
    """Cut an n x n affinity, which is overwritten; with "points", cluster the rows of an n x K array by k-means.

    `merged` says which rows of the table are equal: of a tree, the first one counts for all of them. There are at least
    as many distinct rows as clusters.
    """
    if how not in ("spectral", "points"):
        similarity = to_host(given[merged.first][:, merged.first]).astype("float64")
        merges = tree(similarity, to_host(merged.multiplicity), how)
        return to_device(cut(merges, n_clusters), device_of(given))[merged.group]
    points = affinity_points(given, n_clusters) if how == "spectral" else given
    return point_labels(points, n_clusters, merged, rng)
