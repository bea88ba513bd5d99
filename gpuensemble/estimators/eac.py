"""EAC, evidence accumulation, clusters the plain co-association matrix; other methods are compared with it.

Fred, Jain: Combining Multiple Clusterings Using Evidence Accumulation, IEEE Transactions on Pattern Analysis and
Machine Intelligence, 2005.
"""

from collections.abc import Iterator
from typing import Any

from gpuensemble._array import checks
from gpuensemble._array.devices import Array
from gpuensemble._partition import bipartite
from gpuensemble._partition.linkage import LINKAGES
from gpuensemble._tables.blocks import whole
from gpuensemble.estimators._base.similarity import Refined, SimilarityConsensus
from gpuensemble.membership import Membership, Merged


class EAC(SimilarityConsensus):
    """Evidence accumulation clusters samples by how many partitions put them together; it works on n x n arrays.

    The co-association matrix is cut by a tree or by its leading eigenvectors. Other methods are compared with this one.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    linkage : {"average", "single", "complete", "spectral"}
        The linkage of the tree over the distances 1 - S (SciPy, on the host), cut into n_clusters; "spectral" clusters
        S by its leading eigenvectors instead, as `SEC`'s start does.
    random_state : int, Generator or None
        The seed of the draws, for "spectral" only.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    dtype : {"float64", "float32"} or None
        The type of the matrix; float64 by default.
    verbose : int
        Not used.

    Attributes
    ----------
    labels_ : array of n int32
        The cluster of each sample.
    coassociation_ : array, n x n
        S[p, q]: the share of the partitions in which p and q are together; a hole agrees with nothing.
    n_iter_ : int
        1.
    objective_, objective_path_ : float, list of float
        The mean of 1 - S within clusters, over pairs of samples; it is reported, not minimised.
    device_ : str
        Where the work was done.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> ge.EAC(2, device="cpu").fit_predict([[0, 0], [0, 0], [1, 2], [1, 2]]).tolist()
    [0, 0, 1, 1]
    """

    _title = "EAC, average linkage"
    _arrays = 4  # S, 1 - S, and its half twice for the tree, in float64

    def __init__(
        self,
        n_clusters: int,
        *,
        linkage: str = "average",
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.linkage = linkage
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose

    def _check_parameters(self) -> None:
        checks.choice(self.linkage, "linkage", (*LINKAGES, "spectral"))

    def _refined(self, m: Membership, n_clusters: int, dtype: str, streams: Iterator) -> Refined:
        """Take the co-association matrix as it is."""
        similarity = m.coassociation(dtype=dtype)
        return Refined(lambda: similarity, {"coassociation_": similarity})

    def _how(self) -> str:
        return self.linkage

    def _cut(self, refined: Refined, m: Membership, n_clusters: int, merged: Merged, rng: Any) -> Array:
        """Cut a tree over S, or the graph of samples, which needs no S."""
        if self.linkage != "spectral":
            return super()._cut(refined, m, n_clusters, merged, rng)
        table = whole(m)
        return bipartite.cut(table, bipartite.of_samples(table), n_clusters, rng).labels(table.block)
