"""Base partitions of one graph: its communities by Leiden's method, at several resolutions and from several seeds."""

from typing import Any

from gpuensemble._array import checks, random
from gpuensemble._array.devices import Array, on
from gpuensemble._graphs import graph as graphs
from gpuensemble._graphs import libraries
from gpuensemble._graphs.distances import of_matrix
from gpuensemble._graphs.graph import Graph
from gpuensemble._graphs.nearest import METHODS, METRICS, nearest_rows
from gpuensemble.generate._common import matrix, partitions
from gpuensemble.generate.graphs import PROBES

RESOLUTIONS = (0.2, 0.5, 1.0, 1.5, 2.0)


def leiden(
    X: Any = None,
    resolutions: Any = RESOLUTIONS,
    n_seeds: int = 4,
    *,
    graph: Any = None,
    n_neighbors: int = 15,
    n_iterations: int = 2,
    distance: str = "sqeuclidean",
    search: str = "auto",
    random_state: Any = None,
    device: str = "auto",
    dtype: Any = None,
    verbose: int = 0,
) -> Array:
    """Make base partitions by Leiden's method, of a graph or of the neighbour graph of features.

    It needs the extra `leiden` (`pip install "gpuensemble[leiden]"`), and finds communities on the CPU, one partition
    after the other.

    Parameters
    ----------
    X : n x d matrix, optional
        Features, as in `neighbor_graph`; either these or `graph`. A square sparse matrix may be features or a graph:
        it is taken as `graph=` only, and features of that shape must be dense.
    resolutions : float or several
        More than 0 and different; the larger, the more communities.
    n_seeds : int
        How many partitions are made at each resolution.
    graph : symmetric n x n matrix, optional
        The weights of edges, at least 0, as in `communities.louvain`.
    n_neighbors : int
        How many nearest rows a row of X is joined with; at most n - 1 are. A pair that chose each other weighs twice.
    n_iterations : int
        Of Leiden's method.
    distance, search, dtype
        Of the search for neighbours, as in `neighbor_graph`.
    random_state : None, int or numpy.random.Generator
        The seed of all draws.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where neighbours are searched.
    verbose : int
        1: a progress bar on stderr.

    Returns
    -------
    array of int32, n x (resolutions * seeds)
        Labels from 0 on, in the caller's library: all partitions of the first resolution, then those of the next.

    Notes
    -----
    Traag, Waltman, van Eck: From Louvain to Leiden: guaranteeing well-connected communities, Scientific Reports, 2019.
    A graph in separate parts has at least as many communities as parts.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import generate
    >>> graph = np.kron(np.eye(2), np.ones((4, 4)))  # two groups without an edge between them
    >>> generate.leiden(graph=graph, resolutions=(0.5, 1.0), n_seeds=1, random_state=0, device="cpu").T
    array([[0, 0, 0, 0, 1, 1, 1, 1],
           [0, 0, 0, 0, 1, 1, 1, 1]], dtype=int32)
    """
    gammas = checked_resolutions(resolutions)
    n_seeds = checks.integer(n_seeds, "n_seeds", 1)
    n_iterations = checks.integer(n_iterations, "n_iterations", 1)
    n_neighbors, verbose = checks.integer(n_neighbors, "n_neighbors", 1), checks.integer(verbose, "verbose", 0)
    checks.choice(search, "search", METHODS)
    first, *draws = random.generators(random_state, 1 + len(gammas) * n_seeds)
    _refuse_doubt(X, graph)
    if graph is not None:
        weights, device, home = graphs.checked(graph, device)
        with on(device):
            edges = graphs.of_matrix(weights)
    else:
        X, device, home = matrix(X, device, distance, METRICS, dtype)
        edges = _of_features(X, n_neighbors, distance, search, device, first)
    with on(device):
        find = libraries.leiden(edges)
    # leidenalg holds Python's lock: threads would gain nothing
    return partitions(lambda i, rng: find(gammas[i // n_seeds], rng, n_iterations), draws, device, home, verbose, 1)


def checked_resolutions(value: Any) -> list[float]:
    """Check one or several resolutions."""
    values = list(value) if hasattr(value, "__iter__") else [value]
    if not values:
        raise ValueError("`resolutions` must be a number or several, got none.")
    found = [checks.number(one, "resolutions", 0) for one in values]
    twice = next((one for i, one in enumerate(found) if one in found[:i]), None)
    if twice is not None:
        raise ValueError(f"`resolutions` must be different, got {twice:g} twice; `n_seeds` makes more of each.")
    return found


def _refuse_doubt(X: Any, graph: Any) -> None:
    """Raise unless there are either features or a graph, and no features that could be a graph."""
    if (X is None) == (graph is None):
        raise TypeError(f"`leiden` must be given either `X` or `graph`, got {'neither' if X is None else 'both'}.")
    if hasattr(X, "tocsr") and len(X.shape) == 2 and X.shape[0] == X.shape[1]:
        rule = "must not be sparse and square, as it may be a graph"
        raise ValueError(f"`X` {rule}: give a graph as `graph=`, and features dense, got shape {X.shape}.")


def _of_features(X: Any, q: int, distance: str, search: str, device: str, rng: Any) -> Graph:
    """Join each row with its q nearest."""
    with on(device):
        near, _ = nearest_rows(of_matrix(X, distance), q, search, PROBES, rng)
        return graphs.of_neighbors(near, min(q, X.shape[0] - 1))
