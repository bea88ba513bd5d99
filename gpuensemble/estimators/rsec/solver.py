"""The solver finds a robust representation of a co-association matrix by the augmented Lagrangian of RSEC and NRSEC.

Tao, Liu, Li, Ding, Fu: Robust Spectral Ensemble Clustering via Rank Minimization, ACM Transactions on Knowledge
Discovery from Data, 2019; equation numbers are the paper's.

With S = Q diag(s) Q' everything is kept as Q'Z, Q'J, Q'E, Q'Y: S becomes diagonal, and neither the singular values nor
the lengths of columns change. Multipliers are divided by mu. These arrays of n x n are held: Q', Z, Y2, what the error
term keeps (one for RSEC; two for NRSEC, from its second outer step on), and one that is the argument of the singular
value thresholding, then J. That is 5 or 6, and 2 more for a short time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuensemble._array.devices import Array, device_of, namespace, to_host
from gpuensemble._kernels.cpu import thin
from gpuensemble._linear import krylov
from gpuensemble._linear.dense import product
from gpuensemble._linear.eigen import leading
from gpuensemble.estimators.rsec.blocks import row_blocks, sum_over_blocks
from gpuensemble.estimators.rsec.errors import Columns, Entries, concave
from gpuensemble.prox import NuclearSequence, mcp_weights

MU_MAX = 1e10
ACCURACY = {"float64": 1e-11, "float32": 1e-5}  # of F
MAX_DEPTH = 16  # of the block iteration for F
GUARDS, LANES = 2, 4  # columns beside those of F, at least, and what all are a multiple of: a kernel's vector


class Settings(NamedTuple):
    """This holds the parameters of the paper; gamma is None for the nuclear norm."""

    lambda_rank: float
    lambda_error: float
    gamma: float | None
    n_outer: int
    mu: float | None
    rho: float
    tol: float
    max_iter: int


class Solution(NamedTuple):
    """The solver returns this: Z, E and F; per iteration, the larger relative residual and the objective."""

    representation: Array
    error: Array
    embedding: Array
    residuals: list
    objectives: list
    converged: bool


def solve(
    similarity: Array, n_clusters: int, settings: Settings, rng: Any, watch: Callable = lambda state: None
) -> Solution:
    """Run Algorithm 1 (gamma is None) or 2 on S, which is overwritten; `watch` is called after each iteration."""
    state = _Iterate(similarity, n_clusters, settings, rng)
    for outer in range(1 if settings.gamma is None else settings.n_outer):
        state.begin(outer)
        for _ in range(settings.max_iter):
            state.update_representation()
            state.update_error()
            state.update_embedding()
            state.update_copy()
            residual = state.read()
            watch(state)
            if residual < settings.tol:
                break
    objectives = to_host(namespace(state.z).stack(state.objectives)).astype(float).tolist()
    representation = product(state.qt.T, state.z, out=state.j)
    error = state.error.dense(state.qt, out=state.y2)
    return Solution(representation, error, state.f.copy(), state.residuals, objectives, residual < settings.tol)


class _Iterate:
    """This holds the variables of the iteration, rotated by Q'."""

    def __init__(self, similarity: Array, n_clusters: int, settings: Settings, rng: Any):
        xp = namespace(similarity)
        values, vectors = xp.linalg.eigh(similarity)
        order = xp.argsort(-abs(values))
        self.s, self.qt = values[order][:, None], xp.ascontiguousarray(vectors.T[order])
        del vectors
        self.settings, self.n = settings, len(similarity)
        norms = to_host(xp.stack([abs(self.s).max(), xp.linalg.norm(self.s)])).tolist()
        self.mu_start, self.norm = settings.mu or 1.5 / norms[0], norms[1]
        self.shrink = 1 / (1 + self.s**2)
        self.ones = self.qt.sum(1)
        self.z, self.y2, self.j = xp.zeros_like(self.qt), xp.zeros_like(self.qt), similarity
        self.j[...] = 0
        self.n_clusters = n_clusters
        wide = min(-(-(n_clusters + GUARDS) // LANES) * LANES, self.n)
        self.block = xp.zeros((self.n, wide), self.qt.dtype)
        self.half_sums = xp.zeros_like(self.ones)
        self.error: Any = Columns(self.qt) if settings.gamma is None else Entries(self.qt, settings.gamma)
        self.thresholding = NuclearSequence(self.qt[: min(self.n, 8 * n_clusters + 20)].T, rng, largest=1.0)
        self.weights: Array | None = None  # of the singular values of J
        self.values_before = self.thresholding.values  # of the J before this one
        self.depth = MAX_DEPTH
        self.residuals: list[float] = []
        self.objectives: list[Array] = []

    @property
    def f(self) -> Array:
        """F: the first columns of the block that follows it."""
        return self.block[:, : self.n_clusters]

    def begin(self, outer: int) -> None:
        """Begin an outer step: multipliers become 0, and mu is the first one.

        From the second outer step on, find the weights (Eq. 22) and the J that they give.
        """
        self.mu = self.mu_start
        self.y2[...] = 0
        if outer:
            self.weigh(self.settings.gamma)
            self.error.weigh()
            self.j[...] = self.z
            self.thresholding(self.j, self.settings.lambda_rank / self.mu, self.weights)

    def weigh(self, gamma: Any) -> None:
        """Set the weights (1 - sigma(J) / gamma)_+ of the J before this one (Eq. 24): the last iteration's."""
        self.weights = namespace(self.z).ones(self.n, self.z.dtype)
        self.weights[: len(self.values_before)] = mcp_weights(self.values_before, gamma, check=False)

    def update_representation(self) -> None:
        """Update Z (Eq. 13), then Y2 += Z - J (Eq. 17)."""
        scaled = _scale(self.half_sums + self.f @ self.f.sum(0))[:, None] * self.f
        rotated = self.qt @ scaled / self.mu
        pull = self.error.pull(self.qt, self.z)

        def update(rows: slice) -> Array:
            z = self.s[rows] ** 2 * self.qt[rows]
            z += self.j[rows]
            z -= self.y2[rows]
            z += self.s[rows] * pull(rows)
            z += rotated[rows] @ scaled.T
            z *= self.shrink[rows]
            change = z - self.j[rows]
            self.y2[rows] += change
            self.z[rows] = z
            return (change**2).sum()

        self.copy_residual = sum_over_blocks(self.z, update) ** 0.5
        self.half_sums = (self.ones @ self.z + self.z.sum(1) @ self.qt) / 2

    def update_error(self) -> None:
        """Update E and Y1 (Eq. 15 or 25, and 17)."""
        tau = self.settings.lambda_error / self.mu
        self.error_residual, self.error_penalty = self.error.update(self, tau)

    def update_embedding(self) -> None:
        """Set F to the leading eigenvectors of D^-1/2 ((Z + Z')/2 + F F') D^-1/2, with the old F (Eq. 16)."""
        self.old, self.scale = self.f, _scale(self.half_sums + self.f @ self.f.sum(0))[:, None]
        if not self.residuals or 2 * self.depth * self.block.shape[1] > self.n:
            self._full_embedding()
        else:
            self._follow()

    def _follow(self) -> None:
        """Find F by a block iteration from the last one; `embedding_residual` says how far it got."""
        values, self.block, residual = krylov.tracked(self._product, self.block, self.depth)
        self.embedding_residual = (residual[: self.n_clusters] ** 2).sum() ** 0.5
        self._add_objective(values)

    def _product(self, x: Array) -> Array:
        """Return the product of the matrix of Eq. 16 with some columns."""
        x = self.scale * x
        if device_of(x) == "cpu":
            half = thin.both_ways(self.qt, self.z, x)
        else:
            half = self.qt.T @ (self.z @ x) + self.z.T @ (self.qt @ x)
        return self.scale * (half / 2 + self.old @ (self.old.T @ x))

    def _full_embedding(self) -> None:
        """Find F by a full decomposition."""
        xp = namespace(self.z)
        matrix = product(self.qt.T, self.z)
        matrix = matrix + matrix.T
        for rows in row_blocks(matrix):
            half = matrix[rows] / 2 + self.old[rows] @ self.old.T
            matrix[rows] = self.scale[rows] * half * self.scale[:, 0]
        values, self.block = leading(matrix, self.block.shape[1])
        self.embedding_residual = xp.zeros((), self.z.dtype)
        self._add_objective(values)

    def _add_objective(self, values: Array) -> None:
        sigma, gamma = self.thresholding.values, self.settings.gamma
        norm = sigma.sum() if gamma is None else concave(sigma, gamma).sum()  # of J (Eq. 19)
        penalty = self.settings.lambda_rank * norm + self.settings.lambda_error * self.error_penalty
        self.objectives[len(self.residuals) :] = [self.n_clusters - values[: self.n_clusters].sum() + penalty]

    def update_copy(self) -> None:
        """Raise mu, and find the next J = SVT(Z + Y2 / mu) (Eq. 11 or 24), if a block iteration gets there."""
        before, self.mu = self.mu, min(self.settings.rho * self.mu, MU_MAX)
        self.error.rescale(before / self.mu)

        def update(rows: slice) -> int:
            self.y2[rows] *= before / self.mu
            namespace(self.z).add(self.z[rows], self.y2[rows], out=self.j[rows])
            return 0

        sum_over_blocks(self.z, update)
        self.thresholding.begin(self.j, self.settings.lambda_rank / self.mu, self.weights)

    def read(self) -> float:
        """Read what the host must know, in one transfer: the relative residual, and whether J and F need more work."""
        xp = namespace(self.z)
        parts = xp.stack([self.copy_residual, self.error_residual, self.embedding_residual])
        copy, error, reached, *report = to_host(xp.concatenate([parts, self.thresholding.report])).tolist()
        # an error of F enters Z divided by mu, which has just been raised
        accuracy = ACCURACY[self.z.dtype.name] * min(max(10 * self.mu, 1), 100)
        self.depth = krylov.adapted(self.depth, reached / accuracy, 0.05, MAX_DEPTH)
        if reached > accuracy and device_of(self.z) == "cpu":  # a device would have to wait for how far it gets
            self._follow()
            reached = float(self.embedding_residual)
        if reached > accuracy:
            self._full_embedding()
        self.residuals.append(max(copy, error) / self.norm)
        self.values_before = self.thresholding.values
        self.thresholding.finish(self.j, report)
        return self.residuals[-1]


def _scale(degrees: Array) -> Array:
    """Return D^-1/2 of row sums D, and 0 where one is not positive."""
    xp = namespace(degrees)
    return xp.where(degrees > 0, xp.where(degrees > 0, degrees, 1) ** -0.5, 0)
