"""Ensemble (consensus) clustering on NumPy or CuPy: many base partitions in, one partition out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuensemble import generate, metrics, plot, prox, segments, simplex, stiefel, tsvd
from gpuensemble.membership import Membership, coassociation

if TYPE_CHECKING:
    from gpuensemble.estimators.cmvc.estimator import CMVC
    from gpuensemble.estimators.eac import EAC
    from gpuensemble.estimators.kcc import KCC
    from gpuensemble.estimators.lta.estimator import LTA
    from gpuensemble.estimators.pce.estimator import PCE
    from gpuensemble.estimators.rsec.estimator import RSEC
    from gpuensemble.estimators.sec import SEC

__all__ = [
    "CMVC",
    "EAC",
    "KCC",
    "LTA",
    "PCE",
    "RSEC",
    "SEC",
    "Membership",
    "coassociation",
    "generate",
    "metrics",
    "plot",
    "prox",
    "segments",
    "simplex",
    "stiefel",
    "tsvd",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """An estimator, at its first use: scikit-learn's base classes bring pandas, which importing us should not."""
    if name in __all__ and name.isupper():
        return getattr(import_module(f"gpuensemble.estimators.{name.lower()}"), name)
    raise AttributeError(f"module 'gpuensemble' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
