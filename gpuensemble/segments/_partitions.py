"""Base partitions of features that are read in parts: k-means of random rows, or landmark spectral clustering."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import checks, random, threads
from gpuensemble._array.devices import choose_device, on, to_host
from gpuensemble._graphs.landmarks import Landmarks, landmarks, sampled
from gpuensemble._graphs.nearest import METRICS
from gpuensemble._kmeans.features.distances import DISTANCES, prepare
from gpuensemble._kmeans.features.lloyd import kmeans
from gpuensemble.generate._common import drawn
from gpuensemble.generate.kmeans import enough
from gpuensemble.generate.landmarks import default_landmarks, most_clusters
from gpuensemble.segments._sources import checked, over_rows, source

PARTITIONS = {"segments": 100, "landmark-spectral": 20}  # how they are made, and how many by default
LINKS = 5  # landmarks that a row is linked to
BLOCK = 1 << 16  # rows that are labelled at a time


class Base(NamedTuple):
    """This says how base partitions are made."""

    partitions: str
    n_clusters: int
    n_partitions: int
    row_ratio: float
    distance: str
    random_state: Any
    device: str
    client: Any


class Stripe(NamedTuple):
    """These labels have their place in the table of base partitions, which begins in this row and column."""

    row: int
    column: int
    labels: Any


class Stripes(NamedTuple):
    """This is a table of base partitions, whose parts are made as they are asked for."""

    shape: tuple[int, int]
    dtype: str
    parts: Iterator[Stripe]


def stripes(X: Any, base: Base) -> Stripes:
    """Return the table of base partitions of these features."""
    given = source(X)
    if base.partitions == "segments":
        r, most, parts = _segments(given, base)
    else:
        r, most, parts = _landmarks(given, base)
    dtype = next(name for name in ("int8", "int16", "int32") if most - 1 <= np.iinfo(name).max)
    return Stripes((given.shape[0], r), dtype, parts)


def _segments(given: Any, base: Base) -> tuple[int, int, Iterator[Stripe]]:
    """Deal rows to segments, each clustered by k-means."""
    checks.choice(base.distance, "distance", DISTANCES)
    n = given.shape[0]
    size = math.ceil(checks.ratio(base.row_ratio, "row_ratio") * n)
    k = checks.integer(base.n_clusters, "n_clusters", 1, size, "rows of a segment")
    r = enough(base.n_partitions, n, size)
    hands, draws = random.dealt(n, size, r, base.random_state)
    calls = ((rows, k, base.distance, base.device, rng) for rows, rng in zip(hands, draws, strict=True))

    def parts() -> Iterator[Stripe]:
        for i, (rows, inside) in enumerate(over_rows(given, _clustered, calls, base.client)):
            column = np.full((n, 1), -1, "int32")
            column[rows, 0] = inside
            yield Stripe(0, i, column)

    return r, k, parts()


def _clustered(get: Callable, argument: Any, rows: Any, n_clusters: int, distance: str, device: str, rng: Any) -> Any:
    """Cluster some rows by k-means; return them and their labels, on the host."""
    device = choose_device(device)
    with on(device), threads.one_blas_thread():
        matrix = checked(get, argument, rows, distance, device)
        return rows, to_host(kmeans(prepare(matrix, distance), n_clusters, rng).labels)


def _landmarks(given: Any, base: Base) -> tuple[int, int, Iterator[Stripe]]:
    """Make landmarks and centres from samples of rows, and label all rows by them, all partitions in one pass."""
    checks.choice(base.distance, "distance", METRICS)
    n = given.shape[0]
    low = checks.integer(base.n_clusters, "n_clusters", 1, n, "n_samples")
    high = most_clusters(low, n)
    r = checks.integer(base.n_partitions, "n_partitions", 1)
    draws = random.generators(base.random_state, r)

    def samples() -> Iterator[tuple]:
        for rng in draws:
            rows, k = sampled(n, rng), drawn(low, high, rng)
            rows = np.arange(n) if rows is None else rows
            yield rows, base.distance, k, default_landmarks(n, high), base.device, rng

    def parts() -> Iterator[Stripe]:
        models: Any = list(over_rows(given, _modelled, samples(), base.client))
        if base.client is not None:
            models = base.client.scatter(models, broadcast=True, hash=False)
        blocks = (range(span.start, span.stop) for span in threads.spans(n, BLOCK))
        calls = ((rows, base.distance, base.device, models) for rows in blocks)
        for first, labels in over_rows(given, _labelled, calls, base.client):
            yield Stripe(first, 0, labels)

    return r, high, parts()


def _modelled(
    get: Callable, argument: Any, rows: Any, distance: str, n_clusters: int, n_landmarks: int, device: str, rng: Any
) -> Landmarks:
    """Make the landmarks and centres of one partition from a sample of rows; they come back on the host."""
    device = choose_device(device)
    with on(device), threads.one_blas_thread():
        X = checked(get, argument, rows, distance, device)
        found, _ = landmarks(X, distance, n_clusters, n_landmarks, LINKS, rng)
        return found.moved("cpu")


def _labelled(get: Callable, argument: Any, rows: range, distance: str, device: str, models: Any) -> tuple[int, Any]:
    """Label a block of rows by all partitions; return its first row, and rows x partitions labels on the host."""
    device = choose_device(device)
    with on(device), threads.one_blas_thread():
        X = checked(get, argument, rows, distance, device)
        return rows.start, np.stack([to_host(model.moved(device).labels(X)) for model in models], axis=1)
