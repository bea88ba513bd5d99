"""LTA has an estimator here, and the solver of its Algorithm 2."""

from gpuensemble.estimators.lta.estimator import LTA

__all__ = ["LTA"]
