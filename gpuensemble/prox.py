"""A proximal operator returns the argmin over z of tau * penalty(z) + |z - x|^2 / 2.

These are plain functions, batched over leading axes. All take NumPy or CuPy arrays, float32, float64 or complex, and
answer in kind. `check=False` leaves out the search for NaN, infinity and negative thresholds, which costs a pass and
makes the host wait for a device; entries must then be of moderate size, as their squares are summed.

What the methods call in their iterations works in place, on real arrays of float32 or float64, and returns the norm of
the result: `nuclear_symmetric`, `tensor_nuclear_symmetric`, `NuclearSequence` and `SlicePairs`. The last two remember
singular vectors from one call to the next.
"""

from typing import Any

from gpuensemble._array import checks
from gpuensemble._array.devices import Array, namespace
from gpuensemble._linear import thresholding
from gpuensemble._linear.pairs import SlicePairs, shrink_symmetric_pair
from gpuensemble._linear.sequence import NuclearSequence
from gpuensemble.tsvd import fourier, slices, unsliced

__all__ = [
    "NuclearSequence",
    "SlicePairs",
    "l21",
    "mcp_weights",
    "nuclear",
    "nuclear_symmetric",
    "soft",
    "tensor_nuclear",
    "tensor_nuclear_symmetric",
]
MODERATE = {"float32": 2.0**40, "float64": 2.0**160}  # larger entries, or smaller than 1 / this, are scaled


def soft(x: Any, tau: Any, *, check: bool = True) -> Array:
    """Move each entry towards 0 by tau, a soft threshold, the prox of the l1 norm; a complex entry keeps its phase.

    Parameters
    ----------
    x : array
        The entries.
    tau : float or array that broadcasts to the shape of `x`
        Not negative; one for each entry gives the weighted l1 norm.
    check : bool
        Whether to look for NaN, infinity and negative thresholds first.
    """
    x = checks.numbers_of(x, "x")
    tau = checks.thresholds(tau, "tau", x, x.shape, check)
    if check:
        checks.finite(x, "x")
    if x.dtype.kind == "c":
        return _shortened(x, abs(x), tau)
    return x - namespace(x).clip(x, -tau, tau)


def l21(x: Any, tau: Any, *, check: bool = True) -> Array:
    """Reduce the length of each column by tau, to 0 at least, which is the prox of the l21 norm.

    A kept column is x_i (|x_i| - tau) / |x_i|: Eq. 15 of RSEC, which prints the factor alone.

    Parameters
    ----------
    x : array, ... x m x n
        A matrix, or several.
    tau : float or array that broadcasts to ... x 1 x n
        Not negative.
    check : bool
        Whether to look for NaN, infinity and negative thresholds first.
    """
    x = checks.numbers_of(x, "x", 2)
    tau = checks.thresholds(tau, "tau", x, (*x.shape[:-2], 1, x.shape[-1]), check)
    if check:
        checks.finite(x, "x")
    return _shortened(x, _lengths(x) if check else (abs(x) ** 2).sum(-2, keepdims=True) ** 0.5, tau)


def _lengths(x: Array) -> Array:
    """Return the lengths of columns, whose squares may be too large or too small for the type."""
    xp, size = namespace(x), abs(x)
    most = 100 if size.dtype == "float32" else 1000
    exponent = xp.clip(xp.frexp(size.max(-2, keepdims=True, initial=0))[1], -most, most)
    return xp.ldexp((xp.ldexp(size, -exponent) ** 2).sum(-2, keepdims=True) ** 0.5, exponent)


def _shortened(x: Array, length: Array, tau: Any) -> Array:
    """Return x times (length - tau)_+ / length."""
    xp = namespace(x)
    kept = length > tau
    return x * xp.where(kept, (length - tau) / xp.where(kept, length, 1), 0)


def mcp_weights(x: Any, gamma: float, *, check: bool = True) -> Array:
    """Return the slope of the minimax concave penalty at entries x, or of the gamma-norm at singular values x.

    It is (1 - |x| / gamma)_+.

    Parameters
    ----------
    x : array
        Entries, or singular values.
    gamma : float
        Positive; from this size on there is no penalty.
    check : bool
        Whether to look for NaN and infinity first.
    """
    x, gamma = checks.numbers_of(x, "x"), checks.threshold(gamma, "gamma")
    if gamma == 0:
        raise ValueError("`gamma` must be positive, got 0.")
    if check:
        checks.finite(x, "x")
    return namespace(x).maximum(1 - abs(x) / gamma, 0)


def nuclear(x: Any, tau: float, weights: Any = None, *, check: bool = True) -> Array:
    """Reduce the singular values by tau, to 0 at least (singular value thresholding), the prox of the nuclear norm.

    The algorithm is chosen from the shape and the device (`algorithm` of _linear/thresholding.py); in float64 all of
    them agree with LAPACK's SVD to 1e-10 of the largest singular value, in float32 to 1e-4. A device is given a stack
    in a number of calls that does not grow with it.

    Parameters
    ----------
    x : array, ... x m x n
        A matrix, or several.
    tau : float
        Not negative.
    weights : array of min(m, n) numbers, optional
        Not negative; they belong to the singular values in descending order, which become (sigma - tau * weight)_+.
    check : bool
        Whether to look for NaN, infinity and negative weights first.
    """
    x, tau = checks.numbers_of(x, "x", 2), checks.threshold(tau, "tau")
    weights = checks.rank_weights(weights, x, check)
    unit = _unit(x) if check else 1.0
    if unit != 1:
        return thresholding.thresholded(x * unit, tau * unit, weights) / unit
    return thresholding.thresholded(x, tau, weights)


def _unit(x: Array) -> float:
    """Return a power of two that brings the entries to moderate size; it is 1 where they are so."""
    size, limit = checks.largest(x, "x"), MODERATE[x.real.dtype.name]
    unit = 1.0
    while size * unit > limit:
        unit /= limit
    while 0 < size * unit < 1 / limit:
        unit *= limit
    return unit


def nuclear_symmetric(x: Array, tau: float) -> Array:
    """Apply `nuclear` to a real symmetric matrix in place: its singular values are its absolute eigenvalues.

    ``X = V diag(l) V'`` becomes ``V diag(sign(l) (|l| - tau)_+) V'``.

    Parameters
    ----------
    x : array of float32 or float64, n x n
        Symmetric, which is not checked: its lower half is read. Is overwritten.
    tau : float
        Not negative.

    Returns
    -------
    array
        The nuclear norm of the result: a number on the device, which is not waited for.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import prox
    >>> x = np.diag([3.0, -2.0, 0.5])
    >>> float(prox.nuclear_symmetric(x, 1.0))
    3.0
    >>> x.diagonal().tolist()
    [2.0, -1.0, 0.0]
    """
    _square(checks.in_place(x, "x", 2))
    return thresholding.shrink_symmetric(x, checks.threshold(tau, "tau"))


def _square(x: Array) -> None:
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"`x` must hold square matrices, got an array of shape {x.shape}.")


def tensor_nuclear(x: Any, tau: float, axis: int = -1, *, check: bool = True) -> Array:
    """Threshold the singular values of the Fourier slices along `axis`, which is the prox of the tensor nuclear norm.

    The norm is 1/n3 times the sum of the slices' nuclear norms, n3 the length of `axis`; hence the slices of the
    unnormalised FFT are reduced by tau. Of a real tensor half of them are computed.

    Parameters
    ----------
    x : array, ... x three axes
        A tensor, or several.
    tau : float
        Not negative.
    axis : int
        The one of the last three axes that the Fourier transform runs along; the slices are the other two.
    check : bool
        Whether to look for NaN and infinity first.
    """
    x, tau = checks.numbers_of(x, "x", 3), checks.threshold(tau, "tau")
    axis = checks.axis_of(axis, x.ndim)
    unit = _unit(x) if check else 1.0
    if unit != 1:
        return tensor_nuclear(x * unit, tau * unit, axis, check=False) / unit
    return _tensor(x, tau, axis)


def _tensor(x: Array, tau: float, axis: int) -> Array:
    """Apply the prox to the tensors that the last three axes are."""
    xp = namespace(x)
    front = xp.moveaxis(x, axis, 0)
    turned = front.shape[-2] < front.shape[-1]  # the short side of the slices comes last
    front = front.swapaxes(-2, -1) if turned else front
    if x.ndim == 3 and x.dtype.kind == "f" and front.shape[2] in thresholding.PAIRED:
        packed = xp.ascontiguousarray(front).view(xp.result_type(x.dtype, "complex64"))
        shrunken = _shrink_packed(fourier("fft", packed, 0), tau)
        out = xp.ascontiguousarray(shrunken).view(x.dtype)  # cupy.fft returns a view with swapped axes
    else:
        spectrum = thresholding.thresholded(slices(front, 0), tau, None)
        out = unsliced(spectrum, 0, len(front), x.dtype.kind == "f")
    return xp.moveaxis(out.swapaxes(-2, -1) if turned else out, 0, axis)


def _shrink_packed(spectrum: Array, tau: float) -> Array:
    """Threshold the spectrum of pairs of real planes x1 + i x2, and transform it back.

    A row of x1 + i x2 at frequency f, and the conjugate of that at -f, are sqrt(2) times a rotation of the two rows
    that x1 and x2 have at f; so they take the place of these, with sqrt(2) times the threshold, and no row is unpacked.
    """
    thresholding.shrink_slices(spectrum.swapaxes(1, 2), 2**0.5 * tau, mirrored=True)
    return fourier("ifft", spectrum, 0, overwrite=True)


def tensor_nuclear_symmetric(x: Array, tau: float, multiplicity: Array | None = None) -> Array:
    """Apply `tensor_nuclear` along the first axis to two stacked real symmetric matrices, in place.

    The Fourier slices are the sum and the difference of both, so that two calls of `nuclear_symmetric` do.

    With multiplicities row and column i of X stand for d_i equal ones: the large matrices have the singular values of
    ``D^1/2 X D^1/2``, and ``D^-1/2 prox(D^1/2 X D^1/2) D^-1/2`` is what their prox has once of each row and column.

    Parameters
    ----------
    x : array of float32 or float64, 2 x n x n
        Both matrices symmetric, which is not checked. Is overwritten.
    tau : float
        Not negative.
    multiplicity : array of n numbers, optional
        Positive, in the library of `x`.

    Returns
    -------
    array
        The tensor nuclear norm of the result, of the large one with multiplicities: a number on the device, which is
        not waited for.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuensemble import prox
    >>> x = np.stack([np.full((3, 3), 2.0), np.eye(3)])
    >>> expected = prox.tensor_nuclear(x, 0.5, axis=0)
    >>> norm = prox.tensor_nuclear_symmetric(x, 0.5)
    >>> np.allclose(x, expected)
    True
    """
    _square(checks.in_place(x, "x", 3))
    if len(x) != 2:
        raise ValueError(f"`x` must have the shape 2 x n x n, got {x.shape}.")
    return shrink_symmetric_pair(x, checks.threshold(tau, "tau"), multiplicity)
