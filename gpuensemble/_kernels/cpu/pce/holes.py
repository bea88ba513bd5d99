"""The holes of PCE are filled a row at a time on the CPU, which needs no array of the size of F."""

import numpy as np

from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.membership import SPAN, hole_of, over_spans
from gpuensemble._kernels.cpu.vector.empty import empty


def impute(m, observed, points, rotations, weighted, lengths) -> None:
    """Fill holes, as `impute` of estimators/pce/steps.py does; the hole code in m is a hole that holds nothing yet."""
    task = (m.codes, hole_of(m.codes), m.offsets, observed.codes, points, rotations, weighted, lengths)
    over_spans(m, len(points), SPAN, lambda first, last: _impute(*task, first, last))


@kernel
def _impute(codes, hole, offsets, observed, points, rotations, weighted, lengths, first, last):
    r, n_columns = codes.shape[1], points.shape[1]
    residual = empty(n_columns, points.dtype)
    for x in range(first, last):
        missing = 0
        for i in range(r):
            missing += observed[x, i] == hole
        if missing == 0:
            continue
        residual[:] = points[x]
        for i in range(r):
            if codes[x, i] != hole:
                _subtract(residual, weighted, np.uintp(offsets[i] + codes[x, i]))
        for i in range(r):
            if observed[x, i] == hole:
                begin = np.uintp(offsets[i])
                if codes[x, i] != hole:
                    _add(residual, weighted, begin + np.uintp(codes[x, i]))
                best = _cheapest(residual, rotations, lengths, begin, np.uintp(offsets[i + 1]))
                codes[x, i] = best - begin
                _subtract(residual, weighted, best)


@kernel
def _cheapest(residual, rotations, lengths, begin, end):
    """Return the column c of the least lengths[c] - 2 residual . rotations[c], the lowest of equals."""
    best, least = begin, lengths.dtype.type(np.inf)
    for c in range(begin, end):
        product = lengths.dtype.type(0)
        for k in range(len(residual)):
            product += residual[k] * rotations[c, k]
        cost = lengths[c] - 2 * product
        if cost < least:
            best, least = c, cost
    return best


@kernel
def _add(residual, table, c):
    for k in range(len(residual)):
        residual[k] += table[c, k]


@kernel
def _subtract(residual, table, c):
    for k in range(len(residual)):
        residual[k] -= table[c, k]
