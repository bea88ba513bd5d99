"""A symmetric matrix is recognised as positive definite, or is solved with; on the CPU it is overwritten.

Where a matrix has no Cholesky factor, LAPACK says so. cuSOLVER's word would have to be waited for, and without it CuPy
returns whatever is there: so a factor is held against its matrix on a vector.
"""

from collections.abc import Callable

from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._kernels.cpu.slices import lapack
from gpuensemble._linear.dense import add_product

CARE = {"float64": 1e-9, "float32": 1e-3}  # how far, relative to the largest entry, a product with a factor may be off


def is_definite(matrix: Array) -> Array:
    """Return 1.0 on the device if a symmetric matrix is positive definite, as far as rounding tells, else 0.0."""
    xp = namespace(matrix)
    if device_of(matrix) == "cpu":
        return xp.asarray(float(_factored(matrix) == 0))
    factor = xp.linalg.cholesky(matrix)
    probe = xp.cos(xp.arange(len(matrix), dtype="float64") ** 2).astype(matrix.dtype)
    image = matrix @ probe
    close = abs(factor @ (factor.T @ probe) - image).max() <= CARE[matrix.dtype.name] * abs(image).max()
    return (close & (xp.diagonal(factor).min() > 0)).astype("float64")  # NaN is not close


def narrowly_definite(x: Array, bound: Array, lifted: tuple[Array, Array] | None = None) -> bool:
    """Say whether X less a bound, with a product added that is given by its factors, has a factor in float32."""
    other = x.astype("float32")
    if lifted is not None:
        add_product(*lifted, out=other)
    add_to_diagonal(other, -bound)
    return bool(is_definite(other) > 0)


def add_to_diagonal(x: Array, value: Array) -> None:
    """Add a number to the diagonal of a matrix."""
    x.ravel()[:: len(x) + 1] += value


def inverse(matrix: Array) -> Callable[[Array], Array]:
    """Return what multiplies with the inverse of a symmetric matrix; on the CPU a definite one takes half as long.

    On a device the inverse itself is made: it takes as long as three factors, and is then applied by plain products.
    """
    if device_of(matrix) != "cpu":
        made = namespace(matrix).linalg.inv(matrix)
        return lambda x: made @ x
    xp, n = namespace(matrix), len(matrix)
    diagonal = matrix.diagonal().copy()
    if not _factored(matrix):
        return lambda x: _solved("potrs", "U", matrix, x)
    upper = xp.triu(matrix, 1)  # the other half is overwritten
    xp.add(upper, upper.T, out=matrix)
    xp.fill_diagonal(matrix, diagonal)
    pivots = xp.empty(n, "int64")
    lapack.call("getrf", matrix.dtype, n, n, matrix, n, pivots)
    return lambda x: _solved("getrs", "N", matrix, x, pivots)


def _factored(matrix: Array) -> int:
    """Put the Cholesky factor of a symmetric matrix into the half below its diagonal; return 0 if there is one."""
    return lapack.call("potrf", matrix.dtype, "U", len(matrix), matrix, len(matrix))  # LAPACK reads it by columns


def _solved(name: str, kind: str, factors: Array, x: Array, *pivots: Array) -> Array:
    """Return the solution for the columns of x."""
    found = namespace(x).array(x, factors.dtype, order="F")
    n, width = x.shape
    lapack.call(name, factors.dtype, kind, n, width, factors, n, *pivots, found, n)
    return found
