"""Walks between the distinct rows of a table say how alike they are (Huang, Lai, Wang 2016); square in these rows."""

import math
from typing import Any

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._kmeans.labels.statistics import inverse
from gpuensemble._linear.eigen import leading_by_products
from gpuensemble._partition.clusters import walk_cosines
from gpuensemble._partition.distinct import Distinct

MOST = 20  # neighbours and steps by default


def check(n_neighbors: Any, steps: Any) -> None:
    """Raise unless both are None or positive integers."""
    for value, name in ((n_neighbors, "n_neighbors"), (steps, "steps")):
        if value is not None:
            checks.integer(value, name, 1)


def similarity(rows: Distinct, weight: Any, n_neighbors: int | None, steps: int | None) -> Any:
    """Return the cosines of trajectories of walks from each distinct row, on the graph of the nearest rows."""
    n = len(rows.multiplicity)
    usual = max(1, min(MOST, math.isqrt(n) // 2))
    members = rows.sparse_onehot()
    graph = ((members * weight) @ members.T).toarray()
    np.fill_diagonal(graph, 0)
    kept = min(n_neighbors or usual, n)
    least = np.partition(graph, n - kept, axis=1)[:, n - kept, None]
    graph[graph < least] = 0
    return walk_cosines(np.maximum(graph, graph.T), steps or usual, rows.multiplicity.astype("float64"))


def cut(alike: Any, rows: Distinct, n_clusters: int, rng: Any, n_init: int) -> Any:
    """Cut the graph that links distinct rows to clusters by their mean similarity with the clusters' rows."""
    members = rows.sparse_onehot()
    links = (members.T @ alike).T * inverse(np.asarray(members.sum(0)).ravel())
    with one_blas_thread():
        of_rows, of_clusters = inverse(links.sum(1)), inverse(links.sum(0)) ** 0.5
        scaled = links * (of_rows**0.5)[:, None] * of_clusters
        _, vectors = leading_by_products(scaled.T @ scaled, min(n_clusters, scaled.shape[1]))
        points = scaled @ vectors
        points *= inverse((points**2).sum(1) ** 0.5)[:, None]
        weight = rows.multiplicity.astype("float64")
        found = features.kmeans(points, n_clusters, rng, sample_weight=weight, n_init=n_init).labels
    return by_first_occurrence(found)
