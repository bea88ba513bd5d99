"""This launches kernels/embedding.cu, with the names, the arguments and the bits of cpu/features/embedding.py."""

import numpy as np

from gpuensemble._kernels.cuda.membership import CODE, SHARED_BYTES
from gpuensemble._kernels.cuda.source import function, grid

THREADS, TILE = 384, 192  # of a block, and its rows, as in the file


def gather_shares(m, table, share, magic):
    """Return H @ table, each row times its share, rounded to whole units; see cpu/features/embedding.py."""
    import cupy

    out = cupy.empty((len(m.codes), table.shape[1]))
    _launch("gather_shares", m, table, (share, magic, out))
    return out


def gather_lengths(m, table):
    """Return the length of each row of H @ table; see cpu/features/embedding.py."""
    import cupy

    out = cupy.empty(len(m.codes))
    _launch("gather_lengths", m, table, (out,))
    return out


def _launch(name, m, table, arguments):
    """Launch a kernel whose blocks hold in shared memory what the largest partition that fits has."""
    (n, r), n_columns = m.codes.shape, table.shape[1]
    each = 1 if n_columns <= 32 else 2  # columns of a lane
    cells = m.widths * 32 * each
    capacity = int(cells[cells * 8 <= SHARED_BYTES].max(initial=0))
    kernel = function(f"{name}<{CODE[m.codes.dtype.name]}, {each}>", "embedding.cu")
    sizes = (np.int64(n), np.int32(r), table, np.int32(n_columns), np.int32(capacity))
    blocks = grid(-(-n // TILE))
    kernel((blocks,), (THREADS,), (m.codes, m.offsets, *sizes, *arguments), shared_mem=8 * capacity)
