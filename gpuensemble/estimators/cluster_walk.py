"""ClusterWalk groups the clusters of the base partitions by walks on their graph; samples follow by a vote.

It is our own combination of published parts: weights by entropy (Huang, Wang, Lai, IEEE Transactions on Cybernetics,
2018), trajectories of walks between clusters (Huang et al., IEEE Transactions on Systems, Man and Cybernetics, 2021),
average linkage, and a vote.
"""

from typing import Any

import numpy as np

from gpuensemble._array import checks
from gpuensemble._kmeans.labels.weights import UNIT, entropy_weights
from gpuensemble._partition import clusters, linkage, votes
from gpuensemble._tables.blocks import Table
from gpuensemble._tables.counts import sizes
from gpuensemble.estimators._base.graphs import Cut, Ensemble, GraphConsensus, fits


class ClusterWalk(GraphConsensus):
    """Cluster walk groups all clusters of all partitions, and lets samples vote; it is linear in n.

    Two clusters are linked by the Jaccard index of their samples times the weights e of both, where
    e_c = exp(-h_c / (theta r)), h_c the entropy of the other partitions' labels inside c. Walkers that start in two
    clusters see alike places if the clusters belong together: the cosines of their trajectories are grouped by average
    linkage into K groups, and each cluster moves to the group that it is most alike until none does. A sample goes to
    the group with the most votes e_c of its clusters, divided by the number of samples that the group's clusters have.

    This is not a published method. On the pools where it was measured it is the most accurate of the methods here that
    are linear in n (docs/cluster_walk.md).

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    theta : float
        How much the entropy of a cluster counts; the less, the more.
    steps : int
        The length of the walks.
    n_groups : int, optional
        The walks are between so many groups of clusters that are much alike, made by k-means of damped eigenvectors of
        the graph of samples and clusters. None: between clusters, and where there are more than 4000 between 1000
        groups.
    partition_weight : array of r numbers, optional
        How much each partition counts; one of weight 2 counts like two equal ones. Less than 2**-20 of the largest,
        and 0, count as that.
    random_state : int, Generator or None
        The seed of the draws, for groups only.
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
    labels_ : array of n int32
        The cluster of each sample.
    confidence_ : array of n
        1 - (votes for the second group) / (votes for the first), 0 .. 1.
    objective_, objective_path_ : float, list of float
        The mean of 1 - S within clusters, over pairs of samples, S the co-association matrix; it is reported, not
        minimised.
    n_iter_ : int
        1.
    device_ : str
        Where the work was done.

    Notes
    -----
    A hole casts no vote, and of two partitions only the samples count that both saw. What is counted over samples are
    integers, and what is C x C is done once on the host: labels are the same for any blocks, workers and devices.
    A few stray samples make clusters that are like no other. A group of clusters counts only if these have at least 2 %
    of the mean; there are more groups until K of them count, and all other clusters join the one they are most alike.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> ge.ClusterWalk(2, device="cpu").fit_predict([[0, 0], [0, None], [1, 2], [1, 2]]).tolist()
    [0, 0, 1, 1]
    """

    _title = "ClusterWalk"

    def __init__(
        self,
        n_clusters: int,
        *,
        theta: float = 0.4,
        steps: int = 20,
        n_groups: int | None = None,
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
        self.theta = theta
        self.steps = steps
        self.n_groups = n_groups
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
        checks.number(self.theta, "theta", 0)
        checks.integer(self.steps, "steps", 1)
        if self.n_groups is not None:
            checks.integer(self.n_groups, "n_groups", self.n_clusters)
        fits(table, 6, "ClusterWalk", self.n_groups)

    def _cut(self, ensemble: Ensemble) -> Cut:
        table = ensemble.table
        counts = clusters.all_counts(table, self.n_groups)
        weight = ensemble.of_columns * (entropy_weights(table, self.theta, counts) / UNIT)
        graph = clusters.graph(table, weight, counts, self.n_clusters, ensemble.rng, self.n_groups)
        graph = graph._replace(n_clusters=np.bincount(graph.node, ensemble.of_columns))
        alike = clusters.walk_cosines(graph.weight, self.steps)
        tree = linkage.tree(alike.copy(), graph.n_clusters)
        count = sizes(table) * ensemble.of_columns
        groups = votes.Groups(
            into=lambda n_groups: linkage.cut(tree, n_groups),
            similarity=alike,
            graph=graph,
            sizes=count,
            vote=weight,
            mass=count,
            settle=True,
        )
        found = votes.voted(table, groups, self.n_clusters, ensemble.dtype)
        return Cut(found, found)
