"""Features come in blocks, whose distances add up; a centre costs a row constant[x] + offset[k] + x . table[k]."""

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gpuensemble._array.csr import Csr, cast, column_sums, entries, row_sums, squared_norms
from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._kernels.batches import twin
from gpuensemble._kernels.cpu.features import columns
from gpuensemble._kernels.distances import KINDS, SmoothedKullbackLeibler, SquaredEuclidean

DISTANCES = ("sqeuclidean", "cosine", "kl")
COPY, NEAR = 1e-9, 4.0  # times rounding errors in float32: what copies of rows may cost, and clusters that drown
SHORTEST, LONGEST = 1e-6, 1e6  # of the longest row: products with a centre are numbers in float32


class FeatureBlock(NamedTuple):
    """These columns are measured together: their distance times `weight` counts, for rows where they are present."""

    X: Any  # array or Csr
    weight: float = 1.0
    present: Array | None = None  # n booleans; None: all
    distance: str | None = None  # None: that of the call
    smoothing: float = 0.0  # of "kl": the share of each row that all rows together make up
    mean: Array | None = None  # of a dense block for squared Euclidean distances, if it is taken off already


class Features(NamedTuple):
    """This holds blocks of columns, whose distances times their weights add up; an absent row is 0 in its block.

    `means` were taken off the blocks, or are None; `square` is the weighted squared norm of each row.
    """

    parts: list
    weights: list[float]
    means: list
    present: list
    distances: list[str]
    measures: list[SquaredEuclidean]  # what measures each of these distances
    constants: list  # of each part, times its weight
    totals: list  # of these, on the CPU
    largest: list  # on a device, which needs it in each run: `largest_entries` of each part
    short: list  # of each part, where `shortened` has made it: the same in float32
    square: Array

    @property
    def dtype(self) -> Any:
        """Return the type of the numbers."""
        return self.parts[0].dtype

    @property
    def constant(self) -> Array:
        """Return the constant of each row."""
        return _add(self.constants)

    @property
    def bounded(self) -> bool:
        """Tell whether shifts of centres bound the changes of costs: all are "sqeuclidean", or all are "cosine"."""
        return set(self.distances) in ({"sqeuclidean"}, {"cosine"})

    @property
    def whole(self) -> Array | None:
        """Tell which rows are absent from no block; None stands for all."""
        given = [present for present in self.present if present is not None]
        return functools.reduce(operator.and_, given) if given else None

    def kinds(self, *lists: Any) -> Iterator[tuple]:
        """Yield the measure of each part, beside entries of lists with an entry per part."""
        return zip(self.measures, *lists, strict=True)

    def take(self, rows: Array) -> "Features":
        """Return the features of the named rows."""
        constants = [constant[rows] for constant in self.constants]
        return self._replace(
            parts=[part.take(rows) if isinstance(part, Csr) else part[rows] for part in self.parts],
            present=[None if present is None else present[rows] for present in self.present],
            constants=constants,
            totals=[_total(constant) for constant in constants],
            short=[None if part is None else part[rows] for part in self.short],
            square=self.square[rows],
        )

    def beside(self, other: "Features") -> "Features":
        """Put the blocks of both into one."""
        return Features(*(one + two for one, two in zip(self, other, strict=True)))  # lists; then squared norms

    def shortened(self, out: Array | None = None) -> "Features":
        """Copy a dense block in float64 to float32, which tells most rows' centre on the CPU in half the time.

        `out` may have room for it.
        """
        part, size = self.parts[0], float(self.square.max()) ** 0.5
        fits = self.bounded and SHORTEST < size < LONGEST and self.dtype == "float64"
        if not fits or isinstance(part, Csr):
            return self
        short = namespace(part).empty(part.shape, "float32") if out is None else out
        short[:] = part
        return self._replace(short=[short])

    def wide(self) -> "Features":
        """Return the features in float64."""
        means = [None if mean is None else mean.astype("float64") for mean in self.means]
        return self._replace(parts=[cast(part, "float64") for part in self.parts], means=means)

    def dense(self, rows: Array) -> list:
        """Return the named rows, few of them, of each part as a dense array."""
        rows = rows.astype("int64", copy=False)
        return [twin(rows).csr_rows(part, rows) if isinstance(part, Csr) else part[rows] for part in self.parts]


class CenterTables(NamedTuple):
    """A centre costs x . tables[part][k] + offset[k], and the offsets of parts that some rows are absent from."""

    tables: list
    offset: Array
    partial: list  # (present, offset)


def prepare(X: Any, distance: str) -> Features:
    """Work out norms and constants of features, to serve many runs of k-means.

    Absent rows become 0. For squared Euclidean distances the means are taken off dense blocks, to lose fewer digits.
    """
    blocks = [FeatureBlock(*block) for block in X] if isinstance(X, list) else [FeatureBlock(X)]
    distances = [block.distance or distance for block in blocks]
    cleared = [_cleared(block, name == "sqeuclidean") for block, name in zip(blocks, distances, strict=True)]
    parts, means = [_laid_out(part) for part, _ in cleared], [mean for _, mean in cleared]
    weights, present = [float(block.weight) for block in blocks], [block.present for block in blocks]
    measures = [_measure(*one) for one in zip(distances, parts, [block.smoothing for block in blocks], strict=True)]
    squares = [_squared_norms(part) for part in parts]
    constants = [
        weight * measure.constant(part, square)
        for measure, weight, part, square in zip(measures, weights, parts, squares, strict=True)
    ]
    square = _add(weight * square for weight, square in zip(weights, squares, strict=True))
    largest = [None if device_of(square) == "cpu" else largest_entries(part) for part in parts]
    totals, short = [_total(constant) for constant in constants], [None] * len(parts)
    return Features(parts, weights, means, present, distances, measures, constants, totals, largest, short, square)


def tables(features: Features, position: list, empty: Array) -> CenterTables:
    """Make the tables of centres at these positions; an empty cluster costs inf."""
    xp = namespace(empty)
    found, offset, partial = [], xp.zeros(len(empty)), []
    for kind, weight, present, where in features.kinds(features.weights, features.present, position):
        found.append((weight * kind.table(where, features.dtype)).astype(features.dtype))
        own = kind.offset(where)
        if own is not None and present is not None:
            partial.append((present, (weight * own).astype(features.dtype)))
        elif own is not None:
            offset = offset + weight * own
    return CenterTables(found, xp.where(empty, xp.inf, offset), partial)


def positions(features: Features, sums: list, masses: list) -> list:
    """Place the centres of clusters, in float64, for sums of rows, or for rows themselves and masses of 1."""
    of_all = features.kinds(sums, masses)
    return [kind.position(total.astype("float64", copy=False), mass) for kind, total, mass in of_all]


def saved(features: Features, sums: list, masses: list) -> list[float]:
    """Return what clusters with these sums of rows, and means as centres, save of each part's sum of `constant`."""
    return [
        weight * float(kind.saved(total, mass).sum())
        for kind, weight, total, mass in features.kinds(features.weights, sums, masses)
    ]


def shifts(features: Features, before: list, after: list) -> Array:
    """Return how far each centre has moved; it is infinitely far where that says nothing of costs."""
    if not features.bounded:
        return namespace(after[0]).full(len(after[0]), namespace(after[0]).inf)
    squares = [((a - b) ** 2).sum(1) for a, b in zip(after, before, strict=True)]
    return _add(weight * square for weight, square in zip(features.weights, squares, strict=True)) ** 0.5


def scores(features: Features, found: CenterTables, begin: int, end: int) -> Array:
    """Return what each cluster costs rows begin .. end - 1, less what is the same for all rows or for all clusters."""
    out: Any = None
    for part, table in zip(features.parts, found.tables, strict=True):
        if isinstance(part, Csr):
            turned, added = namespace(table).ascontiguousarray(table.T), out is not None
            out = namespace(table).empty((end - begin, len(table)), table.dtype) if out is None else out
            twin(table).csr_scores(part, begin, turned, added, out)
        else:
            product = part[begin:end] @ table.T
            out = product if out is None else out + product
    for present, offset in found.partial:
        out = out + present[begin:end, None] * offset
    return out


def own_scores(features: Features, found: CenterTables, label: Array) -> Array:
    """Return what its own cluster costs each row, as in `scores`."""

    def of_own(table: Array) -> Callable:
        return lambda x, rows, columns: x * table[label[rows], columns]

    out = _add(row_sums(part, of_own(table)) for part, table in zip(features.parts, found.tables, strict=True))
    for present, offset in found.partial:
        out = out + present * offset[label]
    return out


def without_rounding(features: Features, costs: Array) -> Array:
    """Set costs to 0 where they may be nothing but rounding errors of their terms."""
    return namespace(costs).where(costs <= rounding(features), 0, costs)


def rounding(features: Features) -> Array:
    """Return how large the cost of each row may be that is nothing but rounding errors of its terms."""
    size = abs(features.constant)
    if "kl" in features.distances:  # the constant of a row that is all in one column is 0, unlike its terms
        size = size + features.square**0.5
    return noise(features) * size


def drowned(features: Features, weight: Array, objective: float) -> bool:
    """Tell whether clusters in float32 cost so little that rounding has had a part in them; copies of rows have none.

    Rows are then much nearer to each other than to the mean of all rows.
    """
    if features.dtype != "float32":
        return False
    unsure = float((rounding(features) * weight).sum())
    return COPY * unsure < objective <= NEAR * unsure


def noise(features: Features) -> float:
    """Return how large rounding errors of a cost may be, as a part of its terms."""
    return 64 * float(namespace(features.square).finfo(features.dtype).eps)


def largest_entries(part: Any) -> Array:
    """Return the size of the largest entry of each column, or of all columns of a sparse part, in float64."""
    xp, values = namespace(entries(part)), entries(part)
    if not values.size:
        return xp.zeros(part.shape[1])
    size = xp.maximum(values.max(0), -values.min(0)).astype("float64")
    return size + xp.zeros(part.shape[1])


def _total(constant: Array) -> float | None:
    """Add up the constants of the rows on the CPU; on a device that would wait for it."""
    return float(constant.sum()) if device_of(constant) == "cpu" else None


def _squared_norms(part: Any) -> Array:
    """Sum the squares of each row, in float64."""
    on_host = device_of(entries(part)) == "cpu"
    return columns.squared_norms(part) if on_host and isinstance(part, Csr) else squared_norms(part)


def _laid_out(part: Any) -> Any:
    """Return a part of features as kernels of a device take it; on the CPU as it is."""
    if device_of(entries(part)) == "cpu":
        return part
    xp = namespace(entries(part))
    if not isinstance(part, Csr):
        return xp.ascontiguousarray(part)
    indices, indptr = part.indices.astype("int32", copy=False), part.indptr.astype("int64", copy=False)
    return part._replace(data=xp.ascontiguousarray(part.data), indices=indices, indptr=indptr)


def _add(values: Any) -> Array:
    return functools.reduce(operator.add, values)


def _measure(distance: str, part: Any, smoothing: float) -> SquaredEuclidean:
    """Return what measures a distance; with smoothing it mixes each row with the sum of all rows."""
    if not smoothing:
        return KINDS[distance]
    total = column_sums(part)
    return SmoothedKullbackLeibler(smoothing * (total / total.sum()))


def _cleared(block: FeatureBlock, centre: bool) -> tuple[Any, Array | None]:
    """Return the block with zeros for absent rows, and its mean, taken off it, if it is dense and to be centred."""
    X, present = block.X, block.present
    if block.mean is not None:
        return X, block.mean
    if isinstance(X, Csr):
        return (X if present is None else X.blank(~present)), None
    if present is not None:
        X = namespace(X).where(present[:, None], X, 0)
    return centred(X, present) if centre else (X, None)


def centred(X: Array, present: Array | None) -> tuple[Array, Array]:
    """Take the mean of the rows that are present off them, and return it, too; the other rows are 0, and stay that."""
    mean = mean_of(X, present)
    X = X - mean
    if present is not None:
        X[~present] = 0
    return X, mean


def mean_of(X: Array, present: Array | None) -> Array:
    """Return the mean of the rows that are present; the other rows are 0."""
    n = X.shape[0] if present is None else present.sum()
    return (X.sum(0, dtype="float64") / n).astype(X.dtype)
