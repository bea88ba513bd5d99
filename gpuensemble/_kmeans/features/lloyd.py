"""Lloyd's k-means clusters features, dense or sparse, in weighted blocks of columns that a row may be absent from."""

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._kernels.cpu import features as cpu_features
from gpuensemble._kernels.cpu import lloyd as cpu_lloyd
from gpuensemble._kernels.cpu.lloyd import Stop
from gpuensemble._kernels.distances import divide
from gpuensemble._kmeans.features import distances
from gpuensemble._kmeans.features.distances import CenterTables, Features
from gpuensemble._kmeans.features.seeding import plus_plus, positions_of, random_rows


class KMeans(NamedTuple):
    """This is what k-means found; `centers` are the means of the clusters, a list of them for several blocks."""

    labels: Array
    centers: Any
    objective: float
    n_iter: int
    costs: list[float]  # what each block adds to the objective


@dataclass
class Clustering:
    """This holds labels and what follows from them: per block and cluster the sum, number and weight of the rows."""

    labels: Array
    margin: Array
    sums: list
    counts: list
    masses: list
    weight: Array  # a single 1 where all rows count the same

    @property
    def empty(self) -> Array:
        """Tell which clusters have no row, and so no centre, in some block."""
        return functools.reduce(operator.or_, [count == 0 for count in self.counts])


class Start(NamedTuple):
    """Lloyd's iteration begins with this: a clustering, positions of centres, and which clusters are empty."""

    state: Clustering
    position: list
    empty: Array


def kmeans(
    X: Any,
    n_clusters: int,
    rng: Any,
    *,
    distance: str = "sqeuclidean",
    sample_weight: Array | None = None,
    init: Any = "k-means++",
    n_init: int = 1,
    max_iter: int = 100,
    tol: float = 1e-4,
) -> KMeans:
    """Cluster rows by Lloyd's k-means; the arguments are taken to be right.

    Parameters
    ----------
    X : array, `Csr`, list of (array or `Csr`, weight, present), or `Features`, n rows
        float32 or float64. The distances of the blocks of a list, times their weights, add up. A row takes part only in
        the centres and distances of the blocks in which it is `present` (n booleans; without them, all). `Features`
        come from `prepare` with their own distance, to serve many runs.
    n_clusters : int
        The number of clusters asked for.
    rng : numpy.random.Generator
        For seeding. k-means++ draws from a random sample of max(4096, 64 * n_clusters) rows.
    distance : {"sqeuclidean", "cosine", "kl"}
        |x - c|^2, |x| - x.c/|c|, or sum x log(x/c) of x and c as distributions, times the sum of x, whose entries must
        not be negative. The centre of a cluster is the mean of its rows for all three.
    sample_weight : array of n float64, optional
        How much each row counts; without it all count the same.
    init : {"k-means++", "random"}, centres or labels
        "random": rows, all equally likely. Centres: n_clusters x columns, or a list of one such array per block.
        Labels: n integers, -1 for none. For "kl", rows are chosen and first assigned to by "cosine", because nearly all
        rows are infinitely far from a single one.
    n_init : int
        Number of starts; the least objective wins, the first of those that are equal but for rounding.
    max_iter : int
        Most iterations of a start.
    tol : float
        A start ends when no label changes, or when the objective falls by at most `tol` times itself.

    Returns
    -------
    KMeans
        Fewer clusters than asked for if there are fewer distinct rows. A row absent from all blocks has label -1.
    """
    features = X if isinstance(X, Features) else distances.prepare(X, distance)
    weight = namespace(features.square).ones(1) if sample_weight is None else sample_weight

    def run() -> KMeans:
        if isinstance(init, str):
            start = _seeded(features, n_clusters, plus_plus if init == "k-means++" else random_rows, rng, weight)
        elif not isinstance(init, list) and init.ndim == 1:
            start = _labelled(features, n_clusters, init, weight)
        else:
            start = _placed(features, _given(features, init), weight)
        return _lloyd(features, start, max_iter, tol)

    best = run()
    for _ in range(n_init - 1):
        found = run()
        # two starts often end in the same clusters: rounding must not choose between them
        if found.objective < (1 - 1000 * float(namespace(found.labels).finfo(features.dtype).eps)) * best.objective:
            best = found
    return best


def _lloyd(features: Features, start: Start, max_iter: int, tol: float) -> KMeans:
    """Go from positions of centres to clusters and their means."""
    state, position, empty = start
    shift = namespace(empty).zeros(len(empty))
    totals = [float((constant * state.weight).sum()) for constant in features.constants]
    previous = objective = math.inf
    n_iter = 0
    while True:
        limit = max_iter - n_iter
        stop = Stop(sum(totals), objective, limit, float(tol))
        steps, moved, previous = _advance(features, state, position, empty, shift, stop)
        n_iter += steps
        empty = _refill(features, state)
        saved = distances.saved(features, state.sums, state.masses)
        costs = [max(0.0, total - part) for total, part in zip(totals, saved, strict=True)]
        objective = sum(costs)
        if moved == 0 or n_iter == max_iter or previous - objective <= tol * objective:
            return _result(features, state, ~empty, costs, n_iter)
        before, position = position, distances.positions(features, state.sums, state.masses)
        shift = distances.shifts(features, before, position)


def _advance(
    features: Features, state: Clustering, position: list, empty: Array, shift: Array, stop: Stop
) -> tuple[int, int, float]:
    """Make one step or more; return how many, how many rows the last one moved, and the objective before it."""
    on_cpu = device_of(state.labels) == "cpu"
    if on_cpu and cpu_lloyd.fits(features):
        return cpu_lloyd.advance(features, state, position, empty, shift, stop)
    found = distances.tables(features, position, empty)
    return 1, (cpu_features.step if on_cpu else _step)(features, state, found, shift), stop.objective


def _state(features: Features, k: int, weight: Array) -> Clustering:
    """Make a clustering in which no row has a label yet."""
    xp = namespace(features.square)
    n = len(features.square)
    sums = [xp.zeros((k, part.shape[1])) for part in features.parts]
    counts, masses = [xp.zeros(k, "int64") for _ in sums], [xp.zeros(k) for _ in sums]
    return Clustering(xp.full(n, -1, "int32"), xp.zeros(n), sums, counts, masses, weight)


def _placed(features: Features, position: list, weight: Array) -> Start:
    """Put centres at these positions."""
    k = len(position[0])
    return Start(_state(features, k, weight), position, namespace(features.square).zeros(k, bool))


def _labelled(features: Features, k: int, labels: Array, weight: Array) -> Start:
    """Put centres at the means of labelled rows."""
    state = _state(features, k, weight)
    state.labels = labels.astype("int32")
    _sum_up(features, state)
    return _at_means(features, state)


def _at_means(features: Features, state: Clustering) -> Start:
    """Put centres at the means of clusters, which no row is known to be near to."""
    empty = _refill(features, state)
    state.margin[:] = 0
    return Start(state, distances.positions(features, state.sums, state.masses), empty)


def _seeded(features: Features, k: int, choose: Callable, rng: Any, weight: Array) -> Start:
    """Put centres at chosen rows; for "kl" put them at the means of the rows nearest to these by "cosine"."""
    if "kl" not in features.distances:
        return _placed(features, choose(features, k, rng, weight), weight)
    blocks = zip(features.parts, features.weights, features.present, strict=True)
    by_cosine = distances.prepare(list(blocks), "cosine")
    state, position, empty = _placed(by_cosine, choose(by_cosine, k, rng, weight), weight)
    step = cpu_features.step if device_of(state.labels) == "cpu" else _step
    step(by_cosine, state, distances.tables(by_cosine, position, empty), None)
    return _at_means(features, state)


def _step(features: Features, state: Clustering, found: CenterTables, shift: Array) -> int:
    """Give each row the cheapest centre and sum up anew; return how many rows moved.

    The sums are products with one-hot matrices, because atomic additions would differ from run to run.
    """
    xp = namespace(found.offset)
    moved = 0
    _forget_sums(state)
    for begin, end, blocks in features.row_blocks(len(found.offset)):
        costs = distances.scores(found, blocks, begin, end) + found.offset.astype(features.dtype)
        labels = xp.argmin(costs, axis=1).astype("int32")
        moved += (labels != state.labels[begin:end]).sum()
        state.labels[begin:end] = labels
        _add_rows(features, state, begin, end, blocks)
    return int(moved)


def _sum_up(features: Features, state: Clustering) -> None:
    """Find sums, counts and masses anew from the labels."""
    if device_of(state.labels) == "cpu":
        cpu_features.sum_up(features, state)
        return
    _forget_sums(state)
    for begin, end, blocks in features.row_blocks(len(state.counts[0])):
        _add_rows(features, state, begin, end, blocks)


def _forget_sums(state: Clustering) -> None:
    xp = namespace(state.labels)
    state.sums, state.counts, state.masses = (
        [xp.zeros_like(total) for total in totals] for totals in (state.sums, state.counts, state.masses)
    )


def _add_rows(features: Features, state: Clustering, begin: int, end: int, blocks: list) -> None:
    """Add rows to the sums, counts and masses of their clusters."""
    xp = namespace(state.labels)
    onehot = state.labels[begin:end, None] == xp.arange(len(state.counts[0]), dtype="int32")
    weight = (state.weight if len(state.weight) == 1 else state.weight[begin:end])[:, None]
    weighted = (onehot * weight).T.astype(features.dtype)
    for i, (block, present) in enumerate(zip(blocks, features.present, strict=True)):
        seen = onehot if present is None else onehot & present[begin:end, None]
        state.counts[i] += seen.sum(0)
        state.masses[i] += (seen * weight).sum(0)
        state.sums[i] = state.sums[i] + weighted @ block


def _refill(features: Features, state: Clustering) -> Array:
    """Give each empty cluster the row farthest from its centre; return the clusters that stay empty.

    Some do where every row is at its centre: there are fewer distinct rows than clusters.
    """
    empty = state.empty
    for k in namespace(empty).nonzero(empty)[0].tolist():
        costs = _costs(features, state)
        x = int(costs.argmax())
        if not float(costs[x]) > 0:
            break
        state.labels[x], state.margin[x] = k, 0
        _sum_up(features, state)
        empty = state.empty
    return empty


def _costs(features: Features, state: Clustering) -> Array:
    """Return the distance of each row from the mean of its cluster; it is 0 for a row that is absent from a block."""
    position = distances.positions(features, state.sums, state.masses)
    found = distances.tables(features, position, state.empty)
    xp, label = namespace(found.offset), state.labels
    costs = features.constant + found.offset[label] + distances.own_scores(features, found, label)
    costs = xp.where((label >= 0) & ~state.empty[label], costs, 0)
    costs = costs if features.whole is None else xp.where(features.whole, costs, 0)
    return distances.without_rounding(features, costs)


def _given(features: Features, init: Any) -> list:
    """Find the positions of the caller's centres."""
    centers = init if isinstance(init, list) else [init]
    return positions_of(features, _add_means(features, centers, -1))


def _add_means(features: Features, centers: list, sign: int) -> list:
    return [c if mean is None else c + sign * mean for c, mean in zip(centers, features.means, strict=True)]


def _result(features: Features, state: Clustering, kept: Array, costs: list[float], n_iter: int) -> KMeans:
    """Make the result from the clusters that are kept: those that have rows."""
    xp = namespace(state.labels)
    labels = (kept.cumsum() - 1).astype("int32")[state.labels]
    if features.whole is not None:
        somewhere = functools.reduce(operator.or_, [True if one is None else one for one in features.present])
        labels = xp.where(kept[state.labels] & somewhere, labels, -1).astype("int32")
    means = [divide(*pair)[kept] for pair in zip(state.sums, state.masses, strict=True)]
    centers = [center.astype(features.dtype, copy=False) for center in _add_means(features, means, 1)]
    return KMeans(labels, centers if len(centers) > 1 else centers[0], sum(costs), n_iter, costs)
