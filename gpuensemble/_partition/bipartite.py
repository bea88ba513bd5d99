"""Spectral clustering of S = H E H' (E: weights of the columns) without S, over a table in blocks.

The leading left singular vectors of D^-1/2 H E^1/2 come from the C x C matrix A = E^1/2 H' D^-1 H E^1/2, which is only
multiplied with. What a product sums over rows is rounded to whole multiples of one unit first, so that the sums are
exact, and the same for any blocks and on every device.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuensemble._array.devices import Array, namespace, to_device, to_host
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._kernels import products
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._kmeans.labels.bounds import Tables, by_partition, evaluate
from gpuensemble._kmeans.labels.costs import sizes
from gpuensemble._kmeans.labels.lloyd import NUMBERS
from gpuensemble._linear.krylov import Eigen, eigenvectors
from gpuensemble._tables.blocks import Block, Table, whole
from gpuensemble.membership import Membership

CHUNK_ROWS = {"cpu": 1 << 15, "cuda": 1 << 18}  # rows embedded at a time: little memory, or few launches
SAMPLE_ROWS = 100_000  # rows at most that k-means sees, and that the eigenvectors come from at first
EXTRA = 8  # columns of a block beyond K: they speed up convergence
DEPTH = 12  # blocks of the Krylov space at most
TOLERANCE = 1e-3  # of the eigenvectors' residual, relative to the largest eigenvalue


@dataclass(frozen=True)
class Embedded:
    """The nearest of centres in the embedding: a recipe of labels.

    For a row g(x) = sum of the rows of `projection`, whose direction is embedded, |c|^2 - 2 g.c / |g| is least where
    |g| |c|^2 - 2 g.c is: the costs of `assign` with a weight |g|.
    """

    projection: Any
    tables: Tables
    number: int = field(default_factory=NUMBERS.__next__)

    def labels(self, block: Block, costs: Any = None) -> Array:
        """Those of the block."""
        table = to_device(self.projection, block.m.device)
        norms = [
            (products.gather_sum(chunk, table) ** 2).sum(1) ** 0.5
            for chunk in (block.m.take(rows) for rows in _chunks(block))
        ]
        found, *_ = evaluate(block.m, self.tables, namespace(*norms).concatenate(norms))
        return found


def start(table: Table, n_clusters: int, rng: Any, column_weight: Any = None) -> Embedded:
    """Labels by k-means on the normalised rows of the spectral embedding, of a sample of them where there are many."""
    projection = vectors(table, n_clusters, rng, column_weight)
    sample, weight = _sample(table, rng)
    merged = sample.merge()
    if weight is None:
        weight = merged.multiplicity
    else:
        weight = Membership(merged.group[:, None], [len(merged.multiplicity)], device=table.device).sizes(weight)
    points = _directions(merged.membership, to_device(projection, table.device))
    with one_blas_thread():  # products of a few columns: more threads would only wait for each other
        fitted = features.kmeans(points, n_clusters, rng, sample_weight=weight.astype("float64"), n_init=10)
    centers = to_host(fitted.centers)
    return Embedded(projection, Tables(-2 * projection @ centers.T, (centers**2).sum(1)[None]))


def _directions(m: Membership, projection: Array) -> Array:
    """The rows of the embedding, each of length 1; their common factor w(x)^-1/2 drops out."""
    points = products.gather_sum(m, projection)
    norm = (points**2).sum(1, keepdims=True) ** 0.5
    return points / namespace(norm).where(norm > 0, norm, 1)


def vectors(table: Table, n_clusters: int, rng: Any, column_weight: Any = None) -> Any:
    """E^1/2 V / sigma: the table whose gathered rows are the embedding, on the host; V are K leading eigenvectors of A.

    Where there are many rows, those of a sample come first: near enough to save most of the passes over all rows.
    """
    weight = np.ones(table.n_columns) if column_weight is None else column_weight
    root, degrees = weight**0.5, (sizes(table) * weight)[:, None]

    def leading(part: Table, block: Any) -> Eigen:
        number = next(NUMBERS)

        def product(block: Any) -> Any:
            """A @ block, or a part of A, which comes from some of the rows."""
            given = np.ascontiguousarray(root[:, None] * block)
            # The sum over the rows of cluster c of 1 / degree is at most 1 / e_c, since the degree counts c itself.
            bound = 2 * float(by_partition(np.abs(given), table.widths, "maximum").sum(0).max()) / float(weight.min())
            unit = 2.0 ** (math.frexp(bound)[1] - 52)
            return root[:, None] * part.total(_product, number, degrees, given, unit)

        return eigenvectors(product, block, DEPTH, TOLERANCE, n_clusters)

    with one_blas_thread():  # so that the number of threads changes no bit
        width = min(n_clusters + EXTRA, table.n_columns)
        block, _ = np.linalg.qr(rng.standard_normal((table.n_columns, width)))
        if table.n_rows > SAMPLE_ROWS:
            _, block, _ = leading(whole(*_sample(table, rng)), block)
        values, block, _ = leading(table, block)
    sigma = np.maximum(values, float(values[0]) * 1e-12) ** 0.5
    return np.ascontiguousarray(root[:, None] * (block / sigma)[:, :n_clusters])


def _sample(table: Table, rng: Any) -> tuple[Membership, Any]:
    """At most SAMPLE_ROWS rows, and their weights; None: all 1."""
    n = table.n_rows
    rows = np.sort(rng.choice(n, SAMPLE_ROWS, replace=False)) if n > SAMPLE_ROWS else np.arange(n)
    return table.take(rows), None if table.weight is None else to_device(table.weight[rows], table.device)


def _product(block: Block, number: int, degrees: Any, given: Any, unit: float) -> Any:
    """H' D^-1 H @ given for the rows of a block, on the host."""
    table = to_device(given, block.m.device)
    share = block.kept(("share", number), lambda: _share(block, degrees))
    magic = 1.5 * 2.0**52 * unit  # added and taken off again, it rounds to whole units
    total = 0
    for rows in _chunks(block):
        some = block.m.take(rows)
        gathered = products.gather_sum(some, table)
        gathered *= share[rows, None]
        gathered += magic
        gathered -= magic
        total = products.scatter_add(some, gathered) + total
    return to_host(total)


def _share(block: Block, degrees: Any) -> Array:
    """Multiplicity over degree of each row."""
    found = block.m.gather_sum(degrees)[:, 0]
    return (1 if block.multiplicity is None else block.multiplicity) / namespace(found).where(found > 0, found, 1)


def _chunks(block: Block) -> list[slice]:
    size = CHUNK_ROWS["cpu" if block.m.device == "cpu" else "cuda"]
    return [slice(first, first + size) for first in range(0, len(block.m.codes), size)]
