"""The membership kernels on the CPU are twins of kernels/membership.cu, with names and arguments of cuda/membership.py.

A kernel works on a span of rows or of partitions without the GIL; a pool of threads works through the spans. Results do
not depend on the spans, and have the same bits as on CUDA.
"""

import functools
from collections.abc import Callable

import numpy as np

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.kmeans import screening, sharing
from gpuensemble._kernels.cpu.rows import GROUP, assign_rows, decode
from gpuensemble._kernels.cpu.vector.empty import empty
from gpuensemble._kernels.cpu.vector.rows import add_rows, add_to_rows
from gpuensemble._kernels.cpu.vector.tiles import LINE, SUMS, aligned, shape_of_tiles, sums_of, tiled

SPAN = 8192  # rows that a thread takes at a time
INLINE = 1 << 16  # fewer codes than this are not worth a second thread
BRIEF = 1 << 18  # the same where a code is one look-up
WORTH = 4  # labels that are counted for each cell of a thread


def gather_sum(membership, table):
    """Return H @ table."""
    codes = codes_of(membership)
    out = np.empty((len(membership.codes), table.shape[1]), table.dtype)
    single = table.shape[1] == 1
    given = np.append(table[:, 0], table.dtype.type(0)) if single else tiled(table)

    def task(first, last):
        if single:
            _gather_sum_column(*codes, given, out[:, 0], first, last)
        else:
            _gather_sum(*codes, given, sums_of(given), out, first, last)

    over_spans(membership, len(out), SPAN, task, BRIEF if single else INLINE)
    return out


def assign(membership, table, per_partition, weight):
    """Return each row's cheapest column, its cost, and that of the next; `per_partition` may be summed into one row."""
    n, n_columns = len(membership.codes), table.shape[1]
    labels = np.empty(n, np.int32)
    costs, seconds = np.empty(n, table.dtype), np.empty(n, table.dtype)
    weight = np.ones(1, table.dtype) if weight is None else weight
    results, given = (labels, costs, seconds), codes_of(membership)
    whole = tiles, _ = tiled(table), tiled(per_partition)
    shortened = screening.shortened(membership, table, per_partition, weight)
    cells = None if shortened is None else tuple(map(screening.cells_of, (table, per_partition)))

    def task(first, last):
        room = sums_of(tiles), sums_of(tiles)
        if shortened is None:
            _assign(*given, *whole, weight, n_columns, *results, *room, first, last)
        else:
            totals = screening.room_for(shortened)
            screening.assign_screened(
                given, whole, cells, shortened, weight, n_columns, results, totals, room, first, last
            )

    over_spans(membership, n, SPAN, task)
    return results


def count(membership, labels, weight, n_clusters):
    """Count H.T @ diag(weight) @ onehot(labels), integers."""
    weight = np.ones(1, np.int64) if weight is None else weight
    return _counted(membership, labels, weight, weight, n_clusters)[: membership.n_columns]


def count_masses(membership, labels, weight, mass, n_clusters):
    """Do `count`, and sum the masses of the rows of each label that each partition saw: C x K and r x K."""
    weight = np.ones(1, np.int64) if weight is None else weight
    cells = _counted(membership, labels, weight, mass, n_clusters)
    total = np.zeros(n_clusters, np.int64)
    _add_by_label(labels, mass, total)
    masses = np.tile(total, (len(membership.widths), 1))
    if not membership.complete:
        masses -= cells[membership.n_columns :]
    return cells[: membership.n_columns], masses


def _counted(membership, labels, weight, spare, n_clusters):
    """Return the cells of `count`, then those of holes: the sum of `spare` over each partition's holes, by label.

    A thread has cells of its own for the rows that it takes. Where these would be too many beside the labels, it owns
    whole partitions, so that no two write to one cell.
    """
    (n, r), given = membership.codes.shape, codes_of(membership)
    size = (membership.n_columns + (0 if membership.complete else r)) * n_clusters
    n_threads = sharing.n_threads(n * r, BRIEF // 2)
    if n * r >= WORTH * n_threads * size:
        cells = sharing.apart(n_threads, size, np.int64)
        shared = (given, (labels, weight, spare), n_clusters, threads.even_span(n, SPAN))
        sharing.led(_count_rows, shared, [(some,) for some in cells])
        total = cells[0] if n_threads == 1 else cells.sum(0)
    else:
        total = np.zeros(size, np.int64)
        arguments = (given, (labels, weight, spare), n_clusters, total, 0, n)
        over_spans(membership, r, 8, lambda first, last: _count(*arguments, first, last), BRIEF)
    return total[:size].reshape(-1, n_clusters)


def scatter_add(membership, rows, segment_rows):
    """Return H.T @ rows: segments of `segment_rows` rows are summed in ascending order, then added up in that order."""
    *codes, offsets = codes_of(membership)
    width, _ = shape_of_tiles(rows)
    out = np.zeros((membership.n_columns, rows.shape[1]), rows.dtype)

    def task(first, last):
        """Fill the sums of partitions first .. last - 1: of the only column, or tile by tile, in padded arrays."""
        begin, end = offsets[first], offsets[last]
        shared = (*codes, offsets - begin, segment_rows, first, last)
        if rows.shape[1] == 1:
            _scatter_add_column(*shared, rows[:, 0], np.empty(end - begin + 1, rows.dtype), out[begin:end, 0])
            return
        for low in range(0, rows.shape[1], width):
            part, addend = (aligned((size, width), rows.dtype) for size in (end - begin, 1))
            tile = slice(low, low + width)
            _scatter_add(*shared, rows[:, tile], addend, part, out[begin:end, tile])

    over_spans(membership, len(offsets) - 1, GROUP, task)
    return out


def coassociation(membership, begin, end, penalty, dtype):
    """Return rows begin .. end - 1 of the co-association matrix: (agreements - penalty * disagreements) / r."""
    out = np.empty((end - begin, len(membership.codes)), dtype)
    task = functools.partial(_coassociation, membership.codes, hole_of(membership.codes), begin, penalty, out)
    over_spans(membership, out.shape[1], 16 * LINE, task)
    return out


def codes_of(membership):
    """Return what every kernel starts with: codes, that of a hole, or None, which Numba compiles less for, offsets."""
    return membership.codes, None if membership.complete else hole_of(membership.codes), membership.offsets


def hole_of(codes):
    """Return the code of a hole."""
    return np.array(-1).astype(codes.dtype)[()]


def over_spans(membership, n: int, most: int, task: Callable[[int, int], None], least: int = INLINE) -> None:
    """Call task(first, last) over 0 .. n - 1, in equal spans of at most `most`, as many for each thread.

    It is done here where there are fewer codes than `least`.
    """
    threads.over_spans(n, threads.even_span(n, most), task, alone=membership.codes.size < least)


@kernel
def _gather_sum(codes, hole, offsets, tiles, total, out, begin, end):
    r, width = codes.shape[1], tiles.shape[2]
    columns, partitions = empty(GROUP, np.uintp), empty(GROUP, np.uintp)
    for block in range(begin, end, SUMS):
        stop = min(end, block + SUMS)
        for tile in range(len(tiles)):
            table, low = tiles[tile], tile * width
            total[:] = 0
            for first in range(0, r, GROUP):
                last = min(r, first + GROUP)
                for x in range(block, stop):
                    m = decode(codes, hole, offsets, x, first, last, columns, partitions)
                    add_rows(total, x - block, table, columns, m)
            for x in range(block, stop):
                for k in range(min(width, out.shape[1] - low)):
                    out[x, low + k] = total[x - block, k]


@kernel
def _gather_sum_column(codes, hole, offsets, cells, out, begin, end):
    """Do `gather_sum` for a single column, with a 0 after its last entry for holes.

    Adding 0 changes no sum that began with 0. A sum waits for its last addition, which the sums of other rows need
    not: four run at a time.
    """
    r, zero, spare = codes.shape[1], cells.dtype.type(0), len(cells) - 1
    x = begin
    while x + 4 <= end:
        a, b, c, d = zero, zero, zero, zero
        if hole is None:
            for i in range(r):
                offset = offsets[i]
                a += cells[np.uintp(offset + codes[x, i])]
                b += cells[np.uintp(offset + codes[x + 1, i])]
                c += cells[np.uintp(offset + codes[x + 2, i])]
                d += cells[np.uintp(offset + codes[x + 3, i])]
        else:
            for i in range(r):
                offset = offsets[i]
                a += cells[_column(offset, codes[x, i], hole, spare)]
                b += cells[_column(offset, codes[x + 1, i], hole, spare)]
                c += cells[_column(offset, codes[x + 2, i], hole, spare)]
                d += cells[_column(offset, codes[x + 3, i], hole, spare)]
        out[x], out[x + 1], out[x + 2], out[x + 3] = a, b, c, d
        x += 4
    for y in range(x, end):
        total = zero
        for i in range(r):
            if hole is None:
                total += cells[np.uintp(offsets[i] + codes[y, i])]
            else:
                total += cells[_column(offsets[i], codes[y, i], hole, spare)]
        out[y] = total


@inner
def _column(offset, code, hole, spare):
    """Return the column of a label, or `spare` for a hole, without a branch, which no processor could foresee."""
    return np.uintp(spare + np.int64(code != hole) * (offset + np.int64(code) - spare))


@kernel
def _assign(codes, hole, offsets, tiles, parts, weight, n_columns, labels, costs, seconds, t, p, begin, end):
    step = min(1, len(weight) - 1)  # 0: one weight for all
    rows, weights = empty(SUMS, np.intp), empty(SUMS, weight.dtype)
    for block in range(begin, end, SUMS):
        some = min(end - block, SUMS)
        for j in range(some):
            rows[j], weights[j] = block + j, weight[(block + j) * step]
        found = labels[block : block + some], costs[block : block + some], seconds[block : block + some]
        assign_rows(codes, hole, offsets, tiles, parts, weights, n_columns, rows, some, found, t, p)


@kernel
def _count_rows(given, rows, n_clusters, span, cells, queue):
    given, rows, cells, queue = sharing.borrowed((given, rows, cells, queue))
    n, r = given[0].shape
    begin = sharing.next_span(queue, span)
    while begin < n:
        _count(given, rows, n_clusters, cells, begin, min(n, begin + span), 0, r)
        begin = sharing.next_span(queue, span)


@kernel
def _count(given, rows, n_clusters, cells, begin, end, first, last):
    """Count rows begin .. end - 1 in partitions first .. last - 1.

    A hole has a cell of its own, so that it costs no branch, which no processor could foresee.
    """
    (codes, hole, offsets), (labels, weight, spare) = given, rows
    step, spare_step = min(1, len(weight) - 1), min(1, len(spare) - 1)  # 0: one for all
    beyond, width = offsets[-1], np.uintp(n_clusters)
    for x in range(np.uintp(begin), np.uintp(end)):
        label, amount, other = np.uintp(labels[x]), weight[x * step], spare[x * spare_step]
        if hole is None:
            for i in range(first, last):
                cells[np.uintp(offsets[i] + codes[x, i]) * width + label] += amount
        else:
            for i in range(first, last):
                row = _column(offsets[i], codes[x, i], hole, beyond + i)
                cells[row * width + label] += other + np.int64(codes[x, i] != hole) * (amount - other)


@kernel
def _add_by_label(labels, mass, total):
    for x in range(len(labels)):
        total[labels[x]] += mass[x]


@kernel
def _scatter_add(codes, hole, offsets, segment_rows, first, last, rows, addend, part, out):
    """Do `scatter_add`; `part` and `out` hold the columns of partitions first .. last - 1."""
    columns, partitions = empty(last - first, np.uintp), empty(last - first, np.uintp)
    for begin in range(0, len(codes), segment_rows):
        part[:] = 0
        for x in range(begin, min(len(codes), begin + segment_rows)):
            m = decode(codes, hole, offsets, x, first, last, columns, partitions)
            for k in range(rows.shape[1]):
                addend[0, k] = rows[x, k]
            add_to_rows(part, columns, m, addend)
        for c in range(len(out)):
            for k in range(rows.shape[1]):
                out[c, k] += part[c, k]


@kernel
def _scatter_add_column(codes, hole, offsets, segment_rows, first, last, cells, part, out):
    """Do `scatter_add` for a single column; `part` has one more cell, for holes."""
    for begin in range(0, len(codes), segment_rows):
        part[:] = 0
        for x in range(begin, min(len(codes), begin + segment_rows)):
            value = cells[x]
            if hole is None:
                for i in range(first, last):
                    part[np.uintp(offsets[i] + codes[x, i])] += value
            else:
                for i in range(first, last):
                    part[_column(offsets[i], codes[x, i], hole, len(out))] += value
        for c in range(len(out)):
            out[c] += part[c]


@kernel
def _coassociation(codes, hole, begin, penalty, out, first, last):
    """Turn a tile of LINE rows q on its side, so that one label of p meets LINE labels at a time."""
    r = codes.shape[1]
    tile = empty((r, LINE), codes.dtype)
    agree, seen = empty(LINE, np.int32), empty(LINE, np.int32)
    for q in range(first, last, LINE):
        width = min(last - q, LINE)
        tile[:] = hole
        for j in range(width):
            for i in range(r):
                tile[i, j] = codes[q + j, i]
        for p in range(len(out)):
            agree[:] = 0
            seen[:] = 0
            for i in range(r):
                code, labels = codes[begin + p, i], tile[i]
                if code != hole:
                    for j in range(LINE):
                        agree[j] += labels[j] == code
                    if penalty != 0:
                        for j in range(LINE):
                            seen[j] += labels[j] != hole
            for j in range(width):
                net = agree[j] - penalty * (seen[j] - agree[j]) if penalty != 0 else agree[j]
                out[p, q + j] = out.dtype.type(net) / out.dtype.type(r)
