"""EAC: evidence accumulation, the plain clustering of the co-association matrix that other methods are compared with.

Fred, Jain: Combining Multiple Clusterings Using Evidence Accumulation, IEEE Transactions on Pattern Analysis and
Machine Intelligence, 2005.
"""

from typing import Any

from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from gpuensemble._array import checks
from gpuensemble._array.devices import choose_device, device_of, on, to_device, to_host
from gpuensemble._array.random import generators
from gpuensemble._partition import bipartite
from gpuensemble._tables.blocks import whole
from gpuensemble.estimators._base.labels import LabelConsensus
from gpuensemble.membership import Membership

LINKAGES = ("average", "single", "complete", "spectral")


class EAC(LabelConsensus):
    """Evidence accumulation: hierarchical or spectral clustering of the co-association matrix, n x n.

    Parameters
    ----------
    n_clusters : int
    linkage : {"average", "single", "complete", "spectral"}
        Of the tree over the distances 1 - S (SciPy, on the host), cut into n_clusters; "spectral" clusters S by its
        leading eigenvectors instead, as `SEC`'s start does.
    random_state : int, Generator or None
        For "spectral" only.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    dtype : {"float64", "float32"} or None
        Of the matrix; float64 by default.
    verbose : int
        Not used.

    Attributes
    ----------
    labels_ : array of n int32
    coassociation_ : array, n x n
        S[p, q]: the share of the partitions in which p and q are together; a hole agrees with nothing.
    n_iter_ : int
        1.
    objective_, objective_path_ : float, list of float
        The mean of 1 - S within clusters, over pairs of samples; it is reported, not minimised.
    device_ : str

    Examples
    --------
    >>> import gpuensemble as ge
    >>> ge.EAC(2, device="cpu").fit_predict([[0, 0], [0, 0], [1, 2], [1, 2]]).tolist()
    [0, 0, 1, 1]
    """

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

    def fit(self, labels: Any, y: Any = None) -> "EAC":
        """Cluster the co-association matrix of a table of labels, as in `Membership.from_labels`."""
        device = choose_device(self.device, labels)
        checks.choice(self.linkage, "linkage", LINKAGES)
        with on(device):
            m = Membership.from_labels(labels, device)
            checks.integer(self.n_clusters, "n_clusters", 1, len(m.codes), "n_samples")
            similarity = m.coassociation(dtype=self.dtype or "float64")
            if self.linkage == "spectral":
                (rng,) = generators(self.random_state, 1)
                table = whole(m)
                found = bipartite.start(table, self.n_clusters, rng).labels(table.block)
            else:
                found = to_device(tree_labels(to_host(similarity), self.linkage, self.n_clusters), device)
            self.labels_ = to_device(found, device_of(labels))
            self.coassociation_ = to_device(similarity, device_of(labels))
            self.objective_ = _distance_within(m, found, self.n_clusters)
            self.objective_path_, self.n_iter_, self.device_ = [self.objective_], 1, device
        self._remember_columns(labels, len(m.widths))
        return self


def tree_labels(similarity: Any, method: str, n_clusters: int) -> Any:
    """Labels from the tree over the distances 1 - S on the host, numbered by first occurrence."""
    distance = 1 - similarity
    if len(distance) == 1:
        return distance[0].astype("int32") * 0  # a tree needs two rows
    distance.flat[:: len(distance) + 1] = 0  # with holes a sample does not agree with itself in all partitions
    flat = fcluster(linkage(squareform(distance, checks=False), method), n_clusters, "maxclust")
    order: dict[int, int] = {}
    for label in flat.tolist():
        order.setdefault(label, len(order))
    return (flat * 0 + [order[label] for label in flat.tolist()]).astype("int32")


def _distance_within(m: Membership, labels: Any, n_clusters: int) -> float:
    """The mean of 1 - S over the pairs of samples in one cluster, from counts: another n x n array is not needed."""
    counts = to_host(m.count(labels, n_clusters))
    sizes = [int((labels == k).sum()) for k in range(n_clusters)]
    return 1 - int((counts**2).sum()) / (len(m.widths) * sum(size**2 for size in sizes))
