"""PCE starts with base partitions rotated onto a common embedding, their mean, and its clusters."""

import math
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpuensemble import stiefel
from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host
from gpuensemble._kernels import products
from gpuensemble._kernels.cpu.pce.rotations import polar
from gpuensemble._partition import bipartite
from gpuensemble._tables.blocks import whole
from gpuensemble.estimators.pce.state import State
from gpuensemble.estimators.pce.steps import impute, update_labels, update_rotation
from gpuensemble.membership import Membership

ROTATIONS = 30  # at most, in turns with the labels


def start(m: Membership, n_clusters: int, rng: Any, aligned: bool, balanced: bool, paced: bool, dtype: str) -> State:
    """Make the first state.

    F is the orthonormalised mean of the rotated partitions, R and Y come from it, and the holes are filled.
    """
    xp = namespace(m.codes)
    n, r = m.codes.shape
    identity = np.concatenate([np.eye(width, n_clusters) for width in m.widths])
    tables = aligned_tables(m, n_clusters, rng) if aligned else identity
    mean = products.gather_sum(m, to_device(tables, m.device))
    mean /= products.gather_sum(m, xp.ones((m.n_columns, 1)))  # over the partitions that saw the row
    state = State(
        observed=m,
        m=m.filled(m.codes.copy()),
        scale=(n / n_clusters) ** 0.5 if balanced else 1.0,
        points=_orthonormal(mean, rng).astype(dtype),
        reliability=xp.ones(n, dtype),
        unit=2.0 ** -min(20, (62 - math.ceil(math.log2(n))) // 2) if paced else 1.0,
        weight=np.full(r, 1 / r),
        tables=to_device(tables, m.device),
        turned=xp.eye(n_clusters),
        labels=xp.zeros(n, "int32"),
        ends=xp.asarray(np.array([0, n_clusters], "int32")),
        centre=xp.zeros((n_clusters, n_clusters)),
        step=xp.zeros(1),
        work=xp.empty((n, n_clusters), dtype),
    )
    _discretise(state)
    impute(state)
    return state


def aligned_tables(m: Membership, n_clusters: int, rng: Any) -> np.ndarray:
    """Rotate each partition onto the K leading left singular vectors of D^-1/2 H; all at once."""
    table = whole(m)
    projection = bipartite.embedding(table, bipartite.of_samples(table), n_clusters, rng)
    vectors = products.gather_sum(m, to_device(projection, m.device))
    vectors /= (m.degrees() ** 0.5)[:, None]
    sums = to_host(products.scatter_add(m, vectors))
    sums = np.pad(sums, ((0, 0), (0, n_clusters - sums.shape[1])))
    ends = to_host(m.offsets)
    for width in set(m.widths.tolist()):
        rows = ends[:-1][m.widths == width, None] + np.arange(width)
        sums[rows] = polar(sums[rows])
    return sums


def _discretise(state: State) -> None:
    """Find R and Y by spectral rotation: from K rows of F that are long and far from each other, then in turns."""
    state.turned = to_device(polar(_pivots(state.points).astype("float64")), state.m.device)
    update_labels(state)
    for _ in range(ROTATIONS):
        before = state.labels
        update_rotation(state)
        update_labels(state)
        if bool((state.labels == before).all()):
            break


def _pivots(x: Array) -> np.ndarray:
    """Return K rows, each the one farthest from the span of those before it, as in QR with pivoting."""
    left = namespace(x).einsum("ij,ij->i", x, x)
    rows: list[np.ndarray] = []
    for _ in range(x.shape[1]):
        rows.append(to_host(x[int(left.argmax())]))
        newest = np.linalg.qr(np.stack(rows, axis=1))[0][:, -1]
        left = left - (x @ to_device(newest, device_of(x))) ** 2
    return np.stack(rows)


def _orthonormal(x: Array, rng: Any) -> Array:
    """Return the orthonormal matrix nearest to x, in its place; where x lacks the rank, random columns complete it."""
    xp, device = namespace(x), device_of(x)
    values, vectors = np.linalg.eigh(to_host(x.T @ x))
    lacking = int((values <= 1e-12 * values[-1]).sum())
    if lacking:
        x = x @ to_device(vectors[:, lacking:] / values[lacking:] ** 0.5, device)
        more = to_device(rng.standard_normal((len(x), lacking)) / len(x) ** 0.5, device)
        x = xp.concatenate([x, more], axis=1)
        warnings.warn(
            f"`n_clusters` = {x.shape[1]} is more than the base partitions tell apart: {lacking} of the directions "
            "that the clusters lie in are random.",
            ConvergenceWarning,
            stacklevel=4,
        )
    else:
        _turn(x, vectors / values**0.5)
    for _ in range(2):  # for the digits that the square of x has lost
        _turn(x, np.linalg.inv(np.linalg.cholesky(to_host(x.T @ x))).T)
    _turn(x, np.roll(vectors, -lacking, axis=1).T)
    return x


def _turn(x: Array, matrix: np.ndarray) -> None:
    """Put x @ matrix in the place of x."""
    turning = to_device(matrix, device_of(x))
    for rows in stiefel.row_blocks(len(x), device_of(x)):
        x[rows] = x[rows] @ turning
