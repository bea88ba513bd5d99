"""This launches kernels/membership.cu, with the names, the arguments and the bits of cpu/membership.py."""

import numpy as np

from gpuensemble._kernels.cuda import source
from gpuensemble._kernels.cuda.source import TYPE, function, grid

ROW_THREADS = 128  # of a block of gather_sum and assign
COUNT_THREADS = 256  # of a block of count; also the most partitions in one of its groups
PAIR_THREADS = 256  # of a block of coassociation: 16 x 16 pairs
SHARED_BYTES = 48 * 1024  # of a block, what every device has
SECTOR = 32  # bytes of a memory sector: rows of a padded table start on one
CODE = {"uint8": "unsigned char", "uint16": "unsigned short", "int32": "int"}  # of C


def gather_sum(membership, table):
    """Return H @ table."""
    import cupy

    n, n_columns = len(membership.codes), table.shape[1]
    out = cupy.empty((n, n_columns), table.dtype)
    padded = _padded(table)
    lanes, each = _lanes(n_columns)
    _launch(
        f"gather_sum<{TYPE[table.dtype.name]}, {{code}}, {lanes}, {each}>",
        -(-n * lanes // ROW_THREADS),
        ROW_THREADS,
        membership,
        (padded, np.int32(n_columns), np.int32(padded.shape[1]), out),
    )
    return out


def assign(membership, table, per_partition, weight):
    """Return each row's cheapest column, its cost, and that of the next; `per_partition` may be summed into one row."""
    import cupy

    n, n_columns = len(membership.codes), table.shape[1]
    labels = cupy.empty(n, np.int32)
    costs, seconds = cupy.empty(n, table.dtype), cupy.empty(n, table.dtype)
    padded = _padded(table)
    summed = np.int32(len(per_partition) == 1)
    weight = np.uintp(0) if weight is None else weight
    lanes, each = _lanes(n_columns)
    _launch(
        f"assign<{TYPE[table.dtype.name]}, {{code}}, {lanes}, {each}>",
        -(-n * lanes // ROW_THREADS),
        ROW_THREADS,
        membership,
        (
            padded,
            _padded(per_partition),
            summed,
            weight,
            np.int32(n_columns),
            np.int32(padded.shape[1]),
            labels,
            costs,
            seconds,
        ),
    )
    return labels, costs, seconds


def count(membership, labels, weight, n_clusters):
    """Count H.T @ diag(weight) @ onehot(labels) in integers."""
    import cupy

    n = len(membership.codes)
    counter = "unsigned" if weight is None else "unsigned long long"
    capacity = SHARED_BYTES // (4 if weight is None else 8)
    bounds = _groups(membership.widths * n_clusters, capacity)
    n_groups = len(bounds) - 1
    out = cupy.zeros((membership.n_columns, n_clusters), np.int64)
    weight = np.uintp(0) if weight is None else weight
    # Each block clears and adds up its cells once: few blocks per group, but enough of them in all.
    blocks = min(-(-n // COUNT_THREADS), -(-source.MAX_BLOCKS // n_groups), 256)
    _launch(
        f"count<{counter}, {{code}}>",
        (blocks, grid(n_groups)),
        COUNT_THREADS,
        membership,
        (cupy.asarray(bounds), np.int32(n_groups), labels, weight, np.int32(n_clusters), np.int32(capacity), out),
        shared_mem=SHARED_BYTES,
    )
    return out


def count_masses(membership, labels, weight, mass, n_clusters):
    """Do `count`, and sum the masses of the rows of each label that each partition saw: C x K and r x K."""
    sums = count(membership, labels, mass, n_clusters).cumsum(axis=0)[membership.offsets[1:] - 1]
    sums[1:] -= sums[:-1].copy()
    return count(membership, labels, weight, n_clusters), sums


def scatter_add(membership, rows, segment_rows):
    """Return H.T @ rows: segments of `segment_rows` rows are summed in ascending order, then added up in that order."""
    import cupy

    (n, r), n_columns = membership.codes.shape, rows.shape[1]
    n_segments = -(-n // segment_rows)
    partial = cupy.empty((n_segments, membership.n_columns, n_columns), rows.dtype)
    capacity = SHARED_BYTES // (32 * rows.itemsize)
    widest = min(int(membership.widths.max()), capacity)
    _launch(
        f"scatter_add<{TYPE[rows.dtype.name]}, {{code}}>",
        -(-n_columns // 32) * r * n_segments,
        32,
        membership,
        (rows, np.int32(n_columns), np.int64(segment_rows), np.int32(n_segments), np.int32(widest), partial),
        shared_mem=widest * 32 * rows.itemsize,
    )
    out = partial[0].copy()
    for part in partial[1:]:
        out += part
    return out


def coassociation(membership, begin, end, penalty, dtype):
    """Return rows begin .. end - 1 of the co-association matrix: (agreements - penalty * disagreements) / r."""
    import cupy

    codes = membership.codes
    (n, r), n_rows = codes.shape, end - begin
    out = cupy.empty((n_rows, n), dtype)
    kernel = function(f"coassociation<{TYPE[out.dtype.name]}, {CODE[codes.dtype.name]}>", "membership.cu")
    blocks = grid(-(-n // 16) * -(-n_rows // 16))
    arguments = (codes, np.int64(n), np.int32(r), np.int64(begin), np.int64(n_rows), np.int32(penalty), out)
    kernel((blocks,), (PAIR_THREADS,), arguments)
    return out


def _launch(template, blocks, threads, membership, arguments, shared_mem=0):
    """Launch a kernel whose first arguments are the codes, the offsets, n and r."""
    codes = membership.codes
    kernel = function(template.format(code=CODE[codes.dtype.name]), "membership.cu")
    size = blocks if isinstance(blocks, tuple) else (grid(blocks),)
    n, r = codes.shape
    kernel(size, (threads,), (codes, membership.offsets, np.int64(n), np.int32(r), *arguments), shared_mem=shared_mem)


def _lanes(n_columns):
    """Return how many lanes serve a row, and how many columns each of them holds at a time."""
    lanes = next((size for size in (4, 8, 16) if n_columns <= size), 32)
    return lanes, 1 if n_columns <= 32 else 2 if n_columns <= 64 else 4


def _padded(table):
    """Return a copy padded with zeros whose rows start on memory sectors, or the table itself if its rows do."""
    import cupy

    pitch = -(-table.shape[1] * table.itemsize // SECTOR) * SECTOR // table.itemsize
    if pitch == table.shape[1]:
        return table
    padded = cupy.zeros((table.shape[0], pitch), table.dtype)
    padded[:, : table.shape[1]] = table
    return padded


def _groups(cells, capacity):
    """Return the bounds of groups of neighbouring partitions: the cells of a group fit, or it is a single partition."""
    bounds, total = [0], 0
    for i, more in enumerate(cells.tolist()):
        if i > bounds[-1] and (total + more > capacity or i - bounds[-1] == COUNT_THREADS):
            bounds.append(i)
            total = 0
        total += more
    return np.array([*bounds, len(cells)], np.int32)
