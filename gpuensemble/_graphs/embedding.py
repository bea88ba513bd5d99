"""The leading eigenvectors of D^-1/2 A D^-1/2 of a graph come from products with it alone."""

from collections.abc import Callable
from typing import Any

from scipy.sparse import csr_array

from gpuensemble._array.devices import Array, device_of, namespace, to_device
from gpuensemble._graphs.graph import Graph

DEGREE = 16  # of the polynomials that filter a block
ITERATIONS = 30  # at most
TOLERANCE = 1e-3  # of the eigenvectors' residuals; the largest eigenvalue is 1
UNIT = 2.0**-44  # entries of what is multiplied are rounded to whole multiples of this: their sums are exact


def embedded(graph: Graph, n_vectors: int, rng: Any) -> Array:
    """Return the eigenvectors of the largest eigenvalues, but the first, divided by D^1/2: n x n_vectors.

    A block of columns is filtered by polynomials that are large on the wanted part of the spectrum alone, made
    orthonormal, and turned to its Ritz vectors, until residuals are small (Zhou, Saad, Tiago, Chelikowsky, Journal of
    Computational Physics, 2006).
    """
    xp = namespace(graph.indptr)
    n, degrees = graph.n_nodes, graph.degrees()
    scale = xp.where(degrees > 0, xp.where(degrees > 0, degrees, 1) ** -0.5, 0)
    product = _product(graph, scale)
    wanted = min(n, n_vectors + 1)
    width = min(n, wanted + wanted // 4 + 8)  # more columns than wanted speed up convergence
    block, _ = xp.linalg.qr(to_device(rng.standard_normal((n, width)), device_of(scale)))
    end = 0.0  # of the part of the spectrum that is not wanted, as far as is known
    for _ in range(ITERATIONS):
        block, _ = xp.linalg.qr(_filtered(product, block, end))
        image = product(block)
        values, turn = xp.linalg.eigh(block.T @ image)
        turn = turn[:, ::-1]
        block, image = block @ turn, image @ turn
        residual = (((image - block * values[::-1]) ** 2).sum(0) ** 0.5)[:wanted].max()
        end = min(max(float(values[0]), end), 0.999)
        if float(residual) <= TOLERANCE:
            break
    return xp.ascontiguousarray(block[:, 1:wanted] * scale[:, None])


def _filtered(product: Callable[[Array], Array], block: Array, end: float) -> Array:
    """Multiply a block by Chebyshev's polynomial of the matrix, at most 1 in size on -1 .. end, scaled to 1 at 1."""
    half, centre = (1 + end) / 2, (end - 1) / 2
    ratio = first = half / (1 - centre)
    before, block = block, (product(block) - centre * block) * (ratio / half)
    for _ in range(DEGREE - 1):
        after = 1 / (2 / first - ratio)
        before, block = block, (product(block) - centre * block) * (2 * after / half) - (ratio * after) * before
        ratio = after
    return block


def _product(graph: Graph, scale: Array) -> Callable[[Array], Array]:
    """Return the product of D^-1/2 A D^-1/2 with a block of columns."""
    xp = namespace(scale)
    n = graph.n_nodes
    magic = 1.5 * 2.0**52 * UNIT  # added and taken off again, it rounds to whole units
    if device_of(scale) == "cpu":
        matrix = csr_array((graph.weights.astype("float64"), graph.indices, graph.indptr), shape=(n, n))
        return lambda block: scale[:, None] * (matrix @ (scale[:, None] * block + magic - magic))
    rows = graph.rows()

    def product(block: Array) -> Array:
        given = scale[:, None] * block + magic - magic
        columns = (xp.bincount(rows, graph.weights * column[graph.indices], n) for column in given.T)
        return scale[:, None] * xp.stack(list(columns), axis=1)

    return product
