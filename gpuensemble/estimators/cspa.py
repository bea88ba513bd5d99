"""CSPA, the cluster-based similarity partitioning algorithm, cuts the graph of samples into balanced parts by METIS.

Strehl, Ghosh: Cluster Ensembles - A Knowledge Reuse Framework for Combining Multiple Partitions, Journal of Machine
Learning Research, 2002.
"""

from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from gpuensemble._array.threads import spans
from gpuensemble._partition import partitioners
from gpuensemble._partition.distinct import Distinct
from gpuensemble._tables.blocks import Table
from gpuensemble.estimators._base.graphs import Cut, Ensemble, GraphConsensus, RowsConsensus, cut_rows

EXACT = 4000  # distinct rows up to which all similarities are edges
NEIGHBOURS = 50  # of each row that are edges, where there are more rows
ROWS = 1024  # of the similarity at a time


class CSPA(RowsConsensus):
    """Cluster-based similarity partitioning finds a consensus of clusters of about equal size.

    METIS cuts the co-association matrix as a graph of samples. Clusters of very different sizes are not found: that is
    what the method is for. It needs the extra `graph` (`pip install gpuensemble[graph]`).

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    partition_weight : array of r numbers, optional
        How much each partition counts in the similarity.
    random_state : int, Generator or None
        The seed of METIS.
    device, dtype, verbose
        As in `EAC`.

    Attributes
    ----------
    labels_, confidence_, objective_, objective_path_, n_iter_, device_
        As in `EAC`.

    Notes
    -----
    Equal rows are one node that counts as often. Up to 4000 distinct rows all similarities are edges; beyond, each row
    keeps its 50 most similar ones. A hole agrees with nothing.
    """

    _warn_of_fewer = GraphConsensus._warn_of_empty_clusters
    _needs = "pymetis"

    def __init__(
        self,
        n_clusters: int,
        *,
        partition_weight: Any = None,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.partition_weight = partition_weight
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose

    def _check_parameters(self, table: Table) -> None:
        partitioners.need(self._needs, type(self).__name__)

    def _cut(self, ensemble: Ensemble) -> Cut:
        weight = ensemble.of_columns

        def labels(rows: Distinct, n_clusters: int) -> Any:
            return partitioners.metis(_graph(rows, weight), rows.multiplicity, n_clusters, ensemble.rng)

        return cut_rows(ensemble, self.n_clusters, labels, weight)


def _graph(rows: Distinct, weight: Any) -> Any:
    """Return the similarities of distinct rows, all of them or those of the nearest, as a sparse matrix."""
    n = len(rows.multiplicity)
    onehot = rows.sparse_onehot()
    weighted = csr_array(onehot * weight)
    if n <= EXACT:
        return weighted @ onehot.T
    parts = [_nearest((weighted[span] @ onehot.T).toarray(), span.start) for span in spans(n, ROWS)]
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    graph = csr_array(coo_array((value, (row, column)), (n, n)))
    return graph.maximum(graph.T)


def _nearest(similarity: Any, first: int) -> tuple[Any, Any, Any]:
    """Return the largest entries of each row, but for the diagonal: rows, columns, values."""
    here = np.arange(len(similarity))
    similarity[here, first + here] = 0
    columns = np.argpartition(-similarity, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    return (first + here).repeat(NEIGHBOURS), columns.ravel(), np.take_along_axis(similarity, columns, 1).ravel()
