"""The element-centric similarity, which looks at each sample's neighbours in both partitions.

Gates, Wood, Hetrick, Ahn: Element-centric clustering comparison unifies overlaps and hierarchy, Scientific Reports,
2019.
"""

from typing import Any

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.devices import Array
from gpuensemble.metrics import contingency


def element_centric(y: Any, z: Any, *, per_sample: bool = False) -> Any:
    """Score how alike two partitions are by the element-centric similarity, which also tells of each sample.

    It is the mean over samples of |A and B| / max(|A|, |B|); A and B are the sample's clusters in y and z. The paper
    compares the personalised PageRanks of each sample on the graphs that join all samples of a cluster; for partitions
    this is the closed form, whatever alpha. It is not biased towards partitions with many, or with unequal, clusters.

    Parameters
    ----------
    y, z : vectors of n labels
        Swapping them changes nothing.
    per_sample : bool
        Return the similarity of each sample: which samples the partitions agree on.

    Returns
    -------
    float, or array of n
        Between 0 (never reached) and 1 (the same partition, or cluster); the array is where the labels are.

    Examples
    --------
    >>> from gpuensemble import metrics
    >>> metrics.element_centric([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> metrics.element_centric([0, 0, 0, 0], [0, 0, 0, 1], per_sample=True).tolist()
    [0.75, 0.75, 0.75, 0.25]
    """
    pair = contingency.coded(y, z)
    table = contingency.counted(pair)
    if checks.flag(per_sample, "per_sample"):
        return contingency.spread(_overlap(table), table, pair)
    return similarity(table)


def similarity(table: contingency.Table) -> float:
    """Return the element-centric similarity of a contingency table."""
    return contingency.mean(_overlap(table), table)


def _overlap(table: contingency.Table) -> Array:
    """Return the count of each cell over the larger of its clusters."""
    return table.counts / np.maximum(table.sizes_y[table.row], table.sizes_z[table.column])
