"""KCC, k-means-based consensus clustering, finds the consensus that agrees best with the partitions by some utility.

Wu, Liu, Xiong, Cao, Chen: K-Means-Based Consensus Clustering: A Unified View, IEEE Transactions on Knowledge and Data
Engineering, 2015; as used inside CMVC.
"""

from typing import Any

from gpuensemble._array import checks
from gpuensemble._kmeans.labels.costs import KCCCosts
from gpuensemble._kmeans.labels.lloyd import Problem
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables.blocks import Table
from gpuensemble.estimators._base.kmeans import KMeansConsensus

UTILITIES = ("category", "entropy", "cosine")


class KCC(KMeansConsensus):
    """k-means-based consensus clustering finds the consensus of a table of labels by k-means; it is linear in n.

    The utility of a partition becomes a distance on its one-hot rows. KCC minimises sum_x sum_i d(b_i(x), m_{k,i}) over
    the observed partitions i, with m_{k,i} the distribution of partition i's labels in cluster k, and d(b, m) =
    |b - m|^2 ("category"), -log m[c] ("entropy") or 1 - m[c] / |m| ("cosine").

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    utility : {"category", "entropy", "cosine"}
        Which distance d is used.
    normalized : bool
        Divide partition i's cost by |P_i|^2, H(P_i) or |P_i|, where P_i is the distribution of its cluster sizes; a
        partition of one cluster then has no weight.
    cluster_weight : None, "entropy" or array of C numbers
        A label of cluster c counts e_c times. Not in the paper.
    init, n_init, max_iter, partition_weight, random_state, device, dtype, verbose, client, out, checkpoint, resume
        As in `SEC`.

    Attributes
    ----------
    centers_ : array, C x K
        m_{k,i}: the distribution of each partition's labels in each cluster.
    labels_, confidence_, objective_, objective_path_, n_iter_, evaluated_, device_
        As in `SEC`.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> ge.KCC(2, utility="cosine", device="cpu").fit([[0, 0], [0, 0], [1, 2], [1, 2]]).objective_
    0.0
    """

    def __init__(
        self,
        n_clusters: int,
        *,
        utility: str = "category",
        normalized: bool = False,
        init: Any = "spectral",
        n_init: int = 10,
        max_iter: int = 300,
        partition_weight: Any = None,
        cluster_weight: Any = None,
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
        self.utility = utility
        self.normalized = normalized
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.partition_weight = partition_weight
        self.cluster_weight = cluster_weight
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose
        self.client = client
        self.out = out
        self.checkpoint = checkpoint
        self.resume = resume

    def _costs(self, table: Table, weighting: Weighting) -> KCCCosts:
        """Make the costs of k-means by the distance of the utility."""
        checks.choice(self.utility, "utility", UTILITIES)
        checks.flag(self.normalized, "normalized")
        return KCCCosts.of(self.utility, self.normalized, table, weighting)

    def _seeding_costs(self, problem: Problem, weighting: Weighting) -> KCCCosts:
        """Use the category distance for every utility: the others are infinite or flat far from a single row."""
        return KCCCosts.of("category", False, problem.table, weighting)
