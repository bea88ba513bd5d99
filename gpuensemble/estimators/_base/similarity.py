"""The methods that work on n x n matrices share this: an affinity is made of the co-association matrix, and cut."""

import abc
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Self

from gpuensemble._array import checks, frames
from gpuensemble._array.devices import Array, choose_device, device_of, on, to_device, to_host
from gpuensemble._array.random import generators
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._partition import affinity
from gpuensemble.estimators._base.labels import NumberedConsensus
from gpuensemble.membership import Membership, Merged


class Refined(NamedTuple):
    """A method returns this: what it made of the co-association matrix."""

    affinity: Callable[[], Array]  # makes what is cut into clusters; or the points, if it is cut by "points"
    results: dict[str, Any]  # what the estimator stores, by the name of the attribute
    objectives: list[float] | None = None  # per iteration; None: nothing was minimised


class SimilarityConsensus(NumberedConsensus, abc.ABC):
    """This is the template of a method on n x n matrices.

    A subclass supplies the step from the co-association matrix to an affinity.
    """

    _arrays: ClassVar[int]  # n x n, at most at one time

    def fit(self, labels: Any, y: Any = None) -> Self:
        """Find the consensus of a table of labels, as in `Membership.from_labels`.

        Parameters
        ----------
        labels : n x r table
            Any hashable labels; NaN, None and -1 are holes.
        y : ignored
            Here for scikit-learn's pipelines.

        Returns
        -------
        self
            The fitted estimator.
        """
        labels = frames.table(labels)
        device = choose_device(self.device, labels)
        checks.integer(self.verbose, "verbose", 0)
        self._check_parameters()
        dtype = checks.floating(self.dtype)
        streams = iter(generators(self.random_state, 2))
        with on(device), one_blas_thread():
            m = Membership.from_labels(labels, device)
            self._check_table(m, dtype)
            merged = m.merge()
            n_clusters = self._possible_clusters(len(merged.multiplicity))
            refined = self._refined(m, n_clusters, dtype, streams)
            found = self._cut(refined, m, n_clusters, merged, next(streams))
            if (n_found := int(found.max()) + 1) < n_clusters:
                self._warn_of_empty_clusters(n_found)
            self.labels_ = to_device(found, device_of(labels))
            for name, value in refined.results.items():
                setattr(self, name, value if isinstance(value, list) else to_device(value, device_of(labels)))
            path = refined.objectives or [_distance_within(m, found)]
        self.objective_path_, self.objective_ = path, path[-1]
        self.n_iter_, self.device_ = len(path), device
        self._remember_columns(labels, len(m.widths))
        return self

    @abc.abstractmethod
    def _check_parameters(self) -> None:
        """Raise if a parameter is wrong that no table is needed for."""

    @abc.abstractmethod
    def _refined(self, m: Membership, n_clusters: int, dtype: str, streams: Iterator) -> Refined:
        """Make the affinity, which will be cut into so many clusters; random generators come from `streams`."""

    @abc.abstractmethod
    def _how(self) -> str:
        """Say how the affinity is cut, as `_partition.affinity.labels` calls it."""

    def _cut(self, refined: Refined, m: Membership, n_clusters: int, merged: Merged, rng: Any) -> Array:
        """Find the labels of all rows."""
        return affinity.labels(refined.affinity(), self._how(), n_clusters, merged, rng)

    def _possible_clusters(self, n_distinct: int) -> int:
        """Return how many clusters there can be: as many as were asked for, or as there are distinct rows."""
        if n_distinct < self.n_clusters:
            self._warn_of_distinct_rows(n_distinct)
        return min(self.n_clusters, n_distinct)

    def _check_table(self, m: Membership, dtype: str) -> None:
        """Raise if the table is too small for so many clusters, has holes that it may not have, or does not fit."""
        n = len(m.codes)
        checks.integer(self.n_clusters, "n_clusters", 1, n, "n_samples")
        name = type(self).__name__
        if not (m.complete or self._takes_holes):
            holes = m.codes.size - int(m.sizes().sum())
            raise ValueError(
                f"`labels` must be complete for {name}, got {holes} missing; SEC, HBGF, EAC and others take holes."
            )
        needed = self._arrays * n * n * (8 if dtype == "float64" else 4)
        checks.fits(needed, f"{name}'s {self._arrays} arrays of {n} x {n}", m.device, "SEC and KCC are linear in n")


def _distance_within(m: Membership, labels: Array) -> float:
    """Return the mean of 1 - S over the pairs of samples in one cluster, from counts, without another n x n array."""
    n_clusters = int(labels.max()) + 1
    counts = to_host(m.count(labels, n_clusters))
    sizes = [int((labels == k).sum()) for k in range(n_clusters)]
    return 1 - int((counts**2).sum()) / (len(m.widths) * sum(size**2 for size in sizes))
