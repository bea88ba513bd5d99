"""Stability against the n x n matrices of its definition, and against a literal bootstrap."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import gpuensemble as ge
from gpuensemble._array.random import generators
from gpuensemble._inspection import stability as module
from support import ensemble, onehot, random_codes

CLOSE = {"rtol": 0, "atol": 1e-12}


def pairs(labels):
    """How many partitions put samples i and j together, and how many saw both, n x n; no sample pairs with itself."""
    agree = sum((column[:, None] == column) & (column[:, None] >= 0) for column in labels.T)
    seen = sum((column[:, None] >= 0) & (column >= 0) for column in labels.T)
    others = 1 - np.eye(len(labels))
    return agree * others, seen * others


def ratio_of_sums(labels, consensus):
    """The item consensus and the consensus within and between clusters, from n x n matrices."""
    agree, seen = pairs(labels)
    belongs = onehot(consensus[:, None], [consensus.max() + 1])
    with np.errstate(invalid="ignore"):
        return (agree @ belongs) / (seen @ belongs), (belongs.T @ agree @ belongs) / (belongs.T @ seen @ belongs)


@pytest.fixture(params=[0, 0.4], ids=["complete", "holes"])
def case(request):
    truth, labels = ensemble(n=70, r=6, holes=request.param)
    consensus = np.where(np.arange(70) % 9 == 0, (truth + 1) % 4, truth)  # some samples are where they do not belong
    consensus[5] = 4  # one stands alone
    return labels, consensus


@pytest.mark.parametrize("cells", [module.CELLS, 30])
def test_item_and_cluster_consensus_are_those_of_the_definition(xp, monkeypatch, case, cells):
    monkeypatch.setattr(module, "CELLS", cells)
    labels, consensus = case
    found = ge.stability(xp.asarray(labels), xp.asarray(consensus))
    item, between = ratio_of_sums(labels, consensus)
    np.testing.assert_allclose(found.item_consensus, item, **CLOSE)
    own = (np.arange(70), consensus)
    np.testing.assert_allclose(found.samples["consensus"], item[own], **CLOSE)
    item[own] = np.nan
    np.testing.assert_allclose(found.samples["other_consensus"], np.nanmax(item, axis=1), **CLOSE)
    np.testing.assert_array_equal(found.samples["other"], np.nanargmax(np.round(item, 12), axis=1))
    np.testing.assert_allclose(
        found.samples["margin"], found.samples["consensus"] - found.samples["other_consensus"], **CLOSE
    )
    np.testing.assert_allclose(found.clusters["consensus"], np.diag(between), **CLOSE)
    np.fill_diagonal(between, np.nan)
    np.testing.assert_allclose(found.clusters["nearest_consensus"], np.nanmax(between, axis=1), **CLOSE)
    np.testing.assert_array_equal(found.clusters["nearest"], np.nanargmax(between, axis=1))
    np.testing.assert_array_equal(found.clusters["size"], np.bincount(consensus))
    assert np.isnan(found.samples["consensus"][5])
    assert np.isnan(found.clusters["consensus"][4])


def test_without_holes_it_is_the_mean_of_the_coassociation():
    truth, labels = ensemble(n=40, r=5)
    matrix = ge.coassociation(labels, device="cpu")
    found = ge.stability(labels, truth)
    for i, k in itertools.product(range(40), range(4)):
        others = (truth == k) & (np.arange(40) != i)
        assert found.item_consensus.iloc[i, k] == pytest.approx(matrix[i, others].mean(), abs=1e-12)
    inside = [matrix[np.ix_(truth == k, truth == k)][np.triu_indices((truth == k).sum(), 1)].mean() for k in range(4)]
    np.testing.assert_allclose(found.clusters["consensus"], inside, **CLOSE)


def test_with_holes_pairs_weigh_by_the_partitions_that_saw_both():
    labels = np.array([[0, 0, 0], [0, -1, -1], [0, 0, 1]])
    found = ge.stability(labels, [7, 7, 7])
    # Sample 0 agrees with 1 in the only partition that saw both, with 2 in two of three.
    assert found.samples["consensus"][0] == 3 / 4
    assert found.clusters.loc[7, "consensus"] == (1 + 2 + 1) / (1 + 3 + 1)


def test_partitions_are_scored_on_the_samples_they_saw(case):
    labels, consensus = case
    found = ge.stability(labels, consensus).partitions
    for i, column in enumerate(labels.T):
        seen = column >= 0
        nmi = normalized_mutual_info_score(column[seen], consensus[seen], average_method="geometric")
        assert found["nmi"][i] == pytest.approx(nmi, abs=1e-12)
        assert found["ari"][i] == pytest.approx(adjusted_rand_score(column[seen], consensus[seen]), abs=1e-12)
        assert found["holes"][i] == pytest.approx(1 - seen.mean(), abs=1e-15)
        assert found["n_clusters"][i] == len(np.unique(column[seen]))
    table = ge.metrics.pairwise(labels, "nmi")
    np.testing.assert_allclose(found["mean_nmi"], (table.sum(axis=1) - 1) / 5, **CLOSE)


def test_the_callers_names_are_in_the_tables():
    index = [f"s{i}" for i in range(5)]
    frame = pd.DataFrame({"one": list("aabbb"), "two": [0, 0, 0, 1, None]}, index)
    found = ge.stability(frame, pd.Series(list("yyxxx"), index))
    assert list(found.samples.index) == list(found.item_consensus.index) == index
    assert list(found.samples.columns) == ["cluster", "consensus", "other", "other_consensus", "margin"]
    assert list(found.partitions.index) == ["one", "two"]
    assert list(found.clusters.index) == list(found.item_consensus.columns) == ["x", "y"]
    assert found.samples.loc["s0", ["cluster", "other"]].tolist() == ["y", "x"]
    assert found.clusters["nearest"].to_dict() == {"x": "y", "y": "x"}
    assert found.item_consensus.loc["s2"].to_dict() == {"x": (1 + 1 + 0) / 3, "y": 2 / 4}


def test_what_there_is_nothing_to_say_of():
    alone = ge.stability([[0], [1], [1]], ["a", "a", "a"])
    assert alone.samples["other"].tolist() == [None] * 3
    assert alone.samples[["other_consensus", "margin"]].isna().all(axis=None)
    assert alone.clusters["nearest"].tolist() == [None]
    assert np.isnan(alone.partitions["mean_nmi"][0])
    apart = ge.stability([[0, None], [0, None], [None, 1]], [0, 0, 1])
    assert np.isnan(apart.item_consensus.iloc[0, 1])  # never seen together
    assert apart.samples["other"].tolist() == [None] * 3
    assert apart.samples["consensus"].tolist()[:2] == [1, 1]
    partly = ge.stability([[0, None], [0, None], [1, None], [None, 1]], [0, 0, 1, 2])
    assert partly.samples["other"].tolist() == [1, 1, 0, None]
    assert partly.clusters["nearest"].tolist() == [1, 0, None]


def test_clusters_of_any_name_come_in_order():
    labels = [[0], [0], [1], [1]]
    assert ge.stability(labels, [3, 3, 1, 1]).clusters.index.tolist() == [1, 3]
    assert ge.stability(labels, [("b", 1), ("b", 1), ("a", 2), ("a", 2)]).clusters.index.tolist() == [
        ("a", 2),
        ("b", 1),
    ]
    mixed = ge.stability(labels, ["b", "b", 1, 1])
    assert mixed.clusters.index.tolist() == ["b", 1]
    assert mixed.samples["other"].tolist() == [1, 1, "b", "b"]


def test_an_estimator_stands_for_its_labels_in_every_library(xp):
    _, labels = ensemble(holes=0.2)
    fitted = ge.ClusterWalk(4).fit(xp.asarray(labels))
    found = ge.stability(xp.asarray(labels), fitted, n_bootstrap=2, random_state=0)
    expected = ge.stability(labels, ge.ClusterWalk(4, device="cpu").fit(labels), n_bootstrap=2, random_state=0)
    for name in ("samples", "clusters", "partitions", "item_consensus"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(expected, name), check_dtype=False)


def best_renaming(found, consensus):
    """The labels of a partition under the names of another, by the best of all permutations."""
    ways = (np.array(way)[found] for way in itertools.permutations(range(4)))
    return max(ways, key=lambda renamed: (renamed == consensus).sum())


@pytest.mark.parametrize("times", [1, 5])
def test_the_bootstrap_is_that_of_its_definition(times):
    rng = np.random.default_rng(1)
    truth, labels = ensemble(n=50, r=4, holes=0.5)
    consensus = np.where(rng.random(50) < 0.2, rng.integers(0, 4, 50), truth)
    found = ge.stability(labels, consensus, n_bootstrap=times, method="sec", random_state=3).samples["kept"]
    kept, drawn = np.zeros(50), np.zeros(50)
    for draws in generators(3, times):
        table = labels[:, draws.integers(0, 4, 4)]
        rows = (table >= 0).any(axis=1)
        labels_ = ge.SEC(4, random_state=int(draws.integers(2**31))).fit(table[rows]).labels_
        kept[rows] += best_renaming(labels_, consensus[rows]) == consensus[rows]
        drawn[rows] += 1
    assert drawn.min() < times
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, kept / drawn)


def test_by_default_the_bootstrap_is_of_the_estimator_that_is_given():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (60, 5))
    fitted = ge.SEC(3, random_state=0).fit(labels)
    own, named, other = (
        ge.stability(labels, given, n_bootstrap=3, method=method, random_state=0).samples["kept"]
        for given, method in ((fitted, None), (fitted.labels_, "sec"), (fitted.labels_, None))
    )
    np.testing.assert_array_equal(own, named)
    assert (own != other).any()


def test_equal_partitions_keep_every_sample():
    labels = np.repeat(np.arange(30)[:, None] % 3, 4, axis=1)
    for method in (None, "voting", ge.KCC(3), ge.EAC(3)):
        assert (ge.stability(labels, labels[:, 0], n_bootstrap=3, method=method).samples["kept"] == 1).all()


def test_the_seed_decides_the_bootstrap():
    truth, labels = ensemble(n=60, r=4, seed=1)
    noisy = np.where(np.random.default_rng(0).random(labels.shape) < 0.5, labels, labels[::-1])
    once, again, other = (
        ge.stability(noisy, truth, n_bootstrap=4, random_state=seed).samples["kept"] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()


def test_a_bootstrap_writes_no_file_of_the_fitted_estimator(tmp_path):
    _, labels = ensemble()
    out = tmp_path / "labels.npy"
    fitted = ge.SEC(4, out=str(out), random_state=0).fit(labels)
    before = out.read_bytes()
    ge.stability(labels, fitted, n_bootstrap=2, random_state=0)
    assert out.read_bytes() == before


BAD = {
    "number": ({"n_bootstrap": -1}, r"`n_bootstrap` must be at least 0, got -1\."),
    "name": ({"n_bootstrap": 1, "method": "kmeans"}, r"`method` must be one of 'cluster-walk', .*, got 'kmeans'\."),
    "views": ({"n_bootstrap": 1, "method": "cmvc"}, r"`method` must be one of 'cluster-walk', .*, got 'cmvc'\."),
    "another estimator": ({"n_bootstrap": 1, "method": ge.CMVC(2)}, r"`method` must be the name of a method or an est"),
    "weights": (
        {"n_bootstrap": 1, "method": ge.SEC(2, partition_weight=[1, 2])},
        r"`method` must have no parameter with a value for each partition, .*, got `partition_weight`\.",
    ),
    "consensus": ({"consensus": [0, 1]}, r"`consensus` must have n_samples=4 entries, got 2\."),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_arguments_get_one_sentence(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        ge.stability([[0, 0], [0, 0], [1, 1], [1, 1]], **{"consensus": [0, 0, 1, 1]} | arguments)
    assert "\n" not in str(error.value)


def test_many_clusters_are_refused_before_any_work(monkeypatch):
    monkeypatch.setattr("gpuensemble._array.checks.memory", lambda device: 1000)
    with pytest.raises(ValueError, match=r"The item consensus of 60 samples with 3 clusters must fit into memory: "):
        ge.stability(random_codes(np.random.default_rng(0), 60, [3, 3]), np.arange(60) % 3)


def test_a_consensus_that_finds_its_own_number_of_clusters_cannot_be_drawn_anew():
    graph = np.kron(np.eye(2), np.ones((4, 4)) - np.eye(4))
    labels = np.repeat([[0, 1], [1, 0]], 4, axis=0)
    fitted = ge.EdgeConsensus(random_state=0, device="cpu").fit(labels, graph=graph)
    assert ge.stability(labels, fitted, device="cpu").clusters["consensus"].tolist() == [1, 1]
    with pytest.raises(
        TypeError, match=r"^`method` must be the name of a method or an estimator of a table of labels, "
    ):
        ge.stability(labels, fitted, n_bootstrap=3, device="cpu")
