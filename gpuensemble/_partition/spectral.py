"""Spectral clustering finds labels from a dense affinity."""

from typing import Any

from gpuensemble._array.devices import Array, namespace
from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._linear.eigen import leading_by_products
from gpuensemble.membership import Merged


def affinity_points(affinity: Array, n_clusters: int) -> Array:
    """Embed the samples of a symmetric n x n affinity A, not negative, which is overwritten.

    The points are the normalised rows of the K leading eigenvectors of D^-1/2 A D^-1/2 (Ng, Jordan, Weiss 2002). A row
    sum that is not positive counts as infinite.
    """
    xp = namespace(affinity)
    degrees = affinity.sum(1)
    scale = xp.where(degrees > 0, xp.where(degrees > 0, degrees, 1) ** -0.5, 0)
    affinity *= scale
    affinity *= scale[:, None]
    _, points = leading_by_products(affinity, n_clusters)
    norm = (points**2).sum(1, keepdims=True) ** 0.5
    return points / xp.where(norm > 0, norm, 1)


def point_labels(points: Array, n_clusters: int, merged: Merged, rng: Any) -> Array:
    """Label points by the best of ten k-means runs, numbered by first occurrence: rounding must not choose the numbers.

    Of samples with equal rows the first one's point counts, as often as there are such samples.
    """
    xp = namespace(points)
    chosen, weight = xp.ascontiguousarray(points[merged.first]), merged.multiplicity.astype("float64")
    with one_blas_thread():
        found = features.kmeans(chosen, n_clusters, rng, sample_weight=weight, n_init=10).labels
    return by_first_occurrence(found)[merged.group]
