"""Spectral clustering finds labels from a dense affinity."""

from typing import Any

from gpuensemble._array.devices import Array, namespace
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._linear.eigen import leading


def affinity_labels(affinity: Array, n_clusters: int, rng: Any) -> Array:
    """Find labels from a symmetric n x n affinity A, not negative, which is overwritten.

    They come from k-means on the normalised rows of the K leading eigenvectors of D^-1/2 A D^-1/2 (Ng, Jordan, Weiss
    2002). A row sum that is not positive counts as infinite. Clusters are numbered by first occurrence.
    """
    xp = namespace(affinity)
    degrees = affinity.sum(1)
    scale = xp.where(degrees > 0, xp.where(degrees > 0, degrees, 1) ** -0.5, 0)
    affinity *= scale
    affinity *= scale[:, None]
    _, points = leading(affinity, n_clusters)
    norm = (points**2).sum(1, keepdims=True) ** 0.5
    points = points / xp.where(norm > 0, norm, 1)
    return point_labels(points, n_clusters, rng)


def point_labels(points: Array, n_clusters: int, rng: Any) -> Array:
    """Label points by the best of ten k-means runs.

    Clusters are numbered by first occurrence: rounding must not choose the numbers.
    """
    xp = namespace(points)
    with one_blas_thread():
        labels = features.kmeans(xp.ascontiguousarray(points), n_clusters, rng, n_init=10).labels
    _, first, labels = xp.unique(labels, return_index=True, return_inverse=True)
    return xp.argsort(xp.argsort(first))[labels].astype("int32")
