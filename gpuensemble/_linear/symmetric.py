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
import threading
from typing import NamedTuple

from gpuensemble._array.devices import Array, device_of, namespace, to_host
from gpuensemble._linear.definite import inverse, is_definite
from gpuensemble._linear.dense import add_product, product
from gpuensemble._linear.eigen import beyond, whole
from gpuensemble._linear.orthonormal import orthonormal

ACCURACY = {"float64": 1e-13, "float32": 1e-6}  # of a result, relative to |X|, both in the Frobenius norm
DEGREE = 8  # of the polynomial of a pass, where few are above
MOST_RESTS = 4
ABOVE, BELOW, UNKNOWN = 1, -1, 0  # the side of the threshold that few eigenvalues are on


_room = threading.Lock()  # in memory there is room for one full decomposition at a time


class Limits(NamedTuple):
    """A block iteration pays within these limits: on a CPU by measurement, on a device by the count of operations."""

    n: int  # the least size of a matrix; for smaller ones LAPACK's partial decomposition is as fast
    shares: dict[int, int]  # a block has at most this part of all columns, by side
    n_passes: int


LIMITS = {"cpu": Limits(1000, {ABOVE: 32, BELOW: 8}, 4), "cuda": Limits(0, {ABOVE: 8, BELOW: 8}, 8)}


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
        self.side, self.n_passes = UNKNOWN, 2
        self.start: Array = None  # of the next block
        self.low = self.high = 0.0  # few above: where the others lie; few below: the shift, relative to tau
        self.vectors: Array = None  # of this block
        self.report = self.nothing = namespace(like).zeros(len(Report._fields))

    def begin(self, x: Array, tau: float) -> None:
        """Look for the few eigenvectors of `x`, which stays as it is; `report` says how it went."""
        self.tau, self.vectors, self.report = tau, None, self.nothing
        if self.start is None or self.resting:
            self.resting = max(self.resting - 1, 0)
            return
        xp = namespace(x)
        allowed = ACCURACY[x.dtype.name] * xp.linalg.norm(x)
        if not self.start.shape[1]:
            self._nothing(x, allowed)
            return
        start_error = _coupling(x, self.start[:, : self.count])
        values, self.vectors, residual = _ritz(x, self._iterated(x), self.side)
        inside = self.side * (values - tau) > 0
        self.factors = xp.where(inside, self.side * (values - tau), 0)
        bound = (tau + values[-1]) / 2
        weights = xp.where(inside, residual * (values - tau) / xp.where(inside, values - bound, 1), 0)
        second = ((inside * residual) ** 2).sum() / xp.maximum(abs(bound - tau), allowed)
        error = (2 * (weights**2).sum()) ** 0.5 + second
        sure = self._proven(x, values, bound, allowed)
        ends = (values[0], values[-1])
        parts = [xp.where(sure, error / allowed, math.inf), start_error / allowed, inside.sum(), *ends]
        self.report = xp.stack([part.astype("float64") for part in parts])

    def _nothing(self, x: Array, slack: Array) -> None:
        """Look whether there is still no eigenvalue on the side of the few."""
        xp = namespace(x)
        self.vectors, self.factors = self.start, xp.zeros(0, x.dtype)
        other = -self.side * x
        _add_to_diagonal(other, self.side * self.tau + slack)
        sure = is_definite(other) > 0
        if self.side == ABOVE:
            sure = sure & self._above_its_negative(x, slack, other)
        self.report = xp.where(sure, self.nothing, math.inf)

    def _above_its_negative(self, x: Array, slack: Array, other: Array) -> Array:
        """Say whether no eigenvalue is below -tau; `other` is overwritten."""
        namespace(x).add(x, 0, out=other)
        _add_to_diagonal(other, self.tau + slack)
        return is_definite(other) > 0

    def _iterated(self, x: Array) -> Array:
        """Return orthonormal columns near the eigenvectors of this matrix."""
        v = self.start
        if self.side == ABOVE:
            step = lambda v: _filtered(x, v, self.low, self.high, 1e-3 * self.tau)  # noqa: E731
        else:
            shifted = x.copy()
            _add_to_diagonal(shifted, -self.low * self.tau)
            step = inverse(shifted)
        for _ in range(self.n_passes):
            v = orthonormal(step(v), 1)
        return orthonormal(v, 1)

    def _proven(self, x: Array, values: Array, bound: Array, slack: Array) -> Array:
        """Say whether all eigenvalues outside of the block are beyond the bound; `slack` is what rounding may hide."""
        xp, v = namespace(x), self.vectors
        other = product(v * (values if self.side == ABOVE else 2 * bound - values), v.T)
        xp.subtract(other, x, out=other) if self.side == ABOVE else xp.add(other, x, out=other)
        _add_to_diagonal(other, self.side * bound + slack)
        sure = is_definite(other) > 0
        if self.side == ABOVE:
            sure = sure & self._above_its_negative(x, slack, other)
        return sure & (self.side * (self.tau - bound) > 0) & (values.min() >= -self.tau)

    def finish(self, x: Array, report: list[float]) -> Array:
        """Overwrite the x that `begin` was given by its thresholding; return the nuclear norm of the result."""
        found = Report(*report)
        if self.vectors is None:
            return self._decomposed(x)
        self._adapt(found)
        if not found.error <= 1:  # NaN is not
            return self._decomposed(x)
        self.n_blocks += 1
        norm = self._few(x, self.vectors, self.factors)
        self._plan(int(found.n_few), self.vectors, found.inner, found.outer)
        return norm

    def _adapt(self, found: Report) -> None:
        """Set the passes of the next block: as many as make its error 1 % of what is allowed, at the same rate.

        They do not grow where half of what is allowed was reached: the rest may be rounding. Where they would be too
        many, some decompositions come before the next block.
        """
        if 0 < found.error < found.start < math.inf:
            rate = math.log(found.start / found.error) / self.n_passes
            wanted = max(1, math.ceil(math.log(max(100 * found.start, 1)) / rate))
            self.n_passes = wanted if found.error > 0.5 else min(wanted, self.n_passes)
        self.rests = 0 if found.error <= 1 else min(2 * self.rests + 1, MOST_RESTS)
        if self.n_passes > self.limits.n_passes or self.rests > 1:
            self.n_passes, self.resting = min(self.n_passes, self.limits.n_passes), max(self.rests, 1)

    def _few(self, x: Array, v: Array, factors: Array) -> Array:
        """Make the result of few eigenvectors; return its norm."""
        xp = namespace(x)
        if self.side == ABOVE and v.shape[1]:
            product(v * factors, v.T, out=x)
            return factors.sum()
        if self.side == ABOVE:
            x[...] = 0
            return xp.zeros(())
        _add_to_diagonal(x, -self.tau)
        if v.shape[1]:
            add_product(v * factors, v.T, out=x)
        return xp.diagonal(x).sum()

    def _decomposed(self, x: Array) -> Array:
        """Make the result by LAPACK or cuSOLVER, and plan the next block; return its norm."""
        self.n_decompositions += 1
        self.start = self.vectors = None
        if device_of(x) == "cpu" and self.side != UNKNOWN and 3 * self.count < self.n:
            values, vectors = beyond(x, self.tau, self.side)
            if self._is_all(x, values):
                norm = self._few(x, vectors, abs(values - self.tau))
                self._plan(len(values), vectors[:, :: -self.side], *_ends(values[:: -self.side], self.tau))
                return norm
        with _room:
            return self._full(x)

    def _is_all(self, x: Array, values: Array) -> bool:
        """Say whether no eigenvalue is below -tau, if `values` are those on the side of the few."""
        if self.side == BELOW:
            return not len(values) or values[0] >= -self.tau
        return bool(self._above_its_negative(x, 0.0, namespace(x).empty_like(x)))

    def _full(self, x: Array) -> Array:
        """Make the result of all eigenvectors, and plan the next block; return its norm."""
        xp = namespace(x)
        values, vectors = whole(x)
        kept = xp.maximum(abs(values) - self.tau, 0)
        product(vectors * xp.copysign(kept, values), vectors.T, out=x)
        host = to_host(values).astype(float)
        above = int((host > self.tau).sum())
        self.side, self.count = (ABOVE, above) if 2 * above < self.n else (BELOW, self.n - above)
        self.low = float(host[0])
        if host[0] < -self.tau:
            self.side = UNKNOWN
        else:
            order = slice(None, None, -self.side)
            width = self._width(self.count)
            self._plan(self.count, vectors[:, order][:, :width], *_ends(host[order][:width], self.tau))
        return kept.sum()

    def _plan(self, count: int, v: Array, inner: float, outer: float) -> None:
        """Keep what the next block starts from, and where it looks; nothing if it would be too wide."""
        xp, width, self.count, self.vectors = namespace(v), self._width(count), count, None
        self.start = None
        if width and (self.n < self.limits.n or self.limits.shares[self.side] * width > self.n):
            return
        v = v[:, :width]
        if v.shape[1] < width:
            wave = xp.arange(1.0, self.n + 1)[:, None] ** 2 * xp.arange(1.0, width - v.shape[1] + 1)
            v = xp.concatenate([v, xp.cos(wave).astype(v.dtype)], axis=1)  # columns without a pattern
        self.start = v.copy()
        if self.side == ABOVE:
            self.high = outer
        else:
            self.low = (inner / self.tau + 1) / 2

    def _width(self, count: int) -> int:
        """Return how many columns a block needs to find so many vectors; where there was none, none is looked for."""
        return int(1.25 * count) + 8 if count else 0


def _ends(values: Array, tau: float) -> tuple[float, float]:
    """Return the first and the last eigenvalue, or tau."""
    return (float(values[0]), float(values[-1])) if len(values) else (tau, tau)


def _coupling(x: Array, v: Array) -> Array:
    """Return how far orthonormal columns are from an invariant space."""
    image = x @ v
    return ((image - v @ (v.T @ image)) ** 2).sum() ** 0.5


def _filtered(x: Array, v: Array, low: float, high: float, least: float) -> Array:
    """Apply the Chebyshev polynomial of X that is small from `low` to `high`, and `least` on either side."""
    centre, half = (low + high) / 2, abs(high - low) / 2 + least
    last, v = v, (x @ v - centre * v) / half
    for _ in range(DEGREE - 1):
        last, v = v, (2 / half) * (x @ v - centre * v) - last
    return v


def _ritz(x: Array, v: Array, side: int) -> tuple[Array, Array, Array]:
    """Find the best eigenvectors within orthonormal columns; return values, vectors and the length of each residual.

    The largest come first if few are above, else the least.
    """
    xp = namespace(x)
    image = x @ v
    inner = v.T @ image
    values, turn = xp.linalg.eigh((inner + inner.T) / 2)
    values, turn = values[::-side], turn[:, ::-side]
    v, image = v @ turn, image @ turn
    return values, v, ((image - v * values) ** 2).sum(0) ** 0.5


def _add_to_diagonal(x: Array, value: Array) -> None:
    x.ravel()[:: len(x) + 1] += value
