"""The consensus tree against SciPy's average linkage, a greedy textbook version with holes, and a parser of Newick."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import cophenet, is_valid_linkage, linkage
from scipy.spatial.distance import squareform

import gpuensemble as ge
from gpuensemble._inspection import tree as module


def without_ties(n=60, r=400, seed=0, noise=0.5):
    """A table whose consensus values differ enough for one tree only."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, r)) < noise, rng.integers(0, 6, (n, r)), np.arange(n)[:, None] % 4)


def with_holes(n=24, r=200, share=0.4):
    labels = without_ties(n, r)
    labels[np.random.default_rng(1).random(labels.shape) < share] = -1
    return labels


def dense_counts(labels, leaf):
    """Agreements, and chances to agree, of all pairs between two leaves."""
    agree = sum((column[:, None] == column) & (column[:, None] >= 0) for column in labels.T)
    seen = sum((column[:, None] >= 0) & (column >= 0) for column in labels.T)
    member = np.eye(leaf.max() + 1)[leaf]
    return member.T @ agree @ member, member.T @ seen @ member


def greedy(agree, seen):
    """Merge the most alike two groups again and again; return the heights and the groups of each level."""
    groups = [[i] for i in range(len(agree))]
    heights, levels = [], [[list(group) for group in groups]]
    while len(groups) > 1:
        shares = {
            (i, j): agree[np.ix_(groups[i], groups[j])].sum() / max(seen[np.ix_(groups[i], groups[j])].sum(), 1)
            for i, j in itertools.combinations(range(len(groups)), 2)
        }
        i, j = max(shares, key=shares.get)
        heights.append(1 - shares[i, j])
        groups[i] += groups.pop(j)
        levels.append([list(group) for group in groups])
    return np.array(heights), levels


def test_leaves_of_distinct_rows_give_the_tree_of_all_samples():
    labels = np.repeat(without_ties(r=2000), 3, axis=0)[np.random.default_rng(1).permutation(180)]
    found = ge.consensus_tree(labels, device="cpu")
    expected = linkage(squareform(1 - ge.coassociation(labels, device="cpu"), checks=False), "average")
    assert len(found.names) == 60
    assert is_valid_linkage(found.linkage)
    np.testing.assert_allclose(found.linkage[:, 2], expected[-59:, 2], rtol=0, atol=1e-12)
    between = squareform(cophenet(found.linkage))[np.ix_(found.leaf, found.leaf)]
    np.testing.assert_allclose(between, squareform(cophenet(expected)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("labels", [without_ties(24), with_holes()], ids=["complete", "holes"])
def test_the_tree_is_the_greedy_one(labels):
    leaf = np.arange(24) % 9
    found = ge.consensus_tree(labels, leaf, device="cpu")
    heights, levels = greedy(*dense_counts(labels, leaf))
    np.testing.assert_allclose(found.linkage[:, 2], heights, rtol=0, atol=1e-12)
    for k in range(1, 10):
        expected = np.empty(9, "int64")
        for number, group in enumerate(levels[9 - k]):
            expected[group] = number
        assert ge.metrics.ari(found.cut(k), expected[leaf]) == 1
        assert len(set(found.cut(k).tolist())) == k


def test_groups_that_were_never_seen_together_are_linked_last():
    labels = np.array([[0, -1], [0, -1], [1, -1], [-1, 0], [-1, 0]])
    found = ge.consensus_tree(labels, device="cpu")
    assert found.linkage[:, 2].tolist() == [1, 1]
    assert found.cut(3).tolist() == [0, 0, 1, 2, 2]


def test_clusters_are_nested():
    found = ge.consensus_tree(with_holes(), device="cpu")
    cuts = [found.cut(k) for k in range(1, len(found.names) + 1)]
    for few, many in itertools.pairwise(cuts):
        assert len(set(zip(few.tolist(), many.tolist(), strict=True))) == many.max() + 1


def test_many_distinct_rows_have_leaves_of_clusters(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 50)
    monkeypatch.setattr(module, "SOME_LEAVES", 12)
    labels = without_ties(noise=0.3)  # with more of it clusters of five rows mix the four parts now and then
    found = ge.consensus_tree(labels, random_state=0, device="cpu")
    assert len(found.names) == 12
    assert ge.metrics.ari(found.cut(4), np.arange(60) % 4) > 0.9
    again = ge.consensus_tree(labels, 12, random_state=0, device="cpu")
    np.testing.assert_array_equal(found.linkage, again.linkage)


def test_every_library_gives_the_same(xp):
    labels = with_holes()
    found, expected = ge.consensus_tree(xp.asarray(labels)), ge.consensus_tree(labels, device="cpu")
    np.testing.assert_array_equal(found.linkage, expected.linkage)
    np.testing.assert_array_equal(found.leaf, expected.leaf)


def test_one_leaf_is_a_tree():
    found = ge.consensus_tree([[0], [0]], device="cpu")
    assert found.linkage.shape == (0, 4)
    assert found.cut(1).tolist() == [0, 0]
    assert found.newick() == "0;"
    assert found.newick(samples=True) == "(0:0,1:0);"


def tips(text):
    """The depth below the root of every tip of a tree in the Newick format, by its name."""
    found, above, last = {}, [], None
    lengths = {}
    tokens = re.findall(r"'(?:[^']|'')*'|[(),;]|:[^(),;]+|[^'(),;:]+", text)
    node = 0
    parent = {}
    for token in tokens:
        if token == "(":
            node += 1
            parent[node] = above[-1] if above else None
            above.append(node)
        elif token == ")":
            last = above.pop()
        elif token.startswith(":"):
            lengths[last] = float(token[1:])
        elif token not in ",;":
            node += 1
            parent[node] = above[-1] if above else None
            last = node
            found[token.strip("'").replace("''", "'")] = node

    def depth(of):
        return 0 if of is None else lengths.get(of, 0) + depth(parent[of])

    return {name: depth(of) for name, of in found.items()}


def test_newick_has_every_name_at_the_height_of_the_root():
    names = ["a b", "it's", "x(y)", "p,q", "", "plain", "ü", "1:2", "<b>", "semi;"]
    labels = pd.DataFrame(without_ties(10), index=names)
    found = ge.consensus_tree(labels, device="cpu")
    height = found.linkage[-1, 2]
    for samples in (False, True):
        depths = tips(found.newick(samples=samples))
        assert sorted(depths) == sorted(names)
        assert all(depth == pytest.approx(height, abs=1e-4) for depth in depths.values())


def test_samples_hang_on_their_leaf():
    labels = pd.DataFrame([[0, 0], [1, 1], [0, 0]], index=["x", "y", "z"])
    tree = ge.consensus_tree(labels, device="cpu")
    assert tree.newick(samples=True) == "((x:0,z:0):1,y:1);"
    assert ge.consensus_tree(labels, ["u", "v", "u"], device="cpu").newick() == "(u:1,v:1);"


@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        (0, r"^`leaves` must be between 1 and n_samples=24, got 0\.$"),
        (25, r"^`leaves` must be between 1 and n_samples=24, got 25\.$"),
        ([0, 1], r"^`leaves` must have n_samples=24 entries, got 2\.$"),
    ],
)
def test_bad_leaves_are_named(leaves, message):
    with pytest.raises(ValueError, match=message):
        ge.consensus_tree(with_holes(), leaves, device="cpu")


def test_no_more_clusters_than_leaves():
    with pytest.raises(ValueError, match=r"^`n_clusters` must be between 1 and leaves=3, got 4\.$"):
        ge.consensus_tree(with_holes(), np.arange(24) % 3, device="cpu").cut(4)
