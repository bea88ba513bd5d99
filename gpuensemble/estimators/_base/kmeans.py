"""SEC and KCC share this: k-means over the membership operator as a scikit-learn estimator."""

import abc
import warnings
from dataclasses import replace
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from gpuensemble._array import checks, random
from gpuensemble._array.devices import Array, namespace, to_device
from gpuensemble._array.progress import bar
from gpuensemble._kmeans.labels import seeding
from gpuensemble._kmeans.labels.checkpoint import Checkpoint
from gpuensemble._kmeans.labels.costs import Costs
from gpuensemble._kmeans.labels.labellings import ByCosts, Given, Labelling, Renumbered
from gpuensemble._kmeans.labels.lloyd import Problem, Progress, finish
from gpuensemble._kmeans.labels.runs import Starts, best_run
from gpuensemble._kmeans.labels.statistics import Statistics, evaluate
from gpuensemble._kmeans.labels.weights import UNIT, Weighting, entropy_weights, in_units
from gpuensemble._partition import bipartite
from gpuensemble._tables import outputs
from gpuensemble._tables.blocks import InMemory, Table
from gpuensemble.estimators._base.streamed import Source, StreamedConsensus
from gpuensemble.membership import Membership

STARTS = ("spectral", "k-means++", "random")
MERGE_SAMPLE = 4096  # rows looked at to see whether merging equal rows pays


class KMeansConsensus(StreamedConsensus, abc.ABC):
    """This template runs k-means over a table of labels.

    A subclass says what clusters cost, and what k-means++ measures by.
    """

    init: Any
    n_init: int
    max_iter: int
    cluster_weight: Any
    centers_: Array
    evaluated_: list[float]
    _skip: bool | None = None  # whether rows that cannot move are left out; None: where it pays

    def _fit(self, source: Source) -> None:
        table = source.table
        start = self._checked_start(table.device, table.n_rows)
        if isinstance(start, str) and isinstance(table, InMemory):
            table = _merged(table)
        weighting = self._checked_weighting(table)
        problem = Problem.of(table, self._costs(table, weighting), self.n_clusters)
        n_starts = self.n_init if isinstance(start, str) and start != "spectral" else 1
        with bar("starts", self.verbose, n_starts * self.max_iter, "iteration") as show:
            run = best_run(
                problem,
                Starts(n_starts, lambda problem, rng: self._labelling(start, problem, weighting, rng)),
                self.max_iter,
                random.sequence(self.random_state),
                checkpoint=self._checkpoint(table, n_starts),
                show=show,
                skip=self._skip,
            )
        self._store(problem, run, source)

    def _predicted(self, m: Membership) -> Array:
        """Find the cheapest cluster of each row."""
        tables = self._fitted_costs.priced(self._statistics, m.complete).tables
        found, *_ = evaluate(m, tables, self._fitted_costs.rows(m, constant=False).weight)
        return found

    @abc.abstractmethod
    def _costs(self, table: Table, weighting: Weighting) -> Costs:
        """Say what clusters cost."""

    def _seeding_costs(self, problem: Problem, weighting: Weighting) -> Costs:
        """Say what k-means++ measures by."""
        return problem.costs

    def _checked_start(self, device: str, n_rows: int) -> Any:
        """Return one of STARTS, or a label vector on the device in which no cluster is empty."""
        checks.integer(self.max_iter, "max_iter", 1)
        checks.integer(self.n_init, "n_init", 1)
        checks.flag(self.resume, "resume")
        if isinstance(self.init, str):
            return checks.choice(self.init, "init", STARTS)
        start = checks.labels(self.init, "init", device, n_rows, self.n_clusters)
        sizes = namespace(start).bincount(start, minlength=self.n_clusters)
        if int(sizes.min()) == 0:
            raise ValueError(
                f"`init` must use all n_clusters={self.n_clusters} labels, got none of {int(sizes.argmin())}."
            )
        return start

    def _checked_weights(self, n_partitions: int) -> Any:
        """Return the weights of partitions; what the clusters of the table say of their own weights comes later."""
        if isinstance(self.cluster_weight, str):
            checks.choice(self.cluster_weight, "cluster_weight", ("entropy",))
        return checks.positive(self.partition_weight, "partition_weight", n_partitions, "n_partitions")

    def _checked_weighting(self, table: Table) -> Weighting:
        dtype = checks.floating(self.dtype)
        of_partitions = self._checked_weights(len(table.widths))
        if self.cluster_weight is None:
            return Weighting(of_partitions, None, dtype)
        if isinstance(self.cluster_weight, str):
            return Weighting(of_partitions, entropy_weights(table), dtype)
        given = checks.positive(self.cluster_weight, "cluster_weight", table.n_columns, "n_columns")
        clusters, unit = in_units(given)
        return Weighting(of_partitions, clusters, dtype, unit)

    def _labelling(self, start: Any, problem: Problem, weighting: Weighting, rng: Any) -> Labelling:
        """Make the labelling that a start begins with."""
        table = problem.table
        if not isinstance(start, str):
            return Given(start)
        if start == "spectral":
            of_clusters = None if weighting.clusters is None else weighting.clusters / UNIT  # only ratios matter
            return bipartite.cut(table, bipartite.of_samples(table, of_clusters), self.n_clusters, rng)
        seed = seeding.plus_plus if start == "k-means++" else seeding.random_rows
        return seed(table, self._seeding_costs(problem, weighting), self.n_clusters, rng)

    def _checkpoint(self, table: Table, n_starts: int) -> Checkpoint | None:
        """Name the file that the state is kept in; return None if no file was asked for.

        A single run may go on with another `max_iter`; of several, those that are over have used the old one.
        """
        if self.checkpoint is None:
            return None
        left_out = ("max_iter",) if n_starts == 1 else ()
        return Checkpoint(str(self.checkpoint), self._key(table, left_out), self.resume)

    def _store(self, problem: Problem, run: Progress, source: Source) -> None:
        """Store results in the caller's library, and what `predict` needs on the host."""
        if not run.converged:
            warnings.warn(
                f"`max_iter` = {self.max_iter} iterations did not lead to convergence; the objective last fell "
                f"from {run.path[-2]:.6g} to {run.path[-1]:.6g}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        costs, (statistics, labelling) = problem.costs, self._without_empty(run)
        self._fitted_costs, self._statistics, self._counts = costs, statistics, statistics.counts
        cheapest = ByCosts(statistics, problem.priced(statistics.to(problem.table.device)).tables)
        self.labels_, self.confidence_ = outputs.columns(
            problem.table, self.out, source.home, finish, costs, labelling, cheapest
        )
        self.centers_ = to_device(costs.centers(statistics), source.home)
        unit = source.unit if costs.counts_weight else 1.0
        self.objective_ = run.objective * unit
        self.objective_path_ = [value * unit for value in run.path]
        self.n_iter_ = len(run.evaluated)
        self.evaluated_ = run.evaluated

    def _without_empty(self, run: Progress) -> tuple[Statistics, Any]:
        """Return the statistics of the clusters that are not empty, and a labelling.

        There are fewer clusters than asked for only where there are fewer distinct rows. The labelling is None where
        the labels are the cheapest by the tables of the statistics.
        """
        counts, masses = run.statistics.to("cpu")
        used = (counts > 0).any(0)
        every = bool(used.all())
        kept = slice(None) if every else used
        # copies: what they are parts of, all that iterations worked in, is not to live as long as the estimator
        statistics = Statistics(counts[:, kept].copy(), None if masses is None else masses[:, kept].copy())
        if every:
            last = isinstance(run.labelling, ByCosts) and run.labelling.statistics is run.statistics
            return statistics, None if last and not run.labelling.fillers else run.labelling
        self._warn_of_distinct_rows(int(used.sum()))
        return statistics, Renumbered(run.labelling, (used.cumsum() - 1).astype("int32"))


def check_parameters(method: KMeansConsensus, n_rows: int, n_partitions: int) -> None:
    """Raise for parameters that are wrong for any table of that size: such a table, yet to be made, may take long."""
    checks.integer(method.verbose, "verbose", 0)
    checks.integer(method.n_clusters, "n_clusters", 1, n_rows, "n_samples")
    checks.floating(method.dtype)
    method._checked_start("cpu", n_rows)
    method._checked_weights(n_partitions)


def _merged(table: InMemory) -> InMemory:
    """Merge equal rows into one with its multiplicity, if a sample says that at least half of the rows are copies."""
    m, weight = table.block.m, table.block.weight
    n = len(m.codes)
    if n == 1:
        return table
    sample = m.take(slice(None, None, max(1, n // MERGE_SAMPLE)))
    merged = sample.merge()
    if 2 * len(merged.multiplicity) > len(sample.codes):
        return table
    if len(sample.codes) < n:
        merged = m.merge()
    multiplicity = merged.multiplicity
    if weight is not None:
        groups = Membership(merged.group[:, None], [len(multiplicity)], device=m.device)
        multiplicity = groups.sizes(weight)
    return InMemory(replace(table.block, m=merged.membership, multiplicity=multiplicity, group=merged.group))
