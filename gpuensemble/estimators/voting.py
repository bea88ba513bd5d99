"""Voting relabels each base partition to match a consensus, and takes the label that most partitions give a sample.

Dimitriadou, Weingessel, Hornik: A Combination Scheme for Fuzzy Clustering, International Journal of Pattern Recognition
and Artificial Intelligence, 2002; relabelling by the Hungarian method after Fred, Multiple Classifier Systems, 2001,
and Topchy, Law, Jain, Fred, International Conference on Data Mining, 2004.
"""

import warnings
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from gpuensemble._array import checks
from gpuensemble._kmeans.labels.statistics import by_partition, inverse, per_column
from gpuensemble._partition import clusters, linkage, votes
from gpuensemble._tables.blocks import Table
from gpuensemble._tables.counts import contingency
from gpuensemble.estimators._base.graphs import Cut, Ensemble, GraphConsensus, count_labels, fits


class Voting(GraphConsensus):
    """Voting renames the clusters of each partition after the consensus, and gives each sample its commonest label.

    Both are done in turns until nothing changes. A partition's clusters are matched with the K labels one to one, so
    that as many samples as possible agree (the Hungarian method); clusters beyond K go to the label that they share
    most samples with. It is linear in n.

    The first consensus is the partition with K clusters that agrees most with the others, by normalised mutual
    information. Where no partition has K clusters, which the literature does not treat, it is that of `MCLA`.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    max_iter : int
        Most turns.
    partition_weight : array of r numbers, optional
        How much the vote of each partition counts.
    random_state : int, Generator or None
        Not used: nothing is drawn.
    device, dtype, verbose, client, out, checkpoint, resume
        As in `ClusterWalk`.

    Attributes
    ----------
    labels_, confidence_, objective_, objective_path_, device_
        As in `ClusterWalk`.
    n_iter_ : int
        The number of turns.

    Notes
    -----
    A hole casts no vote.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> ge.Voting(2, device="cpu").fit_predict([[0, 0], [0, None], [1, 2], [1, 2]]).tolist()
    [0, 0, 1, 1]
    """

    def __init__(
        self,
        n_clusters: int,
        *,
        max_iter: int = 100,
        partition_weight: Any = None,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
        client: Any = None,
        out: Any = None,
        checkpoint: Any = None,
        resume: bool = False,
    ):
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.partition_weight = partition_weight
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose
        self.client = client
        self.out = out
        self.checkpoint = checkpoint
        self.resume = resume

    def _check_parameters(self, table: Table) -> None:
        checks.integer(self.max_iter, "max_iter", 1)
        fits(table, 4, "Voting", table.n_columns)

    def _cut(self, ensemble: Ensemble) -> Cut:
        table, weight = ensemble.table, ensemble.of_columns
        matched = _first_match(ensemble, self.n_clusters)
        for turn in range(1, self.max_iter + 1):
            found = votes.Voted.by(weight[:, None] * np.eye(self.n_clusters)[matched], ensemble.dtype)
            counts, _ = table.total(count_labels, found, self.n_clusters)
            before, matched = matched, _matched(counts, table.widths)
            if (matched == before).all():
                break
            if turn == self.max_iter:
                self._warn_of_turns()
        found = found.without_empty(table)
        return Cut(found, found, turn)

    def _warn_of_turns(self) -> None:
        warnings.warn(
            f"`max_iter` = {self.max_iter} turns did not lead to convergence.", ConvergenceWarning, stacklevel=5
        )


def _first_match(ensemble: Ensemble, n_clusters: int) -> Any:
    """Match all clusters with those of the partition of K clusters that agrees most with all, else meta-clusters."""
    table, counts = ensemble.table, contingency(ensemble.table)
    candidates = np.flatnonzero(table.widths == n_clusters)
    if len(candidates):
        ends = np.cumsum(table.widths)
        shared = [counts[:, ends[i] - n_clusters : ends[i]] for i in candidates]
        best = max(shared, key=lambda some: _agreement(some, table.widths))
        return _matched(best, table.widths)
    graph = clusters.graph(table, np.ones(table.n_columns), counts, n_clusters, ensemble.rng)
    tree, weight = linkage.tree(graph.weight.copy(), graph.n_clusters), ensemble.of_columns
    groups = votes.Groups(lambda k: linkage.cut(tree, k), graph.weight, graph, np.diagonal(counts), weight, weight)
    found = votes.voted(table, groups, n_clusters, ensemble.dtype)
    shared, _ = table.total(count_labels, found, n_clusters)
    return _matched(shared, table.widths)


def _agreement(counts: Any, widths: Any) -> float:
    """Return the mean over partitions of their normalised mutual information with one, whose columns of G are given."""
    total = by_partition(counts, widths).sum(1)[:, None] + 0.0  # samples that each partition shares with it
    joint = by_partition(_surprise(counts * per_column(inverse(total), widths)), widths).sum(1)
    own = _surprise(by_partition(counts, widths) * inverse(total)).sum(1)
    other = by_partition(_surprise(counts.sum(1)[:, None] * per_column(inverse(total), widths)), widths)[:, 0]
    return float(((own + other - joint) * 2 * inverse(own + other)).mean())


def _surprise(share: Any) -> Any:
    """Return -p log p, and 0 for p = 0."""
    return -share * np.log(np.where(share > 0, share, 1))


def _matched(counts: Any, widths: Any) -> Any:
    """Return the label of each cluster: one to one within a partition, then those left by what they share most."""
    found = counts.argmax(1)
    ends = np.cumsum(widths)
    for begin, end in zip(ends - widths, ends, strict=True):
        rows, columns = linear_sum_assignment(counts[begin:end], maximize=True)
        found[begin + rows] = columns
    return found
