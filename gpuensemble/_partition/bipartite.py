"""Spectral cuts of the graph that links samples and clusters work over a table in blocks; nothing is n x n.

The leading left singular vectors of D^-1/2 H E^1/2 come from the C x C matrix A = E^1/2 H' D^-1 H E^1/2, which is only
multiplied with. What a product sums over rows is rounded to whole multiples of one unit first, so that the sums are
exact, and the same for any blocks and on every device.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.devices import Array, device_of, namespace, on, to_device, to_host
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._kernels import products, seeding
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._kmeans.labels.statistics import CostTables, confidence, evaluate
from gpuensemble._linear.krylov import Eigen, converged
from gpuensemble._linear.orthonormal import qr
from gpuensemble._tables.blocks import Block, Lasting, Table, shared_on, whole
from gpuensemble._tables.counts import sizes
from gpuensemble.membership import Membership

SAMPLE_ROWS = 100_000  # rows at most that k-means sees where it finds the labels
STARTS, FEW_ROWS = 10, 50  # of k-means, where a cluster has fewer rows than that; else there is one
START_ROWS, START_ROWS_PER_CLUSTER = 20_000, 400  # where another method goes on from them, the larger of both
PART_ROWS, PART_SHARE = 10_000, 10  # rows, or so small a part of all, that the eigenvectors come from at first
PIVOT_ROWS, PIVOT_ROWS_PER_CLUSTER = 4096, 64  # rows that the first centres are chosen from, the larger of both
EXTRA, LANES = 4, 8  # columns of a block beyond K, which speed up convergence, and then to a multiple of LANES
POWERS = 4  # of A, which columns drawn at random are multiplied with before a Krylov space begins
DEPTH = 12  # blocks of the Krylov space at most
TOLERANCE = 2e-3  # of the residuals of eigenvectors, relative to the largest eigenvalue


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
class Columns(Lasting):
    """This holds columns that all blocks multiply with, and what rounds their products to whole units."""

    given: Array  # C x width
    magic: Array  # a number: added and taken off again, it rounds to whole units


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
        found, *_ = evaluate(block.m, self._tables_on(block.m.device), self.lengths(block.m))
        return found

    def found(self, m: Membership) -> tuple[Array, Array]:
        """Find the label of each row, and its confidence: 1 - (squared distance to its centre) / (that to the next)."""
        lengths = self.lengths(m)
        labels, cost, second = evaluate(m, self._tables_on(m.device), lengths)
        safe = namespace(lengths).where(lengths > 0, lengths, 1)
        return labels, confidence(1 + cost / safe, 1 + second / safe).astype("float64", copy=False)

    @property
    def n_clusters(self) -> int:
        """Return K, or fewer where there are fewer distinct rows."""
        return self.tables.table.shape[1]

    def lengths(self, m: Membership) -> Array:
        """Return |g(x)| of each row, in the type of the tables."""
        table = shared_on(m.device, self, lambda: to_device(self.projection, m.device), "projection")
        return products.gather_lengths(m, table).astype(self.tables.table.dtype, copy=False)

    def _tables_on(self, device: str) -> CostTables:
        return shared_on(device, self, lambda: CostTables(*(to_device(part, device) for part in self.tables)), "tables")


def cut(
    table: Table,
    graph: Graph,
    n_clusters: int,
    rng: Any,
    n_init: int | None = None,
    dtype: str = "float64",
    n_vectors: int | None = None,
    last: bool = False,
) -> Embedded:
    """Cut a graph by k-means on the directions of its embedded rows, of a sample of them where there are many.

    There are as many eigenvectors as clusters by default. The sample is larger if no other method comes after (`last`).
    By default there is one start of k-means, or STARTS of them where a cluster has few rows: there the first one
    often ends higher.
    """
    projection = _embedding(table, graph, n_vectors or n_clusters, rng)
    most = SAMPLE_ROWS if last else max(START_ROWS, START_ROWS_PER_CLUSTER * n_clusters)
    sample, weight = _sample(table, rng, most)
    merged = sample.merge()
    if weight is None:
        weight = merged.multiplicity
    else:
        weight = Membership(merged.group[:, None], [len(merged.multiplicity)], device=table.device).sizes(weight)
    points = products.gather_sum(merged.membership, projection)
    if n_init is None:
        n_init = STARTS if len(points) < FEW_ROWS * n_clusters else 1
    with one_blas_thread():  # products of a few columns: more threads would only wait for each other
        centers = _centers(points, n_clusters, rng, weight.astype("float64"), n_init)
        tables = CostTables(*map(to_host, (-2 * projection @ centers.T, (centers**2).sum(1)[None])))
    return Embedded(to_host(projection), CostTables(*(part.astype(dtype, copy=False) for part in tables)))


def _centers(points: Array, n_clusters: int, rng: Any, weight: Array, n_init: int) -> Array:
    """Cluster the directions of embedded rows by k-means; return the centres.

    Where there are as many vectors as clusters, the first start is from `_pivots`: it ends as low as the best of ten
    by k-means++, which the others are from.
    """
    directions = _directions(points)
    if points.shape[1] < n_clusters:
        return features.kmeans(directions, n_clusters, rng, sample_weight=weight, n_init=n_init).centers
    first = directions[_pivots(points, n_clusters, rng, weight)]
    best = features.kmeans(directions, n_clusters, rng, sample_weight=weight, init=first)
    if n_init > 1:
        found = features.kmeans(directions, n_clusters, rng, sample_weight=weight, n_init=n_init - 1)
        # two starts often end in the same clusters: rounding must not choose between them
        best = found if found.objective < (1 - 1e-12) * best.objective else best
    return best.centers


def _directions(points: Array) -> Array:
    """Return embedded rows at length 1; a factor of a row drops out."""
    lengths = (points**2).sum(1, keepdims=True) ** 0.5
    return points / namespace(lengths).where(lengths > 0, lengths, 1)


def _pivots(points: Array, n_clusters: int, rng: Any, weight: Array) -> Array:
    """Choose rows, each the longest beyond the span of those before it: QR with pivoting (Damle, Minden, Ying 2019)."""
    most = max(PIVOT_ROWS, PIVOT_ROWS_PER_CLUSTER * n_clusters)
    some = to_device(rng.choice(len(points), most, replace=False), device_of(points)) if len(points) > most else None
    x = (points if some is None else points[some]) * (weight if some is None else weight[some])[:, None] ** 0.5
    rows, _ = seeding.twin(x).pivots(x, n_clusters)
    return rows if some is None else some[rows]


def embedding(table: Table, graph: Graph, n_vectors: int, rng: Any) -> Any:
    """Make the C x K table on the host whose gathered rows, divided by D^1/2, are leading left singular vectors.

    It is E^1/2 V sigma^(power - 1), V the leading eigenvectors of A, and sigma^2 their eigenvalues.
    """
    return to_host(_embedding(table, graph, n_vectors, rng))


def _embedding(table: Table, graph: Graph, n_vectors: int, rng: Any) -> Array:
    """Make what `embedding` gives, on the device of the table."""
    with one_blas_thread(), on(table.device):  # so that the number of threads changes no bit
        values, block, _ = _leading(table, graph, n_vectors, rng)
        xp = namespace(values)
        sigma = xp.maximum(values, values[0] * 1e-12) ** 0.5
        scaled = block / sigma if graph.power == 0 else block * sigma ** (graph.power - 1)
        root = to_device(graph.columns[:, None] ** 0.5, table.device)
        return xp.ascontiguousarray(root * scaled[:, :n_vectors])


def leading(table: Table, graph: Graph, n_vectors: int, rng: Any) -> Eigen:
    """Find leading eigenvectors of A, so many and a few that are less exact; they are on the host."""
    with one_blas_thread(), on(table.device):
        return Eigen(*map(to_host, _leading(table, graph, n_vectors, rng)))


def _leading(table: Table, graph: Graph, n_vectors: int, rng: Any) -> Eigen:
    """Find what `leading` gives, on the device of the table.

    A Krylov space of columns at random takes them in as they are, and gains little by it: that of a power of A times
    them finds as much with about as many products, and is less than half as wide. Where there are many rows, the
    eigenvectors of a part of them come first: near enough to save most of the passes over all rows.
    """
    root = to_device(graph.columns[:, None] ** 0.5, table.device)
    degrees, r = Degrees(graph.degrees[:, None].astype("float64")), len(table.widths)
    width = min(-(-(n_vectors + EXTRA) // LANES) * LANES, table.n_columns)
    drawn = to_device(rng.random((table.n_columns, width)) - 0.5, table.device)

    def of_part(part: Table, start: Array | None = None) -> Eigen:
        def product(block: Array) -> Array:
            """Multiply A, or a part of A that comes from some of the rows, with a block."""
            given = namespace(block).ascontiguousarray(root * block)
            found = part.total(_product, degrees, Columns(given, _rounding(abs(given).max() * (2 * r * graph.most))))
            return root * to_device(found, table.device)

        if start is None:
            start = drawn
            for _ in range(POWERS):
                start = product(start)
            start, _ = qr(start)
        return converged(product, start, DEPTH, TOLERANCE, n_vectors, 2)

    n = max(PART_ROWS, min(table.n_rows // PART_SHARE, SAMPLE_ROWS))
    if table.n_rows >= 4 * n:
        return of_part(table, of_part(whole(*_sample(table, rng, n))).vectors)
    return of_part(table)


def _rounding(largest: Array) -> Array:
    """Return what rounds numbers, whose sums are no larger than this, to whole units that add up exactly."""
    xp = namespace(largest)
    return xp.ldexp(largest * 0 + 1.5, xp.frexp(largest)[1])


def _sample(table: Table, rng: Any, most: int) -> tuple[Membership, Any]:
    """Draw at most so many rows; return them and their weights, or None if all weights are 1."""
    n = table.n_rows
    rows = np.sort(rng.choice(n, most, replace=False)) if n > most else np.arange(n)
    return table.take(rows), None if table.weight is None else to_device(table.weight[rows], table.device)


def _product(block: Block, degrees: Degrees, columns: Columns) -> Array:
    """Compute H' D^-1 H times the columns, for the rows of a block."""
    device = block.m.device
    given, magic = shared_on(device, columns, lambda: _moved(columns, device))
    share = block.kept("shares", degrees.identity, lambda: _shares(block, degrees))
    return products.gather_scatter(block.m, given, share, magic)


def _moved(columns: Columns, device: str) -> tuple[Array, Array]:
    return to_device(columns.given, device), to_device(columns.magic, device)


def _shares(block: Block, degrees: Degrees) -> Array:
    """Return multiplicity over D of each row."""
    device = block.m.device
    table = shared_on(device, degrees, lambda: to_device(degrees.of_column, device))
    found = products.gather_sum(block.m, table)[:, 0]
    return (1 if block.multiplicity is None else block.multiplicity) / namespace(found).where(found > 0, found, 1)
