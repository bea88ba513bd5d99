"""Two stacked matrices become their sum and difference, scaled, and come back: one pass each over both, in place."""

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.compiling import kernel

ROWS = 64  # of a part
ALONE = 1000  # rows up to which one thread is as fast: it does not wait for others


def to_slices(x, root):
    """Put D (X1 + X2) D and D (X1 - X2) D in the place of X1 and X2, 2 x n x n, with D = diag(root)."""
    threads.over_spans(x.shape[1], ROWS, lambda first, last: _to(x[0], x[1], root, first, last), x.shape[1] <= ALONE)


def from_slices(x, root):
    """Undo `to_slices`."""
    threads.over_spans(x.shape[1], ROWS, lambda first, last: _from(x[0], x[1], root, first, last), x.shape[1] <= ALONE)


@kernel
def _to(one, two, root, first, last):
    """Work on some rows."""
    minus = one.dtype.type(-2)
    for i in range(first, last):
        a, b, factor = one[i], two[i], root[i]
        for j in range(len(root)):
            total = a[j] + b[j]
            b[j] = (b[j] * minus + total) * root[j] * factor
            a[j] = total * root[j] * factor


@kernel
def _from(one, two, root, first, last):
    """Work on some rows."""
    half = one.dtype.type(0.5)
    for i in range(first, last):
        a, b, factor = one[i], two[i], root[i]
        for j in range(len(root)):
            difference = b[j] / root[j] / factor
            middle = (a[j] / root[j] / factor + difference) * half
            a[j] = middle
            b[j] = middle - difference
