"""The eigenvalues of symmetric matrices in a sequence are thresholded, each matrix near the one before.

Where few eigenvalues are above the threshold, or few below it, and none below its negative, eigenvectors of those few
do:

    few above:  X becomes V diag(l - tau) V',
    few below:  X becomes X - tau + V diag(tau - l) V'.

They come from a block iteration that starts from the last ones. A Cholesky factor proves that the others are on the
other side of a bound s: for all columns of the block, s - X + V diag(l) V', or X - s + V diag(2 s - l) V', must be
positive definite, and so must be tau + X. With R = X V - V diag(l) the error of a result is then at most
sqrt(2) |R diag(f)| + |R|^2 / |s - tau|, f = (l - tau) / (l - s), to the second order. If that is too much, or a matrix
has no factor, a decomposition follows.
"""

import math
from typing import Any, NamedTuple

from gpuensemble._array.devices import Array, device_of, namespace, to_host
from gpuensemble._linear import blocks
from gpuensemble._linear.definite import add_to_diagonal, inverse, is_definite, narrowly_definite
from gpuensemble._linear.dense import add_product, product
from gpuensemble._linear.eigen import whole
from gpuensemble._linear.orthonormal import orthonormal
from gpuensemble._linear.tridiagonal import Tridiagonal, room

ACCURACY = {"float64": 1e-13, "float32": 1e-6}  # of a result, relative to |X|, both in the Frobenius norm
NARROW = 5e-5  # of |X|: what rounding may hide in a factor of float32, as many roundings as in one of float64
DEGREE = 8  # of the polynomial of a pass, where few are above
AIM = 0.05  # the error that a block of the right degree has, over what is allowed
LEAST = 8  # from this size on a matrix is made tridiagonal first, on the CPU
GOOD = 0.75  # an error over what is allowed: half of that is rounding in float32, with any BLAS
MOST_RESTS = 4
ABOVE, BELOW, UNKNOWN = 1, -1, 0  # the side of the threshold that few eigenvalues are on


class Limits(NamedTuple):
    """A block iteration pays within these limits: on a CPU by measurement, on a device by the count of operations."""

    n: dict[int, int]  # the least size of a matrix by side; for smaller ones LAPACK's partial decomposition is as fast
    shares: dict[int, int]  # a block has at most this part of all columns, by side
    n_passes: dict[int, int]  # above: of polynomials of degree DEGREE; below: the degree of one
    first_error: float  # that a block is thought to start with before one was tried, over what is allowed


LIMITS = {
    "cpu": Limits({ABOVE: 2000, BELOW: 1000}, {ABOVE: 32, BELOW: 8}, {ABOVE: 4, BELOW: 5}, 1e5),
    "cuda": Limits({ABOVE: 0, BELOW: 0}, {ABOVE: 8, BELOW: 8}, {ABOVE: 8, BELOW: 16}, 1e7),
}


Triples = tuple[Array, Array, Array]  # values, vectors and the lengths of their residuals


class Report(NamedTuple):
    """How a block iteration went: what `finish` must know, on the host."""

    error: float  # over what is allowed; infinite if the proof failed
    start: float  # the error that the iteration started with
    n_few: float  # how many eigenvalues are on the side of the few
    inner: float  # the eigenvalue of the block that is farthest on that side
    outer: float  # the one that is nearest to the others


class SymmetricSequence:
    """This applies `prox.nuclear_symmetric` to the matrices of a sequence, in place.

    `begin` looks for the result and waits for nothing; `finish` is given `report`, on the host, and makes the result.

    Attributes
    ----------
    report : array of 5
        A `Report` on the device.
    n_blocks, n_decompositions : int
        How many results came from either.
    """

    def __init__(self, like: Array):
        self.n, self.limits = like.shape[-1], LIMITS["cpu" if device_of(like) == "cpu" else "cuda"]
        self.n_blocks = self.n_decompositions = self.resting = self.rests = self.count = 0
        self.side, self.n_passes, self.first_error, self.tau = UNKNOWN, 2, self.limits.first_error, math.inf
        self.start: Array = None  # of the next block
        self.course: Any = None  # a `Course` of the blocks that found the few below
        self.low = self.high = 0.0  # few above: where the others lie
        self.vectors: Array = None  # of this block
        self.report = self.nothing = namespace(like).zeros(len(Report._fields))

    def begin(self, x: Array, tau: float) -> None:
        """Look for the few eigenvectors of `x`, which stays as it is; `report` says how it went."""
        ratio, self.tau, self.vectors, self.report = tau / self.tau, tau, None, self.nothing
        if self.start is None or self.resting:
            self.resting = max(self.resting - 1, 0)
            return
        xp = namespace(x)
        norm = xp.linalg.norm(x)
        allowed = ACCURACY[x.dtype.name] * norm
        if not self.start.shape[1]:
            self._nothing(x, norm, allowed)
            return
        found = (self._above if self.side == ABOVE else self._below)(x, ratio, allowed)
        if found is None:
            return
        (values, self.vectors, residual), start_error = found
        self.factors = xp.where(self._inside(values), self.side * (values - tau), 0)
        bound, sure = self._proven(x, values, norm, allowed)
        error = self._error(values, residual, bound, allowed)
        ends = (values[0], values[-1])
        parts = [xp.where(sure, error, math.inf), start_error, self._inside(values).sum(), *ends]
        self.report = xp.stack([part.astype("float64") for part in parts])

    def _inside(self, values: Array) -> Array:
        """Say which eigenvalues are on the side of the few."""
        return self.side * (values - self.tau) > 0

    def _error(self, values: Array, residual: Array, bound: Array, allowed: Array) -> Array:
        """Bound the error of a result, over what is allowed, if all others are beyond `bound`."""
        xp, inside = namespace(values), self._inside(values)
        weights = xp.where(inside, residual * (values - self.tau) / xp.where(inside, values - bound, 1), 0)
        second = ((inside * residual) ** 2).sum() / xp.maximum(abs(bound - self.tau), allowed)
        return ((2 * (weights**2).sum()) ** 0.5 + second) / allowed

    def _nothing(self, x: Array, norm: Array, slack: Array) -> None:
        """Look whether there is still no eigenvalue on the side of the few."""
        xp = namespace(x)
        self.vectors, self.factors = self.start, xp.zeros(0, x.dtype)
        if self.side == BELOW and self._can_be_narrow(x) and narrowly_definite(x, self.tau + NARROW * norm):
            return
        other = -self.side * x
        add_to_diagonal(other, self.side * self.tau + slack)
        sure = is_definite(other) > 0
        if self.side == ABOVE:
            sure = sure & self._above_its_negative(x, slack, other)
        self.report = xp.where(sure, self.nothing, math.inf)

    def _can_be_narrow(self, x: Array) -> bool:
        """Say whether a factor of float32 is tried first: on the CPU, which can still make the other one."""
        return device_of(x) == "cpu" and x.dtype == "float64"

    def _above_its_negative(self, x: Array, slack: Array, other: Array) -> Array:
        """Say whether no eigenvalue is below -tau; `other` is overwritten."""
        namespace(x).add(x, 0, out=other)
        add_to_diagonal(other, self.tau + slack)
        return is_definite(other) > 0

    def _above(self, x: Array, ratio: float, allowed: Array) -> tuple[Triples, Array]:
        """Return what is near the eigenvectors above, and the error that it started with."""
        v, error = self.start, blocks.coupling(x, self.start[:, : self.count]) / allowed
        for _ in range(self.n_passes):
            v = orthonormal(blocks.filtered(lambda v: x @ v, v, self._others(), DEGREE), 1)
        return blocks.ritz(x, orthonormal(v, 1), ABOVE), error

    def _below(self, x: Array, ratio: float, allowed: Array) -> tuple[Triples, Array] | None:
        """Return what is near the eigenvectors below, and the error that it started with; None if it started too far.

        The polynomial is one of the inverse, with a shift below the least eigenvalue. Only the CPU can look how high
        its degree must be; a device has to take what was planned.
        """
        start = values, v, residual = blocks.ritz(x, self.course.ahead(ratio), BELOW)
        error = self._error(values, residual, (self.tau + values[-1]) / 2, allowed)
        if device_of(x) == "cpu" and not self._is_in_reach(float(values[0]), float(values[-1]), float(error)):
            return None
        if not self.n_passes:
            return start, error
        shift = self._shift(values[0])
        shifted = x.copy()
        add_to_diagonal(shifted, -shift)
        v = blocks.filtered(inverse(shifted), v, (0, 1 / (values[-1] - shift)), self.n_passes)
        return blocks.ritz(x, orthonormal(v), BELOW), error

    def _others(self) -> tuple[float, float]:
        """Return an interval that those eigenvalues are in that are not above."""
        centre, half = (self.low + self.high) / 2, abs(self.high - self.low) / 2 + 1e-3 * self.tau
        return centre - half, centre + half

    def _shift(self, least: Array) -> Array:
        """Return what is below the least eigenvalue, and near to the few as a whole."""
        return least - 0.25 * (self.tau - least) - 0.02 * self.tau

    def _proven(self, x: Array, values: Array, norm: Array, slack: Array) -> tuple[Array, Array]:
        """Return a bound, and whether all eigenvalues outside of the block are beyond it.

        `slack` is what rounding may hide. Where the bound is far from tau, a factor of float32 does.
        """
        xp, v, bound = namespace(x), self.vectors, (self.tau + values[-1]) / 2
        inner = (self.side * (self.tau - bound) > 0) & (values.min() >= -self.tau)
        if self.side == BELOW and self._can_be_narrow(x) and bound - self.tau > 8 * NARROW * norm:
            lifted = (v * (2 * bound - values)).astype("float32"), v.T.astype("float32")
            return bound - NARROW * norm, inner & narrowly_definite(x, bound, lifted)
        other = product(v * (values if self.side == ABOVE else 2 * bound - values), v.T)
        xp.subtract(other, x, out=other) if self.side == ABOVE else xp.add(other, x, out=other)
        add_to_diagonal(other, self.side * bound + slack)
        sure = is_definite(other) > 0
        if self.side == ABOVE:
            sure = sure & self._above_its_negative(x, slack, other)
        return bound, inner & sure

    def falls_short(self, report: list[float]) -> bool:
        """Say whether `finish` has to decompose the matrix."""
        return self.vectors is None or not Report(*report).error <= 1  # NaN is not

    def finish(self, x: Array, report: list[float]) -> Array:
        """Overwrite the x that `begin` was given by its thresholding; return the nuclear norm of the result."""
        found = Report(*report)
        if self.vectors is not None:
            self._adapt(found)
        if self.falls_short(report):
            return self._decomposed(x)
        self.n_blocks += 1
        norm = self._few(x, self.vectors, self.factors)
        self._plan(int(found.n_few), self.vectors, found.inner, found.outer)
        return norm

    def _adapt(self, found: Report) -> None:
        """Learn from a block how many passes the next one needs.

        Where few are above, they are as many as make its error 1 % of what is allowed, at the same rate. They do not
        grow where the error was at most GOOD: the rest may be rounding. Where they would be too many, or were too few,
        some decompositions come before the next block.
        """
        if self.side == ABOVE and 0 < found.error < found.start < math.inf:
            rate = math.log(found.start / found.error) / self.n_passes
            wanted = max(1, math.ceil(math.log(max(100 * found.start, 1)) / rate))
            self.n_passes = wanted if found.error > GOOD else min(wanted, self.n_passes)
        if self.side == BELOW and 0 < found.start < math.inf:
            self.first_error = found.start * min(max(found.error / AIM, 1), 1 / AIM)
        self.rests = 0 if found.error <= 1 else min(2 * self.rests + 1, MOST_RESTS)
        most = self.limits.n_passes[self.side]
        if self.n_passes > most or self.rests > 1:
            self.n_passes, self.resting = min(self.n_passes, most), max(self.rests, 1)

    def _few(self, x: Array, v: Array, factors: Array) -> Array:
        """Make the result of few eigenvectors; return its norm."""
        xp = namespace(x)
        if self.side == ABOVE and v.shape[1]:
            product(v * factors, v.T, out=x)
            return factors.sum()
        if self.side == ABOVE:
            x[...] = 0
            return xp.zeros(())
        add_to_diagonal(x, -self.tau)
        if v.shape[1]:
            add_product(v * factors, v.T, out=x)
        return xp.diagonal(x).sum()

    def _decomposed(self, x: Array) -> Array:
        """Make the result by LAPACK or cuSOLVER, and plan the next block; return its norm."""
        self.n_decompositions += 1
        self.start = self.vectors = None
        norm = self._partial(x) if device_of(x) == "cpu" and self.n >= LEAST else None
        if norm is not None:
            return norm
        with room:
            return self._full(x)

    def _partial(self, x: Array) -> Array | None:
        """Make the result of the eigenvectors on one side of tau, and plan the next block; None if they are many."""
        form = Tridiagonal(x)
        self._divide(form.below(self.tau), form.below(-self.tau))
        if self.side == UNKNOWN or 3 * self.count > self.n:
            return None
        width = self._asked(form)
        values, vectors = form.pairs(*((self.n - width, self.n) if self.side == ABOVE else (0, width)))
        values, vectors = values[:: -self.side], vectors[:, :: -self.side]
        norm = self._few(x, vectors[:, : self.count], abs(values[: self.count] - self.tau))
        self._plan(self.count, vectors, *_ends(values, self.tau))
        return norm

    def _asked(self, form: Tridiagonal) -> int:
        """Return how many vectors to find: more than the few if the next block is to start from them."""
        width = self._width(self.count)
        if not width or not self._pays(width):
            return self.count
        self.low = form.value(0)
        near = self.side == ABOVE or self._is_in_reach(self.low, form.value(width - 1), self.first_error)
        return width if near else self.count

    def _divide(self, below: int, far: int) -> None:
        """Set the side of the few, if so many eigenvalues are below tau and so many below -tau, and their count."""
        self.side, self.count = (ABOVE, self.n - below) if 2 * below > self.n else (BELOW, below)
        if far:
            self.side = UNKNOWN
        if self.side != BELOW:
            self.course = None

    def _full(self, x: Array) -> Array:
        """Make the result of all eigenvectors, and plan the next block; return its norm."""
        xp = namespace(x)
        values, vectors = whole(x)
        kept = xp.maximum(abs(values) - self.tau, 0)
        product(vectors * xp.copysign(kept, values), vectors.T, out=x)
        host = to_host(values).astype(float)
        self._divide(int((host <= self.tau).sum()), int((host < -self.tau).sum()))
        if self.side != UNKNOWN:
            self.low = float(host[0])
            order = slice(None, None, -self.side)
            width = self._width(self.count)
            self._plan(self.count, vectors[:, order][:, :width], *_ends(host[order][:width], self.tau))
        return kept.sum()

    def _plan(self, count: int, v: Array, inner: float, outer: float) -> None:
        """Keep what the next block starts from, and where it looks; nothing if it would not pay."""
        width, self.count, self.start, self.vectors = self._width(count), count, None, None
        course, self.course = self.course, None
        below = self.side == BELOW and width
        if not self._pays(width) or (below and not self._is_in_reach(inner, outer, self.first_error)):
            return
        self.high, self.start = outer, _widened(v[:, :width], width)
        if below:
            self.course = course.to(self.start) if course else blocks.Course(self.start)

    def _is_in_reach(self, inner: float, outer: float, error: float) -> bool:
        """Set the degree of a polynomial that finds the few below, and say whether it is small enough."""
        shift = self._shift(inner)
        gap = max(self.tau - shift, 1e-9 * self.tau)
        growth = math.acosh(max(2 * (outer - shift) / gap - 1, 1))  # for each degree, as a logarithm
        if not error < math.inf or not growth:
            return False
        self.n_passes = math.ceil(math.log(max(2 * error / AIM, 1)) / growth)
        return self.n_passes <= self.limits.n_passes[BELOW]

    def _pays(self, width: int) -> bool:
        """Say whether a block of this width is narrow enough."""
        return not width or (self.n >= self.limits.n[self.side] and self.limits.shares[self.side] * width <= self.n)

    def _width(self, count: int) -> int:
        """Return how many columns a block needs to find so many vectors; where there was none, none is looked for."""
        if self.course and count + 8 <= self.course.v.shape[1] <= 1.5 * count + 16:
            return self.course.v.shape[1]  # a course goes on
        return int(1.25 * count) + 8 if count else 0


def _ends(values: Array, tau: float) -> tuple[float, float]:
    """Return the first and the last eigenvalue, or tau."""
    return (float(values[0]), float(values[-1])) if len(values) else (tau, tau)


def _widened(v: Array, width: int) -> Array:
    """Return a copy of columns, and others without a pattern where they are too few."""
    xp, n = namespace(v), len(v)
    wave = xp.arange(1.0, n + 1)[:, None] ** 2 * xp.arange(1.0, width - v.shape[1] + 1)
    return xp.concatenate([v, xp.cos(wave).astype(v.dtype)], axis=1)
