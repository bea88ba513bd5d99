"""Consensus on the edges of a graph: how many partitions join the two ends of each, and communities of these weights.

Poulin, Theberge: Ensemble clustering for graphs, Complex Networks, 2018, and Applied Network Science, 2019 (ECG).
Tabatabaee, Wedell, Park, Warnow: FastEnsemble: a new scalable ensemble clustering method, Complex Networks, 2024.
"""

from functools import partial
from typing import Any

from scipy.sparse import csr_array

from gpuensemble._array import checks, csr, frames, random
from gpuensemble._array.devices import Array, choose_device, device_of, namespace, on, to_device, to_host
from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._graphs import edges as of_edges
from gpuensemble._graphs import graph as graphs
from gpuensemble._graphs import libraries
from gpuensemble._graphs.louvain import louvain
from gpuensemble.estimators._base.labels import LabelConsensus
from gpuensemble.membership import Membership

ITERATIONS = 4  # of the search for communities


class EdgeConsensus(LabelConsensus):
    """Find communities of a graph whose edges weigh as much as partitions agree on them; linear in the edges.

    Pairs of nodes without an edge do not count, and the number of clusters is found, not given.

    Parameters
    ----------
    resolution : float
        Of the communities, more than 0; the larger, the more of them.
    method : {"louvain", "leiden"}
        How communities are found; "leiden" needs the extra `leiden`, and works on the CPU.
    min_weight : float
        ECG's w, 0 .. 1: an edge of the 2-core weighs w + (1 - w) S, any other edge w, where S is the share of
        partitions that join its ends. 0 makes every edge weigh S, in the core or not.
    threshold : float
        FastEnsemble's, 0 .. 1: edges of a lower S are left out. FastEnsemble itself is `min_weight=0, threshold=0.8`.
    random_state : None, int or numpy.random.Generator
        The seed of the search for communities.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".

    Attributes
    ----------
    labels_ : array of n int32
        The community of each node, in the library of `labels`.
    n_clusters_ : int
        The number of communities.
    edge_weights_ : SciPy's csr_array, n x n
        The weights that they were found with; entries are where `graph` has them, on the host.
    device_ : str
        Where the work was done.
    n_features_in_ : int
        The number of partitions.

    Notes
    -----
    S counts the partitions that saw both ends; an edge that none saw has S = 0. The weights of `graph` itself do not
    count, only which are above 0, as in both papers; an edge of a node to itself weighs 0. Both make their partitions
    themselves, ECG by the first level of Louvain's method: see `generate.leiden` and `communities.louvain`.

    Examples
    --------
    >>> import numpy as np
    >>> import gpuensemble as ge
    >>> graph = np.kron(np.eye(2), np.ones((4, 4)) - np.eye(4))
    >>> graph[3, 4] = graph[4, 3] = 1  # two groups, and an edge between them
    >>> base = ge.generate.leiden(graph=graph, random_state=0, device="cpu")
    >>> ge.EdgeConsensus(random_state=0, device="cpu").fit(base, graph=graph).labels_
    array([0, 0, 0, 0, 1, 1, 1, 1], dtype=int32)
    """

    def __init__(
        self,
        resolution: float = 1.0,
        *,
        method: str = "louvain",
        min_weight: float = 0.05,
        threshold: float = 0.0,
        random_state: Any = None,
        device: str = "auto",
    ):
        self.resolution = resolution
        self.method = method
        self.min_weight = min_weight
        self.threshold = threshold
        self.random_state = random_state
        self.device = device

    def fit(self, labels: Any, y: Any = None, *, graph: Any) -> "EdgeConsensus":
        """Weigh the edges of a graph by partitions of its nodes, and find communities.

        Parameters
        ----------
        labels : n x r table
            The partitions, as in `Membership.from_labels`; NaN, None and -1 are holes.
        y : ignored
            Here for scikit-learn's pipelines.
        graph : symmetric n x n matrix
            Sparse, of SciPy or CuPy, or dense; entries above 0 are edges.

        Returns
        -------
        self
            The fitted estimator.
        """
        labels = frames.table(labels)
        resolution = checks.number(self.resolution, "resolution", 0)
        checks.choice(self.method, "method", ("louvain", "leiden"))
        (rng,) = random.generators(self.random_state, 1)
        device = choose_device(self.device, labels, csr.entries(graph))
        matrix, *_ = graphs.checked(graph, device)
        with on(device):
            m = Membership.from_labels(labels, device)
            if len(m.codes) != matrix.shape[0]:
                raise ValueError(f"`graph` must have n_samples={len(m.codes)} rows, got {matrix.shape[0]}.")
            weighted = matrix._replace(data=self._weights(m, matrix))
            found = graphs.of_matrix(weighted)
            search = libraries.leiden(found) if self.method == "leiden" else partial(louvain, found)
            communities = by_first_occurrence(search(resolution, rng, ITERATIONS))
        self.labels_ = to_device(communities, device_of(labels))
        self.n_clusters_ = int(communities.max()) + 1
        data, indices, indptr = (to_host(part) for part in weighted[:3])
        self.edge_weights_ = csr_array((data, indices, indptr), shape=matrix.shape)
        self.device_ = device
        self._remember_columns(labels, m.codes.shape[1])
        return self

    def _weights(self, m: Membership, matrix: csr.Csr) -> Array:
        """Weigh each entry of the matrix."""
        least, threshold = (_share(getattr(self, name), name) for name in ("min_weight", "threshold"))
        share = of_edges.shares(m.codes, matrix)
        weight, xp, row = least + (1 - least) * share, namespace(share), matrix.rows()
        if least > 0:
            core = to_device(of_edges.in_core(matrix), m.device)
            weight = xp.where(core[row] & core[matrix.indices], weight, least)
        is_edge = (matrix.data > 0) & (row != matrix.indices) & (share >= threshold)
        return xp.where(is_edge, weight, 0.0)


def _share(value: Any, name: str) -> float:
    """Check a number between 0 and 1."""
    if checks.number(value, name, 0, inclusive=True) > 1:
        raise ValueError(f"`{name}` must be between 0 and 1, got {value:g}.")
    return float(value)
