"""The nearest rows of every row of a feature matrix."""

from typing import Any, NamedTuple

from gpuensemble._array import checks, csr, frames, random
from gpuensemble._array.devices import Array, choose_device, device_of, on, to_device
from gpuensemble._graphs.distances import by_distance, of_matrix
from gpuensemble._graphs.nearest import METHODS, METRICS, measured_recall, nearest_rows


class Neighbors(NamedTuple):
    """The nearest rows of every row, the nearest first.

    Attributes
    ----------
    indices : array of int32, n x q
        The rows.
    distances : array of float64, n x q
        Their distances: squared Euclidean, or 1 minus the cosine.
    method : str
        How they were searched: "exact", "inverted", "hnsw", "nndescent" or "cuvs".
    recall : float
        The share of the true neighbours that were found: 1 for an exact search, else measured on 500 random rows.
    """

    indices: Array
    distances: Array
    method: str
    recall: float


def nearest(
    X: Any,
    n_neighbors: int = 20,
    metric: str = "sqeuclidean",
    *,
    method: str = "auto",
    n_probes: int = 10,
    random_state: Any = None,
    device: str = "auto",
) -> Neighbors:
    """Find the nearest rows of every row, itself left out.

    Parameters
    ----------
    X : n x d matrix
        As in `ConsensusClustering.fit`. float32 stays float32; any other type becomes float64.
    n_neighbors : int
        How many, q; at most n - 1 are found.
    metric : {"sqeuclidean", "cosine"}
        |x - y|^2, or 1 - x.y / (|x| |y|), for which no row may be all zero.
    method : {"auto", "exact", "inverted", "hnsw", "nndescent", "cuvs"}
        "exact" compares all rows, by blocks of products. "inverted" compares a row with those of the nearest lists of
        an inverted file, sqrt(n) lists that k-means makes. "hnsw", "nndescent" and "cuvs" ask the packages hnswlib,
        pynndescent (for dense rows, on the CPU) and cuVS (for dense rows, on a GPU), if they are installed. "auto" is
        "exact" where n n d is at most 10**11 (10**14 on a GPU), beyond that "cuvs" on a GPU that has it, else
        "inverted".
    n_probes : int
        How many lists of the inverted file a row looks into.
    random_state : None, int or numpy.random.Generator
        The seed of all draws.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to work.

    Returns
    -------
    Neighbors
        `indices`, `distances`, `method`, and `recall`: the share of the true neighbours that were found, which is
        measured on 500 rows where the search is not exact. Arrays are in the caller's library.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import neighbors
    >>> neighbors.nearest(np.array([[0.0], [1], [3], [7]]), 2, device="cpu").indices
    array([[1, 2],
           [0, 2],
           [1, 0],
           [2, 1]], dtype=int32)
    """
    checks.choice(metric, "metric", METRICS)
    checks.choice(method, "method", METHODS)
    n_neighbors, n_probes = checks.integer(n_neighbors, "n_neighbors", 1), checks.integer(n_probes, "n_probes", 1)
    X = frames.features(X)
    entries = csr.entries(X)
    device, home = choose_device(device, entries), device_of(entries)
    with on(device):
        X = csr.matrix(X, "X", device)
        csr.refuse_unfit(X, "X", metric)
        (rng,) = random.generators(random_state, 1)
        rows = of_matrix(X, metric)
        found, method = nearest_rows(rows, n_neighbors, method, n_probes, rng)
        recall = 1.0 if method == "exact" else measured_recall(rows, found, rng)
        indices, distances = by_distance(rows, found)
    distances = distances / 2 if metric == "cosine" else distances
    return Neighbors(to_device(indices.astype("int32"), home), to_device(distances, home), method, recall)
