"""ECPCS, ensemble clustering by propagating cluster-wise similarities, walks on the graph of clusters.

Huang, Wang, Peng, Lai, Kwoh: Enhanced Ensemble Clustering via Fast Propagation of Cluster-Wise Similarities, IEEE
Transactions on Systems, Man, and Cybernetics: Systems, 2021.
"""

from typing import Any, ClassVar

import numpy as np

from gpuensemble._array import checks
from gpuensemble._partition import clusters, linkage, votes
from gpuensemble._partition.distinct import Distinct
from gpuensemble._tables.blocks import Table
from gpuensemble._tables.counts import sizes
from gpuensemble.estimators._base.graphs import Cut, Ensemble, GraphConsensus, cut_rows, fits, rows_fit


class ECPCS(GraphConsensus):
    """Propagated similarities of clusters give a consensus: by meta-clusters (linear in n), or by a tree of samples.

    Two clusters are linked by the Jaccard index of their samples. Walkers start in each cluster; the cosines Z of their
    trajectories say how alike clusters are, also those that share no sample.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    variant : {"mc", "hc"}
        "mc": Z is cut by its leading eigenvectors into K meta-clusters, for which samples vote. "hc": the similarity of
        two samples is the mean of Z over the pairs of clusters that they have in each partition; average linkage, on
        arrays that are square in the number of distinct rows.
    steps : int
        The length of the walks.
    partition_weight : array of r numbers, optional
        How much each partition counts, in the vote or in the mean.
    random_state : int, Generator or None
        The seed of the draws, for "mc".
    device, dtype, verbose, client, out, checkpoint, resume
        As in `ClusterWalk`. "hc" reads files and Dask collections whole.

    Attributes
    ----------
    labels_, confidence_, objective_, objective_path_, n_iter_, device_
        As in `ClusterWalk`; with "hc" confidences, and what `predict` does, go by plain agreement.

    Notes
    -----
    A hole casts no vote; with "hc" the mean is over the partitions that saw both samples. With "hc" equal rows are one
    row that counts as often.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> labels = ge.ECPCS(2, random_state=0, device="cpu").fit_predict([[0, 0], [0, None], [1, 2], [1, 2]])
    >>> labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """

    _title = "ECPCS-MC"
    _variants: ClassVar = {"ecpcs-hc": ("ECPCS-HC", {"variant": "hc"})}

    def __init__(
        self,
        n_clusters: int,
        *,
        variant: str = "mc",
        steps: int = 20,
        partition_weight: Any = None,
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
        self.variant = variant
        self.steps = steps
        self.partition_weight = partition_weight
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose
        self.client = client
        self.out = out
        self.checkpoint = checkpoint
        self.resume = resume

    def _check_parameters(self, table: Table) -> None:
        checks.choice(self.variant, "variant", ("mc", "hc"))
        checks.integer(self.steps, "steps", 1)
        fits(table, 6, "ECPCS", table.n_columns if self.variant == "hc" else None)

    def _cut(self, ensemble: Ensemble) -> Cut:
        table, weight = ensemble.table, ensemble.of_columns
        counts, ones = clusters.all_counts(table), np.ones(table.n_columns)
        graph = clusters.graph(table, ones, counts, self.n_clusters, ensemble.rng)
        alike = clusters.walk_cosines(graph.weight, self.steps)
        if self.variant == "hc":
            alike = alike[graph.node][:, graph.node]
            return cut_rows(ensemble, self.n_clusters, lambda rows, k: _tree_labels(alike, rows, k, weight), weight)
        groups = votes.Groups(
            lambda n_groups: clusters.spectral_groups(alike, n_groups, ensemble.rng, graph.n_clusters),
            *(alike, graph, sizes(table), weight, weight),
            costly=True,
        )
        found = votes.voted(table, groups, self.n_clusters, ensemble.dtype)
        return Cut(found, found)


def _tree_labels(alike: Any, rows: Distinct, n_clusters: int, weight: Any) -> Any:
    """Cut the average linkage of distinct rows, whose similarity is the mean of Z over their clusters by partition."""
    rows_fit(rows, 2, "ECPCS")
    similarity = clusters.of_rows(rows.m, alike, weight)
    return linkage.cut(linkage.tree(similarity, rows.multiplicity), n_clusters)
