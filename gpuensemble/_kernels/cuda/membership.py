"""This launches membership.cu and counts.cu of kernels/: the names and bits of cpu/membership.py."""

import numpy as np

from gpuensemble._kernels.cuda.source import TYPE, function, grid

ROW_THREADS = 128  # of a block of gather_sum and assign
TILED_THREADS = 256  # of a block of assign_tiled
CACHE = 256 << 10  # bytes of a table, of which the first cache holds no more than half
REUSE = 2  # how often a block of assign_tiled must use a row of the table
COUNT_THREADS = 256  # of a block of count; also the most partitions in one of its groups
COUNT_BLOCKS = 512  # of its grid, at most, as long as each group has one: they fill a device
WORTH = 4  # labels that a block of count has for each of its cells
PAIR_THREADS = 256  # of a block of coassociation: 16 x 16 pairs
SHARED_BYTES = 48 * 1024  # of a block, what every device has
SECTOR = 32  # bytes of a memory sector: rows of a padded table start on one
FULL = 128  # blocks that fill a device: about as many as it has processors
CODE = {"uint8": "unsigned char", "uint16": "unsigned short", "int32": "int"}  # of C


def gather_sum(membership, table):
    """Return H @ table."""
    import cupy

    n, n_columns = len(membership.codes), table.shape[1]
    out = cupy.empty((n, n_columns), table.dtype)
    padded, pitch = padded_table(table)
    lanes, each = lanes_of(n_columns)
    _launch(
        f"gather_sum<{TYPE[table.dtype.name]}, {{code}}, {lanes}, {each}>",
        -(-n * lanes // ROW_THREADS),
        ROW_THREADS,
        membership,
        (padded, np.int32(n_columns), np.int32(pitch), out),
    )
    return out


def assign(membership, table, per_partition, weight):
    """Return each row's cheapest column, its cost, and that of the next; `per_partition` may be summed into one row."""
    import cupy

    n, n_columns = len(membership.codes), table.shape[1]
    results = cupy.empty(n, np.int32), cupy.empty(n, table.dtype), cupy.empty(n, table.dtype)
    (padded, pitch), (parts, _) = padded_table(table), padded_table(per_partition)
    summed = len(per_partition) == 1
    weight = np.uintp(0) if weight is None else weight
    lanes, each = lanes_of(n_columns)
    group, rows = _staging(membership, table, pitch, summed)
    if rows:
        _launch(
            f"assign_tiled<{TYPE[table.dtype.name]}, {{code}}, {lanes}, {each}, {str(summed).lower()}>",
            -(-n // rows),
            TILED_THREADS,
            membership,
            (padded, parts, weight, *map(np.int32, (n_columns, pitch, group)), *results),
            shared_mem=_largest(membership.widths, group) * pitch * table.itemsize,
        )
    else:
        _launch(
            f"assign<{TYPE[table.dtype.name]}, {{code}}, {lanes}, {each}>",
            -(-n * lanes // ROW_THREADS),
            ROW_THREADS,
            membership,
            (padded, parts, np.int32(summed), weight, np.int32(n_columns), np.int32(pitch), *results),
        )
    return results


def _staging(membership, table, pitch, summed):
    """Return how many partitions of the table `assign_tiled` holds, and for how many rows: 0 where it does not pay.

    It does where the table is not in the first cache anyway, where a block reads it for several times as many rows as
    a partition has clusters, and where there are rows for blocks that fill a device.
    """
    widths, (lanes, each) = membership.widths, lanes_of(table.shape[1])
    rows = TILED_THREADS // lanes * (16 if summed else 8) // each
    capacity = SHARED_BYTES // table.itemsize
    pays = (
        table.shape[1] <= lanes * each
        and int(widths.max()) * pitch <= capacity
        and membership.n_columns * pitch * table.itemsize > CACHE
        and rows * len(widths) >= REUSE * membership.n_columns
        and len(membership.codes) >= FULL * rows
    )
    return (_group(widths * pitch, capacity, len(widths)), rows) if pays else (0, 0)


def count(membership, labels, weight, n_clusters):
    """Count H.T @ diag(weight) @ onehot(labels) in integers."""
    return _counted(membership, None, None, labels, weight, None, n_clusters)


def count_masses(membership, labels, weight, mass, n_clusters):
    """Do `count`, and sum the masses of the rows of each label that each partition saw: C x K and r x K."""
    cells = _counted(membership, None, None, labels, weight, mass, n_clusters)
    return cells[: membership.n_columns], cells[membership.n_columns :]


def count_moves(membership, rows, old, new, weight, n_clusters):
    """Return by how much `count` changes where labels `old` become `new`; only `rows` are looked at, or all: None.

    Without `old` labels all rows are new.
    """
    return _counted(membership, rows, old, new, weight, None, n_clusters)


def count_moved_masses(membership, rows, old, new, weight, mass, n_clusters):
    """Return by how much `count_masses` changes where labels `old` become `new`."""
    cells = _counted(membership, rows, old, new, weight, mass, n_clusters)
    return cells[: membership.n_columns], cells[membership.n_columns :]


def _counted(membership, rows, before, labels, weight, mass, n_clusters):
    """Count all rows, or some; with labels `before`, how the counts change. Below are the sums of masses, if given."""
    import cupy

    n, r = len(membership.codes) if rows is None else len(rows), len(membership.widths)
    counter, size = ("unsigned", 4) if weight is None else ("unsigned long long", 8)
    flags = f"{str(before is not None).lower()}, {str(mass is not None).lower()}"
    cells = membership.widths * n_clusters + (0 if mass is None else 8 // size * n_clusters)
    group = _group(cells, SHARED_BYTES // size, COUNT_THREADS)
    shared_mem = min(SHARED_BYTES, size * _largest(cells, group))
    out = cupy.zeros((membership.n_columns + (0 if mass is None else r), n_clusters), np.int64)
    if n:
        _launch(
            f"count<{counter}, {{code}}, {flags}>",
            _count_grid(n, cells, group, SHARED_BYTES // size),
            COUNT_THREADS,
            membership,
            (
                np.int32(group),
                *(np.uintp(0) if x is None else x for x in (rows, before, labels, weight, mass)),
                *map(np.int32, (n_clusters, shared_mem)),
                out,
            ),
            shared_mem=shared_mem,
            file="counts.cu",
            n=n,
        )
    return out


def _count_grid(n, cells, group, capacity):
    """Return the grid of `count`: each block counts at least WORTH labels for each cell that it clears and adds up."""
    n_groups = -(-len(cells) // group)
    largest = _largest(cells, group)
    worth = -(-n // COUNT_THREADS) if largest > capacity else n * group // (WORTH * largest)
    return max(1, min(worth, -(-COUNT_BLOCKS // n_groups))), grid(n_groups)


def _group(cells, capacity, most):
    """Return how many neighbouring partitions a block takes: their cells fit, unless a single one has too many."""
    fitting = capacity * len(cells) // int(np.minimum(cells, capacity).sum())
    size = max(1, min(most, fitting, len(cells)))
    while size > 1:
        size = -(-len(cells) // -(-len(cells) // size))  # as many groups, of equal sizes
        starts = np.arange(0, len(cells), size)
        fits = np.add.reduceat(cells, starts) <= capacity
        if (fits | (np.maximum.reduceat(cells, starts) > capacity)).all():
            break
        size -= 1
    return size


def _largest(cells, group):
    """Return how many cells the largest group of so many partitions has."""
    return int(np.add.reduceat(cells, np.arange(0, len(cells), group)).max())


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


def _launch(template, blocks, threads, membership, arguments, shared_mem=0, file="membership.cu", n=None):
    """Launch a kernel whose first arguments are the codes, the offsets, n (all rows, unless told) and r."""
    codes = membership.codes
    kernel = function(template.format(code=CODE[codes.dtype.name]), file)
    size = blocks if isinstance(blocks, tuple) else (grid(blocks),)
    n, r = len(codes) if n is None else n, codes.shape[1]
    kernel(size, (threads,), (codes, membership.offsets, np.int64(n), np.int32(r), *arguments), shared_mem=shared_mem)


def lanes_of(n_columns):
    """Return how many lanes serve a row, and how many columns each of them holds at a time."""
    lanes = next((size for size in (4, 8, 16) if n_columns <= size), 32)
    return lanes, 1 if n_columns <= 32 else 2 if n_columns <= 64 else 4


def pitch_of(n_columns: int, itemsize: int) -> int:
    """Return how many numbers apart rows must be to start on memory sectors.

    A table that lies so in memory, as ``padded[:, :n_columns]`` does, is given to kernels as it is.
    """
    return -(-n_columns * itemsize // SECTOR) * SECTOR // itemsize


def padded_table(table):
    """Return the memory of a table whose rows start on sectors, which is a copy unless they do, and their pitch."""
    import cupy

    (n_rows, n_columns), size = table.shape, table.itemsize
    pitch = pitch_of(n_columns, size)
    if n_rows == 1 and table.flags.c_contiguous:
        return table, pitch  # no second row is read
    if table.strides == (pitch * size, size):
        return memory_of(table)
    padded = cupy.zeros((n_rows, pitch), table.dtype)
    padded[:, :n_columns] = table
    return padded, pitch


def memory_of(table):
    """Return the memory of a table whose rows may be apart, as those of a padded one, and by how many numbers."""
    import cupy

    (n_rows, n_columns), size = table.shape, table.itemsize
    if table.flags.c_contiguous:
        return table, n_columns
    pitch = table.strides[0] // size
    flat = ((n_rows - 1) * pitch + n_columns,)
    return cupy.lib.stride_tricks.as_strided(table, shape=flat, strides=(size,)), pitch
