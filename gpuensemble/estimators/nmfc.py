"""NMFC factorises the co-association matrix into parts that are not negative.

Li, Ding, Jordan: Solving Consensus and Semi-supervised Clustering Problems Using Nonnegative Matrix Factorization, IEEE
International Conference on Data Mining, 2007.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._partition import bipartite, distinct
from gpuensemble._partition.distinct import Distinct
from gpuensemble._tables.blocks import Table, whole
from gpuensemble.estimators._base.graphs import Cut, Ensemble, GraphConsensus, RowsConsensus

START = 0.2  # added to the start, so that no entry is 0 and stays so
SMALL = 1e-12  # against a division by 0


class NMFC(RowsConsensus):
    """Nonnegative matrix factorisation finds the consensus of a table of labels; a turn is linear in n.

    The co-association matrix S is approximated by Q D Q', with Q' Q = I. Q has an entry, not negative, for each sample
    and cluster; a sample goes to its largest. Updates multiply Q and D by factors under which |S - Q D Q'|^2 falls. S
    is never built: S Q = H (H' Q) / r, so that a turn is linear in n.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    tol : float
        The end: the objective falls by less than this, relative to |S|^2.
    max_iter : int
        Most turns.
    partition_weight : array of r numbers, optional
        How much each partition counts in S.
    random_state : int, Generator or None
        The seed of the start, a cut of the graph of samples by eigenvectors and k-means.
    device, dtype, verbose
        As in `EAC`. The updates are done on the host.

    Attributes
    ----------
    labels_, confidence_, device_
        As in `EAC`. Confidences, and what `predict` does, go by plain agreement.
    objective_, objective_path_ : float, list of float
        |S - Q D Q'|^2 / |S|^2 at the end; at the start and after each turn.
    n_iter_ : int
        The number of turns.

    Notes
    -----
    Equal rows are one row that counts as often. A hole agrees with nothing. The paper's updates keep Q' Q = I only in
    the limit; the objective may rise by rounding at the end.
    """

    _warn_of_fewer = GraphConsensus._warn_of_empty_clusters

    def __init__(
        self,
        n_clusters: int,
        *,
        tol: float = 1e-6,
        max_iter: int = 300,
        partition_weight: Any = None,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.tol = tol
        self.max_iter = max_iter
        self.partition_weight = partition_weight
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose

    def _check_parameters(self, table: Table) -> None:
        checks.number(self.tol, "tol", 0, inclusive=True)
        checks.integer(self.max_iter, "max_iter", 1)

    def _cut(self, ensemble: Ensemble) -> Cut:
        rows, weight = distinct.of(ensemble.table), ensemble.of_columns
        n_clusters = min(self.n_clusters, len(rows.multiplicity))
        with one_blas_thread():
            found, path = _factorized(rows, weight, _start(rows, weight, n_clusters, ensemble.rng), self)
        labelling, rule = distinct.labelled(ensemble.table, rows, found, weight, ensemble.dtype)
        return Cut(labelling, rule, len(path) - 1, path)


class _Turn(NamedTuple):
    """This is the state after a turn."""

    q: Any  # a row for each distinct row, a column for each cluster
    d: Any  # K x K
    objective: float


def _start(rows: Distinct, weight: Any, n_clusters: int, rng: Any) -> Any:
    """Return the first Q: one-hot labels of a cut of the graph of samples, something added, columns of length 1."""
    table = whole(rows.m, rows.multiplicity)
    found = bipartite.cut(table, bipartite.of_samples(table, weight), n_clusters, rng).labels(table.block)
    q = np.eye(n_clusters)[found] + START
    return q / (rows.multiplicity @ q**2) ** 0.5


def _factorized(rows: Distinct, weight: Any, q: Any, parameters: NMFC) -> tuple[Any, list[float]]:
    """Update Q and D in turns; return labels and the objectives."""
    onehot, often = rows.sparse_onehot(), rows.multiplicity[:, None].astype("float64")
    weight = weight / weight.mean() / len(rows.m.widths)
    square = _square(onehot, weight, often)

    def turn(q: Any, d: Any) -> _Turn:
        """Find D for Q (at first, where there is none, that of the least squares' diagonal), and the objective."""
        similar = onehot @ (weight[:, None] * (onehot.T @ (often * q)))  # S Q
        inner, gram = (often * q).T @ similar, (often * q).T @ q
        if d is None:
            d = np.diag(np.diagonal(inner) / np.diagonal(gram) ** 2)
        d = d * (inner / np.maximum(gram @ d @ gram, SMALL)) ** 0.5
        lost = square - 2 * float((d * inner).sum()) + float(((gram @ d) * (d @ gram)).sum())
        up = similar @ d
        factor = (up / np.maximum(q @ ((often * q).T @ up), SMALL)) ** 0.5
        return _Turn(q * factor, d, lost / square)

    state, path = turn(q, None), []
    while True:
        path.append(state.objective)
        if len(path) > parameters.max_iter or (len(path) > 1 and path[-2] - path[-1] <= parameters.tol):
            return by_first_occurrence(state.q.argmax(1)), path
        state = turn(state.q, state.d)


def _square(onehot: Any, weight: Any, often: Any) -> float:
    """Return |S|^2, from the contingency table of all clusters."""
    counts = (onehot.multiply(often)).T @ onehot
    return float((counts.multiply(counts).multiply(weight).multiply(weight[:, None])).sum())
