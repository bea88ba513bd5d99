"""Large products of dense matrices are shared out to the pool's threads, as BLAS has one (`_array.threads`)."""

from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._array.threads import over_spans, spans

LEAST = 1 << 25  # additions and products that are worth a task of their own, about 1 ms
MOST = 16  # parts of a product
TALL = 200  # rows of a part, at least: for each of them BLAS copies all of the other factor
HALF_ROWS = 256  # of a part of a symmetric product: the part above the diagonal of its square is worked out in vain
ROWS = 256  # of a sum at a time, so that a product needs no memory of the size of its result


def product(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return a @ b, written to `out` if it is given; the number of threads changes no bit.

    Parameters
    ----------
    a : array, m x k
    b : array, k x n
    out : array, m x n, optional
        Contiguous, by rows or by columns.
    """
    xp = namespace(a)
    if device_of(a) != "cpu":
        return xp.matmul(a, b, out=out)
    if out is None:
        out = xp.empty((len(a), b.shape[1]), a.dtype)
    most = min(2 * a.size * b.shape[1] // LEAST, MOST, len(a) // TALL)
    n_parts = 1 << max(most.bit_length() - 1, 0)  # a power of 2, as cores mostly are
    parts = spans(len(a), -(-len(a) // n_parts))

    def task(first: int, last: int) -> None:
        for rows in parts[first:last]:
            xp.matmul(a[rows], b, out=out[rows])

    over_spans(len(parts), 1, task, alone=False)
    return out


def symmetric(a: Array, b: Array) -> Array:
    """Return a @ b on the CPU, n x n and symmetric but for rounding: half of it is worked out, and is there twice."""
    xp = namespace(a)
    out = xp.empty((len(a), len(a)), a.dtype)
    parts = spans(len(a), HALF_ROWS)[::-1]  # the longest rows first

    def task(first: int, last: int) -> None:
        for rows in parts[first:last]:
            xp.matmul(a[rows], b[:, : rows.stop], out=out[rows, : rows.stop])
            out[: rows.start, rows] = out[rows, : rows.start].T
            corner = out[rows, rows]
            corner[:] = xp.tril(corner) + xp.tril(corner, -1).T

    over_spans(len(parts), 1, task, len(a) * a.size < LEAST)
    return out


def columns(a: Array, b: Array) -> Array:
    """Return a @ b for few columns, which lie in memory one after the other: BLAS is faster if b's do, too."""
    if device_of(a) != "cpu":
        return a @ b
    return product(a, b, out=namespace(a).empty((b.shape[1], len(a)), a.dtype).T)


def turned(x: Array, by: Array) -> Array:
    """Return x @ by for a small second factor; it lies in memory as x does, by rows or by columns."""
    return (by.T @ x.T).T if x.flags.f_contiguous else x @ by


def add_product(a: Array, b: Array, out: Array) -> None:
    """Add a @ b to `out`, m x n."""
    for rows in spans(len(a), len(a) if device_of(a) != "cpu" else ROWS):
        out[rows] += a[rows] @ b
