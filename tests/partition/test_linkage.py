"""Trees over samples: exactly as many clusters as asked for, SciPy's where nothing ties, equal rows together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score

import gpuensemble as ge
from gpuensemble._partition.linkage import LINKAGES, cut, tree


@pytest.mark.parametrize("method", LINKAGES)
@pytest.mark.parametrize("k", [1, 2, 7, 39, 40])
def test_without_ties_the_clusters_are_scipys(method, k):
    distance = np.random.default_rng(k).random((40, 40))
    distance = (distance + distance.T) / 2
    np.fill_diagonal(distance, 0)
    found = cut(tree(1 - distance, np.ones(40), method), k)
    expected = cut_tree(linkage(squareform(distance), method), k)[:, 0]  # old `fcluster` gives fewer
    assert adjusted_rand_score(expected, found) == 1
    assert found[0] == 0  # numbered by first occurrence


@pytest.mark.parametrize("method", [*LINKAGES, "spectral"])
@given(seed=st.integers(0, 2**32 - 1))
def test_there_are_as_many_clusters_as_asked_for_and_equal_rows_share_one(method, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, (rng.integers(2, 12), rng.integers(1, 4)))
    labels[:, 1:][rng.random((len(labels), labels.shape[1] - 1)) < 0.3] = -1
    labels = labels[:, (labels >= 0).any(0)]
    _, group = np.unique(labels, axis=0, return_inverse=True)
    k = int(rng.integers(1, group.max() + 2))
    found = ge.EAC(k, linkage=method, random_state=0, device="cpu").fit_predict(labels)
    assert set(found.tolist()) == set(range(k))
    assert all(len(set(found[group.ravel() == g].tolist())) == 1 for g in range(group.max() + 1))


def test_ties_are_broken_by_the_order_of_merging():
    assert ge.EAC(2, device="cpu").fit_predict([[0, 0], [1, 1], [2, 2]]).tolist() == [0, 0, 1]


@pytest.mark.parametrize("estimator", [ge.EAC(3), ge.RSEC(3, random_state=0), ge.LTA(3, random_state=0)], ids=str)
def test_more_clusters_than_distinct_rows_warn(estimator):
    labels = [[0, 0]] * 4 + [[1, 1]] * 5
    with pytest.warns(UserWarning, match=r"^`n_clusters` = 3 is more than there are distinct rows: 2 clusters\.$"):
        found = estimator.set_params(device="cpu").fit_predict(labels)
    assert found.tolist() == [0] * 4 + [1] * 5
