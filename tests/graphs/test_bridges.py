"""Parts of a neighbour graph are joined: small ones as strongly as they hold together, large ones weakly."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from gpuensemble import generate, metrics
from gpuensemble._array.devices import to_host
from gpuensemble._graphs import distances, search
from gpuensemble._graphs import graph as graphs
from gpuensemble._graphs.bridges import bridged


def dense(graph):
    indptr, indices, weights = (to_host(part) for part in graph)
    return csr_array((weights, indices, indptr), shape=(len(indptr) - 1,) * 2).toarray()


def neighbor_graph(xp, X, q):
    rows = distances.of_matrix(xp.asarray(X), "sqeuclidean")
    return graphs.of_neighbors(search.exact(rows, q), q), rows


def test_neighbours_are_joined_both_ways(xp):
    graph, _ = neighbor_graph(xp, np.array([[0.0], [1], [3], [7]]), 1)  # 1 -> 0, 0 -> 1, 2 -> 1, 3 -> 2
    assert dense(graph).tolist() == [[0, 2, 0, 0], [2, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]


def test_all_parts_are_joined_to_the_nearest_rows_outside(xp):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.random((40, 2)), 3 + rng.random((30, 2)), [[-1, -1]] * 3 + 0.001 * rng.random((3, 2))])
    graph, rows = neighbor_graph(xp, X, 2)
    before = dense(graph)
    joined = bridged(graph, rows, 2, np.random.default_rng(0))
    after = dense(joined)
    assert connected_components(before)[0] > 1 == connected_components(after)[0]
    np.testing.assert_array_equal(after, after.T)
    assert (after >= before).all()
    added = after - before
    assert added[70:, :70].sum() >= before[70:].sum()  # the three rows far off: as strong as they hold together
    distance = ((X[:, None] - X) ** 2).sum(2)
    for i in range(70, 73):
        others = np.flatnonzero(added[i, :70])
        assert len(others) == 0 or distance[i, others].min() == distance[i, :70].min()


def test_a_graph_in_one_part_stays_as_it_is(xp):
    graph, rows = neighbor_graph(xp, np.arange(20.0)[:, None], 3)
    assert bridged(graph, rows, 2, np.random.default_rng(0)) is graph


def test_copies_of_rows_do_not_hide_the_clusters():
    """Forty copies of each row are parts of their own for twenty neighbours."""
    rng = np.random.default_rng(0)
    truth = np.arange(30) % 3
    X = np.repeat(8 * np.eye(3)[truth] + rng.standard_normal((30, 3)), 40, axis=0)
    labels = generate.neighbor_graph(X, 3, random_state=0, device="cpu")
    assert (labels.max(0) + 1 <= 12).all()
    from gpuensemble import SEC

    found = SEC(3, cluster_weight="entropy", random_state=0, device="cpu").fit_predict(labels)
    assert metrics.ari(np.repeat(truth, 40), found) > 0.95


@pytest.mark.parametrize("n_clusters", [2, 3])
def test_fewer_clusters_than_parts_can_be_asked_for(n_clusters):
    rng = np.random.default_rng(0)
    X = 100 * np.eye(6)[np.arange(240) % 6] + rng.standard_normal((240, 6))
    labels = generate.neighbor_graph(X, n_clusters, n_neighbors=5, random_state=0, device="cpu")
    assert labels.max(0).min() + 1 <= 2 * n_clusters + 1
