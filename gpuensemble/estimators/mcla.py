"""MCLA, the meta-clustering algorithm, groups the clusters of the base partitions by the samples that they share.

Strehl, Ghosh: Cluster Ensembles - A Knowledge Reuse Framework for Combining Multiple Partitions, Journal of Machine
Learning Research, 2002.
"""

from typing import Any, ClassVar

import numpy as np

from gpuensemble._array import checks
from gpuensemble._partition import clusters, linkage, partitioners, votes
from gpuensemble._tables.blocks import Table
from gpuensemble._tables.counts import sizes
from gpuensemble.estimators._base.graphs import Cut, Ensemble, GraphConsensus, fits

CUTS = ("average", "spectral", "metis")


class MCLA(GraphConsensus):
    """The meta-clustering algorithm groups all clusters of all partitions, and lets samples vote; it is linear in n.

    Two clusters are linked by the Jaccard index of their samples. The graph is cut into K meta-clusters, and a sample
    goes to the one of whose clusters it is in the largest share.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    cut : {"average", "spectral", "metis"}
        How the graph of clusters is cut: by average linkage, by its leading eigenvectors, or by METIS, as in the paper,
        which makes groups of about as many clusters each and needs the extra `graph`.
    partition_weight : array of r numbers, optional
        How much the clusters of each partition count in the vote.
    random_state : int, Generator or None
        The seed of the draws, for "spectral" and "metis".
    device : str
        "auto", "cpu", "cuda", "cuda:N", or "cuda:all", which spreads the rows over all CUDA devices.
    dtype : {"float64", "float32"} or None
        The type of the votes; float64 by default.
    verbose : int
        Not used.
    client : dask.distributed.Client, optional
        Blocks of the table are worked on by its workers. A Dask collection finds the current client by itself.
    out : path of an .npy file, optional
        Where the labels go, and the confidences beside them; they come back memory-mapped.
    checkpoint : path, optional
        Where what decides the labels is kept, a few tables, once it is found: counting is the longer part of a fit.
    resume : bool
        Go on from the checkpoint, if it is there; one of another table or of other parameters is refused.

    Attributes
    ----------
    labels_, confidence_, objective_, objective_path_, n_iter_, device_
        As in `ClusterWalk`.

    Notes
    -----
    A hole casts no vote, and of two partitions only the samples count that both saw. Small groups of
    clusters that are like no other do not count as one of the K, as in `ClusterWalk`; that is ours.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> ge.MCLA(2, device="cpu").fit_predict([[0, 0], [0, None], [1, 2], [1, 2]]).tolist()
    [0, 0, 1, 1]
    """

    _variants: ClassVar = {"mcla-spectral": ("MCLA, spectral", {"cut": "spectral"})}

    def __init__(
        self,
        n_clusters: int,
        *,
        cut: str = "average",
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
        self.cut = cut
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
        checks.choice(self.cut, "cut", CUTS)
        if self.cut == "metis":
            partitioners.need("pymetis", "MCLA with METIS")
        fits(table, 4, "MCLA")

    def _cut(self, ensemble: Ensemble) -> Cut:
        table, weight = ensemble.table, ensemble.of_columns
        counts, ones = clusters.all_counts(table), np.ones(table.n_columns)
        graph = clusters.graph(table, ones, counts, self.n_clusters, ensemble.rng)
        alike = graph.weight / np.multiply.outer(graph.n_clusters, graph.n_clusters)
        into = self._groups(alike, graph.n_clusters, ensemble.rng)
        costly = self.cut != "average"
        groups = votes.Groups(into, alike, graph, sizes(table), weight, weight, costly=costly)
        found = votes.voted(table, groups, self.n_clusters, ensemble.dtype)
        return Cut(found, found)

    def _groups(self, alike: Any, often: Any, rng: Any) -> Any:
        """Return the function that cuts the graph, whose nodes stand for so many clusters, into a number of groups."""
        if self.cut == "average":
            tree = linkage.tree(alike.copy(), often)
            return lambda n_groups: linkage.cut(tree, n_groups)
        if self.cut == "spectral":
            return lambda n_groups: clusters.spectral_groups(alike, n_groups, rng, often)
        return lambda n_groups: partitioners.metis(alike, often, n_groups, rng)
