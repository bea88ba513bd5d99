"""Consensuses of resampled partitions: how often each sample stays in its cluster."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from gpuensemble._array import checks
from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host
from gpuensemble._array.messages import shown
from gpuensemble._array.random import generators
from gpuensemble._inspection.align import aligned
from gpuensemble._inspection.inputs import Inputs
from gpuensemble.estimators._base import registry
from gpuensemble.estimators._base.labels import NumberedConsensus
from gpuensemble.membership import Membership

ELSEWHERE = {"client": None, "out": None, "checkpoint": None, "resume": False}  # where a fit's work and answer are


def kept_shares(inputs: Inputs, n_bootstrap: int, method: Any, random_state: Any) -> np.ndarray:
    """Return for each sample the share of the consensuses of drawn partitions that leave it in its cluster."""
    m, clusters, names = inputs
    make, n_clusters = maker(method, "method", m.device), getattr(method, "n_clusters", len(names))
    kept, drawn = np.zeros((2, len(m.codes)))
    for rows, found in consensuses(signed(m), n_bootstrap, make, n_clusters, random_state):
        renamed = aligned(Membership.from_labels(found[:, None], m.device), clusters[rows], len(names))[:, 0]
        drawn[to_host(rows)] += 1
        kept[to_host(rows)] += to_host(renamed == clusters[rows])
    return np.divide(kept, drawn, out=np.full(len(kept), np.nan), where=drawn > 0)


def signed(m: Membership) -> Array:
    """Return the codes of a table, with -1 for a hole."""
    xp = namespace(m.codes)
    return xp.where(m.codes == xp.asarray(-1).astype(m.codes.dtype), -1, m.codes.astype("int32"))


def consensuses(
    codes: Array, n_bootstrap: int, make: Callable, n_clusters: int, random_state: Any
) -> Iterator[tuple[Array, Array]]:
    """Draw r of r partitions with replacement, so many times; give the rows that have a label, and their consensus.

    Where these are fewer than the clusters, each is a cluster.
    """
    for rng in generators(random_state, n_bootstrap):
        table = codes[:, to_device(rng.integers(0, codes.shape[1], codes.shape[1]), device_of(codes))]
        rows = namespace(codes).nonzero((table >= 0).any(axis=1))[0]
        yield rows, _found(make(min(n_clusters, len(rows)), int(rng.integers(2**31))), table[rows])


def _found(estimator: Any, table: Array) -> Array:
    """Return the consensus of a drawn table; that some have fewer clusters is no news."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(table).labels_


def maker(method: Any, name: str, device: str) -> Callable[[int, int], Any]:
    """Return what makes an estimator, not fitted, of a number of clusters and a seed."""
    if method is None or isinstance(method, str):
        methods = registry.of_labels()
        named = methods[checks.choice(method or "cluster-walk", name, tuple(methods))]
        return lambda n_clusters, seed: named.make(n_clusters, seed, device)
    _refuse_others(method, name)
    reset = {key: value for key, value in ELSEWHERE.items() if key in method.get_params()}
    return lambda n_clusters, seed: clone(method).set_params(n_clusters=n_clusters, random_state=seed, **reset)


def _refuse_others(method: Any, parameter: str) -> None:
    """Raise if it is no estimator of a table of labels, or one with parameters of this table's samples or clusters."""
    if not isinstance(method, NumberedConsensus):
        kind = "the name of a method or an estimator of a table of labels"
        raise TypeError(f"`{parameter}` must be {kind}, got {shown(method)}.")
    for name, value in method.get_params().items():
        if hasattr(value, "__len__") and not isinstance(value, str):
            rule = "no parameter with a value for each partition, cluster or sample, as partitions are drawn"
            raise ValueError(f"`{parameter}` must have {rule}, got `{name}`.")
