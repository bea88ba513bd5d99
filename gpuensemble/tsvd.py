"""Tensors of three axes are matrices of tubes: t-product, t-SVD and tensor nuclear norm go through Fourier slices.

The tubes run along `axis`; a t-product convolves them in a circle. A real tensor has a spectrum that is symmetric, so
that only its first half is worked on (`slices`).
"""

from typing import Any

import scipy.fft

from gpuensemble._array import checks, threads
from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._linear import stacks


def fourier(name: str, x: Array, axis: int, overwrite: bool = False, **options: Any) -> Array:
    """Call the transform `name`, with `options`, of scipy.fft or cupy.fft along `axis`; `overwrite` may use `x`."""
    if device_of(x) == "cpu":
        return getattr(scipy.fft, name)(x, axis=axis, overwrite_x=overwrite, workers=threads.at_hand(), **options)
    return getattr(namespace(x).fft, name)(x, axis=axis, **options)


def slices(x: Array, axis: int) -> Array:
    """Return the Fourier slices of `x` along `axis`, now the first: n3 of a complex, n3 // 2 + 1 of a real tensor."""
    return fourier("fft" if x.dtype.kind == "c" else "rfft", namespace(x).moveaxis(x, axis, 0), 0)


def unsliced(spectrum: Array, axis: int, n3: int, is_real: bool) -> Array:
    """Invert `slices` along `axis`, of `n3` entries, real if `is_real`; the `spectrum` is overwritten."""
    x = fourier("irfft", spectrum, 0, n=n3, overwrite=True) if is_real else fourier("ifft", spectrum, 0, overwrite=True)
    return namespace(x).moveaxis(x, 0, axis)


def tproduct(a: Any, b: Any, axis: int = -1) -> Array:
    """Multiply two tensors: the t-product is the matrix product slice by slice in the Fourier domain.

    Parameters
    ----------
    a, b : arrays of three axes
        The axes other than `axis` are those of matrices, m x k and k x n.
    axis : int
        The axis of the Fourier transform.
    """
    a, b = _tensor(a, "a", axis), _tensor(b, "b", axis)
    xp, is_real = namespace(a, b), "c" not in a.dtype.kind + b.dtype.kind
    if not is_real:
        a, b = a + 0j, b + 0j
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"`b` must have the length {a.shape[axis]} of `a` along axis {axis}, got {b.shape[axis]}.")
    left, right = slices(a, axis), slices(b, axis)
    if left.shape[2] != right.shape[1]:
        raise ValueError(f"`b` must have slices of {left.shape[2]} rows, as `a` has columns, got {right.shape[1]}.")
    return unsliced(xp.matmul(left, right), axis, a.shape[axis], is_real)


def transpose(a: Any, axis: int = -1) -> Array:
    """Transpose the tensor `a` for the t-product: each Fourier slice along `axis` becomes its conjugate transpose."""
    a = _tensor(a, "a", axis)
    xp = namespace(a)
    front = xp.moveaxis(a, axis, 0).conj().swapaxes(1, 2)
    turned = xp.concatenate([front[:1], front[:0:-1]])
    return xp.moveaxis(turned, 0, axis)


def tsvd(x: Any, axis: int = -1) -> tuple[Array, Array, Array]:
    """Return the singular value decomposition of a tensor for the t-product.

    It is x = U * S * V', with slices of U and V orthonormal in the Fourier domain and S diagonal.

    Parameters
    ----------
    x : array of three axes
        Real or complex.
    axis : int
        The axis of the Fourier transform.

    Returns
    -------
    U, S, V : arrays
        With slices m x k, k x k and n x k, k = min(m, n); ``tproduct(tproduct(U, S), transpose(V))`` is x.

    Notes
    -----
    All slices are decomposed at once, on a device in a number of calls that does not grow with them. The factors are
    orthonormal to 100 eps at any rank of the slices, and the singular values exact to 100 eps of the largest.
    """
    x = _tensor(x, "x", axis)
    xp, n3, is_real = namespace(x), x.shape[axis], x.dtype.kind != "c"
    u, sigma, vh = _half(slices(x, axis), n3) if is_real else stacks.svd(slices(x, axis))
    s = sigma[:, None, :] * xp.eye(sigma.shape[1], dtype=u.dtype)
    u, s, v = (unsliced(part, axis, n3, is_real) for part in (u, s, stacks.adjoint(vh)))
    return u, s, v


def _half(spectrum: Array, n3: int) -> tuple[Array, ...]:
    """Decompose the slices of a real tensor.

    The first is real, and the middle one of an even number: they are decomposed as such, for factors that are real.
    """
    xp, last = namespace(spectrum), (n3 + 1) // 2
    u, sigma, vh = stacks.svd(xp.concatenate([spectrum[:1], spectrum[last:]]).real)
    if last == 1:
        return u + 0j, sigma, vh + 0j
    others = stacks.svd(spectrum[1:last])
    return tuple(xp.concatenate([a[:1], b, a[1:]]) for a, b in zip((u, sigma, vh), others, strict=True))


def tensor_nuclear_norm(x: Any, axis: int = -1) -> Array:
    """Return the tensor nuclear norm of `x`: the mean nuclear norm of all Fourier slices along `axis`, a 0-d array."""
    x = _tensor(x, "x", axis)
    n3 = x.shape[axis]
    norms = stacks.singular_values(slices(x, axis)).sum(1)
    if x.dtype.kind != "c":  # the slices between the first and the middle one stand for two
        norms[1 : (n3 + 1) // 2] *= 2
    return norms.sum() / n3


def _tensor(x: Any, name: str, axis: int) -> Array:
    """Return a finite tensor of three axes, one of which is `axis`."""
    x = checks.numbers_of(x, name, 3)
    if x.ndim != 3:
        raise ValueError(f"`{name}` must have 3 axes, got an array of shape {x.shape}.")
    checks.axis_of(axis, 3)
    checks.finite(x, name)
    return x
