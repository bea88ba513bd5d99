"""LAPACK, cuSOLVER or a few products find the eigenvectors of dense symmetric matrices."""

from scipy.linalg import eigh

from gpuensemble._array.devices import Array, device_of, namespace, to_device
from gpuensemble._array.random import generators
from gpuensemble._linear import dense
from gpuensemble._linear.krylov import converged
from gpuensemble._linear.orthonormal import qr

EXTRA, LANES = 6, 8  # columns of a block beyond those asked for, which speed up convergence; to a multiple of LANES
SHARE = 32  # a block is this small a part of a matrix, at most: else LAPACK takes about as long
DEPTH = 16  # blocks of a Krylov space at most
PATIENCE = 2  # times the blocks that are left, by which it may seem to need more: it mostly speeds up
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}  # of residuals, relative to the largest eigenvalue


def leading_by_products(matrix: Array, k: int) -> tuple[Array, Array]:
    """Return what `leading` does, but for `TOLERANCE`, in the time of some products where k is a small part of n.

    The block Krylov space begins with columns that are always the same. Where it does not reach far enough, and where
    fewer than k eigenvalues are above 0, whose vectors all lie in such a space, `leading` finds all of it.
    """
    n, dtype, width = len(matrix), matrix.dtype.name, -(-(k + EXTRA) // LANES) * LANES
    if SHARE * width > n:
        return leading(matrix, k)

    def product(block: Array) -> Array:
        return dense.columns(matrix, block.astype(dtype, copy=False)).astype("float64", copy=False)

    (rng,) = generators(0, 1)
    start, _ = qr(to_device(rng.standard_normal((n, width)), device_of(matrix)))
    found = converged(product, start, DEPTH, TOLERANCE[dtype], k, begin=4, patience=PATIENCE)
    allowed = TOLERANCE[dtype] * float(found.values[0])
    if float(found.residual[:k].max()) > allowed or float(found.values[k - 1]) <= allowed:
        return leading(matrix, k)
    return found.values[:k].astype(dtype), found.vectors[:, :k].astype(dtype)


def leading(matrix: Array, k: int) -> tuple[Array, Array]:
    """Return the k largest eigenvalues of a symmetric matrix, descending, and their eigenvectors.

    On the CPU the matrix is overwritten. LAPACK finds the asked ones only, in half the time at k = n / 10; cuSOLVER, as
    CuPy has it, finds all.
    """
    xp = namespace(matrix)
    if device_of(matrix) == "cpu":
        n = len(matrix)
        values, found = eigh(matrix.T, subset_by_index=[n - k, n - 1], overwrite_a=True, check_finite=False)
    else:
        values, found = xp.linalg.eigh(matrix)
    values, found = values[::-1][:k], found[:, ::-1][:, :k]
    return values, found if k == len(matrix) else found.copy()  # a view would hold all of them


def whole(matrix: Array) -> tuple[Array, Array]:
    """Return all eigenvalues of a symmetric matrix, ascending, and the eigenvectors.

    On the CPU it asks SciPy, as NumPy would turn float32 into float64."""
    if device_of(matrix) == "cpu":
        return eigh(matrix, driver="evd", check_finite=False)
    return namespace(matrix).linalg.eigh(matrix)
