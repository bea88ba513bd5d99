"""The membership kernels on the CPU, twins of kernels/membership.cu: same names and arguments as _cuda.py, same bits.

A kernel works on a span of rows or of partitions without the GIL; a pool of NUMBA_NUM_THREADS threads works through the
spans. Results do not depend on the spans.
"""

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

ROWS = 512  # rows of a block: their sums, ROWS x TILE, stay in the L2 cache
TILE = 128  # columns of a table summed at a time
GROUP = 32  # partitions summed at a time: their part of the table stays in the L2 cache
NARROW_GATHER, NARROW_SCATTER = 16, 8  # a table with fewer columns has a kernel of its own
LINE = 64  # bytes of a cache line
SPAN = 8192  # rows that a thread takes at a time
INLINE = 1 << 16  # fewer codes than this are not worth a second thread

_kernel: Any = numba.njit(nogil=True, cache=True, error_model="numpy")


def gather_sum(membership, table):
    """H @ table."""
    out = np.zeros((len(membership.codes), table.shape[1]), table.dtype)
    if table.shape[1] == 1 and membership.complete:
        kernel = _gather_sum_column
    else:
        kernel = _gather_sum_narrow if table.shape[1] < NARROW_GATHER else _gather_sum
    _over_spans(membership, len(out), SPAN, lambda first, last: kernel(*_codes(membership), table, first, last, out))
    return out


def assign(membership, table, per_partition, weight):
    """The cheapest column of each row, its cost, and that of the next; `per_partition` may be summed into one row."""
    n, n_columns = len(membership.codes), table.shape[1]
    labels = np.empty(n, np.int32)
    costs, seconds = np.empty(n, table.dtype), np.empty(n, table.dtype)
    weight = np.ones(1, table.dtype) if weight is None else weight
    arguments = (*_codes(membership), _tiles(table), _tiles(per_partition), weight, n_columns)
    _over_spans(membership, n, SPAN, lambda first, last: _assign(*arguments, first, last, labels, costs, seconds))
    return labels, costs, seconds


def count(membership, labels, weight, n_clusters):
    """H.T @ diag(weight) @ onehot(labels), integers. A thread owns whole partitions, so no two write to one cell."""
    out = np.zeros((membership.n_columns, n_clusters), np.int64)
    weight = np.ones(1, np.int64) if weight is None else weight
    arguments = (*_codes(membership), labels, weight, n_clusters, out.reshape(-1))
    _over_spans(membership, membership.codes.shape[1], 8, lambda first, last: _count(*arguments, first, last))
    return out


def count_masses(membership, labels, weight, mass, n_clusters):
    """`count`, and the sum of the masses of the rows of each label that each partition saw: C x K and r x K."""
    out = np.zeros((membership.n_columns, n_clusters), np.int64)
    masses = np.zeros((membership.codes.shape[1], n_clusters), np.int64)
    weight = np.ones(1, np.int64) if weight is None else weight
    arguments = (*_codes(membership), labels, weight, mass, n_clusters, out.reshape(-1), masses.reshape(-1))
    _over_spans(membership, len(masses), 8, lambda first, last: _count_masses(*arguments, first, last))
    return out, masses


def scatter_add(membership, rows, segment_rows):
    """H.T @ rows: sums over segments of `segment_rows` rows in ascending order, then added up in that order."""
    out = np.zeros((membership.n_columns, rows.shape[1]), rows.dtype)
    if rows.shape[1] == 1 and membership.complete:
        kernel = _scatter_add_column
    else:
        kernel = _scatter_add_narrow if rows.shape[1] < NARROW_SCATTER else _scatter_add
    offsets = membership.offsets

    def task(first, last):
        own = out[offsets[first] : offsets[last]]
        part = own if segment_rows >= len(rows) else np.empty_like(own)
        for begin in range(0, len(rows), segment_rows):
            part[:] = 0
            end = min(len(rows), begin + segment_rows)
            kernel(*_codes(membership), rows, begin, end, first, last, part)
            if part is not own:
                own += part

    _over_spans(membership, membership.codes.shape[1], GROUP, task)
    return out


def coassociation(membership, begin, end, penalty, dtype):
    """Rows begin .. end - 1 of the co-association matrix: (agreements - penalty * disagreements) / r."""
    out = np.empty((end - begin, len(membership.codes)), dtype)
    codes, hole, _ = _codes(membership)
    task = functools.partial(_coassociation, codes, hole, begin, penalty, out)
    _over_spans(membership, out.shape[1], 16 * LINE, task)
    return out


def _codes(membership):
    """What every kernel starts with: the codes, the code of a hole, the offsets."""
    codes = membership.codes
    return codes, np.array(-1).astype(codes.dtype)[()], membership.offsets


def _tiles(table):
    """A copy in tiles of at most TILE columns, padded with zeros, whose rows start on cache lines."""
    n_rows, n_columns = table.shape
    n_tiles = -(-n_columns // TILE)
    width = -(-min(n_columns, TILE) * table.itemsize // LINE) * LINE // table.itemsize
    raw = np.zeros(n_tiles * n_rows * width * table.itemsize + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    tiles = raw[start : start + len(raw) - LINE].view(table.dtype).reshape(n_tiles, n_rows, width)
    for tile in range(n_tiles):
        part = table[:, tile * width : (tile + 1) * width]
        tiles[tile, :, : part.shape[1]] = part
    return tiles


def _threads() -> int:
    return numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), thread_name_prefix="gpuensemble")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads


def _over_spans(membership, n: int, most: int, task: Callable[[int, int], None]) -> None:
    """task(first, last) over 0 .. n - 1, in equal spans of at most `most`, as many for each thread."""
    threads = _threads()
    if threads == 1 or membership.codes.size < INLINE:
        task(0, n)
        return
    span = -(-n // (threads * -(-n // (threads * most))))
    list(_pool().map(lambda first: task(first, min(n, first + span)), range(0, n, span)))


@_kernel
def _decode(codes, hole, offsets, x, first, last, columns, partitions):
    """The columns and partitions of the labels that row x has in first .. last - 1; returns how many.

    A hole costs no branch, which no processor could foresee.
    """
    m = 0
    for i in range(first, last):
        code = codes[x, i]
        columns[m] = offsets[i] + code
        partitions[m] = i
        m += code != hole
    return m


@_kernel
def _add_rows(totals, y, table, chosen, m):
    """totals[y] += table[c] for the first m chosen rows c, one after another: eight per pass over totals[y].

    The caller does not make the view totals[y]: that would count references, atomically, for every row.
    """
    total = totals[y]
    j = 0
    while j + 8 <= m:
        a, b, c, d = table[chosen[j]], table[chosen[j + 1]], table[chosen[j + 2]], table[chosen[j + 3]]
        e, f, g, h = table[chosen[j + 4]], table[chosen[j + 5]], table[chosen[j + 6]], table[chosen[j + 7]]
        for k in range(len(total)):
            total[k] = total[k] + a[k] + b[k] + c[k] + d[k] + e[k] + f[k] + g[k] + h[k]
        j += 8
    while j < m:
        a = table[chosen[j]]
        for k in range(len(total)):
            total[k] += a[k]
        j += 1


@_kernel
def _gather_sum(codes, hole, offsets, table, begin, end, out):
    r = codes.shape[1]
    columns, partitions = np.empty(GROUP, np.uintp), np.empty(GROUP, np.uintp)
    for block in range(begin, end, ROWS):
        for first in range(0, r, GROUP):
            for x in range(block, min(end, block + ROWS)):
                m = _decode(codes, hole, offsets, x, first, min(r, first + GROUP), columns, partitions)
                _add_rows(out, x, table, columns, m)


@_kernel
def _gather_sum_narrow(codes, hole, offsets, table, begin, end, out):
    """Four columns at a time in registers, then one at a time."""
    n_columns, r = table.shape[1], codes.shape[1]
    columns, partitions = np.empty(r, np.uintp), np.empty(r, np.uintp)
    for x in range(begin, end):
        m = _decode(codes, hole, offsets, x, 0, r, columns, partitions)
        for k in range(0, n_columns - 3, 4):
            a, b, c, d = out[x, k], out[x, k + 1], out[x, k + 2], out[x, k + 3]
            for j in range(m):
                row = table[columns[j], k : k + 4]
                a, b, c, d = a + row[0], b + row[1], c + row[2], d + row[3]
            out[x, k], out[x, k + 1], out[x, k + 2], out[x, k + 3] = a, b, c, d
        for k in range(n_columns // 4 * 4, n_columns):
            a = out[x, k]
            for j in range(m):
                a += table[columns[j], k]
            out[x, k] = a


@_kernel
def _gather_sum_column(codes, hole, offsets, table, begin, end, out):
    """A single column and no holes: nothing to decode first."""
    cells = table[:, 0]
    for x in range(begin, end):
        total = out[x, 0]
        for i in range(codes.shape[1]):
            total += cells[np.uintp(offsets[i] + codes[x, i])]
        out[x, 0] = total


@_kernel
def _assign(codes, hole, offsets, tables, parts, weight, n_columns, begin, end, labels, costs, seconds):
    r, width = codes.shape[1], tables.shape[2]
    summed = parts.shape[1] == 1
    step = min(1, len(weight) - 1)  # 0: one weight for all
    columns, partitions = np.empty(GROUP, np.uintp), np.empty(GROUP, np.uintp)
    t, p = np.empty((ROWS, width), tables.dtype), np.empty((ROWS, width), tables.dtype)
    for block in range(begin, end, ROWS):
        stop = min(end, block + ROWS)
        labels[block:stop] = 0
        costs[block:stop] = np.inf
        seconds[block:stop] = np.inf
        for tile in range(len(tables)):
            table, parts_of_tile = tables[tile], parts[tile]
            t[:] = 0
            p[:] = 0
            for first in range(0, r, GROUP):
                for x in range(block, stop):
                    m = _decode(codes, hole, offsets, x, first, min(r, first + GROUP), columns, partitions)
                    _add_rows(t, x - block, table, columns, m)
                    if not summed:
                        _add_rows(p, x - block, parts_of_tile, partitions, m)
            low, some = tile * width, min(width, n_columns - tile * width)
            part = parts_of_tile if summed else p
            for x in range(block, stop):
                y = x - block
                _keep_cheapest(t, y, part, 0 if summed else y, weight[x * step], low, some, x, labels, costs, seconds)
        for x in range(block, stop):
            if costs[x] == np.inf:
                labels[x] = _fewest_infinite(codes[x], hole, offsets, tables, parts, weight[x * step], n_columns)


@_kernel
def _keep_cheapest(t, y, p, z, weight, low, width, x, labels, costs, seconds):
    """Costs t[y] + weight * p[z] of the next `width` columns against the best so far; the first of equals stays."""
    best, least, second = labels[x], costs[x], seconds[x]
    for k in range(width):
        cost = t[y, k] + weight * p[z, k]
        if cost < least:
            best, least, second = low + k, cost, least
        elif cost < second:
            second = cost
    labels[x], costs[x], seconds[x] = best, least, second


@_kernel
def _fewest_infinite(row, hole, offsets, tables, parts, weight, n_columns):
    """The column with the fewest infinite terms, then the least cost of the finite ones, then the lowest index."""
    best, least, fewest = 0, tables.dtype.type(np.inf), len(row) + 1
    for column in range(n_columns):
        table, part, k = tables[column // tables.shape[2]], parts[column // tables.shape[2]], column % tables.shape[2]
        t, p, infinite = tables.dtype.type(0), tables.dtype.type(0), 0
        for i in range(len(row)):
            if row[i] != hole:
                term = table[offsets[i] + row[i], k]
                if term == np.inf:
                    infinite += 1
                else:
                    t += term
                if len(part) > 1:
                    p += part[i, k]
        if len(part) == 1:
            p = part[0, k]
        cost = t + weight * p
        if not cost < np.inf:  # a sum that overflowed may be NaN
            cost = tables.dtype.type(np.inf)
        if infinite < fewest or (infinite == fewest and cost < least):
            best, least, fewest = column, cost, infinite
    return best


@_kernel
def _count(codes, hole, offsets, labels, weight, n_clusters, cells, first, last):
    step = min(1, len(weight) - 1)  # 0: one weight for all
    columns, partitions = np.empty(last - first, np.uintp), np.empty(last - first, np.uintp)
    for x in range(len(codes)):
        label, amount = np.uintp(labels[x]), weight[x * step]
        m = _decode(codes, hole, offsets, x, first, last, columns, partitions)
        for j in range(m):
            cells[columns[j] * np.uintp(n_clusters) + label] += amount


@_kernel
def _count_masses(codes, hole, offsets, labels, weight, mass, n_clusters, cells, masses, first, last):
    step = min(1, len(weight) - 1)  # 0: one weight for all
    columns, partitions = np.empty(last - first, np.uintp), np.empty(last - first, np.uintp)
    for x in range(len(codes)):
        label, amount = np.uintp(labels[x]), weight[x * step]
        m = _decode(codes, hole, offsets, x, first, last, columns, partitions)
        for j in range(m):
            cells[columns[j] * np.uintp(n_clusters) + label] += amount
            masses[partitions[j] * np.uintp(n_clusters) + label] += mass[x]


@_kernel
def _scatter_add(codes, hole, offsets, rows, begin, end, first, last, out):
    """`out` holds the columns of partitions first .. last - 1."""
    shift = np.uintp(offsets[first])
    columns, partitions = np.empty(last - first, np.uintp), np.empty(last - first, np.uintp)
    for x in range(begin, end):
        m = _decode(codes, hole, offsets, x, first, last, columns, partitions)
        row = rows[x]
        for j in range(m):
            cell = out[columns[j] - shift]
            for k in range(len(row)):
                cell[k] += row[k]


@_kernel
def _scatter_add_narrow(codes, hole, offsets, rows, begin, end, first, last, out):
    """Four columns at a time, then one at a time."""
    n_columns, shift = rows.shape[1], np.uintp(offsets[first])
    columns, partitions = np.empty(last - first, np.uintp), np.empty(last - first, np.uintp)
    for x in range(begin, end):
        m = _decode(codes, hole, offsets, x, first, last, columns, partitions)
        for k in range(0, n_columns - 3, 4):
            a, b, c, d = rows[x, k], rows[x, k + 1], rows[x, k + 2], rows[x, k + 3]
            for j in range(m):
                cell = out[columns[j] - shift, k : k + 4]
                cell[0] += a
                cell[1] += b
                cell[2] += c
                cell[3] += d
        for k in range(n_columns // 4 * 4, n_columns):
            a = rows[x, k]
            for j in range(m):
                out[columns[j] - shift, k] += a


@_kernel
def _scatter_add_column(codes, hole, offsets, rows, begin, end, first, last, out):
    """A single column and no holes: nothing to decode first."""
    cells, shift = out[:, 0], offsets[first]
    for x in range(begin, end):
        term = rows[x, 0]
        for i in range(first, last):
            cells[np.uintp(offsets[i] + codes[x, i] - shift)] += term


@_kernel
def _coassociation(codes, hole, begin, penalty, out, first, last):
    """A tile of LINE rows q is turned on its side, so that one label of p meets LINE labels at a time."""
    r = codes.shape[1]
    tile = np.empty((r, LINE), codes.dtype)
    agree, seen = np.empty(LINE, np.int32), np.empty(LINE, np.int32)
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
