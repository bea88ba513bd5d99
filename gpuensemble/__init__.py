"""Ensemble (consensus) clustering on NumPy or CuPy: many base partitions in, one partition out."""

from gpuensemble.membership import Membership, coassociation

__all__ = ["Membership", "coassociation"]
__version__ = "0.1.0"
