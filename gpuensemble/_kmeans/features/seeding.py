"""k-means over features begins with rows: greedy k-means++ chooses them from a sample, or they are drawn at random."""

import itertools
import math
from collections.abc import Callable
from typing import Any

from gpuensemble._array.csr import Csr
from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host
from gpuensemble._array.threads import shared
from gpuensemble._kernels.cpu.features import steps as cpu_features
from gpuensemble._kernels.cpu.features.greedy import choose_rows
from gpuensemble._kernels.cpu.vector.tiles import dot_width
from gpuensemble._kernels.seeding import twin
from gpuensemble._kmeans.features import distances
from gpuensemble._kmeans.features.distances import Features

SEED_ROWS, SEED_ROWS_PER_CLUSTER = 4096, 64  # k-means++ draws from a random sample of so many rows, the larger of both
MEASURED = ("sqeuclidean", "cosine")  # distances that the kernels of k-means++ have
WORTH = 1 << 23  # products of all starts on the CPU, for which the pool is woken
MOST_COSTS = 1 << 26  # of rows and tries, that starts side by side have together


def several(features: Features, sizes: list[int], rngs: list, weight: Array, choose: Callable) -> list:
    """Choose rows for several starts, of so many clusters each, and return their positions; `choose` is one of below.

    k-means++ of dense rows is one call a start on the CPU, and starts of many products go to the pool. On a device it
    has two launches for each row that is chosen, whatever the number of starts.
    """
    pairs = list(zip(sizes, rngs, strict=True))
    one_block = len(features.parts) == 1 and not isinstance(features.parts[0], Csr)
    on_host, measured = device_of(weight) == "cpu", one_block and features.distances[0] in MEASURED
    if choose is not plus_plus or not measured or (on_host and not _is_narrow(features, max(sizes))):
        return [choose(features, k, rng, weight) for k, rng in pairs]
    drawn = []
    for k, rng in pairs:
        rows = seed_rows(len(features.square), k, rng)
        drawn.append((k, rows, rng.random(1 + (k - 1) * _n_tries(k))))
    if on_host:
        n, d = features.parts[0].shape
        work = sum((n if rows is None else len(rows)) * d * len(places) for _, rows, places in drawn)
        in_turn = shared if work >= WORTH else map
        return list(in_turn(lambda one: _in_one_call(features, one, weight), drawn))
    found: list = []
    for _, alike in itertools.groupby(drawn, key=lambda one: 0 if one[1] is None else len(one[1])):
        found += _side_by_side(features, list(alike), weight)
    return found


def _is_narrow(features: Features, k: int) -> bool:
    """Tell whether the rows that are tried for one of k centres are few enough for the kernel of the CPU."""
    return bool(dot_width(_n_tries(k), features.dtype))


def _in_one_call(features: Features, drawn: tuple, weight: Array) -> list:
    """Do `plus_plus` on the CPU: the clusters, rows and places of a start are given."""
    k, rows, places = drawn
    features, weight = _sampled(features, rows, weight)
    cosine, noise = features.distances[0] == "cosine", distances.rounding(features)
    measure = (features.parts[0], features.constants[0], noise, cosine, features.weights[0])
    chosen = choose_rows(*measure, weight, places, _n_tries(k), k)
    return positions_of(features, features.dense(chosen))


def _sampled(features: Features, rows: Any, weight: Array) -> tuple[Features, Array]:
    """Return the rows that k-means++ draws from, and their weights: 0 where one is absent from a block."""
    weight = weight if features.whole is None else weight * features.whole
    if rows is None:
        return features, weight
    rows = to_device(rows, device_of(weight))
    return features.take(rows), weight if len(weight) == 1 else weight[rows]


def _side_by_side(features: Features, drawn: list, weight: Array) -> list:
    """Do `plus_plus` for starts that draw from equally many rows: of each the clusters, rows and places are given."""
    n = len(features.square) if drawn[0][1] is None else len(drawn[0][1])
    at_once = max(1, MOST_COSTS // (n * max(_n_tries(k) for k, *_ in drawn)))
    if len(drawn) > at_once:
        return _side_by_side(features, drawn[:at_once], weight) + _side_by_side(features, drawn[at_once:], weight)
    chosen, n_found = _chosen(features, drawn, n, weight if features.whole is None else weight * features.whole)
    ends = itertools.accumulate(n_found)
    which = namespace(chosen).concatenate([chosen[i, :number] for i, number in enumerate(n_found)])
    position = positions_of(features, features.dense(which))
    return [[part[begin:end] for part in position] for begin, end in itertools.pairwise([0, *ends])]


def _chosen(features: Features, drawn: list, n: int, weight: Array) -> tuple[Array, list[int]]:
    """Return the rows that each start chooses, by rows, and how many of them there are."""
    xp, device, n_starts = namespace(features.square), device_of(weight), len(drawn)
    most, n_tries = max(k for k, *_ in drawn), max(_n_tries(k) for k, *_ in drawn)
    padded = itertools.zip_longest(*(places.tolist() for *_, places in drawn), fillvalue=0.0)
    places = xp.asarray(list(zip(*padded, strict=True)))
    sizes, tries = (xp.asarray(one, dtype="int32") for one in zip(*((k, _n_tries(k)) for k, *_ in drawn), strict=True))
    rows = None if drawn[0][1] is None else xp.stack([to_device(one, device) for _, one, _ in drawn])
    costs, scales = xp.empty((n_starts, n)), xp.empty(n_starts)
    fresh = xp.empty((n_starts, n, n_tries))
    totals, tried = (xp.zeros((n_starts, n_tries), "int64") for _ in range(2))
    chosen, found = xp.zeros((n_starts, most), "int64"), xp.zeros(n_starts, "int32")
    cosine, noise = features.distances[0] == "cosine", distances.noise(features)
    measure = (features.parts[0], features.constants[0], cosine, features.weights[0], noise)
    kernels, plan = twin(weight), (tries, sizes, rows, weight)
    for step in range(most + 1):
        kernels.draw_rows(step, places, *plan, fresh, costs, totals, scales, tried, chosen, found)
        if step < most:
            kernels.try_rows(step, *measure, *plan, scales, tried, costs, fresh, totals)
    return chosen, to_host(found).tolist()


def _n_tries(k: int) -> int:
    """Return how many rows are tried for each centre after the first."""
    return 2 + int(math.log(k))


def plus_plus(features: Features, k: int, rng: Any, weight: Array) -> list:
    """Choose rows by greedy k-means++, and return their positions.

    Each is the best of a few that are drawn with probability proportional to cost. There are fewer than k if no cost is
    left. On a device nothing comes to the host until all are chosen.
    """
    features, weight = _sampled(features, seed_rows(len(features.square), k, rng), weight)
    xp, n_tries = namespace(features.square), _n_tries(k)
    places = to_device(rng.random(1 + (k - 1) * n_tries), device_of(weight))
    costs, noise = xp.full(len(features.square), xp.inf), distances.rounding(features)
    potential = xp.ones(len(costs)) * weight
    drawn, left = [], []
    for i in range(k):
        most = potential.max()
        left.append(most > 0)
        if device_of(weight) == "cpu" and not left[-1]:
            break
        tries = places[:1] if i == 0 else places[1 + (i - 1) * n_tries : 1 + i * n_tries]
        position = positions_of(features, features.dense(_draw(potential, most, tries)))
        new = xp.minimum(costs, _costs_of_all(features, position, noise))
        best = (new if len(weight) == 1 else new * weight).sum(1).argmin().reshape(1)
        drawn.append([part[best] for part in position])
        costs = new[best][0]
        potential = costs if len(weight) == 1 else costs * weight
    found = [xp.concatenate(rows) for rows in zip(*drawn, strict=True)]
    n_found = int(xp.stack(left).sum())
    return [part[:n_found] for part in found]


def random_rows(features: Features, k: int, rng: Any, weight: Array) -> list:
    """Draw rows at random from those that are absent from no block, and return their positions."""
    whole = None if features.whole is None else namespace(features.square).nonzero(features.whole)[0]
    n = len(features.square if whole is None else whole)
    rows = to_device(rng.choice(n, min(k, n), replace=False), device_of(features.square))
    return positions_of(features, features.dense(rows if whole is None else whole[rows]))


def seed_rows(n: int, k: int, rng: Any) -> Any:
    """Draw the random rows, on the host, that the k-means++ of k clusters draws from; None stands for all n."""
    size = max(SEED_ROWS, SEED_ROWS_PER_CLUSTER * k)
    return None if n <= size else rng.choice(n, size, replace=False)


def _costs_of_all(features: Features, position: list, noise: Array) -> Array:
    """Return the distance of each centre, by rows, from each row, by columns; what may be noise is 0."""
    xp = namespace(features.square)
    found = distances.tables(features, position, xp.zeros(len(position[0]), bool))
    if device_of(found.offset) == "cpu":
        scores = cpu_features.scores(features, found)
    else:
        scores = distances.scores(features, found, 0, len(features.square))
    costs = features.constant + found.offset[:, None] + scores.T
    return xp.where(costs <= noise, 0, costs)


def _draw(potential: Array, most: Array, places: Array) -> Array:
    """Return rows at places, 0 to 1, of their potentials one after another, rounded so that prefix sums are exact."""
    xp = namespace(potential)
    scale = 2.0**62 / (len(potential) * xp.where(most > 0, most, 1))
    ends = xp.cumsum((potential * scale).astype("int64"))
    total = ends[-1:]  # a bounded integer would use up more draws for some totals than for others
    return xp.searchsorted(ends, xp.minimum((places * total).astype("int64"), total - 1), side="right")


def positions_of(features: Features, centers: list) -> list:
    """Place centres that are rows, or means of rows."""
    return distances.positions(features, centers, [namespace(center).ones(len(center)) for center in centers])
