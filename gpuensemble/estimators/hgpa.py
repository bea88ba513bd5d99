"""HGPA, the hypergraph partitioning algorithm, cuts the hypergraph of clusters into balanced parts by KaHyPar.

Strehl, Ghosh: Cluster Ensembles - A Knowledge Reuse Framework for Combining Multiple Partitions, Journal of Machine
Learning Research, 2002.
"""

from typing import Any

from gpuensemble._partition import partitioners
from gpuensemble._partition.distinct import Distinct
from gpuensemble.estimators._base.graphs import Cut, Ensemble, cut_rows
from gpuensemble.estimators.cspa import CSPA


class HGPA(CSPA):
    """Hypergraph partitioning finds a consensus of clusters of about equal size that cuts few base clusters apart.

    Samples are nodes, clusters are hyperedges, and KaHyPar makes the parts. An edge costs the number of parts that it
    touches, less one. The paper's partitioner, hMETIS, counts edges that are cut at all, which finds less where every
    cluster has some stray samples. Clusters of very different sizes are not found. It needs the extra `graph` (`pip
    install gpuensemble[graph]`).

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    partition_weight : array of r numbers, optional
        How much the edges of each partition count.
    random_state : int, Generator or None
        The seed of KaHyPar.
    device, dtype, verbose
        As in `EAC`.

    Attributes
    ----------
    labels_, confidence_, objective_, objective_path_, n_iter_, device_
        As in `EAC`.

    Notes
    -----
    Equal rows are one node that counts as often. A hole is a node that an edge does not have.
    """

    _needs = "kahypar"

    def _cut(self, ensemble: Ensemble) -> Cut:
        weight = ensemble.of_columns

        def labels(rows: Distinct, n_clusters: int) -> Any:
            onehot = rows.sparse_onehot()
            return partitioners.kahypar(onehot, weight, rows.multiplicity, n_clusters, ensemble.rng)

        return cut_rows(ensemble, self.n_clusters, labels, weight)
