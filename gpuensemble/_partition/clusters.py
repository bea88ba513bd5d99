"""Graphs of the base partitions' clusters, C x C on the host: how alike clusters are, walks on them, groups of them.

All of it comes from the contingency table G = H' H, which holds integers, and is done once by one BLAS thread, so that
blocks, workers and threads change no bit.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._kernels.cpu.contingency import jaccard
from gpuensemble._kernels.cpu.slices import powers
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._kmeans.labels.statistics import inverse
from gpuensemble._linear.dense import product, symmetric
from gpuensemble._linear.tridiagonal import Tridiagonal
from gpuensemble._partition import bipartite
from gpuensemble._partition.spectral import affinity_points
from gpuensemble._tables.blocks import Table
from gpuensemble._tables.counts import contingencies, contingency, sizes
from gpuensemble.membership import Membership

ROUNDS = 20  # of `settled`, at most
MOST = 4000  # clusters that are nodes of their own; where there are more, groups of them are
GROUPS = 1000  # of clusters where there are so many
DAMPING = 4.0  # of the embedding in which clusters are grouped


class Graph(NamedTuple):
    """The nodes of this graph are clusters, or groups of clusters that are much alike."""

    weight: Any  # of edges: sums over pairs of clusters of the Jaccard index, times the weights of both
    node: Any  # of each cluster
    n_clusters: Any  # of each node


def all_counts(table: Table, n_groups: int | None = None) -> Any:
    """Count G where the clusters are nodes of their own; return None where groups of them are."""
    return contingency(table) if n_groups is None and table.n_columns <= MOST else None


def graph(table: Table, weight: Any, counts: Any, n_clusters: int, rng: Any, n_groups: int | None = None) -> Graph:
    """Link clusters by the Jaccard index times their weights, from G; without it, groups of clusters.

    Groups are made by k-means of the clusters' damped eigenvectors in the graph of samples and clusters, 1.5 K of them.
    The C x C matrix is then never there: its columns are added up as they are counted.
    """
    if counts is not None:
        found = jaccard(counts, table.widths, 0, weight)
        return Graph(found, np.arange(table.n_columns), np.ones(table.n_columns))
    n_eigen = n_clusters + (n_clusters + 1) // 2
    node = _grouped(table, weight, min(n_groups or GROUPS, table.n_columns), n_eigen, rng)
    n_nodes = int(node.max()) + 1
    ones = csr_array((np.ones(len(node)), (node, np.arange(len(node)))), (n_nodes, len(node)))
    found, first = np.zeros((n_nodes, n_nodes)), 0
    for columns in contingencies(table):
        some = slice(first, first + columns.shape[1])
        edges = jaccard(columns, table.widths, first, weight)
        found += (ones @ edges) @ ones[:, some].T
        first = some.stop
    return Graph(found, node, np.bincount(node).astype("float64"))


def _grouped(table: Table, weight: Any, n_groups: int, n_eigen: int, rng: Any) -> Any:
    """Group clusters by k-means of their directions in the embedding; return the group of each, none of them empty."""
    samples_and_clusters = bipartite.of_samples_and_clusters(table, weight, DAMPING)
    points = bipartite.embedding(table, samples_and_clusters, min(n_eigen, table.n_columns), rng)
    points *= inverse((points**2).sum(1) ** 0.5)[:, None]
    with one_blas_thread():
        found = features.kmeans(
            points, n_groups, rng, sample_weight=weight * np.maximum(sizes(table), 1), n_init=1
        ).labels
    return by_first_occurrence(found)


def walk_cosines(weight: Any, steps: int, multiplicity: Any = 1.0) -> Any:
    """Return the cosines of the trajectories of walkers on a symmetric graph, one from each node; 1 on the diagonal.

    A trajectory is [P, P^2, .., P^steps] side by side, P the rows of W M divided by their sums D, where M says how many
    nodes each node stands for (Huang et al. 2016, 2021). With Q T Q' = (M / D)^1/2 W (M / D)^1/2, the inner products of
    trajectories are (M D)^-1/2 Q S Q' (M D)^-1/2, S the sum of T^k (Q' M D Q) T^k over k = 1 .. steps. T is
    tridiagonal: a step takes next to no time, and no eigenvector is needed.
    """
    degree = (weight * multiplicity).sum(1)
    scale, square = (multiplicity * inverse(degree)) ** 0.5, multiplicity * degree
    with one_blas_thread():
        form = Tridiagonal(scale[:, None] * weight * scale)
        turn = form.turn()
        between = powers.summed(form.diagonal, form.beside, symmetric(turn.T * square, turn), steps)
        turn *= (inverse(square) ** 0.5)[:, None]
        trajectories = product(turn, between, out=np.empty_like(turn))
        scale = inverse(np.maximum(np.einsum("xc,xc->x", trajectories, turn), 0)) ** 0.5
        trajectories *= scale[:, None]
        turn *= scale[:, None]
        found = symmetric(trajectories, turn.T)
    np.fill_diagonal(found, 1)
    return found


def settled(group: Any, similarity: Any, often: Any) -> Any:
    """Send each node to the group that it is most alike on average, until nothing changes or a group would be empty."""
    n_groups = int(group.max()) + 1
    for _ in range(ROUNDS):
        moved = group_means(similarity, group, n_groups, often).argmax(1)
        if (moved == group).all() or len(np.unique(moved)) < n_groups:
            break
        group = moved
    return group


def group_means(similarity: Any, group: Any, n_groups: int, often: Any) -> Any:
    """Return the mean similarity of each row with the nodes of each group, which stand for so many clusters each.

    The group of nodes that have none is -1.
    """
    members = (group[:, None] == np.arange(n_groups)) * often[:, None]
    with one_blas_thread():
        return similarity @ members / members.sum(0)


def spectral_groups(similarity: Any, n_groups: int, rng: Any, often: Any) -> Any:
    """Cut a graph, whose nodes stand for so many clusters each, by its leading eigenvectors into groups.

    They are numbered by first occurrence.
    """
    root = often**0.5
    with one_blas_thread():
        points = affinity_points(similarity * root * root[:, None], n_groups)
        points = np.ascontiguousarray(points)
        found = features.kmeans(points, n_groups, rng, sample_weight=often, n_init=10).labels
    return by_first_occurrence(found)


def of_rows(m: Membership, similarity: Any, weight: Any) -> Any:
    """Return the similarity of rows: the weighted mean of that of their clusters, over the partitions that saw both.

    Two rows that no partition saw both have the similarity 0.
    """
    inside = np.zeros_like(similarity)
    for begin, end in itertools.pairwise(m.offsets):
        inside[begin:end, begin:end] = similarity[begin:end, begin:end]
        inside[begin:end, begin:end] *= weight[begin]  # which is the partition's
    found = m.gather_sum(np.ascontiguousarray(m.gather_sum(inside).T))
    seen = (m.codes != np.array(-1).astype(m.codes.dtype)).astype("float64")
    with one_blas_thread():
        found *= inverse((seen * weight[m.offsets[:-1]]) @ seen.T)
    return found
