"""This is what LTA does in its iterations on the CPU; it is the twin of kernels/lta.cu, with the names of cuda/lta.py.

`lta_update` makes one pass over the n x n arrays, in place, with the bits of its twin. Symmetrising needs each entry's
mirror image, so a tile of SIDE x SIDE entries is worked on together with its own.
"""

import numpy as np

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.vector.empty import empty

SIDE = 96  # of a tile: its rows are long enough to be fetched ahead, and the buffers of two stay in the L2 cache
PARTS = 4  # of the work, for each thread
ALONE = 600  # rows up to which one thread is as fast: it does not wait for others


def lta_update(tensor, similarity, error, first, third, step):
    """Do what follows P in an iteration: E, B, C, the multipliers, and the next T in the place of P.

    B and C are not kept: they only serve the multipliers and the next T. Nor is L2, which is -2 lambda E.

    Parameters
    ----------
    tensor : array, 2 x n x n
        P1 and P2; becomes T1 and T2.
    similarity, error, first, third : arrays, n x n
        A, E, L1 and L3; all but A are updated.
    step : Step of estimators/lta/solver.py
        The factors of this iteration.

    Returns
    -------
    array
        Its largest entry is the largest absolute one of the residuals P1 - B, P2 + E - A and P2 - C.
    """
    across = -(-len(similarity) // SIDE)
    n_parts = 1 if len(similarity) <= ALONE else min(PARTS * threads.count(), across)
    parts = np.array_split(np.stack(np.triu_indices(across), axis=1), n_parts)
    largest = np.zeros((len(parts), SIDE), tensor.dtype)
    factors = map(tensor.dtype.type, step)
    arguments = (tensor[0], tensor[1], similarity, error, first, third, *factors)
    threads.shared(lambda part, worst: _update(*arguments, part, worst), parts, largest)
    return largest


@kernel
def _update(p1, p2, a, e, l1, l3, mu, inverse, next_inverse, share, back, next_back, pairs, worst):
    """Work on the tiles (I, J) and (J, I) of some pairs."""
    upper, lower = empty((2, SIDE, SIDE), a.dtype), empty((2, SIDE, SIDE), a.dtype)
    for k in range(len(pairs)):
        i, j = pairs[k, 0] * SIDE, pairs[k, 1] * SIDE
        _shift(p1, l1, inverse, i, j, upper[0])
        _shift(p2, l3, inverse, i, j, upper[1])
        if i != j:
            _shift(p1, l1, inverse, j, i, lower[0])
            _shift(p2, l3, inverse, j, i, lower[1])
            _first(p1, l1, a, mu, next_inverse, j, i, lower[0], upper[0], worst)
            _second(p2, l3, a, e, mu, next_inverse, share, back, next_back, j, i, lower[1], upper[1], worst)
        other = upper if i == j else lower
        _first(p1, l1, a, mu, next_inverse, i, j, upper[0], other[0], worst)
        _second(p2, l3, a, e, mu, next_inverse, share, back, next_back, i, j, upper[1], other[1], worst)


@kernel
def _shift(p, multiplier, inverse, i, j, out):
    """Put P + L / mu of a tile into `out`."""
    width = min(SIDE, len(p) - j)
    for y in range(min(SIDE, len(p) - i)):
        row = np.uintp(i + y)
        for x in range(width):
            out[y, x] = p[row, np.uintp(j + x)] + multiplier[row, np.uintp(j + x)] * inverse


@kernel
def _middle(own, mirror, y, width, out):
    """Put a row of the symmetric part of a tile into `out`."""
    half = out.dtype.type(0.5)
    for x in range(width):
        out[x] = (own[y, x] + mirror[x, y]) * half


@kernel
def _larger(x, y):
    """Return the larger number: for a row of them one instruction, while Python's max has to think of NaN."""
    return x if x > y else y


@kernel
def _smaller(x, y):
    return x if x < y else y


@kernel
def _first(p1, l1, a, mu, next_inverse, i, j, own, mirror, worst):
    """Update a tile: B (Eq. 17), L1 (Eq. 22) and T1 (Eq. 13)."""
    zero, one = a.dtype.type(0), a.dtype.type(1)
    middle = empty(SIDE, a.dtype)
    width = min(SIDE, len(a) - j)
    for y in range(min(SIDE, len(a) - i)):
        _middle(own, mirror, y, width, middle)
        row = np.uintp(i + y)
        for x in range(width):
            column = np.uintp(j + x)
            b = one if a[row, column] == one else _larger(zero, _smaller(one, middle[x]))
            residual = p1[row, column] - b
            multiplier = l1[row, column] + mu * residual
            l1[row, column] = multiplier
            p1[row, column] = b - multiplier * next_inverse
            worst[x] = _larger(worst[x], abs(residual))


@kernel
def _second(p2, l3, a, e, mu, next_inverse, share, back, next_back, i, j, own, mirror, worst):
    """Update a tile: C (Eq. 20), E (Eq. 15), L3 (Eq. 22) and T2 (Eq. 13)."""
    zero, half, one = a.dtype.type(0), a.dtype.type(0.5), a.dtype.type(1)
    middle = empty(SIDE, a.dtype)
    width = min(SIDE, len(a) - j)
    for y in range(min(SIDE, len(a) - i)):
        _middle(own, mirror, y, width, middle)
        row = np.uintp(i + y)
        for x in range(width):
            column = np.uintp(j + x)
            p, s, c = p2[row, column], a[row, column], _larger(zero, _smaller(one, middle[x]))
            error = (s - p + back * e[row, column]) * share
            residual = p - c
            multiplier = l3[row, column] + mu * residual
            e[row, column] = error
            l3[row, column] = multiplier
            p2[row, column] = (s - error + next_back * error + c - multiplier * next_inverse) * half
            worst[x] = _larger(worst[x], _larger(abs(residual), abs(p + error - s)))
