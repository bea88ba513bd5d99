"""What the tests share: the dense oracle of the membership operator, random memberships, and one way to compare."""

import contextlib

import numpy as np
import pytest
from hypothesis import strategies as st

from gpuensemble import Membership
from gpuensemble._array.devices import namespace, to_host

TOLERANCE = {np.dtype(name): 1000 * np.finfo(name).eps for name in ("float32", "float64")}


def check(actual, expected, xp, exact=False):
    """The same library, dtype, shape and values; floats to the tolerance of their dtype unless `exact`."""
    assert namespace(actual) is xp
    actual = to_host(actual)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if exact or expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
    else:
        np.testing.assert_allclose(actual, expected, rtol=TOLERANCE[expected.dtype], atol=TOLERANCE[expected.dtype])


def one_in(number, cases):
    """Parameters, of which the usual run has one in so many; `-m exhaustive` has the others."""
    return [pytest.param(*case, marks=pytest.mark.exhaustive if i % number else ()) for i, case in enumerate(cases)]


def dealt(cases, others):
    """Pairs of parameters: of each case the usual run has one of the others, in turns, and `-m exhaustive` the rest."""
    return [
        pytest.param(case, other, marks=() if i % len(others) == j else pytest.mark.exhaustive)
        for i, case in enumerate(cases)
        for j, other in enumerate(others)
    ]


def onehot(codes, widths):
    """H itself, from codes with -1 for a hole."""
    offsets = np.concatenate([[0], np.cumsum(widths)])
    dense = np.zeros((len(codes), offsets[-1]))
    for x, i in zip(*np.nonzero(codes >= 0), strict=True):
        dense[x, offsets[i] + codes[x, i]] = 1
    return dense


def oracle_costs(codes, widths, table, per_partition, weight):
    """The n x K costs of `assign` by its definition: sums over the observed partitions in order, rounded each time."""
    offsets = np.concatenate([[0], np.cumsum(widths)])
    t, p, infinite = (np.zeros((len(codes), table.shape[1]), dtype) for dtype in (table.dtype, table.dtype, int))
    finite = t.copy()
    for i in range(codes.shape[1]):
        seen = codes[:, i] >= 0
        term = table[offsets[i] + codes[seen, i]]
        t[seen] += term
        p[seen] += per_partition[i]
        infinite[seen] += np.isinf(term)
        finite[seen] += np.where(np.isinf(term), table.dtype.type(0), term)
    return t + weight[:, None] * p, infinite, finite + weight[:, None] * p


def oracle_assign(codes, widths, table, per_partition, weight):
    """The label and cost of each row: least cost, lowest index; if all are infinite, fewest infinite terms first."""
    costs, infinite, finite = oracle_costs(codes, widths, table, per_partition, weight)
    labels = costs.argmin(1).astype(np.int32)
    for x in np.flatnonzero(np.isinf(costs.min(1))):
        labels[x] = min(range(table.shape[1]), key=lambda k: (infinite[x, k], finite[x, k], k))
    return labels, costs.min(1)


def oracle_hash(row, seed):
    """The 64-bit hash of a row of codes, which checkpoints depend on: it must stay what it is."""
    value = seed
    for code in row:
        value = (value + int(code)) * 0x9E3779B97F4A7C15 % 2**64
        value ^= value >> 29
    return value


def random_codes(rng, n, widths, holes=0.3):
    """Codes with holes, -1, but none in the first partition of a row that would have no label left."""
    codes = np.stack([rng.integers(0, width, n) for width in widths], axis=1)
    codes[rng.random(codes.shape) < holes] = -1
    empty = (codes < 0).all(1)
    codes[empty, 0] = rng.integers(0, widths[0], empty.sum())
    return codes


def ensemble(n=80, r=8, n_clusters=4, holes=0.0, seed=3):
    """A partition and noisy copies of it, with holes, -1."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_clusters, n)
    widths = np.full(r, n_clusters + 2)
    clean = np.stack([rng.permutation(n_clusters + 2)[truth] for _ in range(r)], axis=1)
    noisy = random_codes(rng, n, widths, holes)
    return truth, np.where((rng.random(clean.shape) < 0.85) & (noisy >= 0), clean, noisy)


@st.composite
def problems(draw, max_n=40, columns=(1, 2, 5, 8, 13, 33, 70), dtypes=("float32", "float64")):
    """Codes, widths, and the arguments of `assign` in one dtype: entries on a coarse grid, so that ties happen."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    widest = draw(st.sampled_from([3, 9, 255, 256, 300]))
    widths = rng.integers(1, widest + 1, draw(st.integers(1, 7)))
    codes = random_codes(rng, draw(st.integers(1, max_n)), widths, draw(st.sampled_from([0, 0.4, 0.9])))
    dtype = draw(st.sampled_from(dtypes))
    n_columns = draw(st.sampled_from(columns))
    grid = draw(st.sampled_from([1, 1 / 1024, None]))

    def numbers(*shape):
        values = rng.standard_normal(shape)
        return (values if grid is None else np.round(values / grid) * grid).astype(dtype)

    table = numbers(widths.sum(), n_columns)
    table[rng.random(table.shape) < draw(st.sampled_from([0, 0.2, 0.9]))] = np.inf
    return codes, widths, table, numbers(len(widths), n_columns), np.abs(numbers(len(codes)))


def membership(xp, codes, widths):
    """A Membership in that library."""
    return Membership(xp.asarray(codes), widths, device="cpu" if xp is np else "cuda")


@contextlib.contextmanager
def two_workers():
    """A client of two worker processes on this machine, on free ports: clusters can stand side by side."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
