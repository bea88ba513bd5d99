"""Base partitions of random rows and columns by any clusterer, as in consensus clustering by resampling."""

import inspect
import math
from collections.abc import Callable
from typing import Any

from gpuensemble._array import checks, csr, random
from gpuensemble._array.csr import Csr
from gpuensemble._array.devices import Array, namespace, to_device
from gpuensemble._kmeans.features.distances import DISTANCES, prepare
from gpuensemble._kmeans.features.lloyd import kmeans
from gpuensemble.generate._common import jobs, matrix, partitions
from gpuensemble.generate.kmeans import enough


def subsample(
    X: Any,
    n_clusters: int,
    n_partitions: int = 100,
    *,
    clusterer: Any = "kmeans",
    row_ratio: float = 0.8,
    feature_ratio: float = 1.0,
    distance: str = "sqeuclidean",
    random_state: Any = None,
    device: str = "auto",
    dtype: Any = None,
    verbose: int = 0,
    n_jobs: int | None = None,
) -> Array:
    """Make base partitions of random rows and columns by any clusterer (Monti et al. 2003); other rows have no label.

    Rows and columns are dealt like cards from shuffled decks, so that each is used as often as any other, or once more.

    Parameters
    ----------
    X, n_clusters, device, dtype, verbose, n_jobs
        As in `neighbor_graph`.
    n_partitions : int
        The number of partitions, r. There must be enough for every row to get a label: r * row_ratio of at least 1.
    clusterer : "kmeans", an estimator, or a function
        "kmeans" is that of `random_k`. An estimator of scikit-learn's kind is cloned for each partition; its
        `n_clusters` and `random_state` are set if it has them. A function is called with the rows, n_clusters and a
        seed, and returns a label for each row; -1 is a row without one. Both get arrays, or sparse matrices, on the
        host, and are called in this thread, one partition after another.
    row_ratio, feature_ratio : float
        The shares of the rows and of the columns that a partition sees, more than 0 and at most 1.
    distance : {"sqeuclidean", "cosine", "kl"}
        Of "kmeans". For "cosine" and "kl" a row that is all zero in the columns of a partition has no label there.
    random_state : None, int or numpy.random.Generator
        The seed of all draws.

    Returns
    -------
    array of int32, n x r
        Labels from 0 on, -1 for a row that was left out; in the caller's library.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.cluster import AgglomerativeClustering
    >>> from gpuensemble import generate
    >>> X = np.array([[0.0, 0], [0, 1], [9, 9], [9, 8]])
    >>> generate.subsample(X, 2, 3, clusterer=AgglomerativeClustering(), row_ratio=0.75, random_state=0).shape
    (4, 3)
    """
    own = isinstance(clusterer, str)
    if own:
        checks.choice(clusterer, "clusterer", ("kmeans",))
    X, device, home = matrix(X, device, distance if own else "sqeuclidean", DISTANCES, dtype)
    n, d = X.shape
    size = math.ceil(checks.ratio(row_ratio, "row_ratio") * n)
    n_seen = max(1, round(checks.ratio(feature_ratio, "feature_ratio") * d))
    n_clusters = checks.integer(n_clusters, "n_clusters", 1, size, "rows of a partition")
    r = enough(n_partitions, n, size)
    of_rows, of_columns = random.sequence(random_state).spawn(2)
    hands, draws = random.dealt(n, size, r, of_rows)
    columns, _ = random.dealt(d, n_seen, r, of_columns)
    dealt = list(zip(hands, columns, strict=True))
    find = _own(distance) if own else _foreign(clusterer)

    def partition(i: int, rng: Any) -> Array:
        rows, chosen = (to_device(part, device) for part in dealt[i])
        some = csr.some_rows(X, rows)
        labels = namespace(rows).full(n, -1, "int32")
        labels[rows] = find(some if n_seen == d else csr.columns(some, chosen), n_clusters, rng)
        return labels

    n_jobs = jobs(n_jobs) if own else 1
    return partitions(partition, draws, device, home, checks.integer(verbose, "verbose", 0), n_jobs)


def _own(distance: str) -> Callable:
    """Return k-means, by which a row of zeros has no label where only directions count."""

    def find(X: Any, n_clusters: int, rng: Any) -> Array:
        features = prepare(X, distance)
        labels = kmeans(features, n_clusters, rng).labels
        if distance != "sqeuclidean":
            labels[features.square == 0] = -1
        return labels

    return find


def _foreign(clusterer: Any) -> Callable:
    """Return what asks the caller's estimator or function for labels, and checks them."""
    if not (hasattr(clusterer, "fit_predict") or callable(clusterer)) or inspect.isclass(clusterer):
        rule = '"kmeans", an estimator with `fit_predict`, or a function'
        raise TypeError(f"`clusterer` must be {rule}, got {type(clusterer).__name__}.")

    def find(X: Any, n_clusters: int, rng: Any) -> Array:
        given, seed = _on_host(X), int(rng.integers(1 << 31))
        if hasattr(clusterer, "fit_predict"):
            found = _cloned(clusterer, n_clusters, seed).fit_predict(given)
        else:
            found = clusterer(given, n_clusters, seed)
        xp = namespace(X.data if isinstance(X, Csr) else X)
        found = xp.asarray(checks.vector(found, "labels of `clusterer`", "cpu", X.shape[0], "iu"))
        _, codes = xp.unique(xp.where(found < 0, -1, found), return_inverse=True)
        return codes - int((found < 0).any())

    return find


def _on_host(X: Any) -> Any:
    """Return an array of NumPy, or a sparse matrix of SciPy."""
    if not isinstance(X, Csr):
        return to_device(X, "cpu")
    from scipy.sparse import csr_matrix

    return csr_matrix(tuple(to_device(part, "cpu") for part in (X.data, X.indices, X.indptr)), shape=X.shape)


def _cloned(clusterer: Any, n_clusters: int, seed: int) -> Any:
    """Copy an estimator, with the number of clusters and the seed set where it has them."""
    from sklearn.base import clone

    copy = clone(clusterer)
    given = {"n_clusters": n_clusters, "n_components": n_clusters, "random_state": seed}
    there = copy.get_params(deep=False)
    return copy.set_params(**{name: value for name, value in given.items() if name in there})
