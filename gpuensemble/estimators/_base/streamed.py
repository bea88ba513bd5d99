"""The methods that are linear in n share this: tables in memory, on disk or on a cluster, and prediction."""

import abc
import warnings
from typing import Any, NamedTuple, Self

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from gpuensemble._array import checks, frames
from gpuensemble._array.devices import Array, choose_devices, device_of, on, to_device
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._kmeans.labels.checkpoint import key_of
from gpuensemble._partition import votes
from gpuensemble._tables import outputs, sources
from gpuensemble._tables.blocks import Table
from gpuensemble.estimators._base.labels import NumberedConsensus
from gpuensemble.membership import Membership

# Parameters that change where the work is done or the answer goes, not the answer.
WITHOUT_EFFECT = frozenset(["device", "verbose", "client", "out", "checkpoint", "resume"])


class Source(NamedTuple):
    """This holds a table as it came from the caller: its blocks, the unit of its weights, and the caller's device."""

    table: Table
    unit: float  # what one unit of its weights stands for
    home: str  # the device of the caller's arrays


class StreamedConsensus(NumberedConsensus, abc.ABC):
    """This is the template of a method of a table of labels in blocks; a subclass fits it, and labels new rows.

    `_fit` also sets `_counts`: how many samples of each cluster have each label, C x K integers on the host.
    """

    partition_weight: Any
    client: Any
    out: Any
    checkpoint: Any
    resume: bool
    confidence_: Array
    _counts: Any

    def fit(self, labels: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Find the consensus of a table of labels.

        Parameters
        ----------
        labels : n x r table
            As in `Membership.from_labels`: any hashable labels; NaN, None and -1 are holes. A `numpy.memmap` and the
            path of a `.npy` file, of Parquet or of Zarr are streamed from disk; a Dask array or DataFrame stays where
            it is, or without a client is computed part by part, twice, by Dask's own scheduler. The answer has the same
            bits for any blocks and any number of workers. It comes back in CuPy if `labels` is on a GPU, in Dask arrays
            from a client, else in NumPy.
        y : ignored
            Here for scikit-learn's pipelines.
        sample_weight : array of n numbers, optional
            Multiplicities: a whole weight equals that many copies of the row. Weights that are not whole are rounded to
            multiples of 2**-20 of the largest.

        Returns
        -------
        self
            The fitted estimator.
        """
        labels = frames.table(labels)
        checks.integer(self.verbose, "verbose", 0)
        frames.refuse_another_order(sample_weight, "sample_weight", labels, "labels")
        frames.refuse_another_order(getattr(self, "init", None), "init", labels, "labels")
        checkpoint = checks.path(getattr(self, "checkpoint", None), "checkpoint")
        outputs.check_apart(labels, self.out, checkpoint=checkpoint)
        table, unit = sources.table(labels, self.device, self.client, sample_weight)
        with on(table.device), one_blas_thread():
            checks.integer(self.n_clusters, "n_clusters", 1, table.n_rows, "n_samples")
            self._fit(Source(table, unit, device_of(labels)))
        self._categories, self.device_ = table.categories, table.device_of_blocks()
        self._remember_columns(labels, len(table.widths))
        return self

    def predict(self, labels: Any) -> Array:
        """Find the cluster of each row of another table with the same columns.

        Parameters
        ----------
        labels : table in memory, as many columns as `fit` saw
            Labels that `fit` did not see count as holes; a warning says how many there are.

        Returns
        -------
        array of int32
            The cluster of each row.
        """
        labels = frames.table(labels)
        m = self._known(labels)
        with on(m.device), one_blas_thread():
            return to_device(self._predicted(m), device_of(labels))

    def predict_proba(self, labels: Any) -> Array:
        """Find how the clusters of each row vote: the share that each consensus label has in them, on average.

        Of a row's cluster in one partition, the share of label k is (samples of that cluster which `fit` gave label k)
        / (samples of that cluster). The vote of a row is the mean of these shares over the partitions that saw it. It
        is the same for every method, counts sample weights, and is no calibrated probability: docs/votes.md measures
        how far from one. The label that `predict` finds by the method's own rule need not have the greatest share.

        Parameters
        ----------
        labels : table in memory, as many columns as `fit` saw
            As in `predict`; the table that `fit` saw gives the soft labels of the consensus.

        Returns
        -------
        array of float64, n x K
            Rows add up to 1. A row is NaN if all samples of its clusters have weight 0.
        """
        labels = frames.table(labels)
        m, home = self._known(labels), device_of(labels)
        n, k = len(m.codes), self._counts.shape[1]
        checks.fits(8 * n * k, f"The votes of {n} rows for {k} clusters", home, "give fewer rows at a time")
        with on(m.device):
            return votes.shares(m, self._counts, home)

    @abc.abstractmethod
    def _fit(self, source: Source) -> None:
        """Find the consensus of a table in blocks, and store it."""

    @abc.abstractmethod
    def _predicted(self, m: Membership) -> Array:
        """Find the label of each row of another table."""

    def _known(self, labels: Any) -> Membership:
        """Read another table in the columns of the one that `fit` saw; warn of labels that are not in it."""
        check_is_fitted(self)
        self._check_columns(labels, "labels")
        device = choose_devices(self.device, labels)[0]
        with on(device):
            m, unknown = Membership.from_known_labels(labels, self._categories or [], device)
        if unknown:
            warnings.warn(f"{unknown} labels were not seen by `fit` and count as missing.", stacklevel=3)
        return m

    def _key(self, table: Table, left_out: Any = ()) -> str:
        """Make the key of a checkpoint: of the table's content, the method, and the parameters that have an effect."""
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in left_out}
        effective = {name: value for name, value in parameters.items() if name not in WITHOUT_EFFECT}
        return key_of(table, effective | {"method": type(self).__name__})

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"client": None}  # a connection stays where it is

    def __sklearn_clone__(self) -> Any:
        parameters = self.get_params(deep=False).items()
        return type(self)(
            **{name: value if name == "client" else clone(value, safe=False) for name, value in parameters}
        )
