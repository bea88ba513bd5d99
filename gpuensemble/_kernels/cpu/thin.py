"""Large matrices are multiplied with few columns here, which BLAS is slow at: it copies what it then reads once."""

import numpy as np

from gpuensemble._array.threads import over_spans, spans
from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.vector.dots import add_outer_rows, dot_rows
from gpuensemble._kernels.cpu.vector.tiles import DOT_LINES, DOT_ROWS, LINE, dot_width, side_by_side

PARTS = 8  # of the rows, at most: each has a sum of its own, and they are added up in their order
LEAST = 64  # rows of a part
ALONE = 700  # rows up to which one thread does not wait for others, which would save it less than 0.5 ms


def both_ways(one, two, x):
    """Return one' (two x) + two' (one x) for two square matrices of n rows and n x k columns; each is read once.

    The number of threads changes no bit.
    """
    widest = DOT_LINES * LINE // 2 // x.itemsize
    out = np.empty(x.shape, x.dtype)
    for columns in spans(x.shape[1], widest):
        out[:, columns] = _of_columns(one, two, x[:, columns])
    return out


def _of_columns(one, two, x):
    (n, k), width = x.shape, dot_width(x.shape[1], x.dtype)
    parts = spans(n, max(LEAST, -(-n // PARTS)))
    room = (parts[0].stop + DOT_ROWS, width)
    table, *totals = side_by_side(x.dtype, *[(n, width)] * (len(parts) + 1))
    table[:, :k] = x
    numbers = np.arange(n)

    def task(first, last):
        for part, total in zip(parts[first:last], totals[first:last], strict=True):
            _add(one, two, table, numbers[part], *side_by_side(x.dtype, room, room), total)

    over_spans(len(parts), 1, task, n <= ALONE)
    for total in totals[1:]:
        totals[0] += total
    return totals[0][:, :k]


@kernel
def _add(one, two, table, chosen, of_one, of_two, total):
    """Add what some rows of both matrices give; `of_one` and `of_two` are room for their products, and are 0."""
    m = len(chosen)
    for j in range(0, m, DOT_ROWS):
        dot_rows(one, chosen, j, m, table, of_one)
        dot_rows(two, chosen, j, m, table, of_two)
        add_outer_rows(one, chosen, j, m, of_two, total)
        add_outer_rows(two, chosen, j, m, of_one, total)
