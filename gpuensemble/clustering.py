"""From features to labels in one estimator: base partitions, and their consensus."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Self

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from gpuensemble import generate
from gpuensemble._array import checks, csr, frames, random
from gpuensemble._array.devices import Array, namespace, on, to_device
from gpuensemble._array.messages import shown
from gpuensemble._graphs.distances import of_matrix
from gpuensemble._graphs.nearest import METRICS
from gpuensemble._graphs.search import nearest_seen
from gpuensemble._inspection.choose import Choice, choose_k, numbers
from gpuensemble.estimators._base import registry
from gpuensemble.estimators._base.labels import NamedColumns
from gpuensemble.estimators._base.scikit import BaseEstimator, ClusterMixin
from gpuensemble.generate._common import matrix

VOTERS = 5  # rows nearest to a new one, by whose votes it gets a label


def _random_k(X: Any, n_clusters: int, n_partitions: int, **options: Any) -> Array:
    """Make partitions of random numbers of clusters: K to sqrt(n), as in the paper on SEC."""
    n = checks.n_rows(X)
    return generate.random_k(X, n_partitions, **{"k_range": (n_clusters, max(n_clusters, round(n**0.5)))} | options)


WAYS: dict[str, Callable] = {
    "neighbor-graph": generate.neighbor_graph,
    "spectral": generate.spectral,
    "landmark-spectral": generate.landmark_spectral,
    "random-k": _random_k,
    "random-features": generate.random_features,
    "row-segments": generate.row_segments,
    "subsample": generate.subsample,
}


class ConsensusClustering(NamedColumns, ClusterMixin, BaseEstimator):
    """Cluster features by the consensus of many partitions of them.

    Parameters
    ----------
    n_clusters : int, range or list of int
        The number of clusters; of several, `choose_k` chooses one.
    partitions : str, function or table
        How base partitions are made: "neighbor-graph" (communities of neighbour graphs; the default, most accurate),
        "spectral", "landmark-spectral" (linear in n, for many rows), "random-k", "random-features", "row-segments" or
        "subsample": the functions of `generate`. A function is called with X, n_clusters, n_partitions and a seed, and
        returns n x r labels. A table of labels, n x r, is taken as it is.
    n_partitions : int
        The number of base partitions, r.
    consensus : str or estimator
        The consensus of the partitions: the name of a method, as the command line lists them, or an estimator of a
        table of labels, which is cloned; its number of clusters is set to `n_clusters`. The default is `SEC` with
        weights of clusters by their entropy.
    distance : {"sqeuclidean", "cosine"}
        How rows are compared; "cosine", by direction alone, for text and counts.
    partition_params : dict, optional
        Further arguments of the function of `generate`, such as `k_range`.
    random_state : None, int or numpy.random.Generator
        The seed of all draws.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    verbose : int
        1: progress bars on stderr.

    Attributes
    ----------
    labels_ : array of n int32
        The cluster of each row.
    base_labels_ : array, n x r
        The base partitions; -1 is a row that a partition left out.
    confidence_ : array of n
        How sure the consensus is of each label, 0 .. 1, as its method defines it; None if it does not.
    consensus_ : estimator
        The fitted consensus.
    n_clusters_ : int
        The number of clusters that was asked for, or chosen.
    choice_ : Choice or None
        What `choose_k` found, if it chose the number of clusters.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : array of text
        The names of the columns, if X was a frame that names them by text; `predict` refuses others.

    Notes
    -----
    Nothing is scaled: a column counts by its spread, so bring columns of different units to one scale first. Pairs of
    base partitions and consensus were compared on real data (docs/features.md); the defaults are the best pair there.
    Of several numbers of clusters base partitions are made for each, and again for the chosen one; where none is clear,
    a warning says so, and the one with the greatest `excess` is taken.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import gpuensemble as ge
    >>> X, y = load_digits(return_X_y=True)
    >>> found = ge.ConsensusClustering(10, random_state=0, device="cpu").fit(X)
    >>> round(ge.metrics.nmi(y, found.labels_), 1)
    0.9
    """

    base_labels_: Array
    confidence_: Array | None
    consensus_: Any
    n_clusters_: int
    choice_: Choice | None
    n_features_in_: int
    device_: str

    def __init__(
        self,
        n_clusters: Any,
        *,
        partitions: Any = "neighbor-graph",
        n_partitions: int = 20,
        consensus: Any = "sec-entropy",
        distance: str = "sqeuclidean",
        partition_params: dict[str, Any] | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.partitions = partitions
        self.n_partitions = n_partitions
        self.consensus = consensus
        self.distance = distance
        self.partition_params = partition_params
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make base partitions of features, and find their consensus.

        Parameters
        ----------
        X : n x d matrix
            Dense or sparse, of NumPy, SciPy, CuPy or any library that speaks `__array__` or DLPack; a frame of pandas,
            polars, pyarrow or any that speaks Arrow; or a dict of columns. Results are arrays of NumPy, or of CuPy.
        y : ignored
            Here for scikit-learn's pipelines.

        Returns
        -------
        self
            The fitted estimator.
        """
        checks.choice(self.distance, "distance", METRICS)
        X = frames.features(X)
        rows, device, _ = self._rows(X)
        n, r = rows.shape[0], checks.integer(self.n_partitions, "n_partitions", 1)
        k, seed = self._number(X, n)
        consensus = self._consensus(k)
        first, second = (int(rng.integers(1 << 31)) for rng in random.generators(seed, 2))
        base = self._base(X, k, r, first)
        if "random_state" in consensus.get_params():
            consensus.set_params(random_state=second)
        self.consensus_ = consensus.fit(base)
        self.base_labels_, self.labels_, self.n_clusters_ = base, self.consensus_.labels_, k
        self.confidence_ = getattr(self.consensus_, "confidence_", None)
        self.device_, self._fitted_rows = device, rows
        self._remember_columns(X, rows.shape[1])
        return self

    def predict(self, X: Any) -> Array:
        """Find the cluster of new rows: the five nearest rows of `fit` vote, each by 1 over its distance.

        Parameters
        ----------
        X : m x d matrix
            As in `fit`.

        Returns
        -------
        array of m int32
            The cluster of each row; a row that `fit` saw keeps its label, or that of the first row equal to it.
        """
        check_is_fitted(self)
        X = frames.features(X)
        self._check_columns(X, "X")
        rows, device, home = self._rows(X)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(f"`X` must have n_features={self.n_features_in_} columns, got {rows.shape[1]}.")
        with on(device):
            seen = of_matrix(csr.moved(self._fitted_rows, device), self.distance)
            new = of_matrix(csr.cast(rows, seen.X.dtype), self.distance, seen.mean)
            near, square = nearest_seen(new, seen, min(VOTERS, len(seen.square)))
            labels = _voted(near, square, to_device(self.labels_, device))
        return to_device(labels, home)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _rows(self, X: Any) -> tuple[Any, str, str]:
        """Check features; return them on the device, the device, and the device of the caller."""
        return matrix(X, self.device, self.distance, METRICS)

    def _number(self, X: Any, n: int) -> tuple[int, Any]:
        """Return the number of clusters, chosen if there are several, and the seed of the fit."""
        self.choice_ = None
        if not isinstance(self.n_clusters, range | list | tuple):
            return checks.integer(self.n_clusters, "n_clusters", 1, n, "n_samples"), self.random_state
        ks = numbers(self.n_clusters, "n_clusters", n)
        common = {"random_state": self.random_state, "device": self.device, "verbose": self.verbose}
        self.choice_ = choose_k(X, ks, consensus=self, **common)
        self.choice_.warn(3)
        return self.choice_.chosen, self.choice_.seed

    def _consensus(self, k: int) -> Any:
        """Return the consensus method, not fitted."""
        if isinstance(self.consensus, str):
            methods = registry.of_labels()
            checks.choice(self.consensus, "consensus", tuple(methods))
            return methods[self.consensus].make(k, None, self.device, self.verbose)
        if not hasattr(self.consensus, "fit_predict") or inspect.isclass(self.consensus):
            rule = "the name of a method or an estimator of a table of labels"
            raise TypeError(f"`consensus` must be {rule}, got {shown(self.consensus)}.")
        return clone(self.consensus).set_params(n_clusters=k)

    def _base(self, X: Any, k: int, r: int, seed: int) -> Any:
        """Make the base partitions, or take those given."""
        if isinstance(self.partitions, str):
            checks.choice(self.partitions, "partitions", tuple(WAYS))
            more = {} if self.partition_params is None else self.partition_params
            if not isinstance(more, Mapping):
                raise TypeError(f"`partition_params` must be None or a dict of arguments, got {shown(more)}.")
            options = {"distance": self.distance, "random_state": seed, "device": self.device, "verbose": self.verbose}
            return WAYS[self.partitions](X, k, r, **options | dict(more))
        table = self.partitions(X, k, r, seed) if callable(self.partitions) else self.partitions
        table = frames.table(table)
        n, is_table = checks.n_rows(X), isinstance(table, list | tuple) or len(getattr(table, "shape", ())) == 2
        if not is_table or checks.n_rows(table) != n:
            raise ValueError(f"`partitions` must be a table of labels with n_samples={n} rows, got {shown(table)}.")
        frames.refuse_another_order(table, "partitions", X, "X")
        return table


def _voted(near: Array, square: Array, labels: Array) -> Array:
    """Return the label with the most votes of the nearest rows, 1 over the distance each; the first of equal ones.

    Where the nearest row is equal to the row itself, nobody else votes.
    """
    xp = namespace(near)
    names, found = xp.unique(labels, return_inverse=True)
    weight = 1 / xp.maximum(square / xp.maximum(square[:, -1:], 1e-300), 1e-30) ** 0.5
    votes = xp.zeros((len(near), len(names)))
    for voter in range(near.shape[1]):
        votes += weight[:, voter, None] * (found[near[:, voter], None] == xp.arange(len(names)))
    return xp.where(square[:, 0] == 0, labels[near[:, 0]], names[votes.argmax(1)]).astype("int32")
