"""PTGP, probability trajectory based graph partitioning, cuts a graph of samples and clusters made of walks.

Huang, Lai, Wang: Robust Ensemble Clustering Using Probability Trajectories, IEEE Transactions on Knowledge and Data
Engineering, 2016.
"""

from typing import Any

from gpuensemble._array import checks
from gpuensemble._partition import trajectories
from gpuensemble._partition.distinct import Distinct
from gpuensemble._tables.blocks import Table
from gpuensemble.estimators._base.graphs import Cut, Ensemble, GraphConsensus, RowsConsensus, cut_rows, rows_fit


class PTGP(RowsConsensus):
    """Probability trajectory graph partitioning cuts a graph of samples and clusters linked by walks between samples.

    The similarity of two distinct rows is that of `PTA`. A row is linked to each cluster by its mean similarity with
    the cluster's distinct rows; the graph is cut by eigenvectors and k-means, as in `HBGF`. It works on arrays that are
    square in the number of distinct rows.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    n_neighbors, steps : int, optional
        As in `PTA`.
    n_init : int
        Starts of the k-means on the embedded rows; the best one counts.
    partition_weight : array of r numbers, optional
        How much each partition counts in the co-association matrix.
    random_state : int, Generator or None
        The seed of all draws.
    device, dtype, verbose
        As in `EAC`.

    Attributes
    ----------
    labels_, confidence_, objective_, objective_path_, n_iter_, device_
        As in `EAC`. Confidences, and what `predict` does, go by plain agreement.

    Notes
    -----
    A hole agrees with nothing, and is no link.
    """

    _warn_of_fewer = GraphConsensus._warn_of_empty_clusters

    def __init__(
        self,
        n_clusters: int,
        *,
        n_neighbors: int | None = None,
        steps: int | None = None,
        n_init: int = 10,
        partition_weight: Any = None,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.steps = steps
        self.n_init = n_init
        self.partition_weight = partition_weight
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose

    def _check_parameters(self, table: Table) -> None:
        checks.integer(self.n_init, "n_init", 1)
        trajectories.check(self.n_neighbors, self.steps)

    def _cut(self, ensemble: Ensemble) -> Cut:
        weight = ensemble.of_columns

        def labels(rows: Distinct, n_clusters: int) -> Any:
            rows_fit(rows, 6, "PTGP")
            similarity = trajectories.similarity(rows, weight, self.n_neighbors, self.steps)
            return trajectories.cut(similarity, rows, n_clusters, ensemble.rng, self.n_init)

        return cut_rows(ensemble, self.n_clusters, labels, weight)
