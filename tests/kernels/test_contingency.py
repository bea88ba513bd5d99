"""What comes of contingency tables on the CPU, of many clusters and with threads: entropies and Jaccard indices."""

import numpy as np
import pytest
from scipy.stats import entropy

from gpuensemble._array import threads
from gpuensemble._kernels.cpu import contingency
from support import membership, onehot, random_codes

WIDTHS = np.array([300, 1, 40, 250])


@pytest.fixture(params=[1, 2])
def tables(request, monkeypatch):
    """Counts up to beyond those that are looked up, with a partition that saw nothing of some clusters."""
    monkeypatch.setattr(threads, "count", lambda: request.param)
    rng = np.random.default_rng(0)
    counts = np.where(rng.random((591, 591)) < 0.3, rng.integers(1, 3 * contingency.LOOKED_UP, (591, 591)), 0)
    counts[:300, 7:20] = 0
    return counts + counts.T


def test_entropies_are_those_of_scipy(tables):
    parts = np.split(tables, np.cumsum(WIDTHS)[:-1])
    seen = [part[:, part.any(0)] for part in parts]
    expected = np.zeros(591)
    for part, counts in zip(parts, seen, strict=True):
        expected[part.any(0)] += entropy(counts, base=2)
    np.testing.assert_allclose(contingency.entropies(tables, WIDTHS), expected, rtol=1e-12)
    some = contingency.entropies(tables[:, 100:500], WIDTHS)
    np.testing.assert_array_equal(some, contingency.entropies(tables, WIDTHS)[100:500])


def test_jaccard_indices_count_what_both_partitions_saw(tables):
    weight = np.linspace(0.5, 2, 591)
    starts = np.cumsum(WIDTHS) - WIDTHS
    seen = np.add.reduceat(tables, starts, axis=0).repeat(WIDTHS, axis=0)
    union = seen + seen.T - tables
    expected = np.divide(tables, union, out=np.zeros((591, 591)), where=tables > 0) * np.outer(weight, weight)
    np.fill_diagonal(expected, 0)
    found = contingency.jaccard(tables, WIDTHS, 0, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_rows_are_counted_in_parts(n_threads, monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: n_threads)
    monkeypatch.setattr(contingency, "ROWS", 30)
    monkeypatch.setattr(contingency, "INLINE", 20)
    codes, widths = random_codes(np.random.default_rng(0), 100, [3, 9, 300, 5], 0.2), np.array([3, 9, 300, 5])
    weight = np.random.default_rng(1).integers(0, 4, 100)
    H = onehot(codes, widths)
    m = membership(np, codes, widths)
    np.testing.assert_array_equal(contingency.contingency(m, weight), (H * weight[:, None]).T @ H)
    np.testing.assert_array_equal(contingency.contingency(m, None), H.T @ H)
