"""A neighbour graph in separate parts is joined: few rows of each part are linked to the nearest rows outside of it.

A group of rows that are nearly the same is a part of its own, and no partition of the graph would ever join it with
others. A part that is small for a cluster is linked as strongly as it holds together, so that it joins one; a large
part is linked by single edges, which matter only where fewer clusters are wanted than there are parts.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from gpuensemble._array.devices import device_of, to_device, to_host
from gpuensemble._graphs.graph import Graph, with_edges
from gpuensemble._graphs.search import Rows, exact

SMALL = 0.1  # of the mean size of a cluster: a part with fewer rows is small
LINKED = {"small": 32, "large": 3}  # rows of a part that are linked, at most
ROUNDS = 20  # at most; each leaves half as many parts, or fewer
PRODUCTS, LEAST = 1e10, 256  # of the search of a round, n * d for each linked row; but at least so many rows


def bridged(graph: Graph, rows: Rows, n_clusters: int, rng: Any) -> Graph:
    """Join the parts of a neighbour graph of these rows, which is to have about so many clusters."""
    for _ in range(ROUNDS):
        parts = _parts(graph)
        sizes = np.bincount(parts)
        if len(sizes) == 1:
            break
        chosen, weights = _linked(graph, parts, sizes, n_clusters, rng, rows.X.shape)
        device = device_of(graph.indptr)
        chosen, weights = to_device(chosen, device), to_device(weights, device)
        others = exact(rows, 1, chosen, to_device(parts, device))[:, 0]
        graph = with_edges(graph, chosen, others, weights)
    return graph


def _parts(graph: Graph) -> Any:
    """Number the connected parts of a graph, on the host."""
    pointers, indices = to_host(graph.indptr), to_host(graph.indices)
    n = graph.n_nodes
    ones = np.ones(len(indices), np.int8)
    return connected_components(csr_array((ones, indices, pointers), shape=(n, n)), directed=False)[1].astype(np.int64)


def _linked(graph: Graph, parts: Any, sizes: Any, n_clusters: int, rng: Any, shape: tuple[int, int]) -> tuple[Any, Any]:
    """Choose rows of all parts but the largest, at random, and how strongly each of them is to be linked."""
    n, d = shape
    small = sizes < SMALL * n / n_clusters
    most = np.where(small, LINKED["small"], LINKED["large"])
    most[sizes.argmax()] = 0
    order = rng.permutation(n)
    order = order[np.argsort(parts[order], kind="stable")]
    rank = np.arange(n) - (np.cumsum(sizes) - sizes)[parts[order]]
    kept = rank < most[parts[order]]
    # where a round cannot take all, it takes one of each part before the second of any
    order = order[kept][np.argsort(rank[kept], kind="stable")][: max(LEAST, int(PRODUCTS / (n * d)))]
    volume = np.bincount(parts, to_host(graph.degrees()))
    taken = np.bincount(parts[order], minlength=len(sizes))
    weights = np.where(small, volume / np.maximum(taken, 1), 1.0)[parts[order]]
    return order, np.maximum(np.rint(weights), 1).astype(np.int64)
