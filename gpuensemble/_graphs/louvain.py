"""Louvain's method with all nodes at once: each goes to its best community, by a coin, as it sees the others now.

Blondel et al., Journal of Statistical Mechanics, 2008, in parallel. A node that gains by a move makes it with
probability 1/2, so that two nodes seldom swap. Weights are integers, coins are hashes, and the worth of a move is three
rounded operations: labels are the same on every device and for any number of threads.
"""

from typing import Any

from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._graphs.graph import Graph, by_rows
from gpuensemble._kernels.cpu.graphs import communities as cpu

SWEEPS = 12  # of a level, at most
SETTLED = 0.005  # sweeps end when no more than this share of the nodes could still gain


def louvain(graph: Graph, resolution: float, rng: Any, n_iterations: int) -> Array:
    """Find communities of high modularity; labels are numbered from 0 by their first node.

    Further iterations begin with parts of the communities found, which are made from single nodes by moves inside of a
    community (as in Leiden's method: Traag, Waltman, van Eck, Scientific Reports, 2019), so that what joined too early
    can part again.
    """
    label = _joined(graph, _own(graph), resolution, rng)
    for _ in range(n_iterations - 1):
        parts = by_first_occurrence(_swept(_inside(graph, label), _own(graph), resolution, rng, graph.degrees()))
        _, first = namespace(parts).unique(parts, return_index=True)
        of_part = label[first]  # each part is inside of one community
        level = contracted(graph, parts, len(of_part))
        label = _settled(graph, _joined(level, by_first_occurrence(of_part), resolution, rng)[parts], resolution, rng)
    return label


def _joined(graph: Graph, label: Array, resolution: float, rng: Any) -> Array:
    """Let nodes move, make communities the nodes of a smaller graph, and so on; then let nodes move on the way back."""
    found = _settled(graph, label, resolution, rng)
    n_found = int(found.max()) + 1
    if n_found == graph.n_nodes:
        return found
    level = contracted(graph, found, n_found)
    return _settled(graph, _joined(level, _own(level), resolution, rng)[found], resolution, rng)


def _own(graph: Graph) -> Array:
    """Label each node by itself."""
    return namespace(graph.indptr).arange(graph.n_nodes, dtype="int32")


def _inside(graph: Graph, label: Array) -> Graph:
    """Return the graph without the edges between communities."""
    xp = namespace(label)
    kept = xp.nonzero(label[graph.rows()] == label[graph.indices])[0]
    return Graph(xp.searchsorted(kept, graph.indptr), graph.indices[kept], graph.weights[kept])


def _settled(graph: Graph, label: Array, resolution: float, rng: Any) -> Array:
    return by_first_occurrence(_swept(graph, label, resolution, rng, graph.degrees()))


def _swept(graph: Graph, label: Array, resolution: float, rng: Any, degree: Array) -> Array:
    """Let nodes move, all at once, until few gain."""
    xp = namespace(label)
    n = graph.n_nodes
    scale = resolution / max(float(degree.sum()), 1.0)
    for _ in range(SWEEPS):
        target, gaining = best_moves(graph, degree, label, xp.bincount(label, degree, n), scale)
        if not gaining:
            break
        moving = (target != label) & _coins(xp, n, int(rng.integers(1 << 62)))
        label = xp.where(moving, target, label)
        if gaining <= SETTLED * n:
            break
    return label


def best_moves(graph: Graph, degree: Array, label: Array, volume: Array, scale: float) -> tuple[Array, int]:
    """Find the community where each node gains most, its own if none is better, and how many nodes gain."""
    xp = namespace(label)
    if device_of(label) == "cpu":
        target = xp.empty_like(label)
        return target, int(cpu.best_moves(*graph, degree, label, volume, scale, target))
    node, shared, community = _shared(graph, label)
    own = community == label[node]
    price = scale * degree
    stay = -(price * (volume[label] - degree))
    stay[node[own]] += shared[own]
    node, shared, community = node[~own], shared[~own], community[~own]
    worth = shared - price[node] * volume[community]
    order = xp.lexsort(xp.stack([community, -worth, node]))
    node, worth, community = node[order], worth[order], community[order]
    first = xp.nonzero(xp.diff(node, prepend=-1))[0]
    node, worth, community = node[first], worth[first], community[first]
    gaining = worth > stay[node]
    target = label.copy()
    target[node[gaining]] = community[gaining].astype("int32")
    return target, int(gaining.sum())


def _shared(graph: Graph, label: Array) -> tuple[Array, Array, Array]:
    """Sum the weights between each node and each community that has a neighbour of it: node, sum, community."""
    xp = namespace(label)
    n, node = graph.n_nodes, graph.rows()
    others = xp.nonzero(node != graph.indices)[0]
    keys, which = xp.unique(node[others] * n + label[graph.indices[others]], return_inverse=True)
    return keys // n, xp.bincount(which, graph.weights[others], len(keys)), keys % n


def contracted(graph: Graph, label: Array, n_communities: int) -> Graph:
    """Make communities the nodes of a graph: S'AS."""
    xp = namespace(label)
    if device_of(label) == "cpu":
        return Graph(*cpu.contracted(*graph, label, n_communities))
    keys = label[graph.rows()].astype("int64") * n_communities + label[graph.indices]
    keys, which = xp.unique(keys, return_inverse=True)
    return by_rows(keys, xp.bincount(which, graph.weights, len(keys)), n_communities)


def _coins(xp: Any, n: int, seed: int) -> Array:
    """Throw a coin for each node: a bit of a hash of its number and the seed."""
    value = xp.arange(n, dtype="uint64") + xp.uint64(seed)
    for _ in range(2):
        value *= xp.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying loses nothing
        value ^= value >> xp.uint64(29)
    return (value >> xp.uint64(40)) & xp.uint64(1) == 1
