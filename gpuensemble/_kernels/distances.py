"""These are the distances of rows to centres: Table 3 of CMVC, and the exact guide of its Eq. 9.

Squared Euclidean |x - c|^2, "cosine" |x| - x.c/|c|, and "kl" sum x log(x/c) are the point-to-centroid distances of
convex functions. So the best centre of some rows is their mean: of the rows as they are, not of their unit vectors. And
the cost of row x in cluster k is constant[x] + offset[k] + x . table[k].

A distance is a class of array expressions, for any library; below are the same expressions as compiled loops, for the
iterations on the CPU that do not return to Python.
"""

import math
from typing import Any

import numpy as np

from gpuensemble._array.csr import row_sums
from gpuensemble._array.devices import Array, namespace
from gpuensemble._kernels.cpu.compiling import inlined, inner_reordered

LACKING = {np.dtype("float32"): 1e30, np.dtype("float64"): 1e200}  # stands for -log 0


class SquaredEuclidean:
    """The distance is |x - c|^2; the position of a centre is the centre."""

    background: Any = None  # an array that rows are mixed with

    def constant(self, part: Any, square: Array) -> Array:
        """Return the cost of a row without a centre, its constant."""
        return square

    def position(self, sums: Array, mass: Array) -> Array:
        """Return the positions of the centres of clusters with these sums of rows."""
        return divide(sums, mass)

    def table(self, position: Array, dtype: Any) -> Array:
        """Return what a row is multiplied with."""
        return -2.0 * position

    def offset(self, position: Array) -> Array | None:
        """Return what every row of a cluster costs, or None if that is nothing."""
        return (position * position).sum(1)

    def saved(self, sums: Array, mass: Array) -> Array:
        """Return what clusters with these sums, and their means as centres, save of the sum of `constant`."""
        return divide((sums * sums).sum(1), mass)


class Cosine(SquaredEuclidean):
    """The distance is |x| - x.c/|c|; the position of a centre is its unit vector, as only directions count."""

    def constant(self, part: Any, square: Array) -> Array:
        return square**0.5

    def position(self, sums: Array, mass: Array) -> Array:
        return divide(sums, (sums * sums).sum(1) ** 0.5)

    def table(self, position: Array, dtype: Any) -> Array:
        return -position

    def offset(self, position: Array) -> Array | None:
        return None

    def saved(self, sums: Array, mass: Array) -> Array:
        return (sums * sums).sum(1) ** 0.5


class KullbackLeibler(Cosine):
    """The distance is sum x log(x/c) of x and c as distributions, times the sum of x.

    The position of a centre is its distribution. A centre without an entry that x has is infinitely far. `LACKING`
    stands for that infinity: 0 times it is 0, and a row that is infinitely far from all centres goes to the one that
    lacks the least of it.
    """

    def constant(self, part: Any, square: Array) -> Array:
        return row_sums(part, lambda x, *_: _x_log_x(x)) - _x_log_x(row_sums(part, lambda x, *_: x))

    def position(self, sums: Array, mass: Array) -> Array:
        return divide(sums, sums.sum(1))

    def table(self, position: Array, dtype: Any) -> Array:
        xp = namespace(position)
        return xp.where(position > 0, -xp.log(xp.where(position > 0, position, 1)), LACKING[dtype])

    def saved(self, sums: Array, mass: Array) -> Array:
        return _x_log_x(sums).sum(1) - _x_log_x(sums.sum(1))


class SmoothedKullbackLeibler(KullbackLeibler):
    """The distance is "kl" of rows that are mixed with a background: (1 - s) x + |x| b, b of sum s, |x| the sum of x.

    A mixed row has no entry of 0 where the background has none. Rows stay as they are, and sparse: means of mixed rows
    are mixed means, and a mixed row times a table is the row times another table.
    """

    def __init__(self, background: Array):
        self.background, self.kept = background, 1 - float(background.sum())

    def constant(self, part: Any, square: Array) -> Array:
        size, own = row_sums(part, lambda x, *_: x), _x_log_x(self.background).sum()

        def added(x: Array, rows: Any, columns: Any) -> Array:
            weight = size[rows][:, None] if isinstance(rows, slice) else size[rows]
            behind = weight * self.background[columns]
            return _x_log_x(self.kept * x + behind) - _x_log_x(behind)

        return row_sums(part, added) + size * own - self.kept * _x_log_x(size)

    def position(self, sums: Array, mass: Array) -> Array:
        return self.kept * super().position(sums, mass) + self.background

    def table(self, position: Array, dtype: Any) -> Array:
        own = super().table(position, dtype)
        return self.kept * own + (own @ self.background)[:, None]

    def saved(self, sums: Array, mass: Array) -> Array:
        return super().saved(self.kept * sums + sums.sum(1)[:, None] * self.background, mass)


class Agreement(Cosine):
    """For one-hot rows this is |e_k - g_x|^2 of Eq. 9 less 1 + |g_x|^2: g_x[k] is the share of x's label that k holds.

    The position holds the shares, clusters x labels, i.e. G transposed (Eq. 8).
    """

    def constant(self, part: Any, square: Array) -> Array:
        return namespace(square).zeros(len(square))

    def position(self, sums: Array, mass: Array) -> Array:
        return namespace(sums).ascontiguousarray(divide(sums.T, sums.sum(0)).T)

    def table(self, position: Array, dtype: Any) -> Array:
        return -2.0 * position

    def saved(self, sums: Array, mass: Array) -> Array:
        return (sums * self.position(sums, mass) - sums).sum(1)


KINDS: dict[str, SquaredEuclidean] = {
    "sqeuclidean": SquaredEuclidean(),
    "cosine": Cosine(),
    "kl": KullbackLeibler(),
    "agreement": Agreement(),
}


def divide(numerator: Array, denominator: Array) -> Array:
    """Return numerator / denominator by rows, and 0 where the denominator is 0."""
    xp = namespace(numerator)
    safe = xp.where(denominator > 0, denominator, xp.inf)
    return numerator / (safe if numerator.ndim == 1 else safe[:, None])


def _x_log_x(x: Array) -> Array:
    xp = namespace(x)
    return x * xp.log(xp.where(x > 0, x, 1))


# ------------------------------------------------------------------------------------------------ compiled for the CPU


# Which distance it is, is told at run time: a loop for each would be compiled as often as k-means is.

CODES = {"sqeuclidean": 0, "cosine": 1, "kl": 2, "agreement": 3}
SQUARED, COSINE, KL, AGREEMENT = CODES.values()


@inner_reordered
def fill_tables(kind, background, position, weight, lacking, table, offset):
    """Fill `table` and `offset` of each cluster, times the weight of the block; the table is columns x clusters.

    Rows of "kl" are mixed with the background; it is 0 for those that are not mixed, and for other distances.
    """
    if kind == KL:
        _fill_logarithms(background, position, weight, lacking, table, offset)
        return
    factor = -weight if kind == COSINE else -2 * weight
    for c in range(position.shape[0]):
        square = 0.0
        for j in range(position.shape[1]):
            table[j, c] = factor * position[c, j]
            square += position[c, j] ** 2
        offset[c] = weight * square if kind == SQUARED else 0.0


@inlined
def _fill_logarithms(background, position, weight, lacking, table, offset):
    kept = _kept(background)
    for c in range(position.shape[0]):
        behind, offset[c] = 0.0, 0.0
        for j in range(position.shape[1]):
            entry = weight * (-math.log(position[c, j]) if position[c, j] > 0 else lacking)
            behind += background[j] * entry
            table[j, c] = kept * entry
        for j in range(position.shape[1]):
            table[j, c] += behind


@inner_reordered
def saved_by(kind, background, sums, mass, size):
    """Return what the means of clusters save, as `saved` does; `size` becomes what their sums are divided by."""
    saved = 0.0
    for c in range(sums.shape[0]):
        square, size[c] = 0.0, mass[c]
        for j in range(sums.shape[1]):
            square += sums[c, j] ** 2
        if kind == COSINE:
            size[c] = math.sqrt(square)
            saved += size[c]
        elif kind == SQUARED:
            saved += square / size[c] if size[c] > 0 else 0.0
        else:
            saved += _saved_in(kind, background, sums, c, size)
    return saved


@inlined
def _saved_in(kind, background, sums, c, size):
    """Return what cluster c saves of "kl", whose sums are divided by their sum, or of "agreement"."""
    saved, total, kept = 0.0, 0.0, _kept(background)
    for j in range(sums.shape[1]):
        total += sums[c, j]
    for j in range(sums.shape[1]):
        if kind == KL:
            s = kept * sums[c, j] + total * background[j]
            saved += s * math.log(s / total) if s > 0 else 0.0
        elif sums[c, j] > 0:
            saved += sums[c, j] * (sums[c, j] / _of_label(sums, j) - 1)
    if kind == KL:
        size[c] = total
    return saved


@inner_reordered
def place(kind, background, sums, size, weight, position, shift):
    """Put the means of clusters into `position`, as `position` does; add the squares of their moves to `shift`."""
    if kind == AGREEMENT:
        _place_shares(sums, weight, position, shift)
        return
    kept = _kept(background)
    for c in range(sums.shape[0]):
        factor, moved = kept / size[c] if size[c] > 0 else 0.0, 0.0
        for j in range(sums.shape[1]):
            new = sums[c, j] * factor + background[j]
            moved += (new - position[c, j]) ** 2
            position[c, j] = new
        shift[c] += weight * moved


@inlined
def _place_shares(sums, weight, position, shift):
    for c in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            new = sums[c, j] / max(_of_label(sums, j), 1e-300)
            shift[c] += weight * (new - position[c, j]) ** 2
            position[c, j] = new


@inner_reordered
def _kept(background):
    """Return the share of a row that is not the background."""
    total = 0.0
    for j in range(len(background)):
        total += background[j]
    return 1 - total


@inlined
def _of_label(sums, j):
    """Count the rows that have the label j."""
    found = 0.0
    for c in range(sums.shape[0]):
        found += sums[c, j]
    return found
