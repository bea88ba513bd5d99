"""Lloyd's k-means over feature matrices, dense or sparse, in weighted blocks of columns."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuensemble import _cpu_features, _distance
from gpuensemble._array import Array, device_of, namespace, to_device
from gpuensemble._distance import Features

SEED_ROWS, SEED_ROWS_PER_CLUSTER = 4096, 64  # k-means++ draws from a random sample of this many rows


class KMeans(NamedTuple):
    """A partition of rows: `centers` are the means of the clusters, a list of them where there are several blocks."""

    labels: Array
    centers: Any
    objective: float
    n_iter: int


@dataclass
class State:
    """Labels, and what follows from them: per cluster the sums of rows, their number, their weight."""

    labels: Array
    margin: Array
    sums: list
    count: Array
    mass: Array
    weight: Array  # a single 1 where all rows count the same


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

    Parameters
    ----------
    X : array, `Csr`, list of (array or `Csr`, weight), or `Features`, n rows
        float32 or float64. The distances of the blocks of a list, times their weights, add up. `Features` come from
        `prepare` with their own distance, to serve many runs.
    n_clusters : int
    rng : numpy.random.Generator
        For k-means++ seeding, which draws from a random sample of max(4096, 64 * n_clusters) rows.
    distance : {"sqeuclidean", "cosine"}
        |x - c|^2, or |x| - x.c/|c|. The centre of a cluster is the mean of its rows for both.
    sample_weight : array of n float64, optional
    init : centres, optional
        n_clusters x columns, or a list of one such array per block, instead of k-means++.
    n_init : int
        Number of starts; the least objective wins, the first of those that are equal but for rounding.
    max_iter : int
        Most iterations of a start.
    tol : float
        A start ends when no label changes, or when the objective falls by at most `tol` times itself.

    Returns
    -------
    KMeans
        Fewer clusters than asked for if there are fewer distinct rows.
    """
    features = X if isinstance(X, Features) else _distance.prepare(X, distance)
    weight = namespace(features.square).ones(1) if sample_weight is None else sample_weight

    def start() -> KMeans:
        position = _seed(features, n_clusters, rng, weight) if init is None else _given(features, init)
        return _lloyd(features, weight, position, max_iter, tol)

    # two starts often end in the same clusters: rounding must not choose between them
    lower = 1 - 1000 * float(namespace(features.square).finfo(features.dtype).eps)
    best = start()
    for _ in range(n_init - 1):
        found = start()
        if found.objective < lower * best.objective:
            best = found
    return best


def _lloyd(features: Features, weight: Array, position: list, max_iter: int, tol: float) -> KMeans:
    """From positions of centres to clusters and their means."""
    state = _state(features, weight, len(position[0]))
    step = _cpu_features.step if device_of(state.labels) == "cpu" else _step
    empty = state.count < 0
    shift = namespace(empty).zeros(len(empty))
    total = float((features.constant * weight).sum())
    objective = math.inf
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        moved = step(features, state, *_distance.tables(features, position, empty), shift)
        empty = _refill(features, state)
        before, position = position, _centers(features, state)
        shift = _distance.shifts(features, before, position)
        previous, objective = objective, max(0.0, total - _distance.saved(features, state.sums, state.mass))
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

    The sums are products with one-hot matrices, because atomic additions would differ from run to run.
    """
    xp = namespace(offset)
    clusters, moved = xp.arange(len(offset), dtype="int32"), 0
    state.sums = [xp.zeros_like(total) for total in state.sums]
    state.count, state.mass = xp.zeros_like(state.count), xp.zeros_like(state.mass)
    for begin, end, blocks in features.row_blocks(len(offset)):
        costs = _distance.scores(blocks, tables) + offset.astype(features.dtype)
        labels = xp.argmin(costs, axis=1).astype("int32")
        moved += (labels != state.labels[begin:end]).sum()
        state.labels[begin:end] = labels
        onehot = labels[:, None] == clusters
        weighted = onehot * (state.weight if len(state.weight) == 1 else state.weight[begin:end])[:, None]
        state.count += onehot.sum(0)
        state.mass += weighted.sum(0)
        weighted = weighted.T.astype(features.dtype)
        state.sums = [total + weighted @ block for total, block in zip(state.sums, blocks, strict=True)]
    return int(moved)


def _centers(features: Features, state: State) -> list:
    return _distance.positions(features, [_distance.divide(total, state.mass) for total in state.sums])


def _refill(features: Features, state: State) -> Array:
    """Give each empty cluster the row farthest from its centre; returns the clusters that stay empty.

    They do where every row is at its centre: there are fewer distinct rows than clusters.
    """
    for k in namespace(state.count).nonzero(state.count == 0)[0].tolist():
        costs = _costs(features, state)
        x = int(costs.argmax())
        if not float(costs[x]) > 0:
            break
        _transfer(features, state, x, k)
    return state.count == 0


def _transfer(features: Features, state: State, x: int, k: int) -> None:
    """Move row x to cluster k, which is empty."""
    old, weight = int(state.labels[x]), state.weight[x if len(state.weight) > 1 else 0]
    for row, total in zip(features.dense(x, x + 1), state.sums, strict=True):
        total[k] = weight * row[0]
        total[old] = total[old] - total[k]
    state.count[k], state.count[old] = 1, state.count[old] - 1
    state.mass[k], state.mass[old] = weight, state.mass[old] - weight
    state.labels[x], state.margin[x] = k, 0


def _costs(features: Features, state: State) -> Array:
    """The distance of each row from the mean of its cluster."""
    tables, offset = _distance.tables(features, _centers(features, state), state.count == 0)
    costs = features.constant + offset[state.labels]
    for begin, end, blocks in features.row_blocks(1):
        labels = state.labels[begin:end]
        for block, table in zip(blocks, tables, strict=True):
            costs[begin:end] = costs[begin:end] + (block * table[labels]).sum(1)
    return _distance.without_rounding(features, costs)


def _seed(features: Features, k: int, rng: Any, weight: Array) -> list:
    """Greedy k-means++: positions of rows, each the best of a few that are drawn with probability proportional to cost.

    Fewer than k if no cost is left.
    """
    features, weight = _sample(features, weight, max(SEED_ROWS, SEED_ROWS_PER_CLUSTER * k), rng)
    xp = namespace(features.square)
    costs = xp.full(len(features.square), xp.inf)
    potential = xp.ones(len(costs)) * weight
    drawn: list = []
    while len(drawn) < k and float(potential.max()) > 0:
        rows = _draw(potential, 2 + int(math.log(k)) if drawn else 1, rng)
        position = _distance.positions(features, features.take(rows).dense(0, len(rows)))
        new = xp.minimum(costs, _costs_of_all(features, position))
        best = int((new * weight).sum(1).argmin())
        drawn.append([part[best : best + 1] for part in position])
        costs = new[best]
        potential = costs * weight
    return [xp.concatenate(rows) for rows in zip(*drawn, strict=True)]


def _sample(features: Features, weight: Array, size: int, rng: Any) -> tuple[Features, Array]:
    """Random rows and their weights; all of them if they are not more than `size`."""
    n = len(features.square)
    if n <= size:
        return features, weight
    rows = to_device(rng.choice(n, size, replace=False), device_of(weight))
    return features.take(rows), weight if len(weight) == 1 else weight[rows]


def _costs_of_all(features: Features, position: list) -> Array:
    """The distance of each centre, by rows, from each row, by columns."""
    xp = namespace(features.square)
    tables, offset = _distance.tables(features, position, xp.zeros(len(position[0]), bool))
    if device_of(offset) == "cpu":
        scores = _cpu_features.scores(features, tables)
    else:
        blocks = (blocks for _, _, blocks in features.row_blocks(len(offset)))
        scores = xp.concatenate([_distance.scores(rows, tables) for rows in blocks])
    return _distance.without_rounding(features, features.constant + offset[:, None] + scores.T)


def _draw(potential: Array, n: int, rng: Any) -> Array:
    """Rows with probability proportional to their potential, which is rounded so that prefix sums are exact."""
    xp = namespace(potential)
    scale = 2.0**62 / (len(potential) * float(potential.max()))
    ends = xp.cumsum((potential * scale).astype("int64"))
    total = int(ends[-1])  # a bounded integer would use up more draws for some totals than for others
    places = [min(int(place * total), total - 1) for place in rng.random(n).tolist()]
    return xp.searchsorted(ends, xp.asarray(places), side="right")


def _given(features: Features, init: Any) -> list:
    """Positions of the caller's centres."""
    centers = init if isinstance(init, list) else [init]
    return _distance.positions(features, _add_means(features, centers, -1))


def _add_means(features: Features, centers: list, sign: int) -> list:
    return [c if mean is None else c + sign * mean for c, mean in zip(centers, features.means, strict=True)]


def _result(features: Features, state: State, objective: float, n_iter: int) -> KMeans:
    """Clusters without rows are left out."""
    kept = state.count > 0
    rank = (kept.cumsum() - 1).astype("int32")
    centers = _add_means(features, [_distance.divide(total, state.mass)[kept] for total in state.sums], 1)
    centers = [center.astype(features.dtype) for center in centers]
    return KMeans(rank[state.labels], centers if len(centers) > 1 else centers[0], objective, n_iter)
