"""Several sets of centres of the same features go through Lloyd's iteration side by side, on a device.

A step is one product of the rows with all centres, and one pass over the scores. Sums of rows are whole numbers of
units, so that neither the batch nor the order of additions changes them. Steps follow each other without waiting for
the host, which looks every few steps which sets are done.
"""

import copy
import math
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from gpuensemble._array.devices import Array, device_of, memory, namespace, to_host
from gpuensemble._array.threads import spans
from gpuensemble._kernels.batches import twin
from gpuensemble._kmeans.features import clusters, distances
from gpuensemble._kmeans.features.clusters import Clustering, KMeans
from gpuensemble._kmeans.features.distances import CenterTables, Features

READ_EVERY = 4  # steps; a set that is done meanwhile keeps its labels
MOST_SETS = 256
SHARE = 4  # a batch takes this part of the free memory at most, and the scores of its rows as much
COPIES = 8  # of the sums, at most at one time: numbers, positions, tables, and what is between them
UNKNOWN = 1 << 33  # bytes, where nobody tells how many are free
RUNNING, DONE, LACKING = 0, 1, 2  # the status of a set; a cluster of the last one is empty
PLACED = ("sqeuclidean", "cosine")  # distances whose centres a kernel makes


@dataclass
class Batch:
    """This holds sets of centres and their clusters; set b owns the centres bounds[b] .. bounds[b + 1] - 1."""

    features: Features
    weight: Array  # a single 1 where all rows count the same
    mass_scale: float
    scales: list  # of each block and column: units of the sums
    bounds: list[int]
    starts: Array  # the bounds, on the device
    n_rows: int  # of a block of scores
    labels: Array
    before: Array
    sums: list  # in units, like masses
    counts: list
    masses: list
    totals: Array
    moved: Array
    objective: Array
    costs: Array
    steps: Array
    status: Array
    empty: Array  # which clusters have no row in some block, and what each saves: of the last `centers`
    saved: Array

    def real(self, some: slice = slice(None)) -> tuple[list, list]:
        """Return sums and masses of some clusters as numbers."""
        sums = [total[some] / scale for total, scale in zip(self.sums, self.scales, strict=True)]
        return sums, [mass[some] / self.mass_scale for mass in self.masses]

    def of_set(self, b: int) -> Clustering:
        """Return the clusters of one set."""
        some = slice(self.bounds[b], self.bounds[b + 1])
        sums, masses = self.real(some)
        return Clustering(self.labels[b], self.labels[b], sums, [n[some] for n in self.counts], masses, self.weight)

    def move(self) -> None:
        """Bring the rows whose label has changed from the sums of the one cluster to those of the other."""
        parts = zip(
            *(self.features.parts, self.scales, self.features.present, self.sums, self.counts, self.masses), strict=True
        )
        for part, scale, present, *to in parts:
            moves = (self.starts, self.labels, self.before)
            twin(self.labels).move_rows(part, scale, self.weight, self.mass_scale, present, *moves, *to)


class Ended(NamedTuple):
    """A set of a batch has come to its end."""

    batch: Batch
    b: int
    steps: int
    costs: list[float]

    @property
    def objective(self) -> float:
        """Return what all blocks cost."""
        return sum(self.costs)

    def result(self) -> KMeans:
        """Return what the set has found."""
        state = self.batch.of_set(self.b)
        return clusters.result(self.batch.features, state, ~state.empty, self.costs, self.steps)


def lloyd(features: Features, starts: list, weight: Array, max_iter: int, tol: float, n_init: int = 1) -> list[KMeans]:
    """Go from starts to clusters; all are positions of centres, or all are labels with a number of clusters.

    Of `n_init` starts after one another the best counts.
    """
    found: list[Ended] = []
    while len(found) < len(starts):
        left = starts[len(found) :]
        some = left[: fitting(features, [_size(start) for start in left])]
        found += _together(features, some, weight, max_iter, tol)
    return [clusters.best(found[i : i + n_init], features).result() for i in range(0, len(found), n_init)]


def nearest(features: Features, position: list, weight: Array) -> Array:
    """Return the nearest of centres for each row."""
    batch = _batch(features, [len(position[0])], weight)
    _assign(batch, distances.tables(features, position, namespace(weight).zeros(len(position[0]), bool)))
    return batch.labels[0]


def fitting(features: Features, sizes: list[int], times: int = 1) -> int:
    """Return how many sets of these sizes, each so many times, make a batch: there is room in a share of the memory."""
    if "agreement" in features.distances:  # its positions depend on all clusters of a set
        return 1
    width = sum(part.shape[1] for part in features.parts)
    room = (memory(device_of(features.square)) or UNKNOWN) / SHARE
    for number, size in enumerate(sizes):
        room -= times * (COPIES * 8 * size * width + 8 * len(features.square))
        if room < 0 or (number + 1) * times > MOST_SETS:
            return max(1, number)
    return len(sizes)


def _size(start: Any) -> int:
    return start[1] if isinstance(start, tuple) else len(start[0])


def _together(features: Features, starts: list, weight: Array, max_iter: int, tol: float) -> list[Ended]:
    """Run one batch to its end."""
    batch, centers = _begin(features, starts, weight)
    found: list[Any] = [None] * len(starts)
    at = list(range(len(starts)))  # which of the starts the sets of the batch are
    while at:
        for _ in range(min(READ_EVERY, max_iter)):
            centers = _step(batch, centers, max_iter, tol)
        status, *facts = _facts(batch)
        lacking = [b for b, one in enumerate(status) if one == LACKING]
        if lacking:
            for b in lacking:
                _refill(batch, b)
                _judge_again(batch, b, max_iter, tol)
            status, *facts = _facts(batch)
        done = [b for b, one in enumerate(status) if one == DONE]
        left = [b for b, one in enumerate(status) if one != DONE]
        ended = _kept(batch, done) if left and done else batch
        for i, b in enumerate(done):
            found[at[b]] = Ended(ended, i, *_facts_of(b, *facts))
        if left and done:
            batch = _kept(batch, left)
        at = [at[b] for b in left]
        if at and (done or lacking):
            centers = _centers(batch)
    return found


def _begin(features: Features, starts: list, weight: Array) -> tuple[Batch, CenterTables]:
    """Return a batch, and the tables of its first centres."""
    xp = namespace(features.square)
    batch = _batch(features, [_size(start) for start in starts], weight)
    if not isinstance(starts[0], tuple):
        position = [xp.concatenate(parts) for parts in zip(*starts, strict=True)]
        return batch, distances.tables(features, position, batch.empty)
    batch.labels = xp.stack([labels.astype("int32") for labels, _ in starts])
    batch.move()
    without = to_host(clusters.without_rows(batch.counts)).tolist()
    for b, bounds in enumerate(pairwise(batch.bounds)):
        if any(without[slice(*bounds)]):
            _refill(batch, b)
    return batch, _centers(batch)


def _batch(features: Features, sizes: list[int], weight: Array) -> Batch:
    """Make sets of so many centres, in whose clusters there is no row yet."""
    xp, n, n_sets = namespace(features.square), len(features.square), len(sizes)
    bounds = [0, *accumulate(sizes)]
    heaviest = 1.0 if len(weight) == 1 else float(weight.max())
    totals = xp.stack([(constant * weight).sum() for constant in features.constants])
    room = (memory(device_of(weight)) or UNKNOWN) // SHARE
    return Batch(
        features=features,
        weight=weight,
        mass_scale=1.0 if len(weight) == 1 else math.ldexp(1.0, _digits(n) - math.frexp(heaviest)[1]),
        scales=[_scale(part, size, heaviest, n) for part, size in zip(features.parts, features.largest, strict=True)],
        bounds=bounds,
        starts=xp.asarray(bounds, dtype="int32"),
        n_rows=max(1, min(n, room // (2 * bounds[-1] * features.dtype.itemsize))),
        labels=xp.full((n_sets, n), -1, "int32"),
        before=xp.full((n_sets, n), -1, "int32"),
        sums=[xp.zeros((bounds[-1], part.shape[1]), "int64") for part in features.parts],
        counts=[xp.zeros(bounds[-1], "int64") for _ in features.parts],
        masses=[xp.zeros(bounds[-1], "int64") for _ in features.parts],
        totals=totals[:, None] * xp.ones(n_sets),
        moved=xp.zeros(n_sets, "int32"),
        objective=xp.full(n_sets, xp.inf),
        costs=xp.zeros((len(features.parts), n_sets)),
        steps=xp.zeros(n_sets, "int32"),
        status=xp.zeros(n_sets, "int32"),
        empty=xp.zeros(bounds[-1], bool),
        saved=xp.zeros((len(features.parts), bounds[-1])),
    )


def _digits(n: int) -> int:
    """Return how many binary digits a number may have that is added up n times in 62 of them; a kernel takes 50."""
    return min(50, 62 - n.bit_length())


def _scale(part: Any, largest: Array | None, heaviest: float, n: int) -> Array:
    """Return how many units 1 has in each column of a block: a power of two, so that n entries are at most 2**62."""
    size = (distances.largest_entries(part) if largest is None else largest) * heaviest
    xp = namespace(size)
    exponent = xp.clip(_digits(n) - xp.frexp(size)[1], -1000, 1000)
    return xp.ldexp(xp.ones(len(size)), exponent.astype("int32"))


def _centers(batch: Batch) -> CenterTables:
    """Make the tables of the means of all clusters; what they save, and which are empty, is noted in the batch."""
    features = batch.features
    if set(features.distances) <= set(PLACED):
        return _centers_by_kernel(batch)
    sums, masses = batch.real()
    batch.empty = clusters.without_rows(batch.counts)
    of_parts = features.kinds(features.weights, sums, masses)
    batch.saved = namespace(batch.empty).stack([w * kind.saved(total, mass) for kind, w, total, mass in of_parts])
    return distances.tables(features, distances.positions(features, sums, masses), batch.empty)


def _centers_by_kernel(batch: Batch) -> CenterTables:
    """Do `_centers` by one launch for each block of columns."""
    features, xp, n = batch.features, namespace(batch.empty), batch.bounds[-1]
    offset = xp.empty(n, features.dtype)
    found = CenterTables([], offset, [])
    parts = zip(features.distances, features.weights, features.present, batch.sums, batch.counts, strict=True)
    for i, (distance, weight, present, sums, counts) in enumerate(parts):
        table = xp.empty(sums.shape, features.dtype)
        partial = None if present is None or distance == "cosine" else xp.empty(n, features.dtype)
        units = (batch.masses[i], batch.scales[i], batch.mass_scale)
        how = (distance == "cosine", weight, i > 0)
        twin(sums).place(sums, counts, *units, *how, table, offset, partial, batch.saved[i], batch.empty)
        found.tables.append(table)
        if partial is not None:
            found.partial.append((present, partial))
    return found


def _step(batch: Batch, centers: CenterTables, max_iter: int, tol: float) -> CenterTables:
    """Give rows the cheapest centre of each set under way, and judge the clusters; return what `_centers` does."""
    _assign(batch, centers)
    batch.move()
    centers = _centers(batch)
    _judge(batch, batch.empty, batch.status, max_iter, tol)
    return centers


def _assign(batch: Batch, found: CenterTables) -> None:
    """Find new labels, and keep those before."""
    kernels, offset = twin(batch.labels), found.offset.astype(batch.features.dtype, copy=False)
    for rows in spans(batch.labels.shape[1], batch.n_rows):
        scores = distances.scores(batch.features, found, rows.start, rows.stop)
        where = (batch.starts, batch.status, rows.start, batch.labels, batch.before, batch.moved)
        kernels.choose(scores, offset, *where)


def _judge(batch: Batch, empty: Array, status: Array, max_iter: int, tol: float) -> None:
    """End the step of the sets with status `RUNNING`."""
    facts = (batch.saved, batch.totals, empty, batch.starts, batch.moved, tol, max_iter)
    twin(empty).judge(*facts, batch.objective, batch.costs, batch.steps, status)


def _refill(batch: Batch, b: int) -> None:
    """Give each empty cluster of a set the row farthest from its centre, as long as there is one."""
    state = batch.of_set(b)
    for k in namespace(state.labels).nonzero(state.empty)[0].tolist():
        costs = clusters.costs_of_rows(batch.features, state)
        x = int(costs.argmax())
        if not float(costs[x]) > 0:
            break
        batch.before = batch.labels.copy()
        batch.labels[b, x] = k
        batch.move()
        state = batch.of_set(b)


def _judge_again(batch: Batch, b: int, max_iter: int, tol: float) -> None:
    """End the step of a set, some of whose clusters were empty; those that still are do not count."""
    xp = namespace(batch.status)
    alone = xp.full(len(batch.status), DONE, "int32")
    alone[b] = RUNNING
    batch.steps[b] -= 1
    _centers(batch)
    _judge(batch, xp.zeros(batch.bounds[-1], bool), alone, max_iter, tol)
    batch.status[b] = alone[b]


def _facts(batch: Batch) -> tuple[list, list, list]:
    """Return status, number of steps, and costs of the blocks of each set: all that the host reads."""
    xp = namespace(batch.status)
    whole = xp.stack([batch.status, batch.steps]).astype("float64")
    status, steps, *costs = to_host(xp.concatenate([whole, batch.costs])).tolist()
    return status, steps, costs


def _facts_of(b: int, steps: list, costs: list) -> tuple[int, list]:
    """Return number of steps, and costs of the blocks of one set."""
    return int(steps[b]), [cost[b] for cost in costs]


def _kept(batch: Batch, left: list[int]) -> Batch:
    """Return the batch with these sets alone."""
    xp, kept = namespace(batch.status), copy.copy(batch)
    sets = xp.asarray(left, dtype="int64")
    centers = xp.asarray([c for b in left for c in range(*batch.bounds[b : b + 2])], dtype="int64")
    kept.bounds = [0, *accumulate(batch.bounds[b + 1] - batch.bounds[b] for b in left)]
    kept.starts = xp.asarray(kept.bounds, dtype="int32")
    for name in ("sums", "counts", "masses"):
        setattr(kept, name, [part[centers] for part in getattr(batch, name)])
    for name in ("labels", "before", "moved", "objective", "steps", "status"):
        setattr(kept, name, getattr(batch, name)[sets])
    for name in ("totals", "costs"):
        setattr(kept, name, xp.ascontiguousarray(getattr(batch, name)[:, sets]))
    kept.empty, kept.saved = batch.empty[centers], xp.ascontiguousarray(batch.saved[:, centers])
    return kept
