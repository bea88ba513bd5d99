"""CMVC has an estimator here, and the views that it takes."""

from gpuensemble.estimators.cmvc.estimator import CMVC

__all__ = ["CMVC"]
