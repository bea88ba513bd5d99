"""The block steps of PCE fill the holes of base partitions while these are aligned and averaged.

F, n x K with F'F = s^2 I, is kept as F / s; the R_i, K_i x K, one below the other as a table of C rows. What has n rows
stays on the device, where it goes through in blocks; what has C rows or fewer is worked out on the host.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuensemble import simplex, stiefel
from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host
from gpuensemble._kernels import products
from gpuensemble._kernels.cpu import holes as cpu_holes
from gpuensemble.membership import Membership

CURVE_STEPS = 2  # of the search for F in one iteration
CLOSENESS = 1e-10  # of a Procrustes problem's size: how much a rotation is drawn to the one before it
NOISE = 1e3  # times eps: a distance between rows of F and the mean that is nothing but rounding


@dataclass
class State:
    """This holds the variables of PCE, which each step updates in place."""

    observed: Membership
    m: Membership  # the same with the holes filled: `impute` rewrites them
    scale: float  # s
    points: Array  # F / s
    reliability: Array  # v
    unit: float  # v holds multiples of it, so that sums of v^2 are exact
    weight: np.ndarray  # a
    tables: np.ndarray  # R_1, R_2, ..., C x K
    rotation: np.ndarray  # R
    labels: Array  # Y
    step: Any = None  # what the next search for F tries first
    workspace: list[Array] = field(default_factory=list)  # arrays like F that are not in use: new ones cost more time


class Sums:
    """a and the R_i depend on these sums: H'V^2F, and H'V^2H as one C x K_i block for each partition i.

    The blocks are kept where all of them take no more room than F, and counted anew at each use elsewhere.
    """

    def __init__(self, state: State):
        self.m, self.unit = state.m, state.unit
        self.ends = to_host(self.m.offsets)
        rows = _spare(state)
        namespace(rows).multiply(state.points, (state.scale * state.reliability**2)[:, None], out=rows)
        self.rows = to_host(products.scatter_add(self.m, rows)).astype("float64")
        state.workspace.append(rows)
        self.amount = None
        if state.unit != 1:
            self.amount = namespace(rows).rint(state.reliability / state.unit).astype("int64") ** 2
        keep = self.m.n_columns**2 <= state.points.size
        self.counts = functools.cache(self._counts) if keep else self._counts

    def part(self, i: int) -> slice:
        """Return the rows of partition i in a table."""
        return slice(self.ends[i], self.ends[i + 1])

    def _counts(self, i: int) -> np.ndarray:
        """Return H'V^2 Y_i: whole numbers of units, which no order of summation changes."""
        labels = namespace(self.m.codes).ascontiguousarray(self.m.codes[:, i]).astype("int32")
        return to_host(products.count(self.m, labels, self.amount, int(self.m.widths[i]))) * self.unit**2


def objective(state: State, squares: Array, lam: float, gamma: float) -> float:
    """Compute Eq. 4 from the squared lengths of the rows of A."""
    n, k = state.points.shape
    fit = float((state.reliability**2 * squares).sum()) - lam * float(state.reliability.sum())
    agreement = state.scale * float((_by_label(state) * state.rotation).sum())
    return fit + gamma * (n + state.scale**2 * k - 2 * agreement)


def squared_residuals(state: State) -> Array:
    """Return the squared length of each row of A = F - sum_i a_i Y_i R_i."""
    xp = namespace(state.points)
    out = xp.empty(len(state.points), state.points.dtype)
    for rows, residual in _residuals(state):
        out[rows] = state.scale**2 * xp.einsum("ij,ij->i", residual, residual)
    return out


def first_lambda(squares: Array) -> float:
    """Return the 10% quantile of 2 |A_p|^2 over the rows in which it is more than rounding: a zero would never grow."""
    xp = namespace(squares)
    noise = (NOISE * float(xp.finfo(squares.dtype).eps)) ** 2
    above = squares[squares > noise]
    return 2 * (float(xp.quantile(above, 0.1)) if len(above) else noise)


def update_reliability(state: State, squares: Array, lam: float) -> None:
    """Set v_p = min(lam / (2 |A_p|^2), 1) (Eq. 6), to the nearest multiple of the unit: the best of them."""
    xp = namespace(squares)
    v = xp.minimum(lam / xp.maximum(2 * squares, lam), 1)
    state.reliability = xp.rint(v / state.unit) * state.unit


def update_embedding(state: State, gamma: float) -> None:
    """Move F a few steps down tr(F'DF) - 2 tr(F'C) with F'F = s^2 I (Eq. 7, Theorem 1)."""
    xp = namespace(state.points)
    square = state.reliability[:, None] ** 2
    target = _spare(state)
    by_label = _on_device(state, state.rotation.T * (gamma / state.scale))
    for rows, mean in _means(state):
        target[rows] = mean * square[rows] + by_label[state.labels[rows]]
    diagonal = square
    diagonal += gamma

    def value_and_grad(x: Array, out: Array) -> tuple[Array, Array]:
        value = 0 * x[0, 0]
        for rows in _blocks(x):
            xp.multiply(x[rows], diagonal[rows], out=out[rows])
            out[rows] -= target[rows]
            value = value + xp.vdot(x[rows], out[rows]) - xp.vdot(x[rows], target[rows])
        return value / 2, out

    settings = {"max_iter": CURVE_STEPS, "tol": 0, "step": state.step, "workspace": state.workspace}
    found = stiefel.minimize(value_and_grad, state.points, **settings)
    state.points, state.step = found.x, found.step
    state.workspace.append(target)


def impute(state: State, first: bool = False) -> None:
    """Find the label of each hole, one partition after another (Eq. 11); with `first` the holes hold nothing yet."""
    if state.observed.complete:
        return
    rotations, weighted = _on_device(state, state.tables), _on_device(state, _weighted(state) / state.scale)
    lengths = (rotations * weighted).sum(1)
    if state.m.device == "cpu":
        cpu_holes.impute(state.m, state.observed, state.points, rotations, weighted, lengths)
    else:
        _impute(state, rotations, weighted, lengths, first)


def _impute(state: State, rotations: Array, weighted: Array, lengths: Array, first: bool) -> None:
    """Fill, on a device, the missing rows of one partition at a time, which the host waits for."""
    xp, codes, ends = namespace(state.points), state.m.codes, to_host(state.m.offsets)
    hole = int(np.array(-1).astype(codes.dtype))
    for rows, residual in _residuals(state, observed=first):
        for i in range(codes.shape[1]):
            part = slice(ends[i], ends[i + 1])
            missing = xp.nonzero(state.observed.codes[rows, i] == hole)[0]
            others = residual[missing]  # T: what the other partitions leave over
            if not first:
                others += weighted[part][codes[rows, i][missing]]
            best = (lengths[part] - 2 * others @ rotations[part].T).argmin(1)
            codes[rows, i][missing] = best.astype(codes.dtype)
            residual[missing] = others - weighted[part][best]


def update_weight(state: State, sums: Sums) -> None:
    """Find a by the quadratic programme with G_ij = tr(R_i'Y_i'V^2Y_j R_j), f_i = tr(R_i'Y_i'V^2F) (Eq. 12)."""
    r = len(state.weight)
    square, linear = np.empty((r, r)), np.empty(r)
    for i in range(r):
        part = sums.part(i)
        products = ((sums.counts(i) @ state.tables[part]) * state.tables).sum(1)
        square[i] = np.add.reduceat(products, sums.ends[:-1])
        linear[i] = (sums.rows[part] * state.tables[part]).sum()
    state.weight = simplex.minimiser(square, linear)


def update_tables(state: State, sums: Sums) -> None:
    """Update each R_i after the other (Eq. 13, Theorem 3).

    It is Procrustes of Y_i'V^2T = Y_i'V^2A + a_i N R_i, N = Y_i'V^2Y_i. With K_i > K, where R_i R_i' is not I, the
    largest entry of N takes the place of N: it is the step of a majorant.

    The updates go in turns, not at once: from the old R_i alone the objective rose in 14 of 15 runs on jaffe, orl and
    coil20, and with a majorant that forbids this (Jensen's, as the a_i sum to 1) they took 1.6 to 4.6 times the
    iterations.
    """
    for i, a in enumerate(state.weight):
        part = sums.part(i)
        counts, before = sums.counts(i), state.tables[part]
        own = counts[part].diagonal()[:, None]
        if len(own) > before.shape[1]:
            own = own.max()
        state.tables[part] = polar(sums.rows[part] - counts.T @ _weighted(state) + a * own * before, before)


def update_rotation(state: State) -> None:
    """Find R by Procrustes of F'Y (Eq. 14)."""
    state.rotation = polar(_by_label(state), state.rotation)


def update_labels(state: State) -> None:
    """Set Y to the largest entry of each row of F R (Eq. 15)."""
    rotation = _on_device(state, state.rotation)
    labels = namespace(rotation).empty(len(state.points), "int32")
    for rows in _blocks(labels):
        labels[rows] = (state.points[rows] @ rotation).argmax(1)
    state.labels = labels


def polar(x: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
    """Return the matrix with orthonormal rows or columns that has the largest inner product with x.

    Where x lacks the rank to decide, it is the one nearest to `before`.
    """
    if before is not None:
        x = x + CLOSENESS * (np.linalg.norm(x) or 1.0) * before
    left, _, right = np.linalg.svd(x, full_matrices=False)
    return left @ right


def _by_label(state: State) -> np.ndarray:
    """Return F'Y / s, on the host."""
    k = state.points.shape[1]
    y = Membership(state.labels[:, None], [k], device=state.m.device)
    return to_host(products.scatter_add(y, state.points)).astype("float64").T


def _weighted(state: State) -> np.ndarray:
    """Return the a_i R_i as one table."""
    return np.repeat(state.weight, state.m.widths)[:, None] * state.tables


def _means(state: State, observed: bool = False) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of rows of sum_i a_i Y_i R_i / s; with `observed` holes add nothing."""
    table = _on_device(state, _weighted(state) / state.scale)
    for rows in _blocks(state.points):
        some = (state.observed if observed else state.m).take(rows)
        yield rows, products.gather_sum(some, table)


def _residuals(state: State, observed: bool = False) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of rows of A / s."""
    return ((rows, state.points[rows] - mean) for rows, mean in _means(state, observed))


def _spare(state: State) -> Array:
    """Return an array like F to work in."""
    return state.workspace.pop() if state.workspace else namespace(state.points).empty_like(state.points)


def _on_device(state: State, table: np.ndarray) -> Array:
    return to_device(table.astype(state.points.dtype), state.m.device)


def _blocks(x: Array) -> list[slice]:
    return stiefel.row_blocks(len(x), device_of(x))
