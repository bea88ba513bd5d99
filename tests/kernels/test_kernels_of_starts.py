"""The kernels of k-means' first centres and of its means: the CUDA source on the CPU and PTX have the bits of Numba."""

import numpy as np
import pytest
from scipy.linalg import qr

from gpuensemble._kernels.cpu.features import batches as cpu_batches
from gpuensemble._kernels.cpu.features import embedding as cpu_embedding
from gpuensemble._kernels.cpu.features import seeding as cpu
from gpuensemble._kernels.cuda import batches as cuda_batches
from gpuensemble._kernels.cuda import embedding as cuda_embedding
from gpuensemble._kernels.cuda import seeding as cuda
from support import check, membership, onehot


def both(device, kernels, name, arguments, written):
    """Call the kernel of both devices, and compare what it writes."""
    there = [device.asarray(value) if isinstance(value, np.ndarray) else value for value in arguments]
    of_device, of_host = kernels
    getattr(of_device, name)(*there)
    getattr(of_host, name)(*arguments)
    for i in written:
        check(there[i], arguments[i], device, exact=True)


# ------------------------------------------------------------------------------------------------ k-means++


class Starts:
    """Three starts, of which the second ends before the others, and what they need."""

    def __init__(self, n, m, d, dtype, weighted, sampled):
        rng = np.random.default_rng(n + d)
        self.x = rng.standard_normal((n, d)).astype(dtype)
        self.x[1::2] = self.x[0]  # only (n + 1) // 2 rows differ
        self.x[2] = 0
        self.sizes, self.tries = np.array([6, 3, 6], "int32"), np.array([3, 2, 4], "int32")
        self.weight = np.where(rng.random(n) < 0.1, 0, rng.random(n)) if weighted else np.ones(1)
        self.rows = np.stack([rng.permutation(n)[:m] for _ in self.sizes]) if sampled else None
        self.places = rng.random((3, 1 + 5 * 4))
        m = m if sampled else n
        self.places[:, 0] = 1 - 2**-53, (m // 2 + 1) / m, 2.5 / m  # of 512 rows the second is where a row begins
        self.places[2, 1:5] = 0, 0.5, 1 - 2**-53, 0.25
        if sampled:
            self.rows[2, 2] = 2  # the row of zeros is the first of the last start
        self.costs, self.fresh, self.scales = np.zeros((3, m)), np.zeros((3, m, 4)), np.zeros(3)
        self.totals, self.drawn = np.full((3, 4), 9), np.zeros((3, 4), "int64")
        self.chosen, self.found = np.full((3, 6), -1), np.zeros(3, "int32")

    def draw(self, step):
        plan = (step, self.places, self.tries, self.sizes, self.rows, self.weight)
        return *plan, self.fresh, self.costs, self.totals, self.scales, self.drawn, self.chosen, self.found

    def measure(self, step, cosine, factor):
        constant = factor * (self.x.astype("float64") ** 2).sum(1) ** (0.5 if cosine else 1.0)
        how = (step, self.x, constant, cosine, factor, 64 * float(np.finfo(self.x.dtype).eps))
        state = (self.scales, self.drawn, self.costs, self.fresh, self.totals)
        return *how, self.tries, self.sizes, self.rows, self.weight, *state

    def rows_of(self, s):
        return np.arange(len(self.x)) if self.rows is None else self.rows[s]

    def potential(self, s, step):
        weight = np.broadcast_to(self.weight, len(self.x))[self.rows_of(s)]
        return weight if step == 0 else self.costs[s] * weight


def check_draws(starts, before, step):
    """What was drawn and chosen is what integers of NumPy say; `before` is drawn and totals of the step before."""
    drawn, totals = before
    for s in np.flatnonzero(starts.sizes >= step):
        if step > 0:
            best = int(totals[s, : starts.tries[s]].argmin())
            assert starts.chosen[s, step - 1] == drawn[s, best]
        if step == starts.sizes[s]:
            continue
        if step > 0:
            np.testing.assert_array_equal(starts.costs[s], starts.fresh[s, :, best])
        potential = starts.potential(s, step)
        most = potential.max()
        ends = np.cumsum((potential * (2.0**62 / (len(potential) * (most or 1)))).astype("int64"))
        tries = 1 if step == 0 else starts.tries[s]
        places = starts.places[s, :1] if step == 0 else starts.places[s, 1 + (step - 1) * tries :][:tries]
        at = np.searchsorted(ends, np.minimum((places * ends[-1]).astype("int64"), ends[-1] - 1), side="right")
        np.testing.assert_array_equal(starts.drawn[s, :tries], starts.rows_of(s)[at])
        assert starts.found[s] == (step + 1 if most > 0 else starts.found[s])
        assert not starts.totals[s].any()


def check_costs(starts, step, cosine, factor):
    x = starts.x.astype("float64")
    size = np.maximum((x**2).sum(1) ** 0.5, 1e-300)
    for s in np.flatnonzero(starts.sizes > step):
        for t in range(1 if step == 0 else starts.tries[s]):
            of = starts.drawn[s, t]
            distance = size - x @ x[of] / size[of] if cosine else ((x - x[of]) ** 2).sum(1)
            costs = np.minimum(starts.costs[s], factor * distance[starts.rows_of(s)])
            np.testing.assert_allclose(starts.fresh[s, :, t], costs, atol=1e-5 if x.dtype == "float32" else 1e-12)
            same = (x[starts.rows_of(s)] == x[of]).all(1)
            assert not starts.fresh[s, same, t].any()
            weight = np.broadcast_to(starts.weight, len(x))[starts.rows_of(s)]
            units = (starts.fresh[s, :, t] * weight * starts.scales[s]).astype("int64") if step else np.zeros(1)
            if step:
                assert starts.totals[s, t] == units.sum()


CASES = {
    "all rows": (19, 19, 40, np.float64, False, False, False),
    "samples, weighted": (90, 60, 3, np.float32, True, True, False),
    "many rows, cosine": (520, 512, 5, np.float64, False, True, True),
}


@pytest.mark.parametrize("case", CASES)
def test_greedy_k_means_plus_plus(device, case):
    *given, cosine = CASES[case]
    starts, factor = Starts(*given), 0.75
    for step in range(7):
        before = starts.drawn.copy(), starts.totals.copy()
        both(device, (cuda, cpu), "draw_rows", starts.draw(step), range(7, 13))
        check_draws(starts, before, step)
        if step < 6:
            both(device, (cuda, cpu), "try_rows", starts.measure(step, cosine, factor), (13, 14))
            check_costs(starts, step, cosine, factor)
    assert starts.found.tolist() == [6, 3, 6]
    assert (starts.chosen[1, 3:] == -1).all()


def test_rows_that_are_all_alike_leave_no_cost(device):
    starts = Starts(9, 9, 4, np.float64, False, False)
    starts.x[:] = starts.x[0]
    for step in range(4):
        both(device, (cuda, cpu), "draw_rows", starts.draw(step), range(7, 13))
        both(device, (cuda, cpu), "try_rows", starts.measure(step, False, 1.0), (13, 14))
    assert starts.found.tolist() == [1, 1, 1]
    assert (starts.drawn[:, 0] == 0).all()


# ------------------------------------------------------------------------------------------------ QR with pivoting


@pytest.mark.parametrize(("n", "d", "k"), [(5, 3, 3), (40, 37, 9), (300, 8, 8), (33, 4, 6)])
def test_pivots_are_those_of_a_qr(device, n, d, k):
    x = np.random.default_rng(n).standard_normal((n, d))
    x[n // 2] = x[0]
    given = x.copy()
    expected = cpu.pivots(x, k)
    for found, one in zip(cuda.pivots(device.asarray(x), k), expected, strict=True):
        check(found, one, device, exact=True)
    np.testing.assert_array_equal(x, given)
    triangle, order = qr(x.T, mode="r", pivoting=True)
    some = min(k, d)
    np.testing.assert_array_equal(x[expected[0][:some]], x[order[:some]])  # two rows are alike
    np.testing.assert_allclose(expected[1][:some], np.diag(triangle)[:some] ** 2)
    assert (expected[1][some:] < 1e-20).all()


def test_the_first_of_equally_long_rows_is_the_pivot(device):
    x = np.concatenate([np.zeros((3, 2)), np.tile([[3.0, 4], [0, 5], [5, 0], [-3, -4]], (9, 1))])
    expected = cpu.pivots(x, 2)
    assert expected[0].tolist() == [3, 5]  # beyond (3, 4), (5, 0) is longer than (0, 5)
    for found, one in zip(cuda.pivots(device.asarray(x), 2), expected, strict=True):
        check(found, one, device, exact=True)


# ------------------------------------------------------------------------------------------------ embedded rows


SIZES = {  # rows, clusters of each partition, columns, type of the codes
    "few columns": (700, [5, 3, 7] * 12, 9, np.uint8),
    "two columns a lane": (300, [50, 2, 3], 40, np.uint16),
    "more columns than a warp holds": (70, [4] * 33, 70, np.int32),
    "a partition that does not fit": (300, [3, 210, 4], 70, np.uint8),
}


@pytest.mark.parametrize("case", SIZES)
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_embedded_rows_and_their_lengths(device, case, holes):
    n, sizes, n_columns, code = SIZES[case]
    rng = np.random.default_rng(n)
    codes = np.where(rng.random((n, len(sizes))) < holes, -1, rng.integers(0, sizes, (n, len(sizes))))
    codes[-1], codes[:, 1] = np.array(sizes) - 1, abs(codes[:, 1])  # the last column, and a label in every row
    here, there = (membership(xp, codes.astype(code), np.array(sizes)) for xp in (np, device))
    table, share = rng.standard_normal((sum(sizes), n_columns)), rng.random(n)
    magic = np.array(1.5 * 2.0**32)
    expected = cpu_embedding.gather_shares(here, table, share, magic)
    on_device = [device.asarray(one) for one in (table, share, magic)]
    check(cuda_embedding.gather_shares(there, *on_device), expected, device, exact=True)
    lengths = cpu_embedding.gather_lengths(here, table)
    check(cuda_embedding.gather_lengths(there, on_device[0]), lengths, device, exact=True)
    sums = onehot(codes, np.array(sizes)) @ table
    np.testing.assert_allclose(expected, sums * share[:, None], atol=2.0**-20)
    np.testing.assert_array_equal(expected % 2.0**-20, 0)
    np.testing.assert_allclose(lengths, np.linalg.norm(sums, axis=1), atol=1e-12)


# ------------------------------------------------------------------------------------------------ means


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize(("add", "apart"), [(False, False), (True, False), (True, True), (False, True)])
def test_means_become_tables(device, dtype, cosine, add, apart):
    rng, n, d = np.random.default_rng(5), 43, 37
    sums, masses = rng.integers(-(2**50), 2**50, (n, d)), rng.integers(1, 2**40, n)
    counts = rng.integers(1, 9, n)
    sums[3], masses[3], counts[3] = 0, 0, 0
    sums[4] = 0
    scale, offset = 2.0 ** rng.integers(30, 45, d), rng.random(n).astype(dtype)
    empty = rng.random(n) < 0.2
    was, others = empty.copy(), offset.copy()
    table, saved = np.full((n, d), np.nan, dtype), np.full(n, np.nan)
    partial_costs = np.full(n, np.nan, dtype) if apart else None
    facts = (sums, counts, masses, scale, 2.0**30, cosine, 0.7, add)
    written = (table, offset, partial_costs, saved, empty)
    indices = [8 + i for i, one in enumerate(written) if one is not None]
    both(device, (cuda_batches, cpu_batches), "place", (*facts, *written), indices)

    real, mass = sums / scale, masses / 2.0**30
    size = (real**2).sum(1) ** 0.5 if cosine else mass
    position = real / np.where(size > 0, size, np.inf)[:, None]
    close = {"rtol": 1e-5 if dtype == np.float32 else 1e-12}
    np.testing.assert_allclose(table, 0.7 * (-1 if cosine else -2) * position, **close)
    gain = size if cosine else (real**2).sum(1) / np.where(size > 0, size, np.inf)
    np.testing.assert_allclose(saved, 0.7 * gain, rtol=1e-12)
    lacking = (counts == 0) | (was & add)
    np.testing.assert_array_equal(empty, lacking)
    cost = np.zeros(n) if cosine else 0.7 * (position**2).sum(1)
    if apart:
        np.testing.assert_allclose(partial_costs, cost, **close)
    expected = add * others.astype("float64") + (0 if apart else cost)
    np.testing.assert_allclose(offset, np.where(lacking, np.inf, expected), **close)
