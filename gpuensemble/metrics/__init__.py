"""These score a partition against another, and all partitions of a table against each other.

Labels `y` and `z` are vectors of n labels of any kind, NumPy or CuPy array, pandas Series or list: whole numbers that
are not negative, or any hashable values; none may be missing. Work is done where the labels are: of CuPy arrays only
the nonzero cells of the contingency table leave the device. All counts are exact up to n = 3 * 10**9, and the scores
have the same bits whatever the device.

This room may import `_array`, `_kernels`, `membership` and `_tables`. Start with `contingency`.
"""

from gpuensemble.metrics.elements import element_centric
from gpuensemble.metrics.ensembles import pairwise
from gpuensemble.metrics.information import VMeasure, ami, nmi, v_measure, vi
from gpuensemble.metrics.matching import accuracy, purity
from gpuensemble.metrics.pairs import PairScores, ari, pair_scores

__all__ = [
    "PairScores",
    "VMeasure",
    "accuracy",
    "ami",
    "ari",
    "element_centric",
    "nmi",
    "pair_scores",
    "pairwise",
    "purity",
    "v_measure",
    "vi",
]
