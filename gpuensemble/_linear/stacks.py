"""Singular value decompositions of a stack of matrices take a few calls on a device, however many matrices there are.

On the CPU they are LAPACK's. On a device a matrix X with n rows, and no fewer columns, is decomposed in three steps,
each of them one call for the whole stack: the eigenvectors of X X' (cuSOLVER) in the rows of R, the product Y = R X,
and rotations that make the rows of Y orthogonal (kernels/jacobi.cu). Then X = R' Y, and the lengths of the rows of Y
are the singular values, to some ten eps of the largest.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuensemble._array import threads
from gpuensemble._array.devices import Array, device_of, namespace, on
from gpuensemble._kernels.cpu import slices as cpu_slices
from gpuensemble._kernels.cuda import slices as cuda_slices

ENTRIES = 1 << 24  # of the Gram matrices of one call at most: cuSOLVER counts its workspace in 32 bits
MATRICES = 1 << 18  # of one call at most, for the same reason
TRUSTED = 100  # eps, times the root of n: what the eigenvectors of a library may miss by before they are thrown away
NOISE = 8  # eps, times the largest singular value: a row that is not longer counts as zero


class Bases(NamedTuple):
    """What the Gram matrices X X' of a stack tell: singular values, ascending; R; and an error for each matrix.

    R is unitary, and R' diag(sigma^2) R the Gram matrix, to the error, which is relative to the largest sigma^2.
    """

    sigma: Array
    turns: Array
    error: Array


def adjoint(x: Array) -> Array:
    """Return the conjugate transposes of a stack of matrices."""
    return x.conj().swapaxes(-2, -1)


def in_parts(function: Callable, x: Array) -> Any:
    """Call a function of a stack, in parts that are not too large for one call of cuSOLVER; join what it returns."""
    size = max(1, min(MATRICES, ENTRIES // min(x.shape[1:]) ** 2))
    if len(x) <= size:
        return function(x)
    found = [function(x[span]) for span in threads.spans(len(x), size)]
    join = namespace(x).concatenate
    return tuple(map(join, zip(*found, strict=True))) if isinstance(found[0], tuple) else join(found)


def bases(x: Array) -> Bases:
    """Return the eigenvectors of X X' for each matrix of a stack.

    LAPACK says so if it fails, and is trusted to eps. cuSOLVER does not, so that its eigenvectors are put to the test:
    where they fail it, R is the identity, and the error infinite.
    """
    xp = namespace(x)
    eps, gram = float(xp.finfo(x.dtype).eps), x @ adjoint(x)
    squares, vectors = xp.linalg.eigh(gram)
    sigma, turns = xp.maximum(squares, 0) ** 0.5, adjoint(vectors)
    if device_of(x) == "cpu":
        return Bases(sigma, turns, xp.full(len(x), eps))
    identity = xp.eye(x.shape[1], dtype=x.dtype)
    largest = xp.where(squares[:, -1] > 0, squares[:, -1], 1)
    error = _norms(gram @ vectors - vectors * squares[:, None, :]) / largest + _norms(turns @ vectors - identity)
    good = error <= TRUSTED * x.shape[1] ** 0.5 * eps  # NaN is not
    return Bases(sigma, xp.where(good[:, None, None], turns, identity), xp.where(good, error, xp.inf))


def _norms(x: Array) -> Array:
    """Return the Frobenius norm of each matrix, which bounds its largest singular value."""
    return (abs(x) ** 2).sum((1, 2)) ** 0.5


def orthogonalised(x: Array, turns: Array, wanted: Array) -> tuple[Array, Array]:
    """Turn the rows of Y = R X until they are orthogonal, where `wanted`; return Y and R."""
    xp, kernels = namespace(x), cpu_slices if device_of(x) == "cpu" else cuda_slices
    rows, turns = xp.ascontiguousarray(turns @ x), xp.ascontiguousarray(turns)
    eps = float(xp.finfo(x.dtype).eps)
    with on(device_of(x)):
        kernels.orthogonalise(rows, turns, wanted, max(8, x.shape[2] ** 0.5) * eps, NOISE * eps)
    return rows, turns


def lengths(rows: Array) -> Array:
    """Return the lengths of the rows of each matrix."""
    return (abs(rows) ** 2).sum(-1) ** 0.5


def svd(x: Array) -> tuple[Array, Array, Array]:
    """Return U, the singular values, descending, and V' of each matrix of a stack; U and V have min(m, n) columns."""
    if device_of(x) == "cpu":
        return namespace(x).linalg.svd(x, full_matrices=False)
    if x.shape[1] > x.shape[2]:
        u, sigma, v = svd(adjoint(x))
        return adjoint(v), sigma, adjoint(u)
    return in_parts(_decomposed, x)


def singular_values(x: Array) -> Array:
    """Return the singular values of each matrix of a stack, in any order."""
    if device_of(x) == "cpu":
        return namespace(x).linalg.svd(x, compute_uv=False)
    return in_parts(_values, x if x.shape[1] <= x.shape[2] else adjoint(x))


def _values(x: Array) -> Array:
    unit = _units(x)
    return lengths(_rows(x * unit[:, :, None])[0]) / unit


def _units(x: Array) -> Array:
    """Return for each matrix the power of two that brings its entries to moderate size, as their squares are summed."""
    xp, real = namespace(x), x.real.dtype
    most = 100 if real == "float32" else 1000
    exponent = xp.clip(xp.frexp(abs(x).max((1, 2)))[1], -most, most)
    return xp.ldexp(xp.ones(len(x), real), -exponent)[:, None]


def _rows(x: Array) -> tuple[Array, Array]:
    """Return Y, all of whose rows are orthogonal, and R."""
    return orthogonalised(x, bases(x).turns, namespace(x).ones(len(x), bool))


def _decomposed(x: Array) -> tuple[Array, Array, Array]:
    """Decompose matrices with no more rows than columns on a device."""
    xp, unit = namespace(x), _units(x)
    rows, turns = _rows(x * unit[:, :, None])
    sigma = lengths(rows)
    order = xp.argsort(-sigma, axis=1)
    sigma = xp.take_along_axis(sigma, order, 1)
    rows, turns = (xp.take_along_axis(part, order[:, :, None], 1) for part in (rows, turns))
    null = sigma <= NOISE * float(xp.finfo(x.dtype).eps) * sigma[:, :1]
    rows = xp.where(null[:, :, None], 0, rows / xp.where(null, 1, sigma)[:, :, None])
    return adjoint(turns), sigma / unit, _completed(rows, null)


def _completed(rows: Array, null: Array) -> Array:
    """Put unit rows in the place of those that are null, the last ones of each matrix, orthogonal to all others.

    A row begins as the unit vector that is furthest from the others. The host waits for one number.
    """
    xp = namespace(rows)
    n_null = int(null.sum(1).max())
    for i in range(rows.shape[1] - n_null, rows.shape[1]):
        here, covered = null[:, i, None], (abs(rows) ** 2).sum(1)
        row = (xp.arange(rows.shape[2]) == covered.argmin(1)[:, None])[:, None, :].astype(rows.dtype)
        for _ in range(2):  # the second time takes away what rounding has left
            row = row - (row @ adjoint(rows)) @ rows
        rows[:, i] = xp.where(here, row[:, 0] / xp.where(here, lengths(row), 1), rows[:, i])
    return rows
