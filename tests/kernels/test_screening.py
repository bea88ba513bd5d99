"""`assign` of many clusters on the CPU, which 16 bits screen, has the bits of the plain evaluation, ties and all."""

import numpy as np
import pytest

from gpuensemble._kernels.cpu import membership as cpu
from gpuensemble._kernels.cpu.kmeans import screening, short
from support import membership, random_codes

WIDTHS = [7, 3, 12, 5, 9, 2]


def found(m, table, parts, weight, monkeypatch, screened=True):
    """Labels, costs and seconds, and how many rows were left to the plain evaluation."""
    left = []
    plain = screening.shortened

    def shortened(*arguments):
        left.append(plain(*arguments))
        return left[-1] if screened else None

    with monkeypatch.context() as patch:
        patch.setattr(screening, "shortened", shortened)
        return cpu.assign(m, table, parts, weight), left[0]


def both(m, table, parts, weight, monkeypatch):
    """Hold the screened evaluation against the plain one; return the tables in 16 bits."""
    monkeypatch.setattr(screening, "WORTH", 0)
    one, shortened = found(m, table, parts, weight, monkeypatch)
    two, _ = found(m, table, parts, weight, monkeypatch, screened=False)
    for x, y in zip(one, two, strict=True):
        np.testing.assert_array_equal(x, y)
        assert x.dtype == y.dtype
    return shortened


def case(seed, n_clusters, holes, dtype, steps=None):
    """A table of labels and costs; with `steps`, costs are few whole numbers, so that there are ties everywhere."""
    rng = np.random.default_rng(seed)
    m = membership(np, random_codes(rng, 500, WIDTHS, holes), WIDTHS)
    draw = rng.standard_normal if steps is None else lambda shape: rng.integers(0, steps, shape).astype(float)
    parts = draw((len(WIDTHS) if holes else 1, n_clusters)).astype(dtype)
    return m, draw((sum(WIDTHS), n_clusters)).astype(dtype), parts, (1 + rng.random(500)).astype(dtype)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("n_clusters", [50, 57, 100, 224])
def test_screened_rows_have_the_bits_of_plain_ones(monkeypatch, n_clusters, holes, dtype, seed):
    assert both(*case(seed, n_clusters, holes, dtype), monkeypatch) is not None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("steps", [1, 2, 3, 10])
def test_ties_go_to_the_lowest_cluster(monkeypatch, steps, holes, dtype):
    m, table, parts, weight = case(0, 60, holes, dtype, steps)
    both(m, table, parts, np.ones_like(weight), monkeypatch)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [1e2, 1e6, 1e12])
def test_costs_that_rounding_decides(monkeypatch, offset, dtype):
    """Far from zero the sums themselves are rounded by more than 16 bits tell apart."""
    m, table, parts, weight = case(1, 60, 0.0, dtype)
    both(m, table + np.dtype(dtype).type(offset), parts, weight, monkeypatch)
    both(m, table, parts * np.dtype(dtype).type(offset), weight, monkeypatch)


@pytest.mark.parametrize("seed", range(3))
def test_costs_of_partitions_that_decide(monkeypatch, seed):
    m, table, parts, weight = case(seed, 60, 0.3, "float64")
    assert both(m, table / 50, parts, weight, monkeypatch) is not None
    assert both(m, table / 50, np.rint(parts), np.full_like(weight, 2.0), monkeypatch) is not None


def test_weights_may_be_negative(monkeypatch):
    for holes in (0.0, 0.3):
        m, table, parts, weight = case(2, 60, holes, "float64")
        assert both(m, table, 20 * parts, 10 - 8 * weight, monkeypatch) is not None


@pytest.mark.parametrize(("dtype", "much"), [("float32", 1e38), ("float64", 1e308)])
def test_infinite_costs_are_left_to_the_plain_evaluation(monkeypatch, dtype, much):
    m, table, parts, weight = case(3, 60, 0.0, dtype)
    table[::3] = np.inf
    assert both(m, table, parts, weight, monkeypatch) is None
    table = np.random.default_rng(3).uniform(0.9 * much, much, table.shape).astype(dtype)
    assert both(m, table, parts, weight, monkeypatch) is None  # sums are infinite
    assert both(m, table / table.dtype.type(1e10), parts, weight, monkeypatch) is not None


def test_one_weight_for_all(monkeypatch):
    m, table, parts, _ = case(4, 60, 0.0, "float64")
    both(m, table, parts, None, monkeypatch)


def test_it_is_for_wide_tables_and_many_labels(monkeypatch):
    m, table, parts, weight = case(5, 60, 0.0, "float64")
    few = m.take(slice(0, 20))
    assert screening.shortened(m, table, parts, weight) is None  # 3000 labels, 2280 entries
    monkeypatch.setattr(screening, "WORTH", 1)
    assert screening.shortened(m, table, parts, weight) is not None
    assert screening.shortened(few, table, parts, weight[:20]) is None
    assert screening.shortened(m, table[:, :16].copy(), parts[:, :16].copy(), weight) is None


def test_most_rows_are_decided_by_two_clusters(monkeypatch):
    """The plain evaluation gets a table of nonsense: only rows that were left to it have its costs."""
    monkeypatch.setattr(screening, "WORTH", 0)
    m, table, parts, weight = case(6, 60, 0.0, "float64")
    expected = cpu.assign(m, table, parts, weight)[1]
    monkeypatch.setattr(cpu, "tiled", lambda table, plain=cpu.tiled: plain(np.full_like(table, 7.0)))
    decided = cpu.assign(m, table, parts, weight)[1] == expected
    assert decided.mean() > 0.9


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("n_clusters", [1, 3, 31, 33])
def test_columns_beyond_the_clusters_are_dearer_than_any_cluster(n_clusters, complete):
    """They fill a cache line, and a row that took one for a cluster would have a label that does not exist."""
    rng = np.random.default_rng(n_clusters)
    offsets, weights = np.concatenate([[0], np.cumsum(WIDTHS)]).astype("int32"), np.array([0.5, 4.0])
    table, parts = rng.random((sum(WIDTHS), n_clusters)), rng.random((1, n_clusters))
    made = short.shortened(table, parts, offsets, complete, weights.max())
    codes = rng.integers(0, WIDTHS, (200, len(WIDTHS)))
    sums = made.table[codes + offsets[:-1]].sum(1, dtype="int64")
    costs = (sums + made.base) + weights[:, None, None] * made.parts
    assert made.base.shape[1] > n_clusters
    assert costs[..., :n_clusters].max() < costs[..., n_clusters:].min()
