"""PCE has these variables, and these means of all of its steps.

F, n x K with F'F = s^2 I, is kept as F / s; the R_i, K_i x K, one below the other as a table of C rows. All of it stays
on the device; the host has the weights of the partitions, which a quadratic programme of r variables finds there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuensemble._array import threads
from gpuensemble._array.devices import Array, device_of, namespace, to_device
from gpuensemble._kernels import products
from gpuensemble.membership import Membership

BLOCK_ROWS = 1 << 13  # worked on at a time on the CPU: they stay in the cache


@dataclass
class State:
    """This holds the variables of PCE, which each step updates in place."""

    observed: Membership
    m: Membership  # the same with the holes filled: `impute` rewrites them
    scale: float  # s
    points: Array  # F / s
    reliability: Array  # v
    unit: float  # v holds multiples of it, so that sums of v^2 are exact
    weight: np.ndarray  # a, on the host
    tables: Array  # R_1, R_2, ..., C x K
    turned: Array  # R', K x K
    labels: Array  # Y
    ends: Array  # 0 and K: where R' begins and ends as a table of one partition
    centre: Array  # S of the search for F, K x K
    step: Array  # what the next search for F tries first, one number
    work: Array  # like F, to work in: a new array would cost more time


@dataclass
class Clusters:
    """This is the one-hot matrix of the consensus, as the products want it."""

    codes: Array
    offsets: Array
    widths: np.ndarray
    n_columns: int
    complete: bool = True


def by_label(state: State) -> Array:
    """Return Y'F / s."""
    k = state.points.shape[1]
    y = Clusters(state.labels[:, None], state.ends, np.array([k]), k)
    return products.scatter_add(y, state.points).astype("float64", copy=False)


def share(state: State) -> np.ndarray:
    """Return the weight of the partition of each row of the tables, on the host."""
    return np.repeat(state.weight, state.m.widths)


def weighted(state: State) -> Array:
    """Return the a_i R_i / s as one table."""
    column = to_device(share(state)[:, None] / state.scale, state.m.device)
    return (column * state.tables).astype(state.points.dtype, copy=False)


def mean(state: State) -> Array:
    """Return sum_i a_i Y_i R_i / s, which may lie in `state.work`."""
    table, n = weighted(state), len(state.points)

    def some(rows: slice) -> Array:
        return products.gather_sum(state.m if rows == slice(0, n) else state.m.take(rows), table)

    return by_blocks(state.points, some, state.work)


def by_blocks(x: Array, function: Callable[[slice], Array], out: Array | None = None) -> Array:
    """Return function(rows) of all rows of x: on the CPU of some at a time, one below the other, else of all."""
    blocks = threads.spans(len(x), BLOCK_ROWS if device_of(x) == "cpu" else len(x))
    found = function(blocks[0])
    if len(blocks) == 1:
        return found
    out = namespace(x).empty((len(x), *found.shape[1:]), found.dtype) if out is None else out
    out[blocks[0]] = found
    for rows in blocks[1:]:
        out[rows] = function(rows)
    return out


def twin(state: State, cpu: Any, cuda: Any) -> Any:
    """Return the one of two modules of kernels that has the state's device."""
    return cpu if device_of(state.points) == "cpu" else cuda
