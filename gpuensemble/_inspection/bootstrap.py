"""Consensuses of resampled partitions: how often each sample stays in its cluster."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from gpuensemble._array import checks
from gpuensemble._array.devices import namespace, to_device, to_host
from gpuensemble._array.messages import shown
from gpuensemble._array.random import generators
from gpuensemble._inspection.align import aligned
from gpuensemble._inspection.inputs import Inputs
from gpuensemble.estimators._base import registry
from gpuensemble.estimators._base.labels import LabelConsensus
from gpuensemble.membership import Membership

ELSEWHERE = {"client": None, "out": None, "checkpoint": None, "resume": False}  # where a fit's work and answer are


def kept_shares(inputs: Inputs, n_bootstrap: int, method: Any, random_state: Any) -> np.ndarray:
    """Return for each sample the share of the consensuses of drawn partitions that leave it in its cluster."""
    m, clusters, names = inputs
    make = _maker(method, len(names), m.device)
    xp = namespace(m.codes)
    codes = xp.where(m.codes == xp.asarray(-1).astype(m.codes.dtype), -1, m.codes.astype("int32"))
    kept, drawn = np.zeros((2, len(codes)))
    for rng in generators(random_state, n_bootstrap):
        table = codes[:, to_device(rng.integers(0, codes.shape[1], codes.shape[1]), m.device)]
        rows = xp.nonzero((table >= 0).any(axis=1))[0]
        found = make(int(rng.integers(2**31))).fit(table[rows]).labels_
        renamed = aligned(Membership.from_labels(found[:, None], m.device), clusters[rows], len(names))[:, 0]
        drawn[to_host(rows)] += 1
        kept[to_host(rows)] += to_host(renamed == clusters[rows])
    return np.divide(kept, drawn, out=np.full(len(kept), np.nan), where=drawn > 0)


def _maker(method: Any, n_clusters: int, device: str) -> Callable[[int], Any]:
    """Return what makes an estimator, not fitted, of a seed."""
    if method is None or isinstance(method, str):
        methods = registry.of_labels()
        named = methods[checks.choice(method or "cluster-walk", "method", tuple(methods))]
        return lambda seed: named.make(n_clusters, seed, device)
    _refuse_others(method)
    reset = {name: value for name, value in ELSEWHERE.items() if name in method.get_params()}
    return lambda seed: clone(method).set_params(random_state=seed, **reset)


def _refuse_others(method: Any) -> None:
    """Raise if it is no estimator of a table of labels, or one with parameters of this table's samples or clusters."""
    if not isinstance(method, LabelConsensus):
        kind = "the name of a method or an estimator of a table of labels"
        raise TypeError(f"`method` must be {kind}, got {shown(method)}.")
    for name, value in method.get_params().items():
        if hasattr(value, "__len__") and not isinstance(value, str):
            rule = "no parameter with a value for each partition, cluster or sample, as partitions are drawn"
            raise ValueError(f"`method` must have {rule}, got `{name}`.")
