"""The kernels on CUDA, twins of _cpu.py, _cpu_slices.py and _cpu_lta.py: loads kernels/*.cu with CuPy and launches.

Arrays must be on CuPy's current device; kernels go to its current stream.
"""

import functools
from pathlib import Path

import numpy as np

ROW_THREADS = 128  # of a block of gather_sum and assign
SLICE_THREADS = 128  # of a block of shrink_slices: THREADS of slices.cu
COUNT_THREADS = 256  # of a block of count; also the most partitions in one of its groups
PAIR_THREADS = 256  # of a block of coassociation: 16 x 16 pairs
LTA_THREADS = 256  # of a block of lta.cu's kernels: a warp for each of LINES rows of a tile
PAIR_ROWS = 16  # of the spectrum that a thread of pair_gram sums up: ROWS of _cpu_lta.py
SHARED_BYTES = 48 * 1024  # of a block, what every device has
SECTOR = 32  # bytes of a memory sector: rows of a padded table start on one
MAX_BLOCKS = 1 << 14  # of a grid; the kernels stride over the rest

_CODE = {"uint8": "unsigned char", "uint16": "unsigned short", "int32": "int"}
_TYPE = {"float32": "float", "float64": "double", "int64": "long long"}


def gather_sum(membership, table):
    """H @ table."""
    import cupy

    n, n_columns = len(membership.codes), table.shape[1]
    out = cupy.empty((n, n_columns), table.dtype)
    padded = _padded(table)
    lanes, each = _lanes(n_columns)
    _launch(
        f"gather_sum<{_TYPE[table.dtype.name]}, {{code}}, {lanes}, {each}>",
        -(-n * lanes // ROW_THREADS),
        ROW_THREADS,
        membership,
        (padded, np.int32(n_columns), np.int32(padded.shape[1]), out),
    )
    return out


def assign(membership, table, per_partition, weight):
    """The cheapest column of each row, its cost, and that of the next; `per_partition` may be summed into one row."""
    import cupy

    n, n_columns = len(membership.codes), table.shape[1]
    labels = cupy.empty(n, np.int32)
    costs, seconds = cupy.empty(n, table.dtype), cupy.empty(n, table.dtype)
    padded = _padded(table)
    summed = np.int32(len(per_partition) == 1)
    weight = np.uintp(0) if weight is None else weight
    lanes, each = _lanes(n_columns)
    _launch(
        f"assign<{_TYPE[table.dtype.name]}, {{code}}, {lanes}, {each}>",
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
    """H.T @ diag(weight) @ onehot(labels), integers."""
    import cupy

    n = len(membership.codes)
    counter = "unsigned" if weight is None else "unsigned long long"
    capacity = SHARED_BYTES // (4 if weight is None else 8)
    bounds = _groups(membership.widths * n_clusters, capacity)
    n_groups = len(bounds) - 1
    out = cupy.zeros((membership.n_columns, n_clusters), np.int64)
    weight = np.uintp(0) if weight is None else weight
    # Each block clears and adds up its cells once: few blocks per group, but enough of them in all.
    blocks = min(-(-n // COUNT_THREADS), -(-MAX_BLOCKS // n_groups), 256)
    _launch(
        f"count<{counter}, {{code}}>",
        (blocks, min(n_groups, MAX_BLOCKS)),
        COUNT_THREADS,
        membership,
        (cupy.asarray(bounds), np.int32(n_groups), labels, weight, np.int32(n_clusters), np.int32(capacity), out),
        shared_mem=SHARED_BYTES,
    )
    return out


def count_masses(membership, labels, weight, mass, n_clusters):
    """`count`, and the sum of the masses of the rows of each label that each partition saw: C x K and r x K."""
    sums = count(membership, labels, mass, n_clusters).cumsum(axis=0)[membership.offsets[1:] - 1]
    sums[1:] -= sums[:-1].copy()
    return count(membership, labels, weight, n_clusters), sums


def scatter_add(membership, rows, segment_rows):
    """H.T @ rows: sums over segments of `segment_rows` rows in ascending order, then added up in that order."""
    import cupy

    (n, r), n_columns = membership.codes.shape, rows.shape[1]
    n_segments = -(-n // segment_rows)
    partial = cupy.empty((n_segments, membership.n_columns, n_columns), rows.dtype)
    capacity = SHARED_BYTES // (32 * rows.itemsize)
    widest = min(int(membership.widths.max()), capacity)
    _launch(
        f"scatter_add<{_TYPE[rows.dtype.name]}, {{code}}>",
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
    """Rows begin .. end - 1 of the co-association matrix: (agreements - penalty * disagreements) / r."""
    import cupy

    codes = membership.codes
    (n, r), n_rows = codes.shape, end - begin
    out = cupy.empty((n_rows, n), dtype)
    function = _function(cupy, f"coassociation<{_TYPE[out.dtype.name]}, {_CODE[codes.dtype.name]}>")
    blocks = min(-(-n // 16) * -(-n_rows // 16), MAX_BLOCKS)
    arguments = (codes, np.int64(n), np.int32(r), np.int64(begin), np.int64(n_rows), np.int32(penalty), out)
    function((blocks,), (PAIR_THREADS,), arguments)
    return out


def _launch(template, blocks, threads, membership, arguments, shared_mem=0):
    """Launch a kernel whose first arguments are the codes, the offsets, n and r."""
    import cupy

    codes = membership.codes
    function = _function(cupy, template.format(code=_CODE[codes.dtype.name]))
    grid = blocks if isinstance(blocks, tuple) else (min(blocks, MAX_BLOCKS),)
    n, r = codes.shape
    function(grid, (threads,), (codes, membership.offsets, np.int64(n), np.int32(r), *arguments), shared_mem=shared_mem)


@functools.cache
def _function(cupy, expression, file="membership.cu"):
    """One instantiation of a kernel, compiled at its first launch on each device and kept by CuPy on disk."""
    # --fmad=false: a product and a sum are rounded one after the other, as on the CPU.
    module = cupy.RawModule(code=source(file), options=("-std=c++17", "--fmad=false"), name_expressions=(expression,))
    return module.get_function(expression)


def source(file: str = "membership.cu") -> str:
    """The text of a file of kernels/: inside the package once installed, beside it in a checkout."""
    package = Path(__file__).parent
    folder = next(path for path in (package / "kernels", package.parent / "kernels") if path.is_dir())
    return (folder / file).read_text()


def _lanes(n_columns):
    """How many lanes serve a row, and how many columns each of them holds at a time."""
    lanes = next((size for size in (4, 8, 16) if n_columns <= size), 32)
    return lanes, 1 if n_columns <= 32 else 2 if n_columns <= 64 else 4


def _padded(table):
    """A copy whose rows start on memory sectors; the padding is zero."""
    import cupy

    pitch = -(-table.shape[1] * table.itemsize // SECTOR) * SECTOR // table.itemsize
    if pitch == table.shape[1]:
        return table
    padded = cupy.zeros((table.shape[0], pitch), table.dtype)
    padded[:, : table.shape[1]] = table
    return padded


def _groups(cells, capacity):
    """Bounds of groups of neighbouring partitions: the cells of a group fit, or it is a single partition."""
    bounds, total = [0], 0
    for i, more in enumerate(cells.tolist()):
        if i > bounds[-1] and (total + more > capacity or i - bounds[-1] == COUNT_THREADS):
            bounds.append(i)
            total = 0
        total += more
    return np.array([*bounds, len(cells)], np.int32)


def shrink_slices(flat, layout, tau, weights):
    """Shrink the slices that `layout` finds in the real array `flat`, where real and imaginary parts alternate."""
    import cupy

    n_slices, n_rows, *sizes = layout
    function = _function(cupy, f"shrink_slices<{_TYPE[flat.dtype.name]}, {n_rows}>", "slices.cu")
    weights = np.uintp(0) if weights is None else weights
    arguments = (flat, np.int64(n_slices), *map(np.int64, sizes), np.float64(tau), weights)
    function((min(n_slices, MAX_BLOCKS),), (SLICE_THREADS,), arguments)


def lta_update(tensor, similarity, error, first, third, step):
    """What an iteration does after P: E, B, C, the multipliers, and the next T in the place of P; see _cpu_lta.py."""
    import cupy

    n = len(similarity)
    blocks = min((-(-n // 32)) ** 2, MAX_BLOCKS)
    largest = cupy.empty((blocks, LTA_THREADS // 32), tensor.dtype)
    function = _function(cupy, f"lta_update<{_TYPE[tensor.dtype.name]}>", "lta.cu")
    factors = map(tensor.dtype.type, step)
    function((blocks,), (LTA_THREADS,), (tensor, similarity, error, first, third, np.int64(n), *factors, largest))
    return largest


def pair_spectrum(tensor, spectrum, basis):
    """The Fourier transform of the rows of both matrices, and sums of the slices' Gram matrices; see _cpu_lta.py."""
    import cupy

    n, n_columns = spectrum.shape[1:]
    for matrix, out in zip(tensor, spectrum, strict=True):
        out[...] = cupy.fft.rfft(matrix, axis=-1)
    n_blocks = -(-n // PAIR_ROWS)
    sums = cupy.empty((n_blocks, 4, n_columns))
    function = _function(cupy, f"pair_gram<{_TYPE[tensor.dtype.name]}>", "lta.cu")
    arguments = (_real(spectrum), _real(basis), np.int64(n), np.int64(n_columns), np.int32(PAIR_ROWS), sums)
    function((min(-(-n_blocks * n_columns // LTA_THREADS), MAX_BLOCKS),), (LTA_THREADS,), arguments)
    return sums


def pair_tensor(spectrum, factor, tensor):
    """The slices times their 2 x 2 factors, in place, and transformed back; see _cpu_lta.py."""
    import cupy

    n, n_columns = spectrum.shape[1:]
    function = _function(cupy, f"pair_multiply<{_TYPE[tensor.dtype.name]}>", "lta.cu")
    blocks = min(-(-n * n_columns // LTA_THREADS), MAX_BLOCKS)
    function((blocks,), (LTA_THREADS,), (_real(spectrum), factor, np.int64(n), np.int64(n_columns)))
    for part, out in zip(spectrum, tensor, strict=True):
        out[...] = cupy.fft.irfft(part, n, axis=-1)


def _real(array):
    """Real and imaginary parts in turns: a view."""
    return array.view("float32" if array.dtype == "complex64" else "float64")
