"""The solver refines the co-association matrix of LTA: it runs Algorithm 2 on few arrays.

Jia, Liu, Hou, Zhang: Clustering Ensemble Meets Low-rank Tensor Approximation, AAAI 2021.

Two n x n matrices are stacked into a tensor P: coherent links M and co-association A. Held are A, E, L1, L3, P1 and P2,
in whose place the next T1 and T2 come, and the workspace of the transform. B and C are functions of P, L1 and L3; L2 is
-2 lambda E, as Eq. 15 and 22 say together; M is A == 1.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from gpuensemble import prox
from gpuensemble._array.devices import Array, namespace, to_device, to_host
from gpuensemble._array.progress import with_bar
from gpuensemble._array.threads import spans
from gpuensemble._kernels.cpu import lta as cpu_lta
from gpuensemble._kernels.cuda import lta as cuda_lta
from gpuensemble._linear.pairs import SymmetricPairs
from gpuensemble.membership import Membership

MU, GROWTH, MU_MAX = 1e-4, 1.1, 1e10  # of the penalty
ARRAYS = 11  # n x n at most at any time, workspace of LAPACK and cuFFT aside
FLOAT32_TOL, FLOAT32_HOLD = 5e-8, 60
COUNTED_ROWS = 256  # rows at a time in which values are counted


class Step(NamedTuple):
    """This holds the factors of an iteration with penalty mu, and those of the T of the next one."""

    mu: float
    inverse: float  # 1 / mu
    next_inverse: float
    share: float  # mu / (2 lambda + mu)
    back: float  # 2 lambda / mu
    next_back: float


class Variables(NamedTuple):
    """This holds the variables between two iterations: all that Algorithm 2 needs to go on."""

    tensor: Array  # T1 and T2
    similarity: Array  # A
    error: Array  # E
    first: Array  # L1
    third: Array  # L3


class Refined(NamedTuple):
    """A run returns this: the symmetric part of P2, and of each iteration the largest residual and the objective."""

    coassociation: Array
    residual_path: list[float]
    objective_path: list[float]
    converged: bool


def coassociation(
    m: Membership, transform: str, lambda_error: float, tol: float, max_iter: int, dtype: str, verbose: int = 0
) -> Refined:
    """Run Algorithm 2 from zero, until no entry of the residuals is as large as `tol`.

    In float32 rounding keeps the residuals up, in proportion to the largest singular values. So a `tol` below
    FLOAT32_TOL * n is read as: below FLOAT32_TOL * n for FLOAT32_HOLD iterations in a row, about as many as float64
    needs to get from there to 1e-8.

    With the partition transform rows that are equal in all labels are equal in all iterates, so that one of each is
    worked on, with its multiplicity.
    """
    xp = namespace(m.codes)
    kernels: Any = cpu_lta if m.device == "cpu" else cuda_lta
    rows, group, copies, _ = m.merge() if transform == "partition" else (m, None, xp.ones(len(m.codes)), None)
    copies = copies.astype("float64")
    state, zeros = _while_zero(rows, copies, transform, lambda_error, max_iter, dtype)
    shrink = shrinkage(transform, state.tensor, copies)
    path = xp.zeros((max_iter, 2))
    path[: len(zeros)] = xp.asarray(zeros)
    hold = FLOAT32_HOLD if dtype == "float32" and tol < FLOAT32_TOL * len(m.codes) else 1
    tol = tol if hold == 1 else FLOAT32_TOL * len(m.codes)
    n_iter, below = len(zeros), 0
    later = islice(steps(lambda_error), n_iter, max_iter)
    for step in with_bar(later, "LTA", verbose, max_iter, done=n_iter):
        shrink.begin(state.tensor, step.inverse)
        # one transfer: how the last iteration ended, and how P of this one begins
        last, *report = to_host(xp.concatenate([path[n_iter - 1, :1], shrink.report])).tolist()
        below = below + 1 if n_iter > len(zeros) and last < tol else 0
        if below == hold:
            break
        norm = shrink.finish(state.tensor, report)  # P, Eq. 12
        path[n_iter, 0] = kernels.lta_update(*state, step).max()  # Eq. 13 to 22
        path[n_iter, 1] = norm + lambda_error * _square(state.error, copies, group)
        n_iter += 1
    else:
        below = below + 1 if n_iter > len(zeros) and float(path[n_iter - 1, 0]) < tol else 0
    second = shrink.second() if n_iter > len(zeros) else xp.zeros_like(state.error)
    del state, shrink
    residuals, objectives = to_host(path[:n_iter]).T.tolist()
    return Refined(_symmetric(second, group), residuals, objectives, below == hold)


def steps(lambda_error: float) -> Iterator[Step]:
    """Yield the steps without an end: mu grows by a tenth each time (Eq. 22)."""
    mu = MU
    while True:
        following = min(mu * GROWTH, MU_MAX)
        share, back, next_back = mu / (2 * lambda_error + mu), 2 * lambda_error / mu, 2 * lambda_error / following
        yield Step(mu, 1 / mu, 1 / following, share, back, next_back)
        mu = following


def _square(error: Array, copies: Array, group: Array | None) -> Array:
    """Return |E|_F^2 over all rows."""
    if group is None:
        return namespace(error).einsum("ij,ij->", error, error)  # on the CPU faster than a dot product of two threads
    return copies @ ((error * error) @ copies.astype(error.dtype))


def _symmetric(second: Array, group: Array | None) -> Array:
    """Return the symmetric part, of all rows."""
    symmetric = second + second.T
    symmetric *= 0.5
    return symmetric if group is None else symmetric[group][:, group]


# ------------------------------------------------------------------------------------------ the iterations with P = 0


def _while_zero(
    m: Membership, copies: Array, transform: str, lambda_error: float, max_iter: int, dtype: str
) -> tuple[Variables, np.ndarray]:
    """Run the first iterations, all with P = 0; return the state after them, and their residuals and objectives.

    As long as P is zero, an entry of a variable depends on the same entry of A alone, which has r + 1 values. So the
    iterations run on a small matrix of these values, until a bound says that a singular value may pass the threshold.
    """
    xp, r = namespace(m.codes), m.codes.shape[1]
    similarity = m.coassociation(dtype=dtype)
    level = xp.rint(similarity * r).astype("int64")
    counts = _counts(level, copies, r)
    totals = to_host(copies) @ counts
    small, places = _small(r, dtype)
    path = []
    for step in islice(steps(lambda_error), max_iter):
        tables = [table[places].astype("float64") for table in small.tensor]
        if _bound(tables, counts, transform) > step.inverse:
            break
        small.tensor[:] = 0
        residual = cpu_lta.lta_update(*small, step).max()
        path.append((residual, lambda_error * (totals @ small.error[places].astype("float64") ** 2)))
    tensor = xp.empty((2, *level.shape), dtype)
    for out, table in zip(tensor, small.tensor, strict=True):
        out[...] = to_device(table[places], m.device)[level]
    others = (to_device(table[places], m.device)[level] for table in small[2:])
    return Variables(tensor, similarity, *others), np.array(path).reshape(-1, 2)


def _small(r: int, dtype: str) -> tuple[Variables, tuple]:
    """Make the state at the start for a symmetric A with the values 0, 1/r, ..., 1, and say where it has them."""
    side = math.isqrt(2 * (r + 1)) + 1
    rows, columns = np.triu_indices(side)
    values = np.ones((side, side), dtype)
    places = rows[: r + 1], columns[: r + 1]
    values[places] = values[places[::-1]] = np.arange(r + 1).astype(dtype) / np.dtype(dtype).type(r)
    return Variables(np.stack([0 * values, values / 2]), values, *(np.zeros_like(values) for _ in range(3))), places


def _counts(level: Array, copies: Array, r: int) -> np.ndarray:
    """Count how often each row of A has each of its r + 1 values, on the host; blocks of rows need little memory."""
    xp, n = namespace(level), len(level)
    found = []
    for rows in spans(n, COUNTED_ROWS):
        some = level[rows]
        cells = some + (r + 1) * xp.arange(len(some))[:, None]
        weights = xp.broadcast_to(copies, some.shape).ravel()
        found.append(to_host(xp.bincount(cells.ravel(), weights, minlength=len(some) * (r + 1))))
    return np.concatenate(found).reshape(n, r + 1)


def _bound(tables: list[np.ndarray], counts: np.ndarray, transform: str) -> float:
    """Bound the singular values of all slices, if entries of T1 and T2 are those of two tables."""
    first, second = tables
    if transform == "partition":  # sums of a row's absolute values
        return max(float((counts @ abs(x)).max()) for x in (first + second, first - second))
    return float(np.linalg.norm([counts @ abs(first), counts @ abs(second)]))  # no frequency exceeds a row's sum


# ------------------------------------------------------------------------------------------------------ the two proxes


class Partitions:
    """This makes P for the transform along the two stacked matrices, both symmetric.

    P2 is kept, since the next T2 comes in its place. A row stands for `copies` equal ones.
    """

    def __init__(self, tensor: Array, copies: Array):
        self.pairs, self.last = SymmetricPairs(tensor, copies), None

    @property
    def report(self) -> Array:
        """What `finish` must know, on the device."""
        return self.pairs.report

    def begin(self, tensor: Array, tau: float) -> None:
        """Begin to turn T into P."""
        self.pairs.begin(tensor, tau)

    def finish(self, tensor: Array, report: list[float]) -> Array:
        """Turn T into P, in place; return its norm."""
        self.last = None  # beside a full decomposition there is no room for it
        norm = self.pairs.finish(tensor, report)
        self.last = tensor[1].copy()
        return norm

    def second(self) -> Array:
        """Return the last P2."""
        return self.last


class Samples:
    """This makes P for the transform along the samples, as published: each Fourier slice is n x 2."""

    def __init__(self, tensor: Array):
        self.pairs = prox.SlicePairs(tensor)
        self.report = namespace(tensor).zeros(0)

    def begin(self, tensor: Array, tau: float) -> None:
        """Nothing needs to be known before `finish`."""
        self.tau = tau

    def finish(self, tensor: Array, report: list[float]) -> Array:
        """Turn T into P, in place; return its norm."""
        return self.pairs(tensor, self.tau)

    def second(self) -> Array:
        """Return the last P2."""
        return self.pairs.second()


def shrinkage(transform: str, tensor: Array, copies: Array) -> Any:
    """Return what makes P of T (Eq. 12), in place."""
    return Partitions(tensor, copies) if transform == "partition" else Samples(tensor)
