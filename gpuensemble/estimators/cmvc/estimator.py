"""CMVC, consensus guided multi-view clustering, clusters samples by several feature matrices.

Liu, Fu: Consensus Guided Multi-View Clustering, ACM Transactions on Knowledge Discovery from Data, 2018.
"""

import warnings
from typing import Any, Self

from sklearn.exceptions import ConvergenceWarning

from gpuensemble._array import checks, csr, frames, threads
from gpuensemble._array.devices import Array, choose_device, device_of, namespace, on, to_device
from gpuensemble._array.random import generators
from gpuensemble._kmeans.features.distances import DISTANCES
from gpuensemble.estimators._base.labels import Consensus
from gpuensemble.estimators.cmvc import views
from gpuensemble.estimators.cmvc.solver import Plan, Run, run, start


class CMVC(Consensus):
    """Consensus guided multi-view clustering clusters samples by several feature matrices; it is linear in n.

    It finds base partitions H_v of all views together with their consensus H*. It minimises sum_v |X_v - H_v C_v|^2 +
    lambda |H_v - H* G_v|^2 over both (Eq. 4), or the same with other distances. In turns, H* is found by `KCC` from the
    base partitions, and each H_v by k-means guided by H*.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus, and of each base partition.
    distance : {"cosine", "sqeuclidean", "kl"}
        |x| - x.c/|c|, |x - c|^2, or sum x log(x/c) of x and c as distributions, times the sum of x (Table 3); for
        features, and as the utility for partitions (Table 4). With "cosine" and "kl" a row counts by its size.
    trade_off : float
        lambda: how much the consensus guides the base partitions.
    update : {"approximate", "exact"}
        "approximate": k-means on [X_v, H*], the second part weighted by lambda (Theorem 4.2). "exact": Eqs. 8, 9 and
        12, which never raise Eq. 4; for squared Euclidean distances only.
    n_subviews : int
        Base partitions of each view, each from random columns.
    feature_ratio : float
        The share of a view's columns that each of them sees, more than 0 and at most 1.
    scale_rows : bool
        Scale the rows of each sub-view: to length 1 for "cosine" and "sqeuclidean", to sum 1 for "kl". A row of zeros
        stays what it is. For texts with "sqeuclidean"; measurements whose size tells something need it off.
    smoothing : float
        For "kl" alone: the share, at least 0 and less than 1, of each row that all rows of the sub-view together make
        up. A row x as a distribution becomes (1 - s) x + s m, where m is the sum of the sub-view's rows as a
        distribution. With 0, a centre that lacks an entry of a row is infinitely far from it.
    n_init : int
        Starts of the first k-means of each base partition, from random rows; the best one counts.
    max_iter : int
        Most iterations. They end when the consensus stays the same.
    random_state : int, Generator or None
        The seed of all draws.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    dtype : {"float64", "float32"} or None
        The type of the views and of the cost tables; float64 by default.
    verbose : int
        1: a progress bar on stderr.

    Attributes
    ----------
    labels_ : array of n int32
        The cluster of each sample.
    base_labels_ : array of int32, n x partitions
        The base partitions of the first view, then of the second, and so on; -1 where a sample is absent.
    objective_, objective_path_ : float, list of float
        Eq. 4 with the chosen distance, after each iteration. The approximate update may raise it.
    n_iter_ : int
        The number of iterations.
    device_ : str
        Where the work was done.

    Notes
    -----
    The first H* is the best of five k-means++ starts of `KCC`, which draw from a random sample of max(4096, 64 *
    n_clusters) rows.

    Examples
    --------
    >>> import numpy as np
    >>> import gpuensemble as ge
    >>> one, two = np.repeat(np.eye(2), 3, axis=0), np.repeat([[5.0, 1], [1, 5]], 3, axis=0)
    >>> two[0] = np.nan  # the first sample is absent from the second view
    >>> ge.CMVC(2, n_subviews=3, feature_ratio=1, random_state=0, device="cpu").fit([one, two]).base_labels_.shape
    (6, 6)
    """

    _title = "CMVC, of views"
    _of_views = True
    base_labels_: Array
    objective_: float
    objective_path_: list[float]
    n_iter_: int

    def __init__(
        self,
        n_clusters: int,
        *,
        distance: str = "cosine",
        trade_off: float = 0.01,
        update: str = "approximate",
        n_subviews: int = 10,
        feature_ratio: float = 0.5,
        scale_rows: bool = False,
        smoothing: float = 0.5,
        n_init: int = 1,
        max_iter: int = 100,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.distance = distance
        self.trade_off = trade_off
        self.update = update
        self.n_subviews = n_subviews
        self.feature_ratio = feature_ratio
        self.scale_rows = scale_rows
        self.smoothing = smoothing
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose

    def fit(self, views: Any, y: Any = None, *, present: Any = None) -> Self:
        """Cluster samples by several feature matrices.

        Parameters
        ----------
        views : list of n x d_v matrices
            As in `ConsensusClustering.fit`, in any mix. A sparse view stays sparse. A dense row of NaN is a sample that
            is absent from the view.
        y : ignored
            Here for scikit-learn's pipelines.
        present : n x views booleans, optional
            Where a sample is present. The rows of absent samples may hold anything.

        Returns
        -------
        self
            The fitted estimator.
        """
        views = frames.matrices(views, "views")
        given = _entries(views)
        device = choose_device(self.device, *given)
        with on(device):
            self._fit(views, present, device, device_of(given[0]) if given else "cpu")
        return self

    def _fit(self, given: Any, present: Any, device: str, home: str) -> None:
        dtype = self._check_parameters()
        checked = views.checked(given, present, self.distance, device, dtype)
        n = checked[0].X.shape[0]
        checks.integer(self.n_clusters, "n_clusters", 1, n, "n_samples")
        dealer, rng = generators(self.random_state, 2)
        recipe = self._recipe()
        views.refuse_too_large(checked, recipe, device)
        in_turn = threads.shared if device == "cpu" else map
        with threads.one_blas_thread():
            parts = views.subviews(checked, recipe, dealer, in_turn)
            rule = "have a feature other than 0 in a sub-view"
            views.refuse_unseen([part.present[0] for part in parts], range(n), rule, "without")
            plan = Plan(
                self.n_clusters, self.distance, float(self.trade_off), self.update, self.n_init, self.max_iter, in_turn
            )
            base, first, problem = start(parts, plan, rng)
            found = run(parts, base, first, plan, self.verbose, problem)
        self._store(found, device, home)

    def _recipe(self) -> views.Recipe:
        smoothing = float(self.smoothing) if self.distance == "kl" else 0.0
        ratio = float(self.feature_ratio)
        return views.Recipe(self.n_subviews, ratio, self.distance, bool(self.scale_rows), smoothing)

    def _check_parameters(self) -> str:
        checks.choice(self.distance, "distance", DISTANCES)
        checks.choice(self.update, "update", ("approximate", "exact"))
        if self.update == "exact" and self.distance != "sqeuclidean":
            raise ValueError(f"`distance` must be 'sqeuclidean' for the exact update, got {self.distance!r}.")
        checks.threshold(self.trade_off, "trade_off")
        checks.ratio(self.feature_ratio, "feature_ratio")
        checks.flag(self.scale_rows, "scale_rows")
        checks.share(self.smoothing, "smoothing")
        for name in ("n_subviews", "n_init", "max_iter"):
            checks.integer(getattr(self, name), name, 1)
        checks.integer(self.verbose, "verbose", 0)
        return checks.floating(self.dtype)

    def _store(self, run: Run, device: str, home: str) -> None:
        """Store results in the caller's library."""
        if run.changed:
            warnings.warn(
                f"`max_iter` = {self.max_iter} iterations did not lead to convergence: the last one changed "
                f"{run.changed} labels of the consensus; raise `max_iter` or lower `trade_off`.",
                ConvergenceWarning,
                stacklevel=4,
            )
        xp = namespace(run.labels)
        used, labels = xp.unique(run.labels, return_inverse=True)
        if len(used) < self.n_clusters:
            warnings.warn(
                f"`n_clusters` = {self.n_clusters} is more than there are distinct rows: {len(used)} clusters.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.labels_ = to_device(labels.astype("int32"), home)
        self.base_labels_ = to_device(xp.stack([one.labels for one in run.base], axis=1), home)
        self.objective_, self.objective_path_ = run.objective, run.path
        self.n_iter_, self.device_ = len(run.path), device


def _entries(given: Any) -> list:
    """Return what tells the library and device of each view."""
    return [csr.entries(X) for X in given] if isinstance(given, list | tuple) else []
