"""Clusters of features: their labels, sums and masses; what rows cost in them; and the result that is made of them."""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuensemble._array.devices import Array, namespace
from gpuensemble._kernels.distances import divide
from gpuensemble._kmeans.features import distances
from gpuensemble._kmeans.features.distances import Features


class KMeans(NamedTuple):
    """This is what k-means found; who wants no centres need not wait for them."""

    labels: Array
    means: Callable[[], list]
    objective: float
    n_iter: int
    costs: list[float]  # what each block adds to the objective
    size: int | None  # how many clusters there are; None: as many as centres

    @property
    def n_clusters(self) -> int:
        """Return how many clusters there are."""
        return len(self.means()[0]) if self.size is None else self.size

    @property
    def centers(self) -> Any:
        """Return the means of the clusters, a list of them for several blocks."""
        means = self.means()
        return means if len(means) > 1 else means[0]


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
        return without_rows(self.counts)


def without_rows(counts: list) -> Array:
    """Tell which clusters have no row in some block."""
    return functools.reduce(operator.or_, [count == 0 for count in counts])


def costs_of_rows(features: Features, state: Clustering) -> Array:
    """Return the distance of each row from the mean of its cluster; it is 0 for a row that is absent from a block."""
    position = distances.positions(features, state.sums, state.masses)
    found = distances.tables(features, position, state.empty)
    xp, label = namespace(found.offset), state.labels
    costs = features.constant + found.offset[label] + distances.own_scores(features, found, label)
    costs = xp.where((label >= 0) & ~state.empty[label], costs, 0)
    costs = costs if features.whole is None else xp.where(features.whole, costs, 0)
    return distances.without_rounding(features, costs)


def result(features: Features, state: Clustering, kept: Array | None, costs: list[float], n_iter: int) -> KMeans:
    """Make the result from the clusters that are kept: those that have rows, which may be all (None)."""
    xp, labels = namespace(state.labels), state.labels
    if kept is not None:
        labels = xp.where(kept[labels], (kept.cumsum() - 1).astype("int32")[labels], -1)
    if features.whole is not None:
        somewhere = functools.reduce(operator.or_, [True if one is None else one for one in features.present])
        labels = xp.where(somewhere, labels, -1)

    def means() -> list:
        found = [divide(*pair) for pair in zip(state.sums, state.masses, strict=True)]
        found = found if kept is None else [mean[kept] for mean in found]
        return [center.astype(features.dtype, copy=False) for center in add_means(features, found, 1)]

    labels = labels.astype("int32", copy=False)
    return KMeans(labels, means, sum(costs), n_iter, costs, len(state.counts[0]) if kept is None else None)


def add_means(features: Features, centers: list, sign: int) -> list:
    """Add the means that were taken off the blocks to centres, or take them off (-1)."""
    return [c if mean is None else c + sign * mean for c, mean in zip(centers, features.means, strict=True)]


def best(runs: list, features: Features) -> Any:
    """Return the run with the least objective, the first of those that are equal but for rounding."""
    least, eps = runs[0], float(namespace(features.square).finfo(features.dtype).eps)
    for run in runs[1:]:
        # two starts often end in the same clusters: rounding must not choose between them
        if run.objective < (1 - 1000 * eps) * least.objective:
            least = run
    return least
