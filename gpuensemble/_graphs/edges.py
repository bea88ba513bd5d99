"""What base partitions say of the edges of a graph, and which edges are in its 2-core."""

import numpy as np

from gpuensemble._array.csr import Csr
from gpuensemble._array.devices import Array, namespace, to_host
from gpuensemble._array.threads import spans

CELLS = 1 << 22  # codes that are compared in one go


def shares(codes: Array, matrix: Csr) -> Array:
    """Return for each entry the share of partitions that join its row and its column, among those that saw both.

    It is the quotient of two counts, and 0 where no partition saw both. `codes` are those of a `Membership`.
    """
    xp = namespace(codes)
    hole = xp.asarray(-1).astype(codes.dtype)
    row, column = matrix.rows(), matrix.indices
    found = xp.zeros(len(row))
    for span in spans(len(row), max(1, CELLS // codes.shape[1])):
        one, two = codes[row[span]], codes[column[span]]
        seen = (one != hole) & (two != hole)
        found[span] = ((one == two) & seen).sum(axis=1) / xp.maximum(seen.sum(axis=1), 1)
    return found


def in_core(matrix: Csr) -> np.ndarray:
    """Mark the nodes of the 2-core, on the host: nodes with one neighbour are taken away until there is none.

    Each node knows its remaining neighbours by their number and the exclusive or of their names, which is the name of
    the last one.
    """
    row, column = (to_host(part).astype("int64") for part in (matrix.rows(), matrix.indices))
    others = (row != column) & (to_host(matrix.data) != 0)
    row, column = row[others], column[others]
    left = np.bincount(row, minlength=matrix.shape[0])
    names = np.zeros(len(left), "int64")
    np.bitwise_xor.at(names, row, column)
    leaves = np.flatnonzero(left == 1)
    while len(leaves):
        last = names[leaves]
        np.subtract.at(left, last, 1)
        np.bitwise_xor.at(names, last, leaves)
        left[leaves] = 0
        leaves = np.unique(last[left[last] == 1])
    return left > 0
