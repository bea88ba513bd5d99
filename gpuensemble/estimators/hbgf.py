"""HBGF, the hybrid bipartite graph formulation, cuts the graph that links samples and clusters.

Fern, Brodley: Solving Cluster Ensemble Problems by Bipartite Graph Partitioning, International Conference on Machine
Learning, 2004.
"""

from typing import Any

from gpuensemble._array import checks, random
from gpuensemble._array.devices import Array, to_host
from gpuensemble._kernels import products
from gpuensemble._kmeans.labels.statistics import confidence, inverse
from gpuensemble._kmeans.labels.weights import sizes
from gpuensemble._partition import bipartite
from gpuensemble._partition.bipartite import Embedded
from gpuensemble._tables import outputs
from gpuensemble._tables.blocks import Block, Table
from gpuensemble.estimators._base.streamed import Source, StreamedConsensus
from gpuensemble.membership import Membership


class HBGF(StreamedConsensus):
    """The hybrid bipartite graph formulation finds a consensus by a cut of a graph; it is linear in n.

    The graph links each sample to its clusters. With D_x how many labels each sample has, and D_c how large each
    cluster is, the leading eigenvectors U of D_c^-1/2 H' D_x^-1 H D_c^-1/2 embed the samples as rows of
    D_x^-1 H D_c^-1/2 U, whose directions are clustered by k-means. The paper offers METIS as another way to cut; the
    spectral one is built here.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    n_init : int
        Starts of the k-means on the embedded samples; the best one counts.
    random_state : int, Generator or None
        The seed of all draws.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    dtype : {"float64", "float32"} or None
        The type of the distances by which samples get their labels; float64 by default, which the eigenvectors always
        have.
    verbose : int
        Not used.
    client : dask.distributed.Client, optional
        Blocks of the table are worked on by its workers. A Dask collection finds the current client by itself.
    out : path of an .npy file, optional
        Where the labels go, and the confidences beside them; they come back memory-mapped.

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

    def __init__(
        self,
        n_clusters: int,
        *,
        n_init: int = 10,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
        client: Any = None,
        out: Any = None,
    ):
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose
        self.client = client
        self.out = out

    def _fit(self, source: Source) -> None:
        table = source.table
        dtype = checks.floating(self.dtype)
        checks.integer(self.n_init, "n_init", 1)
        (rng,) = random.generators(self.random_state, 1)
        graph = bipartite.of_samples_and_clusters(table)
        self._labelling = bipartite.cut(table, graph, self.n_clusters, rng, self.n_init, dtype)
        n_found = self._labelling.tables.table.shape[1]
        if n_found < self.n_clusters:
            self._warn_of_distinct_rows(n_found)
        self.labels_, self.confidence_ = outputs.columns(table, self.out, source.home, _finish, self._labelling)
        self.objective_ = _normalized_cut(table, self._labelling)
        self.objective_path_, self.n_iter_ = [self.objective_], 1

    def _predicted(self, m: Membership) -> Array:
        labels, *_ = self._labelling.distances(m)
        return labels


def _finish(block: Block, labelling: Embedded) -> tuple[Array, Array]:
    """Find the label of each row of the table, and its confidence."""
    labels, nearest, second = labelling.distances(block.m)
    return block.of_table(labels), block.of_table(confidence(nearest, second).astype("float64", copy=False))


def _normalized_cut(table: Table, labelling: Embedded) -> float:
    """Compute the normalised cut of the samples from counts."""
    counts = table.total(_counts, labelling)
    together = (counts**2 * inverse(sizes(table))[:, None]).sum(0) * inverse(counts.sum(0))
    return counts.shape[1] - float(together.sum())


def _counts(block: Block, labelling: Embedded) -> Any:
    n_clusters = labelling.tables.table.shape[1]
    return to_host(products.count(block.m, labelling.labels(block), block.multiplicity, n_clusters))
