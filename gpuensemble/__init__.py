"""Ensemble (consensus) clustering on NumPy or CuPy: many base partitions in, one partition out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
_MODULES = (
    *("anndata", "communities", "generate", "metrics", "neighbors", "plot", "prox", "segments", "simplex", "stiefel"),
    "tsvd",
)
_HOMES = {  # of names that are no modules
    "ConsensusClustering": "clustering",
    "EdgeConsensus": "edges",
    "Membership": "membership",
    "align": "_inspection.align",
    "choose_k": "_inspection.choose",
    "coassociation": "membership",
    "consensus_tree": "_inspection.tree",
    "impute": "_inspection.impute",
    "report": "_report.report",
    "stability": "_inspection.stability",
}

if TYPE_CHECKING:  # for type checkers, which see no folder: a test compares these lines with the registry
    from gpuensemble import anndata as anndata
    from gpuensemble import communities as communities
    from gpuensemble import generate as generate
    from gpuensemble import metrics as metrics
    from gpuensemble import neighbors as neighbors
    from gpuensemble import plot as plot
    from gpuensemble import prox as prox
    from gpuensemble import segments as segments
    from gpuensemble import simplex as simplex
    from gpuensemble import stiefel as stiefel
    from gpuensemble import tsvd as tsvd
    from gpuensemble._inspection.align import align as align
    from gpuensemble._inspection.choose import choose_k as choose_k
    from gpuensemble._inspection.impute import impute as impute
    from gpuensemble._inspection.stability import stability as stability
    from gpuensemble._inspection.tree import consensus_tree as consensus_tree
    from gpuensemble._report.report import report as report
    from gpuensemble.clustering import ConsensusClustering as ConsensusClustering
    from gpuensemble.edges import EdgeConsensus as EdgeConsensus
    from gpuensemble.estimators.cluster_walk import ClusterWalk as ClusterWalk
    from gpuensemble.estimators.cmvc import CMVC as CMVC
    from gpuensemble.estimators.cspa import CSPA as CSPA
    from gpuensemble.estimators.eac import EAC as EAC
    from gpuensemble.estimators.ecpcs import ECPCS as ECPCS
    from gpuensemble.estimators.hbgf import HBGF as HBGF
    from gpuensemble.estimators.hgpa import HGPA as HGPA
    from gpuensemble.estimators.kcc import KCC as KCC
    from gpuensemble.estimators.lta import LTA as LTA
    from gpuensemble.estimators.lwea import LWEA as LWEA
    from gpuensemble.estimators.lwgp import LWGP as LWGP
    from gpuensemble.estimators.mcla import MCLA as MCLA
    from gpuensemble.estimators.nmfc import NMFC as NMFC
    from gpuensemble.estimators.pce import PCE as PCE
    from gpuensemble.estimators.pta import PTA as PTA
    from gpuensemble.estimators.ptgp import PTGP as PTGP
    from gpuensemble.estimators.rsec import RSEC as RSEC
    from gpuensemble.estimators.sec import SEC as SEC
    from gpuensemble.estimators.voting import Voting as Voting
    from gpuensemble.membership import Membership as Membership
    from gpuensemble.membership import coassociation as coassociation
else:

    def __getattr__(name: str) -> Any:
        """Bring a module or an estimator at its first use: importing us compiles and loads nothing."""
        if name in _MODULES:
            return import_module(f"gpuensemble.{name}")
        if name in _HOMES:
            return getattr(import_module(f"gpuensemble.{_HOMES[name]}"), name)
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module 'gpuensemble' has no attribute {name!r}")
        from gpuensemble.estimators._base import registry

        if name == "__all__":
            estimators = sorted({method.estimator.__name__ for method in registry.methods().values()})
            return [*estimators, *_HOMES, *_MODULES]
        found = registry.estimator(name)
        if found is None:
            raise AttributeError(f"module 'gpuensemble' has no attribute {name!r}")
        globals()[name] = found  # to look for it takes as long as a fit of little data
        return found

    def __dir__() -> list[str]:
        return [*globals(), *__getattr__("__all__")]
