"""Spectral clustering: of S = H E H' (E: weights of the columns) without S, and of a dense affinity.

Without S: the leading left singular vectors of D^-1/2 H E^1/2 come from the C x C matrix A = E^1/2 H' D^-1 H E^1/2,
which is only multiplied with; rows go through in blocks, so that nothing of size n x K is held.
"""

from typing import Any

from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

from gpuensemble import features
from gpuensemble._array import Array, device_of, namespace, to_device
from gpuensemble.membership import Membership

BLOCK_ROWS = 1 << 18  # rows embedded at a time
SAMPLE_ROWS = 100_000  # rows at most that k-means sees
EXTRA = 8  # columns of a block beyond K: they speed up convergence
DEPTH = 12  # blocks of the Krylov space at most
TOLERANCE = 1e-5  # of the eigenvectors' residual, relative to the largest eigenvalue


def labels(
    m: Membership, n_clusters: int, rng: Any, multiplicity: Array | None = None, column_weight: Any = None
) -> Array:
    """Labels by k-means on the normalised rows of the spectral embedding."""
    xp = namespace(m.codes)
    table = vectors(m, n_clusters, rng, multiplicity, column_weight)
    n = len(m.codes)
    rows = xp.asarray(rng.choice(n, SAMPLE_ROWS, replace=False)) if n > SAMPLE_ROWS else xp.arange(n)
    weight = None if multiplicity is None else multiplicity[rows].astype("float64")
    with threadpool_limits(1, "blas"):  # products of a few columns: more threads would only wait for each other
        fitted = features.kmeans(embedded(m.take(rows), table), n_clusters, rng, sample_weight=weight, n_init=10)
    centers = fitted.centers
    out = xp.empty(n, "int32")
    for first in range(0, n, BLOCK_ROWS):
        points = embedded(_rows(m, first), table)
        score = (centers**2).sum(1) - 2 * points @ centers.T
        out[first : first + BLOCK_ROWS] = score.argmin(1)
    return out


def embedded(m: Membership, table: Array) -> Array:
    """The rows of the embedding, each of length 1; their common factor w(x)^-1/2 drops out."""
    points = m._kernels.gather_sum(m, table)
    norm = (points**2).sum(1, keepdims=True) ** 0.5
    return points / namespace(norm).where(norm > 0, norm, 1)


def affinity_labels(affinity: Array, n_clusters: int, rng: Any) -> Array:
    """Labels from a symmetric n x n affinity A, not negative, which is overwritten.

    k-means on the normalised rows of the K leading eigenvectors of D^-1/2 A D^-1/2 (Ng, Jordan, Weiss 2002). A row
    sum that is not positive counts as infinite. Clusters are numbered by first occurrence.
    """
    xp = namespace(affinity)
    degrees = affinity.sum(1)
    scale = xp.where(degrees > 0, xp.where(degrees > 0, degrees, 1) ** -0.5, 0)
    affinity *= scale
    affinity *= scale[:, None]
    _, points = leading(affinity, n_clusters)
    norm = (points**2).sum(1, keepdims=True) ** 0.5
    points = points / xp.where(norm > 0, norm, 1)
    return point_labels(points, n_clusters, rng)


def point_labels(points: Array, n_clusters: int, rng: Any) -> Array:
    """Labels by the best of ten k-means runs, numbered by first occurrence: rounding must not choose the numbers."""
    xp = namespace(points)
    with threadpool_limits(1, "blas"):
        labels = features.kmeans(xp.ascontiguousarray(points), n_clusters, rng, n_init=10).labels
    _, first, labels = xp.unique(labels, return_index=True, return_inverse=True)
    return xp.argsort(xp.argsort(first))[labels].astype("int32")


def leading(matrix: Array, k: int) -> tuple[Array, Array]:
    """The k largest eigenvalues of a symmetric matrix, descending, and their eigenvectors; the matrix is overwritten.

    LAPACK finds the asked ones only, in half the time at k = n / 10; cuSOLVER, as CuPy has it, finds all.
    """
    xp = namespace(matrix)
    if device_of(matrix) == "cpu":
        n = len(matrix)
        values, found = eigh(matrix.T, subset_by_index=[n - k, n - 1], overwrite_a=True, check_finite=False)
    else:
        values, found = xp.linalg.eigh(matrix)
    values, found = values[::-1][:k], found[:, ::-1][:, :k]
    return values, found if k == len(matrix) else found.copy()  # a view would hold all of them


def vectors(m: Membership, n_clusters: int, rng: Any, multiplicity: Array | None, column_weight: Any) -> Array:
    """E^1/2 V / sigma: the table whose gathered rows are the embedding, from a block Krylov space of A.

    V are the K leading eigenvectors of A; the space grows by a block of K + EXTRA products at a time until their
    residual is small.
    """
    xp = namespace(m.codes)
    root, share = _scaling(m, multiplicity, column_weight)
    width = min(n_clusters + EXTRA, m.n_columns)
    block, _ = xp.linalg.qr(to_device(rng.standard_normal((m.n_columns, width)), m.device))
    basis, images = block, _product(m, root, share, block)
    while True:
        values, inner = xp.linalg.eigh(basis.T @ images)
        values, inner = values[::-1][:n_clusters], inner[:, ::-1][:, :n_clusters]
        residual = float(((images @ inner - basis @ inner * values) ** 2).sum(0).max()) ** 0.5
        full = basis.shape[1] + width > min(m.n_columns, DEPTH * width)
        if full or residual <= TOLERANCE * float(values[0]):
            break
        block = images[:, -width:]
        for _ in range(2):  # once more for the orthogonality that rounding took
            block = block - basis @ (basis.T @ block)
            block, _ = xp.linalg.qr(block)
        basis = xp.concatenate([basis, block], axis=1)
        images = xp.concatenate([images, _product(m, root, share, block)], axis=1)
    sigma = xp.maximum(values, float(values[0]) * 1e-12) ** 0.5
    return xp.ascontiguousarray(root[:, None] * (basis @ inner) / sigma)


def _scaling(m: Membership, multiplicity: Array | None, column_weight: Any) -> tuple[Array, Array]:
    """E^1/2, and multiplicity over degree of each row."""
    xp = namespace(m.codes)
    sizes = m.sizes(multiplicity).astype("float64")
    weight = xp.ones(m.n_columns) if column_weight is None else to_device(column_weight, m.device)
    degrees = m._kernels.gather_sum(m, (sizes * weight)[:, None])[:, 0]
    share = (1 if multiplicity is None else multiplicity) / xp.where(degrees > 0, degrees, 1)
    return weight**0.5, share


def _product(m: Membership, root: Array, share: Array, block: Array) -> Array:
    """A @ block."""
    table = namespace(block).ascontiguousarray(root[:, None] * block)
    total = 0
    for first in range(0, len(m.codes), BLOCK_ROWS):
        some = _rows(m, first)
        gathered = some._kernels.gather_sum(some, table) * share[first : first + BLOCK_ROWS, None]
        total = some._kernels.scatter_add(some, gathered, some._segment_rows(block.shape[1])) + total
    return root[:, None] * total


def _rows(m: Membership, first: int) -> Membership:
    """A block of rows: a view, not a copy."""
    return m if len(m.codes) <= BLOCK_ROWS else m.take(slice(first, first + BLOCK_ROWS))
