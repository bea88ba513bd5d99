"""This launches kernels/seeding.cu, with the names, the arguments and the bits of cpu/features/seeding.py."""

import numpy as np

from gpuensemble._kernels.cuda.source import TYPE, function, grid

DRAW_THREADS = 256  # of a block of draw_rows, as in its file
THREADS = 128  # of a block of the others
WARPS = THREADS // 32
PIVOT_BLOCKS = 128  # at most, whose warps each name a row that may be the next: they fill a device


def draw_rows(step, places, tries, sizes, rows, weight, fresh, costs, totals, scales, drawn, chosen, found):
    """Choose the best of the rows that were tried, and draw those to be tried next; see cpu/features/seeding.py."""
    (n_starts, m), n_tries, k = costs.shape, drawn.shape[1], chosen.shape[1]
    where = (np.uintp(0) if rows is None else rows, np.int64(m), weight, np.int32(len(weight) > 1))
    plan = (places, np.int32(places.shape[1]), tries, np.int32(n_tries), sizes, np.int32(n_starts), np.int32(k))
    state = (fresh, costs, totals.view("uint64"), scales, drawn, chosen, found)
    function("draw_rows", "seeding.cu")((grid(n_starts),), (DRAW_THREADS,), (np.int32(step), *plan, *where, *state))


def try_rows(
    step, part, constant, cosine, factor, noise, tries, sizes, rows, weight, scales, drawn, costs, fresh, totals
):
    """Find what costs become with each of the rows that are drawn, and their sums; see cpu/features/seeding.py."""
    (n_starts, m), n_tries = costs.shape, drawn.shape[1]
    distance = (part, np.int32(part.shape[1]), constant, np.int32(cosine), np.float64(factor), np.float64(noise))
    plan = (tries, np.int32(n_tries), sizes, np.int32(n_starts))
    where = (np.uintp(0) if rows is None else rows, np.int64(m), weight, np.int32(len(weight) > 1))
    state = (scales, drawn, costs, fresh, totals.view("uint64"))
    size = grid(-(-m // WARPS)), grid(n_starts)
    kernel = function(f"try_rows<{TYPE[part.dtype.name]}>", "seeding.cu")
    kernel(size, (THREADS,), (np.int32(step), *distance, *plan, *where, *state))


def pivots(x, k):
    """Choose k rows, each the longest beyond the span of those before it; see cpu/features/seeding.py."""
    import cupy

    m, d = x.shape
    blocks = grid(min(PIVOT_BLOCKS, -(-m // WARPS)))
    n_found = blocks * WARPS
    chosen, lengths = cupy.empty(k, np.int64), cupy.empty(k)
    longest = [(cupy.empty(n_found), cupy.empty(n_found, np.int64)) for _ in range(2)]
    rows = [x, cupy.empty_like(x), cupy.empty_like(x)]  # a step reads one and writes another, but for the caller's
    kernel = function("pivot", "seeding.cu")
    for step in range(k + 1):
        n_rows = np.int64(m if step < k else 0)
        before, after = rows[0 if step == 0 else 1 + (step - 1) % 2], rows[1 + step % 2]
        named = (*longest[step % 2], np.int32(n_found), after, *longest[(step + 1) % 2], chosen, lengths)
        kernel((blocks,), (THREADS,), (np.int32(step), before, n_rows, np.int32(d), *named))
    return chosen, lengths
