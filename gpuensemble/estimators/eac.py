"""EAC, evidence accumulation, clusters the plain co-association matrix; other methods are compared with it.

Fred, Jain: Combining Multiple Clusterings Using Evidence Accumulation, IEEE Transactions on Pattern Analysis and
Machine Intelligence, 2005.
"""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from gpuensemble._array import checks
from gpuensemble._array.devices import Array, to_device, to_host
from gpuensemble._kmeans.labels.weights import UNIT, entropy_weights
from gpuensemble._partition import bipartite, distinct, linkage
from gpuensemble._partition.distinct import Distinct
from gpuensemble._tables.blocks import Table
from gpuensemble.estimators._base.graphs import Cut, Ensemble, RowsConsensus, cut_rows, tree_of
from gpuensemble.estimators._base.streamed import Source
from gpuensemble.membership import Membership


class EAC(RowsConsensus):
    """Evidence accumulation clusters samples by how many partitions put them together.

    The co-association matrix is cut by a tree or by its leading eigenvectors. Other methods are compared with this one.
    It is square in the number of distinct rows, in time; in memory only for "single" and "complete".

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    linkage : {"average", "single", "complete", "spectral"}
        The linkage of the tree over S, cut into n_clusters; "spectral" clusters S by its leading eigenvectors instead,
        as `SEC`'s start does.
    cluster_weight : None or "entropy"
        e_c: S = H diag(e) H' / r. "entropy": exp(-h_c / (0.4 r)), h_c the entropy of the other partitions' labels
        inside c, which makes it `LWEA`. Not in the paper.
    partition_weight : array of r numbers, optional
        Multiplies the weights of each partition's clusters.
    random_state : int, Generator or None
        The seed of the draws, for "spectral" only.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    dtype : {"float64", "float32"} or None
        The type of `coassociation_`, and of the table by which `predict` labels; float64 by default.
    verbose : int
        Not used.

    Attributes
    ----------
    labels_ : array of n int32
        The cluster of each sample.
    confidence_ : array of n
        1 - (mean similarity with the next cluster) / (that with its own), 0 .. 1; for "spectral", of distances in the
        embedding.
    coassociation_ : array, n x n
        S[p, q]: the share of the partitions in which p and q are together, without weights; a hole agrees with nothing.
        It is made when first asked for.
    n_iter_ : int
        1.
    objective_, objective_path_ : float, list of float
        The mean of 1 - S within clusters, over pairs of samples; it is reported, not minimised.
    device_ : str
        Where the work was done.

    Notes
    -----
    Equal rows are one row that counts as often, and share a label. The tree of averages comes from chains of nearest
    neighbours over what groups of rows have in each cluster, C x groups, instead of the n x n matrix. Its merges are
    SciPy's where no similarities tie; on ties the merge that was found first comes first. `predict` sends a row to the
    cluster with the largest mean similarity.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> ge.EAC(2, device="cpu").fit_predict([[0, 0], [0, 0], [1, 2], [1, 2]]).tolist()
    [0, 0, 1, 1]
    """

    _title = "EAC, average linkage"
    _matrix: Array | None = None  # the co-association matrix, once it was asked for

    def __init__(
        self,
        n_clusters: int,
        *,
        linkage: str = "average",
        cluster_weight: str | None = None,
        partition_weight: Any = None,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.linkage = linkage
        self.cluster_weight = cluster_weight
        self.partition_weight = partition_weight
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose

    @property
    def coassociation_(self) -> Array:
        """Return the co-association matrix, n x n, in the caller's library."""
        check_is_fitted(self)
        if self._matrix is None:
            n, dtype = len(self._codes), checks.floating(self.dtype)
            needed = n * n * (8 if dtype == "float64" else 4)
            checks.fits(needed, f"`coassociation_` of {n} x {n}", self.device_, "the labels needed no such matrix")
            m = Membership.from_coded(self._codes, self._widths, self._complete, None, self.device_)
            self._matrix = to_device(m.coassociation(dtype=dtype), self._home)
        return self._matrix

    def _fit(self, source: Source) -> None:
        super()._fit(source)
        m = distinct.all_rows(source.table)
        self._codes, self._widths, self._complete = to_host(m.codes), m.widths, m.complete
        self._home, self._matrix = source.home, None

    def _check_parameters(self, table: Table) -> None:
        checks.choice(self.linkage, "linkage", (*linkage.LINKAGES, "spectral"))
        checks.choice(self.cluster_weight, "cluster_weight", (None, "entropy"))

    def _cut(self, ensemble: Ensemble) -> Cut:
        """Cut a tree over distinct rows, or the graph of samples."""
        weight = ensemble.of_columns
        if self.cluster_weight is not None:
            weight = weight * (entropy_weights(ensemble.table) / UNIT)
        if self.linkage != "spectral":
            return cut_rows(ensemble, self.n_clusters, lambda rows, k: self._labels(rows, k, weight), weight)
        graph = bipartite.of_samples(ensemble.table, weight)
        found = bipartite.cut(ensemble.table, graph, self.n_clusters, ensemble.rng, dtype=ensemble.dtype, last=True)
        return Cut(found, found)

    def _labels(self, rows: Distinct, n_clusters: int, weight: Any) -> Any:
        return linkage.cut(tree_of(rows, weight, self.linkage, "EAC"), n_clusters)
