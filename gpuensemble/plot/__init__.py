"""Pictures show a consensus, with matplotlib (the `plot` extra): each draws on one Axes, and returns it and its data.

None of them needs anything n x n but the picture itself. Colours are those of matplotlib's viridis, which colour-blind
readers can tell apart, and which go from dark to light in grey; lines differ in style as well, and clusters are named
where there is room. Names of the caller are shown as they are.

This room may import everything but `_cli`. Start with `heatmap`.
"""

from gpuensemble.plot.heatmap import coassociation
from gpuensemble.plot.numbers import cdf, choice, delta_area, tracking
from gpuensemble.plot.partitions import agreement, convergence
from gpuensemble.plot.samples import cluster_consensus, item_consensus, silhouette, stability
from gpuensemble.plot.trees import clustree, dendrogram

__all__ = [
    "agreement",
    "cdf",
    "choice",
    "cluster_consensus",
    "clustree",
    "coassociation",
    "convergence",
    "delta_area",
    "dendrogram",
    "item_consensus",
    "silhouette",
    "stability",
    "tracking",
]
