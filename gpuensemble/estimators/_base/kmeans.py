"""What SEC and KCC share: k-means over the membership operator as a scikit-learn estimator."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpuensemble._array import checks, random
from gpuensemble._array.devices import Array, choose_device, device_of, namespace, on, to_device
from gpuensemble._array.progress import bar
from gpuensemble._kmeans.labels import checkpoint, lloyd, seeding
from gpuensemble._kmeans.labels.bounds import evaluate
from gpuensemble._kmeans.labels.costs import UNIT, entropy_weights, sizes
from gpuensemble._partition import bipartite
from gpuensemble._tables import outputs, sources
from gpuensemble._tables.blocks import InMemory, Table
from gpuensemble.estimators._base.labels import LabelConsensus
from gpuensemble.membership import Membership

STARTS = ("spectral", "k-means++", "random")
MERGE_SAMPLE = 4096  # rows looked at to see whether merging equal rows pays


class KMeansConsensus(LabelConsensus):
    """k-means over a table of labels; a subclass says what it costs."""

    def fit(self, labels: Any, y: Any = None, *, sample_weight: Any = None) -> Any:
        """Find the consensus of a table of labels.

        Parameters
        ----------
        labels : n x r table
            As in `Membership.from_labels`: any hashable labels; NaN, None and -1 are holes. A `numpy.memmap` and the
            path of a `.npy` file, of Parquet or of Zarr are streamed from disk; a Dask array or DataFrame stays where
            it is. The answer has the same bits for any blocks and any number of workers.
        y : ignored
        sample_weight : array of n numbers, optional
            Multiplicities: a whole weight equals that many copies of the row. Weights that are not whole are rounded to
            multiples of 2**-20 of the largest.

        Returns
        -------
        self
        """
        outputs.check(self.out)
        table, unit = sources.table(labels, self.device, self.client, sample_weight)
        with on(table.device):
            n = table.n_rows
            checks.integer(self.n_clusters, "n_clusters", 1, n, "n_samples")
            checks.integer(self.max_iter, "max_iter", 1)
            checks.integer(self.n_init, "n_init", 1)
            dtype = checks.choice(self.dtype or "float64", "dtype", checks.FLOATS)
            start = self._checked_start(table.device, n)
            if isinstance(start, str) and isinstance(table, InMemory):
                table = _merged(table)
            partition_weight = checks.positive(
                self.partition_weight, "partition_weight", len(table.widths), "n_partitions"
            )
            settings = (table, partition_weight, self._checked_cluster_weight(table), dtype)
            self._costs = self._make_costs(*settings)
            run = self._best_run(start, settings)
            self._store(table, run, device_of(labels), unit)
        self._remember_columns(labels, len(table.widths))
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

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"client": None}  # a connection stays where it is

    def __sklearn_clone__(self) -> Any:
        parameters = self.get_params(deep=False)
        client = parameters.pop("client")
        return type(self)(**{name: clone(value, safe=False) for name, value in parameters.items()}, client=client)

    def _checked_start(self, device: str, n: int) -> Any:
        """One of STARTS, or a label vector on the device in which no cluster is empty."""
        if isinstance(self.init, str):
            return checks.choice(self.init, "init", STARTS)
        start = checks.labels(self.init, "init", device, n, self.n_clusters)
        sizes = namespace(start).bincount(start, minlength=self.n_clusters)
        if int(sizes.min()) == 0:
            raise ValueError(
                f"`init` must use all n_clusters={self.n_clusters} labels, got none of {int(sizes.argmin())}."
            )
        return start

    def _checked_cluster_weight(self, table: Table) -> Any:
        """None, or a whole number of units for each cluster."""
        if self.cluster_weight is None:
            return None
        if isinstance(self.cluster_weight, str):
            checks.choice(self.cluster_weight, "cluster_weight", ("entropy",))
            return entropy_weights(table)
        given = checks.positive(self.cluster_weight, "cluster_weight", table.n_columns, "n_columns")
        return (given * UNIT).round().clip(1).astype("int64")

    def _best_run(self, start: Any, settings: tuple) -> lloyd.Progress:
        """The run with the least objective; the earlier of equals."""
        table = settings[0]
        key = self._key(start, settings) if self.checkpoint is not None else ""
        sequence = random.sequence(self.random_state)
        saved = checkpoint.Saved(sequence.entropy, 0, None, None)
        if self.resume and self.checkpoint is not None:
            saved = checkpoint.load(self.checkpoint, key, self._costs, table.complete) or saved
        sequence = type(sequence)(saved.entropy)
        n_starts = self.n_init if isinstance(start, str) and start != "spectral" else 1
        runs = [] if saved.best is None else [saved.best]
        with bar("starts", self.verbose, n_starts, "start", saved.run) as show:
            for number, rng in enumerate(random.generators(sequence, n_starts)):
                if number < saved.run:
                    continue
                best = min(runs, key=lambda run: run.objective, default=None)
                begin = saved.current if number == saved.run else None
                runs.append(
                    lloyd.lloyd(
                        table,
                        self._costs,
                        begin or self._recipe(start, settings, rng),
                        self.n_clusters,
                        self.max_iter,
                        after_each=self._after_each(show, key, saved._replace(run=number, best=best)),
                    )
                )
        return min(runs, key=lambda run: run.objective)

    def _recipe(self, start: Any, settings: tuple, rng: Any) -> lloyd.Recipe:
        """How the labels of a start are found."""
        table, _, cluster_weight, _ = settings
        if not isinstance(start, str):
            return lloyd.Given(start)
        if start == "spectral":
            weight = None if cluster_weight is None else cluster_weight / UNIT
            return bipartite.start(table, min(self.n_clusters, table.n_rows), rng, weight)
        seed = seeding.plus_plus if start == "k-means++" else seeding.random_rows
        return seed(table, self._seeding_costs(*settings), self.n_clusters, rng)

    def _after_each(self, show: Callable, key: str, saved: checkpoint.Saved) -> Callable:
        """What is done after each iteration: show it, and save it every so often."""

        def after(progress: lloyd.Progress) -> None:
            ended = progress.converged or len(progress.evaluated) == self.max_iter
            show(int(ended), iteration=len(progress.evaluated), objective=f"{progress.objective:.6g}")
            if self.checkpoint is not None and (progress.converged or len(progress.evaluated) % checkpoint.EVERY == 0):
                checkpoint.save(self.checkpoint, key, saved._replace(current=progress))

        return after

    def _key(self, start: Any, settings: tuple) -> str:
        """A name for this table and these settings."""
        table, partition_weight, cluster_weight, dtype = settings
        given = start if isinstance(start, str) else to_device(start, "cpu")
        seed = self.random_state if isinstance(self.random_state, int) else None
        method = (type(self).__name__, getattr(self, "utility", None), getattr(self, "normalized", None))
        shape = (method, table.n_rows, self.n_clusters, self.n_init, dtype, seed)
        parts = (table.widths, sizes(table), partition_weight, cluster_weight, table.weight, given)
        return checkpoint.key_of(shape, *parts)

    def _store(self, table: Table, run: lloyd.Progress, home: str, unit: float) -> None:
        """Results, in the caller's library; what `predict` needs, on the host."""
        if not run.converged:
            warnings.warn(
                f"`max_iter` = {self.max_iter} iterations did not lead to convergence; the objective last fell "
                f"from {run.path[-2]:.6g} to {run.path[-1]:.6g}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        statistics, recipe = self._without_empty(table, run)
        tables = self._costs.tables(statistics, table.complete)
        labels, confidence = outputs.columns(table, self.out, home, lloyd.finish, self._costs, recipe, tables)
        self._categories, self._statistics = table.categories, statistics
        self.labels_, self.confidence_ = labels, confidence
        self.centers_ = to_device(self._costs.centers(statistics), home)
        unit = unit if self._costs.counts_weight else 1.0
        self.objective_ = run.objective * unit
        self.objective_path_ = [value * unit for value in run.path]
        self.n_iter_ = len(run.evaluated)
        self.evaluated_ = run.evaluated
        self.device_ = table.device_of_blocks()

    def _without_empty(self, table: Table, run: lloyd.Progress) -> tuple[lloyd.Statistics, Any]:
        """The statistics of the clusters that are not empty, fewer than asked for only where rows are; and a recipe.

        The recipe is None where the labels are the cheapest by the tables of the statistics.
        """
        counts, masses = run.statistics
        used = (counts > 0).any(0)
        if used.all():
            last = isinstance(run.recipe, lloyd.Cheapest) and run.recipe.statistics is run.statistics
            return run.statistics, None if last and not run.recipe.fillers else run.recipe
        warnings.warn(
            f"`n_clusters` = {self.n_clusters} is more than there are distinct rows: {int(used.sum())} clusters.",
            ConvergenceWarning,
            stacklevel=4,
        )
        return lloyd.Statistics(counts[:, used], None if masses is None else masses[:, used]), None


def _merged(table: InMemory) -> InMemory:
    """Distinct rows with their multiplicities where a sample of rows says that at least half of them are copies."""
    m, weight = table.block.m, table.block.weight
    n = len(m.codes)
    sample = m.take(slice(None, None, max(1, n // MERGE_SAMPLE))) if n > 1 else None
    if sample is None or 2 * len(sample.merge().multiplicity) > len(sample.codes):
        return table
    merged = m.merge()
    multiplicity = merged.multiplicity
    if weight is not None:
        groups = Membership(merged.group[:, None], [len(multiplicity)], device=m.device)
        multiplicity = groups.sizes(weight)
    return InMemory(replace(table.block, m=merged.membership, multiplicity=multiplicity, group=merged.group))
