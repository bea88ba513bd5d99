"""Scores of all pairs of partitions are those of each pair alone, on the samples that both saw."""

import numpy as np
import pandas as pd
import pytest

from gpuensemble import metrics
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._tables import counts
from gpuensemble.metrics import contingency
from support import ensemble, random_codes

SCORES = ("nmi", "ami", "ari", "vi", "element_centric")


def one_by_one(labels, score):
    found = np.full((labels.shape[1],) * 2, np.nan)
    for i, y in enumerate(labels.T):
        for j, z in enumerate(labels.T):
            both = (y >= 0) & (z >= 0)
            if both.any():
                found[i, j] = getattr(metrics, score)(y[both], z[both])
    return found


@pytest.mark.parametrize("holes", [0, 0.4])
@pytest.mark.parametrize("score", SCORES)
def test_each_pair_counts_the_samples_that_both_saw(xp, score, holes):
    _, labels = ensemble(n=120, r=6, holes=holes)
    found = metrics.pairwise(xp.asarray(labels), score)
    assert namespace(found) is xp
    np.testing.assert_allclose(to_host(found), one_by_one(labels, score), rtol=0, atol=1e-13)


@pytest.mark.parametrize("whole", [counts.WHOLE, 40, 0])
@pytest.mark.parametrize("dense", [contingency.DENSE_CELLS, 0])
def test_tables_that_are_too_large_to_be_counted_at_once(xp, monkeypatch, whole, dense):
    rng = np.random.default_rng(0)
    widths = (2, 9, 1, 5, 7)
    labels = random_codes(rng, 60, widths)
    monkeypatch.setattr(counts, "WHOLE", whole)
    monkeypatch.setattr(counts, "CELLS", 150)
    monkeypatch.setattr(contingency, "DENSE_CELLS", dense)
    for score in SCORES:
        found = to_host(metrics.pairwise(xp.asarray(labels), score))
        np.testing.assert_allclose(found, one_by_one(labels, score), rtol=0, atol=1e-13)


def test_columns_in_several_passes_are_those_of_one(monkeypatch):
    labels = random_codes(np.random.default_rng(0), 200, [4] * 7)
    expected, passes = metrics.pairwise(labels, "vi"), []
    monkeypatch.setattr(counts, "WHOLE", 4 * 28)
    monkeypatch.setattr(counts, "CELLS", 2 * 4 * 28)
    given = counts.contingencies
    monkeypatch.setattr(
        counts, "contingencies", lambda table: (passes.append(one.shape) or one for one in given(table))
    )
    np.testing.assert_array_equal(metrics.pairwise(labels, "vi"), expected)
    assert passes == [(28, 8)] * 3 + [(28, 4)]


def test_partitions_without_a_sample_in_common_have_no_score():
    labels = [[0, None, 1], [1, None, 1], [None, "a", 0], [None, "b", 0]]
    for score in SCORES:
        found = metrics.pairwise(labels, score)
        assert np.isnan(found[0, 1])
        assert np.isnan(found).sum() == 2


def test_clusters_that_the_other_partition_never_saw_do_not_count():
    labels = np.array([[0, 0], [0, 0], [1, -1], [1, 1]])
    assert metrics.pairwise(labels[:3], "nmi")[0, 1] == 1  # the second never saw cluster 1 of the first
    assert metrics.pairwise(labels, "element_centric")[0, 1] == 1


def test_a_data_frame_names_both_axes():
    frame = pd.DataFrame({"kmeans": list("aabb"), 7: [0, 0, 1, np.nan]}, index=list("wxyz"))
    found = metrics.pairwise(frame, "ari")
    assert list(found.columns) == list(found.index) == ["kmeans", 7]
    assert found.loc["kmeans", 7] == 1


def test_bad_arguments_get_one_sentence():
    rule = "`score` must be one of 'nmi', 'ami', 'ari', 'vi', 'element_centric', got 'rand'."
    with pytest.raises(ValueError, match=rule):
        metrics.pairwise([[0], [1]], "rand")
    with pytest.raises(ValueError, match=r"`labels` must be a table of at least one sample x one partition"):
        metrics.pairwise([0, 1], "nmi")
