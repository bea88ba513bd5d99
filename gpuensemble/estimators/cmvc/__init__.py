"""CMVC has an estimator here, its algorithm, and the views that it takes."""

from gpuensemble.estimators.cmvc.estimator import CMVC

__all__ = ["CMVC"]
