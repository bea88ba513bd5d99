"""LAPACK makes a symmetric matrix tridiagonal; its eigenvalues are then counted, and some are found. For the CPU.

`scipy.linalg.eigh` with a range does the same, but counts for itself, finds eigenvalues by bisection and vectors by
inverse iteration however many are asked for: at a third of them that takes longer than all would.
"""

import threading

from scipy.linalg import get_lapack_funcs

from gpuensemble._array.devices import Array, namespace
from gpuensemble._kernels.cpu.slices.sturm import count_below

SHARE = 10  # up to one part in so many vectors are found one by one, by measurement
BY_INDEX = 2  # what `stemr` is asked for
BISECTIONS = 30

room = threading.Lock()  # in memory there is room for all vectors of one matrix at a time


class Tridiagonal:
    """This is Q' X Q with an orthogonal Q, for a symmetric X that is C contiguous and stays as it is."""

    def __init__(self, x: Array):
        self.xp, self.n, self.dtype = namespace(x), len(x), x.dtype
        sytrd, work = get_lapack_funcs(("sytrd", "sytrd_lwork"), (x,))
        size = int(work(self.n, lower=1)[0].real)
        self.reflectors, self.diagonal, self.beside, self.scales, _ = sytrd(x.T, lower=1, lwork=size)
        self.squares = self.beside.astype("float64") ** 2

    def below(self, bound: float) -> int:
        """Return how many eigenvalues are below a bound."""
        return int(count_below(self.diagonal, self.squares, float(bound)))

    def value(self, index: int) -> float:
        """Return about the eigenvalue with this index, in ascending order, or a little less."""
        sizes = self.xp.append(abs(self.beside), 0) + self.xp.append(0, abs(self.beside))
        low, high = float((self.diagonal - sizes).min()), float((self.diagonal + sizes).max())
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.below(middle) > index else (middle, high)
        return low

    def pairs(self, first: int, last: int) -> tuple[Array, Array]:
        """Return the eigenvalues with the indices first .. last - 1, ascending, and their eigenvectors."""
        if last - first > self.n // SHARE:
            stevd = get_lapack_funcs("stevd", (self.diagonal,))
            with room:
                values, turned, failed = stevd(self.diagonal, self.beside)
                values, turned = values[first:last], turned[:, first:last].copy(order="F")
        else:
            values, turned, failed = self._one_by_one(first, last)
        if failed:
            raise self.xp.linalg.LinAlgError("Eigenvalues did not converge.")
        return values, self._back(turned)

    def _one_by_one(self, first: int, last: int) -> tuple[Array, Array, int]:
        """Find some pairs of the tridiagonal matrix; a Newton step makes the vectors orthogonal to the last bits."""
        if first == last:
            return self.xp.empty(0, self.dtype), self.xp.empty((self.n, 0), self.dtype), 0
        stemr = get_lapack_funcs("stemr", (self.diagonal,))
        inputs = self.diagonal.copy(), self.xp.append(self.beside, 0).astype(self.dtype)  # both are overwritten
        _, values, found, failed = stemr(*inputs, BY_INDEX, 0, 0, first + 1, last, compute_v=1)
        found = found[:, : last - first]
        turn = 1.5 * self.xp.eye(last - first, dtype=self.dtype) - 0.5 * (found.T @ found)
        return values[: last - first], found @ turn, failed

    def _back(self, turned: Array) -> Array:
        """Multiply with Q, whose reflectors leave the first row alone and are stored one row down.

        Seen from the second number of the array on they are n long, and end with what is set to 0 here.
        """
        ormqr = get_lapack_funcs("ormqr", (turned,))
        out = self.xp.empty(turned.shape, self.dtype)
        out[0] = turned[0]
        if self.n < 2 or not turned.shape[1]:
            return out
        self.reflectors[0, 1:] = 0
        flat = self.reflectors.ravel("K")[1 : 1 + self.n * (self.n - 1)]
        moved = self.xp.zeros(turned.shape, self.dtype, order="F")
        moved[:-1] = turned[1:]
        shape = flat.reshape(self.n - 1, self.n).T
        moved, _, _ = ormqr("L", "N", shape, self.scales, moved, lwork=64 * self.n, overwrite_c=True)
        out[1:] = moved[:-1]
        return out
