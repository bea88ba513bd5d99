"""Trees over samples: exactly as many clusters as asked for, SciPy's where nothing ties, equal rows together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score

import gpuensemble as ge
from gpuensemble._kernels.cpu.graphs import linkage as average
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


def chained(similarity, sizes):
    """Merges by chains of nearest neighbours, with the ties of the kernel; places that are left are in one list."""
    s, sizes, left, chain, pairs = similarity.copy(), sizes.astype(float), list(range(len(sizes))), [], []
    while len(left) > 1:
        chain = chain or [left[0]]
        while True:
            a, last = chain[-1], chain[-2] if len(chain) > 1 else None
            best = max((c for c in left if c != a), key=lambda c: (s[a, c], c == last, -c))
            if best == last:
                break
            chain.append(best)
        del chain[-2:]
        pairs.append((a, best))
        together = sizes[a] + sizes[best]
        s[best] = s[:, best] = sizes[a] / together * s[a] + sizes[best] / together * s[best]
        sizes[best] = together
        left.remove(a)
    return pairs


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 8, 9, 31, 60])
@pytest.mark.parametrize("ties", [False, True])
def test_chains_find_the_merges_in_their_order(n, ties):
    rng = np.random.default_rng(n)
    similarity = rng.integers(0, 4, (n, n)) * 1.0 if ties else rng.random((n, n))
    similarity, sizes = similarity + similarity.T, 2 ** rng.integers(0, 2 if ties else 4, n)
    found, _ = average.of_matrix(similarity.copy(), sizes)
    assert [tuple(pair) for pair in found.tolist()] == chained(similarity, sizes)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (0, 8), (3, 5), (8, 8)])
def test_a_matrix_that_is_not_finite_is_refused(value, place):
    """Chains through NaN go round and round."""
    alike = np.ones((9, 9))
    alike[place] = value
    with pytest.raises(ValueError, match=r"^`similarity` must be finite, got NaN or infinity[.]$"):
        average.of_matrix(alike, np.ones(9, np.int64))


@pytest.mark.parametrize("copies", [False, True])
def test_three_rows_that_are_equally_alike_are_linked(copies):
    """Weights whose products rounding makes unequal: each row is the nearest of another one, round and round."""
    labels, often = np.array([[2, 0, 2], [2, 1, 2], [2, 2, 2]]), [19, 26, 23]
    weight = {"sample_weight": None if copies else often}
    estimator = ge.EAC(2, partition_weight=[0.3, 1.0, 0.6], device="cpu")
    found = estimator.fit(labels.repeat(often, axis=0) if copies else labels, **weight).labels_
    assert set(found.tolist()) == {0, 1}


def test_links_of_counts_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    for _ in range(100):
        n_groups, n_columns = int(rng.integers(2, 40)), int(rng.integers(2, 9))
        counts, sizes = rng.integers(1, 1000, (n_columns, n_groups)), rng.integers(1, 999, n_groups)  # nothing ties
        weights = rng.random(n_columns)
        alike = (counts * weights[:, None]).T @ counts / np.multiply.outer(sizes, sizes)
        _, expected = average.of_matrix(alike.copy(), sizes)
        _, heights = average.of_counts(counts.copy(), weights, sizes)
        np.testing.assert_allclose(np.sort(heights), np.sort(expected))


def test_links_of_counts_that_tie_take_each_group_once():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n, r = int(rng.integers(3, 20)), int(rng.integers(1, 6))
        rows = np.unique(rng.integers(0, 3, (n, r)), axis=0)
        often, weights = rng.integers(1, 100, len(rows)), rng.integers(1, 14, r) / 10
        counts = np.concatenate([(rows[:, i] == c)[None] * often for i in range(r) for c in range(3)])
        pairs, heights = average.of_counts(counts, weights.repeat(3), often)
        assert len(np.unique(pairs[:, 0])) == len(rows) - 1
        assert (heights >= 0).all()
        assert (heights <= weights.sum() + 1e-9).all()


def test_a_matrix_that_rounding_made_lopsided_is_linked():
    alike = np.full((3, 3), 0.5)
    alike[0, 1], alike[1, 2], alike[2, 0] = 0.5 + 2**-50, 0.5 + 2**-50, 0.5 + 2**-50  # each prefers the next one
    alike[1, 0] = alike[2, 1] = alike[0, 2] = 0.5
    _, heights = average.of_matrix(alike.copy(), np.ones(3, np.int64))
    assert heights.tolist() == [0.5 + 2**-50, 0.5 + 2**-51]
