"""k-means over few labels in one call of a kernel against the same k-means step by step, to the last bit."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gpuensemble._kernels.cpu.kmeans import small
from gpuensemble._kmeans.labels.costs import KCCCosts
from gpuensemble._kmeans.labels.lloyd import Given, Problem, labels_of, lloyd
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables.blocks import whole
from support import membership, random_codes


def stepwise(m, utility, start, k, max_iter):
    """Labels and progress of `lloyd`."""
    table = whole(m)
    costs = KCCCosts.of(utility, False, table, Weighting(np.ones(len(m.widths)), None, "float64"))
    problem = Problem.of(table, costs, k)
    run = lloyd(problem, Given(start), max_iter)
    return *table.columns(labels_of, (costs, run.labelling), ("int32",)), run


def noisy(rng, n, k, r, holes):
    """r noisy copies of a partition, some labels of which are missing, and the partition, more noisy."""
    truth = rng.integers(0, k, n)
    codes = np.stack([np.where(rng.random(n) < 0.4, rng.integers(0, k, n), truth) for _ in range(r)], axis=1)
    if holes:
        codes[rng.random(codes.shape) < 0.3] = -1
        codes[np.arange(n), rng.integers(0, r, n)] = 0
    return codes, np.where(rng.random(n) < 0.7, rng.integers(0, k, n), truth).astype("int32")


@pytest.mark.parametrize("k", [2, 5, 17, 60])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("utility", ["category", "cosine"])
@pytest.mark.parametrize("max_iter", [1, 3, 300])
def test_a_run_is_lloyds(utility, holes, k, max_iter):
    rng, n_ended = np.random.default_rng(k), 0
    for _ in range(5):
        codes, start = noisy(rng, 40 * k, k, 7, holes)
        m = membership(np, codes, [k] * 7)
        found = small.run(m, utility, start, k, max_iter)
        labels, run = stepwise(m, utility, start, k, max_iter)
        if found is not None:
            assert_array_equal(found[0], labels)
            assert found[1] == run.objective
            n_ended += 1
    assert n_ended


def test_a_cluster_that_empties_is_left_to_lloyd():
    m = membership(np, np.repeat([[0, 0], [1, 1]], 4, axis=0), [2, 2])
    assert small.run(m, "category", np.array([0, 0, 0, 0, 1, 1, 1, 2]), 3, 300) is None


@pytest.mark.parametrize("holes", [0.0, 0.4])
@pytest.mark.parametrize("width", [3, 300])  # codes of one byte, and of two
def test_differing_labels_are_the_category_distance(holes, width):
    widths = [width, 4, 5]
    codes = random_codes(np.random.default_rng(0), 50, np.array(widths), holes)
    m = membership(np, codes, widths)
    chosen, seen = codes[[7, 3]], codes >= 0
    expected = ((codes != chosen[:, None]) * seen * np.where(chosen[:, None] >= 0, 2, 1)).sum(2)
    found, sums = small.differing(m, small.by_partition(m), m.codes[[7, 3]], None)
    assert_array_equal(found, expected)
    assert_array_equal(sums, expected.sum(1))
    nearest = np.full(50, 2, "int32")
    found, sums = small.differing(m, small.by_partition(m), m.codes[[7, 3]], nearest)
    assert_array_equal(found, np.minimum(expected, 2))
    assert_array_equal(sums, found.sum(1))
