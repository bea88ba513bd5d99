"""PCE, partial clustering ensemble, fills the holes of base partitions while it finds their consensus.

Zhou, Du, Liu, Ling, Ji, Li, Shen: Partial Clustering Ensemble, IEEE Transactions on Knowledge and Data Engineering,
2024.
"""

import warnings
from typing import Any, NamedTuple, Self

from sklearn.exceptions import ConvergenceWarning

from gpuensemble._array import checks, frames
from gpuensemble._array.devices import Array, choose_device, device_of, namespace, on, to_device
from gpuensemble._array.progress import with_bar
from gpuensemble._array.random import generators
from gpuensemble._array.threads import one_blas_thread
from gpuensemble.estimators._base.labels import NumberedConsensus
from gpuensemble.estimators.pce import start as pce_start
from gpuensemble.estimators.pce import steps
from gpuensemble.estimators.pce.embedding import update_embedding
from gpuensemble.estimators.pce.fill import filled
from gpuensemble.estimators.pce.state import State, mean
from gpuensemble.membership import Membership

GROWTH, GROWING = 1.1, 10  # lambda is multiplied by GROWTH after each of the first GROWING iterations


class Run(NamedTuple):
    """A run returns this: the last state, its objectives, and whether it converged."""

    state: State
    path: list[float]  # the objective after each iteration
    fall: float  # of the objective in the last iteration, over n (1 + gamma)
    converged: bool


ARRAYS, DEVICE_ARRAYS = 5, 10  # n x K, at most at one time


class PCE(NumberedConsensus):
    """Partial clustering ensemble fills the holes of base partitions while it averages them; it is linear in n.

    It minimises |V (F - sum_i a_i Y_i R_i)|^2 - lambda |v|_1 + gamma |Y - F R|^2 over all of: F with F'F = s^2 I, the
    labels Y_i of holes, rotations R_i and R, weights a of the partitions (positive, of sum 1), reliabilities v of the
    samples (0 to 1), and the consensus Y (Eq. 4 of the paper), one block at a time.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    gamma : float
        Weight of the consensus Y. The paper finds 0.1 to 10^4 equally good.
    init : {"aligned", "identity"}
        The first rotations R_i. "aligned": each partition onto the leading left singular vectors of D^-1/2 H.
        "identity": none, as published, which averages columns that have nothing to do with each other.
    scale : {"balanced", "published"}
        s^2 = n / n_clusters, with which F is as large as the Y_i, or 1, with which `reliability_` ends at 1 nearly
        everywhere and holes are filled with labels that push apart. `labels_` hardly depends on it.
    tol : float
        A run ends when lambda has stopped growing (after ten iterations) and the objective falls by at most `tol` times
        n (1 + gamma).
    max_iter : int
        Most iterations.
    self_paced : bool
        False: all reliabilities are 1, and the objective has no term with lambda.
    random_state : int, Generator or None
        The seed of the iteration that finds the singular vectors; it hardly changes the result.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    dtype : {"float64", "float32"} or None
        The type of F; float64 by default.
    verbose : int
        1: a progress bar on stderr.

    Attributes
    ----------
    labels_ : array of n int32
        0 .. K' - 1, where K' may be less than n_clusters: a warning says so.
    imputed_ : n x r table
        `labels` with the holes filled by the caller's own label values, in the same kind of table.
    partition_weight_ : array of r
        a.
    reliability_ : array of n
        v, in multiples of 2**-20 (coarser from 4 million samples on).
    embedding_ : array, n x n_clusters
        F.
    objective_, objective_path_ : float, list of float
        What is minimised, at the end and after each iteration, at the lambda of that iteration; it falls once lambda no
        longer grows.
    n_iter_ : int
        The number of iterations.
    device_ : str
        Where the work was done.

    Notes
    -----
    Holes are filled once before the first iteration, so that no step ever raises the objective; in the paper they count
    as zeros until the first iteration fills them.

    `imputed_` is what lowers the objective, not the best guess. Of ten k-means partitions of the jaffe faces with half
    of the labels hidden, 75 % of these come back (7 % with ``scale="published"``); the commonest label within the
    row's cluster of `labels_` gives 90 %.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> pce = ge.PCE(2, random_state=0, device="cpu").fit([[0, 0], [0, None], [1, 2], [None, 2]])
    >>> pce.imputed_
    [[0, 0], [0, 0], [1, 2], [1, 2]]
    """

    imputed_: Any
    partition_weight_: Array
    reliability_: Array
    embedding_: Array

    def __init__(
        self,
        n_clusters: int,
        *,
        gamma: float = 1.0,
        init: str = "aligned",
        scale: str = "balanced",
        tol: float = 1e-6,
        max_iter: int = 100,
        self_paced: bool = True,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.gamma = gamma
        self.init = init
        self.scale = scale
        self.tol = tol
        self.max_iter = max_iter
        self.self_paced = self_paced
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose

    def fit(self, labels: Any, y: Any = None) -> Self:
        """Find the consensus of a table of labels with holes, as in `Membership.from_labels`.

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
        self._check_parameters()
        with on(device):
            m = Membership.from_labels(labels, device)
            checks.integer(self.n_clusters, "n_clusters", 1, len(m.codes), "n_samples")
            self._check_memory(m)
            _warn_of_single_clusters(labels, m)
            (rng,) = generators(self.random_state, 1)
            start = (self.init == "aligned", self.scale == "balanced", self.self_paced, checks.floating(self.dtype))
            with one_blas_thread():  # products of a few columns: more threads would only wait for each other
                state = pce_start.start(m, self.n_clusters, rng, *start)
                rounds = with_bar(range(self.max_iter), "PCE", self.verbose, self.max_iter)
                run = minimise(state, self.gamma, self.self_paced, self.tol, rounds)
            self._store(labels, run)
        self._remember_columns(labels, len(m.widths))
        return self

    def _check_parameters(self) -> None:
        checks.number(self.gamma, "gamma", 0)
        checks.choice(self.init, "init", ("aligned", "identity"))
        checks.choice(self.scale, "scale", ("balanced", "published"))
        checks.number(self.tol, "tol", 0, inclusive=True)
        checks.integer(self.max_iter, "max_iter", 1)
        checks.choice(self.self_paced, "self_paced", (True, False))
        checks.integer(self.verbose, "verbose", 0)
        checks.floating(self.dtype)

    def _check_memory(self, m: Membership) -> None:
        """Raise if the arrays with a row for each sample and a column for each cluster do not fit into memory."""
        n, size = len(m.codes), 8 if checks.floating(self.dtype) == "float64" else 4
        arrays = ARRAYS if m.device == "cpu" else DEVICE_ARRAYS
        what = f"PCE's {arrays} arrays of {n} x {self.n_clusters}"
        checks.fits(arrays * n * self.n_clusters * size, what, m.device, "ClusterWalk and SEC need none")

    def _store(self, labels: Any, run: Run) -> None:
        """Store results in the caller's library."""
        if not run.converged:
            warnings.warn(
                f"`max_iter` = {self.max_iter} iterations did not lead to convergence: the objective last fell by "
                f"{run.fall:.2g} n (1 + gamma), more than `tol` = {self.tol:g}; raise one of them.",
                ConvergenceWarning,
                stacklevel=3,
            )
        state, home = run.state, device_of(labels)
        state.points *= state.scale
        merged = state.observed.merge()  # rounding must not part equal rows
        self.labels_ = to_device(self._without_empty(state.labels[merged.first][merged.group]), home)
        self.embedding_ = to_device(state.points, home)
        self.reliability_ = to_device(state.reliability, home)
        self.partition_weight_ = to_device(state.weight, home)
        self.imputed_ = filled(labels, state.observed, state.m)
        self.objective_, self.objective_path_ = run.path[-1], run.path
        self.n_iter_ = len(run.path)
        self.device_ = state.m.device

    def _without_empty(self, labels: Any) -> Any:
        """Return labels 0 .. K' - 1 of the clusters that are not empty."""
        xp = namespace(labels)
        used = xp.bincount(labels, minlength=self.n_clusters) > 0
        count = int(used.sum())
        if count == self.n_clusters:
            return labels
        self._warn_of_empty_clusters(count)
        return (xp.cumsum(used) - 1).astype("int32")[labels]


def minimise(state: State, gamma: float, self_paced: bool, tol: float, rounds: Any) -> Run:
    """Run Algorithm 1: the block steps in turns; `state` is overwritten."""
    average = mean(state)
    squares = steps.squared_residuals(state, average)
    lam = steps.first_lambda(squares) if self_paced else 0.0
    path, fall, converged = [], float("inf"), False
    for iteration in rounds:
        if self_paced:
            steps.update_reliability(state, squares, lam)  # Eq. 6
        update_embedding(state, average, gamma)  # Theorem 1
        steps.impute(state)  # Eq. 11
        sums = steps.Sums(state)
        steps.update_weight(state, sums)  # Eq. 12
        steps.update_tables(state, sums)  # Theorem 3
        steps.update_rotation(state)  # Theorem 3
        steps.update_labels(state)  # Eq. 15
        average = mean(state)
        squares = steps.squared_residuals(state, average)
        path.append(steps.objective(state, squares, lam, gamma))
        constant = not self_paced or iteration > GROWING
        if constant and len(path) > 1:
            fall = (path[-2] - path[-1]) / (len(squares) * (1 + gamma))
            converged = fall <= tol
            if converged:
                break
        if self_paced and iteration < GROWING:
            lam *= GROWTH
    return Run(state, path, fall, converged)


def _warn_of_single_clusters(labels: Any, m: Membership) -> None:
    names = getattr(labels, "columns", range(len(m.widths)))
    single = [name for name, width in zip(names, m.widths.tolist(), strict=True) if width == 1]
    if single:
        listed = ", ".join(map(repr, single))
        warnings.warn(f"Partitions of one cluster carry no information: columns {listed}.", stacklevel=3)
