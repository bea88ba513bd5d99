"""Packages that search for nearest rows or for communities, behind one function each; none of them is needed."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gpuensemble._array import threads
from gpuensemble._array.csr import Csr
from gpuensemble._array.devices import Array, namespace, to_host
from gpuensemble._graphs.distances import Rows
from gpuensemble._graphs.graph import Graph
from gpuensemble._graphs.search import completed

LIBRARIES = {"hnsw": "hnswlib", "nndescent": "pynndescent", "cuvs": "cuvs"}
SPARE = 10  # more neighbours than asked for make the search of pynndescent better
LINKS, WIDTH = 16, 200  # of hnswlib's graph


def is_there(method: str) -> bool:
    """Tell whether the package of a method is installed."""
    return find_spec(LIBRARIES[method]) is not None


def search(rows: Rows, q: int, method: str, rng: Any) -> Array:
    """Ask a package for the q nearest of dense rows; rows for which it finds fewer are searched exactly."""
    if not is_there(method):
        name = LIBRARIES[method]
        raise ModuleNotFoundError(f'`method` = "{method}" needs a package that is not there: pip install {name}.')
    if isinstance(rows.X, Csr):
        raise ValueError(f'`X` must be dense for `method` = "{method}", got a sparse matrix; "inverted" takes both.')
    if (rows.device == "cpu") == (method == "cuvs"):
        raise ValueError(f'`method` must work on the device, {rows.device}, got "{method}".')
    found = {"hnsw": _hnsw, "nndescent": _nndescent, "cuvs": _cuvs}[method](rows.X, q, int(rng.integers(1 << 31)))
    return completed(rows, _without_self(found, q))


def _hnsw(X: Array, q: int, seed: int) -> Array:
    """Ask hnswlib; one thread adds the rows, as several would make another graph each time."""
    index = import_module("hnswlib").Index("l2", X.shape[1])
    index.init_index(len(X), M=LINKS, ef_construction=WIDTH, random_seed=seed)
    index.add_items(X, num_threads=1)
    index.set_ef(max(100, 2 * q))
    found, _ = index.knn_query(X, k=q + 1, num_threads=threads.count())
    return found.astype("int64")


def _nndescent(X: Array, q: int, seed: int) -> Array:
    more = min(len(X), q + 1 + SPARE)
    index = import_module("pynndescent").NNDescent(X, n_neighbors=more, random_state=seed, n_jobs=threads.count())
    return index.neighbor_graph[0].astype("int64")


def _cuvs(X: Array, q: int, seed: int) -> Array:
    """Ask the graph index of cuVS, which takes float32."""
    cagra, xp, X = import_module("cuvs.neighbors.cagra"), namespace(X), X.astype("float32", copy=False)
    index = cagra.build(cagra.IndexParams(metric="sqeuclidean"), X)
    answers = (xp.asarray(part) for part in cagra.search(cagra.SearchParams(rand_xor_mask=seed), index, X, q + 1))
    return next(part for part in answers if part.dtype.kind in "iu").astype("int64")  # beside distances


def _without_self(found: Array, q: int) -> Array:
    """Return the first q of each row that are not the row itself; -1 stands for one that lacks."""
    xp = namespace(found)
    found = xp.where(found == xp.arange(len(found))[:, None], -1, found)
    last = xp.argsort(found < 0, axis=1, kind="stable")
    return xp.take_along_axis(found, last, axis=1)[:, :q]


def leiden(graph: Graph) -> Callable[[float, Any, int], Array]:
    """Return a search for communities of a graph by the package leidenalg, on the CPU.

    It is called with a resolution, a generator and a number of iterations.
    """
    try:
        import igraph
        import leidenalg
    except ImportError:
        raise ModuleNotFoundError(
            'Leiden\'s method needs a package that is not there: pip install "gpuensemble[leiden]".'
        ) from None
    row, column, weight = (to_host(part) for part in (graph.rows(), graph.indices, graph.weights))
    once = row <= column
    edges = igraph.Graph(n=graph.n_nodes, edges=list(zip(row[once].tolist(), column[once].tolist(), strict=True)))
    ends = 1 + (row == column)  # of an edge to itself the diagonal has both ends, igraph the edge
    weights, kind = (weight / ends)[once].tolist(), leidenalg.RBConfigurationVertexPartition

    def search(resolution: float, rng: Any, n_iterations: int) -> Array:
        options = {"resolution_parameter": resolution, "n_iterations": n_iterations, "seed": int(rng.integers(1 << 31))}
        found = leidenalg.find_partition(edges, kind, weights=weights, **options).membership
        return namespace(graph.indptr).asarray(found, "int32")

    return search
