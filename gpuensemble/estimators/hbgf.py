"""HBGF, the hybrid bipartite graph formulation, cuts the graph that links samples and clusters.

Fern, Brodley: Solving Cluster Ensemble Problems by Bipartite Graph Partitioning, International Conference on Machine
Learning, 2004.
"""

import math
from typing import Any

from gpuensemble._array import checks
from gpuensemble._kmeans.labels.statistics import inverse
from gpuensemble._kmeans.labels.weights import UNIT, entropy_weights
from gpuensemble._partition import bipartite
from gpuensemble._tables.blocks import Table
from gpuensemble._tables.counts import sizes
from gpuensemble.estimators._base.graphs import Cut, Ensemble, GraphConsensus


class HBGF(GraphConsensus):
    """The hybrid bipartite graph formulation finds a consensus by a cut of a graph; it is linear in n.

    The graph links each sample to its clusters. With D_x how many labels each sample has, and D_c how large each
    cluster is, the leading eigenvectors U of D_c^-1/2 H' D_x^-1 H D_c^-1/2 embed the samples as rows of
    D_x^-1 H D_c^-1/2 U, whose directions are clustered by k-means. The paper offers METIS as another way to cut; the
    spectral one is built here.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    cluster_weight : None or "entropy"
        The links of cluster c count e_c. "entropy": exp(-h_c / (theta r)), h_c the entropy of the other partitions'
        labels inside c; `LWGP` is this.
    theta : float
        How much the entropy of a cluster counts; the less, the more.
    damping : float
        Eigenvectors count by their eigenvalues to this power: 0 as published, where all count the same. 4 is more
        accurate on the pools where it was measured (docs/hbgf.md).
    n_vectors : int, optional
        How many eigenvectors there are: K by default, and 1.5 K, rounded up, if they are damped.
    n_init : int
        Starts of the k-means on the embedded samples; the best one counts.
    partition_weight : array of r numbers, optional
        Multiplies the links of each partition. Less than 2**-20 of the largest, and 0, count as that.
    random_state : int, Generator or None
        The seed of all draws.
    device : str
        "auto", "cpu", "cuda", "cuda:N", or "cuda:all", which spreads the rows over all CUDA devices.
    dtype : {"float64", "float32"} or None
        The type of the distances by which samples get their labels; float64 by default, which the eigenvectors always
        have.
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
        1 - (squared distance to the nearest centre) / (that to the next), in the embedding: 0 to 1.
    objective_, objective_path_ : float, list of float
        The normalised cut of the samples: K - sum_k (sum_c N[c, k]^2 / |c|) / (sum_c N[c, k]), N[c, k] the samples of
        cluster c with label k. It is reported; its relaxation is what the eigenvectors minimise.
    n_iter_ : int
        1.
    device_ : str
        Where the work was done.

    Notes
    -----
    A hole is a link that is missing: a sample counts by the labels that it has. Eigenvectors come from exact sums, so
    that labels are the same for any blocks and workers, and up to rounding on another machine or device.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> labels = ge.HBGF(2, random_state=0, device="cpu").fit_predict([[0, 0], [0, None], [1, 2], [1, 2]])
    >>> labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """

    _warn_of_fewer = GraphConsensus._warn_of_distinct_rows

    def __init__(
        self,
        n_clusters: int,
        *,
        cluster_weight: str | None = None,
        theta: float = 0.4,
        damping: float = 0.0,
        n_vectors: int | None = None,
        n_init: int = 10,
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
        self.cluster_weight = cluster_weight
        self.theta = theta
        self.damping = damping
        self.n_vectors = n_vectors
        self.n_init = n_init
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
        checks.choice(self.cluster_weight, "cluster_weight", (None, "entropy"))
        checks.number(self.theta, "theta", 0)
        checks.number(self.damping, "damping", 0, inclusive=True)
        checks.integer(self.n_init, "n_init", 1)
        if self.n_vectors is not None:
            checks.integer(self.n_vectors, "n_vectors", 1, table.n_columns, "n_columns")

    def _cut(self, ensemble: Ensemble) -> Cut:
        """Cut the graph of samples and clusters."""
        table, weight = ensemble.table, ensemble.of_columns
        if self.cluster_weight is not None:
            weight = weight * (entropy_weights(table, self.theta) / UNIT)
        graph = bipartite.of_samples_and_clusters(table, weight, self.damping)
        n_vectors = self.n_vectors or (math.ceil(1.5 * self.n_clusters) if self.damping else self.n_clusters)
        found = bipartite.cut(
            table, graph, self.n_clusters, ensemble.rng, self.n_init, ensemble.dtype, n_vectors, last=True
        )
        return Cut(found, found)

    def _objective(self, table: Table, counts: Any, sizes_of_labels: Any) -> float:
        """Return the normalised cut of the samples."""
        together = (counts**2 * inverse(sizes(table))[:, None]).sum(0) * inverse(counts.sum(0))
        return counts.shape[1] - float(together.sum())
