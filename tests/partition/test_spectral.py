"""Spectral clustering of a dense affinity."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from gpuensemble._array.devices import namespace, to_host
from gpuensemble._linear import eigen
from gpuensemble._partition.affinity import labels
from support import check, membership


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
    values, found = eigen.leading(xp.asarray(matrix.copy()), k)
    check(values, np.linalg.eigvalsh(matrix)[::-1][:k], xp)
    assert found.dtype == dtype
    check(matrix @ to_host(found), to_host(found * values), np)


def cut(xp, affinity, group=None):
    """Spectral labels into three clusters, of samples whose rows are all distinct unless `group` says otherwise."""
    group = np.arange(len(affinity)) if group is None else group
    merged = membership(xp, group[:, None], [len(group)]).merge()
    return labels(xp.asarray(affinity.copy()), "spectral", 3, merged, np.random.default_rng(0))


def test_equal_rows_share_a_label_whatever_their_affinities(xp):
    truth, affinity = blocks()
    group = np.arange(len(truth))
    twin = int(np.flatnonzero(truth != truth[0])[0])
    group[twin] = group[0]
    found = to_host(cut(xp, affinity, group))
    assert found[twin] == found[0]
    others = np.arange(len(truth)) != twin
    assert adjusted_rand_score(truth[others], found[others]) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_are_found_in_every_library(xp, dtype):
    truth, affinity = blocks()
    found = cut(xp, affinity.astype(dtype))
    assert namespace(found) is xp
    assert found.dtype == "int32"
    assert adjusted_rand_score(truth, to_host(found)) == 1
    np.testing.assert_array_equal(to_host(found), cut(np, affinity.astype(dtype)))


def test_a_sample_without_affinity_does_not_spoil_the_others(xp):
    truth, affinity = blocks()
    affinity[5] = affinity[:, 5] = 0
    found = to_host(cut(xp, affinity))
    others = np.arange(len(truth)) != 5
    assert adjusted_rand_score(truth[others], found[others]) == 1
