"""Weights of clusters against their definitions, cluster by cluster."""

import math

import numpy as np
import pytest

from gpuensemble._kmeans.labels import weights
from gpuensemble._kmeans.labels.costs import KCCCosts
from gpuensemble._tables import blocks, counts
from support import membership, random_codes

WIDTHS = np.array([3, 1, 4, 2])


def tables(holes, weighted):
    """The codes, how often each row counts, and its table: in one block and in several."""
    rng = np.random.default_rng(1)
    codes = random_codes(rng, 60, WIDTHS, holes)
    codes[codes[:, 2] == 3, 0] = -1  # a cluster that the first partition has not seen
    codes[(codes < 0).all(1), 2] = 0
    times = rng.integers(1, 5, 60) if weighted else None
    m = membership(np, codes, WIDTHS)
    streamed = blocks.Streamed(m.codes, [0, 7, 8, 40, 60], m.widths, m.complete, None, times)
    return codes, np.ones(60, int) if times is None else times, (blocks.whole(m, times), streamed)


def entropy_weight(codes, times, i, label):
    """exp(-h / (0.4 r)) of one cluster, h the entropies in bits of what the other partitions say of its rows."""
    inside, bits = codes[:, i] == label, 0.0
    for j in set(range(len(WIDTHS))) - {i}:
        seen = inside & (codes[:, j] >= 0)
        shares = [times[seen & (codes[:, j] == other)].sum() / max(1, times[seen].sum()) for other in range(WIDTHS[j])]
        bits -= sum(share * math.log2(share) for share in shares if share)
    return math.exp(-bits / (0.4 * len(WIDTHS)))


@pytest.mark.parametrize("cells", [1, 40, 1 << 22])
@pytest.mark.parametrize(("holes", "weighted"), [(0, False), (0.4, False), (0.4, True)])
def test_entropy_weights_are_their_definition(holes, weighted, cells, monkeypatch):
    monkeypatch.setattr(counts, "CELLS", cells)
    monkeypatch.setattr(counts, "WHOLE", 0 if cells < 100 else counts.WHOLE)
    codes, times, both = tables(holes, weighted)
    expected = [entropy_weight(codes, times, i, label) for i, width in enumerate(WIDTHS) for label in range(width)]
    for table in both:
        found = weights.entropy_weights(table)
        assert found.dtype == "int64"
        np.testing.assert_allclose(found / 2**20, expected, atol=2.0**-20)
        costs = KCCCosts.of("category", False, table, weights.Weighting(np.ones(4), found, "float64"))
        np.testing.assert_allclose(costs.of_label[:, 0], expected, atol=2.0**-20)
        np.testing.assert_array_equal(
            counts.sizes(table), [times[codes[:, i] == k].sum() for i, w in enumerate(WIDTHS) for k in range(w)]
        )


def test_a_block_without_a_label_of_a_partition_counts_nothing(xp):
    block = blocks.Block(membership(xp, np.array([[0, -1], [1, -1]]), [2, 3]))
    first, second = counts._counts(block, 0, 2)
    np.testing.assert_array_equal(first, [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]])
    np.testing.assert_array_equal(second, np.zeros((5, 3)))


def test_contingency_tables_are_counted_as_many_at_a_time_as_fit(monkeypatch):
    """Each pass over the table costs as much as reading it."""
    _, _, (table, _) = tables(0.4, False)
    spans = []
    monkeypatch.setattr(table, "total", lambda step, *span: spans.append(span) or step(table.block, *span))
    monkeypatch.setattr(counts, "CELLS", 5 * WIDTHS.sum())
    monkeypatch.setattr(counts, "WHOLE", 0)
    weights.entropy_weights(table)
    assert spans == [(0, 2), (2, 3), (3, 4)]


def test_a_cluster_that_all_others_split_still_counts():
    """Its weight is less than half a unit: a row of degree 0 could not be divided by."""
    codes = np.tile(np.arange(400)[:, None], 6)
    codes[:, 0] = 0
    found = weights.entropy_weights(blocks.whole(membership(np, codes, [1, *[400] * 5])))
    assert entropy_of_singles(400, 6) < 2.0**-22
    assert found[0] == 1
    assert found[1] == 2**20


def entropy_of_singles(n, r):
    """The weight of a cluster of n rows that r - 1 other partitions take apart."""
    return math.exp(-(r - 1) * math.log2(n) / (0.4 * r))


@pytest.mark.parametrize("size", [1.0, 1.5, 2.0, 3e-9, 7e11])
def test_given_weights_become_whole_numbers_of_a_power_of_two(size):
    given = np.array([1.0, 0.7, 2.0**-19, 0.0, 0.3]) * size
    found, unit = weights.in_units(given)
    assert math.frexp(unit)[0] == 0.5
    assert 2**20 <= found.max() < 2**21
    assert found.dtype == "int64"
    assert found[3] == 1
    np.testing.assert_allclose((found * unit)[given > 0], given[given > 0], rtol=0, atol=unit / 2)


def test_weights_may_differ_by_a_factor_of_a_million():
    np.testing.assert_array_equal(weights.in_units(np.array([2.0**20, 1.0]))[0], [2**20, 1])
    with pytest.raises(ValueError, match=r"^`cluster_weight` must not differ by .* 2\*\*20, but for 0, got 0\.999 and"):
        weights.in_units(np.array([2.0**20, 0.999]))
