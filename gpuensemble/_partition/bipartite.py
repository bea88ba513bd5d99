"""Spectral cuts of the graph that links samples and clusters work over a table in blocks; nothing is n x n.

The leading left singular vectors of D^-1/2 H E^1/2 come from the C x C matrix A = E^1/2 H' D^-1 H E^1/2, which is only
multiplied with. What a product sums over rows is rounded to whole multiples of one unit first, so that the sums are
exact, and the same for any blocks and on every device.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.devices import Array, namespace, to_device, to_host
from gpuensemble._array.threads import one_blas_thread, spans
from gpuensemble._kernels import products
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._kmeans.labels.statistics import CostTables, by_partition, confidence, evaluate
from gpuensemble._linear.krylov import Eigen, eigenvectors
from gpuensemble._tables.blocks import Block, Lasting, Table, whole
from gpuensemble._tables.counts import sizes
from gpuensemble.membership import Membership

CHUNK_ROWS = {"cpu": 1 << 15, "cuda": 1 << 18}  # rows embedded at a time: little memory, or few launches
SAMPLE_ROWS = 100_000  # rows at most that k-means sees, and that the eigenvectors come from at first
EXTRA = 8  # columns of a block beyond K: they speed up convergence
DEPTH = 12  # blocks of the Krylov space at most
TOLERANCE = 1e-3  # of the eigenvectors' residual, relative to the largest eigenvalue


class Graph(NamedTuple):
    """This is what is cut: the weights of A = E^1/2 H' D^-1 H E^1/2, and how long the embedded directions are."""

    columns: Any  # E, a weight for each cluster
    degrees: Any  # for each cluster: D of a row is the sum of these over its clusters
    most: float  # the sum of 1 / D over the rows of a cluster is no more
    power: float  # singular vectors count by their singular values to this power


def of_samples(table: Table, weight: Any = None) -> Graph:
    """Make the graph of samples with the affinities S = H diag(weight) H': SEC's, as normalised cuts see it."""
    weight = np.ones(table.n_columns) if weight is None else weight
    # The degree of a row of cluster c counts c itself, so that the sum of 1 / D over them is at most 1 / e_c.
    return Graph(weight, sizes(table) * weight, 1 / float(weight.min()), 0.0)


def of_samples_and_clusters(table: Table, weight: Any = None, damping: float = 0.0) -> Graph:
    """Make the bipartite graph that links each sample to its clusters, with the clusters' weights (Fern, Brodley 2004).

    Eigenvectors count by their eigenvalues to the power `damping`.
    """
    weight = np.ones(table.n_columns) if weight is None else weight
    count = np.maximum(sizes(table), 1)
    return Graph(weight / count, weight, float((count / weight).max()), 1 + 2 * damping)


@dataclass(eq=False)
class Degrees(Lasting):
    """This holds what each cluster adds to D of its rows."""

    of_column: Any  # C x 1


@dataclass(eq=False)
class Embedded(Lasting):
    """This labelling sends each row to the nearest of centres in the embedding.

    For a row g(x) = sum of the rows of `projection`, whose direction is embedded, |c|^2 - 2 g.c / |g| is least where
    |g| |c|^2 - 2 g.c is: the costs of `assign` with a weight |g|.
    """

    projection: Any  # C x K
    tables: CostTables

    def labels(self, block: Block, costs: Any = None) -> Array:
        """Find the labels of the rows of block.m."""
        found, *_ = evaluate(block.m, self.tables, self.lengths(block.m))
        return found

    def found(self, m: Membership) -> tuple[Array, Array]:
        """Find the label of each row, and its confidence: 1 - (squared distance to its centre) / (that to the next)."""
        lengths = self.lengths(m)
        labels, cost, second = evaluate(m, self.tables, lengths)
        safe = namespace(lengths).where(lengths > 0, lengths, 1)
        return labels, confidence(1 + cost / safe, 1 + second / safe).astype("float64", copy=False)

    @property
    def n_clusters(self) -> int:
        """Return K, or fewer where there are fewer distinct rows."""
        return self.tables.table.shape[1]

    def lengths(self, m: Membership) -> Array:
        """Return |g(x)| of each row, in the type of the tables."""
        table = to_device(self.projection, m.device)
        norms = [(products.gather_sum(m.take(rows), table) ** 2).sum(1) ** 0.5 for rows in _chunks(m)]
        return namespace(*norms).concatenate(norms).astype(self.tables.table.dtype, copy=False)


def cut(
    table: Table,
    graph: Graph,
    n_clusters: int,
    rng: Any,
    n_init: int = 10,
    dtype: str = "float64",
    n_vectors: int | None = None,
) -> Embedded:
    """Cut a graph by k-means on the directions of its embedded rows, of a sample of them where there are many.

    There are as many eigenvectors as clusters by default.
    """
    projection = embedding(table, graph, n_vectors or n_clusters, rng)
    sample, weight = _sample(table, rng)
    merged = sample.merge()
    if weight is None:
        weight = merged.multiplicity
    else:
        weight = Membership(merged.group[:, None], [len(merged.multiplicity)], device=table.device).sizes(weight)
    points = _directions(merged.membership, to_device(projection, table.device))
    with one_blas_thread():  # products of a few columns: more threads would only wait for each other
        fitted = features.kmeans(points, n_clusters, rng, sample_weight=weight.astype("float64"), n_init=n_init)
    centers = to_host(fitted.centers)
    tables = CostTables(-2 * projection @ centers.T, (centers**2).sum(1)[None])
    return Embedded(projection, CostTables(*(part.astype(dtype, copy=False) for part in tables)))


def _directions(m: Membership, projection: Array) -> Array:
    """Return the rows of the embedding, each of length 1; a factor of a row drops out."""
    points = products.gather_sum(m, projection)
    norm = (points**2).sum(1, keepdims=True) ** 0.5
    return points / namespace(norm).where(norm > 0, norm, 1)


def embedding(table: Table, graph: Graph, n_vectors: int, rng: Any) -> Any:
    """Make the C x K table on the host whose gathered rows, divided by D^1/2, are leading left singular vectors.

    It is E^1/2 V sigma^(power - 1), V the leading eigenvectors of A, and sigma^2 their eigenvalues.
    """
    with one_blas_thread():  # so that the number of threads changes no bit
        values, block, _ = leading(table, graph, n_vectors, rng)
    sigma = np.maximum(values, float(values[0]) * 1e-12) ** 0.5
    scaled = block / sigma if graph.power == 0 else block * sigma ** (graph.power - 1)
    return np.ascontiguousarray(graph.columns[:, None] ** 0.5 * scaled[:, :n_vectors])


def leading(table: Table, graph: Graph, n_vectors: int, rng: Any) -> Eigen:
    """Find leading eigenvectors of A, so many and a few that are less exact.

    Where there are many rows, the eigenvectors of a sample come first: near enough to save most of the passes over all
    rows.
    """
    root, degrees = graph.columns**0.5, Degrees(graph.degrees[:, None])

    def of_part(part: Table, block: Any) -> Eigen:
        def product(block: Any) -> Any:
            """Multiply A, or a part of A that comes from some of the rows, with a block."""
            given = np.ascontiguousarray(root[:, None] * block)
            largest = float(by_partition(np.abs(given), table.widths, "maximum").sum(0).max())
            unit = 2.0 ** (math.frexp(2 * largest * graph.most)[1] - 52)
            return root[:, None] * part.total(_product, degrees, given, unit)

        return eigenvectors(product, block, DEPTH, TOLERANCE, n_vectors)

    width = min(n_vectors + EXTRA, table.n_columns)
    block, _ = np.linalg.qr(rng.standard_normal((table.n_columns, width)))
    if table.n_rows > SAMPLE_ROWS:
        _, block, _ = of_part(whole(*_sample(table, rng)), block)
    return of_part(table, block)


def _sample(table: Table, rng: Any) -> tuple[Membership, Any]:
    """Draw at most SAMPLE_ROWS rows; return them and their weights, or None if all weights are 1."""
    n = table.n_rows
    rows = np.sort(rng.choice(n, SAMPLE_ROWS, replace=False)) if n > SAMPLE_ROWS else np.arange(n)
    return table.take(rows), None if table.weight is None else to_device(table.weight[rows], table.device)


def _product(block: Block, degrees: Degrees, given: Any, unit: float) -> Any:
    """Compute H' D^-1 H @ given for the rows of a block, on the host."""
    table = to_device(given, block.m.device)
    share = block.kept("shares", degrees.identity, lambda: _shares(block, degrees))
    magic = 1.5 * 2.0**52 * unit  # added and taken off again, it rounds to whole units
    total = 0
    for rows in _chunks(block.m):
        some = block.m.take(rows)
        gathered = products.gather_sum(some, table)
        gathered *= share[rows, None]
        gathered += magic
        gathered -= magic
        total = products.scatter_add(some, gathered) + total
    return to_host(total)


def _shares(block: Block, degrees: Degrees) -> Array:
    """Return multiplicity over D of each row."""
    found = block.m.gather_sum(degrees.of_column)[:, 0]
    return (1 if block.multiplicity is None else block.multiplicity) / namespace(found).where(found > 0, found, 1)


def _chunks(m: Membership) -> list[slice]:
    return spans(len(m.codes), CHUNK_ROWS["cpu" if m.device == "cpu" else "cuda"])
