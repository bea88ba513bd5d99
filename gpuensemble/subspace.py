"""Leading singular triples and eigenvectors of a dense matrix, from those of a nearby one.

Nothing here waits for a device: how far a block iteration got comes back as a number on the device, and the caller,
who reads it together with his own, repeats the work by a full decomposition where that was not far enough.
"""

from collections.abc import Callable
from typing import NamedTuple

from gpuensemble._array import Array, namespace


class Triples(NamedTuple):
    """The leading part u @ diag(sigma) @ v.T of X, sigma descending; `angle`: how far the last pass turned v."""

    u: Array
    sigma: Array
    v: Array
    angle: Array


def singular_triples(x: Array, start: Array, n_passes: int) -> Triples:
    """Block power iteration with X'X from the columns of `start`, orthonormalised on either side of each pass.

    Columns of `start` that are drawn at random make a direction show that earlier blocks missed.
    """
    xp = namespace(x)
    v, _ = xp.linalg.qr(start)
    for _ in range(n_passes):
        before = v
        u, _ = xp.linalg.qr(x @ v)
        v, inner = xp.linalg.qr(x.T @ u)
    left, sigma, right = xp.linalg.svd(inner)
    v, u = v @ left, u @ right.T
    return Triples(u, sigma, v, ((v - before @ (before.T @ v)) ** 2).sum(0) ** 0.5)


class Eigen(NamedTuple):
    """Leading eigenvalues, descending, and eigenvectors; their residual."""

    values: Array
    vectors: Array
    residual: Array


def eigenvectors(product: Callable[[Array], Array], start: Array, depth: int) -> Eigen:
    """The leading eigenvectors of a symmetric matrix in the block Krylov space of `depth` products with `start`.

    The columns of `start` are orthonormal, one for each eigenvector.
    """
    xp = namespace(start)
    k = start.shape[1]
    basis, images = start, product(start)
    for _ in range(depth - 1):
        block = images[:, -k:]
        for _ in range(2):  # once more for the orthogonality that rounding took
            block = block - basis @ (basis.T @ block)
            block, r = xp.linalg.qr(block)
        block = block * (
            abs(xp.diagonal(r)) > 0.5
        )  # what lies in the basis already, at an invariant start, is left out
        basis = xp.concatenate([basis, block], axis=1)
        images = xp.concatenate([images, product(block)], axis=1)
    inner = basis.T @ images
    values, inner = xp.linalg.eigh((inner + inner.T) / 2)
    values, inner = values[::-1][:k], inner[:, ::-1][:, :k]
    vectors = basis @ inner
    return Eigen(values, vectors, xp.linalg.norm(images @ inner - vectors * values))
