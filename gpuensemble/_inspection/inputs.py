"""A table of labels beside one partition of the same samples: what comes in, checked."""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import coding, frames
from gpuensemble._array.devices import Array, choose_device, device_of, on, to_device
from gpuensemble.membership import Membership


class Inputs(NamedTuple):
    """This holds the operator of a table, and the clusters of one partition of its samples."""

    m: Membership
    clusters: Array  # of each sample, int32, on the device of m
    names: np.ndarray  # of the clusters, by the caller, ascending where they can be compared


def checked(labels: Any, partition: Any, name: str, device: str) -> Inputs:
    """Read a table and a partition, which is a vector without holes or an estimator with `labels_`."""
    labels = frames.table(labels)
    device = choose_device(device, labels)
    with on(device):
        m = Membership.from_labels(labels, device)
    partition = getattr(partition, "labels_", partition)
    with on(device_of(partition)):
        coded, values = coding.from_vector(partition, name)
    if len(coded.codes) != len(m.codes):
        raise ValueError(f"`{name}` must have n_samples={len(m.codes)} entries, got {len(coded.codes)}.")
    frames.refuse_another_order(partition, name, labels, "labels")
    order = _ascending(values)
    with on(device):
        rank = to_device(np.argsort(order).astype("int32"), device)
        return Inputs(m, rank[to_device(coded.codes[:, 0], device)], values[order])


def _ascending(values: np.ndarray) -> np.ndarray:
    """Return the order of the values from least to greatest; as they are where they cannot be compared."""
    known = values.tolist()
    try:
        return np.array(sorted(range(len(known)), key=known.__getitem__))
    except TypeError:
        return np.arange(len(known))
