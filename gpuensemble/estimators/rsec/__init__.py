"""RSEC and NRSEC have an estimator here, and the solver of Algorithms 1 and 2."""

from gpuensemble.estimators.rsec.estimator import RSEC

__all__ = ["RSEC"]
