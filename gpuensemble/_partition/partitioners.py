"""METIS and KaHyPar cut graphs and hypergraphs into parts of about equal weight; the extra `graph` brings them."""

import tempfile
from importlib import import_module
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from gpuensemble._array.rows import by_first_occurrence

UNITS = 10_000  # of the largest edge, which has to be an integer
MOST = 1 << 30  # of the sum of the weights of nodes, which are integers of 32 bits
IMBALANCE = 0.05  # that the paper of CSPA, HGPA and MCLA allows
# Direct k-way partitioning by the number of parts that an edge touches, after coarsening; all of what KaHyPar asks for.
SETTINGS = """
mode=direct
objective=km1
cmaxnet=-1
vcycles=0
p-use-sparsifier=false
p-detect-communities=false
c-type=heavy_lazy
c-s=3.25
c-t=160
c-rating-score=heavy_edge
c-rating-use-communities=false
c-rating-heavy_node_penalty=multiplicative
c-rating-acceptance-criterion=best
c-fixed-vertex-acceptance-criterion=free_vertex_only
i-mode=recursive
i-technique=multi
i-c-type=ml_style
i-c-s=1
i-c-t=150
i-c-rating-score=heavy_edge
i-c-rating-use-communities=false
i-c-rating-heavy_node_penalty=no_penalty
i-c-rating-acceptance-criterion=best
i-c-fixed-vertex-acceptance-criterion=fixed_vertex_allowed
i-algo=pool
i-runs=20
i-bp-algorithm=worst_fit
i-bp-heuristic-prepacking=false
i-bp-early-restart=true
i-bp-late-restart=true
i-r-type=twoway_fm
i-r-runs=-1
i-r-fm-stop=simple
i-r-fm-stop-i=50
r-type=kway_fm_km1
r-runs=-1
r-fm-stop=adaptive_opt
r-fm-stop-alpha=1
r-fm-stop-i=350
"""


def need(package: str, what: str) -> Any:
    """Return a package; raise ModuleNotFoundError in one sentence where it is not installed."""
    try:
        return import_module(package)
    except ImportError:
        rule = "install it with `pip install gpuensemble[graph]`"
        raise ModuleNotFoundError(f"{what} needs the package {package}, which is not installed: {rule}.") from None


def metis(similarity: Any, sizes: Any, n_parts: int, rng: Any) -> Any:
    """Cut a symmetric graph, dense or sparse, of nodes with such sizes; return parts numbered by first occurrence."""
    if n_parts == 1 or n_parts >= len(sizes):
        return np.arange(len(sizes), dtype="int32") % n_parts
    pymetis = import_module("pymetis")
    graph = csr_array(similarity)
    graph = csr_array(np.rint(graph * (UNITS / max(graph.max(), 1e-300))).astype("int32"))
    graph.setdiag(0)
    graph.eliminate_zeros()
    _, found = pymetis.part_graph(
        n_parts,
        pymetis.CSRAdjacency(graph.indptr, graph.indices),
        eweights=graph.data,
        vweights=_node_weights(sizes),
        options=pymetis.Options(seed=int(rng.integers(1 << 30))),
    )
    return by_first_occurrence(np.asarray(found))


def kahypar(onehot: Any, weight: Any, sizes: Any, n_parts: int, rng: Any) -> Any:
    """Cut the hypergraph whose edges are the columns of a sparse one-hot matrix; as `metis`."""
    if n_parts == 1 or n_parts >= len(sizes):
        return np.arange(len(sizes), dtype="int32") % n_parts
    kahypar = import_module("kahypar")
    edges = onehot.T.tocsr()
    used = np.flatnonzero(np.diff(edges.indptr) > 1)  # an edge of one node is never cut
    edges = edges[used]
    weights = np.maximum(1, np.rint(UNITS * weight[used])).astype("int64").tolist()
    graph = kahypar.Hypergraph(
        len(sizes), len(used), edges.indptr.tolist(), edges.indices.tolist(), n_parts, weights, _node_weights(sizes)
    )
    context = kahypar.Context()
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as file:
        file.write(SETTINGS)
        file.flush()
        context.loadINIconfiguration(file.name)
    context.setK(n_parts)
    context.setEpsilon(IMBALANCE)
    context.setSeed(int(rng.integers(1 << 30)))
    context.suppressOutput(True)
    kahypar.partition(graph, context)
    return by_first_occurrence(np.array([graph.blockID(node) for node in range(len(sizes))]))


def _node_weights(sizes: Any) -> list[int]:
    """Return integers of at least 1 in proportion to the sizes."""
    factor = min(1.0, MOST / float(sizes.sum()))
    return np.maximum(1, np.rint(sizes * factor)).astype("int64").tolist()
