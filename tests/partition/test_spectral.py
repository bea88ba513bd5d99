"""Spectral clustering of a dense affinity."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from gpuensemble._array.devices import namespace, to_host
from gpuensemble._partition import spectral
from support import check


def blocks(sizes=(7, 12, 20), noise=0.1, seed=0):
    """A partition, and an affinity that is large within its clusters."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)[rng.permutation(sum(sizes))]
    affinity = (truth[:, None] == truth) + noise * rng.random((len(truth), len(truth)))
    return truth, affinity + affinity.T


@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_leading_eigenvectors_are_those_of_the_whole_decomposition(xp, k, dtype):
    matrix = np.random.default_rng(0).standard_normal((40, 40))
    matrix = (matrix + matrix.T).astype(dtype)
    values, found = spectral.leading(xp.asarray(matrix.copy()), k)
    check(values, np.linalg.eigvalsh(matrix)[::-1][:k], xp)
    assert found.dtype == dtype
    check(matrix @ to_host(found), to_host(found * values), np)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_are_found_in_every_library(xp, dtype):
    truth, affinity = blocks()
    found = spectral.affinity_labels(xp.asarray(affinity.astype(dtype)), 3, np.random.default_rng(0))
    assert namespace(found) is xp
    assert found.dtype == "int32"
    assert adjusted_rand_score(truth, to_host(found)) == 1
    again = spectral.affinity_labels(affinity.astype(dtype), 3, np.random.default_rng(0))
    np.testing.assert_array_equal(to_host(found), again)


def test_a_sample_without_affinity_does_not_spoil_the_others(xp):
    truth, affinity = blocks()
    affinity[5] = affinity[:, 5] = 0
    found = to_host(spectral.affinity_labels(xp.asarray(affinity), 3, np.random.default_rng(0)))
    others = np.arange(len(truth)) != 5
    assert adjusted_rand_score(truth[others], found[others]) == 1
