"""LWEA, locally weighted evidence accumulation, is EAC whose clusters have weights by entropy.

Huang, Wang, Lai: Locally Weighted Ensemble Clustering, IEEE Transactions on Cybernetics, 2018.
"""

from typing import Any, ClassVar

import numpy as np

from gpuensemble._array import checks
from gpuensemble._kernels.cpu.graphs import linkage as average
from gpuensemble._kmeans.labels.labellings import Renumbered
from gpuensemble._kmeans.labels.weights import UNIT, entropy_weights
from gpuensemble._partition import bipartite, linkage, votes
from gpuensemble._partition.distinct import Distinct
from gpuensemble._tables.blocks import Table
from gpuensemble.estimators._base.graphs import Cut, Ensemble, GraphConsensus, count_labels, cut_rows, tree_of

DAMPING = 2.0  # of the embedding that groups of rows are made in


class LWEA(GraphConsensus):
    """Locally weighted evidence accumulation clusters samples by a tree over a weighted co-association matrix.

    The matrix is S = H diag(e) H' / r with e_c = exp(-h_c / (theta r)), h_c the entropy of the other partitions' labels
    inside c: a cluster that others tear apart counts less. The tree is square in the number of distinct rows, in time;
    over groups of rows it is linear in n.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    theta : float
        How much the entropy of a cluster counts; the less, the more.
    linkage : {"average", "complete", "single"}
        The linkage of the tree.
    n_groups : int, optional
        The tree is over so many groups of rows, made by k-means on damped eigenvectors of the graph of samples and
        clusters, by average linkage; ours, not in the paper. None: over distinct rows, exact.
    partition_weight : array of r numbers, optional
        Multiplies the weights of each partition's clusters.
    random_state : int, Generator or None
        The seed of the draws, for groups only.
    device : str
        "auto", "cpu", "cuda", "cuda:N", or "cuda:all", which spreads the rows over all CUDA devices.
    dtype : {"float64", "float32"} or None
        The type of the table by which `predict` labels; float64 by default.
    verbose : int
        Not used.
    client : dask.distributed.Client, optional
        Blocks of the table are worked on by its workers, with groups; the exact tree reads them whole.
    out : path of an .npy file, optional
        Where the labels go, and the confidences beside them; they come back memory-mapped.
    checkpoint : path, optional
        Where what decides the labels is kept, a few tables, once it is found: counting is the longer part of a fit.
    resume : bool
        Go on from the checkpoint, if it is there; one of another table or of other parameters is refused.

    Attributes
    ----------
    labels_, confidence_, objective_, objective_path_, n_iter_, device_
        As in `EAC`; the similarity behind confidences has the weights.

    Notes
    -----
    Equal rows share a label. A hole agrees with nothing. `predict` sends a row to the cluster with the largest mean
    similarity.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> ge.LWEA(2, device="cpu").fit_predict([[0, 0], [0, None], [1, 2], [1, 2]]).tolist()
    [0, 0, 1, 1]
    """

    _variants: ClassVar = {"lwea-groups": ("LWEA, 400 groups", {"n_groups": 400})}
    _warn_of_fewer = GraphConsensus._warn_of_distinct_rows

    def __init__(
        self,
        n_clusters: int,
        *,
        theta: float = 0.4,
        linkage: str = "average",
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
        self.linkage = linkage
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
        checks.choice(self.linkage, "linkage", linkage.LINKAGES)
        if self.n_groups is not None:
            checks.integer(self.n_groups, "n_groups", 1)
            if self.linkage != "average":
                raise ValueError(f"`linkage` must be 'average' with n_groups, got {self.linkage!r}.")

    def _cut(self, ensemble: Ensemble) -> Cut:
        weight = ensemble.of_columns * (entropy_weights(ensemble.table, self.theta) / UNIT)
        if self.n_groups is None:
            return cut_rows(ensemble, self.n_clusters, lambda rows, k: self._labels(rows, k, weight), weight)
        return _cut_groups(ensemble, self.n_clusters, max(self.n_groups, self.n_clusters), weight)

    def _labels(self, rows: Distinct, n_clusters: int, weight: Any) -> Any:
        return linkage.cut(tree_of(rows, weight, self.linkage, "LWEA"), n_clusters)


def _cut_groups(ensemble: Ensemble, n_clusters: int, n_groups: int, weight: Any) -> Cut:
    """Cut the tree over groups of rows, each by what it has in the clusters."""
    table, n_groups = ensemble.table, min(n_groups, ensemble.table.n_rows)
    graph = bipartite.of_samples_and_clusters(table, weight, DAMPING)
    n_vectors = min(table.n_columns, n_clusters + (n_clusters + 1) // 2)
    # one start: groups only have to be small, and of several that end alike rounding would choose the numbers
    grouped = bipartite.cut(table, graph, n_groups, ensemble.rng, 1, n_vectors=n_vectors, last=True)
    counts, sizes = table.total(count_labels, grouped, grouped.n_clusters)
    used = sizes > 0
    counts, sizes, number = counts[:, used].astype("float64"), sizes[used], used.cumsum() - 1
    merges = linkage.ordered(*average.of_counts(counts.copy(), weight, sizes))
    found = linkage.cut(merges, min(n_clusters, len(sizes)))
    members = np.eye(int(found.max()) + 1)[found]
    rule = votes.Voted.by(votes.similarities(counts @ members, weight, sizes @ members), ensemble.dtype)
    return Cut(Renumbered(grouped, found[number]), rule)
