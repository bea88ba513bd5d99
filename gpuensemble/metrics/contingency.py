"""The contingency table of two partitions, counted where their labels are; its nonzero cells come to the host."""

import math
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import coding, frames
from gpuensemble._array.devices import Array, device_of, namespace, on, to_device, to_host
from gpuensemble.membership import Membership

# Up to so many cells (80 MB) a contingency table is counted, and matched, as a dense one; past it by its nonzero cells.
DENSE_CELLS = 10**7


class Pair(NamedTuple):
    """This holds the codes of two partitions of the same samples, vectors on one device without holes."""

    y: Array
    z: Array
    shape: tuple[int, int]  # the number of clusters of each


class Table(NamedTuple):
    """This holds the nonzero cells of a contingency table, in the order of rows, then columns, on the host."""

    counts: np.ndarray
    row: np.ndarray  # of each cell: the cluster of y
    column: np.ndarray  # the cluster of z
    sizes_y: np.ndarray  # of the clusters of y: the sums of rows
    sizes_z: np.ndarray

    @property
    def n(self) -> int:
        """Return the number of samples."""
        return int(self.counts.sum())

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of clusters of y and of z."""
        return len(self.sizes_y), len(self.sizes_z)

    @classmethod
    def of(cls, counts: np.ndarray, row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> "Table":
        """Make the table of nonzero cells; sums of floats are exact, being less than 2**53."""
        sums = (np.bincount(which, counts, size) for which, size in zip((row, column), shape, strict=True))
        return cls(counts, row, column, *(sizes.astype("int64") for sizes in sums))

    @classmethod
    def of_dense(cls, dense: np.ndarray) -> "Table":
        """Make the table of all cells, zeros too."""
        row, column = dense.nonzero()
        return cls(dense[row, column], row, column, dense.sum(axis=1), dense.sum(axis=0))

    def without_empty(self) -> "Table":
        """Leave out clusters that have no sample."""
        seen_y, seen_z = self.sizes_y > 0, self.sizes_z > 0
        if seen_y.all() and seen_z.all():
            return self
        row, column = (np.cumsum(seen_y) - 1)[self.row], (np.cumsum(seen_z) - 1)[self.column]
        return Table(self.counts, row, column, self.sizes_y[seen_y], self.sizes_z[seen_z])


def table(y: Any, z: Any) -> Table:
    """Count the samples that each class of y (row) and cluster of z (column) share."""
    return counted(coded(y, z))


def coded(y: Any, z: Any) -> Pair:
    """Return two vectors of labels as codes, on the device of the one that is on a device."""
    coded_y, coded_z = _coded(y, "y"), _coded(z, "z")
    if len(coded_y.codes) != len(coded_z.codes):
        raise ValueError(
            f"`y` and `z` must have the same number of samples, got {len(coded_y.codes)} and {len(coded_z.codes)}."
        )
    frames.refuse_another_order(z, "z", y, "y")
    device = device_of(y) if device_of(y) != "cpu" else device_of(z)
    left, right = (to_device(one.codes[:, 0], device) for one in (coded_y, coded_z))
    return Pair(left, right, (int(coded_y.widths[0]), int(coded_z.widths[0])))


def counted(pair: Pair) -> Table:
    """Count the cells of two coded partitions."""
    with on(device_of(pair.y)):
        count = _count if math.prod(pair.shape) <= DENSE_CELLS else _count_sparse
        row, column, counts = count(pair)
        return Table.of(to_host(counts), to_host(row), to_host(column), pair.shape)


def spread(of_cells: Array, cells: Table, pair: Pair) -> Array:
    """Give each sample the value of its cell, on the device of the codes."""
    device = device_of(pair.y)
    with on(device):
        known = to_device(cells.row.astype("int64") * pair.shape[1] + cells.column, device)
        return to_device(of_cells, device)[namespace(known).searchsorted(known, _cell(pair))]


def mean(of_cells: Array, cells: Table) -> float:
    """Return the mean over samples of the values of their cells, rounded once."""
    return math.fsum((cells.counts * of_cells).tolist()) / cells.n


def _coded(labels: Any, name: str) -> coding.Coded:
    """Return a vector as codes, on the device where it is."""
    with on(device_of(labels)):
        return coding.from_vector(labels, name)[0]


def _count(pair: Pair) -> tuple[Array, Array, Array]:
    """Return row, column and count of each nonzero cell, by way of the dense table."""
    m = Membership(pair.y[:, None], pair.shape[:1], device=device_of(pair.y))
    dense = m.count(pair.z, pair.shape[1])
    row, column = namespace(dense).nonzero(dense)
    return row, column, dense[row, column]


def _count_sparse(pair: Pair) -> tuple[Array, Array, Array]:
    """Do the same by sorting the samples, in memory linear in n."""
    cell, counts = namespace(pair.y).unique(_cell(pair), return_counts=True)
    return cell // pair.shape[1], cell % pair.shape[1], counts


def _cell(pair: Pair) -> Array:
    """Return the number of each sample's cell, row after row."""
    return pair.y.astype("int64") * pair.shape[1] + pair.z
