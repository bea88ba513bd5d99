"""Lloyd's k-means over feature matrices, dense or sparse, in weighted blocks of columns."""

import functools
import operator
from typing import Any, NamedTuple

from gpuensemble import _cpu_features
from gpuensemble._array import Array, device_of, namespace, to_device
from gpuensemble._csr import Csr

DISTANCES = ("sqeuclidean", "cosine")
CHUNK = 1 << 23  # entries of a row block on a device, and of the work on it
SEED_ROWS, SEED_ROWS_PER_CLUSTER = 4096, 64  # k-means++ draws from a random sample of this many rows at least


class KMeans(NamedTuple):
    """A partition of rows: `centers` are the means of the clusters, a list of them where X is a list of blocks."""

    labels: Array
    centers: Any
    objective: float
    n_iter: int


class Features(NamedTuple):
    """Blocks of columns ready for k-means: `square` is the squared norm of a row, `constant` its part of the cost."""

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


class State(NamedTuple):
    """Labels, and what follows from them: sums of rows, number and weight of rows per cluster; changed in place."""

    labels: Array
    margin: Array
    sums: list
    count: Array
    mass: Array
    weight: Array  # a single 1 where all rows count the same


def prepare(X: Any, distance: str) -> Features:
    """Norms, and for squared Euclidean distances a dense block less its mean, which costs fewer digits."""
    given = X if isinstance(X, list) else [(X, 1.0)]
    means, parts = [], []
    for block, _ in given:
        centred = distance == "sqeuclidean" and not isinstance(block, Csr)
        means.append(block.mean(0, dtype="float64") if centred else None)
        parts.append(block - means[-1].astype(block.dtype) if centred else block)
    weights = [float(weight) for _, weight in given]
    squares = [weight * _squares(part) for part, weight in zip(parts, weights, strict=True)]
    square = functools.reduce(operator.add, squares)
    if distance == "sqeuclidean":
        constant = square
    else:
        norms = [(weight * part) ** 0.5 for part, weight in zip(squares, weights, strict=True)]
        constant = functools.reduce(operator.add, norms)
    return Features(parts, weights, means, square, constant, distance)


def kmeans(
    X: Any,
    n_clusters: int,
    rng: Any,
    *,
    distance: str = "sqeuclidean",
    sample_weight: Array | None = None,
    init: Any = None,
    n_init: int = 1,
    max_iter: int = 100,
    tol: float = 1e-4,
) -> KMeans:
    """Lloyd's k-means; the arguments are taken to be right.

    The distance of a row x to a centre c is |x - c|^2, or |x| - x.c/|c| (Table 3 of CMVC, "cosine"): both are the
    point-to-centroid distances of a convex function, |x|^2 and |x|, so the best centre is the mean of the rows as they
    are, not of the rows normalised. A long row counts more than a short one of the same direction.

    Parameters
    ----------
    X : array, `Csr`, or list of (array or `Csr`, weight), n rows
        float32 or float64. The distances of the blocks of a list, times their weights, add up.
    n_clusters : int
    rng : numpy.random.Generator
        For k-means++ seeding, which draws from a random sample of max(4096, 64 * n_clusters) rows.
    distance : {"sqeuclidean", "cosine"}
    sample_weight : array of n float64, optional
    init : centres, optional
        n_clusters x columns, or a list of one such array per block, instead of k-means++.
    n_init : int
        Number of starts; the least objective wins.
    max_iter : int
        Most iterations of a start.
    tol : float
        A start ends when no label changes, or when the objective falls by at most `tol` times itself.

    Returns
    -------
    KMeans
        Fewer clusters than asked for if there are fewer distinct rows.
    """
    features = X if isinstance(X, Features) else prepare(X, distance)
    weight = namespace(features.square).ones(1) if sample_weight is None else sample_weight
    best = None
    for _ in range(n_init):
        start = _seed(features, n_clusters, rng, weight) if init is None else _given(features, init)
        found = _lloyd(features, weight, start, max_iter, tol)
        if best is None or found.objective < best.objective:
            best = found
    return best


def _lloyd(features: Features, weight: Array, position: list, max_iter: int, tol: float) -> KMeans:
    """From positions (centres, or their unit vectors) to the means of the clusters."""
    state = _state(features, weight, len(position[0]))
    xp = namespace(state.labels)
    step = _cpu_features.step if device_of(state.labels) == "cpu" else _step
    empty = xp.zeros(len(position[0]), bool)
    shift = xp.zeros(len(position[0]))
    total = float((features.constant * weight).sum())
    objective, previous = xp.inf, xp.inf
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        moved = step(features, state, *_tables(features, position, empty), shift)
        empty = _refill(features, state)
        before, position = position, _positions(features, state)
        shift = _shifts(features, before, position)
        previous, objective = objective, max(0.0, total - _gain(features, state))
        if moved == 0 or previous - objective <= tol * objective:
            break
    return _result(features, state, objective, n_iter)


def _state(features: Features, weight: Array, k: int) -> State:
    """No row has a label yet."""
    xp = namespace(features.square)
    n = len(features.square)
    sums = [xp.zeros((k, part.shape[1])) for part in features.parts]
    return State(xp.full(n, -1, "int32"), xp.zeros(n), sums, xp.zeros(k, "int64"), xp.zeros(k), weight)


def _step(features: Features, state: State, tables: list, offset: Array, shift: Array) -> int:
    """Give each row the cheapest centre and sum up anew; returns how many rows moved.

    The sums are matrix products with one-hot rows, because atomic additions would differ from run to run.
    """
    xp = namespace(offset)
    clusters, moved = xp.arange(len(offset), dtype="int32"), 0
    for out in (*state.sums, state.count, state.mass):
        out[...] = 0
    for begin, end, blocks in _row_blocks(features, len(offset)):
        labels = xp.argmin(_scores(blocks, tables) + offset.astype(features.dtype), axis=1).astype("int32")
        moved += (labels != state.labels[begin:end]).sum()
        state.labels[begin:end] = labels
        onehot = labels[:, None] == clusters
        weight = state.weight if len(state.weight) == 1 else state.weight[begin:end]
        weighted = onehot * weight[:, None]
        state.count += onehot.sum(0)
        state.mass += weighted.sum(0)
        for total, block in zip(state.sums, blocks, strict=True):
            total += weighted.astype(block.dtype).T @ block
    return int(moved)


def _row_blocks(features: Features, k: int):
    """(first row, end, the rows of each part as a dense array)."""
    n = len(features.square)
    rows = max(1, CHUNK // (k + sum(part.shape[1] for part in features.parts)))
    for begin in range(0, n, rows):
        end = min(n, begin + rows)
        yield begin, end, [p.dense(begin, end) if isinstance(p, Csr) else p[begin:end] for p in features.parts]


def _scores(blocks: list, tables: list) -> Array:
    return functools.reduce(operator.add, (block @ table.T for block, table in zip(blocks, tables, strict=True)))


def _tables(features: Features, position: list, empty: Array) -> tuple[list, Array]:
    """(tables, offset) such that the cost of row x in cluster k is constant[x] + offset[k] + x . tables[k]."""
    xp = namespace(empty)
    if features.distance == "sqeuclidean":
        tables = [-2 * weight * p for p, weight in zip(position, features.weights, strict=True)]
        offset = _weighted(features, [(p * p).sum(1) for p in position])
    else:
        tables = [-weight * p for p, weight in zip(position, features.weights, strict=True)]
        offset = xp.zeros(len(empty))
    return [table.astype(features.dtype) for table in tables], xp.where(empty, xp.inf, offset)


def _positions(features: Features, state: State) -> list:
    """The centres of the clusters; for cosine their unit vectors. 0 where there is none."""
    if features.distance == "sqeuclidean":
        return [_divide(total, state.mass) for total in state.sums]
    return [_unit(total) for total in state.sums]


def _gain(features: Features, state: State) -> float:
    """What the clusters save of the sum of `constant`: with the centres at their means, the objective is the rest."""
    norms = [(total * total).sum(1) for total in state.sums]
    saved = [_divide(norm, state.mass) if features.distance == "sqeuclidean" else norm**0.5 for norm in norms]
    return float(_weighted(features, saved).sum())


def _shifts(features: Features, before: list, after: list) -> Array:
    """How far each centre has moved."""
    return _weighted(features, [((a - b) ** 2).sum(1) for a, b in zip(after, before, strict=True)]) ** 0.5


def _refill(features: Features, state: State) -> Array:
    """Give each empty cluster the row farthest from its centre; returns the clusters that stay empty.

    They do where every row is where its centre is: there are fewer distinct rows than clusters.
    """
    xp = namespace(state.labels)
    for k in xp.nonzero(state.count == 0)[0].tolist():
        costs = _costs(features, state)
        x = int(costs.argmax())
        if not float(costs[x]) > 0:
            break
        old, w = int(state.labels[x]), state.weight[x if len(state.weight) > 1 else 0]
        for part, total in zip(features.parts, state.sums, strict=True):
            row = (part.dense(x, x + 1) if isinstance(part, Csr) else part[x : x + 1])[0] * w
            total[old] -= row
            total[k] += row
        for values, one in ((state.count, 1), (state.mass, w)):
            values[old] -= one
            values[k] += one
        state.labels[x], state.margin[x] = k, 0
    return state.count == 0


def _costs(features: Features, state: State) -> Array:
    """The distance of each row from the mean of its cluster; what may be rounding is 0."""
    xp = namespace(state.labels)
    tables, offset = _tables(features, _positions(features, state), state.count == 0)
    costs = features.constant + offset[state.labels]
    for begin, end, blocks in _row_blocks(features, 1):
        for block, table in zip(blocks, tables, strict=True):
            costs[begin:end] += (block * table[state.labels[begin:end]]).sum(1)
    return xp.where(_is_zero(features, costs), 0, costs)


def _is_zero(features: Features, costs: Array) -> Array:
    """Where a cost is within the rounding errors of its terms."""
    return costs <= 64 * float(namespace(costs).finfo(features.dtype).eps) * features.constant


def _seed(features: Features, k: int, rng: Any, weight: Array) -> list:
    """k-means++: positions of rows drawn with probability proportional to their cost; fewer if no cost is left."""
    xp = namespace(features.square)
    n = len(features.square)
    if (size := max(SEED_ROWS, SEED_ROWS_PER_CLUSTER * k)) < n:
        rows = to_device(rng.choice(n, size, replace=False), device_of(features.square))
        features, weight = features.take(rows), weight if len(weight) == 1 else weight[rows]
    costs = xp.full(len(features.square), xp.inf)
    drawn: list = []
    potential = xp.ones(len(costs)) * weight
    while len(drawn) < k and bool((potential > 0).any()):
        x = _draw(potential, rng)
        blocks = [part.dense(x, x + 1) if isinstance(part, Csr) else part[x : x + 1] for part in features.parts]
        drawn.append([_unit(b.astype("float64")) if features.distance == "cosine" else b.astype("float64") for b in blocks])
        tables, offset = _tables(features, drawn[-1], xp.zeros(1, bool))
        new = features.constant + offset
        for begin, end, parts in _row_blocks(features, 1):
            new[begin:end] += _scores(parts, tables)[:, 0]
        costs = xp.minimum(costs, xp.where(_is_zero(features, new), 0, new))
        potential = costs * weight
    return [xp.concatenate(blocks) for blocks in zip(*drawn, strict=True)]


def _draw(potential: Array, rng: Any) -> int:
    """A row with probability proportional to its potential, which is rounded so that prefix sums are exact."""
    xp = namespace(potential)
    scale = 2.0**62 / (len(potential) * float(potential.max()))
    ends = xp.cumsum((potential * scale).astype("int64"))
    return int(xp.searchsorted(ends, xp.asarray([int(rng.integers(int(ends[-1])))]), side="right")[0])


def _given(features: Features, init: Any) -> list:
    """Positions of the caller's centres."""
    centers = [c.astype("float64") for c in (init if isinstance(init, list) else [init])]
    if features.distance == "cosine":
        return [_unit(c) for c in centers]
    return [c if mean is None else c - mean for c, mean in zip(centers, features.means, strict=True)]


def _result(features: Features, state: State, objective: float, n_iter: int) -> KMeans:
    """Clusters without rows are left out."""
    xp = namespace(state.labels)
    kept = state.count > 0
    rank = (xp.cumsum(kept) - 1).astype("int32")
    centers = [_divide(total, state.mass)[kept] for total in state.sums]
    centers = [c if mean is None else c + mean for c, mean in zip(centers, features.means, strict=True)]
    centers = [c.astype(features.dtype) for c in centers]
    return KMeans(rank[state.labels], centers if len(centers) > 1 else centers[0], objective, n_iter)


def _weighted(features: Features, values: list) -> Array:
    return functools.reduce(operator.add, (w * v for w, v in zip(features.weights, values, strict=True)))


def _divide(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator by rows; 0 where the denominator is."""
    xp = namespace(numerator)
    safe = xp.where(denominator > 0, denominator, 1)
    return xp.where(denominator > 0, numerator.T / safe, 0).T


def _unit(rows: Array) -> Array:
    return _divide(rows, ((rows * rows).sum(1)) ** 0.5)


def _squares(part: Any) -> Array:
    """The squared norms of the rows, in float64."""
    xp = namespace(part if not isinstance(part, Csr) else part.data)
    out = xp.empty(part.shape[0])
    rows = max(1, CHUNK // part.shape[1])
    for begin in range(0, len(out), rows):
        end = min(len(out), begin + rows)
        block = (part.dense(begin, end) if isinstance(part, Csr) else part[begin:end]).astype("float64")
        out[begin:end] = (block * block).sum(1)
    return out
