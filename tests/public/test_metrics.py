"""The scores against scikit-learn and brute force, on every array library."""

import doctest
import importlib
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    homogeneity_completeness_v_measure,
    mutual_info_score,
    normalized_mutual_info_score,
)
from sklearn.metrics.cluster import contingency_matrix, pair_confusion_matrix

from gpuensemble import metrics
from gpuensemble._array import devices
from gpuensemble._kernels.cpu.contingency import expected_information
from gpuensemble.metrics import contingency, matching
from support import check

on_every_library = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
MODULES = ("contingency", "elements", "ensembles", "information", "matching", "pairs")
SYMMETRIC = (metrics.accuracy, metrics.nmi, metrics.ari, metrics.ami, metrics.element_centric)
SIMILARITIES = (*SYMMETRIC, metrics.purity, metrics.pair_scores, metrics.v_measure)
SCORES = (*SIMILARITIES, metrics.vi)
CLOSE = {"rel": 0, "abs": 1e-12}


@st.composite
def partitions(draw, max_n=60, max_clusters=6):
    """Two label vectors, between independent and equal; labels have gaps."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k_y, k_z = draw(st.integers(1, max_n)), draw(st.integers(1, max_clusters)), draw(st.integers(1, max_clusters))
    y = rng.integers(0, k_y, n)
    z = np.where(rng.random(n) < draw(st.sampled_from([0, 0.5, 0.9, 1])), y, rng.integers(0, k_z, n))
    return 3 * y + 1, 2 * z


def brute_accuracy(y, z):
    """The best of all one-to-one maps from the smaller set of clusters into the larger."""
    table = contingency_matrix(y, z)
    table = table if table.shape[0] <= table.shape[1] else table.T
    maps = itertools.permutations(range(table.shape[1]), table.shape[0])
    return max(table[range(len(table)), columns].sum() for columns in maps) / len(y)


def sklearn_pair_scores(y, z):
    (_, only_z), (only_y, both) = pair_confusion_matrix(y, z).tolist()
    precision = both / (both + only_z) if both + only_z else 1
    recall = both / (both + only_y) if both + only_y else 1
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0


def sample_vi(y, z):
    """log(1 / (the share of its class that is in its cluster, times that of its cluster in its class)), by counting."""
    same_y, same_z = y[:, None] == y, z[:, None] == z
    both = (same_y & same_z).sum(1)
    return np.log(same_y.sum(1) / both) + np.log(same_z.sum(1) / both)


def dense_vi(y, z):
    """H(y) + H(z) - 2 I(y, z), by scikit-learn."""
    return mutual_info_score(y, y) + mutual_info_score(z, z) - 2 * mutual_info_score(y, z)


def pagerank_similarity(y, z, alpha=0.9):
    """As Gates et al. define it: 1 - |p - q| / (2 alpha), where p and q are a sample's PageRanks on the two graphs."""
    p, q = (personalised_pagerank(labels, alpha) for labels in (y, z))
    return 1 - np.abs(p - q).sum(1) / (2 * alpha)


def personalised_pagerank(labels, alpha):
    """Of all samples, by solving p = alpha p W + (1 - alpha) v; W walks from sample to cluster to sample."""
    belongs = (labels[:, None] == np.unique(labels)).astype(float)
    walk = (belongs / belongs.sum(1, keepdims=True)) @ (belongs / belongs.sum(0)).T
    return (1 - alpha) * np.linalg.inv(np.eye(len(labels)) - alpha * walk)


@given(pair=partitions())
@on_every_library
def test_scores_are_those_of_scikit_learn_and_brute_force(xp, pair):
    y, z = map(xp.asarray, pair)
    assert metrics.accuracy(y, z) == pytest.approx(brute_accuracy(*pair), **CLOSE)
    assert metrics.nmi(y, z) == pytest.approx(normalized_mutual_info_score(*pair, average_method="geometric"), **CLOSE)
    assert metrics.ari(y, z) == pytest.approx(adjusted_rand_score(*pair), **CLOSE)
    assert metrics.purity(y, z) == pytest.approx(contingency_matrix(*pair).max(0).sum() / len(pair[0]), **CLOSE)
    assert metrics.pair_scores(y, z) == pytest.approx(sklearn_pair_scores(*pair), **CLOSE)
    assert metrics.ami(y, z) == pytest.approx(adjusted_mutual_info_score(*pair), rel=0, abs=1e-10)
    assert metrics.v_measure(y, z) == pytest.approx(homogeneity_completeness_v_measure(*pair), **CLOSE)
    assert metrics.vi(y, z) == pytest.approx(dense_vi(*pair), **CLOSE)
    assert metrics.element_centric(y, z) == pytest.approx(pagerank_similarity(*pair).mean(), **CLOSE)


@given(pair=partitions())
@on_every_library
def test_what_each_sample_adds_is_in_the_callers_library(xp, pair):
    y, z = map(xp.asarray, pair)
    check(metrics.element_centric(y, z, per_sample=True), pagerank_similarity(*pair), xp)
    check(metrics.vi(y, z, per_sample=True), sample_vi(*pair), xp)


@given(pair=partitions())
@on_every_library
def test_every_library_gives_the_same_python_floats(xp, pair):
    for score in SCORES:
        value = score(*map(xp.asarray, pair))
        assert value == score(*pair)
        assert all(type(part) is float for part in (value if isinstance(value, tuple) else (value,)))


@given(pair=partitions(), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_samples_and_the_names_of_clusters_do_not_matter(pair, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(pair[0]))
    names = rng.permutation(100)
    renamed = [names[labels[order]] for labels in pair]
    for score in SCORES:
        assert score(*renamed) == pytest.approx(score(*pair), **CLOSE)


@given(pair=partitions())
def test_swapping_the_partitions(pair):
    y, z = pair
    for score in (*SYMMETRIC, metrics.vi):
        assert score(z, y) == pytest.approx(score(y, z), **CLOSE)
    precision, recall, f1 = metrics.pair_scores(y, z)
    assert metrics.pair_scores(z, y) == (recall, precision, f1)
    homogeneity, completeness, v = metrics.v_measure(y, z)
    assert metrics.v_measure(z, y) == pytest.approx((completeness, homogeneity, v), **CLOSE)


@given(pair=partitions())
def test_scores_stay_in_their_range(pair):
    for score in (metrics.accuracy, metrics.nmi, metrics.purity, metrics.element_centric):
        assert 0 <= score(*pair) <= 1
    assert -0.5 <= metrics.ari(*pair) <= 1
    assert metrics.ami(*pair) <= 1
    assert 0 <= metrics.vi(*pair) <= math.log(len(pair[0])) + 1e-12
    assert all(0 <= part <= 1 for part in (*metrics.pair_scores(*pair), *metrics.v_measure(*pair)))
    assert metrics.accuracy(*pair) <= metrics.purity(*pair)


@given(pair=partitions())
def test_equal_partitions_score_exactly_one(pair):
    y, _ = pair
    for score in SIMILARITIES:
        assert np.all(np.array(score(y, 100 - y)) == 1)
    assert metrics.vi(y, 100 - y) == 0


@given(pairs=st.tuples(partitions(max_n=20), st.integers(0, 2**32 - 1)))
def test_the_variation_of_information_is_a_distance(pairs):
    (x, y), seed = pairs
    z = np.random.default_rng(seed).integers(0, 4, len(x))
    assert metrics.vi(x, z) <= metrics.vi(x, y) + metrics.vi(y, z) + 1e-12


def exact_expectation(sizes_y, sizes_z):
    """The mean mutual information by its definition, probabilities in fractions."""
    n, terms = sum(sizes_y), []
    for (a, often_a), (b, often_b) in itertools.product(Counter(sizes_y).items(), Counter(sizes_z).items()):
        for x in range(max(1, a + b - n), min(a, b) + 1):
            chance = Fraction(math.comb(b, x) * math.comb(n - b, a - x), math.comb(n, a))
            terms.append(often_a * often_b * float(chance * x / n) * math.log(n * x / (a * b)))
    return math.fsum(terms)


@pytest.mark.parametrize(
    "sizes",
    [
        ([1], [1]),
        ([2, 1], [1, 2]),
        ([30, 30, 3], [1, 40, 22]),
        ([200, 100], [299, 1]),
        ([99_990, 7, 3], [5, 4, 99_991]),
    ],
)
def test_the_expected_information_is_exact(sizes):
    found = expected_information(*map(np.array, sizes), sum(sizes[0]))
    assert found == pytest.approx(exact_expectation(*sizes), rel=1e-13, abs=1e-15)


def test_the_expected_information_keeps_its_digits_for_a_billion_samples():
    n = 10**9
    sizes_y, sizes_z = np.array([n // 2, n // 4, n // 4]), np.array([n // 5, 4 * n // 5])
    # A quadratic of the logarithm gives (rows - 1) (columns - 1) / 2 (n - 1); what is left out is of the order n**-2.
    assert expected_information(sizes_y, sizes_z, n) == pytest.approx(1 / (n - 1), rel=1e-7)


@given(pair=partitions())
def test_splitting_clusters_never_lowers_purity(pair):
    y, z = pair
    finer = 2 * z + np.arange(len(z)) % 2
    assert metrics.purity(y, finer) >= metrics.purity(y, z)


ONE, EACH = [0] * 5, [0, 1, 2, 3, 4]
SAME = (*[1] * 6, (1, 1, 1), (1, 1, 1), 0)
UNEVEN = -0.6 * math.log(0.6) - 0.4 * math.log(0.4)
DEGENERATE = {
    "one sample": ([3], ["a"], SAME),
    "one cluster in both": (ONE, ["a"] * 5, SAME),
    "single samples in both": (EACH, list("edcba"), SAME),
    "one cluster against classes": (
        *([0, 0, 0, 1, 1], ONE),
        (0.6, 0, 0, 0, 0.52, 0.6, (0.4, 1, 4 / 7), (0, 1, 0), UNEVEN),
    ),
    "clusters against one class": (
        *(ONE, [0, 0, 0, 1, 1]),
        (0.6, 0, 0, 0, 0.52, 1, (1, 0.4, 4 / 7), (1, 0, 0), UNEVEN),
    ),
    "single samples against one class": (ONE, EACH, (0.2, 0, 0, 0, 0.2, 1, (1, 0, 0), (1, 0, 0), math.log(5))),
    "one cluster against single samples": (EACH, ONE, (0.2, 0, 0, 0, 0.2, 0.2, (0, 1, 0), (0, 1, 0), math.log(5))),
    "no pair in common": (
        *([0, 0, 1, 1], [0, 1, 0, 1]),
        (0.5, 0, -0.5, -0.5, 0.5, 0.5, (0, 0, 0), (0, 0, 0), 2 * math.log(2)),
    ),
}


@pytest.mark.parametrize(("y", "z", "expected"), DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_partitions(y, z, expected):
    assert [score(y, z) for score in SCORES] == [pytest.approx(value) for value in expected]
    if len(y) > 1:
        nmi = normalized_mutual_info_score(list(map(str, y)), list(map(str, z)), average_method="geometric")
        assert metrics.nmi(y, z) == nmi
        assert metrics.ami(y, z) == pytest.approx(adjusted_mutual_info_score(list(map(str, y)), list(map(str, z))))


KINDS = {
    "a list": lambda y: y.tolist(),
    "a tuple": lambda y: tuple(y.tolist()),
    "strings": lambda y: [f"cluster {label}" for label in y],
    "an array of strings": lambda y: y.astype(str),
    "tuples": lambda y: [(label, "x") for label in y.tolist()],
    "whole floats": lambda y: y.astype(float),
    "small integers": lambda y: y.astype("uint8"),
    "huge integers": lambda y: [2**80 + label for label in y.tolist()],
    "a Series": lambda y: pd.Series(y, index=[f"s{i}" for i in range(len(y))][::-1]),
    "nullable integers": lambda y: pd.Series(y, dtype="Int64"),
    "categories": lambda y: pd.Series(y.astype(str), dtype="category"),
    "a masked array": lambda y: np.ma.array(y, mask=False),
    "not contiguous": lambda y: np.stack([y, y], axis=1)[:, 0],
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_labels_of_any_kind(kind):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 4, 50), rng.integers(0, 3, 50)
    for score in SCORES:
        assert score(kind(y), z) == pytest.approx(score(y, z), **CLOSE)
        assert score(y, kind(z)) == pytest.approx(score(y, z), **CLOSE)


def test_classes_of_the_host_meet_clusters_on_the_device(xp, monkeypatch):
    y, z = np.array(["a", "b", "b", "c", "c"]), np.array([0, 0, 1, 2, 2])
    expected = [(score(y, z), score(z, y)) for score in SCORES]
    z, targets = xp.asarray(z), set()
    monkeypatch.setattr(contingency, "to_device", lambda *args: targets.add(args[1]) or devices.to_device(*args))
    assert [(score(y, z), score(z, y)) for score in SCORES] == expected
    assert targets == {devices.device_of(z)}


@pytest.mark.parametrize("cells", [contingency.DENSE_CELLS, 0])
def test_only_the_table_leaves_the_device(xp, monkeypatch, cells):
    moved, to_device = [], devices.to_device

    def recorded(array, device):
        moved.append(array.size)
        return to_device(array, device)

    rng = np.random.default_rng(0)
    y, z = xp.asarray(rng.integers(0, 5, 3000)), xp.asarray(rng.integers(0, 4, 3000))
    monkeypatch.setattr(contingency, "DENSE_CELLS", cells)
    monkeypatch.setattr(devices, "to_device", recorded)
    for score in SCORES:
        score(y, z)
    assert max(moved) == 20


@given(pair=partitions())
@on_every_library
def test_a_sparse_table_gives_the_same_scores(xp, pair):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contingency, "DENSE_CELLS", 0)
        patch.delattr(contingency, "Membership")
        patch.delattr(matching, "linear_sum_assignment")
        sparse = [score(*map(xp.asarray, pair)) for score in SCORES]
    assert sparse == [score(*pair) for score in SCORES]


def test_ten_thousand_clusters_in_both():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10_000, 100_000)
    z = np.where(rng.random(len(y)) < 0.7, y, rng.integers(0, 10_000, len(y)))
    assert len(np.unique(y)) * len(np.unique(z)) > contingency.DENSE_CELLS
    assert metrics.ari(y, z) == pytest.approx(adjusted_rand_score(y, z), **CLOSE)
    assert metrics.nmi(y, z) == pytest.approx(normalized_mutual_info_score(y, z, average_method="geometric"), **CLOSE)
    expected = exact_expectation(np.bincount(y).tolist(), np.bincount(z).tolist())
    assert expected_information(np.bincount(y), np.bincount(z), len(y)) == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(metrics.vi(y, z, per_sample=True).mean(), metrics.vi(y, z), rtol=1e-12)
    assert (y == z).mean() <= metrics.accuracy(y, z) <= metrics.purity(y, z) < 1


@pytest.mark.parametrize("shape", [(40, 70), (70, 40), (60, 60)])
def test_a_sparse_matching_is_as_good_as_the_dense_one(monkeypatch, shape):
    rng = np.random.default_rng(1)
    monkeypatch.setattr(contingency, "DENSE_CELLS", 0)
    for density in (0.02, 0.2, 1):
        dense = rng.integers(1, 50, shape) * (rng.random(shape) < density)
        partners = matching.partners(contingency.Table.of_dense(dense))
        rows = np.flatnonzero(partners >= 0)
        assert len(set(partners[rows])) == len(rows)
        assert dense[rows, partners[rows]].sum() == dense[linear_sum_assignment(dense, maximize=True)].sum()


def test_counts_are_exact_for_a_billion_samples(monkeypatch):
    dense = np.array([[499_999_999, 3, 0], [7, 300_000_001, 1], [0, 0, 199_999_989]])
    assert dense.sum() == 10**9
    monkeypatch.setattr(contingency, "table", lambda y, z: contingency.Table.of_dense(dense))
    both, in_y, in_z, pairs = (
        sum(math.comb(size, 2) for size in sizes.tolist())
        for sizes in (dense.ravel(), dense.sum(1), dense.sum(0), dense.sum(keepdims=True)[0])
    )
    expected = Fraction(in_y * in_z, pairs)
    assert metrics.ari(None, None) == float((both - expected) / (Fraction(in_y + in_z, 2) - expected))
    assert metrics.pair_scores(None, None) == (both / in_z, both / in_y, 2 * both / (in_y + in_z))
    assert metrics.accuracy(None, None) == metrics.purity(None, None) == 999_999_989 / 10**9
    assert metrics.ami(None, None) == pytest.approx(metrics.v_measure(None, None).v, abs=1e-8)


def test_nmi_keeps_its_digits_where_one_sample_of_a_billion_stands_alone(monkeypatch):
    n, alone = 10**9, 1e-9
    monkeypatch.setattr(contingency, "table", lambda y, z: contingency.Table.of_dense(np.array([[n - 2, 1], [1, 0]])))
    entropy = -(1 - alone) * math.log1p(-alone) - alone * math.log(alone)
    # The information, to first order: 1 / n**2 from each of the small cells, -1 / n**2 from the large one.
    assert metrics.nmi(None, None) == pytest.approx(alone**2 / entropy, rel=1e-6)


MISSING = r"`y` must not hold missing labels \(NaN, None or -1\), got one in row "
BAD = {
    "-1": ([0, 1, -1, 2], MISSING + r"2\."),
    "-1 in an array": (np.array([0, 1, 2, -1]), MISSING + r"3\."),
    "NaN": (np.array([np.nan, 0, 1, 2]), MISSING + r"0\."),
    "None": (["a", None, "b", "c"], MISSING + r"1\."),
    "NA in a named row": (pd.Series([1, None, 2, 3], list("abcd"), "Int64"), MISSING + r"'b'\."),
    "masked": (np.ma.array([1, 2, 3, 4], mask=[0, 0, 1, 0]), MISSING + r"2\."),
    "only missing": ([-1] * 4, MISSING + r"0\."),
    "length": ([0, 1, 0, 1, 1], r"`y` and `z` must have the same number of samples, got 5 and 4\."),
    "empty list": ([], r"`y` must be a vector of at least one label, got shape \(0,\)\."),
    "empty array": (np.zeros(0, int), r"`y` must be a vector of at least one label, got shape \(0,\)\."),
    "two axes": (np.zeros((4, 1), int), r"`y` must be a vector of at least one label, got shape \(4, 1\)\."),
    "no axis": (np.array(3), r"got shape \(\)\."),
    "a DataFrame": (pd.DataFrame({"a": [1, 2, 3, 4]}), r"got shape \(4, 1\)\."),
    "fractions": ([0, 1, 0.5, 2], r"`y` given as numbers must be whole and not negative, .* got 0\.5 in row 2\."),
    "negative": (np.array([0, 1, 2, -2]), r"got -2 in row 3\."),
    "complex": (np.zeros(4, complex), r"`y` must hold integers, strings .*, got dtype complex128\."),
    "unhashable": ([[0], [1], [0], [1]], "`y` must hold hashable values, got one that is not: unhashable type"),
    "text": ("abcd", r"`y` must be a NumPy or CuPy array, a Series or a list, got str\."),
    "nothing": (None, r"got NoneType\."),
}
BAD_NUMBERS = {name: case for name, case in BAD.items() if type(case[0]) is np.ndarray and case[0].dtype.kind in "if"}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(("labels", "message"), BAD.values(), ids=BAD)
def test_bad_labels_get_one_sentence(score, labels, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        score(labels, [0, 1, 0, 1])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("labels", "message"), BAD_NUMBERS.values(), ids=BAD_NUMBERS)
def test_bad_numbers_get_the_same_sentence_in_every_library(xp, labels, message):
    with pytest.raises((TypeError, ValueError), match=message):
        metrics.ari(xp.asarray(labels), xp.asarray([0, 1, 0, 1]))


def test_the_sentence_names_the_vector_that_is_bad():
    with pytest.raises(ValueError, match=r"`z` must not hold missing labels .* got one in row 1\."):
        metrics.nmi([0, 1], [0, -1])


def test_the_examples_in_the_documentation():
    modules = [importlib.import_module(f"gpuensemble.metrics.{name}") for name in MODULES]
    results = [doctest.testmod(module) for module in modules]
    assert sum(result.attempted for result in results) > 20
    assert not sum(result.failed for result in results)


def test_the_same_samples_in_another_order_are_refused():
    y = pd.Series([0, 0, 1], list("abc"))
    rule = r"`z` must have its samples in the order of `y`, got 'c' instead of 'a' in row 0\."
    for score in (metrics.nmi, metrics.ari, metrics.accuracy, metrics.vi, metrics.element_centric):
        with pytest.raises(ValueError, match=rule):
            score(y, y[::-1])
    assert metrics.ari(y, pd.Series([1, 1, 0])) == 1  # numbered, not named
