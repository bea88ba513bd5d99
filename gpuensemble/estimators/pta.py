"""PTA, probability trajectory accumulation, links samples by walks on a sparse graph of them.

Huang, Lai, Wang: Robust Ensemble Clustering Using Probability Trajectories, IEEE Transactions on Knowledge and Data
Engineering, 2016.
"""

from typing import Any

from gpuensemble._array import checks
from gpuensemble._partition import linkage, trajectories
from gpuensemble._partition.distinct import Distinct
from gpuensemble._tables.blocks import Table
from gpuensemble.estimators._base.graphs import Cut, Ensemble, RowsConsensus, cut_rows, rows_fit


class PTA(RowsConsensus):
    """Probability trajectory accumulation cuts a tree of samples that are alike by walks between them.

    Distinct rows are nodes. Each keeps the edges of the co-association matrix to the nodes that it agrees with most;
    a step goes to a node in proportion to its edge and to how many samples it stands for. The similarity of two nodes
    is the cosine of the trajectories of walks from them. It works on arrays that are square in the number of distinct
    rows.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    n_neighbors : int, optional
        How many edges a node keeps, more where agreements tie. By default min(20, sqrt(N) / 2), rounded down, for N
        distinct rows, as in the paper, and at least 1.
    steps : int, optional
        The length of the walks; by default the same number.
    linkage : {"average", "complete", "single"}
        The linkage of the tree.
    partition_weight : array of r numbers, optional
        How much each partition counts in the co-association matrix.
    random_state : int, Generator or None
        Not used: nothing is drawn.
    device, dtype, verbose
        As in `EAC`.

    Attributes
    ----------
    labels_, confidence_, objective_, objective_path_, n_iter_, device_
        As in `EAC`. Confidences, and what `predict` does, go by plain agreement.

    Notes
    -----
    A hole agrees with nothing.
    """

    def __init__(
        self,
        n_clusters: int,
        *,
        n_neighbors: int | None = None,
        steps: int | None = None,
        linkage: str = "average",
        partition_weight: Any = None,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.steps = steps
        self.linkage = linkage
        self.partition_weight = partition_weight
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose

    def _check_parameters(self, table: Table) -> None:
        checks.choice(self.linkage, "linkage", linkage.LINKAGES)
        trajectories.check(self.n_neighbors, self.steps)

    def _cut(self, ensemble: Ensemble) -> Cut:
        weight = ensemble.of_columns

        def labels(rows: Distinct, n_clusters: int) -> Any:
            rows_fit(rows, 6, "PTA")
            similarity = trajectories.similarity(rows, weight, self.n_neighbors, self.steps)
            return linkage.cut(linkage.tree(similarity, rows.multiplicity, self.linkage), n_clusters)

        return cut_rows(ensemble, self.n_clusters, labels, weight)
