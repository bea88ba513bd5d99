"""This launches kernels/batches.cu, with the names, the arguments and the bits of cpu/features/batches.py."""

import numpy as np

from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 128  # of a block
WARPS = THREADS // 32


def csr_scores(matrix, begin, table, add, out):
    """Set out = rows begin .. of a `Csr` @ table, or += the same if `add`; see cpu/features/batches.py."""
    n_rows, n_columns = out.shape
    arguments = (*matrix[:3], np.int64(begin), np.int64(n_rows), table, np.int32(n_columns), np.int32(add), out)
    _launch(f"csr_scores<{TYPE[out.dtype.name]}>", -(-n_rows * n_columns // THREADS), arguments)


def csr_rows(matrix, rows):
    """Return the named rows (int64) of a `Csr` as a dense array."""
    import cupy

    out = cupy.zeros((len(rows), matrix.shape[1]), matrix.dtype)
    arguments = (*matrix[:3], rows, np.int64(len(rows)), np.int32(matrix.shape[1]), out)
    _launch(f"csr_rows<{TYPE[matrix.dtype.name]}>", -(-len(rows) // WARPS), arguments)
    return out


def choose(scores, offset, starts, status, begin, labels, before, moved):
    """Give rows the cheapest centre of each set, the first of equals; see cpu/features/batches.py."""
    n_sets, n = labels.shape
    sizes = (np.int32(n_sets), np.int64(n), np.int64(begin), np.int64(len(scores)))
    arguments = (scores, offset, starts, status, *sizes, labels, before, moved)
    _launch(f"choose<{TYPE[scores.dtype.name]}>", -(-len(scores) * n_sets // WARPS), arguments)


def move_rows(part, scale, weight, mass_scale, present, starts, labels, before, sums, counts, masses):
    """Move the rows that changed their label between sums, counts and masses; see cpu/features/batches.py."""
    n_sets, n = labels.shape
    sparse = hasattr(part, "indptr")
    name, entries = ("move_sparse", part[:3]) if sparse else ("move_dense", (part,))
    weighting = (scale, weight, np.int32(len(weight) > 1), np.float64(mass_scale))
    present = np.uintp(0) if present is None else present
    arguments = (*entries, np.int64(n), np.int32(part.shape[1]), *weighting, present)
    moves = (starts, labels, before, np.int32(n_sets), *(array.view("uint64") for array in (sums, counts, masses)))
    _launch(f"{name}<{TYPE[part.dtype.name]}>", -(-n * n_sets // WARPS), (*arguments, *moves))


def place(sums, counts, masses, scale, mass_scale, cosine, weight, add, table, offset, partial, saved, empty):
    """Make what the next step needs of the centres of one block of columns; see cpu/features/batches.py."""
    n_centers, d = sums.shape
    sizes = (np.int32(n_centers), np.int32(d), np.int32(cosine), np.float64(weight), np.int32(add))
    partial = np.uintp(0) if partial is None else partial
    arguments = (sums, counts, masses, scale, np.float64(mass_scale), *sizes, table, offset, partial, saved, empty)
    _launch(f"place<{TYPE[table.dtype.name]}>", -(-n_centers // WARPS), arguments)


def judge(saved, totals, empty, starts, moved, tol, limit, objective, costs, steps, status):
    """End a step of each set of status 0; see cpu/features/batches.py."""
    n_parts, n_sets = totals.shape
    sizes = (np.int32(n_sets), np.int32(n_parts))
    arguments = (saved, totals, empty, starts, *sizes, moved, np.float64(tol), np.int32(limit))
    _launch("judge", -(-n_sets // WARPS), (*arguments, objective, costs, steps, status))


def _launch(expression, blocks, arguments):
    function(expression, "batches.cu")((grid(blocks),), (THREADS,), arguments)
