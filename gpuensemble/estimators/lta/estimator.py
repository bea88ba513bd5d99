"""LTA approximates the coherent-link and the co-association matrix by a tensor of low rank.

Jia, Liu, Hou, Zhang: Clustering Ensemble Meets Low-rank Tensor Approximation, AAAI 2021.
"""

import warnings
from collections.abc import Iterator
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from gpuensemble._array import checks
from gpuensemble._array.devices import Array, namespace
from gpuensemble.estimators._base.labels import HiddenParameter
from gpuensemble.estimators._base.similarity import Refined, SimilarityConsensus
from gpuensemble.estimators.lta import solver
from gpuensemble.membership import Membership

TRANSFORMS = ("partition", "sample")
ASSIGNMENTS = ("spectral", "average")
ORDER = 'The result of `transform="sample"` depends on the order of the rows; that of "partition" does not.'


class LTA(SimilarityConsensus):
    """Low-rank tensor approximation refines the co-association matrix by links that all partitions agree on.

    It works on n x n arrays. The coherent links M (1 where two samples agree in every partition) and the co-association
    A are stacked, and a tensor P of low rank is sought near both (Eq. 9): min |P|_* + lambda |E|_F^2, with P2 + E = A,
    P1 = 1 where M = 1, both slices symmetric and within [0, 1]. The samples are then clustered by P2.

    **The published form, ``transform="sample"``, depends on the order of the samples**, and the published data sets are
    sorted by class. On the authors' base partitions, 10 of them, the accuracy as stored / with shuffled rows / of the
    plain co-association is: MF 0.99 / 0.62 / 0.51, BinAlpha 0.91 / 0.19 / 0.46, Semeion 0.99 / 0.13 / 0.63, Texture
    0.99 / 0.23 / 0.62, MNIST 0.98 / 0.19 / 0.52. With 60 % of the base labels replaced by noise the stored order of MF
    still "finds" 0.96: what is found is the order. Of shuffled rows often nothing is left but one column of equal
    entries, and the labels are then arbitrary. The default, ``transform="partition"``, does not depend on the order,
    and gains nothing over the plain co-association matrix. On 1000 shuffled rows, 5 draws of 10 partitions, accuracy /
    `EAC`'s is: spectral BinAlpha 0.47 / 0.46, Semeion 0.58 / 0.59, VS (846 rows) 0.38 / 0.39; average linkage
    0.43 / 0.43, 0.54 / 0.65, 0.38 / 0.40.

    Parameters
    ----------
    n_clusters : int
        The number of clusters of the consensus.
    lambda_error : float
        lambda, greater than 0: what an entry of E costs.
    transform : {"partition", "sample"}
        What the Fourier transform of the tensor nuclear norm runs along: the two stacked matrices (whose sum and
        difference are then of low rank), or the samples, as published, which warns. `get_params` and `set_params`
        know it; it is no attribute, since scikit-learn takes an estimator with one for a transformer.
    assign : {"spectral", "average"}
        How P2 + P2' is clustered: by its leading eigenvectors, or average linkage (SciPy, on the host).
    tol : float
        Stop when no entry of the residuals P1 - B, P2 + E - A, P2 - C, of matrices within [0, 1], is as large. In
        float32 a value below 5e-8 n cannot be asked for: the run stops when residuals were below 5e-8 n for 60
        iterations.
    max_iter : int
        Most iterations.
    random_state : int, Generator or None
        The seed of the draws, for "spectral" only.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    dtype : {"float64", "float32"} or None
        The type of the matrices; float64 by default.
    verbose : int
        1: a progress bar on stderr.

    Attributes
    ----------
    labels_ : array of n int32
        The cluster of each sample.
    coassociation_ : array, n x n
        (P2 + P2') / 2; it may leave [0, 1] by as much as the last residual.
    n_iter_ : int
        The number of iterations.
    objective_, objective_path_ : float, list of float
        |P|_* + lambda |E|_F^2, at the end and after each iteration. It is no measure of progress: the first iterates
        violate the constraints.
    residual_path_ : list of float
        The largest entry of the residuals after each iteration.
    device_ : str
        Where the work was done.

    Notes
    -----
    At most 11 arrays of n x n are held, LAPACK's workspace aside: A, E, two multipliers, P in whose place its next
    argument T comes, and five for the prox (`solver` says where the other variables of Algorithm 2 went). With the
    partition transform n is the number of distinct rows, except in the result.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> labels = [[0, 0, 1], [0, 0, 1], [0, 1, 1], [1, 2, 0], [1, 2, 0]]
    >>> ge.LTA(2, random_state=0, device="cpu").fit_predict(labels).tolist()
    [0, 0, 0, 1, 1]
    """

    _takes_holes = False
    _is_square = True
    _arrays = solver.ARRAYS
    transform: Any = HiddenParameter()
    coassociation_: Array
    residual_path_: list[float]

    def __init__(
        self,
        n_clusters: int,
        *,
        lambda_error: float = 0.002,
        transform: str = "partition",
        assign: str = "spectral",
        tol: float = 1e-8,
        max_iter: int = 500,
        random_state: Any = None,
        device: str = "auto",
        dtype: str | None = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.lambda_error = lambda_error
        self.transform = transform
        self.assign = assign
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.device = device
        self.dtype = dtype
        self.verbose = verbose

    def _check_parameters(self) -> None:
        checks.number(self.lambda_error, "lambda_error", 0)
        checks.choice(self._transform, "transform", TRANSFORMS)
        checks.choice(self.assign, "assign", ASSIGNMENTS)
        checks.number(self.tol, "tol", 0)
        checks.integer(self.max_iter, "max_iter", 1)

    def _refined(self, m: Membership, n_clusters: int, dtype: str, streams: Iterator) -> Refined:
        """Refine the co-association matrix by Algorithm 2."""
        if self._transform == "sample":
            warnings.warn(ORDER, stacklevel=3)
        run = solver.coassociation(m, self._transform, self.lambda_error, self.tol, self.max_iter, dtype, self.verbose)
        if not run.converged:
            warnings.warn(
                f"`max_iter` = {self.max_iter} iterations left a residual of {run.residual_path[-1]:.3g}, "
                f"`tol` = {self.tol:g} asks for less; raise `max_iter` or `tol`.",
                ConvergenceWarning,
                stacklevel=3,
            )

        def within_bounds() -> Array:
            """Clip the refined matrix to [0, 1], which its entries may leave by the residual; in float64."""
            return namespace(run.coassociation).clip(run.coassociation.astype("float64"), 0, 1)

        results = {"coassociation_": run.coassociation, "residual_path_": run.residual_path}
        return Refined(within_bounds, results, run.objective_path)

    def _how(self) -> str:
        return self.assign

    @property
    def _transform(self) -> str:
        return self.get_params(deep=False)["transform"]
