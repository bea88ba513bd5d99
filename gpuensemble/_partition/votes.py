"""Samples follow groups of clusters by a vote: each cluster of a sample votes for the group that the cluster is in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.devices import Array, namespace, on, to_device, to_host
from gpuensemble._array.threads import spans
from gpuensemble._kernels import products
from gpuensemble._kmeans.labels.statistics import CostTables, confidence, evaluate, inverse
from gpuensemble._partition.clusters import Graph, group_means, settled
from gpuensemble._tables.blocks import Block, Lasting, Table
from gpuensemble.membership import Membership

MORE = 10  # times K groups at most are tried
CELLS = 1 << 22  # of a table of rows and labels, that are worked out in one go
LEAST = 0.02  # of the mean number of samples, that a group's clusters have to have


@dataclass(eq=False)
class Voted(Lasting):
    """This labelling sends each row to the group that its clusters vote for; the tables hold the votes, negated."""

    tables: CostTables

    @classmethod
    def by(cls, votes: Any, dtype: str) -> "Voted":
        """Make the labelling of a C x K table of votes."""
        return cls(CostTables(-votes.astype(dtype, copy=False), np.zeros((1, votes.shape[1]), dtype)))

    @property
    def n_clusters(self) -> int:
        """Return K."""
        return self.tables.table.shape[1]

    def without_empty(self, table: Table) -> "Voted":
        """Return the labelling without the groups that no row of a table has."""
        used = table.total(label_sizes, self) > 0
        return self if used.all() else Voted(CostTables(*(np.ascontiguousarray(t[:, used]) for t in self.tables)))

    def found(self, m: Membership) -> tuple[Array, Array]:
        """Find the label of each row, and its confidence: 1 - (votes for the next group) / (votes for the first)."""
        labels, best, second = evaluate(m, self.tables, None)
        return labels, confidence(-second, -best).astype("float64", copy=False)

    def labels(self, block: Block, costs: Any = None) -> Array:
        """Find the labels of the rows of block.m."""
        return self.found(block.m)[0]


class Groups(NamedTuple):
    """This says how clusters are grouped, and how much each of them counts in a vote."""

    into: Callable[[int], Any]  # the group of each node of the graph, for a number of groups
    similarity: Any  # of nodes
    graph: Graph
    sizes: Any  # of each cluster: its samples
    vote: Any  # of each cluster, for its group
    mass: Any  # of each cluster: the votes for a group are divided by its sum over the group's clusters
    settle: bool = False  # whether each node moves to the group that it is most alike
    costly: bool = False  # whether cutting takes long, so that few numbers of groups are tried

    def numbers(self, n_clusters: int) -> list[int]:
        """Return the numbers of groups to try, K first: each up to MORE times K, or K plus powers of two."""
        most = min(MORE * n_clusters, len(self.similarity))
        first = min(n_clusters, most)
        if not self.costly:
            return list(range(first, most + 1))
        return [first, *(n for n in (first + (1 << i) for i in range(most.bit_length())) if n <= most)]


def voted(table: Table, groups: Groups, n_clusters: int, dtype: str) -> Voted:
    """Vote for K groups of clusters, each of which has samples.

    A few stray samples make clusters that are like no other, and that a cut takes for groups. So a group counts only if
    its clusters have LEAST of the samples that those of a group have on average; the clusters are cut into more groups
    until K count. The largest K stay, and every other cluster joins the one that it is most alike. Where that leads
    nowhere, groups of any size count. There may be fewer than K in the end.
    """
    best = None
    for least in (LEAST, 0.0):
        for n_groups in groups.numbers(n_clusters):
            group = _largest(groups, n_groups, n_clusters, least)
            if group is None:
                continue
            found = Voted.by(_votes(group, groups), dtype)
            used = int((table.total(label_sizes, found) > 0).sum())
            if best is None or used > best[1]:
                best = found, used
            if used == n_clusters:
                return found
    assert best is not None
    return best[0].without_empty(table)


def _largest(groups: Groups, n_groups: int, n_clusters: int, least: float) -> Any:
    """Cut the graph into so many groups, the K largest of which all join; return the group of each cluster.

    Return None if fewer than K count.
    """
    group, (_, node, often) = groups.into(n_groups), groups.graph
    sizes = np.bincount(group[node], groups.sizes, n_groups)
    counting = np.flatnonzero(sizes >= least * sizes.sum() / n_clusters)
    if least and len(counting) < n_clusters:
        return None
    kept = np.sort(counting[np.argsort(-sizes[counting], kind="stable")[:n_clusters]])
    number = np.full(n_groups, -1)
    number[kept] = np.arange(len(kept))
    group = number[group]
    lost = np.flatnonzero(group < 0)
    if len(lost):
        group[lost] = group_means(groups.similarity[lost], group, len(kept), often).argmax(1)
    return (settled(group, groups.similarity, often) if groups.settle else group)[node]


def _votes(group: Any, groups: Groups) -> Any:
    mass = np.bincount(group, groups.mass)
    found = np.zeros((len(group), len(mass)))
    found[np.arange(len(group)), group] = groups.vote * inverse(mass)[group]
    return found


def label_sizes(block: Block, labelling: Voted) -> Any:
    """Count the rows of the table that have each label, on the host."""
    labels = block.of_table(labelling.labels(block))
    return to_host(namespace(labels).bincount(labels, minlength=labelling.n_clusters))


def shares(m: Membership, counts: Any, home: str) -> Array:
    """Return the mean over each row's clusters of the shares that labels have in them, n x K on the device `home`.

    `counts` says how many samples of each cluster have each label. A cluster without any has no say; a row without a
    cluster that has is NaN.
    """
    sizes = counts.sum(axis=1, keepdims=True)
    table = to_device(np.concatenate([counts * inverse(sizes), sizes > 0], axis=1), m.device)
    n, k = len(m.codes), counts.shape[1]
    found = None
    for rows in spans(n, max(1, CELLS // (k + 1))):
        sums = products.gather_sum(m.take(rows), table)
        xp, voters = namespace(sums), sums[:, k:]
        part = to_device(xp.where(voters > 0, sums[:, :k] / xp.maximum(voters, 1), xp.nan), home)
        with on(home):
            found = namespace(part).empty((n, k)) if found is None else found
            found[rows] = part
    return found


def similarities(counts: Any, weight: Any, sizes: Any) -> Any:
    """Make votes of labels that some other way has found: the mean similarity H diag(weight) H' with each label's rows.

    `counts` says how many samples of each cluster have each label, and `sizes` how many have it in all.
    """
    return weight[:, None] * counts * inverse(sizes)
