"""Base partitions of neighbour graphs: communities of the graphs themselves, or k-means of their eigenvectors."""

from functools import partial
from typing import Any

from gpuensemble._array import checks, random, threads
from gpuensemble._array.devices import Array, namespace, on, to_device
from gpuensemble._array.progress import bar
from gpuensemble._graphs import graph as graphs
from gpuensemble._graphs import libraries
from gpuensemble._graphs.bridges import bridged
from gpuensemble._graphs.distances import of_matrix
from gpuensemble._graphs.embedding import embedded
from gpuensemble._graphs.louvain import louvain
from gpuensemble._graphs.nearest import METHODS, METRICS, nearest_rows
from gpuensemble._graphs.steering import Steering, steered
from gpuensemble._kmeans.features.distances import prepare
from gpuensemble._kmeans.features.lloyd import kmeans
from gpuensemble.generate._common import around, drawn, in_turn, jobs, matrix, partitions

NEIGHBORS = (5, 8, 10, 15, 20)
PROBES = 10  # of an inverted file
RUNS = 5  # of a search for communities, at most, until their number is in the range, or beyond it by less than NEAR
NEAR = 1.5


def neighbor_graph(
    X: Any,
    n_clusters: int,
    n_partitions: int = 20,
    *,
    k_range: tuple[int, int] | None = None,
    n_neighbors: Any = NEIGHBORS,
    method: str = "louvain",
    distance: str = "sqeuclidean",
    search: str = "auto",
    random_state: Any = None,
    device: str = "auto",
    dtype: Any = None,
    verbose: int = 0,
    n_jobs: int | None = None,
) -> Array:
    """Make base partitions that are communities of neighbour graphs: on most features the best way there is here.

    The nearest neighbours of every row are found once. Each partition joins every row with its q nearest, q in turn one
    of `n_neighbors`, and finds communities of the graph, whose resolution is steered to a random number of clusters.

    Parameters
    ----------
    X : n x d matrix
        As in `ConsensusClustering.fit`. Columns count by their spread: scale them first if their units differ.
    n_clusters : int
        The number of clusters, K, that the consensus is to have.
    n_partitions : int
        The number of partitions, r.
    k_range : pair of int, optional
        Least and largest number of clusters to steer to; numbers are drawn so that their logarithm is uniform. By
        default K and 2 K. A graph in separate parts has at least as many communities as parts.
    n_neighbors : int or several
        How many nearest neighbours a row is joined with, in turn; at most n - 1 are.
    method : {"louvain", "leiden"}
        How communities are found; "leiden" needs the package leidenalg, and works on the CPU.
    distance : {"sqeuclidean", "cosine"}
        How rows are compared; "cosine", by direction alone, for text and counts.
    search : {"auto", "exact", "inverted", "hnsw", "nndescent", "cuvs"}
        How neighbours are searched; see `neighbors.nearest`.
    random_state : None, int or numpy.random.Generator
        The seed of all draws. The result does not depend on the number of threads.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to work.
    dtype : {"float32", "float64"} or None
        The type of the features in the search; None keeps float32, and makes float64 of any other.
    verbose : int
        1: a progress bar on stderr.
    n_jobs : int, optional
        Most threads on the CPU; None is all.

    Returns
    -------
    array of int32, n x r
        Labels from 0 on, in the caller's library.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import generate
    >>> X = np.repeat([[0.0, 0], [9, 9]], 10, axis=0) + np.random.default_rng(0).random((20, 2))
    >>> generate.neighbor_graph(X, 2, n_partitions=3, n_neighbors=4, random_state=0, device="cpu").shape
    (20, 3)
    """
    checks.choice(method, "method", ("louvain", "leiden"))
    searching_in = libraries.leiden if method == "leiden" else lambda graph: partial(louvain, graph)
    checks.choice(search, "search", METHODS)
    sizes = _neighbor_counts(n_neighbors)
    X, device, home = matrix(X, device, distance, METRICS, dtype)
    n = X.shape[0]
    low, high = around(n_clusters, k_range, n, lambda k: 2 * k)
    r, n_jobs = checks.integer(n_partitions, "n_partitions", 1), jobs(n_jobs)
    verbose = checks.integer(verbose, "verbose", 0)
    first, *draws = random.generators(random_state, 1 + len(sizes))
    with on(device):
        rows = of_matrix(X, distance)
        near, _ = nearest_rows(rows, max(sizes), search, PROBES, first)
        labels = namespace(near).empty((n, r), "int32")
        # the largest graph first, so that threads end at about the same time
        order = sorted(range(min(len(sizes), r)), key=lambda i: -sizes[i])
        with bar("base partitions", verbose, r, "partition") as show:

            def of_size(i: int, rng: Any) -> None:
                graph = bridged(graphs.of_neighbors(near, min(sizes[i], n - 1)), rows, n_clusters, rng)
                find, steering, within = searching_in(graph), Steering(), (max(2, low / NEAR), high * NEAR)
                for column in range(i, r, len(sizes)):
                    target = drawn(low, high, rng)
                    found = steered(lambda gamma: find(gamma, rng, 1), target, RUNS, steering, within)
                    labels[:, column] = found
                    show()

            for _ in in_turn(of_size, order, [draws[i] for i in order], device, n_jobs):
                pass
    return to_device(labels, home)


def _neighbor_counts(value: Any) -> list[int]:
    """Check the numbers of neighbours, one or several."""
    values = value if isinstance(value, tuple | list) else [value]
    if not values:
        raise ValueError("`n_neighbors` must be an integer or several, got none.")
    return [checks.integer(q, "n_neighbors", 1) for q in values]


def spectral(
    X: Any,
    n_clusters: int,
    n_partitions: int = 20,
    *,
    k_range: tuple[int, int] | None = None,
    n_neighbors: int = 10,
    distance: str = "sqeuclidean",
    search: str = "auto",
    random_state: Any = None,
    device: str = "auto",
    dtype: Any = None,
    verbose: int = 0,
    n_jobs: int | None = None,
) -> Array:
    """Make base partitions by k-means of the eigenvectors of one neighbour graph.

    The leading eigenvectors of the graph's normalised Laplacian are found once; each partition clusters as many of them
    as it has clusters.

    Parameters
    ----------
    X, n_clusters, n_partitions, distance, search, random_state, device, dtype, verbose, n_jobs
        As in `neighbor_graph`.
    k_range : pair of int, optional
        Least and largest number of clusters; numbers are drawn so that their logarithm is uniform. By default K and
        2 K.
    n_neighbors : int
        How many nearest neighbours a row is joined with; at most n - 1 are.

    Returns
    -------
    array of int32, n x r
        Labels from 0 on, in the caller's library.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import generate
    >>> X = np.repeat([[0.0, 0], [9, 9]], 10, axis=0) + np.random.default_rng(0).random((20, 2))
    >>> generate.spectral(X, 2, n_partitions=3, n_neighbors=4, random_state=0, device="cpu").shape
    (20, 3)
    """
    checks.choice(search, "search", METHODS)
    q = checks.integer(n_neighbors, "n_neighbors", 1)
    X, device, home = matrix(X, device, distance, METRICS, dtype)
    n = X.shape[0]
    low, high = around(n_clusters, k_range, n, lambda k: 2 * k)
    r, n_jobs = checks.integer(n_partitions, "n_partitions", 1), jobs(n_jobs)
    verbose = checks.integer(verbose, "verbose", 0)
    first, *draws = random.generators(random_state, 1 + r)
    with on(device):
        rows = of_matrix(X, distance)
        found, _ = nearest_rows(rows, q, search, PROBES, first)
        graph = bridged(graphs.of_neighbors(found, min(q, n - 1)), rows, n_clusters, first)
        with threads.one_blas_thread():
            vectors = embedded(graph, min(high, n - 1), first)

    def partition(i: int, rng: Any) -> Array:
        k = drawn(low, high, rng)
        return kmeans(prepare(namespace(vectors).ascontiguousarray(vectors[:, :k]), "sqeuclidean"), k, rng).labels

    return partitions(partition, draws, device, home, verbose, n_jobs)
