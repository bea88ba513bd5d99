"""Blocks of features, and the distances of their rows to centres: Table 3 of CMVC, and the exact guide of its Eq. 9.

Squared Euclidean |x - c|^2, "cosine" |x| - x.c/|c|, and "kl" sum x log(x/c) are the point-to-centroid distances of
convex functions. So the best centre of some rows is their mean: of the rows as they are, not of their unit vectors. And
the cost of row x in cluster k is constant[x] + offset[k] + x . table[k].
"""

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gpuensemble._array import Array, device_of, namespace
from gpuensemble._csr import Csr

CHUNK = 1 << 23  # entries of a row block and of the scores of its rows
LACKING = {"float32": 1e30, "float64": 1e200}  # stands for -log 0


class SquaredEuclidean:
    """|x - c|^2; the position of a centre is the centre."""

    def constant(self, part: Any, square: Array) -> Array:
        """What the cost of a row is without a centre."""
        return square

    def position(self, sums: Array, mass: Array) -> Array:
        """Where the centres of clusters with these sums of rows are."""
        return divide(sums, mass)

    def table(self, position: Array, dtype: Any) -> Array:
        """What a row is multiplied with."""
        return -2.0 * position

    def offset(self, position: Array) -> Array | None:
        """What every row of a cluster costs; None: nothing."""
        return (position * position).sum(1)

    def saved(self, sums: Array, mass: Array) -> Array:
        """What clusters with these sums, and their means as centres, save of the sum of `constant`."""
        return divide((sums * sums).sum(1), mass)


class Cosine(SquaredEuclidean):
    """|x| - x.c/|c|; the position of a centre is its unit vector, as only directions count."""

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
    """sum x log(x/c) of x and c as distributions, times the sum of x; the position of a centre is its distribution.

    A centre without an entry that x has is infinitely far. `LACKING` stands for that infinity: 0 times it is 0, and a
    row that is infinitely far from all centres goes to the one that lacks the least of it.
    """

    def constant(self, part: Any, square: Array) -> Array:
        return _row_sums(part, lambda x, *_: _x_log_x(x)) - _x_log_x(_row_sums(part, lambda x, *_: x))

    def position(self, sums: Array, mass: Array) -> Array:
        return divide(sums, sums.sum(1))

    def table(self, position: Array, dtype: Any) -> Array:
        xp = namespace(position)
        return xp.where(position > 0, -xp.log(xp.where(position > 0, position, 1)), LACKING[dtype.name])

    def saved(self, sums: Array, mass: Array) -> Array:
        return _x_log_x(sums).sum(1) - _x_log_x(sums.sum(1))


class Agreement(Cosine):
    """|e_k - g_x|^2 of Eq. 9 less 1 + |g_x|^2, for one-hot rows: g_x[k] is the share of x's label that k holds.

    The position is the shares, clusters x labels, i.e. G transposed (Eq. 8).
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
DISTANCES = ("sqeuclidean", "cosine", "kl")


class Block(NamedTuple):
    """Columns that are measured together: their distance times `weight` counts, for the rows where they are present."""

    X: Any  # array or Csr
    weight: float = 1.0
    present: Array | None = None  # n booleans; None: all
    distance: str | None = None  # None: that of the call


class Features(NamedTuple):
    """Blocks of columns, whose distances times their weights add up; a row has 0 in a block that it is absent from.

    `means` were taken off the blocks, or are None; `square` is the weighted squared norm of each row.
    """

    parts: list
    weights: list[float]
    means: list
    present: list
    distances: list[str]
    constants: list  # of each part, times its weight
    square: Array

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        return self.parts[0].dtype

    @property
    def constant(self) -> Array:
        """The constant of each row."""
        return _add(self.constants)

    @property
    def bounded(self) -> bool:
        """Whether shifts of centres bound the changes of costs: "sqeuclidean" throughout, or "cosine" throughout."""
        return set(self.distances) in ({"sqeuclidean"}, {"cosine"})

    @property
    def whole(self) -> Array | None:
        """The rows that are absent from no block; None: all."""
        given = [present for present in self.present if present is not None]
        return functools.reduce(operator.and_, given) if given else None

    def kinds(self, *lists: Any) -> Iterator[tuple]:
        """The distance of each part, beside lists with an entry per part."""
        return zip([KINDS[distance] for distance in self.distances], *lists, strict=True)

    def take(self, rows: Array) -> "Features":
        """The named rows."""
        return self._replace(
            parts=[part.take(rows) if isinstance(part, Csr) else part[rows] for part in self.parts],
            present=[None if present is None else present[rows] for present in self.present],
            constants=[constant[rows] for constant in self.constants],
            square=self.square[rows],
        )

    def beside(self, other: "Features") -> "Features":
        """The blocks of both."""
        return Features(*(one + two for one, two in zip(self, other, strict=True)))  # lists; then squared norms

    def dense(self, begin: int, end: int) -> list:
        """Rows begin .. end - 1 of each part as a dense array."""
        return [_dense(part, begin, end) for part in self.parts]

    def row_blocks(self, n_scores: int) -> Iterator[tuple[int, int, list]]:
        """(begin, end, dense rows), with room for n_scores more columns."""
        rows = max(1, CHUNK // (n_scores + sum(part.shape[1] for part in self.parts)))
        for begin in range(0, len(self.square), rows):
            end = min(len(self.square), begin + rows)
            yield begin, end, self.dense(begin, end)


class Tables(NamedTuple):
    """What centres cost: x . tables[part][k] + offset[k], and offsets of parts that some rows are absent from."""

    tables: list
    offset: Array
    partial: list  # (present, offset)


def prepare(X: Any, distance: str) -> Features:
    """Norms; absent rows as 0; for squared Euclidean distances dense blocks less their means, to lose fewer digits."""
    blocks = [Block(*block) for block in X] if isinstance(X, list) else [Block(X)]
    distances = [block.distance or distance for block in blocks]
    cleared = [_cleared(block, name == "sqeuclidean") for block, name in zip(blocks, distances, strict=True)]
    parts, means = [part for part, _ in cleared], [mean for _, mean in cleared]
    weights, present = [float(block.weight) for block in blocks], [block.present for block in blocks]
    squares = [_row_sums(part, lambda x, *_: x * x) for part in parts]
    constants = [
        weight * KINDS[name].constant(part, square)
        for name, weight, part, square in zip(distances, weights, parts, squares, strict=True)
    ]
    square = _add(weight * square for weight, square in zip(weights, squares, strict=True))
    return Features(parts, weights, means, present, distances, constants, square)


def tables(features: Features, position: list, empty: Array) -> Tables:
    """The tables of centres at these positions; an empty cluster costs inf."""
    xp = namespace(empty)
    found, offset, partial = [], xp.zeros(len(empty)), []
    for kind, weight, present, where in features.kinds(features.weights, features.present, position):
        found.append((weight * kind.table(where, features.dtype)).astype(features.dtype))
        own = kind.offset(where)
        if own is not None and present is not None:
            partial.append((present, (weight * own).astype(features.dtype)))
        elif own is not None:
            offset = offset + weight * own
    return Tables(found, xp.where(empty, xp.inf, offset), partial)


def positions(features: Features, sums: list, masses: list) -> list:
    """Where the centres of clusters are, in float64, for sums of rows, or for rows themselves and masses of 1."""
    of_all = features.kinds(sums, masses)
    return [kind.position(total.astype("float64", copy=False), mass) for kind, total, mass in of_all]


def saved(features: Features, sums: list, masses: list) -> list[float]:
    """What clusters with these sums of rows, and their means as centres, save of each part's sum of `constant`."""
    return [
        weight * float(kind.saved(total, mass).sum())
        for kind, weight, total, mass in features.kinds(features.weights, sums, masses)
    ]


def shifts(features: Features, before: list, after: list) -> Array:
    """How far each centre has moved; infinitely far where that says nothing of costs."""
    if not features.bounded:
        return namespace(after[0]).full(len(after[0]), namespace(after[0]).inf)
    squares = [((a - b) ** 2).sum(1) for a, b in zip(after, before, strict=True)]
    return _add(weight * square for weight, square in zip(features.weights, squares, strict=True)) ** 0.5


def scores(found: Tables, blocks: list, begin: int, end: int) -> Array:
    """What each cluster costs each of these rows, by rows, less what is the same for all rows and for all clusters."""
    out = _add(block @ table.T for block, table in zip(blocks, found.tables, strict=True))
    for present, offset in found.partial:
        out = out + present[begin:end, None] * offset
    return out


def own_scores(features: Features, found: Tables, label: Array) -> Array:
    """What its own cluster costs each row, as in `scores`."""

    def of_own(table: Array) -> Callable:
        return lambda x, rows, columns: x * table[label[rows], columns]

    out = _add(_row_sums(part, of_own(table)) for part, table in zip(features.parts, found.tables, strict=True))
    for present, offset in found.partial:
        out = out + present * offset[label]
    return out


def without_rounding(features: Features, costs: Array) -> Array:
    """Costs, 0 where they may be nothing but rounding errors of their terms."""
    xp = namespace(costs)
    error = 64 * float(xp.finfo(features.dtype).eps) * abs(features.constant)
    return xp.where(costs <= error, 0, costs)


def divide(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator by rows; 0 where the denominator is."""
    xp = namespace(numerator)
    safe = xp.where(denominator > 0, denominator, xp.inf)
    return numerator / (safe if numerator.ndim == 1 else safe[:, None])


def _add(values: Any) -> Array:
    return functools.reduce(operator.add, values)


def _cleared(block: Block, centre: bool) -> tuple[Any, Array | None]:
    """The block with zeros for absent rows, and less its mean, which comes second, if it is dense and to be centred."""
    X, present = block.X, block.present
    if isinstance(X, Csr):
        return (X if present is None else X.blank(~present)), None
    if present is not None:
        X = namespace(X).where(present[:, None], X, 0)
    if not centre:
        return X, None
    n = X.shape[0] if present is None else present.sum()
    mean = (X.sum(0, dtype="float64") / n).astype(X.dtype)
    X = X - mean
    if present is not None:
        X[~present] = 0
    return X, mean


def _dense(part: Any, begin: int, end: int) -> Array:
    return part.dense(begin, end) if isinstance(part, Csr) else part[begin:end]


def _x_log_x(x: Array) -> Array:
    xp = namespace(x)
    return x * xp.log(xp.where(x > 0, x, 1))


def _row_sums(part: Any, term: Callable[[Array, Any, Any], Array]) -> Array:
    """The sum over each row of term(entries, their rows, their columns), which is 0 for an entry of 0; in float64."""
    if isinstance(part, Csr) and device_of(part.data) == "cpu":
        row = part.rows()
        terms = term(part.data.astype("float64", copy=False), row, part.indices)
        return namespace(part.data).bincount(row, terms, part.shape[0])
    out = namespace(part.data if isinstance(part, Csr) else part).empty(part.shape[0])
    rows = max(1, (CHUNK >> 6) // part.shape[1])  # few enough for their float64 copy to stay in a cache
    for begin in range(0, len(out), rows):
        some = slice(begin, min(len(out), begin + rows))
        dense = _dense(part, some.start, some.stop).astype("float64", copy=False)
        out[some] = term(dense, some, slice(None)).sum(1)
    return out
