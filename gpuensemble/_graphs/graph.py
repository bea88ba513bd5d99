"""An undirected graph has integer weights: sums of them are the same in any order, and so on every device."""

import math
from typing import Any, NamedTuple

from gpuensemble._array import checks, csr
from gpuensemble._array.csr import Csr
from gpuensemble._array.devices import Array, choose_device, device_of, namespace, on

UNITS = 1 << 20  # the largest of weights that are not integers becomes so many units
EXACT = 2.0**53  # below it float64 has every whole number


class Graph(NamedTuple):
    """A graph is a symmetric matrix by rows; an edge of a node to itself is on the diagonal, with both of its ends."""

    indptr: Array  # int64
    indices: Array  # int32
    weights: Array  # int64, more than 0

    @property
    def n_nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.indptr) - 1

    def rows(self) -> Array:
        """Return the row of each entry."""
        shape = (self.n_nodes, self.n_nodes)
        return Csr(self.weights, self.indices, self.indptr, shape).rows()

    def degrees(self) -> Array:
        """Return the row sums, float64 numbers that are whole."""
        return namespace(self.indptr).bincount(self.rows(), self.weights, self.n_nodes)


def of_neighbors(indices: Array, q: int) -> Graph:
    """Join each row with its q nearest; a pair that chose each other has weight 2, one where one chose has 1."""
    xp = namespace(indices)
    n = len(indices)
    i = xp.repeat(xp.arange(n), q)
    j = indices[:, :q].ravel().astype("int64")
    keys, weights = xp.unique(xp.concatenate([i * n + j, j * n + i]), return_counts=True)
    return by_rows(keys, weights, n)


def with_edges(graph: Graph, i: Array, j: Array, weights: Array) -> Graph:
    """Add edges between nodes i and j; weights of an edge that is there add up."""
    xp = namespace(i)
    n = graph.n_nodes
    keys = xp.concatenate([graph.rows().astype("int64") * n + graph.indices, i * n + j, j * n + i])
    keys, which = xp.unique(keys, return_inverse=True)
    return by_rows(keys, xp.bincount(which, xp.concatenate([graph.weights, weights, weights])), n)


def by_rows(keys: Array, weights: Array, n: int) -> Graph:
    """Make the graph of entries with keys row * n + column in ascending order."""
    xp = namespace(keys)
    indptr = xp.searchsorted(keys, xp.arange(n + 1) * n)
    return Graph(indptr, (keys % n).astype("int32"), weights.astype("int64", copy=False))


def checked(value: Any, device: str) -> tuple[Csr, str, str]:
    """Check the symmetric matrix `graph`; return it by rows on the device, the device, and that of the caller."""
    entries = csr.entries(value)
    device, home = choose_device(device, entries), device_of(entries)
    with on(device):
        matrix = csr.matrix(value, "graph", device)
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"`graph` must be a square matrix, got shape {tuple(matrix.shape)}.")
        matrix = matrix if isinstance(matrix, Csr) else _sparse(matrix)
        if len(matrix.data):
            checks.not_negative(matrix.data, "graph")
        refuse_lopsided(matrix, "graph")
        return matrix, device, home


def _sparse(matrix: Array) -> Csr:
    """Turn a dense matrix into one by rows."""
    xp = namespace(matrix)
    row, column = xp.nonzero(matrix)
    return Csr(matrix[row, column], column, xp.searchsorted(row, xp.arange(len(matrix) + 1)), matrix.shape)


def of_matrix(matrix: Csr) -> Graph:
    """Read a symmetric matrix of weights of at least 0.

    Those that are not all whole, or whose sums are not exact in float64, are rounded to units of 2**k.
    """
    xp = namespace(matrix.data)
    weights, n = matrix.data, matrix.shape[0]
    if bool((weights != xp.rint(weights)).any() | (weights.sum(dtype="float64") >= EXACT)):
        scale = 2.0 ** (math.frexp(UNITS / float(weights.max()))[1] - 1)
        weights = xp.rint(weights * scale)
    kept = xp.nonzero(weights > 0)[0]
    keys = matrix.rows()[kept].astype("int64") * n + matrix.indices[kept]
    order = xp.argsort(keys)
    return by_rows(keys[order], weights[kept][order], n)


def refuse_lopsided(matrix: Csr, name: str) -> None:
    """Raise if a matrix is not symmetric."""
    xp = namespace(matrix.data)
    n, rows = matrix.shape[0], matrix.rows().astype("int64")
    here, there = rows * n + matrix.indices, matrix.indices.astype("int64") * n + rows
    kept = xp.nonzero(matrix.data != 0)[0]
    here, there, values = here[kept], there[kept], matrix.data[kept]
    one, other = xp.argsort(here), xp.argsort(there)
    bad = (here[one] != there[other]) | (values[one] != values[other])
    if bool(bad.any()):
        place = divmod(int(here[one][int(bad.argmax())]), n)
        raise ValueError(f"`{name}` must be symmetric, got another weight across from {place}.")


def modularity(graph: Graph, labels: Array, resolution: Any) -> float:
    """Return the share of the weight inside of communities, less `resolution` times what chance would put there."""
    xp = namespace(labels)
    total = float(graph.weights.sum())
    inside = float(graph.weights[labels[graph.rows()] == labels[graph.indices]].sum())
    volume = xp.bincount(labels, graph.degrees())
    return inside / total - resolution * float(((volume / total) ** 2).sum())
