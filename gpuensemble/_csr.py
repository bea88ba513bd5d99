"""A sparse matrix by rows, of either array library: the few things that k-means asks of it."""

from typing import Any, NamedTuple

from gpuensemble._array import Array, namespace


class Csr(NamedTuple):
    """The entries of a sparse matrix by rows, without duplicates; made from a `csr_matrix` of SciPy or CuPy."""

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]

    @property
    def dtype(self) -> Any:
        """The type of the entries."""
        return self.data.dtype

    def dense(self, begin: int, end: int) -> Array:
        """Rows begin .. end - 1 as a dense array."""
        xp = namespace(self.data)
        first, last = int(self.indptr[begin]), int(self.indptr[end])
        row = xp.searchsorted(self.indptr[begin : end + 1], xp.arange(first, last), side="right") - 1
        out = xp.zeros((end - begin, self.shape[1]), self.data.dtype)
        out[row, self.indices[first:last]] = self.data[first:last]
        return out

    def take(self, rows: Array) -> "Csr":
        """The named rows, in that order."""
        xp = namespace(self.data)
        begins = self.indptr[rows]
        indptr = _from_zero(xp.cumsum(self.indptr[rows + 1] - begins))
        place = xp.arange(int(indptr[-1]))
        row = xp.searchsorted(indptr, place, side="right") - 1
        source = begins[row] + place - indptr[row]
        return Csr(self.data[source], self.indices[source], indptr, (len(rows), self.shape[1]))

    def columns(self, chosen: Array) -> "Csr":
        """The named columns, which are in ascending order."""
        xp = namespace(self.data)
        new = xp.full(self.shape[1], -1)
        new[chosen] = xp.arange(len(chosen))
        indices = new[self.indices]
        kept = indices >= 0
        indptr = _from_zero(xp.cumsum(kept))[self.indptr]
        return Csr(self.data[kept], indices[kept], indptr, (self.shape[0], len(chosen)))


def _from_zero(ends: Array) -> Array:
    """Ends, with a 0 before them."""
    xp = namespace(ends)
    return xp.concatenate([xp.zeros(1, ends.dtype), ends])
