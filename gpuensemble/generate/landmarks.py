"""Base partitions by landmark spectral clustering, linear in n."""

from typing import Any

from gpuensemble._array import checks, random
from gpuensemble._array.csr import some_rows
from gpuensemble._array.devices import Array, namespace, to_device
from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._graphs.landmarks import landmarks, sampled
from gpuensemble._graphs.nearest import METRICS
from gpuensemble.generate._common import around, drawn, jobs, matrix, partitions

LANDMARKS = 1000  # by default, at most half of the rows
MOST_CLUSTERS = 60  # by default, unless 2 K is more, or a tenth of the rows less
BLOCK = 1 << 17  # rows that are labelled at a time, beyond the sample


def landmark_spectral(
    X: Any,
    n_clusters: int,
    n_partitions: int = 20,
    *,
    k_range: tuple[int, int] | None = None,
    n_landmarks: int | None = None,
    n_neighbors: int = 5,
    distance: str = "sqeuclidean",
    random_state: Any = None,
    device: str = "auto",
    dtype: Any = None,
    verbose: int = 0,
    n_jobs: int | None = None,
) -> Array:
    """Make base partitions by landmark spectral clustering: for many rows, as the time grows with n alone.

    Each partition has landmarks of its own, the k-means centres of random rows, links every row to the nearest of them,
    and cuts this graph by its eigenvectors (U-SPEC, Huang et al. 2020). Where there are more than 100,000 rows,
    eigenvectors and centres come from a random sample of so many; all rows are labelled by them.

    Parameters
    ----------
    X, n_clusters, n_partitions, distance, random_state, device, dtype, verbose, n_jobs
        As in `neighbor_graph`.
    k_range : pair of int, optional
        Least and largest number of clusters; numbers are drawn so that their logarithm is uniform. By default K and
        60, but at most a tenth of the rows, and at least 2 K.
    n_landmarks : int, optional
        By default 1000, and at most half of the rows. Fewer are faster, and less accurate.
    n_neighbors : int
        How many landmarks a row is linked to.

    Returns
    -------
    array of int32, n x r
        Labels from 0 on, in the caller's library.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import generate
    >>> X = np.repeat([[0.0, 0], [9, 9]], 10, axis=0) + np.random.default_rng(0).random((20, 2))
    >>> generate.landmark_spectral(X, 2, n_partitions=3, random_state=0, device="cpu").shape
    (20, 3)
    """
    q = checks.integer(n_neighbors, "n_neighbors", 1)
    X, device, home = matrix(X, device, distance, METRICS, dtype)
    n = X.shape[0]
    low, high = around(n_clusters, k_range, n, lambda k: most_clusters(k, n))
    p = default_landmarks(n, high) if n_landmarks is None else checks.integer(n_landmarks, "n_landmarks", 1, n)
    draws = random.generators(random_state, checks.integer(n_partitions, "n_partitions", 1))

    def partition(i: int, rng: Any) -> Array:
        rows, k = sampled(n, rng), drawn(low, high, rng)
        if rows is None:
            found, points = landmarks(X, distance, k, p, q, rng)
            return by_first_occurrence(found.nearest(points))
        found, _ = landmarks(some_rows(X, to_device(rows, device)), distance, k, p, q, rng)
        blocks = [found.labels(some_rows(X, slice(first, min(first + BLOCK, n)))) for first in range(0, n, BLOCK)]
        return by_first_occurrence(namespace(*blocks).concatenate(blocks))

    return partitions(partition, draws, device, home, checks.integer(verbose, "verbose", 0), jobs(n_jobs))


def most_clusters(n_clusters: int, n: int) -> int:
    """Return the largest number of clusters of a partition by default.

    Parameters
    ----------
    n_clusters : int
        The least number.
    n : int
        The number of rows.
    """
    return min(n, max(2 * n_clusters, min(MOST_CLUSTERS, n // 10)))


def default_landmarks(n: int, most_clusters: int) -> int:
    """Return the number of landmarks: 1000, at most half of the rows, and at least one for each cluster.

    Parameters
    ----------
    n : int
        The number of rows.
    most_clusters : int
        The largest number of clusters.
    """
    return min(n, max(min(LANDMARKS, n // 2), most_clusters))
