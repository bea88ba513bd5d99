"""The criteria of choose_k against dense definitions and scikit-learn, and what it recommends."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

import gpuensemble as ge
from gpuensemble._array.random import generators
from gpuensemble._inspection import choose as module
from gpuensemble._inspection import resampling
from support import ensemble, onehot

CLOSE = {"rtol": 0, "atol": 1e-12}


def noisy(n=120, r=12, k=4, noise=0.2, seed=0):
    """A table whose partitions have k clusters, but for some labels."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, r)) < noise, rng.integers(0, k, (n, r)), np.arange(n)[:, None] % k)


def dense_values(table):
    """The consensus values, n x n; NaN for two samples that no column saw both."""
    agree = sum((column[:, None] == column) & (column[:, None] >= 0) for column in table.T)
    seen = sum((column[:, None] >= 0) & (column >= 0) for column in table.T)
    with np.errstate(invalid="ignore"):
        return agree / seen


@pytest.fixture(params=[0, 0.6], ids=["complete", "holes"])
def drawn(request):
    """Consensuses as `resampled` gives them: ten columns, and rows without a label in some or all of them."""
    rng = np.random.default_rng(3)
    table = rng.integers(0, 3, (40, 10)).astype("int32")
    table[rng.random(table.shape) < request.param] = -1
    if request.param:
        table[7] = -1
    return table


def test_pairs_are_those_of_the_dense_matrix(drawn):
    pairs = resampling.pairs_of(drawn, resampling.drawn_pairs(40, 10**6, None))
    values = dense_values(drawn)[np.triu_indices(40, 1)]
    values = values[~np.isnan(values)]
    assert len(pairs.seen) == len(values)
    unsure = (np.round(values, 9) > 0.1) & (np.round(values, 9) < 0.9)
    assert pairs.pac(40, 40).value == pytest.approx(unsure.mean(), abs=1e-12)
    histogram = pairs.histogram()
    assert list(histogram) == sorted(set(values.tolist()))
    assert all(share == pytest.approx((values == value).mean(), abs=1e-12) for value, share in histogram.items())
    ends = [0, *histogram, 1]
    cdf = np.cumsum([0, *histogram.values()])
    assert pairs.area() == pytest.approx(np.sum(np.diff(ends) * cdf), abs=1e-12)


def test_a_value_of_one_tenth_is_not_ambiguous():
    table = np.zeros((2, 10), "int32")
    shares = []
    for together in range(11):
        table[1] = np.arange(10) >= together
        shares.append(resampling.pairs_of(table, np.array([[0], [1]])).pac(2, 2).value)
    assert shares == [0, 0, *[1] * 7, 0, 0]


def test_pairs_that_are_drawn_come_near_all_pairs():
    rng = np.random.default_rng(0)
    table = np.where(rng.random((400, 9)) < 0.3, rng.integers(0, 4, (400, 9)), np.arange(400)[:, None] % 4)
    every = resampling.pairs_of(table, resampling.drawn_pairs(400, 10**6, rng))
    truth = every.pac(400, 400)
    assert truth.error == 0
    found = [resampling.pairs_of(table, resampling.drawn_pairs(400, 2000, rng)).pac(400, 400) for _ in range(40)]
    assert all((pair[0] != pair[1]).all() for pair in (resampling.drawn_pairs(400, 2000, rng),))
    spread = np.std([one.value for one in found])
    assert abs(np.mean([one.value for one in found]) - truth.value) < 4 * spread / 40**0.5
    assert 0.6 < spread / found[0].error < 1.6


def test_the_error_of_pac_knows_of_the_draw_of_rows():
    rng = np.random.default_rng(1)
    sure = rng.random(3000) < 0.5  # half of the rows are always in one cluster, the others anywhere
    table = np.where(sure[:, None], 0, rng.integers(0, 2, (3000, 9)))
    found = []
    for _ in range(60):
        rows = rng.choice(3000, 150, replace=False)
        found.append(resampling.pairs_of(table[rows], resampling.drawn_pairs(150, 10**6, rng)).pac(150, 3000))
    assert 0.7 < np.std([one.value for one in found]) / np.mean([one.error for one in found]) < 1.4


def test_agreement_is_the_mean_of_scikit_learns_ari_with_a_jackknife(drawn):
    found = resampling.agreement(drawn)

    def mean_of(columns):
        scores = []
        for one, two in itertools.combinations(columns, 2):
            both = (drawn[:, one] >= 0) & (drawn[:, two] >= 0)
            scores.append(adjusted_rand_score(drawn[both, one], drawn[both, two]))
        return np.mean(scores)

    without = np.array([mean_of([c for c in range(10) if c != left]) for left in range(10)])
    assert found.value == pytest.approx(mean_of(range(10)), abs=1e-12)
    assert found.error == pytest.approx((9 / 10 * ((without - without.mean()) ** 2).sum()) ** 0.5, abs=1e-12)


def test_shuffled_partitions_keep_their_sizes_and_holes():
    _, labels = ensemble(n=200, holes=0.3)
    found = resampling.permuted(labels, np.random.default_rng(0))
    np.testing.assert_array_equal(found < 0, labels < 0)
    for one, two in zip(found.T, labels.T, strict=True):
        np.testing.assert_array_equal(np.sort(one), np.sort(two))
        assert abs(adjusted_rand_score(one[one >= 0], two[two >= 0])) < 0.1


@pytest.mark.parametrize("holes", [0, 0.4])
def test_the_table_is_that_of_its_definition(holes):
    _, labels = ensemble(n=70, r=6, holes=holes)
    found = ge.choose_k(labels, [2, 3, 5], consensus="sec", n_bootstrap=4, random_state=5, device="cpu")
    seeds = generators(5, 1)[0].integers(0, 2**31, 5).tolist()
    widths = labels.max(0) + 1
    H = onehot(labels, widths)
    scaled = H / np.sqrt((labels >= 0).sum(1))[:, None] / np.sqrt(np.maximum(H.sum(0), 1))
    singular = np.linalg.svd(scaled, compute_uv=False)
    for k, row in found.table.iterrows():
        consensus = ge.SEC(k, random_state=seeds[0], device="cpu").fit_predict(labels)
        np.testing.assert_array_equal(found.labels[k], consensus)
        assert row["n_clusters"] == k
        assert row["eigengap"] == pytest.approx(singular[k - 1] - singular[k], abs=1e-4)
        of_clusters = ge.stability(labels, consensus, device="cpu").clusters["consensus"]
        assert row["cluster_consensus"] == pytest.approx(of_clusters.mean(), abs=1e-12)
        table = np.full((70, 4), -1)
        for b, rng in enumerate(generators(seeds[4], 4)):
            some = labels[:, rng.integers(0, 6, 6)]
            rows = np.flatnonzero((some >= 0).any(axis=1))
            table[rows, b] = ge.SEC(k, random_state=int(rng.integers(2**31)), device="cpu").fit_predict(some[rows])
        values = dense_values(table)[np.triu_indices(70, 1)]
        values = values[~np.isnan(values)]
        assert row["stability"] == pytest.approx(resampling.agreement(table).value, abs=1e-12)
        assert row["area"] == pytest.approx(1 - values.mean(), abs=1e-12)
        np.testing.assert_allclose(
            found.pairs[k][sorted(set(values))], [np.mean(values == v) for v in sorted(set(values))]
        )
    np.testing.assert_allclose(found.table["excess"], found.table["stability"] - found.table["stability_null"], **CLOSE)
    area = found.table["area"]
    change = [area[2], area[3] / area[2] - 1, area[5] / max(area[2], area[3]) - 1]
    np.testing.assert_allclose(found.table["area_change"], change, **CLOSE)
    np.testing.assert_allclose(found.pairs.sum(), 1, **CLOSE)


@pytest.mark.parametrize("consensus", ["sec-entropy", "cluster-walk", ge.EAC(9)], ids=str)
def test_it_finds_the_k_of_clear_clusters(consensus):
    found = ge.choose_k(noisy(), range(2, 8), consensus=consensus, n_bootstrap=5, random_state=0)
    assert found.recommended == 4
    assert found.why.startswith("K = 4 is ")
    assert found.why.endswith(".")
    assert found.table["eigengap"].idxmax() == 4


def test_there_is_no_clear_k_where_partitions_agree_by_chance():
    labels = np.random.default_rng(0).integers(0, 3, (300, 10))
    found = ge.choose_k(labels, range(2, 7), n_bootstrap=8, random_state=0)
    assert found.recommended is None
    assert found.why.startswith("No clear K: no consensus repeats itself more")


def test_the_end_of_the_range_is_no_peak():
    above = ge.choose_k(noisy(k=5), [2, 3, 4, 5], n_bootstrap=5, random_state=0)
    assert above.recommended is None
    assert above.why.startswith("No clear K: the excess is greatest at K = 5, ")
    below = ge.choose_k(noisy(k=3), [3, 4, 5], n_bootstrap=5, random_state=0)
    assert below.recommended is None


def table_of(excess, error=0.01, n_clusters=None):
    numbers = range(2, 2 + len(excess))
    columns = {"n_clusters": n_clusters or list(numbers), "excess": excess, "excess_error": error}
    return pd.DataFrame(columns, index=numbers)


def test_what_is_recommended():
    assert module._recommended(table_of([0.9, 0.5, 0.8, 0.6, 0.7]))[0] == 4
    assert "; K = 2 has more, 0.900" in module._recommended(table_of([0.9, 0.5, 0.8, 0.6, 0.7]))[1]
    near = module._recommended(table_of([0.895, 0.895, 0.9, 0.6]))
    assert near[0] == 3  # within one error, but the first of the range is not asked
    assert near[1] == "K = 3 is within one error of K = 4, the highest peak of the excess, 0.900 (error 0.010)."
    assert module._recommended(table_of([0.1, 0.88, 0.9, 0.6]))[0] == 4
    assert module._recommended(table_of([0.9, 0.8, 0.7]))[0] == 2
    assert module._recommended(table_of([0.7, 0.8, 0.9]))[0] is None
    assert module._recommended(table_of([0.5, 0.8, 0.6], 0.5))[0] is None
    assert module._recommended(table_of([0.9, 0.5, 0.8, 0.6], n_clusters=[2, 3, 3, 3]))[0] == 2  # no such clusters
    assert module._recommended(table_of([0.9]))[0] == 2


def test_constant_partitions_have_no_clear_k():
    found = ge.choose_k(np.zeros((20, 4), int), [2, 3], random_state=0)
    assert found.recommended is None
    assert found.table["n_clusters"].tolist() == [1, 1]
    assert found.table["excess"].tolist() == [0, 0]


def test_more_clusters_than_distinct_rows_are_not_recommended():
    found = ge.choose_k(np.repeat(np.arange(30)[:, None] % 3, 5, axis=1), range(2, 7), random_state=0)
    assert found.table["n_clusters"].tolist() == [2, 3, 3, 3, 3]
    assert found.recommended in (2, 3, None)
    assert np.isfinite(found.table.drop(columns="area_change")).all(axis=None)


def test_features_get_partitions_of_their_own_for_each_k():
    X, y = make_blobs(150, 5, centers=4, cluster_std=0.4, random_state=3)
    consensus = ge.ConsensusClustering(2, partitions="random-k", n_partitions=10, device="cpu")
    found = ge.choose_k(X, range(2, 7), consensus=consensus, n_bootstrap=4, random_state=0)
    assert list(found.labels.columns) == [2, 3, 4, 5, 6]
    assert adjusted_rand_score(y, found.labels[4]) == 1
    seed = int(generators(0, 1)[0].integers(0, 2**31, 5)[0])
    again = ge.ConsensusClustering(3, partitions="random-k", n_partitions=10, random_state=seed, device="cpu").fit(X)
    np.testing.assert_array_equal(found.labels[3], again.labels_)
    inside = ge.stability(again.base_labels_, again.labels_).clusters["consensus"].mean()
    assert found.table.loc[3, "cluster_consensus"] == pytest.approx(inside, abs=1e-12)


def test_features_are_no_labels():
    with pytest.raises((TypeError, ValueError), match="`labels` given as numbers must be whole"):
        ge.choose_k(np.random.default_rng(0).random((20, 3)), [2, 3])


def test_frames_keep_their_names_and_seeds_decide(xp):
    labels = noisy(60, 6)
    frame = pd.DataFrame(labels, [f"s{i}" for i in range(60)])
    named = ge.choose_k(frame, [2, 3], n_bootstrap=3, random_state=0, device="cpu")
    plain = ge.choose_k(xp.asarray(labels), [2, 3], n_bootstrap=3, random_state=0)
    assert list(named.labels.index) == list(frame.index)
    pd.testing.assert_frame_equal(named.table, plain.table, rtol=1e-6)
    np.testing.assert_array_equal(named.labels, plain.labels)


def test_partitions_are_drawn_for_some_rows_of_a_large_table(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE_ROWS", 50)
    found = ge.choose_k(noisy(400), [3, 4, 5], n_bootstrap=4, random_state=0)
    assert found.recommended == 4
    assert len(found.labels) == 400
    assert (found.table.loc[[3, 5], "pac_error"] > 0).all()


def test_tables_of_which_few_rows_are_drawn_have_fewer_clusters():
    holes = np.full((6, 3), -1)
    for partition in range(3):
        holes[2 * partition : 2 * partition + 2, partition] = [0, 1]
    found = ge.choose_k(holes, [2, 3, 4], n_bootstrap=5, random_state=0)
    assert len(found.table) == 3
    kept = ge.stability(holes, [0, 0, 1, 1, 2, 3], n_bootstrap=5, random_state=0).samples["kept"]
    assert len(kept) == 6


BAD = {
    "pair": (
        {"k_range": (2, 10)},
        r"`k_range` must be a range or a list of integers, got \(2, 10\): range\(2, 10 \+ 1\) or ",
    ),
    "number": ({"k_range": 3}, r"`k_range` must be a range or a list of integers, got 3\."),
    "one": ({"k_range": [1, 2]}, r"`k_range` must be between 2 and n_samples=4, got 1\."),
    "many": ({"k_range": [2, 5]}, r"`k_range` must be between 2 and n_samples=4, got 5\."),
    "unsorted": ({"k_range": [3, 2]}, r"`k_range` must hold ascending numbers, each once, got \[3, 2\]\."),
    "twice": ({"k_range": [2, 2]}, r"`k_range` must hold ascending numbers, each once, got \[2, 2\]\."),
    "empty": ({"k_range": range(2, 2)}, r"`k_range` must hold ascending numbers, each once, got range\(2, 2\)\."),
    "float": ({"k_range": [2.5]}, r"`k_range` must be an integer, got 2\.5 of type float\."),
    "bootstrap": ({"n_bootstrap": 2}, r"`n_bootstrap` must be at least 3, got 2\."),
    "pairs": ({"n_pairs": 0}, r"`n_pairs` must be at least 1, got 0\."),
    "name": ({"consensus": "kmeans"}, r"`consensus` must be one of 'cluster-walk', .*, got 'kmeans'\."),
    "estimator": ({"consensus": ge.CMVC(2)}, r"`consensus` must be the name of a method or an estimator"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_arguments_get_one_sentence(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        ge.choose_k([[0, 0], [0, 0], [1, 1], [1, 1]], **{"k_range": [2, 3]} | arguments)
    assert "\n" not in str(error.value)


def test_rows_in_lists_are_a_table():
    found = ge.choose_k(noisy().tolist(), range(2, 5), random_state=0, device="cpu", n_bootstrap=3)
    expected = ge.choose_k(noisy(), range(2, 5), random_state=0, device="cpu", n_bootstrap=3)
    pd.testing.assert_frame_equal(found.labels, expected.labels)


def test_the_seed_of_a_choice_finds_its_labels_again():
    found = ge.choose_k(noisy(noise=0.6), range(2, 5), consensus="kcc", random_state=3, device="cpu", n_bootstrap=3)
    for k in (2, 3, 4):
        again = ge.KCC(k, random_state=found.seed, device="cpu").fit_predict(noisy(noise=0.6))
        np.testing.assert_array_equal(again, found.labels[k])


def test_without_a_clear_k_the_greatest_excess_is_chosen():
    noise = np.random.default_rng(0).integers(0, 3, (60, 5))
    found = ge.choose_k(noise, range(2, 6), random_state=0, device="cpu")
    assert found.recommended is None
    assert found.table["excess"][found.chosen] == found.table["excess"].max()
    clear = ge.choose_k(noisy(), range(2, 7), random_state=0, device="cpu")
    assert clear.chosen == clear.recommended == 4


def test_a_class_is_no_consensus():
    with pytest.raises(TypeError, match=r"^`consensus` must be the name of a method or an estimator "):
        ge.choose_k(noisy(), range(2, 4), consensus=ge.SEC, device="cpu")
