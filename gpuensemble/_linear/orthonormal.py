"""Orthonormal columns come from Cholesky factors of Gram matrices: by products, not by the many steps of a QR.

A Gram matrix is made in float64, and has a shift of the size of its rounding, so that the factor always exists. Nothing
waits for a device.
"""

from scipy import linalg

from gpuensemble._array.devices import Array, device_of, namespace

EPS = 2.0**-52
LEAST = 1e-6  # what a column has beside those before it, relative to its length, or it is left out


def orthonormal(x: Array, n_passes: int = 2) -> Array:
    """Return columns that are orthonormal and span what those of `x`, n x w, span; the first j span the first j.

    A column that depends on those before it becomes 0; in float32 those after it may lose a direction by it. A pass
    leaves a deviation of about 1e-15 w times the square of the condition of the columns, scaled to length 1; the second
    one takes that away.
    """
    xp = namespace(x)
    shift = 4 * EPS * x.shape[1] * xp.eye(x.shape[1])
    for _ in range(n_passes):
        wide = x.astype("float64", copy=False)
        gram = wide.T @ wide
        squares = xp.diagonal(gram)
        scale = xp.where(squares > 0, squares, 1) ** -0.5
        factor = xp.linalg.cholesky(gram * scale * scale[:, None] + shift)
        kept = scale[:, None] * xp.linalg.inv(factor).T * (xp.diagonal(factor) > LEAST)
        x = x @ kept.astype(x.dtype, copy=False)
    return x


def qr(x: Array) -> tuple[Array, Array]:
    """Return x = Q R: a column of Q that `x` has nothing for is any that is orthogonal to the others."""
    if device_of(x) == "cpu":  # SciPy's is faster than NumPy's
        return linalg.qr(x, mode="economic", check_finite=False)
    return namespace(x).linalg.qr(x)


def joined(basis: Array, more: Array) -> Array:
    """Put further columns, few and drawn at random, beside an orthonormal basis: all are orthonormal."""
    xp = namespace(basis)
    for _ in range(2):  # once more for the orthogonality that rounding took
        more = more - basis @ (basis.T @ more)
    return xp.concatenate([basis, qr(more)[0]], axis=1)
