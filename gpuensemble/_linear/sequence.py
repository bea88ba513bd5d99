"""`prox.NuclearSequence` thresholds the singular values of a sequence of matrices, each near the one before."""

import math
from typing import Any, NamedTuple

from gpuensemble._array import checks
from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host
from gpuensemble._linear import krylov
from gpuensemble._linear.dense import product
from gpuensemble._linear.eigen import leading
from gpuensemble._linear.orthonormal import joined, qr

PROBES = 4  # random columns in the block of singular vectors
ACCURACY = {"float64": 1e-11, "float32": 1e-5}  # of a block, by estimate, relative to the largest singular value
MAX_PASSES = 10  # of the block iteration: more would take half as long as a full decomposition


class NuclearSequence:
    """This thresholds the singular values of real matrices in a sequence, in place; each starts from the one before.

    Each matrix is near the one before. A call makes of ``X = U diag(s) V'`` the matrix ``U diag((s - tau w)_+) V'``, as
    `nuclear` does. The singular vectors of the last result, and a few random columns, start a block power iteration,
    which finds those of a result of low rank in a few products. The smallest singular value of the block tells whether
    others may pass their thresholds, and the last turn of its vectors how accurate they are. If that is not enough, the
    CPU goes on with the block where few passes would do; else a full decomposition follows. Width and passes of the
    next block are adapted. A block is tried only if it is no wider than a third of the matrix.

    Parameters
    ----------
    start : array of float32 or float64, n x p
        What the first p right singular vectors of the first matrix may be near to; any columns do. It also gives the
        library, the device, the dtype and the number of columns of all matrices. A block has p columns at least: ask
        for more than the rank of the results.
    rng : numpy.random.Generator
        What random columns are drawn from, on the host.
    largest : float, optional
        About how large the largest singular value of the first matrix is. It tells whether squares of singular values
        are accurate enough in a full decomposition; if it is not given, an SVD finds it out.

    Attributes
    ----------
    values : array
        The singular values of the last result, descending; those that are left out are 0.
    report : array of 4
        What `finish` must know about the block that `begin` tried.

    Notes
    -----
    A block is taken if its error is estimated at 1e-11 (float32: 1e-5) of the largest singular value or less. The
    estimate takes all singular values outside the block for as small as the last one inside. Where they fall slowly
    that is too low: of 2400 random matrices 1 % had an entry that was off by more than 4e-10, and the worst result was
    off by 1.5e-8 in the spectral norm. A full decomposition is as accurate as LAPACK's, if the largest singular value
    is of the order of the one before.

    ``sequence(x, tau, weights)`` is `begin` and `finish`. On a device `begin` waits for nothing: a caller who reads
    `report` together with numbers of his own waits once.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import prox
    >>> rng = np.random.default_rng(0)
    >>> low_rank = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 40))
    >>> shrink = prox.NuclearSequence(np.eye(40)[:, :8], rng)
    >>> for step in range(3):
    ...     x = low_rank + 0.01 * step
    ...     expected = prox.nuclear(x, 1.0)
    ...     norm = shrink(x, 1.0)
    ...     print(np.allclose(x, expected), int((shrink.values > 0).sum()))
    True 2
    True 2
    True 2
    """

    def __init__(self, start: Array, rng: Any, largest: float | None = None):
        checks.in_place(start, "start", 2)
        xp = namespace(start)
        self.rng, self.largest = rng, math.inf if largest is None else largest
        self.n, self.width = start.shape
        self.least_width, self.n_passes, self.resting, self.failed = self.width, 3, False, False
        self.v, _ = qr(start)
        self.block: krylov.Triples | None = None
        self.values = xp.zeros(1, start.dtype)
        self.ones = xp.ones(self.n, start.dtype)
        self.report = xp.zeros(4, start.dtype)

    def __call__(self, x: Array, tau: float, weights: Array | None = None) -> Array:
        """Overwrite a matrix by its thresholding.

        Parameters
        ----------
        x : array, m x n with m at least n
            Is overwritten. Nothing is checked.
        tau : float
            Not negative.
        weights : array of n numbers in the dtype of x, optional
            Not negative and ascending, as the slopes of a concave penalty are; they belong to the singular values in
            descending order.

        Returns
        -------
        array
            The nuclear norm of the result: a number on the device.
        """
        self.begin(x, tau, weights)
        self.finish(x, to_host(self.report))
        return self.values.sum()

    def begin(self, x: Array, tau: float, weights: Array | None = None) -> None:
        """Look for the leading triples of `x`, which stays as it is, by a block iteration; `report` says how it went.

        `tau` and `weights` are those of a call.
        """
        self.tau, self.weights, self.block = tau, self.ones if weights is None else weights, None
        if self.resting or 3 * self.width > self.n or tau == 0:
            return
        kept = self.v[:, : max(self.width - PROBES, 0)]
        drawn = self.rng.standard_normal((self.n, self.width - kept.shape[1]))
        start = joined(kept, to_device(drawn, device_of(x)).astype(x.dtype))
        self._look(x, start, self.n_passes)

    def _look(self, x: Array, start: Array, n_passes: int) -> None:
        """Set `block` to triples from a start, and `report` to what is known of them."""
        xp = namespace(x)
        _, sigma, _, angle = self.block = krylov.singular_triples(x, start, n_passes)
        bound = self.tau * self.weights[: len(sigma)]
        above = sigma > bound
        # directions outside the block have at most sigma[-1]: a further pass would turn v by this part of the angle
        error = xp.where(above, angle * (sigma[-1] / xp.where(above, sigma, 1)) ** 2 * (sigma - bound), 0).max()
        last = sigma[-1] / xp.maximum(bound[-1], 1e-6 * self.tau)  # a weight may be 0
        self.report = xp.stack([error, above.sum().astype(x.dtype), sigma[0], last])

    def finish(self, x: Array, report: Any) -> None:
        """Overwrite the x that `begin` was given: from the block, or by a full decomposition if that was not enough.

        Parameters
        ----------
        x : array, m x n
            The matrix that `begin` was given.
        report : sequence of 4 numbers
            `report`, on the host.
        """
        reached = _reached(report, x)
        more = 0 if self.block is None else reached.passes_left()
        if self.block is not None and 0 < more <= MAX_PASSES and device_of(x) == "cpu":  # a device would have to wait
            self._look(x, self.block.v, more)
            reached = _reached(self.report, x)
            self.n_passes = min(self.n_passes + more, MAX_PASSES)
        failed = self.block is not None and not reached.enough
        self.resting, self.failed = failed and self.failed, failed  # after two of them the next would hardly do better
        self.largest = reached.largest or self.largest
        if self.block is None or failed:
            self._full(x)
        else:
            self._from_block(x, self.block, int(reached.n_above))
        self.block = None
        self._adapt(reached)

    def _from_block(self, x: Array, block: krylov.Triples, count: int) -> None:
        """Overwrite x by its leading triples, so many of which stay above their thresholds."""
        u, sigma, self.v, _ = block
        self.values = namespace(x).maximum(sigma - self.tau * self.weights[: len(sigma)], 0)
        rank = max(count, 1)  # the others are 0
        product(u[:, :rank] * self.values[:rank], self.v[:, :rank].T, out=x)

    def _full(self, x: Array) -> None:
        """Overwrite x by way of a full decomposition.

        The eigenvectors of X'X do it in a third of an SVD's time. That loses half the digits, so an SVD is made where
        tau is small."""
        xp = namespace(x)
        self.block, self.v = None, None
        if float(xp.finfo(x.dtype).eps) * self.largest < ACCURACY[x.dtype.name] * self.tau:
            sigma, v = self._from_square(x)
            left = product(x, v)
            self.values = xp.maximum(sigma - self.tau * self.weights[: len(sigma)], 0)
            left *= self.values / xp.where(self.values > 0, sigma, 1)
        else:
            left, sigma, v = xp.linalg.svd(x, full_matrices=False)
            v = v.T
            self.values = xp.maximum(sigma - self.tau * self.weights, 0)
            left *= self.values
        product(left, v.T, out=x)
        self.v = v[:, : min(2 * self.width, self.n // 3)].copy()
        count = (self.values > 0).sum().astype(x.dtype)
        self.report = xp.stack([xp.zeros_like(count), count, sigma[0], xp.zeros_like(count)])

    def _from_square(self, x: Array) -> tuple[Array, Array]:
        """Return all singular values and right vectors, or on the CPU so many that the least is below its threshold."""
        n_wanted = self.width if device_of(x) == "cpu" and 3 * self.width <= self.n else self.n
        values, v = leading(product(x.T, x), n_wanted)
        if n_wanted < self.n and values[-1] > (self.tau * self.weights[n_wanted - 1]) ** 2:
            values, v = leading(product(x.T, x), self.n)
        return namespace(x).maximum(values, 0) ** 0.5, v

    def _adapt(self, reached: "Reached") -> None:
        """Set width and passes of the next block: about 1.6 times the rank, and passes to the accuracy."""
        count, last = reached.n_above, reached.last
        wanted = max(self.least_width, round(1.6 * count) + 2 * PROBES)
        if last >= 1:
            self.width = min(2 * self.width, self.n)
        elif not 1.4 * count + PROBES <= self.width <= 1.5 * wanted:
            self.width = min(wanted, self.n)
        more = reached.passes_left()
        if more:
            self.n_passes = min(self.n_passes + more, MAX_PASSES)
        else:
            self.n_passes = krylov.adapted(self.n_passes, reached.error, 0.1 * last**2, MAX_PASSES)


class Reached(NamedTuple):
    """This tells how far a block has got: what `report` holds, and the accuracy that is asked for."""

    distance: float  # an estimate of how far the result is off
    n_above: float  # singular values are above their thresholds
    largest: float
    last: float  # singular value of the block, relative to its threshold
    accuracy: float

    @property
    def error(self) -> float:
        """The distance, as a multiple of the one that is allowed."""
        return self.distance / (self.accuracy * max(self.largest, 1e-300))

    @property
    def enough(self) -> bool:
        """Tell whether the block can make the result."""
        return self.error <= 1 and self.last < 1

    def passes_left(self) -> int:
        """Return how many passes more would be enough; 0 if none is needed, or none would help."""
        if not 1 < self.error < math.inf or not 0 < self.last < 1:
            return 0
        return math.ceil(math.log(self.error / 0.3) / (-2 * math.log(self.last)))  # one leaves last**2, at most


def _reached(report: Any, x: Array) -> Reached:
    """Return what a report, on the host, says of a block of x."""
    distance, n_above, largest, last = map(float, report)
    return Reached(distance, n_above, largest, last, ACCURACY[x.dtype.name])
