"""Graphs of the base partitions' clusters, C x C on the host: how alike clusters are, walks on them, groups of them.

All of it comes from the contingency table G = H' H, which holds integers, and is done once by one BLAS thread, so that
blocks, workers and threads change no bit.
"""

import itertools
from typing import Any

import numpy as np

from gpuensemble._array.threads import one_blas_thread
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._kmeans.labels.statistics import by_partition, inverse, per_column
from gpuensemble._partition.linkage import by_first_occurrence
from gpuensemble._partition.spectral import affinity_points
from gpuensemble.membership import Membership

ROUNDS = 20  # of `settled`, at most


def jaccard(counts: Any, widths: Any) -> Any:
    """Return what two clusters share, divided by what they have together; 0 on the diagonal.

    Of two partitions only the samples count that both saw.
    """
    seen = per_column(by_partition(counts, widths), widths)  # [j, i]: the samples of i that j's partition saw
    found = counts * inverse(seen + seen.T - counts)
    np.fill_diagonal(found, 0)
    return found


def walk_cosines(weight: Any, steps: int, multiplicity: Any = 1.0) -> Any:
    """Return the cosines of the trajectories of walkers on a symmetric graph, one from each node; 1 on the diagonal.

    A trajectory is [P, P^2, .., P^steps] side by side, P the rows of W M divided by their sums D, where M says how many
    nodes each node stands for (Huang et al. 2016, 2021). With U L U' = (M / D)^1/2 W (M / D)^1/2, the inner products of
    trajectories are (M D)^-1/2 U [(U' M D U) o F] U' (M D)^-1/2, F_ab the sum of (l_a l_b)^k over k = 1 .. steps.
    """
    degree = (weight * multiplicity).sum(1)
    scale, square = (multiplicity * inverse(degree)) ** 0.5, multiplicity * degree
    with one_blas_thread():
        values, vectors = np.linalg.eigh(scale[:, None] * weight * scale)
        products = _geometric(np.multiply.outer(values, values), steps)
        products *= vectors.T @ (square[:, None] * vectors)
        vectors *= (inverse(square) ** 0.5)[:, None]
        found = vectors @ products @ vectors.T
    scale = inverse(np.maximum(np.diagonal(found), 0)) ** 0.5
    found *= scale
    found *= scale[:, None]
    found += found.T.copy()
    found *= 0.5
    np.fill_diagonal(found, 1)
    return found


def _geometric(x: Any, steps: int) -> Any:
    """Return x + x^2 + .. + x^steps, by Horner's rule: there is no case x = 1."""
    found = x.copy()
    for _ in range(steps - 1):
        found += 1
        found *= x
    return found


def settled(group: Any, similarity: Any) -> Any:
    """Send each node to the group that it is most alike on average, until nothing changes or a group would be empty."""
    n_groups = int(group.max()) + 1
    for _ in range(ROUNDS):
        moved = group_means(similarity, group, n_groups).argmax(1)
        if (moved == group).all() or len(np.unique(moved)) < n_groups:
            break
        group = moved
    return group


def group_means(similarity: Any, group: Any, n_groups: int) -> Any:
    """Return the mean similarity of each row with the nodes of each group; -1 is the group of nodes that have none."""
    members = (group[:, None] == np.arange(n_groups)).astype("float64")
    with one_blas_thread():
        return similarity @ members / members.sum(0)


def spectral_groups(similarity: Any, n_groups: int, rng: Any) -> Any:
    """Cut a graph of nodes by its leading eigenvectors into groups, numbered by first occurrence."""
    points = affinity_points(similarity.copy(), n_groups)
    with one_blas_thread():
        found = features.kmeans(np.ascontiguousarray(points), n_groups, rng, n_init=10).labels
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
