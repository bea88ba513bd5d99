"""Louvain's method: modularity beside leidenalg's, the same labels on every device, and one sentence for bad input."""

import random

import igraph
import leidenalg
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from gpuensemble import communities, neighbors
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._graphs import graph as graphs
from gpuensemble._graphs import louvain


def of_neighbors(X, q):
    found = neighbors.nearest(X, q, device="cpu").indices
    edges = np.stack([np.repeat(np.arange(len(X)), q), found.ravel()], 1)
    return igraph.Graph(n=len(X), edges=edges).simplify()


def of_blocks(group, rng):
    """A stochastic block model; igraph's own takes other arguments in its first version than before."""
    chance = np.where(group[:, None] == group, 0.055, 0.005)
    return igraph.Graph(n=len(group), edges=np.argwhere(np.triu(rng.random(chance.shape) < chance, 1)))


def ten_graphs():
    random.seed(0)
    rng = np.random.default_rng(0)
    blobs = rng.normal(size=(3000, 5)) + 4 * rng.normal(size=(12, 5))[rng.integers(12, size=3000)]
    return {
        "karate": igraph.Graph.Famous("Zachary"),
        "digits 5": of_neighbors(load_digits().data, 5),
        "digits 20": of_neighbors(load_digits().data, 20),
        "clusters": of_neighbors(blobs, 10),
        "noise": of_neighbors(rng.normal(size=(2000, 10)), 10),
        "line": of_neighbors(rng.normal(size=(2000, 1)), 6),
        "lattice": igraph.Graph.Lattice([40, 40]),
        "Barabasi": igraph.Graph.Barabasi(2000, 5),
        "Erdos-Renyi": igraph.Graph.Erdos_Renyi(n=2000, m=10_000),
        "blocks": of_blocks(np.repeat(np.arange(5), 200), rng),
    }


GRAPHS = ten_graphs()


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("resolution", [1.0, 3.0])
def test_modularity_is_within_one_percent_of_leidenalg(name, resolution):
    graph = GRAPHS[name]
    matrix = graph.get_adjacency_sparse()
    labels = communities.louvain(matrix, resolution, random_state=0, device="cpu")
    kind = leidenalg.RBConfigurationVertexPartition
    theirs = leidenalg.find_partition(graph, kind, seed=0, resolution_parameter=resolution).membership
    ours, peer = (
        communities.modularity(matrix, found, resolution, device="cpu") for found in (labels, np.array(theirs))
    )
    assert ours >= 0.99 * peer


@pytest.mark.parametrize("weighted", [False, True])
def test_modularity_is_that_of_igraph(weighted):
    rng = np.random.default_rng(0)
    graph = igraph.Graph.Erdos_Renyi(n=60, m=300)
    graph.add_edge(3, 3)
    graph.es["weight"] = rng.integers(1, 9 if weighted else 2, size=301).tolist()
    labels = rng.integers(4, size=60)
    matrix = graph.get_adjacency_sparse("weight").toarray()
    matrix[3, 3] = 2 * graph.es["weight"][-1]  # an edge to itself has two ends
    expected = graph.modularity(labels.tolist(), weights="weight", resolution=1.3, directed=False)
    assert communities.modularity(matrix, labels, 1.3, device="cpu") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["karate", "blocks", "line"])
def test_every_library_finds_the_same(xp, name):
    matrix = GRAPHS[name].get_adjacency_sparse()[:300, :300]
    expected = communities.louvain(matrix, random_state=3, device="cpu")
    found = communities.louvain(xp.asarray(matrix.toarray()), random_state=3)
    assert namespace(found) is xp
    np.testing.assert_array_equal(to_host(found), expected)
    assert expected.dtype == np.int32


def literal_best_moves(matrix, degree, label, volume, scale):
    """The community where each node gains most, by its definition, one node at a time."""
    target = label.copy()
    for i in range(len(label)):
        others = [j for j in np.flatnonzero(matrix[i]) if j != i]
        shared = {c: sum(matrix[i, j] for j in others if label[j] == c) for c in set(label)}
        stay = shared[label[i]] - scale * degree[i] * (volume[label[i]] - degree[i])
        best = stay
        for c in sorted(shared):
            worth = shared[c] - scale * degree[i] * volume[c]
            if c != label[i] and shared[c] > 0 and worth > best:
                best, target[i] = worth, c
    return target


def test_moves_and_contractions_are_those_of_their_definitions(xp):
    rng = np.random.default_rng(1)
    dense = np.triu(rng.integers(0, 4, size=(40, 40)) * (rng.random((40, 40)) < 0.2))
    dense = dense + dense.T
    label = rng.integers(7, size=40).astype("int32")
    degree = dense.sum(1).astype(float)
    volume = np.bincount(label, degree, 40)
    row, column = np.nonzero(dense)
    graph = graphs.Graph(
        *(
            xp.asarray(part)
            for part in (
                np.searchsorted(row, np.arange(41)),
                column.astype("int32"),
                dense[row, column].astype("int64"),
            )
        )
    )
    given = [xp.asarray(part) for part in (degree, label, volume)]
    target, gaining = louvain.best_moves(graph, *given, 1.5 / degree.sum())
    expected = literal_best_moves(dense, degree, label, volume, 1.5 / degree.sum())
    np.testing.assert_array_equal(to_host(target), expected)
    assert gaining == (expected != label).sum() > 0
    smaller = louvain.contracted(graph, xp.asarray(label), 7)
    indptr, indices, weights = (to_host(part) for part in smaller)
    onehot = np.eye(7, dtype=int)[label]
    found = sparse.csr_array((weights, indices, indptr), shape=(7, 7)).toarray()
    np.testing.assert_array_equal(found, onehot.T @ dense @ onehot)


@pytest.mark.parametrize("target", [2, 5, 12, 40])
def test_the_resolution_is_steered(target):
    labels = communities.louvain(
        GRAPHS["digits 20"].get_adjacency_sparse(), target_clusters=target, random_state=0, device="cpu"
    )
    assert abs(np.log((labels.max() + 1) / target)) <= np.log(1.3)


def test_separate_parts_are_never_joined():
    matrix = sparse.block_diag([np.ones((5, 5)) - np.eye(5)] * 4).tocsr()
    labels = communities.louvain(matrix, target_clusters=2, random_state=0, device="cpu")
    assert labels.tolist() == np.repeat(range(4), 5).tolist()


def test_weights_that_are_not_whole_count_by_their_size():
    rng = np.random.default_rng(0)
    dense = rng.random((40, 40)) * np.where(np.equal.outer(np.arange(40) % 2, np.arange(40) % 2), 1, 0.05)
    matrix = dense + dense.T
    labels = communities.louvain(matrix, random_state=0, device="cpu")
    assert labels.tolist() == (np.arange(40) % 2).tolist()
    np.testing.assert_array_equal(communities.louvain(1e-9 * matrix, random_state=0, device="cpu"), labels)


def test_a_graph_without_edges_has_a_community_for_each_node():
    assert communities.louvain(sparse.csr_array((4, 4)), random_state=0, device="cpu").tolist() == [0, 1, 2, 3]
    assert communities.louvain(np.zeros((1, 1)), random_state=0, device="cpu").tolist() == [0]


BAD = {
    "shape": (np.ones((2, 3)), {}, ValueError, r"`graph` must be a square matrix, got shape \(2, 3\)\."),
    "lopsided": (np.array([[0.0, 1], [2, 0]]), {}, ValueError, r"`graph` must be symmetric, got another weight across"),
    "one way": (np.array([[0.0, 1], [0, 0]]), {}, ValueError, r"`graph` must be symmetric, got another weight across"),
    "negative": (-np.ones((2, 2)), {}, ValueError, r"`graph` must .*negative.*"),
    "NaN": (np.full((2, 2), np.nan), {}, ValueError, r"`graph(\.data)?` must be finite, got nan"),
    "resolution": (np.ones((2, 2)), {"resolution": 0}, ValueError, r"`resolution` must be .*, got 0"),
    "target": (
        np.ones((2, 2)),
        {"target_clusters": 3},
        ValueError,
        r"`target_clusters` must be between 1 and n_nodes=2",
    ),
    "iterations": (np.ones((2, 2)), {"n_iterations": 0}, ValueError, r"`n_iterations` must be at least 1, got 0\."),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    matrix, options, error, sentence = BAD[case]
    for given in (matrix, sparse.csr_array(matrix)):
        with pytest.raises(error, match=sentence):
            communities.louvain(given, **options)


@pytest.mark.parametrize("dtype", ["float64", "uint64", "int64"])
@pytest.mark.parametrize("size", [1, 1 << 50, 1 << 60])
def test_whole_weights_of_any_size(xp, size, dtype):
    graph = np.kron(np.eye(3), np.ones((5, 5))).astype(dtype) * np.array(size, dtype)
    truth = np.repeat([0, 1, 2], 5)
    graph = xp.asarray(graph)
    np.testing.assert_array_equal(to_host(communities.louvain(graph, random_state=0)), truth)
    assert abs(communities.modularity(graph, xp.asarray(truth)) - 2 / 3) < 1e-12


def test_weights_beyond_the_integers():
    graph = np.kron(np.eye(3), np.ones((5, 5))) * 1e200
    np.testing.assert_array_equal(communities.louvain(graph, random_state=0, device="cpu"), np.repeat([0, 1, 2], 5))


def test_a_graph_without_edges_has_no_modularity():
    with pytest.raises(ValueError, match="`graph` must have an edge, as shares of no weight are not defined, got none"):
        communities.modularity(np.zeros((4, 4)), [0, 0, 1, 1], device="cpu")
