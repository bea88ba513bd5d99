"""Ensemble (consensus) clustering on NumPy or CuPy: many base partitions in, one partition out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuensemble import generate, metrics
from gpuensemble.membership import Membership, coassociation

if TYPE_CHECKING:
    from gpuensemble.estimators.eac import EAC
    from gpuensemble.estimators.kcc import KCC
    from gpuensemble.estimators.sec import SEC

__all__ = ["EAC", "KCC", "SEC", "Membership", "coassociation", "generate", "metrics"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """An estimator, at its first use: scikit-learn's base classes bring pandas, which importing us should not."""
    if name in ("EAC", "KCC", "SEC"):
        return getattr(import_module(f"gpuensemble.estimators.{name.lower()}"), name)
    raise AttributeError(f"module 'gpuensemble' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
