"""Lloyd's k-means clusters features, dense or sparse, in weighted blocks of columns that a row may be absent from."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._kernels.cpu.features import lloyd as cpu_lloyd
from gpuensemble._kernels.cpu.features import steps as cpu_features
from gpuensemble._kernels.cpu.features.lloyd import Stop
from gpuensemble._kmeans.features import batches, distances
from gpuensemble._kmeans.features.clusters import Clustering, KMeans, add_means, best, costs_of_rows, result
from gpuensemble._kmeans.features.distances import Features
from gpuensemble._kmeans.features.seeding import plus_plus, positions_of, random_rows, several


class Start(NamedTuple):
    """Lloyd's iteration begins with this: a clustering, positions of centres, and which clusters are empty."""

    state: Clustering
    position: list
    empty: Array
    placed: bool = True  # else the positions are to be the means of the labelled rows


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
        Where float32 has too few digits for rows so near to each other, float64 finds the clusters.
    """
    features = X if isinstance(X, Features) else distances.prepare(X, distance)
    alike = sample_weight is None or len(sample_weight) == 1  # a single row is its own centre, whatever it weighs
    weight = namespace(features.square).ones(1) if alike else sample_weight

    def of(features: Features) -> KMeans:
        starts = _starts(features, [n_clusters] * n_init, [rng] * n_init, weight, init)
        if device_of(weight) == "cpu":
            return best([_lloyd(features, _at(features, start, weight), max_iter, tol) for start in starts], features)
        return batches.lloyd(features, starts, weight, max_iter, tol, n_init)[0]

    return _undrowned(features, weight, of(features), of)


def _undrowned(features: Features, weight: Array, found: KMeans, again: Callable[[Features], KMeans]) -> KMeans:
    """Return what was found, or what float64 finds where rounding has had a part in it."""
    if not distances.drowned(features, weight, found.objective):
        return found
    wide = again(features.wide())
    return wide._replace(means=lambda: [mean.astype(features.dtype) for mean in wide.means()])


def many(features: Features, sizes: list[int], rngs: list, n_init: int, max_iter: int, tol: float) -> Iterator[KMeans]:
    """Yield what `kmeans` finds for each number of clusters with its generator, on a device: in batches.

    The centres of a batch go through the iteration side by side. It changes no result, but for rounding where two
    centres are equally far from a row.
    """
    weight = namespace(features.square).ones(1)
    first = 0
    while first < len(sizes):
        last = first + batches.fitting(features, sizes[first:], n_init)
        k_of, rng_of = ([one for one in given[first:last] for _ in range(n_init)] for given in (sizes, rngs))
        starts = _starts(features, k_of, rng_of, weight, "k-means++")
        found = batches.lloyd(features, starts, weight, max_iter, tol, n_init)
        for one, k, rng in zip(found, sizes[first:last], rngs[first:last], strict=True):
            again = partial(kmeans, n_clusters=k, rng=rng, n_init=n_init, max_iter=max_iter, tol=tol)
            yield _undrowned(features, weight, one, again)
        first = last


def _starts(features: Features, sizes: list[int], rngs: list, weight: Array, init: Any) -> list:
    """Return what each start begins with: positions of centres, or labels and their number of clusters."""
    if isinstance(init, str):
        return _seeded(features, sizes, plus_plus if init == "k-means++" else random_rows, rngs, weight)
    labelled = not isinstance(init, list) and init.ndim == 1
    return [(init, k) if labelled else _given(features, init) for k in sizes]


def _seeded(features: Features, sizes: list[int], choose: Callable, rngs: list, weight: Array) -> list:
    """Return the positions of chosen rows; for "kl" the labels of the rows nearest to these by "cosine"."""
    if "kl" not in features.distances:
        return several(features, sizes, rngs, weight, choose)
    blocks = zip(features.parts, features.weights, features.present, strict=True)
    by_cosine = distances.prepare(list(blocks), "cosine")
    positions = several(by_cosine, sizes, rngs, weight, choose)
    return [_nearest(by_cosine, position, weight) for position in positions]


def _nearest(features: Features, position: list, weight: Array) -> tuple[Array, int]:
    """Return the nearest of centres for each row, and how many centres there are."""
    if device_of(weight) != "cpu":
        return batches.nearest(features, position, weight), len(position[0])
    state, _, empty, _ = _placed(features, position, weight)
    cpu_features.step(features, state, distances.tables(features, position, empty), None)
    return state.labels, len(empty)


def _at(features: Features, start: Any, weight: Array) -> Start:
    """Begin at positions of centres, or at the means of labelled rows."""
    if isinstance(start, tuple):
        labels, k = start
        return _labelled(features, labels, k, weight)
    return _placed(features, start, weight)


def _lloyd(features: Features, start: Start, max_iter: int, tol: float) -> KMeans:
    """Go from positions of centres to clusters and their means."""
    state, position, empty, placed = start
    shift = namespace(empty).zeros(len(empty))
    totals = features.totals
    if len(state.weight) > 1:
        totals = [float((constant * state.weight).sum()) for constant in features.constants]
    previous = objective = math.inf
    n_iter = 0
    while True:
        stop = Stop(totals[0], sum(totals[1:]), objective, max_iter - n_iter, float(tol))
        steps, moved, previous, costs = _advance(features, state, position, empty, shift, stop, placed)
        n_iter += steps
        if costs is not None:
            return result(features, state, None, costs, n_iter)
        empty = _refill(features, state)
        if steps:
            saved = distances.saved(features, state.sums, state.masses)
            costs = [max(0.0, total - part) for total, part in zip(totals, saved, strict=True)]
            objective = sum(costs)
            if moved == 0 or n_iter == max_iter or previous - objective <= tol * objective:
                return result(features, state, ~empty, costs, n_iter)
        before, position = position, distances.positions(features, state.sums, state.masses)
        shift, placed = distances.shifts(features, before, position), True


def _advance(
    features: Features, state: Clustering, position: list, empty: Array, shift: Array, stop: Stop, placed: bool
) -> tuple[int, int, float, list[float] | None]:
    """Make one step or more; there may be none if the centres are not placed yet.

    It returns how many steps, how many rows the last one moved, the objective before it, and where no cluster is empty
    at the end, what each block costs.
    """
    if cpu_lloyd.fits(features):
        return cpu_lloyd.advance(features, state, position, empty, shift, stop, placed)
    if not placed:
        cpu_features.sum_up(features, state)
        return 0, 0, stop.objective, None
    found = distances.tables(features, position, empty)
    return 1, cpu_features.step(features, state, found, shift), stop.objective, None


def _state(features: Features, k: int, weight: Array, labels: Array) -> Clustering:
    """Make a clustering with these labels, of which nothing is known yet."""
    xp = namespace(labels)
    sums = [xp.zeros((k, part.shape[1])) for part in features.parts]
    counts, masses = [xp.zeros(k, "int64") for _ in sums], [xp.zeros(k) for _ in sums]
    return Clustering(labels, xp.zeros(len(labels)), sums, counts, masses, weight)


def _placed(features: Features, position: list, weight: Array) -> Start:
    """Put centres at these positions; no row has a label yet."""
    xp, k = namespace(features.square), len(position[0])
    none = xp.full(len(features.square), -1, "int32")
    return Start(_state(features, k, weight, none), position, xp.zeros(k, bool))


def _labelled(features: Features, labels: Array, k: int, weight: Array) -> Start:
    """Begin at the means of labelled rows, which no row is known to be near to; they are not placed yet."""
    state = _state(features, k, weight, labels.astype("int32"))
    return Start(state, [total.copy() for total in state.sums], namespace(labels).zeros(k, bool), placed=False)


def _refill(features: Features, state: Clustering) -> Array:
    """Give each empty cluster the row farthest from its centre; return the clusters that stay empty.

    Some do where every row is at its centre: there are fewer distinct rows than clusters.
    """
    empty = state.empty
    for k in namespace(empty).nonzero(empty)[0].tolist():
        costs = costs_of_rows(features, state)
        x = int(costs.argmax())
        if not float(costs[x]) > 0:
            break
        state.labels[x], state.margin[x] = k, 0
        cpu_features.sum_up(features, state)
        empty = state.empty
    return empty


def _given(features: Features, init: Any) -> list:
    """Find the positions of the caller's centres."""
    centers = init if isinstance(init, list) else [init]
    return positions_of(features, add_means(features, centers, -1))
