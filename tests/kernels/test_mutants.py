"""The files of kernels/ under the checker: no faults, the right results, and every one of many mutations is found."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from cudasim.shim import ShimError, ShimModule, empty, gxx
from gpuensemble._kernels.cpu import slices as cpu_slices
from gpuensemble._kernels.cuda.source import source
from gpuensemble._linear import thresholding
from support import one_in

pytestmark = pytest.mark.skipif(gxx() is None, reason="needs g++ on Linux to compile CUDA kernels for the CPU")

Checked = partial(ShimModule, checked=True)
ORDERS = ("forward", "reverse")
SOURCE = source("membership.cu")
SOURCES = {"shrink_slices": source("slices.cu")}  # of a kernel that is not in membership.cu
SOURCE = source("membership.cu")
SOURCES = {"shrink_slices": source("slices.cu")}  # of a kernel that is not in membership.cu
SOURCES |= dict.fromkeys(("scatter_add", "add_parts"), source("scatter.cu"))
SOURCES |= {"count": source("counts.cu")}
SOURCES |= {"lta_update": source("lta.cu")}
SOURCES |= {"orthogonalise": source("jacobi.cu")}
SOURCES |= dict.fromkeys(("pair_gram", "pair_multiply"), source("pairs.cu"))
BATCHES = ("csr_scores", "csr_rows", "choose", "move_dense", "move_sparse", "judge")
SOURCES |= dict.fromkeys(BATCHES, source("batches.cu"))
C_TYPES = {
    "unsigned char": np.uint8,
    "unsigned short": np.uint16,
    "int": np.int32,
    "unsigned": np.uint32,
    "unsigned long long": np.uint64,
    "long long": np.int64,
    "float": np.float32,
    "double": np.float64,
}


def ensemble(n, sizes, code, holes=0.2):
    """Codes of n rows in partitions of these sizes, offsets, and the dense one-hot matrix, n x C."""
    rng = np.random.default_rng(n)
    offsets = np.cumsum([0, *sizes]).astype(np.int32)
    labels = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    labels[-1] = np.array(sizes) - 1
    seen = rng.random(labels.shape) >= holes
    seen[-1] = True
    seen[0] = holes == 0
    codes = np.where(seen, labels, -1).astype(C_TYPES[code])
    columns = (labels + offsets[:-1])[..., None] == np.arange(offsets[-1])
    return codes, offsets, (columns & seen[..., None]).any(axis=1)


def pitched(values, ctype):
    """A table in device layout: rows of a multiple of 32 bytes, NaN beyond the columns in use."""
    dtype = np.dtype(C_TYPES[ctype])
    K = values.shape[1]
    pitch = -(-K * dtype.itemsize // 32) * 32 // dtype.itemsize
    table = np.full((len(values), pitch), np.nan, dtype)
    table[:, :K] = values
    return table


def terms(onehot, offsets, table):
    """Entry [i, x, k]: the table's row of x in partition i, 0 where x is missing."""
    picked = np.where(onehot[:, :, None], table, table.dtype.type(0))
    return np.stack([picked[:, a:b].sum(axis=1) for a, b in pairwise(offsets)])


def in_order(values):
    """The sum over the first axis, one addition after the other."""
    total = np.zeros_like(values[0])
    for value in values:
        total = total + value
    return total


def run_gather_sum(kernel, n, sizes, K, T, code):
    codes, offsets, onehot = ensemble(n, sizes, code)
    table = pitched(np.random.default_rng(1).standard_normal((offsets[-1], K)), T)
    out = empty((n, K), table.dtype)
    pitch = np.int32(table.shape[1])
    kernel((2,), (128,), (codes, offsets, np.int64(n), np.int32(len(sizes)), table, np.int32(K), pitch, out))
    return [(out, in_order(terms(onehot, offsets, table[:, :K])))]


def best_columns(cost, parts, weighted):
    """Labels and costs as `assign` defines them."""
    infinite = np.isinf(parts).sum(axis=0)
    finite = in_order(np.where(np.isinf(parts), parts.dtype.type(0), parts)) + weighted
    least = cost.min(axis=1)
    all_infinite = np.isinf(least)[:, None]
    order = np.lexsort((np.where(all_infinite, finite, cost), np.where(all_infinite, infinite, 0)), axis=1)
    return order[:, 0].astype(np.int32), least


def run_assign(kernel, n, sizes, K, T, code, weighted, summed, partitions=0):
    """`partitions` at a time are in shared memory: `assign_tiled`."""
    codes, offsets, onehot = ensemble(n, sizes, code, holes=0 if summed else 0.2)
    rng = np.random.default_rng(2)
    values = rng.integers(0, 3, (offsets[-1], K)).astype(float) / 8  # few values, so that costs tie
    values[rng.random(values.shape) < 0.2] = np.inf
    values[-1] = np.inf
    table = pitched(values, T)
    per_partition = pitched(rng.integers(0, 3, (1 if summed else len(sizes), K)) / 4, T)
    weight = rng.integers(1, 3, n).astype(table.dtype) if weighted else np.uintp(0)
    labels, costs, seconds = empty(n, np.int32), empty(n, table.dtype), empty(n, table.dtype)
    given = (codes, offsets, np.int64(n), np.int32(len(sizes)), table, per_partition)
    shape, results = (np.int32(K), np.int32(table.shape[1])), (labels, costs, seconds)
    if partitions:
        widest = max(sum(sizes[at : at + partitions]) for at in range(0, len(sizes), partitions))
        shared_mem = widest * table[0].nbytes
        kernel((2,), (64,), (*given, weight, *shape, np.int32(partitions), *results), shared_mem=shared_mem)
    else:
        kernel((2,), (128,), (*given, np.int32(summed), weight, *shape, *results))

    seen = np.stack([onehot[:, a:b].any(axis=1) for a, b in pairwise(offsets)])
    parts = terms(onehot, offsets, table[:, :K])
    shares = np.where(seen[:, :, None], per_partition[:, None, :K], table.dtype.type(0))
    p = np.broadcast_to(per_partition[0, :K], (n, K)) if summed else in_order(shares)
    p = (weight[:, None] if weighted else 1) * p
    cost = in_order(parts) + p
    want_labels, want_costs = best_columns(cost, parts, p)
    return [(labels, want_labels), (costs, want_costs), (seconds, np.sort(cost, axis=1)[:, 1])]


def run_count(kernel, n, sizes, group, K, capacity, counter, code, moves=False, masses=False):
    codes, offsets, onehot = ensemble(n, sizes, code)
    rng = np.random.default_rng(3)
    before, labels = rng.integers(0, K, (2, n)).astype(np.int32)
    mass, weight = rng.integers(0, 2**40, (2, n))
    weight = weight if counter == "unsigned long long" else np.uintp(0)
    rows = rng.permutation(n)[: n - 9] if moves else np.uintp(0)
    out = np.zeros((offsets[-1] + (len(sizes) if masses else 0), K), np.uint64)
    given = (rows, before if moves else np.uintp(0), labels, weight, mass if masses else np.uintp(0))
    args = (codes, offsets, np.int64(n - 9 if moves else n), np.int32(len(sizes)), np.int32(group), *given)
    kernel((2, 2), (256,), (*args, np.int32(K), np.int32(capacity), out), shared_mem=capacity)
    change = (labels[:, None] == np.arange(K)).astype(np.int64)
    if moves:
        change -= before[:, None] == np.arange(K)
        change[np.setdiff1d(np.arange(n), rows)] = 0
    seen = np.stack([onehot[:, a:b].any(axis=1) for a, b in pairwise(offsets)]).astype(np.int64)
    want = [onehot.T.astype(np.int64) @ (change * (weight[:, None] if weight.ndim else 1))]
    return [(out, np.concatenate([*want, seen @ (change * mass[:, None])] if masses else want).astype(np.uint64))]


def run_scatter_add(kernel, n, sizes, K, segment_rows, threads, tiling, T, code):
    """`tiling` is group, tile, per, lanes, pitch, chunk and capacity."""
    codes, offsets, onehot = ensemble(n, sizes, code)
    rows = np.random.default_rng(4).standard_normal((n, K)).astype(C_TYPES[T])
    n_segments = -(-n // segment_rows)
    partial_sums = empty((n_segments, offsets[-1], K), rows.dtype)
    counts = (np.int64(segment_rows), np.int32(n_segments), *map(np.int32, tiling))
    args = (codes, offsets, np.int64(n), np.int32(len(sizes)), rows, np.int32(K), *counts, partial_sums)
    kernel((2,), (threads,), args, shared_mem=(tiling[-1] + threads) * rows.itemsize)
    each = onehot[:, :, None] * rows[:, None, :]
    return [(partial_sums, np.stack([in_order(each[at : at + segment_rows]) for at in range(0, n, segment_rows)]))]


def run_add_parts(kernel, n_parts, size, T):
    parts = np.random.default_rng(5).standard_normal((n_parts, size)).astype(C_TYPES[T])
    out = empty(size, parts.dtype)
    kernel((2,), (64,), (parts, np.int64(size), np.int32(n_parts), out))
    return [(out, in_order(parts))]


def run_coassociation(kernel, n, sizes, begin, n_rows, penalty, T, code):
    codes, offsets, onehot = ensemble(n, sizes, code)
    dtype = C_TYPES[T]
    out = empty((n_rows, n), dtype)
    r = len(sizes)
    kernel((2,), (256,), (codes, np.int64(n), np.int32(r), np.int64(begin), np.int64(n_rows), np.int32(penalty), out))
    seen = np.stack([onehot[:, a:b].any(axis=1) for a, b in pairwise(offsets)], axis=1)
    agree, both = (m.astype(int) @ m.astype(int).T for m in (onehot, seen))
    want = (agree - penalty * (both - agree)).astype(dtype) / dtype(r)
    return [(out, want[begin : begin + n_rows])]


def run_lta_update(kernel, n, T, spread):
    rng = np.random.default_rng(n)
    dtype = C_TYPES[T]
    a = rng.integers(0, 6, (n, n)).astype(dtype) / dtype(5)
    a = np.maximum(a, a.T)
    tensor = rng.normal(0.5, 1, (2, n, n)).astype(dtype)
    e, l1, l3 = rng.normal(0, 0.3, (3, n, n)).astype(dtype)
    e *= dtype(spread)  # which of the residuals is the largest
    mu, inverse, next_inverse, share, back, next_back = step = rng.uniform(0.2, 2, 6).astype(dtype)
    p1, p2 = tensor.copy()
    b, c = (p + multiplier * inverse for p, multiplier in ((p1, l1), (p2, l3)))
    b, c = (np.clip((x + x.T) * dtype(0.5), dtype(0), dtype(1)) for x in (b, c))
    b[a == 1] = 1
    error = (a - p2 + back * e) * share
    first, third = l1 + mu * (p1 - b), l3 + mu * (p2 - c)
    following = [b - first * next_inverse, (a - error + next_back * error + c - third * next_inverse) * dtype(0.5)]
    worst = np.max(np.abs([p1 - b, p2 + error - a, p2 - c]))
    largest = empty((2, 8), dtype)
    kernel((2,), (256,), (tensor, a, e, l1, l3, np.int64(n), *step, largest))
    return [(tensor, np.stack(following)), (e, error), (l1, first), (l3, third), (largest.max(), worst)]


def pairs(n, n_columns, T):
    """Two n x n_columns matrices of complex numbers, real and imaginary parts on the last axis."""
    return np.random.default_rng(n).standard_normal((2, n, n_columns, 2)).astype(C_TYPES[T])


def product(x, xi, y, yi):
    """Of two complex numbers."""
    return x * y - xi * yi, x * yi + xi * y


def run_pair_gram(kernel, n, n_columns, rows, T):
    spectrum, basis = pairs(n, n_columns, T), pairs(2, n_columns, "double")[:, 0].copy()
    sums = empty((-(-n // rows), 4, n_columns), np.float64)
    kernel((2,), (64,), (spectrum, basis, np.int64(n), np.int64(n_columns), np.int32(rows), sums))
    (u, ui), (v, vi) = (np.moveaxis(part.astype(float), -1, 0) for part in spectrum)
    (a, ai), (b, bi) = (part.T for part in basis)
    p, pi = (x - y for x, y in zip(product(u, ui, a, ai), product(v, vi, b, -bi), strict=True))
    q, qi = (x + y for x, y in zip(product(u, ui, b, bi), product(v, vi, a, -ai), strict=True))
    each = np.stack([p * p + pi * pi, q * q + qi * qi, p * q + pi * qi, p * qi - pi * q], axis=1)
    return [(sums, np.stack([in_order(each[at : at + rows]) for at in range(0, n, rows)]))]


def run_pair_multiply(kernel, n, n_columns, T):
    spectrum, factor = pairs(n, n_columns, T), pairs(1, n_columns, T).reshape(4, n_columns)
    (u, ui), (v, vi) = (np.moveaxis(part, -1, 0).copy() for part in spectrum)
    kernel((2,), (64,), (spectrum, factor, np.int64(n), np.int64(n_columns)))
    a, b, c, d = factor
    one = u * a + (v * c + vi * d), ui * a + (vi * c - v * d)
    two = v * b + (u * c - ui * d), vi * b + (ui * c + u * d)
    return [(spectrum, np.stack([np.stack(one, axis=-1), np.stack(two, axis=-1)]))]


def run_shrink_slices(kernel, layout, tau, weighted, T):
    """Against the twin on the CPU, which test_prox.py holds against LAPACK."""
    n_slices, n_rows, length, slice_stride, *_, period = layout
    rng = np.random.default_rng(7)
    data = rng.standard_normal((period or n_slices, 2 * slice_stride)).astype(C_TYPES[T])
    if slice_stride == length * n_rows:  # small singular values, hidden in the sum of large ones
        small = data[1].view("complex128" if T == "double" else "complex64").reshape(length, n_rows)
        small[:] = small * 1e-4 ** np.arange(n_rows) @ rng.standard_normal((n_rows, n_rows))
    data = data.reshape(-1)
    weights = rng.random(n_rows) if weighted else None
    expected = data.copy()
    cpu_slices.shrink_slices(expected, thresholding.Layout(*layout), tau, weights)
    sizes = (np.int64(n_slices), *map(np.int64, (length, *layout[3:])))
    kernel((2,), (128,), (data, *sizes, np.float64(tau), np.uintp(0) if weights is None else weights))
    return [(data, expected)]


def run_equal_values(kernel):
    """Equal singular values, 5 and 5, are of rank 0 and 1 all the same: the weights 0 and 1 leave 5 and 3."""
    data = np.zeros((3, 2, 150), "complex64")
    data[:, 0, 0] = data[:, 1, 1] = 5
    expected = data.copy()
    expected[:, 1, 1] = 3
    sizes = map(np.int64, (3, 150, 300, 150, 1, 0))
    kernel((2,), (128,), (data.view("float32"), *sizes, np.float64(2), np.array([0.0, 1.0])))
    return [(data, expected)]


def run_orthogonalise(kernel, shape, dtype):
    """Against the twin on the CPU, which test_stacks.py holds against LAPACK; the second slice is not wanted."""
    rng = np.random.default_rng(8)
    data = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    data[2] *= np.logspace(0, -7, shape[1])[:, None]  # some rows count as zero, the last or the first of them
    data[3] *= np.logspace(-7, 0, shape[1])[:, None]
    data = (data if dtype.startswith("c") else data.real).astype(dtype)
    turns = np.tile(np.eye(shape[1], dtype=dtype), (shape[0], 1, 1))
    wanted = np.arange(shape[0]) != 1
    expected, turned = data.copy(), turns.copy()
    cpu_slices.orthogonalise(expected, turned, wanted, 1e-5, 1e-4)
    sizes = (np.int64(shape[0]), np.int32(shape[1]), np.int64(shape[2]))
    real = data.real.dtype
    kernel((2,), (64,), (data.view(real), turns.view(real), wanted, *sizes, np.float64(1e-5), np.float64(1e-4)))
    return [(data, expected), (turns, turned)]


def sparse_rows(n, d, T):
    """Entries, columns and pointers of rows with a third of their entries, the last row with all, and the rows."""
    rng = np.random.default_rng(n)
    rows = np.where(rng.random((n, d)) < 0.3, rng.integers(-8, 9, (n, d)) / 4, 0).astype(C_TYPES[T])
    rows[-1] = 1
    x, j = np.nonzero(rows)
    return rows[x, j], j.astype(np.int32), np.searchsorted(x, np.arange(n + 1)), rows


def run_csr_scores(kernel, n, d, begin, n_columns, add, T):
    *entries, rows = sparse_rows(n, d, T)
    table = np.random.default_rng(1).integers(-8, 9, (d, n_columns)).astype(rows.dtype)
    out = np.ones((n - begin, n_columns), rows.dtype) if add else empty((n - begin, n_columns), rows.dtype)
    expected = add + rows[begin:] @ table
    sizes = (np.int64(begin), np.int64(n - begin))
    kernel((2,), (128,), (*entries, *sizes, table, np.int32(n_columns), np.int32(add), out))
    return [(out, expected)]


def run_csr_rows(kernel, n, d, T):
    *entries, rows = sparse_rows(n, d, T)
    chosen = np.array([n - 1, 0, *range(2, n - 1, 2), n - 1])
    out = np.zeros((len(chosen), d), rows.dtype)
    kernel((2,), (128,), (*entries, chosen, np.int64(len(chosen)), np.int32(d), out))
    return [(out, rows[chosen])]


def run_choose(kernel, n, begin, sizes, T):
    rng, n_sets, n_rows = np.random.default_rng(4), len(sizes), n - begin
    starts = np.cumsum([0, *sizes]).astype(np.int32)
    scores = rng.integers(0, 3, (n_rows, starts[-1])).astype(C_TYPES[T])  # few values, so that costs tie
    offset = np.where(rng.random(starts[-1]) < 0.2, np.inf, rng.integers(0, 3, starts[-1])).astype(scores.dtype)
    offset[starts[-2] :] = np.inf
    status = np.arange(n_sets, dtype=np.int32) % 4 // 3
    labels = rng.integers(-1, 1, (n_sets, n)).astype(np.int32)
    before, moved = np.full((n_sets, n), 7, np.int32), np.full(n_sets, 2, np.int32)
    old, costs = labels.copy(), scores + offset
    numbers = (np.int32(n_sets), np.int64(n), np.int64(begin), np.int64(n_rows))
    kernel((2,), (128,), (scores, offset, starts, status, *numbers, labels, before, moved))
    best = np.stack([costs[:, a:b].argmin(1) for a, b in pairwise(starts)])
    expected, was = old.copy(), np.full_like(old, 7)
    expected[:, begin:] = np.where(status[:, None] == 0, best, old[:, begin:])
    was[:, begin:] = old[:, begin:]
    return [(labels, expected), (before, was), (moved, 2 + (expected != old).sum(1).astype(np.int32))]


def run_move(kernel, n, d, sizes, weighted, holes, T, sparse):
    *entries, rows = sparse_rows(n, d, T)
    rng, n_sets = np.random.default_rng(5), len(sizes)
    starts = np.cumsum([0, *sizes]).astype(np.int32)
    scale = 2.0 ** rng.integers(-6, 4, d)  # some entries are less than a unit
    weight = rng.integers(0, 9, n) / 8 if weighted else np.ones(1)
    present = rng.random(n) < 0.7 if holes else np.uintp(0)
    labels, before = (np.stack([rng.integers(-1, k, n) for k in sizes]).astype(np.int32) for _ in range(2))
    labels[-1, -1], before[-1, -1] = sizes[-1] - 1, 0
    units = np.rint(weight.reshape(-1, 1) * rows * scale)
    units = np.where((units == 0) & (weight.reshape(-1, 1) * rows != 0), np.sign(rows), units)
    facts = np.concatenate([units, np.ones((n, 1)), np.broadcast_to(np.rint(weight * 16), n)[:, None]], axis=1)
    facts[~present if holes else slice(0, 0)] = 0
    total = np.zeros((starts[-1], d + 2))
    for b in range(n_sets):
        moves = labels[b] != before[b]
        for sign, label in ((-1, before[b]), (1, labels[b])):
            some = moves & (label >= 0)
            np.add.at(total, starts[b] + label[some], sign * facts[some])
    out = [np.zeros((starts[-1], d), np.uint64), np.zeros(starts[-1], np.uint64), np.zeros(starts[-1], np.uint64)]
    numbers = (np.int64(n), np.int32(d), scale, weight, np.int32(weighted), np.float64(16), present)
    arguments = (*(entries if sparse else (rows,)), *numbers, starts, labels, before, np.int32(n_sets), *out)
    kernel((2,), (128,), arguments)
    expected = total.astype(np.int64)
    wanted = (np.ascontiguousarray(expected[:, :d]), expected[:, d].copy(), expected[:, d + 1].copy())
    return [(one.view(np.int64), two) for one, two in zip(out, wanted, strict=True)]


def run_judge(kernel, sizes, n_parts):
    rng, n_sets = np.random.default_rng(6), len(sizes)
    starts = np.cumsum([0, *sizes]).astype(np.int32)
    saved, no_rows = rng.integers(1, 9, (n_parts, starts[-1])) / 8, np.zeros(starts[-1], bool)
    no_rows[starts[2] + sizes[2] - 1] = True
    sums = np.add.reduceat(saved, starts[:-1], axis=1)
    totals = sums + rng.integers(1, 9, (n_parts, n_sets))
    totals[0, 4] = sums[0, 4] - 1  # less than nothing is nothing
    moved, status = np.full(n_sets, 3, np.int32), np.zeros(n_sets, np.int32)
    moved[0], status[3] = 0, 1
    steps, costs = np.full(n_sets, 4, np.int32), np.zeros((n_parts, n_sets))
    expected = np.where(status == 0, np.maximum(totals - sums, 0), 0)
    objective = expected.sum(0) * np.where(np.arange(n_sets) % 2, 1.25, 2)
    steps[6], objective[3] = 8, 5
    ends = (moved == 0) | (steps + 1 == 9) | (objective - expected.sum(0) <= 0.5 * expected.sum(0))
    wanted = np.where(status == 0, np.where(np.arange(n_sets) == 2, 2, ends), 1).astype(np.int32)
    after = [np.where((status == 0) & (wanted != 2), expected.sum(0), objective), expected]
    after += [(steps + (status == 0)).astype(np.int32), wanted]
    after.append(np.where(wanted == 0, 0, moved).astype(np.int32))
    out = [objective.copy(), costs, steps, status]
    numbers = (np.int32(n_sets), np.int32(n_parts), moved, np.float64(0.5), np.int32(9))
    kernel((1,), (128,), (saved, totals, no_rows, starts, *numbers, *out))
    return list(zip([*out, moved], after, strict=True))


# Sizes are chosen so that the grid is smaller than the work, no size is a multiple of the block, and the last entry of
# every buffer is used.
CASES = {
    "gather_sum": {
        "gather_sum<float, unsigned char, 4, 1>": partial(
            run_gather_sum, n=75, sizes=[3, 2, 4, 2, 3, 5], K=6, T="float", code="unsigned char"
        ),
        "gather_sum<double, unsigned short, 32, 2>": partial(
            run_gather_sum, n=19, sizes=[2, 300, *[3] * 33], K=72, T="double", code="unsigned short"
        ),
    },
    "assign": {
        "assign<double, unsigned char, 4, 1>": partial(
            run_assign, n=75, sizes=[3, 2, 4, 2, 5], K=6, T="double", code="unsigned char", weighted=False, summed=False
        ),
        "assign<float, int, 8, 1>": partial(
            run_assign, n=45, sizes=[3, 2, 4], K=8, T="float", code="int", weighted=True, summed=True
        ),
    },
    "assign_tiled": {
        "assign_tiled<double, unsigned char, 4, 1, false>": partial(
            run_assign,
            n=270,
            sizes=[3, 2, 4, 2, 5, 3, 3, 2, 2, 2, 4],
            K=4,
            T="double",
            code="unsigned char",
            weighted=False,
            summed=False,
            partitions=6,
        ),
        "assign_tiled<float, int, 32, 2, true>": partial(
            run_assign, n=45, sizes=[3, 2, 4], K=40, T="float", code="int", weighted=True, summed=True, partitions=2
        ),
    },
    "count": {
        "count<unsigned, unsigned char, false, false>": partial(
            run_count,
            n=400,
            sizes=[3, 4, 5, 40, 2, 2, 6, 3],
            group=3,
            K=4,
            capacity=4 * 48,
            counter="unsigned",
            code="unsigned char",
        ),
        "count<unsigned long long, int, false, false>": partial(
            run_count,
            n=400,
            sizes=[3, 4, 5, 40, 2],
            group=2,
            K=3,
            capacity=8 * 24,
            counter="unsigned long long",
            code="int",
        ),
        "count<unsigned, unsigned short, true, true>": partial(
            run_count,
            n=300,
            sizes=[3, 4, 5, 40, 2, 2, 6, 3],
            group=3,
            K=4,
            capacity=4 * 48 + 8 * 12,
            counter="unsigned",
            code="unsigned short",
            moves=True,
            masses=True,
        ),
    },
    "scatter_add": {
        "scatter_add<double, unsigned char, 2, 256>": partial(  # one slot of the first group is in device memory
            run_scatter_add,
            n=50,
            sizes=[3, 4, 9, 2, 2, 3, 2],
            K=11,
            segment_rows=20,
            threads=256,
            tiling=(5, 6, 2, 16, 16, 7, 160),
            T="double",
            code="unsigned char",
        ),
        "scatter_add<float, int, 1, 256>": partial(
            run_scatter_add,
            n=33,
            sizes=[3, 2],
            K=5,
            segment_rows=40,
            threads=256,
            tiling=(1, 5, 1, 32, 5, 16, 15),
            T="float",
            code="int",
        ),
        "scatter_add<double, unsigned short, 4, 512>": partial(
            run_scatter_add,
            n=25,
            sizes=[3, 2, 4, 2, 3, 2],
            K=40,
            segment_rows=25,
            threads=512,
            tiling=(6, 18, 1, 32, 18, 6, 288),
            T="double",
            code="unsigned short",
        ),
    },
    "add_parts": {
        "add_parts<double>": partial(run_add_parts, n_parts=12, size=300, T="double"),
        "add_parts<float>": partial(run_add_parts, n_parts=2, size=5, T="float"),
    },
    "coassociation": {
        "coassociation<float, unsigned char>": partial(
            run_coassociation,
            n=37,
            sizes=[2] * 20 + [3] * 20,
            begin=10,
            n_rows=20,
            penalty=1,
            T="float",
            code="unsigned char",
        ),
        "coassociation<double, int>": partial(
            run_coassociation, n=20, sizes=[2, 3, 4], begin=0, n_rows=20, penalty=0, T="double", code="int"
        ),
    },
    "lta_update": {
        "lta_update<double>": partial(run_lta_update, n=71, T="double", spread=1),
        "lta_update<float>": partial(run_lta_update, n=33, T="float", spread=20),
    },
    "pair_gram": {
        "pair_gram<double>": partial(run_pair_gram, n=37, n_columns=19, rows=4, T="double"),
        "pair_gram<float>": partial(run_pair_gram, n=7, n_columns=70, rows=16, T="float"),
    },
    "pair_multiply": {
        "pair_multiply<double>": partial(run_pair_multiply, n=19, n_columns=11, T="double"),
        "pair_multiply<float>": partial(run_pair_multiply, n=3, n_columns=70, T="float"),
    },
}

CASES |= {
    "csr_scores": {
        "csr_scores<double>": partial(run_csr_scores, n=40, d=9, begin=3, n_columns=7, add=False, T="double"),
        "csr_scores<float>": partial(run_csr_scores, n=33, d=5, begin=0, n_columns=41, add=True, T="float"),
    },
    "csr_rows": {
        "csr_rows<double>": partial(run_csr_rows, n=31, d=45, T="double"),
        "csr_rows<float>": partial(run_csr_rows, n=9, d=7, T="float"),
    },
    "choose": {
        "choose<double>": partial(run_choose, n=23, begin=4, sizes=[5, 1, 40, 3, 33, 2], T="double"),
        "choose<float>": partial(run_choose, n=31, begin=0, sizes=[70], T="float"),
    },
    "move_dense": {
        "move_dense<double>": partial(
            run_move, n=29, d=37, sizes=[4, 1, 3], weighted=True, holes=True, T="double", sparse=False
        ),
        "move_dense<float>": partial(
            run_move, n=40, d=3, sizes=[5], weighted=False, holes=False, T="float", sparse=False
        ),
    },
    "move_sparse": {
        "move_sparse<double>": partial(
            run_move, n=29, d=37, sizes=[4, 1, 3], weighted=True, holes=True, T="double", sparse=True
        ),
        "move_sparse<float>": partial(
            run_move, n=40, d=3, sizes=[5], weighted=False, holes=False, T="float", sparse=True
        ),
    },
    "judge": {"judge": partial(run_judge, sizes=[3, 70, 33, 2, 5, 40, 6], n_parts=2)},
}

# n_slices, n_rows, length, slice_stride, row_stride, step, period: mirrored, entry by entry, row by row
CASES["shrink_slices"] = {
    "shrink_slices<double, 2>": partial(
        run_shrink_slices, layout=(4, 2, 150, 150, 0, 1, 7), tau=2.0, weighted=False, T="double"
    ),
    "shrink_slices<double, 3>": partial(
        run_shrink_slices, layout=(5, 3, 150, 450, 1, 3, 0), tau=1e-9, weighted=True, T="double"
    ),
    "shrink_slices<float, 4>": partial(
        run_shrink_slices, layout=(5, 4, 20, 80, 20, 1, 0), tau=2.0, weighted=True, T="float"
    ),
    "shrink_slices<float, 2>": run_equal_values,
}
CASES["orthogonalise"] = {
    "orthogonalise<double, 2>": partial(run_orthogonalise, shape=(5, 5, 37), dtype="complex128"),
    "orthogonalise<float, 1>": partial(run_orthogonalise, shape=(4, 18, 21), dtype="float32"),
}


def fault(text, kernel, checked=True):
    """The first thing wrong with a kernel in this text: a kind of error, "wrong result", or None."""
    for expression, run in CASES[kernel].items():
        for order in ORDERS:
            module = ShimModule(text, name_expressions=(expression,), checked=checked, order=order)
            try:
                results = run(module.get_function(expression))
            except ShimError as error:
                return str(error).split(":")[0]
            if not all(np.array_equal(got, want) and got.dtype == want.dtype for got, want in results):
                return "wrong result"
    return None


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("kernel", CASES)
def test_kernel_is_free_of_faults(kernel, checked):
    assert fault(SOURCES.get(kernel, SOURCE), kernel, checked) is None


# How g++ 12 lets it be found (another may see another fault of it first); a kernel; text in its source, and what to
# put in its place.
MUTANTS = [
    # The loop over rows, the groups of lanes and the columns, which gather_sum and assign share.
    ("wrong result", "gather_sum", "(gridDim.x) * per_block", "(gridDim.x) * blockDim.x"),
    ("race", "gather_sum", "(blockIdx.x) * per_block + thread / G", "(blockIdx.x) * per_block + thread % G"),
    ("mask", "gather_sum", " << (thread % 32 / G * G)", ""),
    ("deadlock", "gather_sum", "(0xffffffffu >> (32 - G)) << (thread % 32 / G * G)", "0xffffffffu"),
    ("mask", "gather_sum", "column, j, G)", "column, j)"),
    ("out of bounds", "gather_sum", "if (mine < r)", "if (mine <= r)"),
    ("out of bounds", "gather_sum", "if (!is_hole(code)) column =", "column ="),
    ("wrong result", "gather_sum", "shared_column >= 0", "shared_column > 0"),
    (
        "wrong result",
        "gather_sum",
        "j = 0; j < last; ++j) {\n            const",
        "j = last - 1; j >= 0; --j) {\n            const",
    ),
    ("wrong result", "gather_sum", "r - first < G ? r - first : G", "r - first < G ? r - first : G - 1"),
    # gather_sum
    (
        "out of bounds",
        "gather_sum",
        "x < n; x += group.stride) {\n        for",
        "x <= n; x += group.stride) {\n        for",
    ),
    ("out of bounds", "gather_sum", "if (base + v * G < K) sum", "if (base + v * G <= K) sum"),
    ("race", "gather_sum", "if (base + v * G < K) out", "if (base + v * G <= K) out"),
    (
        "wrong result",
        "gather_sum",
        "pitch + base;\n#pragma unroll\n                for (int v = 0; v < V; ++v)\n",
        "K + base;\nfor (int v = 0; v < V; ++v)\n",
    ),
    # assign
    ("wrong result", "assign", ": other_k < k;", ": other_k > k;"),
    ("deadlock", "assign", "int step = G / 2", "int step = G / 4"),
    ("deadlock", "assign", "step > 0", "step > 1"),
    ("deadlock", "assign", "__shfl_xor_sync(group.mask, cost", "__shfl_xor_sync(0xffffffffu, cost"),
    ("wrong result", "assign", "if (k >= K) continue;\n            if", "if (k > K) continue;\n            if"),
    ("wrong result", "assign", "{r + 1, infinity", "{0, infinity"),
    ("wrong result", "assign", "better ? cost : other_cost", "other_cost"),
    ("wrong result", "assign", "if (other_second < second) second = other_second;", ""),
    ("wrong result", "assign", "return best.cost == infinity<T>();", "return false;"),
    ("wrong result", "assign", "costs[x] = best.cost", "costs[x] = best.second"),
    ("out of bounds", "assign", "weight ? weight[x] : T(1)", "weight[x]"),
    ("out of bounds", "assign", "if (!summed) p[v]", "p[v]"),
    ("race", "assign", "if (group.lane == 0) {", "if (group.lane <= 1) {"),
    ("race", "assign", "if (group.lane == 0) labels[x] = other.k;", "labels[x] = other.k;"),
    (
        "out of bounds",
        "assign",
        "x < n; x += group.stride) {\n        const",
        "x <= n; x += group.stride) {\n        const",
    ),
    # assign_tiled
    ("race", "assign_tiled", "__syncthreads();  // all are done with the partitions before", ""),
    (
        "uninitialised",
        "assign_tiled",
        "near[entry] = far[entry];\n            __syncthreads();",
        "near[entry] = far[entry];",
    ),
    ("out of bounds", "assign_tiled", "entry < n_entries", "entry <= n_entries"),
    ("out of bounds", "assign_tiled", "r - i0 < partitions ? r : i0 + partitions", "i0 + partitions"),
    ("out of bounds", "assign_tiled", "mine >= end || x >= n", "mine >= end"),
    ("wrong result", "assign_tiled", "mine >= end || x >= n", "mine >= end - 1 || x >= n"),
    ("out of bounds", "assign_tiled", "if (!is_hole(code)) column[u]", "column[u]"),
    ("wrong result", "assign_tiled", "offsets[mine] - offsets[i0]", "offsets[mine] - offsets[first]"),
    ("wrong result", "assign_tiled", "end - first < G ? end - first : G", "end - first < G ? end - first : G - 1"),
    ("wrong result", "assign_tiled", "line >= 0 && k < K", "line > 0 && k < K"),
    ("wrong result", "assign_tiled", "line >= 0 ? part[v] : T(0)", "part[v]"),
    ("wrong result", "assign_tiled", "static_cast<int64>(first + j)", "static_cast<int64>(first)"),
    ("wrong result", "assign_tiled", "start += gridDim.x * of_block", "start += 2 * gridDim.x * of_block"),
    ("out of bounds", "assign_tiled", "if (x >= n) break;", "if (x > n) break;"),
    ("wrong result", "assign_tiled", "infinite >>= 1, x += apart", "infinite >>= 1, ++x"),
    ("wrong result", "assign_tiled", "assigned.tell(group, x, best)) << u", "assigned.tell(group, x, best)) << 0"),
    ("race", "assign_tiled", "blockDim.x / G;  // rows of one group of lanes", "blockDim.x / G - 1;"),
    # count
    (
        "uninitialised",
        "count",
        "near_cells.cells[cell] = 0;\n            __syncthreads();",
        "near_cells.cells[cell] = 0;",
    ),
    ("uninitialised", "count", "near_masses.cells[cell] = 0;", "{}"),
    ("uninitialised", "count", "near_cells.cells[cell] = 0;", "{}"),
    ("race", "count", "if (!fits) continue;\n        __syncthreads();", "if (!fits) continue;"),
    ("barrier divergence", "count", "if (!fits) continue;", "if (!fits || threadIdx.x >= n_cells) continue;"),
    (
        "out of bounds",
        "count",
        "cell < n_cells; cell += blockDim.x) near_cells",
        "cell <= n_cells; cell += blockDim.x) near_cells",
    ),
    (
        "race",
        "count",
        "atomicAdd(cells + line * K + label, static_cast<Counter>(amount));",
        "cells[line * K + label] += amount;",
    ),
    (
        "race",
        "count",
        "atomicAdd(far_cells.cells + cell, static_cast<uint64>(total));",
        "far_cells.cells[cell] += total;",
    ),
    (
        "race",
        "count",
        "atomicAdd(far_masses.cells + cell, near_masses.cells[cell]);",
        "far_masses.cells[cell] += near_masses.cells[cell];",
    ),
    ("race", "count", "MASSES ? group * K : 0", "MASSES ? width * K : 0"),
    ("out of bounds", "count", "if (is_hole(code)) continue;", ""),
    ("wrong result", "count", "if (threadIdx.x >= at_once * width) y = n;", ""),
    ("wrong result", "count", "(gridDim.x) * at_once", "(gridDim.x) * blockDim.x"),
    ("wrong result", "count", "g += gridDim.y", "g += 1"),
    ("out of bounds", "count", "g < n_groups", "g <= n_groups"),
    ("out of bounds", "count", "r - first < group ? r - first : group", "group"),
    ("out of bounds", "count", "sizeof(uint64) <= capacity", "sizeof(uint64) <= capacity + 1000"),
    ("wrong result", "count", "out + static_cast<int64>(offsets[first]) * K", "out"),
    ("wrong result", "count", "(static_cast<int64>(offsets[r]) + first) * K", "static_cast<int64>(offsets[r]) * K"),
    ("wrong result", "count", "rows ? rows[y] : y", "y"),
    ("out of bounds", "count", "weight ? weight[x] : 1", "weight[x]"),
    ("wrong result", "count", "tally(old, -1)", "tally(old, 1)"),
    ("wrong result", "count", "return static_cast<int>(cell);", "return cell;"),
    # scatter_add: what is brought to shared memory
    ("wrong result", "scatter_add", "threadIdx.x - before;", "threadIdx.x;"),
    ("wrong result", "scatter_add", "0xffffffffu / period + uint64(1)", "0xffffffffu / period"),
    ("out of bounds", "scatter_add", "at >= count || within", "within"),
    ("uninitialised", "scatter_add", "within >= wanted", "within >= wanted - 1"),
    ("race", "scatter_add", "__syncthreads();  // the rows before are added", ""),
    ("race", "scatter_add", "store(near_rows);\n            __syncthreads();", "store(near_rows);"),
    ("out of bounds", "scatter_add", "if (x + chunk < last) fetch", "fetch"),
    ("out of bounds", "scatter_add", "static_cast<int>(last - x) - 1 : chunk - 1", "chunk - 1 : chunk - 1"),
    ("uninitialised", "scatter_add", "static_cast<int>(last - x) : chunk", "chunk : chunk"),
    # which cells a thread owns
    ("race", "scatter_add", "any = mine < stride &&", "any = mine <= stride &&"),
    ("race", "scatter_add", "slot < of.per && k < columns;", "slot < of.per && k <= columns;"),
    ("race", "scatter_add", "slot < of.per && k", "k"),
    ("out of bounds", "scatter_add", "any && other < partitions", "any"),
    ("race", "scatter_add", "mine = threadIdx.x / of.lanes", "mine = threadIdx.x / of.lanes / 2"),
    ("wrong result", "scatter_add", "of.per + EACH - 1) / EACH", "of.per) / EACH"),
    ("wrong result", "scatter_add", "((partitions + of.per - 1) / of.per +", "(partitions / of.per +"),
    ("race", "scatter_add", "k = lane % of.tile;", "k = lane;"),
    ("wrong result", "scatter_add", "const int slot = lane / of.tile;", "const int slot = 0;"),
    ("wrong result", "scatter_add", "if (there) pile(other);", ""),
    ("out of bounds", "scatter_add", "if (any) pile(partitions);", ""),
    ("wrong result", "scatter_add", "visit(first[e] + c,", "visit(first[e],"),
    ("race", "scatter_add", "= cells[line * pitch + owned.lane];", "= cells[line * pitch + owned.k];"),
    ("race", "scatter_add", "offsets[partition[e]] - offsets[0] + c)", "c)"),
    ("race", "scatter_add", "+ lane : spare;", "+ k : spare;"),
    ("race", "scatter_add", "+ lane : spare;", "+ lane : 0;"),
    ("out of bounds", "scatter_add", "if (code < width[e]) sums", "sums"),
    ("race", "scatter_add", "static_cast<int64>(offsets[partition[e]] - offsets[0]) + code", "code"),
    ("wrong result", "scatter_add", "int x = 0; x < count; ++x) {", "int x = count - 1; x >= 0; --x) {"),
    # its tasks and sums
    ("uninitialised", "scatter_add", "cells[line * pitch + owned.lane] = 0;", "{}"),
    ("uninitialised", "scatter_add", "cells[spare] = 0;", ""),
    ("uninitialised", "scatter_add", "sums[static_cast<int64>(column) * K] = 0;", "{}"),
    ("race", "scatter_add", "* pitch <= capacity;", "* pitch <= capacity + 64;"),
    ("wrong result", "scatter_add", "if (!fits) continue;", "{}"),
    ("race", "scatter_add", "+ k0 + owned.k;", "+ k0;"),
    ("out of bounds", "scatter_add", "n - first < segment_rows ? n : first", "first"),
    ("wrong result", "scatter_add", "task += gridDim.x", "task += 2 * gridDim.x"),
    ("wrong result", "scatter_add", "segment * offsets[r]", "segment * offsets[r - 1]"),
    ("out of bounds", "scatter_add", "r - i0 < group ? r - i0 : group", "group"),
    ("race", "scatter_add", "K - k0 < tile ? K - k0 : tile", "tile"),
    # add_parts
    ("wrong result", "add_parts", "T sum = parts[j];", "T sum = 0;"),
    ("wrong result", "add_parts", "int s = 1; s < n_parts; ++s", "int s = n_parts - 1; s > 0; --s"),
    ("out of bounds", "add_parts", "j < size; j += stride", "j <= size; j += stride"),
    ("wrong result", "add_parts", "j < size; j += stride", "j < size; j += 2 * stride"),
    # coassociation
    ("uninitialised", "coassociation", "}\n            __syncthreads();\n", "}\n"),
    ("race", "coassociation", "__syncthreads();  // before the next partitions overwrite the codes", ""),
    ("out of bounds", "coassociation", "i0 + i < r", "i0 + i <= r"),
    ("out of bounds", "coassociation", "inside && p0 + line < n_rows", "inside"),
    ("out of bounds", "coassociation", "inside && q0 + line < n ", "inside && q0 + line <= n "),
    ("race", "coassociation", "&& q0 + lane < n)", "&& q0 + lane <= n)"),
    ("out of bounds", "coassociation", "if (p0 + line < n_rows", "if (p0 + line <= n_rows"),
    ("out of bounds", "coassociation", "left[16][33]", "left[16][31]"),
    ("wrong result", "coassociation", "!is_hole(a) && ", ""),
    ("wrong result", "coassociation", "int i = 0; i < 32", "int i = 0; i < 31"),
    ("wrong result", "coassociation", "tile += gridDim.x", "tile += 2 * gridDim.x"),
    # lta_update
    ("uninitialised", "lta_update", "__syncthreads();\n        worst", "worst"),
    ("race", "lta_update", "__syncthreads();  // before the next tiles overwrite these", ""),
    ("race", "lta_update", "if (j < i) continue;", ""),
    ("wrong result", "lta_update", "if (j < i) continue;", "if (j <= i) continue;"),
    ("wrong result", "lta_update", "if (i != j) worst = update_tile", "if (false) worst = update_tile"),
    ("race", "lta_update", "if (i != j) worst = update_tile", "worst = update_tile"),
    ("uninitialised", "lta_update", "i == j ? upper : lower, worst", "lower, worst"),
    ("wrong result", "lta_update", "i == j ? upper : lower, worst", "upper, worst"),
    ("uninitialised", "lta_update", "if (i != j) lower.load(x, inverse, j, i);", ""),
    ("wrong result", "lta_update", "lower.load(x, inverse, j, i)", "lower.load(x, inverse, i, j)"),
    ("out of bounds", "lta_update", "SIDE][SIDE + 1], third", "SIDE - 1][SIDE + 1], third"),
    ("wrong result", "lta_update", "mirror.first[column][line]", "mirror.first[line][column]"),
    ("wrong result", "lta_update", "mirror.third[column][line]", "mirror.third[line][column]"),
    ("wrong result", "lta_update", "tile < across * across", "tile < across * across - 1"),
    ("wrong result", "lta_update", "tile += gridDim.x", "tile += 2 * gridDim.x"),
    ("wrong result", "lta_update", "(n + SIDE - 1) / SIDE", "n / SIDE"),
    ("wrong result", "lta_update", "a == T(1) ? T(1) : middle", "false ? T(1) : middle"),
    ("wrong result", "lta_update", "value > T(1) ? T(1) : value", "value"),
    ("wrong result", "lta_update", "larger(T(0), value", "larger(T(-9), value"),
    ("wrong result", "lta_update", "step.back * x.e[at]", "step.next_back * x.e[at]"),
    ("wrong result", "lta_update", "larger(worst, size_of(p1 - b))", "larger(worst, p1 - b)"),
    ("wrong result", "lta_update", "size_of(p2 + e - a)", "T(0)"),
    ("wrong result", "lta_update", "lanes = SIDE / 2; lanes > 0", "lanes = SIDE / 2; lanes > 8"),
    ("race", "lta_update", "if (threadIdx.x % SIDE == 0)", "if (threadIdx.x % SIDE <= 1)"),
    ("out of bounds", "lta_update", "blockIdx.x * LINES + threadIdx.x / SIDE", "blockIdx.x * 9 + threadIdx.x / SIDE"),
    ("uninitialised", "lta_update", "[blockIdx.x * LINES + threadIdx.x / SIDE]", "[threadIdx.x / SIDE]"),
    # pair_gram
    ("out of bounds", "pair_gram", "task < n_blocks * n_columns", "task <= n_blocks * n_columns"),
    ("wrong result", "pair_gram", "task += stride", "task += 2 * stride"),
    ("out of bounds", "pair_gram", "n - block * rows_per_block < rows_per_block ? n : ", ""),
    ("wrong result", "pair_gram", "row < last", "row < last - 1"),
    ("out of bounds", "pair_gram", "basis[2 * (n_columns + f) + 1]", "basis[2 * (n_columns + f) + 2]"),
    ("wrong result", "pair_gram", "- (v * b + vi * bi)", "- (v * b - vi * bi)"),
    ("wrong result", "pair_gram", "im += p * qi - pi * q", "im += pi * q - p * qi"),
    ("race", "pair_gram", "sums + 4 * block * n_columns + f", "sums + block * n_columns + f"),
    ("wrong result", "pair_gram", "const double u = z1[0], ui", "const double u = z2[0], ui"),
    # pair_multiply
    ("out of bounds", "pair_multiply", "at < n * n_columns", "at <= n * n_columns"),
    ("wrong result", "pair_multiply", "at += stride", "at += 2 * stride"),
    ("wrong result", "pair_multiply", "f = at % n_columns", "f = at / n % n_columns"),
    ("wrong result", "pair_multiply", "(vi * c - v * d)", "(vi * c + v * d)"),
    ("wrong result", "pair_multiply", "z2[1] = vi * b + (ui * c + u * d);", "z2[1] = vi * b + (ui * c + z1[0] * d);"),
    ("race", "pair_multiply", "z1 = spectrum + 2 * at;", "z1 = spectrum + at;"),
    # csr_scores
    ("out of bounds", "csr_scores", "at < n_rows * n_columns", "at <= n_rows * n_columns"),
    ("wrong result", "csr_scores", "int64 row = begin + at / n_columns", "int64 row = at / n_columns"),
    (
        "wrong result",
        "csr_scores",
        "i = indptr[row]; i < indptr[row + 1]; ++i",
        "i = indptr[row] + 1; i < indptr[row + 1]; ++i",
    ),
    ("wrong result", "csr_scores", "add ? out[at] + sum : sum", "sum"),
    ("uninitialised", "csr_scores", "add ? out[at] + sum : sum", "out[at] + sum"),
    ("wrong result", "csr_scores", "table + at % n_columns", "table"),
    # csr_rows
    ("out of bounds", "csr_rows", "y < n_rows; y += warps.stride", "y <= n_rows; y += warps.stride"),
    ("wrong result", "csr_rows", "i < indptr[rows[y] + 1]; i += 32", "i < indptr[rows[y] + 1]; i += 64"),
    ("wrong result", "csr_rows", "i = indptr[rows[y]] + warps.lane", "i = indptr[rows[y]]"),
    ("wrong result", "csr_rows", "out[y * d + indices[i]]", "out[indices[i]]"),
    # choose
    ("out of bounds", "choose", "task < n_rows * n_sets", "task <= n_rows * n_sets"),
    ("wrong result", "choose", "if (cost < least) {", "if (cost <= least) {"),
    ("wrong result", "choose", "(other == least && k < best)", "(other == least && k > best)"),
    ("wrong result", "choose", "k < size; k += 32", "k < 32; k += 32"),
    ("wrong result", "choose", "step = 16; step > 0; step /= 2) {", "step = 16; step > 1; step /= 2) {"),
    ("wrong result", "choose", "+ offset[first + k]", "+ offset[k]"),
    ("wrong result", "choose", "now = status[b] == 0 ? best : old", "now = best"),
    ("wrong result", "choose", "b * n + begin + y", "b * n + y"),
    ("wrong result", "choose", "before[at] = old;", "before[at] = now;"),
    ("wrong result", "choose", "if (now != old) atomicAdd(moved + b, 1);", "if (now != old) moved[b] = 1;"),
    (
        "race",
        "choose",
        "if (warps.lane == 0) {\n            const int old",
        "if (warps.lane <= 1) {\n            const int old",
    ),
    # move_dense and move_sparse
    ("out of bounds", "move_dense", "task < n * n_sets", "task <= n * n_sets"),
    ("wrong result", "move_dense", "if (old == now) continue;", "if (old != now) continue;"),
    ("out of bounds", "move_dense", "if (old >= 0) visit", "visit"),
    ("out of bounds", "move_sparse", "if (now >= 0) visit", "visit"),
    ("wrong result", "move_dense", "starts[b] + old), true", "starts[b] + old), false"),
    (
        "race",
        "move_dense",
        "atomicAdd(sums + center * d + column, static_cast<uint64>(takes ? -units : units));",
        "sums[center * d + column] += static_cast<uint64>(takes ? -units : units);",
    ),
    ("wrong result", "move_dense", "sums + center * d + column, ", "sums + column, "),
    ("wrong result", "move_dense", "found != 0 || value == 0 ? found : value > 0 ? 1 : -1", "found"),
    ("wrong result", "move_sparse", "value > 0 ? 1 : -1", "1"),
    ("wrong result", "move_dense", "6755399441055744.0", "6755399441055745.0"),
    ("wrong result", "move_dense", "j < d; j += 32) to.add", "j < 32; j += 32) to.add"),
    ("wrong result", "move_dense", "w * static_cast<double>(rows[x * d + j])", "static_cast<double>(rows[x * d + j])"),
    ("wrong result", "move_sparse", "i = indptr[x] + threadIdx.x % 32", "i = indptr[x] + threadIdx.x % 16"),
    ("wrong result", "move_sparse", "w * static_cast<double>(data[i])", "static_cast<double>(data[i])"),
    (
        "wrong result",
        "move_sparse",
        "masses + center, static_cast<uint64>(takes ? -units : units)",
        "masses + center, static_cast<uint64>(units)",
    ),
    ("wrong result", "move_sparse", "takes ? -1LL : 1LL", "1LL"),
    # judge
    ("out of bounds", "judge", "b < n_sets; b += warps.stride", "b <= n_sets; b += warps.stride"),
    ("race", "judge", "__syncwarp();  // all lanes have read the status", ""),
    ("wrong result", "judge", "if (status[b] != 0) continue;", ""),
    ("wrong result", "judge", "n_empty += empty[c]", "n_empty += 0"),
    ("wrong result", "judge", "c < last; c += 32) sum", "c < last; c += 64) sum"),
    ("wrong result", "judge", "static_cast<int64>(part) * starts[n_sets] + c", "c"),
    ("wrong result", "judge", "found += cost > 0 ? cost : 0;", "found += cost;"),
    ("wrong result", "judge", "moved[b] == 0 || ", ""),
    ("wrong result", "judge", "steps[b] + 1 == limit || ", ""),
    ("wrong result", "judge", " || objective[b] - found <= tol * found", ""),
    ("wrong result", "judge", "if (n_empty == 0) objective[b] = found;", "objective[b] = found;"),
    ("wrong result", "judge", "n_empty ? 2 : ends ? 1 : 0", "ends ? 1 : 0"),
    ("wrong result", "judge", "if (status[b] == 0) moved[b] = 0;", "moved[b] = 0;"),
    ("wrong result", "judge", "if (status[b] == 0) moved[b] = 0;", ""),
    # shrink_slices: the barriers
    (
        "race",
        "shrink_slices",
        "__syncthreads();\n            if (thread < V * V) shared.g",
        "if (thread < V * V) shared.g",
    ),
    ("race", "shrink_slices", "__syncthreads();\n            if (thread < 32)", "if (thread < 32)"),
    ("race", "shrink_slices", "__syncthreads();\n            unsure = false;", "unsure = false;"),
    (
        "race",
        "shrink_slices",
        "combine(thread / V, thread % V);\n        __syncthreads();",
        "combine(thread / V, thread % V);",
    ),
    ("race", "shrink_slices", "if (thread < 32) shared", "if (thread < 64) shared"),
    ("race", "shrink_slices", "__syncwarp();  // all lanes have read what follows overwrites", ""),
    ("race", "shrink_slices", "}\n                    __syncwarp();\n", "}\n"),
    ("race", "shrink_slices", "lane < V && lane != q", "lane < V"),
    ("race", "shrink_slices", "if (threadIdx.x % 32 == 0) shared", "shared"),
    # where the slices lie
    ("out of bounds", "shrink_slices", "v % 2 && f > 0 ? period", "v % 2 ? period"),
    ("wrong result", "shrink_slices", "return period > 0 && v % 2", "return v % 2"),
    ("wrong result", "shrink_slices", "[i * step] = {value.re, sign(v) * value.im}", "[i * step] = value"),
    ("wrong result", "shrink_slices", "f += gridDim.x", "f += 2 * gridDim.x"),
    ("out of bounds", "shrink_slices", "f < n_slices", "f <= n_slices"),
    ("out of bounds", "shrink_slices", "int64 at = thread; at < length", "int64 at = thread; at <= length"),
    ("out of bounds", "shrink_slices", "at = threadIdx.x; at < length", "at = threadIdx.x; at <= length"),
    (
        "race",
        "shrink_slices",
        "at = threadIdx.x; at < length; at += THREADS",
        "at = threadIdx.x; at < length; at += 64",
    ),
    # the sums
    ("wrong result", "shrink_slices", "step > 0; step /= 2", "step > 1; step /= 2"),
    ("wrong result", "shrink_slices", "b = -shared.rotation", "b = shared.rotation"),
    ("wrong result", "shrink_slices", "x[i].im * x[j].re - x[i]", "x[i].im * x[j].re + x[i]"),
    ("wrong result", "shrink_slices", "low * (2 * V - low)", "low * (2 * V - low - 1)"),
    ("wrong result", "shrink_slices", "i < j ? im : -im", "im"),
    ("wrong result", "shrink_slices", "warp < THREADS / 32", "warp < THREADS / 32 - 1"),
    # Jacobi's method
    ("wrong result", "shrink_slices", "if (!turned) break;", "break;"),
    ("wrong result", "shrink_slices", "gram[1][q][lane] = -gram", "gram[1][q][lane] = gram"),
    ("wrong result", "shrink_slices", "gram[0][p][lane] = gram[0][lane][p];", ""),
    ("wrong result", "shrink_slices", "slope < 0 ? -root : root", "root"),
    ("wrong result", "shrink_slices", "= thread / V == thread % V;", "= 1;"),
    # the shrinking
    ("wrong result", "shrink_slices", "look < 2 && unsure", "look < 1 && unsure"),
    ("wrong result", "shrink_slices", "< CARE * sqrt(largest)", "< 0"),
    ("wrong result", "shrink_slices", "rank += other > square", "rank += other < square"),
    ("wrong result", "shrink_slices", " || (other == square && j < i)", ""),
    ("out of bounds", "shrink_slices", "weights ? tau * weights[rank] : tau", "tau * weights[rank]"),
    ("wrong result", "shrink_slices", "1 - threshold / sigma : 0", "1 - threshold / sigma : 1"),
    ("wrong result", "shrink_slices", "im += b * c - a * d", "im += b * c + a * d"),
    # orthogonalise: the barriers, and what the warps tell each other
    (
        "race",
        "orthogonalise",
        "__syncthreads();\n            for (int other = 0; other < warps; ++other)\n                if",
        "for (int other = 0; other < warps; ++other) if",
    ),
    ("race", "orthogonalise", "__syncthreads();\n            }\n            if (lane == 0)", "}\n if (lane == 0)"),
    ("race", "orthogonalise", "__syncthreads();\n            turned = false;", "turned = false;"),
    ("race", "orthogonalise", "if (lane == 0) longest_of", "longest_of"),
    ("race", "orthogonalise", "if (lane == 0) turned_by", "turned_by"),
    ("wrong result", "orthogonalise", "longest_of[other] > longest)", "longest_of[other] < longest)"),
    ("wrong result", "orthogonalise", "turned |= turned_by[other] != 0", "turned &= turned_by[other] != 0"),
    # who meets whom
    ("wrong result", "orthogonalise", "f += gridDim.x", "f += 2 * gridDim.x"),
    ("out of bounds", "orthogonalise", "f < n_slices", "f <= n_slices"),
    ("wrong result", "orthogonalise", "bool turned = wanted[f]", "bool turned = true"),
    ("out of bounds", "orthogonalise", "if (q >= n_rows) continue;", ""),
    ("race", "orthogonalise", "k < size / 2; k += warps", "k < size / 2; k += 1"),
    ("wrong result", "orthogonalise", "(lap + k) % (size - 1)", "(lap + k) % size"),
    ("wrong result", "orthogonalise", "lap < size - 1", "lap < size - 2"),
    ("wrong result", "orthogonalise", "sweep < SWEEPS && turned", "sweep < 1 && turned"),
    ("out of bounds", "orthogonalise", "i < n_rows; i += warps", "i <= n_rows; i += warps"),
    # the products
    (
        "out of bounds",
        "orthogonalise",
        "at < length; at += 32) {\n        const Number<T, PARTS> one = x[at], two = y[at];\n        const double",
        "at <= length; at += 32) {\n        const Number<T, PARTS> one = x[at], two = y[at];\n        const double",
    ),
    ("wrong result", "orthogonalise", "step > 0; step /= 2", "step > 1; step /= 2"),
    ("wrong result", "orthogonalise", "sum.im += b * c - a * d", "sum.im += b * c + a * d"),
    ("wrong result", "orthogonalise", "sum.yy += c * c + d * d", "sum.yy += c * c"),
    # the rotation
    ("wrong result", "orthogonalise", "tolerance * tolerance * of.xx", "tolerance * of.xx"),
    ("wrong result", "orthogonalise", "noise * noise * longest", "noise * longest"),
    ("wrong result", "orthogonalise", " && of.xx > floor", ""),
    ("wrong result", "orthogonalise", " && of.yy > floor", ""),
    ("wrong result", "orthogonalise", "slope < 0 ? -root : root", "root"),
    ("wrong result", "orthogonalise", "sine * sine / (1 + cosine)", "sine * sine / cosine"),
    (
        "out of bounds",
        "orthogonalise",
        "at < length; at += 32) {\n        const Number<T, PARTS> one = x[at], two = y[at];\n        const T",
        "at <= length; at += 32) {\n        const Number<T, PARTS> one = x[at], two = y[at];\n        const T",
    ),
    ("wrong result", "orthogonalise", "{v + (a * u - h * v)}", "{v + (a * u + h * v)}"),
    ("wrong result", "orthogonalise", "h * u + (a * v - b * vi)", "h * u + (a * v + b * vi)"),
    ("wrong result", "orthogonalise", "(a * ui - b * u) - h * vi", "(a * ui + b * u) - h * vi"),
    ("wrong result", "orthogonalise", "turn(with + int64(p) * n_rows, with + int64(q) * n_rows, n_rows, h, a, b);", ""),
]


@pytest.mark.parametrize(("found_by", "kernel", "old", "new"), one_in(4, MUTANTS))
def test_mutant_is_found(found_by, kernel, old, new):
    text = SOURCES.get(kernel, SOURCE)
    assert text.count(old) == 1, "the text to mutate must occur once in the kernel's file"
    assert fault(text.replace(old, new), kernel) is not None, f"expected: {found_by}"
