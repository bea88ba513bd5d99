"""Orthonormal columns come from Cholesky factors of Gram matrices: by products, not by the many steps of a QR.

A Gram matrix is made in float64, and has a shift of the size of its rounding, so that the factor always exists. Nothing
waits for a device.
"""

from gpuensemble._array.devices import Array, namespace

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
