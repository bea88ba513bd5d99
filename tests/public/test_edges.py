"""Consensus on edges: weights by their definition, a pair of nodes at a time, and the communities that come of them."""

import doctest
import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import gpuensemble as ge
from gpuensemble import edges as edge_consensus
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._graphs import edges
from gpuensemble._graphs import graph as graphs
from gpuensemble.generate import resolutions


def random_graph(seed=0, n=40, m=60):
    """A sparse graph with branches that hang from it, some weights that are not 1, and an edge of a node to itself."""
    rng = np.random.default_rng(seed)
    graph = nx.to_numpy_array(nx.gnm_random_graph(n, m, seed=seed)) * rng.integers(1, 5, size=(n, n))
    graph = np.triu(graph) + np.triu(graph, 1).T
    graph[3, 3] = 2
    return graph


def random_labels(holes, seed=0, n=40, r=7):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, size=(n, r))
    labels[:, 1:][rng.random((n, r - 1)) < holes] = -1  # the first partition sees all
    return labels


def literal_weights(labels, graph, least, threshold):
    """The weights of all pairs, by their definition; networkx finds the core."""
    n = len(graph)
    plain = nx.Graph([(i, j) for i in range(n) for j in range(i) if graph[i, j]])
    core = set(nx.k_core(plain, 2))
    weights = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i == j or not graph[i, j]:
                continue
            both = [(a, b) for a, b in zip(labels[i], labels[j], strict=True) if a >= 0 and b >= 0]
            share = sum(a == b for a, b in both) / len(both) if both else 0
            joined = least + (1 - least) * share if least == 0 or {i, j} <= core else least
            weights[i, j] = joined if share >= threshold else 0
    return weights


@pytest.mark.parametrize("holes", [0, 0.6])
@pytest.mark.parametrize(("least", "threshold"), [(0.05, 0), (0, 0), (0, 0.3), (0.2, 0.3), (1, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_weights_are_those_of_their_definition(xp, holes, least, threshold, seed):
    graph, labels = random_graph(seed), random_labels(holes, seed)
    estimator = ge.EdgeConsensus(min_weight=least, threshold=threshold, random_state=0)
    found = estimator.fit(xp.asarray(labels), graph=xp.asarray(graph))
    expected = literal_weights(labels, graph, least, threshold)
    np.testing.assert_allclose(found.edge_weights_.toarray(), expected, rtol=1e-15)
    assert found.edge_weights_.nnz == np.count_nonzero(graph)
    assert namespace(found.labels_) is xp
    assert found.labels_.dtype == "int32"
    again = ge.communities.louvain(expected, random_state=0, device="cpu")
    np.testing.assert_array_equal(to_host(found.labels_), again)
    assert found.n_clusters_ == again.max() + 1


def test_an_edge_that_no_partition_saw_has_the_least_weight():
    labels = np.array([[0, -1], [-1, 0], [0, 0]])
    graph = np.ones((3, 3))
    found = ge.EdgeConsensus(random_state=0).fit(labels, graph=graph).edge_weights_.toarray()
    np.testing.assert_allclose(found, [[0, 0.05, 1], [0.05, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize(
    "graph",
    [nx.path_graph(9), nx.star_graph(8), nx.cycle_graph(5), nx.lollipop_graph(4, 5), nx.empty_graph(3)]
    + [nx.gnm_random_graph(60, 66, seed=seed) for seed in range(8)],
)
def test_the_core_is_that_of_networkx(graph):
    matrix = sparse.csr_array(nx.to_scipy_sparse_array(graph))
    checked, *_ = graphs.checked(matrix, "cpu")
    assert set(np.flatnonzero(edges.in_core(checked))) == set(nx.k_core(graph, 2))


def test_counting_in_blocks_changes_nothing(monkeypatch):
    graph, labels = random_graph(), random_labels(0.4)
    whole = ge.EdgeConsensus(random_state=0).fit(labels, graph=graph)
    monkeypatch.setattr(edges, "CELLS", 20)
    parts = ge.EdgeConsensus(random_state=0).fit(labels, graph=graph)
    np.testing.assert_array_equal(whole.edge_weights_.toarray(), parts.edge_weights_.toarray())


def test_weights_of_the_graph_do_not_count():
    graph, labels = random_graph(), random_labels(0)
    one, two = (
        ge.EdgeConsensus(random_state=0).fit(labels, graph=given) for given in (graph, sparse.coo_array(graph > 0))
    )
    np.testing.assert_array_equal(one.labels_, two.labels_)
    entries = sparse.csr_array(graph)
    entries.data[entries.indices == 5] = 0  # an entry that is there, and no edge
    entries = entries.minimum(entries.T).tocsr()
    found = ge.EdgeConsensus(random_state=0).fit(labels, graph=entries).edge_weights_
    assert found[:, [5]].sum() == 0


@pytest.mark.parametrize("method", ["louvain", "leiden"])
def test_planted_communities_are_found(method):
    graph = nx.planted_partition_graph(6, 30, 0.4, 0.03, seed=0)
    matrix, truth = nx.to_scipy_sparse_array(graph), np.repeat(range(6), 30)
    base = ge.generate.leiden(graph=matrix, resolutions=(0.7, 1.0, 1.5), n_seeds=3, random_state=0, device="cpu")
    estimator = ge.EdgeConsensus(method=method, random_state=0)
    labels = estimator.fit_predict(base, graph=matrix)
    assert ge.metrics.ari(truth, labels) == 1
    assert estimator.n_clusters_ == 6
    assert labels[0] == 0  # numbers by first occurrence, whoever finds them
    np.testing.assert_array_equal(clone(estimator).fit(base, graph=matrix).labels_, labels)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).labels_, labels)


def test_frames_and_text():
    graph = np.kron(np.eye(2), np.ones((3, 3)))
    frame = pd.DataFrame({"a": list("xxxyyy"), "b": pd.Categorical(["u", "u", None, "v", "v", "v"])})
    found = ge.EdgeConsensus(random_state=0).fit(frame, graph=graph)
    assert found.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    assert list(found.feature_names_in_) == ["a", "b"]


def test_the_examples_are_right():
    assert doctest.testmod(edge_consensus) == (0, 6)
    assert doctest.testmod(resolutions) == (0, 4)


BAD = [
    ({"min_weight": 1.5}, {}, ValueError, r"`min_weight` must be between 0 and 1, got 1\.5\."),
    ({"min_weight": -1}, {}, ValueError, r"`min_weight` must be finite and at least 0, got -1\."),
    ({"threshold": 2}, {}, ValueError, r"`threshold` must be between 0 and 1, got 2\."),
    ({"threshold": "x"}, {}, TypeError, r"`threshold` must be a number, got 'x' of type str\."),
    ({"resolution": 0}, {}, ValueError, r"`resolution` must be finite and greater than 0, got 0\."),
    ({"method": "walk"}, {}, ValueError, r"`method` must be one of 'louvain', 'leiden', got 'walk'\."),
    ({}, {"graph": np.ones((3, 3))}, ValueError, r"`graph` must have n_samples=40 rows, got 3\."),
    ({}, {"graph": np.ones((40, 3))}, ValueError, r"`graph` must be a square matrix, got shape \(40, 3\)\."),
    ({}, {"graph": np.triu(np.ones((40, 40)))}, ValueError, r"`graph` must be symmetric, got another weight across .*"),
    ({}, {"graph": -np.ones((40, 40))}, ValueError, r"`graph` must not be negative, got -1\.0\."),
]


@pytest.mark.parametrize(("parameters", "given", "error", "sentence"), BAD)
def test_bad_input(parameters, given, error, sentence):
    with pytest.raises(error, match=sentence):
        ge.EdgeConsensus(**parameters).fit(random_labels(0), **{"graph": random_graph()} | given)
