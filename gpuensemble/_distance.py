"""Blocks of features, and the distances of their rows to centres: squared Euclidean, or |x| - x.c/|c| ("cosine").

Both are the point-to-centroid distances of a convex function, |x|^2 and |x| (Table 3 of CMVC). So the best centre of
some rows is their mean: of the rows as they are, not of their unit vectors. And the cost of row x in cluster k is
constant[x] + offset[k] + x . table[k].
"""

import functools
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

from gpuensemble._array import Array, device_of, namespace
from gpuensemble._csr import Csr

DISTANCES = ("sqeuclidean", "cosine")
CHUNK = 1 << 23  # entries of a row block and of the scores of its rows


class Features(NamedTuple):
    """Blocks of columns, whose distances times their weights add up.

    `means` were taken off the blocks, or are None; `square` is the squared norm of each row.
    """

    parts: list
    weights: list[float]
    means: list
    square: Array
    constant: Array
    distance: str

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        return self.parts[0].dtype

    def take(self, rows: Array) -> "Features":
        """The named rows."""
        parts = [part.take(rows) if isinstance(part, Csr) else part[rows] for part in self.parts]
        return self._replace(parts=parts, square=self.square[rows], constant=self.constant[rows])

    def dense(self, begin: int, end: int) -> list:
        """Rows begin .. end - 1 of each part as a dense array."""
        return [_dense(part, begin, end) for part in self.parts]

    def row_blocks(self, n_scores: int) -> Iterator[tuple[int, int, list]]:
        """(begin, end, dense rows), with room for n_scores more columns."""
        rows = max(1, CHUNK // (n_scores + sum(part.shape[1] for part in self.parts)))
        for begin in range(0, len(self.square), rows):
            end = min(len(self.square), begin + rows)
            yield begin, end, self.dense(begin, end)

    def weighted_sum(self, values: list) -> Array:
        """The sum over the parts of weight times value."""
        return _add(weight * value for weight, value in zip(self.weights, values, strict=True))


def prepare(X: Any, distance: str) -> Features:
    """Norms; and for squared Euclidean distances dense blocks less their means, which costs fewer digits."""
    given = X if isinstance(X, list) else [(X, 1.0)]
    centred = [_centred(block) if distance == "sqeuclidean" else (block, None) for block, _ in given]
    parts, means = [part for part, _ in centred], [mean for _, mean in centred]
    weights = [float(weight) for _, weight in given]
    squares = [_squares(part) for part in parts]
    features = Features(parts, weights, means, squares[0], squares[0], distance)
    square = features.weighted_sum(squares)
    constant = square if distance == "sqeuclidean" else features.weighted_sum([norm**0.5 for norm in squares])
    return features._replace(square=square, constant=constant)


def tables(features: Features, position: list, empty: Array) -> tuple[list, Array]:
    """(tables, offset) of centres at these positions; an empty cluster costs inf."""
    xp = namespace(empty)
    if features.distance == "sqeuclidean":
        factor, offset = -2.0, features.weighted_sum([(p * p).sum(1) for p in position])
    else:
        factor, offset = -1.0, xp.zeros(len(empty))
    found = [(factor * weight * p).astype(features.dtype) for p, weight in zip(position, features.weights, strict=True)]
    return found, xp.where(empty, xp.inf, offset)


def positions(features: Features, centers: list) -> list:
    """Where centres are, in float64: for cosine their unit vectors, as only their directions count."""
    centers = [center.astype("float64") for center in centers]
    return centers if features.distance == "sqeuclidean" else [_unit(center) for center in centers]


def saved(features: Features, sums: list, mass: Array) -> float:
    """What clusters with these sums of rows, and their means as centres, save of the sum of `constant`."""
    norms = [(total * total).sum(1) for total in sums]
    if features.distance == "sqeuclidean":
        parts = [divide(norm, mass) for norm in norms]
    else:
        parts = [norm**0.5 for norm in norms]
    return float(features.weighted_sum(parts).sum())


def shifts(features: Features, before: list, after: list) -> Array:
    """How far each centre has moved."""
    return features.weighted_sum([((a - b) ** 2).sum(1) for a, b in zip(after, before, strict=True)]) ** 0.5


def scores(blocks: list, found: list) -> Array:
    """x . table[k] of each row and cluster."""
    return _add(block @ table.T for block, table in zip(blocks, found, strict=True))


def without_rounding(features: Features, costs: Array) -> Array:
    """Costs, 0 where they may be nothing but rounding errors of their terms."""
    xp = namespace(costs)
    error = 64 * float(xp.finfo(features.dtype).eps) * features.constant
    return xp.where(costs <= error, 0, costs)


def divide(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator by rows; 0 where the denominator is."""
    xp = namespace(numerator)
    safe = xp.where(denominator > 0, denominator, 1)
    return xp.where(denominator > 0, numerator.T / safe, 0).T


def _add(values: Any) -> Array:
    return functools.reduce(operator.add, values)


def _centred(block: Any) -> tuple[Any, Array | None]:
    if isinstance(block, Csr):
        return block, None
    mean = block.mean(0, dtype="float64").astype(block.dtype)
    return block - mean, mean


def _dense(part: Any, begin: int, end: int) -> Array:
    return part.dense(begin, end) if isinstance(part, Csr) else part[begin:end]


def _unit(rows: Array) -> Array:
    return divide(rows, (rows * rows).sum(1) ** 0.5)


def _squares(part: Any) -> Array:
    """The squared norms of the rows, in float64."""
    if isinstance(part, Csr) and device_of(part.data) == "cpu":
        return namespace(part.data).bincount(part.rows(), part.data.astype("float64") ** 2, part.shape[0])
    out = namespace(part.data if isinstance(part, Csr) else part).empty(part.shape[0])
    rows = max(1, (CHUNK >> 6) // part.shape[1])  # few enough for their float64 copy to stay in a cache
    for begin in range(0, len(out), rows):
        end = min(len(out), begin + rows)
        out[begin:end] = (_dense(part, begin, end).astype("float64") ** 2).sum(1)
    return out
