"""These functions choose an algorithm for singular value thresholding, and carry it out. Nothing is checked here.

The thresholds belong to the singular values in descending order: sigma becomes (sigma - threshold)_+.
"""

import math
from typing import Any, NamedTuple

from gpuensemble._array.devices import Array, device_of, namespace, on, to_host
from gpuensemble._kernels.cpu import slices as cpu_slices
from gpuensemble._kernels.cuda import slices as cuda_slices
from gpuensemble._linear import stacks
from gpuensemble._linear.eigen import whole

SLICE_ROWS = 8  # a slice has at most so many rows
PAIRED = (2, 4, 6, 8)  # rows of a slice that can come in pairs
SMALL = 128  # up to this size the Gram matrices of a stack are made and used at once on the CPU, by measurement
CARE = {"float32": 1e-2, "float64": 1e-5}  # of the largest singular value: the Gram matrix blurs smaller ones
ACCURACY = {"float32": 1e-4, "float64": 1e-10}  # of a result, relative to the largest singular value


class Layout(NamedTuple):
    """A layout says where slices lie in an array, counted in complex numbers; kernels/slices.cu explains it."""

    n_slices: int
    n_rows: int
    length: int
    slice_stride: int
    row_stride: int
    step: int
    period: int


def algorithm(shape: tuple, kind: str, device: str) -> str:
    """Name what finds the singular values of matrices of this shape and kind of dtype, the function `by_...` below.

    On a CPU it was measured (bench/bench_prox.py, "slices" and "matrices"). On a device a stack takes a fixed number of
    calls; one matrix that is large takes the eigenvectors of its Gram matrices one after the other.
    """
    small = min(shape[-2:])
    if 2 <= small <= SLICE_ROWS and (kind == "c" or device != "cpu"):
        return "slices"
    alone = device == "cpu" or math.prod(shape[:-2]) == 1
    return "gram" if alone and small > SMALL else "products"


def thresholded(x: Array, tau: float, weights: Array | None) -> Array:
    """Return the matrices with their singular values reduced."""
    name = algorithm(x.shape, x.dtype.kind, device_of(x))
    if name == "gram":
        if x.ndim > 2:
            return namespace(x).stack([thresholded(part, tau, weights) for part in x])
        return by_gram(x, thresholds(x, tau, weights))
    return (by_slices if name == "slices" else by_products)(x, tau, weights)


def thresholds(x: Array, tau: float, weights: Array | None) -> Array:
    """Return one threshold for each singular value."""
    xp, dtype = namespace(x), x.real.dtype
    return xp.full(min(x.shape[-2:]), tau, dtype) if weights is None else (tau * weights).astype(dtype)


def by_svd(x: Array, limits: Array) -> Array:
    """Threshold by LAPACK's SVD."""
    xp = namespace(x)
    u, sigma, v = xp.linalg.svd(x, full_matrices=False)
    return (u * xp.maximum(sigma - limits, 0)[..., None, :]) @ v


def by_products(x: Array, tau: float, weights: Array | None) -> Array:
    """Threshold by the Gram matrices of a stack at once, with care where they blur a singular value that counts."""
    if x.shape[-2] > x.shape[-1]:
        return stacks.adjoint(by_products(stacks.adjoint(x), tau, weights))
    limits, stack = thresholds(x, tau, weights), x.reshape(-1, *x.shape[-2:])
    return stacks.in_parts(lambda part: _shrunken(part, limits), stack).reshape(x.shape)


def _shrunken(x: Array, limits: Array) -> Array:
    """Return R' diag((1 - limit / sigma)_+) R X for each X of a stack, with no more rows than columns.

    An error of the Gram matrix, relative to sigma_1^2, moves sigma by sigma_1 / (2 sigma) times as much, relative to
    sigma_1. Where that may be more than ACCURACY, and the limit of sigma is as small, a device makes the rows of R X
    orthogonal, and the CPU an SVD. A device is given the whole stack, and is not waited for.
    """
    xp, name = namespace(x), limits.dtype.name
    sigma, turns, error = stacks.bases(x)
    care = xp.maximum(error / (2 * ACCURACY[name]), CARE[name]).astype(limits.dtype)[:, None]
    unsure = ~(xp.maximum(sigma, limits[::-1]) >= care * sigma[:, -1:]).all(1)  # NaN is unsure
    if device_of(x) == "cpu":
        out = _factors(sigma, turns, limits[::-1]) @ x
        if unsure.any():
            out[unsure] = by_svd(x[unsure], limits)
        return out
    rows, turns = stacks.orthogonalised(x, turns, unsure)
    sigma = xp.where(unsure[:, None], stacks.lengths(rows), sigma)
    rank = xp.argsort(xp.argsort(-sigma, axis=1), axis=1)
    return _factors(sigma, turns, limits[rank]) @ x


def _factors(sigma: Array, turns: Array, limits: Array) -> Array:
    """Return R' diag((1 - limit / sigma)_+) R."""
    xp, kept = namespace(sigma), sigma > limits
    share = xp.where(kept, 1 - limits / xp.where(kept, sigma, 1), 0)
    return (stacks.adjoint(turns) * share[:, None, :]) @ turns


def by_slices(x: Array, tau: float, weights: Array | None) -> Array:
    """Threshold by the kernel for slices with at most 8 rows or columns."""
    xp = namespace(x)
    work = x.astype(xp.result_type(x.dtype, "complex64"), order="C")  # in another order `reshape` would copy
    slices = work.reshape(-1, *x.shape[-2:])
    shrink_slices(slices if x.shape[-2] <= x.shape[-1] else slices.swapaxes(1, 2), tau, weights)
    return work if x.dtype.kind == "c" else xp.ascontiguousarray(work.real)


def shrink_slices(slices: Array, tau: float, weights: Array | None = None, mirrored: bool = False) -> None:
    """Threshold complex slices, F x V x n with V from 2 to 8, in place; the axes may be a transposition.

    If `mirrored`, the array is F x V / 2 x n, the spectrum of V real rows that came as V / 2 complex ones. Row j of
    frequency f and the conjugate of that of -f are then two rows of slice f, and half of the slices are worked on.
    """
    xp, kernels = namespace(slices), cpu_slices if device_of(slices) == "cpu" else cuda_slices
    order = sorted(range(3), key=lambda axis: -slices.strides[axis])
    ordered = slices.transpose(*order)
    if not ordered.flags.c_contiguous:
        raise ValueError(f"`slices` must be a transposition of a contiguous array, got strides {slices.strides}.")
    flat = ordered.view(slices.real.dtype).reshape(-1)
    n, rows, length = slices.shape
    size, period = (n // 2 + 1, n) if mirrored else (n, 0)
    slice_stride, row_stride, step = (stride // slices.itemsize for stride in slices.strides)
    layout = Layout(size, rows * (1 + mirrored), length, slice_stride, row_stride, step, period)
    if weights is not None:
        weights = xp.ascontiguousarray(weights.astype("float64"))
    with on(device_of(slices)):
        kernels.shrink_slices(flat, layout, float(tau), weights)


def by_gram(x: Array, limits: Array) -> Array:
    """Threshold one matrix by the eigenvectors of its Gram matrix, in levels.

    The Gram matrix has an error of the order of eps sigma_1^2. So only the singular values above CARE sigma_1 are taken
    from it; they are deflated, and the rest has a Gram matrix of its own, unless its thresholds are above all of it.
    """
    if x.shape[0] < x.shape[1]:
        return by_gram(x.conj().T, limits).conj().T
    care, size, done = CARE[x.real.dtype.name], x.shape[1], 0
    on_host = to_host(limits)
    out: Any = 0
    bases: list[Array] = []
    while True:
        sigma, vectors = _leading(x.conj().T @ x, size - done)
        host = to_host(sigma)
        trusted = int((host >= care * host[0]).sum())
        bound = care * host[0] if trusted < len(host) else host[-1]  # of the values that are left
        vectors = vectors[:, :trusted]
        for basis in bases:  # rounding has left a little of the deflated vectors
            vectors = vectors - basis @ (basis.conj().T @ vectors)
        level, basis = _shrunk(x, vectors, sigma[:trusted], limits[done : done + trusted])
        out, done = out + level if bases else level, done + trusted
        if done == size or on_host[done:].min() >= bound:
            return out
        bases.append(basis)
        x = x - (x @ vectors) @ vectors.conj().T


def _leading(gram: Array, size: int) -> tuple[Array, Array]:
    """Return the first `size` singular values, descending, and their vectors from a Gram matrix."""
    xp = namespace(gram)
    squares, vectors = xp.linalg.eigh(gram)
    return xp.maximum(squares[::-1][:size], 0) ** 0.5, vectors[:, ::-1][:, :size]


def _shrunk(x: Array, vectors: Array, sigma: Array, limits: Array) -> tuple[Array, Array]:
    """Return x on some right singular vectors, its singular values reduced; the CPU leaves out those that vanish.

    It returns the vectors that were used as well.
    """
    xp = namespace(x)
    kept = sigma > limits
    if device_of(x) == "cpu":
        vectors, sigma, limits = vectors[:, kept], sigma[kept], limits[kept]
        share = (sigma - limits) / sigma
    else:
        share = xp.where(kept, (sigma - limits) / xp.where(kept, sigma, 1), 0)
    return ((x @ vectors) * share) @ vectors.conj().T, vectors


def shrink_symmetric(x: Array, tau: float) -> Array:
    """Do what `prox.nuclear_symmetric` does: singular values are absolute eigenvalues."""
    xp = namespace(x)
    values, vectors = whole(x)
    kept = xp.maximum(abs(values) - tau, 0)
    xp.matmul(vectors * xp.copysign(kept, values), vectors.T, out=x)
    return kept.sum()
