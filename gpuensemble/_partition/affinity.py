"""A dense affinity of samples is cut into labels by its leading eigenvectors, or by a tree."""

from typing import Any

from gpuensemble._array.devices import Array, device_of, to_device, to_host
from gpuensemble._partition.linkage import tree_labels
from gpuensemble._partition.spectral import affinity_labels, point_labels


def labels(given: Array, how: str, n_clusters: int, rng: Any) -> Array:
    """Cut an n x n affinity, which is overwritten; with "points", cluster the rows of an n x K array by k-means."""
    if how == "spectral":
        return affinity_labels(given, n_clusters, rng)
    if how == "points":
        return point_labels(given, n_clusters, rng)
    return to_device(tree_labels(to_host(given), how, n_clusters), device_of(given))
