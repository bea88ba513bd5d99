"""The block steps of PCE, but that of F, fill the holes of base partitions while these are aligned and averaged."""

import functools
from collections.abc import Iterator
from itertools import pairwise

from gpuensemble import simplex
from gpuensemble._array.devices import Array, namespace, to_device, to_host
from gpuensemble._kernels import products
from gpuensemble._kernels.cpu.pce import holes as cpu_holes
from gpuensemble._kernels.cpu.pce import rotations as cpu_rotations
from gpuensemble._kernels.cuda.pce import holes as cuda_holes
from gpuensemble._kernels.cuda.pce import rotations as cuda_rotations
from gpuensemble.estimators.pce.state import State, by_blocks, by_label, share, twin, weighted

CLOSENESS = 1e-10  # of a Procrustes problem's size: how much a rotation is drawn to the one before it
NOISE = 1e3  # times eps: a distance between rows of F and the mean that is nothing but rounding
COUNTS = 1 << 22  # entries of H'V^2H made at a time, or as many as F has; more of them come in parts


class Sums:
    """a and the R_i depend on these sums: H'V^2F, and H'V^2H in parts of a few partitions.

    A single part is kept; several are counted anew at each use.
    """

    def __init__(self, state: State):
        xp, self.m, self.unit = namespace(state.points), state.m, state.unit**2
        self.twin = twin(state, cpu_rotations, cuda_rotations)
        xp.multiply(state.points, (state.scale * state.reliability**2)[:, None], out=state.work)
        self.rows = products.scatter_add(self.m, state.work).astype("float64", copy=False)
        self.amount = None
        if state.unit != 1:
            self.amount = (state.reliability / state.unit).astype("int64") ** 2
        most = max(COUNTS, state.points.size) // self.m.n_columns
        self.bounds = _bounds(self.m.widths.tolist(), most)
        self.counts = functools.cache(self._counts) if len(self.bounds) == 2 else self._counts

    def parts(self) -> Iterator[tuple[int, int, Array]]:
        """Yield the first partition of a part, the one after its last, and the rows of H'V^2H of those in between."""
        return ((first, last, self.counts(first, last)) for first, last in pairwise(self.bounds))

    def _counts(self, first: int, last: int) -> Array:
        """Count whole numbers of units, which no order of summation changes."""
        return self.twin.count_pairs(self.m, self.amount, first, last)


def _bounds(widths: list[int], most: int) -> list[int]:
    """Return the bounds of parts of neighbouring partitions: together at most so wide, or a single one."""
    bounds, total = [0], 0
    for i, width in enumerate(widths):
        if i > bounds[-1] and total + width > most:
            bounds.append(i)
            total = 0
        total += width
    return [*bounds, len(widths)]


def objective(state: State, squares: Array, lam: float, gamma: float) -> float:
    """Compute Eq. 4 from the squared lengths of the rows of A; the host waits for it once."""
    xp = namespace(state.points)
    n, k = state.points.shape
    sums = (xp.vdot(state.reliability**2, squares), state.reliability.sum(), xp.vdot(by_label(state), state.turned))
    fit, mass, agreement = to_host(xp.stack(sums)).tolist()
    return fit - lam * mass + gamma * (n + state.scale**2 * k - 2 * state.scale * agreement)


def squared_residuals(state: State, mean: Array) -> Array:
    """Return the squared length of each row of A = F - sum_i a_i Y_i R_i; `mean` is that of the state."""
    xp = namespace(state.points)

    def squares(rows: slice) -> Array:
        residual = state.points[rows] - mean[rows]
        return xp.einsum("ij,ij->i", residual, residual) * state.scale**2

    return by_blocks(state.points, squares)


def first_lambda(squares: Array) -> float:
    """Return the 10% quantile of 2 |A_p|^2 over the rows in which it is more than rounding: a zero would never grow."""
    xp = namespace(squares)
    noise = (NOISE * float(xp.finfo(squares.dtype).eps)) ** 2
    above = squares[squares > noise]
    return 2 * (float(xp.quantile(above, 0.1)) if len(above) else noise)


def update_reliability(state: State, squares: Array, lam: float) -> None:
    """Set v_p = min(lam / (2 |A_p|^2), 1) (Eq. 6), to the nearest multiple of the unit: the best of them."""
    xp = namespace(squares)
    state.reliability = xp.rint((lam / 2 / state.unit) / xp.maximum(squares, lam / 2)) * state.unit


def impute(state: State) -> None:
    """Find the label of each hole, one partition after another (Eq. 11); at first the holes hold nothing."""
    if state.observed.complete:
        return
    rotations, table = state.tables.astype(state.points.dtype, copy=False), weighted(state)
    tables = (state.points, rotations, table, (rotations * table).sum(1))
    twin(state, cpu_holes, cuda_holes).impute(state.m, state.observed, *tables)


def update_weight(state: State, sums: Sums) -> None:
    """Find a by the quadratic programme with G_ij = tr(R_i'Y_i'V^2Y_j R_j), f_i = tr(R_i'Y_i'V^2F) (Eq. 12).

    The host waits once, for G and f.
    """
    given = [
        sums.twin.programme(sums.m, state.tables, sums.rows, counts, sums.unit, first, last)
        for first, last, counts in sums.parts()
    ]
    found = to_host(namespace(state.points).concatenate(given))
    state.weight = simplex.minimiser(found[:, :-1], found[:, -1])


def update_tables(state: State, sums: Sums) -> None:
    """Update each R_i after the other (Eq. 13, Theorem 3).

    It is Procrustes of Y_i'V^2T = Y_i'V^2A + a_i N R_i, N = Y_i'V^2Y_i. With K_i > K, where R_i R_i' is not I, the
    largest entry of N takes the place of N: it is the step of a majorant.

    The updates go in turns, not at once: from the old R_i alone the objective rose in 14 of 15 runs on jaffe, orl and
    coil20, and with a majorant that forbids this (Jensen's, as the a_i sum to 1) they took 1.6 to 4.6 times the
    iterations.
    """
    column = to_device(share(state), state.m.device)
    for first, last, counts in sums.parts():
        given = (counts, sums.unit, column, first, last)
        sums.twin.rotate(sums.m.offsets, state.tables, sums.rows, CLOSENESS, *given)


def update_rotation(state: State) -> None:
    """Find R by Procrustes of F'Y (Eq. 14)."""
    twin(state, cpu_rotations, cuda_rotations).rotate(state.ends, state.turned, by_label(state), CLOSENESS)


def update_labels(state: State) -> None:
    """Set Y to the largest entry of each row of F R (Eq. 15)."""
    rotation = state.turned.T.astype(state.points.dtype, copy=False)
    state.labels = by_blocks(state.points, lambda rows: (state.points[rows] @ rotation).argmax(1).astype("int32"))
