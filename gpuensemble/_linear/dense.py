"""Large products of dense matrices are shared out to the pool's threads, as BLAS has one (`_array.threads`)."""

from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._array.threads import over_spans, spans

LEAST = 1 << 25  # additions and products that are worth a task of their own, about 1 ms
MOST = 16  # parts of a product
ROWS = 256  # of a sum at a time, so that a product needs no memory of the size of its result


def product(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return a @ b, written to `out` if it is given; the number of threads changes no bit.

    Parameters
    ----------
    a : array, m x k
    b : array, k x n
    out : array, m x n, optional
        C contiguous.
    """
    xp = namespace(a)
    n_parts = min(1 << (2 * a.size * b.shape[1] // LEAST).bit_length(), MOST)  # a power of 2, as cores mostly are
    if device_of(a) != "cpu" or n_parts < 2:
        return xp.matmul(a, b, out=out)
    out = xp.empty((len(a), b.shape[1]), a.dtype) if out is None else out
    parts = spans(len(a), -(-len(a) // n_parts))

    def task(first: int, last: int) -> None:
        for rows in parts[first:last]:
            xp.matmul(a[rows], b, out=out[rows])

    over_spans(len(parts), 1, task, alone=False)
    return out


def add_product(a: Array, b: Array, out: Array) -> None:
    """Add a @ b to `out`, m x n."""
    for rows in spans(len(a), len(a) if device_of(a) != "cpu" else ROWS):
        out[rows] += a[rows] @ b
