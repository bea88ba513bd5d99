"""The methods that group clusters, samples or both by a graph share this: weights of clusters, a cut, its labels."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import checks, random
from gpuensemble._array.devices import Array, namespace, to_host
from gpuensemble._kernels import products
from gpuensemble._kmeans.labels.checkpoint import read, write
from gpuensemble._kmeans.labels.statistics import per_column
from gpuensemble._partition import clusters, distinct, linkage
from gpuensemble._partition.distinct import Distinct
from gpuensemble._partition.keeping import as_arrays, from_arrays
from gpuensemble._tables import outputs
from gpuensemble._tables.blocks import Block, Table
from gpuensemble.estimators._base.streamed import Source, StreamedConsensus
from gpuensemble.membership import Membership

FAINTEST = 2.0**-20  # of the largest weight of a partition, that the others count at least: every row has a degree


class Ensemble(NamedTuple):
    """A cut is made of this: the table, how much each of its partitions counts, and what draws come from."""

    table: Table
    partition_weight: Any  # r numbers
    dtype: str  # of the tables by which rows get their labels
    rng: Any

    @property
    def of_columns(self) -> Any:
        """Return the weight of each cluster's partition."""
        return per_column(self.partition_weight[:, None], self.table.widths)[:, 0]


class Cut(NamedTuple):
    """This is what a cut has found: how the table's rows are labelled, and by which rule new rows are."""

    labelling: Any
    rule: Any  # `found(m)` gives the labels and confidences of any rows
    n_iter: int = 1
    path: list[float] | None = None  # of objectives; None: nothing was minimised


class GraphConsensus(StreamedConsensus, abc.ABC):
    """This is the template of a method that cuts a graph of clusters, of samples, or of both."""

    _warn_of_fewer = StreamedConsensus._warn_of_empty_clusters

    def _fit(self, source: Source) -> None:
        table = source.table
        dtype = checks.floating(self.dtype)
        of_partitions = checks.positive(self.partition_weight, "partition_weight", len(table.widths), "n_partitions")
        checks.flag(self.resume, "resume")
        self._check_parameters(table)
        (rng,) = random.generators(self.random_state, 1)
        of_partitions = np.maximum(of_partitions / of_partitions.max(), FAINTEST)
        ensemble = Ensemble(table, of_partitions, dtype, rng)
        labelling, self._rule, self.n_iter_, path = self._kept(ensemble)
        n_found = self._rule.n_clusters
        if n_found < self.n_clusters:
            self._warn_of_fewer(n_found)
        self.labels_, self.confidence_ = outputs.columns(table, self.out, source.home, _finish, labelling, self._rule)
        self._counts, sizes = table.total(count_labels, labelling, n_found)
        self.objective_path_ = path or [self._objective(table, self._counts, sizes)]
        self.objective_ = self.objective_path_[-1]

    def _kept(self, ensemble: Ensemble) -> Cut:
        """Find the labels, or go on from what a checkpoint has of them; keep them there if one is named."""
        if self.checkpoint is None:
            return self._cut(ensemble)
        path, key = str(self.checkpoint), self._key(ensemble.table)
        arrays = read(path, key) if self.resume else None
        if arrays is not None:
            rule = from_arrays(arrays, "rule")
            same = "labelling" not in arrays
            return Cut(rule if same else from_arrays(arrays, "labelling"), rule, int(arrays["n_iter"]))
        cut = self._cut(ensemble)
        arrays = as_arrays(cut.rule, "rule") | {"n_iter": np.array(cut.n_iter)}
        write(path, key, arrays if cut.labelling is cut.rule else arrays | as_arrays(cut.labelling, "labelling"))
        return cut

    def _predicted(self, m: Membership) -> Array:
        labels, _ = self._rule.found(m)
        return labels

    @abc.abstractmethod
    def _check_parameters(self, table: Table) -> None:
        """Raise if a parameter is wrong, or if what the method needs for such a table does not fit into memory."""

    @abc.abstractmethod
    def _cut(self, ensemble: Ensemble) -> Cut:
        """Find the labels."""

    def _objective(self, table: Table, counts: Any, sizes: Any) -> float:
        """Return the mean of 1 - S over the pairs of samples in one cluster."""
        return 1 - float(
            (counts.astype("float64") ** 2).sum() / (len(table.widths) * (sizes.astype("float64") ** 2).sum())
        )


def _finish(block: Block, labelling: Any, rule: Any) -> tuple[Array, Array]:
    """Find the label of each row of the table, and its confidence, which is 0 where the rule prefers another label."""
    labels, confidence = rule.found(block.m)
    if labelling is not rule:
        given = labelling.labels(block, None)
        labels, confidence = given, namespace(given).where(given == labels, confidence, 0.0)
    return block.of_table(labels), block.of_table(confidence)


def count_labels(block: Block, labelling: Any, n_clusters: int) -> tuple[Any, Any]:
    """Count the samples of each cluster with each label, and those of each label, on the host."""
    labels = labelling.labels(block, None)
    counts = to_host(products.count(block.m, labels, block.multiplicity, n_clusters))
    ones = namespace(labels).ones(len(labels), "int64") if block.multiplicity is None else block.multiplicity
    sizes = namespace(labels).bincount(labels, weights=ones, minlength=n_clusters)  # exact below 2**53
    return counts, to_host(sizes)


class RowsConsensus(GraphConsensus):
    """This is the template of a method that groups the distinct rows of a table, all of which are in memory.

    Files and Dask collections are read whole; so there are no parameters for blocks.
    """

    client, out, checkpoint, resume = None, None, None, False
    _warn_of_fewer = StreamedConsensus._warn_of_distinct_rows


def cut_rows(ensemble: Ensemble, n_clusters: int, labels: Callable[[Distinct, int], Any], weight: Any) -> Cut:
    """Label the distinct rows, by a function of them and of a number of clusters, and so the table and new rows.

    The weights are those of the clusters in the similarity of samples, by which new rows are labelled.
    """
    rows = distinct.of(ensemble.table)
    found = labels(rows, min(n_clusters, len(rows.multiplicity)))
    return Cut(*distinct.labelled(ensemble.table, rows, found, weight, ensemble.dtype))


def fits(table: Table, arrays: int, name: str, n_groups: int | None = None) -> None:
    """Raise if so many arrays of a method, square in the nodes of its graph of clusters, do not fit into memory."""
    n = min(table.n_columns, n_groups or (table.n_columns if table.n_columns <= clusters.MOST else clusters.GROUPS))
    what = f"{name}'s {arrays} arrays of {n} x {n} clusters"
    checks.fits(8 * arrays * n * n, what, "cpu", "SEC needs none")


def rows_fit(rows: Distinct, arrays: int, name: str) -> None:
    """Raise if so many arrays of a method, square in the number of distinct rows, do not fit into memory."""
    n = len(rows.multiplicity)
    what = f"{name}'s {arrays} arrays of {n} x {n} distinct rows"
    checks.fits(8 * arrays * n * n, what, "cpu", "ClusterWalk and SEC are linear in n")


def tree_of(rows: Distinct, weight: Any, method: str, name: str) -> Any:
    """Link distinct rows by H diag(weight) H': by averages of it without the matrix, else from the matrix."""
    if method == "average":
        needed = 8 * rows.m.n_columns * len(rows.multiplicity)
        what = f"{name}'s counts of {rows.m.n_columns} clusters x {len(rows.multiplicity)} distinct rows"
        checks.fits(needed, what, "cpu", "ClusterWalk and SEC are linear in n")
        return distinct.tree(rows, weight)
    rows_fit(rows, 3, name)
    members = rows.sparse_onehot()
    return linkage.tree(((members * weight) @ members.T).toarray(), rows.multiplicity, method)
