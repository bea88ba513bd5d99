"""PCE has an estimator here, its start, its block steps, and the table that it fills."""

from gpuensemble.estimators.pce.estimator import PCE

__all__ = ["PCE"]
