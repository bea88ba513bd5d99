"""A symmetric matrix is recognised as positive definite, or is solved with; on the CPU it is overwritten.

Where a matrix has no Cholesky factor, LAPACK says so. cuSOLVER's word would have to be waited for, and without it CuPy
returns whatever is there: so a factor is held against its matrix on a vector.
"""

from collections.abc import Callable

from scipy.linalg import get_lapack_funcs

from gpuensemble._array.devices import Array, device_of, namespace

CARE = {"float64": 1e-9, "float32": 1e-3}  # how far, relative to the largest entry, a product with a factor may be off


def is_definite(matrix: Array) -> Array:
    """Return 1.0 on the device if a symmetric matrix is positive definite, as far as rounding tells, else 0.0."""
    xp = namespace(matrix)
    if device_of(matrix) == "cpu":
        potrf = get_lapack_funcs("potrf", (matrix,))
        return xp.asarray(float(potrf(matrix.T, overwrite_a=True, clean=False)[1] == 0))
    factor = xp.linalg.cholesky(matrix)
    probe = xp.cos(xp.arange(len(matrix), dtype="float64") ** 2).astype(matrix.dtype)
    image = matrix @ probe
    close = abs(factor @ (factor.T @ probe) - image).max() <= CARE[matrix.dtype.name] * abs(image).max()
    return (close & (xp.diagonal(factor).min() > 0)).astype("float64")  # NaN is not close


def inverse(matrix: Array) -> Callable[[Array], Array]:
    """Return what multiplies with the inverse of a symmetric matrix; on the CPU a definite one takes half as long.

    On a device the inverse itself is made: it takes as long as three factors, and is then applied by plain products.
    """
    if device_of(matrix) != "cpu":
        made = namespace(matrix).linalg.inv(matrix)
        return lambda x: made @ x
    potrf, potrs, getrf, getrs = get_lapack_funcs(("potrf", "potrs", "getrf", "getrs"), (matrix,))
    diagonal = matrix.diagonal().copy()
    factor, failed = potrf(matrix.T, overwrite_a=True, clean=False)
    if not failed:
        return lambda x: potrs(factor, x)[0]
    xp = namespace(matrix)
    upper = xp.triu(matrix, 1)  # the other half is overwritten
    xp.add(upper, upper.T, out=matrix)
    xp.fill_diagonal(matrix, diagonal)
    factors, pivots, _ = getrf(matrix.T, overwrite_a=True)
    return lambda x: getrs(factors, pivots, x, trans=1)[0]
