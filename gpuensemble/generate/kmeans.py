"""k-means makes base partitions of feature matrices: by random numbers of clusters, random columns, or random rows."""

import functools
import math
import numbers
from collections.abc import Callable
from typing import Any

from gpuensemble._array import checks, csr, random
from gpuensemble._array.devices import Array, namespace, on, to_device
from gpuensemble._kmeans.features.distances import DISTANCES, Features, prepare
from gpuensemble._kmeans.features.lloyd import kmeans, many
from gpuensemble.generate._common import collected, matrix, pair, partitions


def random_k(
    X: Any,
    n_partitions: int = 100,
    k_range: tuple[int, int] | None = None,
    random_state: Any = None,
    device: str = "auto",
    *,
    distance: str = "sqeuclidean",
    n_init: int = 1,
    max_iter: int = 100,
    tol: float = 1e-4,
    dtype: Any = None,
    verbose: int = 0,
) -> Array:
    """Make base partitions of all rows, each into a random number of clusters.

    On a device many partitions are found at a time, as many as a quarter of its free memory has room for.

    Parameters
    ----------
    X : n x d matrix
        As in `ConsensusClustering.fit`.
    n_partitions : int
        The number of partitions, r.
    k_range : pair of int, optional
        Least and largest number of clusters, each number between them equally likely. By default 2 and sqrt(n).
    random_state : None, int or numpy.random.Generator
        The seed of all draws, which are made on the host. The result does not depend on the number of threads.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to work.
    distance : {"sqeuclidean", "cosine", "kl"}
        "cosine" is |x| - x.c/|c| for a centre c: rows are grouped by direction. "kl" is sum x log(x/c) of x and c as
        distributions, times the sum of x. No row may be all zero for these two, nor an entry negative for "kl".
    n_init : int
        Starts of each k-means; the best one counts.
    max_iter : int
        Most iterations of a start.
    tol : float
        A start ends when its objective falls by at most `tol` times itself.
    dtype : {"float32", "float64"} or None
        The type of the features; None keeps float32, and makes float64 of any other. Centres are float64 in any case.
        float32 takes half of the memory, and on the CPU about half of the time.
    verbose : int
        1: a progress bar on stderr.

    Returns
    -------
    array of int32, n x r
        Labels from 0 on, in the caller's library.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import generate
    >>> X = np.array([[0.0, 0], [0, 1], [9, 9], [9, 8]])
    >>> generate.random_k(X, n_partitions=3, k_range=(2, 3), random_state=0).shape
    (4, 3)
    """
    lloyd = _lloyd(n_init, max_iter, tol, verbose)
    X, device, home = matrix(X, device, distance, DISTANCES, dtype)
    low, high = _k_range(k_range, X.shape[0])
    n_partitions = checks.integer(n_partitions, "n_partitions", 1)

    def drawn(rng: Any) -> int:
        return int(rng.integers(low, high + 1))

    with on(device):
        features = prepare(X, distance)
    draws = random.generators(random_state, n_partitions)
    if device == "cpu":
        return partitions(lambda i, rng: lloyd(features, drawn(rng), rng), draws, device, home, verbose)
    sizes = [drawn(rng) for rng in draws]
    found = (one.labels for one in many(features, sizes, draws, n_init, max_iter, float(tol)))
    return collected(found, n_partitions, device, home, verbose)


def random_features(
    X: Any,
    n_clusters: int,
    n_partitions: int = 100,
    feature_ratio: float = 0.5,
    random_state: Any = None,
    device: str = "auto",
    *,
    distance: str = "sqeuclidean",
    n_init: int = 1,
    max_iter: int = 100,
    tol: float = 1e-4,
    dtype: Any = None,
    verbose: int = 0,
) -> Array:
    """Make base partitions of all rows, each by a random share of the columns.

    Parameters
    ----------
    X : n x d matrix
        As in `random_k`.
    n_clusters : int
        The number of clusters of each partition.
    n_partitions : int
        The number of partitions, r.
    feature_ratio : float
        The share of the columns that a partition sees, more than 0 and at most 1; at least one column is seen.
    random_state, device, distance, n_init, max_iter, tol, dtype, verbose
        As in `random_k`.

    Returns
    -------
    array of int32, n x r
        Labels from 0 on, in the caller's library. For "cosine" and "kl" a row that is all zero in the columns of a
        partition has no place there: its label is -1.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import generate
    >>> X = np.array([[0.0, 0], [0, 1], [9, 9], [9, 8]])
    >>> generate.random_features(X, 2, n_partitions=3, random_state=0).shape
    (4, 3)
    """
    lloyd = _lloyd(n_init, max_iter, tol, verbose)
    X, device, home = matrix(X, device, distance, DISTANCES, dtype)
    n, d = X.shape
    n_clusters = checks.integer(n_clusters, "n_clusters", 1, n, "n_samples")
    n_partitions = checks.integer(n_partitions, "n_partitions", 1)
    seen = max(1, round(checks.ratio(feature_ratio, "feature_ratio") * d))

    def partition(i, rng):
        chosen = namespace(csr.entries(X)).asarray(sorted(rng.permutation(d)[:seen].tolist()))
        features = prepare(csr.columns(X, chosen), distance)
        labels = lloyd(features, n_clusters, rng)
        if distance != "sqeuclidean":
            labels[features.square == 0] = -1
        return labels

    return partitions(partition, random.generators(random_state, n_partitions), device, home, verbose)


def row_segments(
    X: Any,
    n_clusters: int,
    n_partitions: int = 100,
    row_ratio: float = 0.2,
    random_state: Any = None,
    device: str = "auto",
    *,
    distance: str = "sqeuclidean",
    n_init: int = 1,
    max_iter: int = 100,
    tol: float = 1e-4,
    dtype: Any = None,
    verbose: int = 0,
) -> Array:
    """Make base partitions of random subsets of the rows; the other rows have no label.

    Rows are dealt like cards from shuffled decks, so that each row is in as many segments as any other, or one more.

    Parameters
    ----------
    X : n x d matrix
        As in `random_k`.
    n_clusters : int
        The number of clusters of each partition.
    n_partitions : int
        The number of partitions, r. There must be enough for every row to get a label: r * row_ratio of at least 1.
    row_ratio : float
        The share of the rows that a partition clusters, more than 0 and at most 1.
    random_state, device, distance, n_init, max_iter, tol, dtype, verbose
        As in `random_k`.

    Returns
    -------
    array of int32, n x r
        Labels from 0 on, -1 for a row that is not in the segment; in the caller's library. Every row has a label.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import generate
    >>> X = np.array([[0.0, 0], [0, 1], [9, 9], [9, 8]])
    >>> (generate.row_segments(X, 2, n_partitions=3, row_ratio=0.5, random_state=0) >= 0).sum(axis=0)
    array([2, 2, 2])
    """
    lloyd = _lloyd(n_init, max_iter, tol, verbose)
    X, device, home = matrix(X, device, distance, DISTANCES, dtype)
    n = X.shape[0]
    size = math.ceil(checks.ratio(row_ratio, "row_ratio") * n)
    n_clusters = checks.integer(n_clusters, "n_clusters", 1, size, "rows of a segment")
    n_partitions = enough(n_partitions, n, size)
    hands, draws = random.dealt(n, size, n_partitions, random_state)
    segments = list(hands)
    with on(device):
        features = prepare(X, distance)

    def partition(i, rng):
        rows = to_device(segments[i], device)
        labels = namespace(rows).full(n, -1, "int32")
        labels[rows] = lloyd(features.take(rows), n_clusters, rng)
        return labels

    return partitions(partition, draws, device, home, verbose)


def _lloyd(n_init: int, max_iter: int, tol: float, verbose: int) -> Callable[[Features, int, Any], Array]:
    """Return k-means with these settings, which gives labels only."""
    n_init, max_iter = checks.integer(n_init, "n_init", 1), checks.integer(max_iter, "max_iter", 1)
    checks.integer(verbose, "verbose", 0)
    if not (isinstance(tol, numbers.Real) and float(tol) >= 0):
        raise ValueError(f"`tol` must be a number of at least 0, got {tol!r}.")
    run = functools.partial(kmeans, n_init=n_init, max_iter=max_iter, tol=float(tol))
    return lambda features, k, rng: run(features, k, rng).labels


def _k_range(k_range: Any, n: int) -> tuple[int, int]:
    """Return the pair of bounds, by default 2 and sqrt(n)."""
    return (min(2, n), min(n, max(2, round(math.sqrt(n))))) if k_range is None else pair(k_range, n)


def enough(n_partitions: Any, n: int, size: int) -> int:
    """Check that so many segments reach every row, and return their number.

    Parameters
    ----------
    n_partitions : int
        The number of segments.
    n : int
        The number of rows.
    size : int
        The number of rows of a segment.
    """
    n_partitions, least = checks.integer(n_partitions, "n_partitions", 1), -(-n // size)
    if n_partitions < least:
        rule = f"at least {least} for segments of {size} rows to reach all n_samples={n}"
        raise ValueError(f"`n_partitions` must be {rule}, got {n_partitions}.")
    return n_partitions
