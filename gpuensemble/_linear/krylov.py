"""Block iterations find leading eigenvectors and singular triples from a start that may be near them.

Only products are asked for. Without a tolerance nothing here waits for a device: how far an iteration got comes back as
a number on the device, and the caller, who reads it together with his own, repeats the work by a full decomposition
where that was not far enough. Blocks are overwritten where they can be: to ask the system for the memory of another one
takes longer than what is done with it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from gpuensemble._array.devices import Array, device_of, namespace, to_host
from gpuensemble._linear import dense
from gpuensemble._linear.orthonormal import orthonormal, qr, qr_of_steep

FLAT = 0.03  # what `qr_of_steep` takes for steep where three digits more may be lost, as a second pass brings them back
LOST = 1e-10  # a millionth of a tolerance is more than what rounding takes off the orthogonality of steep columns
LEFT = 0.5  # length of a column that was of length 1, without what it has of the basis: else it is rounding


class Eigen(NamedTuple):
    """This holds leading eigenvalues, descending, their eigenvectors, and the residual of each."""

    values: Array
    vectors: Array
    residual: Array


def converged(
    product: Callable[[Array], Array],
    start: Array,
    depth: int,
    tolerance: float,
    n_wanted: int,
    begin: int = 1,
    patience: float = math.inf,
) -> Eigen:
    """Find as many leading eigenvectors of a symmetric matrix as `start` has columns, in a block Krylov space of it.

    `product` is the matrix times some columns, in a new array; those of `start` are orthonormal. The space grows by a
    product at a time, to `depth` blocks at most, until the first `n_wanted` are found: their residuals are at most
    `tolerance` times the largest eigenvalue. A step asks for one product, and for small matrices beside it. The images
    of all blocks but the last lie in the space, so that residuals come from what the last one has beyond it: vectors
    are made once, at the end. The host waits for two numbers at some steps, from `begin` blocks on: at each once the
    end is near. It gives up early if the blocks that it seems to need are `patience` times those that it may have.
    """
    xp = namespace(start)
    n, width = start.shape
    room = min(n, depth * width)
    space, inner = xp.empty((room, n)).T, xp.zeros((room, room))
    block, size, look = start, 0, Looks(begin * width)
    while True:
        before, size = size, size + block.shape[1]
        space[:, before:size] = block
        basis, beyond = space[:, :size], product(block)
        near = slice(max(0, before - width), size)  # the image is orthogonal to all blocks but its own and the last one
        corner = space[:, near].T @ beyond
        inner[near, before:size], inner[before:size, near] = corner, corner.T
        beyond -= space[:, near] @ corner
        square = beyond.T @ beyond
        if size == room or size >= look.next:
            values, vectors = xp.linalg.eigh(inner[:size, :size])
            values, vectors = values[::-1][:width], vectors[:, ::-1][:, :width]
            tail = vectors[before:]
            residual = xp.maximum((tail * (square @ tail)).sum(0), 0) ** 0.5
            error, largest = to_host(xp.stack([residual[:n_wanted].max(), values[0]])).tolist()
            if size == room or error <= tolerance * largest:
                return Eigen(values, basis @ vectors, residual)
            look = look.after(size, width, error, tolerance * largest)
            if look.needed > patience * (room - size):
                return Eigen(values, basis @ vectors, residual)
        near_all = near.start == 0 and device_of(start) == "cpu"
        enough = LOST * float(abs(corner).max()) / tolerance if near_all and tolerance > 0 else math.inf
        block = _orthonormal_to(basis, beyond[:, : room - size], enough)  # the last one may be narrower


class Looks(NamedTuple):
    """This says when to look next how far a space has got: a look costs as much as a small space, and a wait."""

    next: int  # at this size
    size: int = 0  # of the last look
    error: float = math.inf  # seen then
    needed: float = 0.0  # columns more, at the pace since the look before that

    def after(self, size: int, width: int, error: float, goal: float) -> "Looks":
        """Return the next look: half way to where the error would reach the goal at the pace since the last one."""
        needed = 0.0
        if 0 < goal < error and self.error < math.inf:
            pace = math.log(self.error / error) / (size - self.size)
            needed = math.log(error / goal) / pace if pace > 0 else math.inf
        steps = max(1, int(needed / (2 * width))) if needed < math.inf else 1
        return Looks(size + steps * width, size, error, needed)


def _orthonormal_to(basis: Array, block: Array, enough: float = math.inf) -> Array:
    """Return orthonormal columns of a block that is orthogonal to a basis, but for rounding; they may be 0.

    They come from inner products, once more for the digits that the squares have lost: on the CPU from Cholesky factors
    if no column depends on others, or lies within the basis; else from eigenvectors. Once is enough if columns are
    longer than `enough`.
    """
    xp = namespace(basis)
    for again in (False, True):
        if again:
            block -= basis @ (basis.T @ block)
        found = qr_of_steep(block, FLAT) if device_of(block) == "cpu" else None
        if found is not None and not (again and found[1].diagonal().min() < LEFT):
            block, triangle = found
            if triangle.diagonal().min() > enough:
                break
            continue
        square, vectors = xp.linalg.eigh(block.T @ block)
        kept = square > (LEFT**2 if again else 1e-14 * square[-1])
        block = block @ (vectors * (kept / xp.where(kept, square, 1) ** 0.5))
    return block


def _ritz(basis: Array, images: Array, inner: Array, width: int) -> Eigen:
    """Find the best eigenvectors within a basis, from the inner products of the basis with its images."""
    values, inner = namespace(basis).linalg.eigh(inner)
    values, inner = values[::-1][:width], inner[:, ::-1][:, :width]
    vectors = basis @ inner
    return Eigen(values, vectors, ((images @ inner - vectors * values) ** 2).sum(0) ** 0.5)


def tracked(product: Callable[[Array], Array], start: Array, depth: int) -> Eigen:
    """Find what `converged` finds, from a start that is near: the block Krylov space always has `depth` blocks.

    Blocks become orthonormal by products, and nothing waits for a device.
    """
    xp, (n, width) = namespace(start), start.shape
    space, images = (xp.empty((depth * width, n), start.dtype).T for _ in "si")
    block = start
    for first in range(0, depth * width, width):
        if first:
            for _ in range(2):  # once more for the orthogonality that rounding took
                block -= space[:, :first] @ (space[:, :first].T @ block)
            block = orthonormal(block, 1)
        space[:, first : first + width], block = block, product(block)
        images[:, first : first + width] = block
    inner = space.T @ images
    return _ritz(space, images, (inner + inner.T) / 2, width)


class Triples(NamedTuple):
    """The leading part of X is u @ diag(sigma) @ v.T, sigma descending; `angle` says how far the last pass turned v."""

    u: Array
    sigma: Array
    v: Array
    angle: Array


def singular_triples(x: Array, start: Array, n_passes: int) -> Triples:
    """Iterate with X'X from the orthonormal columns of `start` (a block power iteration), orthonormal after each pass.

    Columns of `start` that are drawn at random make a direction show that earlier blocks missed.
    """
    xp, before = namespace(x), start
    for _ in range(n_passes - 1):
        before = orthonormal(dense.columns(x.T, dense.columns(x, before)), 1)
    u, _ = qr(dense.columns(x, before))
    v, inner = qr(dense.columns(x.T, u))
    left, sigma, right = xp.linalg.svd(inner)
    v, u = dense.turned(v, left), dense.turned(u, right.T)
    return Triples(u, sigma, v, ((v - before @ (before.T @ v)) ** 2).sum(0) ** 0.5)


def adapted(n_steps: int, error: float, low: float, most: int) -> int:
    """Return how many steps come next: 2 more than before if the error was above 1, 1 more near it, 1 less below `low`.

    An error of 0 says that there was no block iteration.
    """
    more = 2 if error > 1 else 1 if error > 0.3 else -1 if 0 < error < low else 0
    return min(max(n_steps + more, 1), most)
