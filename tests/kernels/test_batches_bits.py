"""The kernels of batches: the CUDA source on the CPU and its PTX have the bits of Numba, which does what is defined."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from gpuensemble._array.csr import Csr, matrix
from gpuensemble._kernels.cpu.features import batches as cpu
from gpuensemble._kernels.cuda import batches as cuda
from support import check

SIZES = {"one set": [3], "many sets": [1, 40, 5, 33]}


def sparse(n, d, dtype, rng):
    """Rows with about a third of the entries, the first of them with none."""
    X = np.where(rng.random((n, d)) < 0.3, rng.standard_normal((n, d)), 0).astype(dtype)
    X[0] = 0
    found = matrix(csr_array(X), "X", "cpu")
    return Csr(found.data, found.indices.astype("int32"), found.indptr.astype("int64"), found.shape)


def moved_to(device, value):
    if isinstance(value, Csr):
        return Csr(*map(device.asarray, value[:3]), value.shape)
    return device.asarray(value) if isinstance(value, np.ndarray) else value


def both(device, name, arguments, written):
    """Call the kernel of both devices, and compare what it returns or writes; give what the CPU has written."""
    there = [moved_to(device, value) for value in arguments]
    found = getattr(cuda, name)(*there)
    expected = getattr(cpu, name)(*arguments)
    if expected is not None:
        check(found, expected, device, exact=True)
    for i in written:
        check(there[i], arguments[i], device, exact=True)
    return expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 7, 40])
def test_products_of_sparse_rows(device, dtype, n_columns):
    rng = np.random.default_rng(n_columns)
    X = sparse(23, 9, dtype, rng)
    table, out = rng.standard_normal((9, n_columns)).astype(dtype), np.full((18, n_columns), np.nan, dtype)
    both(device, "csr_scores", (X, 4, table, False, out), (4,))
    dense = cpu.csr_rows(X, np.arange(23))
    np.testing.assert_allclose(out, dense[4:22] @ table, rtol=1e-5, atol=1e-5)
    once = out.copy()
    both(device, "csr_scores", (X, 4, table, True, out), (4,))
    np.testing.assert_array_equal(out, once + once)
    rows = np.array([22, 0, 3, 3, 9])
    np.testing.assert_array_equal(both(device, "csr_rows", (X, rows), ()), dense[rows])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_the_cheapest_centre_of_each_set(device, dtype, sizes):
    rng, n, begin, n_sets = np.random.default_rng(0), 30, 5, len(sizes)
    starts = np.cumsum([0, *sizes]).astype("int32")
    scores = rng.integers(0, 4, (20, starts[-1])).astype(dtype)  # few values, so that costs tie
    offset = np.where(rng.random(starts[-1]) < 0.2, np.inf, rng.integers(0, 3, starts[-1])).astype(dtype)
    offset[: sizes[0]] = np.inf  # the first set has no centre that counts
    status = np.zeros(n_sets, "int32")
    status[1:2] = 1
    labels = rng.integers(0, 2, (n_sets, n)).astype("int32")
    old, before, moved = labels.copy(), np.full((n_sets, n), 99, "int32"), np.full(n_sets, 3, "int32")
    both(device, "choose", (scores, offset, starts, status, begin, labels, before, moved), (5, 6, 7))
    rows = slice(begin, begin + 20)
    for b, (first, last) in enumerate(pairwise(starts)):
        best = (scores + offset)[:, first:last].argmin(1) if not status[b] else old[b, rows]
        np.testing.assert_array_equal(labels[b, rows], best)
        assert moved[b] == 3 + (best != old[b, rows]).sum()
    np.testing.assert_array_equal(before[:, rows], old[:, rows])
    np.testing.assert_array_equal(labels[:, 25:], old[:, 25:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("plain", [True, False])
def test_rows_move_between_sums(device, dtype, kind, plain):
    rng, n, d, sizes = np.random.default_rng(3), 41, 37, [3, 1, 6]
    starts = np.cumsum([0, *sizes]).astype("int32")
    X = sparse(n, d, dtype, rng)
    rows = cpu.csr_rows(X, np.arange(n))
    scale = 2.0 ** rng.integers(20, 40, d)
    weight, present = (np.ones(1), None) if plain else (rng.random(n), rng.random(n) < 0.7)
    labels, before = (np.stack([rng.integers(-1, size, n) for size in sizes]).astype("int32") for _ in range(2))
    sums = rng.integers(-5, 5, (starts[-1], d))
    counts, masses = rng.integers(0, 5, (2, starts[-1]))
    old = sums.copy(), counts.copy(), masses.copy()
    to = (starts, labels, before, sums, counts, masses)
    both(device, "move_rows", (X if kind == "sparse" else rows, scale, weight, 1024.0, present, *to), (8, 9, 10))
    units = np.rint(weight.reshape(-1, 1) * rows.astype("float64") * scale).astype("int64")
    seen = np.ones(n, bool) if present is None else present
    mass = np.rint(np.broadcast_to(weight, n) * 1024).astype("int64")
    for sign, of in ((-1, before), (1, labels)):
        for b in range(3):
            for x in np.flatnonzero(seen & (of[b] >= 0) & (labels[b] != before[b])):
                c = starts[b] + of[b, x]
                old[0][c] += sign * units[x]
                old[1][c] += sign
                old[2][c] += sign * mass[x]
    for found, expected in zip((sums, counts, masses), old, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n_parts", [1, 2])
def test_a_step_is_judged(device, n_parts):
    rng = np.random.default_rng(n_parts)
    sizes = [3, 70, 33, 2, 5, 4, 6]
    n_sets, starts = len(sizes), np.cumsum([0, *sizes]).astype("int32")
    saved, empty = rng.random((n_parts, starts[-1])), np.zeros(starts[-1], bool)
    empty[starts[2] + 32] = True
    totals = np.add.reduceat(saved, starts[:-1], axis=1) + rng.random((n_parts, n_sets))
    totals[:, 5] = 0  # rounding must not make a cost negative
    moved, status = np.array([0, 4, 4, 4, 4, 4, 4], "int32"), np.array([0, 0, 0, 1, 0, 0, 0], "int32")
    steps, objective = np.array([2, 3, 2, 2, 8, 2, 2], "int32"), np.full(n_sets, np.inf)
    objective[6] = (totals - np.add.reduceat(saved, starts[:-1], axis=1)).sum(0)[6] * 1.05
    costs = np.zeros((n_parts, n_sets))
    both(
        device,
        "judge",
        (saved, totals, empty, starts, moved, 0.1, 9, objective, costs, steps, status),
        (4, 7, 8, 9, 10),
    )
    assert moved.tolist() == [0, 0, 4, 4, 4, 0, 4]  # those that go on have moved nothing yet
    assert status.tolist() == [1, 0, 2, 1, 1, 0, 1]  # nothing moved, on, empty, ended before, the last, on, too little
    assert steps.tolist() == [3, 4, 3, 2, 9, 3, 3]
    expected = np.maximum(0, totals - np.add.reduceat(saved, starts[:-1], axis=1))
    expected[:, 3] = 0
    np.testing.assert_allclose(costs, expected)
    assert np.isinf(objective[[2, 3]]).all()
    np.testing.assert_allclose(objective[[0, 1, 4, 5, 6]], expected.sum(0)[[0, 1, 4, 5, 6]])
