"""The error E of RSEC and of NRSEC, and its multiplier Y1, divided by mu, are kept in one array each.

Equation numbers are the paper's; `solver` says what is rotated.
"""

from collections.abc import Callable
from typing import Any

from gpuensemble._array.devices import Array, namespace
from gpuensemble._linear.dense import product
from gpuensemble.estimators.rsec.blocks import row_blocks, sum_over_blocks
from gpuensemble.prox import mcp_weights


class Columns:
    """This keeps E and Y1 of RSEC, rotated: both are multiples of the columns of T = S - S Z + Y1 (Eq. 15)."""

    def __init__(self, qt: Array):
        xp = namespace(qt)
        self.t, self.kept, self.ratio = xp.zeros_like(qt), xp.zeros(len(qt), qt.dtype), 1.0

    def rescale(self, ratio: float) -> None:
        """Multiply Y1, which is divided by mu, with old mu / new mu."""
        self.ratio = ratio

    def pull(self, qt: Array, out: Array) -> Callable[[slice], Array]:
        """Return a function that gives rows of Q'(Y1 - E)."""
        factor = self.ratio * (1 - self.kept) - self.kept
        return lambda rows: self.t[rows] * factor

    def update(self, state: Any, tau: float) -> tuple[Array, Array]:
        """Update T and the share of its columns that E is; return |S - S Z - E| and the penalty of E."""
        xp = namespace(self.t)
        factor = self.ratio * (1 - self.kept)

        def gap_of(rows: slice) -> Array:
            gap = state.qt[rows] - state.z[rows]
            gap *= state.s[rows]
            return gap

        def update(rows: slice) -> Array:
            self.t[rows] *= factor
            self.t[rows] += gap_of(rows)
            return (self.t[rows] ** 2).sum(0)

        length = sum_over_blocks(self.t, update) ** 0.5
        self.kept = xp.maximum(1 - tau / xp.where(length > tau, length, tau), 0)
        difference = sum_over_blocks(self.t, lambda rows: ((gap_of(rows) - self.t[rows] * self.kept) ** 2).sum())
        return difference**0.5, (self.kept * length).sum()

    def dense(self, qt: Array, out: Array) -> Array:
        """Write E itself into `out`."""
        return product(qt.T, self.t * self.kept, out=out)


class Entries:
    """This keeps E and Y1 of NRSEC, not rotated: Y1 is T = S - S Z + Y1 clipped at tau W, and E the rest (Eq. 25)."""

    def __init__(self, qt: Array, gamma: float):
        self.gamma, self.tau, self.ratio = gamma, 0.0, 1.0
        self.t, self.weights = namespace(qt).zeros_like(qt), None

    def rescale(self, ratio: float) -> None:
        """Multiply Y1, which is divided by mu, with old mu / new mu."""
        self.ratio = ratio

    def weigh(self) -> None:
        """Set W = (1 - |E| / gamma)_+ from the last E (Eq. 25), with which the next outer step starts; Y1 becomes 0."""
        weights = namespace(self.t).empty_like(self.t)

        def update(rows: slice) -> int:
            error = self.t[rows] - self._multiplier(rows)
            weights[rows] = mcp_weights(error, self.gamma, check=False)
            self.t[rows] = error
            return 0

        sum_over_blocks(self.t, update)
        self.weights, self.tau, self.ratio = weights, 0.0, 1.0

    def _multiplier(self, rows: slice) -> Array:
        bound = self.tau if self.weights is None else self.tau * self.weights[rows]
        return namespace(self.t).clip(self.t[rows], -bound, bound)

    def pull(self, qt: Array, out: Array) -> Callable[[slice], Array]:
        """Put Q'(Y1 - E) into `out`, and return a function that gives rows of it."""
        difference = namespace(self.t).empty_like(self.t)

        def subtract(rows: slice) -> int:
            difference[rows] = (1 + self.ratio) * self._multiplier(rows) - self.t[rows]
            return 0

        sum_over_blocks(self.t, subtract)
        product(qt, difference, out=out)
        return lambda rows: out[rows]

    def update(self, state: Any, tau: float) -> tuple[Array, Array]:
        """Update T; return |S - S Z - E| and the penalty of E."""
        xp = namespace(self.t)
        rotated = xp.empty_like(self.t)

        def scale(rows: slice) -> int:
            rotated[rows] = state.s[rows] * (state.qt[rows] - state.z[rows])
            return 0

        sum_over_blocks(rotated, scale)
        gap = product(state.qt.T, rotated, out=state.j)  # J is not needed any more

        def add(rows: slice) -> int:
            self.t[rows] = self.ratio * self._multiplier(rows) + gap[rows]
            return 0

        def sums(rows: slice) -> Array:
            error = self.t[rows] - self._multiplier(rows)
            return xp.stack([((gap[rows] - error) ** 2).sum(), concave(error, self.gamma).sum()])

        sum_over_blocks(self.t, add)
        self.tau = tau
        total, penalty = sum_over_blocks(self.t, sums)
        return total**0.5, penalty

    def dense(self, qt: Array, out: Array) -> Array:
        """Write E itself into `out`."""
        for rows in row_blocks(out):
            out[rows] = self.t[rows] - self._multiplier(rows)
        return out


def concave(x: Array, gamma: float) -> Array:
    """Return the minimax concave penalty of each entry (Eq. 18)."""
    size = namespace(x).minimum(abs(x), gamma)
    return size - size**2 / (2 * gamma)
