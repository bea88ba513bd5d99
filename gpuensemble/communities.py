"""Communities of a graph: groups of nodes with more weight between them than chance would put there."""

from typing import Any

from gpuensemble._array import checks, random
from gpuensemble._array.devices import Array, namespace, on, to_device
from gpuensemble._graphs import graph as graphs
from gpuensemble._graphs import louvain as parallel
from gpuensemble._graphs.steering import steered

STEERED_RUNS = 10  # for a wanted number of communities, at most


def louvain(
    graph: Any,
    resolution: float = 1.0,
    target_clusters: int | None = None,
    *,
    n_iterations: int = 4,
    random_state: Any = None,
    device: str = "auto",
) -> Array:
    """Find communities of high modularity, all nodes at once.

    Parameters
    ----------
    graph : symmetric n x n matrix
        Sparse, of SciPy or CuPy, or dense: the weights of edges, at least 0. Weights that are not all integers are
        rounded to a 2**-20th of the largest, so that sums of them are the same in any order. So are integers that add
        up to 2**53 or more.
    resolution : float
        More than 0; the larger, the more communities.
    target_clusters : int, optional
        Steer the resolution to this number of communities, in at most ten runs; the run that comes nearest counts.
        `resolution` is not used then. A graph in separate parts has at least as many communities as parts.
    n_iterations : int
        The first finds communities, each further one improves them.
    random_state : None, int or numpy.random.Generator
        The seed of all draws.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to work.

    Returns
    -------
    array of n int32
        Labels from 0 on, by first occurrence, in the caller's library. They are the same on every device.

    Notes
    -----
    Louvain's method in parallel: every node moves to the community where it gains most, by a coin, until few gain; then
    communities become nodes. Between two iterations the communities are taken apart as in Leiden's method.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import communities
    >>> graph = np.kron(np.eye(2), np.ones((4, 4)))  # two groups without an edge between them
    >>> communities.louvain(graph, random_state=0, device="cpu")
    array([0, 0, 0, 0, 1, 1, 1, 1], dtype=int32)
    """
    resolution = checks.number(resolution, "resolution", 0)
    n_iterations = checks.integer(n_iterations, "n_iterations", 1)
    matrix, device, home = graphs.checked(graph, device)
    (rng,) = random.generators(random_state, 1)
    with on(device):
        checked = graphs.of_matrix(matrix)
        if target_clusters is None:
            labels = parallel.louvain(checked, resolution, rng, n_iterations)
        else:
            target = checks.integer(target_clusters, "target_clusters", 1, checked.n_nodes, "n_nodes")
            labels = steered(lambda gamma: parallel.louvain(checked, gamma, rng, n_iterations), target, STEERED_RUNS)
    return to_device(labels, home)


def modularity(graph: Any, labels: Any, resolution: float = 1.0, *, device: str = "auto") -> float:
    """Return the share of the weight inside of communities, less `resolution` times what chance would put there.

    Parameters
    ----------
    graph, device
        As in `louvain`.
    labels : array of n integers
        The community of each node.
    resolution : float
        More than 0.

    Returns
    -------
    float
        At most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import communities
    >>> communities.modularity(np.kron(np.eye(2), np.ones((4, 4))), [0, 0, 0, 0, 1, 1, 1, 1], device="cpu")
    0.5
    """
    resolution = checks.number(resolution, "resolution", 0)
    matrix, device, _ = graphs.checked(graph, device)
    with on(device):
        checked = graphs.of_matrix(matrix)
        labels = checks.vector(labels, "labels", device, checked.n_nodes, "iu")
        _, labels = namespace(labels).unique(labels, return_inverse=True)
        if not len(checked.weights):
            raise ValueError("`graph` must have an edge, as shares of no weight are not defined, got none.")
        return graphs.modularity(checked, labels, resolution)
