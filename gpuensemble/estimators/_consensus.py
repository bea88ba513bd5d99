"""What SEC and KCC share: k-means over the membership operator as a scikit-learn estimator."""

import warnings
from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpuensemble import _check, kmeans, models, seeding, spectral
from gpuensemble._array import Array, choose_device, device_of, namespace, on, to_device
from gpuensemble._random import generators
from gpuensemble.assignment import Rows, evaluate
from gpuensemble.estimators._labels import LabelConsensus
from gpuensemble.membership import Membership

STARTS = ("spectral", "k-means++", "random")
MERGE_SAMPLE = 4096  # rows looked at to see whether merging equal rows pays


class Samples(NamedTuple):
    """The rows that k-means works on: distinct ones, if merging them pays."""

    m: Membership
    multiplicity: Array | None
    group: Array | None  # of each given row: its distinct row; None: they are the given rows


class KMeansConsensus(LabelConsensus):
    """k-means over a Membership; a subclass says what it costs."""

    def fit(self, labels: Any, y: Any = None, *, sample_weight: Any = None) -> Any:
        """Find the consensus of a table of labels.

        Parameters
        ----------
        labels : n x r table
            As in `Membership.from_labels`: any hashable labels; NaN, None and -1 are holes.
        y : ignored
        sample_weight : array of n numbers, optional
            Multiplicities: a whole weight equals that many copies of the row. Weights that are not whole are rounded to
            multiples of 2**-20 of the largest.

        Returns
        -------
        self
        """
        device = choose_device(self.device, labels)
        with on(device):
            m = Membership.from_labels(labels, device)
            n = len(m.codes)
            _check.integer(self.n_clusters, "n_clusters", 1, n, "n_samples")
            _check.integer(self.max_iter, "max_iter", 1)
            _check.integer(self.n_init, "n_init", 1)
            dtype = _check.choice(self.dtype or "float64", "dtype", _check.FLOATS)
            weight, unit = _check.multiplicities(sample_weight, "sample_weight", device, n)
            start = self._checked_start(device, n)
            samples = _samples(m, weight, merge=isinstance(start, str))
            partition_weight = _check.positive(self.partition_weight, "partition_weight", len(m.widths), "n_partitions")
            cluster_weight = self._checked_cluster_weight(samples)
            settings = (samples.m, samples.multiplicity, partition_weight, cluster_weight, dtype)
            self._costs = self._make_costs(*settings)
            rows = self._costs.begin(samples.m, samples.multiplicity)
            run = self._best_run(samples, rows, start, settings)
            self._store(m, samples, rows, run, device_of(labels), unit)
        self._remember_columns(labels, len(m.widths))
        return self

    def predict(self, labels: Any) -> Array:
        """The cluster of each row of another table with the same columns.

        Labels that `fit` did not see count as holes; a warning says how many there are.
        """
        check_is_fitted(self)
        self._check_columns(labels)
        device = choose_device(self.device, labels)
        with on(device):
            m, unknown = Membership.from_known_labels(labels, self._categories or [], device)
            if unknown:
                warnings.warn(f"{unknown} labels were not seen by `fit` and count as missing.", stacklevel=2)
            tables = self._costs.tables(self._statistics, m.complete)
            found, *_ = evaluate(m, tables, self._costs.rows(m).weight)
            return to_device(found, device_of(labels))

    def _checked_start(self, device: str, n: int) -> Any:
        """One of STARTS, or a label vector on the device in which no cluster is empty."""
        if isinstance(self.init, str):
            return _check.choice(self.init, "init", STARTS)
        start = _check.labels(self.init, "init", device, n, self.n_clusters)
        sizes = namespace(start).bincount(start, minlength=self.n_clusters)
        if int(sizes.min()) == 0:
            raise ValueError(
                f"`init` must use all n_clusters={self.n_clusters} labels, got none of {int(sizes.argmin())}."
            )
        return start

    def _checked_cluster_weight(self, samples: Samples) -> Any:
        """None, or a whole number of units for each cluster."""
        if self.cluster_weight is None:
            return None
        if isinstance(self.cluster_weight, str):
            _check.choice(self.cluster_weight, "cluster_weight", ("entropy",))
            return models.entropy_weights(samples.m, samples.multiplicity)
        given = _check.positive(self.cluster_weight, "cluster_weight", samples.m.n_columns, "n_columns")
        return (given * models.UNIT).round().clip(1).astype("int64")

    def _best_run(self, samples: Samples, rows: Rows, start: Any, settings: tuple) -> kmeans.Run:
        """The run with the least objective; the earlier of equals."""
        m, multiplicity = samples.m, samples.multiplicity
        runs = []
        random = isinstance(start, str) and start != "spectral"
        for rng in _bar(generators(self.random_state, self.n_init if random else 1), self.verbose):
            if not isinstance(start, str):
                labels = start
            elif start == "spectral":
                weight = None if settings[3] is None else settings[3] / models.UNIT
                labels = spectral.labels(m, min(self.n_clusters, len(m.codes)), rng, multiplicity, weight)
            else:
                seed = seeding.plus_plus if start == "k-means++" else seeding.random_rows
                by = self._seeding_costs(*settings)
                labels = seed(m, by.begin(m, multiplicity), by, self.n_clusters, rng)
            runs.append(kmeans.lloyd(m, rows, self._costs, labels, self.n_clusters, self.max_iter))
        return min(runs, key=lambda run: run.objective)

    def _store(self, m: Membership, samples: Samples, rows: Rows, run: kmeans.Run, home: str, unit: float) -> None:
        """Results, in the caller's library; what `predict` needs, on the host."""
        if not run.converged:
            warnings.warn(
                f"`max_iter` = {self.max_iter} iterations did not lead to convergence; the objective last fell "
                f"from {run.path[-2]:.6g} to {run.path[-1]:.6g}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        labels, run = self._without_empty(samples.m, rows, run)
        labels = labels if samples.group is None else labels[samples.group]
        self._categories, self._statistics = m.categories, run.statistics
        self.labels_ = to_device(labels, home)
        self.confidence_ = to_device(self._confidence(samples, rows, run), home)
        self.centers_ = to_device(self._costs.centers(run.statistics), home)
        unit = unit if self._costs.counts_weight else 1.0
        self.objective_ = run.objective * unit
        self.objective_path_ = [value * unit for value in run.path]
        self.n_iter_ = len(run.evaluated)
        self.evaluated_ = run.evaluated
        self.device_ = m.device

    def _without_empty(self, m: Membership, rows: Rows, run: kmeans.Run) -> tuple[Array, kmeans.Run]:
        """Labels 0 .. K' - 1 of the clusters that are not empty; fewer than asked for only where rows are."""
        counts, masses = run.statistics
        used = (counts > 0).any(0)
        if used.all():
            return run.labels, run
        warnings.warn(
            f"`n_clusters` = {self.n_clusters} is more than there are distinct rows: {int(used.sum())} clusters.",
            ConvergenceWarning,
            stacklevel=4,
        )
        kept = kmeans.Statistics(counts[:, used], None if masses is None else masses[:, used])
        labels, *_ = evaluate(m, self._costs.tables(kept, m.complete), rows.weight)
        return labels, run._replace(statistics=kept)

    def _confidence(self, samples: Samples, rows: Rows, run: kmeans.Run) -> Array:
        """1 - (cost of the best cluster) / (cost of the second): 0 on the border, 1 at the centre."""
        m = samples.m
        _, cost, second = evaluate(m, self._costs.tables(run.statistics, m.complete), rows.weight)
        xp = namespace(cost)
        best, other = (xp.maximum(rows.constant + x, 0) for x in (cost, second))
        known = xp.isfinite(best) & (other > 0)
        ratio = xp.where(known, best, 1) / xp.where(known, other, 1)
        found = 1 - xp.clip(ratio, 0, 1)
        return found if samples.group is None else found[samples.group]


def _samples(m: Membership, weight: Array | None, merge: bool) -> Samples:
    """Distinct rows with their multiplicities where a sample of rows says that at least half of them are copies."""
    n = len(m.codes)
    step = max(1, n // MERGE_SAMPLE)
    sample = m.take(slice(None, None, step)) if merge and n > 1 else None
    if sample is None or 2 * len(sample.merge().multiplicity) > len(sample.codes):
        return Samples(m, weight, None)
    merged = m.merge()
    multiplicity = merged.multiplicity
    if weight is not None:
        groups = Membership(merged.group[:, None], [len(multiplicity)], device=m.device)
        multiplicity = groups.sizes(weight)
    return Samples(merged.membership, multiplicity, merged.group)


def _bar(runs: list, verbose: int) -> Any:
    """The runs, with a progress bar on stderr if `verbose`."""
    if not verbose:
        return runs
    from tqdm import tqdm

    return tqdm(runs, desc="starts")
