"""LAPACK makes a symmetric matrix tridiagonal; its eigenvalues are then counted, and some are found. For the CPU.

`scipy.linalg.eigh` with a range does the same, but counts for itself, finds eigenvalues by bisection and vectors by
inverse iteration however many are asked for: at a third of them that takes longer than all would.
"""

import threading
from typing import Any

from gpuensemble._array.devices import Array, namespace
from gpuensemble._kernels.cpu.slices import lapack
from gpuensemble._kernels.cpu.slices.sturm import count_below

BLOCK = 64  # columns that LAPACK has room for at a time
SHARE = 10  # up to one part in so many vectors are found one by one, by measurement
BISECTIONS = 30

room = threading.Lock()  # in memory there is room for all vectors of one matrix at a time


class Tridiagonal:
    """This is Q' X Q with an orthogonal Q, for a symmetric X that is C contiguous and stays as it is."""

    def __init__(self, x: Array):
        self.xp, self.n, self.dtype = namespace(x), len(x), x.dtype
        self.reflectors = self.xp.array(x.T, order="F")
        self.diagonal, self.beside, self.scales = (self._empty(size) for size in (self.n, self.n - 1, self.n - 1))
        found = self.diagonal, self.beside, self.scales
        size = BLOCK * self.n
        lapack.call("sytrd", self.dtype, "L", self.n, self.reflectors, self.n, *found, self._empty(size), size)
        self.squares = self.beside.astype("float64") ** 2

    def _empty(self, *shape: int, dtype: Any = None) -> Array:
        """Make an array by columns, of the type of the matrix or another one."""
        return self.xp.empty(shape, dtype or self.dtype, order="F")

    def _work(self, size: int, n_integers: int) -> tuple[Array, int, Array, int]:
        """Make room for numbers and for integers, as routines take it."""
        return self._empty(size), size, self._empty(n_integers, dtype="int64"), n_integers

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
            with room:
                values, turned, failed = self._all()
                values, turned = values[first:last], turned[:, first:last].copy(order="F")
        else:
            values, turned, failed = self._one_by_one(first, last)
        if failed:
            raise self.xp.linalg.LinAlgError("Eigenvalues did not converge.")
        return values, self._back(turned)

    def _all(self) -> tuple[Array, Array, int]:
        """Find all pairs of the tridiagonal matrix."""
        values, beside, vectors = self.diagonal.copy(), self.beside.copy(), self._empty(self.n, self.n)
        work = self._work(1 + 4 * self.n + self.n**2, 3 + 5 * self.n)
        failed = lapack.call("stevd", self.dtype, "V", self.n, values, beside, vectors, self.n, *work)
        return values, vectors, failed

    def _one_by_one(self, first: int, last: int) -> tuple[Array, Array, int]:
        """Find some pairs of the tridiagonal matrix; a Newton step makes the vectors orthogonal to the last bits."""
        if first == last:
            return self.xp.empty(0, self.dtype), self.xp.empty((self.n, 0), self.dtype), 0
        count = last - first
        inputs = self.diagonal.copy(), self.xp.append(self.beside, 0).astype(self.dtype)  # both are overwritten
        values, found, between = self._empty(self.n), self._empty(self.n, count), self._empty(1)
        number, support = (self._empty(size, dtype="int64") for size in (1, 2 * count))
        work = self._work(18 * self.n, 10 * self.n)
        chosen = between, between, first + 1, last, number  # by index; the bounds are not looked at
        made = values, found, self.n, count, support, 1
        failed = lapack.call("stemr", self.dtype, "V", "I", self.n, *inputs, *chosen, *made, *work)
        turn = 1.5 * self.xp.eye(count, dtype=self.dtype) - 0.5 * (found.T @ found)
        return values[:count], found @ turn, failed

    def turn(self) -> Array:
        """Return Q, for which the reflectors are given up: nothing else can be asked for after that."""
        size = BLOCK * self.n
        lapack.call("orgtr", self.dtype, "L", self.n, self.reflectors, self.n, self.scales, self._empty(size), size)
        return self.reflectors

    def _back(self, turned: Array) -> Array:
        """Multiply with Q, whose reflectors leave the first row alone and are stored one row down.

        Seen from the second number of the array on they are n long, and end with what is set to 0 here.
        """
        out = self.xp.empty(turned.shape, self.dtype)
        out[0] = turned[0]
        if self.n < 2 or not turned.shape[1]:
            return out
        self.reflectors[0, 1:] = 0
        flat = self.reflectors.ravel("K")[1 : 1 + self.n * (self.n - 1)]
        moved = self.xp.zeros(turned.shape, self.dtype, order="F")
        moved[:-1] = turned[1:]
        shape, size = (self.n, turned.shape[1], self.n - 1), BLOCK * self.n
        reflectors, room_for = (flat, self.n, self.scales), (self._empty(size), size)
        lapack.call("ormqr", self.dtype, "L", "N", *shape, *reflectors, moved, self.n, *room_for)
        out[1:] = moved[:-1]
        return out
