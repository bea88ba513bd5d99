"""Orthonormal columns come from Cholesky factors of Gram matrices: by products, not by the many steps of a QR.

A Gram matrix is made in float64, and has a shift of the size of its rounding, so that the factor always exists. Nothing
waits for a device.
"""

from scipy import linalg

from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._linear.dense import turned

EPS = 2.0**-52
STEEP = 0.5  # what a column has beside those before it, relative to its length, and squares lose no digit that counts


def orthonormal(x: Array, n_passes: int = 2) -> Array:
    """Return columns that are orthonormal and span what those of `x`, n x w, span; the first j span the first j.

    A column that depends on those before it becomes 0; in float32 those after it may lose a direction by it. A pass
    leaves a deviation of about 1e-15 (w + 64) times the square of the condition of the columns, scaled to length 1; the
    second one takes that away.
    """
    xp = namespace(x)
    shift = 6 * EPS * (x.shape[1] + 64)  # more than rounding takes off an eigenvalue, of 200,000 rows, too
    for _ in range(n_passes):
        gram, scale = _scaled_gram(x)
        factor = xp.linalg.cholesky(gram + shift * xp.eye(len(gram)))
        scale = scale * (1 + shift) ** 0.5  # what was orthonormal stays as it is
        kept = scale[:, None] * xp.linalg.inv(factor).T * (xp.diagonal(factor) > 2 * shift**0.5)
        x = turned(x, kept.astype(x.dtype, copy=False))
    return x


def _scaled_gram(x: Array) -> tuple[Array, Array]:
    """Return the Gram matrix of columns that are scaled to length 1, and the scale."""
    xp, wide = namespace(x), x.astype("float64", copy=False)
    gram = wide.T @ wide
    squares = xp.diagonal(gram)
    scale = xp.where(squares > 0, squares, 1) ** -0.5
    return gram * scale * scale[:, None], scale


def qr(x: Array) -> tuple[Array, Array]:
    """Return x = Q R: a column of Q that `x` has nothing for is any that is orthogonal to the others."""
    if device_of(x) != "cpu":
        return namespace(x).linalg.qr(x)
    found = qr_of_steep(x)
    return linalg.qr(x, mode="economic", check_finite=False) if found is None else found  # faster than NumPy's


def qr_of_steep(x: Array, least: float = STEEP) -> tuple[Array, Array] | None:
    """Return x = Q R by squares, faster than LAPACK, if no column leans far to those before it; else None.

    It is for the CPU. The columns of Q are orthonormal but for about 1e-15 / `least` squared.
    """
    gram, scale = _scaled_gram(x)
    factor, fault = linalg.lapack.dpotrf(gram, lower=True, clean=True)
    if fault or not factor.diagonal().min(initial=1) > least:
        return None
    turn, lengths = scale[:, None] * linalg.lapack.dtrtri(factor, lower=True)[0].T, 1 / scale
    return turned(x, turn.astype(x.dtype, copy=False)), (factor.T * lengths).astype(x.dtype, copy=False)


def joined(basis: Array, more: Array) -> Array:
    """Put further columns, few and drawn at random, beside an orthonormal basis: all are orthonormal.

    They lie in memory one after the other, as products with them are faster then (`dense.product`).
    """
    xp = namespace(basis)
    for _ in range(2):  # once more for the orthogonality that rounding took
        more = more - basis @ (basis.T @ more)
    return xp.concatenate([basis.T, qr(more)[0].T]).T
