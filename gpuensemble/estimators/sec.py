"""SEC, spectral ensemble clustering, is weighted k-means.

Liu, Wu, Liu, Tao, Fu: Spectral Ensemble Clustering via Weighted K-Means: Theoretical and Practical Evidence, IEEE
Transactions on Knowledge and Data Engineering, 2017.
"""

from typing import Any, ClassVar

from gpuensemble._kmeans.labels.costs import SECCosts
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables.blocks import Table
from gpuensemble.estimators._base.kmeans import KMeansConsensus


class SEC(KMeansConsensus):
    """Spectral ensemble clustering finds the consensus of a table of labels; it is linear in n.

    It is spectral clustering of the co-association matrix, done as weighted k-means, for which the matrix is never
    built. SEC minimises sum_x sum_i mu_i w(x) |b_i(x) / w(x) - m_{k,i}|^2 over the observed partitions i, where b(x) is
    the row of the one-hot matrix H and w(x) the sum of the sizes of x's clusters (Theorems 1 and 6 of the paper).

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    init : {"spectral", "k-means++", "random"} or array of n labels
        The start. "spectral": leading singular vectors of D^-1/2 H, discretised by k-means; not in the paper, whose
        starts are random.
    n_init : int
        Number of starts for "k-means++" and "random"; the least objective wins.
    max_iter : int
        Most iterations of a start.
    partition_weight : array of r numbers, optional
        mu_i: multiplies the cost of partition i.
    cluster_weight : None, "entropy" or array of C numbers
        e_c: multiplies cluster c of all base partitions (in the order of `Membership`'s columns) in S = H diag(e) H'.
        "entropy": exp(-h_c / (0.4 r)), h_c the entropy of the other partitions' labels inside c. Not in the paper.
        Weights are rounded to 2**-20 of the largest; they must not differ by more than that, and 0 counts as that.
    random_state : int, Generator or None
        The seed of all draws.
    device : str
        "auto", "cpu", "cuda", "cuda:N", or "cuda:all", which spreads the rows over all CUDA devices.
    dtype : {"float64", "float32"} or None
        The type of the cost tables; float64 by default.
    verbose : int
        1: a progress bar on stderr.
    client : dask.distributed.Client, optional
        Work on its workers. A Dask array or DataFrame finds the current client by itself.
    out : path of an .npy file, optional
        Where the labels go, whole or not at all; `labels_` is then memory-mapped, as is `confidence_`, which goes to
        `<name>.confidence.npy` beside it.
    checkpoint : path, optional
        Where the state of the fit is kept: a few tables, written every five iterations.
    resume : bool
        Go on from the checkpoint, if it is there. The answer is that of a fit that was not cut off. A checkpoint of
        another table or of other parameters is refused; a single start may go on with another `max_iter`.

    Attributes
    ----------
    labels_ : array of n int32
        The cluster of each sample.
    confidence_ : array of n
        1 - (cost of the best cluster) / (cost of the second), 0 .. 1.
    centers_ : array, C x K
        m_k: the sum of b(x) over the cluster, divided by the sum of w(x).
    objective_, objective_path_ : float, list of float
        What is minimised, at the end; at the start and after each iteration that lowered it.
    n_iter_ : int
        The number of iterations of the best start.
    evaluated_ : list of float
        The share of rows whose costs were computed, in each iteration.
    device_ : str
        Where the work was done.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> ge.SEC(2, device="cpu").fit_predict([[0, 0], [0, 0], [1, 2], [1, 2]]).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """

    _variants: ClassVar = {"sec-entropy": ("SEC, cluster weights", {"cluster_weight": "entropy"})}

    def __init__(
        self,
        n_clusters: int,
        *,
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

    def _costs(self, table: Table, weighting: Weighting) -> SECCosts:
        """Make the costs of weighted k-means of the rows b(x) / w(x)."""
        return SECCosts.of(table, weighting)
