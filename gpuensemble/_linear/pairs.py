"""This applies the tensor nuclear prox to two stacked matrices in place, symmetric ones or any.

`prox` shows it as `prox.tensor_nuclear_symmetric` and `prox.SlicePairs`."""

from gpuensemble._array import checks
from gpuensemble._array.devices import Array, device_of, namespace, on
from gpuensemble._array.threads import over_spans
from gpuensemble._kernels.cpu.slices import pairs as cpu_pairs
from gpuensemble._kernels.cpu.slices import scaled
from gpuensemble._kernels.cuda import slices as cuda_slices
from gpuensemble._linear.symmetric import SymmetricSequence
from gpuensemble._linear.thresholding import shrink_symmetric

SHARED, SHARED_BLOCKS = 200, 600  # from these sizes on two threads share two decompositions, or two blocks
ORDER = (1, 0)  # of slices: the difference takes longer, and this thread, which begins, may share out its products


def shrink_symmetric_pair(x: Array, tau: float, multiplicity: Array | None) -> Array:
    """Do what `prox.tensor_nuclear_symmetric` does: the slices are the sum and the difference of both matrices."""
    _to_slices(x)
    norm = _shrink(x[0], tau, multiplicity) + _shrink(x[1], tau, multiplicity)
    _from_slices(x)
    return norm / 2


def _to_slices(x: Array) -> None:
    """Put the sum and the difference of two matrices in their place."""
    one, two = x
    one += two
    two *= -2
    two += one


def _from_slices(x: Array) -> None:
    """Undo `_to_slices`."""
    one, two = x
    one += two
    one *= 0.5
    namespace(x).subtract(one, two, out=two)


def _to_scaled_slices(x: Array, root: Array) -> None:
    """Put the sum and the difference, rows and columns multiplied by a root each, in the place of two matrices."""
    if device_of(x) == "cpu":
        scaled.to_slices(x, root)
        return
    _to_slices(x)
    x *= root
    x *= root[:, None]


def _from_scaled_slices(x: Array, root: Array) -> None:
    """Undo `_to_scaled_slices`."""
    if device_of(x) == "cpu":
        scaled.from_slices(x, root)
        return
    x /= root
    x /= root[:, None]
    _from_slices(x)


def _shrink(x: Array, tau: float, multiplicity: Array | None) -> Array:
    """Threshold the singular values of D^1/2 X D^1/2, with D the multiplicities, in place; return its nuclear norm."""
    if multiplicity is None:
        return shrink_symmetric(x, tau)
    root = (multiplicity**0.5).astype(x.dtype)
    x *= root
    x *= root[:, None]
    norm = shrink_symmetric(x, tau)
    x /= root
    x /= root[:, None]
    return norm


class SymmetricPairs:
    """This does what `prox.tensor_nuclear_symmetric` does, to tensors in a sequence, each near the one before.

    `begin` turns a tensor into its two slices and looks for the prox of each; `report`, on the host, is what `finish`
    needs to make the result in place.
    """

    def __init__(self, like: Array, multiplicity: Array):
        self.root = (multiplicity**0.5).astype(like.dtype)
        self.sequences = [SymmetricSequence(like) for _ in range(2)]

    @property
    def report(self) -> Array:
        """What `finish` must know about both slices: 10 numbers on the device."""
        first, second = self.sequences
        return namespace(first.report).concatenate([first.report, second.report])

    def begin(self, x: Array, tau: float) -> None:
        """Begin with a tensor, 2 x n x n, that `finish` will overwrite."""
        _to_scaled_slices(x, self.root)

        def task(first: int, last: int) -> None:
            for i in ORDER[first:last]:
                self.sequences[i].begin(x[i], tau)

        over_spans(2, 1, task, _alone(x, SHARED_BLOCKS))

    def finish(self, x: Array, report: list[float]) -> Array:
        """Make the prox of the tensor that `begin` was given; return its norm: a number on the device."""
        norms, half = [0, 0], len(report) // 2
        reports = report[:half], report[half:]

        def task(first: int, last: int) -> None:
            for i in ORDER[first:last]:
                norms[i] = self.sequences[i].finish(x[i], reports[i])

        both = all(one.falls_short(of) for one, of in zip(self.sequences, reports, strict=True))
        over_spans(2, 1, task, not both or _alone(x, SHARED))
        _from_scaled_slices(x, self.root)
        return (norms[0] + norms[1]) / 2


def _alone(x: Array, shared: int) -> bool:
    return device_of(x) != "cpu" or x.shape[1] < shared


class SlicePairs:
    """This applies the tensor nuclear prox along the last axis to real 2 x m x n tensors in a sequence, in place.

    A call does what ``tensor_nuclear(x, tau, axis=-1)`` does; each tensor is near the one before. Each Fourier slice Z
    is m x 2, so that its singular values and its right singular vectors V come from a 2 x 2 matrix:

        Z'Z = V diag(s^2) V',   Z becomes Z V diag((1 - tau / s)_+) V'.

    The Gram matrix is taken in the basis V that the last call ended with: there a small singular value has a column of
    its own, and is not lost beside a large one.

    Parameters
    ----------
    like : array of float32 or float64, 2 x m x n
        Gives shape, dtype and device of the tensors; it is not read.

    Notes
    -----
    A workspace of the size of a tensor is kept. The first call knows no basis: a singular value below 1e-8 of the
    larger one of its slice is not resolved, whatever the dtype; a second call with a tensor near the first is accurate.
    Nothing waits for a device.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import prox
    >>> x = np.random.default_rng(0).random((2, 30, 20))
    >>> shrink, expected = prox.SlicePairs(x), prox.tensor_nuclear(x, 2.0, axis=-1)
    >>> norm = shrink(x, 2.0)
    >>> np.allclose(x, expected)
    True
    """

    def __init__(self, like: Array):
        checks.in_place(like, "like", 3)
        if len(like) != 2:
            raise ValueError(f"`like` must have the shape 2 x m x n, got {like.shape}.")
        xp, half = namespace(like), like.shape[2] // 2 + 1
        self.kernels = cpu_pairs if device_of(like) == "cpu" else cuda_slices
        self.length = like.shape[2]
        self.spectrum = xp.empty((2, like.shape[1], half), xp.result_type(like.dtype, "complex64"))
        self.basis = xp.zeros((2, half), "complex128")
        self.basis[0] = 1
        self.times = xp.full(half, 2.0)  # a slice stands for itself and its conjugate, but for the outer ones
        self.times[0] = 1
        if self.length % 2 == 0:
            self.times[-1] = 1

    def __call__(self, x: Array, tau: float) -> Array:
        """Overwrite a tensor by its prox.

        Parameters
        ----------
        x : array, 2 x m x n
            Is overwritten. Nothing is checked.
        tau : float
            Not negative.

        Returns
        -------
        array
            The tensor nuclear norm of the result: a number on the device.
        """
        with on(device_of(x)):
            gram = self.kernels.pair_spectrum(x, self.spectrum, self.basis).sum(0)
            factor, self.basis, norms = _factor(gram, self.basis, tau)
            self.kernels.pair_tensor(self.spectrum, factor.astype(x.dtype), x)
            return (self.times * norms).sum() / self.length

    def second(self) -> Array:
        """Make the second matrix of the last result anew from its spectrum, for a caller who has overwritten it."""
        return namespace(self.spectrum).fft.irfft(self.spectrum[1], self.length)


def _factor(gram: Array, basis: Array, tau: float) -> tuple[Array, Array, Array]:
    """Return the factor W of each slice, its right singular vectors, and the sum of its shrunken singular values.

    One Jacobi rotation makes the Gram matrix (a, c; c', b) diagonal, and turns the basis.
    """
    xp = namespace(gram)
    a, b, c = gram[0], gram[1], gram[2] + 1j * gram[3]
    size = abs(c)
    safe = xp.where(size > 0, size, 1)
    slope = (b - a) / (2 * safe)
    tangent = xp.where(size > 0, xp.copysign(1 / (abs(slope) + (slope**2 + 1) ** 0.5), slope), 0)
    cosine = 1 / (tangent**2 + 1) ** 0.5
    sine = tangent * cosine * (c / safe)
    alpha, beta = cosine * basis[0] - sine.conj() * basis[1], sine * basis[0] + cosine * basis[1]
    sigma = xp.maximum(xp.stack([a - tangent * size, b + tangent * size]), 0) ** 0.5
    kept = xp.maximum(sigma - tau, 0)
    one, two = kept / xp.where(kept > 0, sigma, 1)
    weight, mixed = abs(alpha) ** 2, (two - one) * (alpha * beta)
    factor = xp.stack([one * weight + two * (1 - weight), one * (1 - weight) + two * weight, mixed.real, mixed.imag])
    return factor, xp.stack([alpha, beta]), kept.sum(0)
