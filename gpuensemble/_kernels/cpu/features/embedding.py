"""Sums of rows of a float64 table, as a spectral cut needs them; it is the CPU's twin of kernels/embedding.cu."""

import numpy as np

from gpuensemble._array import threads
from gpuensemble._kernels.cpu import membership
from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.features.lanes import LANES, dot
from gpuensemble._kernels.cpu.kmeans import sharing
from gpuensemble._kernels.cpu.rows import decode
from gpuensemble._kernels.cpu.vector.empty import empty
from gpuensemble._kernels.cpu.vector.rows import add_rows, add_to_rows
from gpuensemble._kernels.cpu.vector.tiles import aligned, shape_of_tiles, tiled

SPAN = 2048  # rows that a thread takes at a time, at most
CACHED = 1 << 22  # bytes of a table: of a larger one that is added to at the same time, too little stays in the cache


def gather_shares(m, table, share, magic):
    """Return H @ table, each row times its share, rounded to whole multiples of a unit.

    Parameters
    ----------
    m : Membership
    table : array of float64, C x K
    share : array of n float64
    magic : array of one float64
        Is added and taken off again, which rounds.
    """
    rows = membership.gather_sum(m, table)
    rows *= share[:, None]
    rows += magic
    rows -= magic
    return rows


def gather_scatter(m, table, share, magic):
    """Return H' @ gather_shares(m, table, share, magic), or None where the table is too large for that.

    The rows are not kept. Their sums are exact, so that each thread adds up those that it takes.
    """
    if len(table) * shape_of_tiles(table)[0] * table.itemsize > CACHED:
        return None
    (n, r), tiles = m.codes.shape, tiled(table)
    n_threads = sharing.n_threads(n * r, membership.INLINE)
    shared = (membership.codes_of(m), tiles, share, magic.item(), threads.even_span(n, SPAN))
    own = [(aligned((1, tiles.shape[2]), tiles.dtype), aligned(tiles.shape, tiles.dtype)) for _ in range(n_threads)]
    sharing.led(_gather_scatter, shared, own)
    total = own[0][1]
    for _, some in own[1:]:
        total += some
    return np.ascontiguousarray(total.transpose(1, 0, 2).reshape(len(table), -1)[:, : table.shape[1]])


def gather_lengths(m, table):
    """Return the length of each row of H @ table."""
    rows = membership.gather_sum(m, table)
    lengths = np.empty(len(rows))

    def task(first, last):
        _lengths(rows[first:last], np.empty(LANES), lengths[first:last])

    membership.over_spans(m, len(rows), membership.SPAN, task)
    return lengths


@kernel
def _lengths(rows, lanes, lengths):
    for x in range(len(rows)):
        lengths[x] = np.sqrt(dot(rows[x], rows[x], lanes))


@kernel
def _gather_scatter(given, tiles, share, magic, span, row, out, queue):
    """Work on spans of rows until none is left; `row` is room for a row, and `out` has the shape of the tiles."""
    given, tiles, share, row, out, queue = sharing.borrowed((given, tiles, share, row, out, queue))
    codes, hole, offsets = given
    (n, r), width = codes.shape, tiles.shape[2]
    columns, partitions = empty(r, np.uintp), empty(r, np.uintp)
    begin = sharing.next_span(queue, span)
    while begin < n:
        for tile in range(len(tiles)):
            table, total = tiles[tile], out[tile]
            for x in range(begin, min(n, begin + span)):
                m = decode(codes, hole, offsets, x, 0, r, columns, partitions)
                for k in range(width):
                    row[0, k] = 0.0
                add_rows(row, 0, table, columns, m)
                for k in range(width):
                    row[0, k] = (row[0, k] * share[x] + magic) - magic
                add_to_rows(total, columns, m, row)
        begin = sharing.next_span(queue, span)
