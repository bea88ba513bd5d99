"""Voting: the match of clusters is the best one to one, and the first consensus agrees most with all."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score

import gpuensemble as ge
from gpuensemble._tables.blocks import whole
from gpuensemble._tables.counts import contingency
from gpuensemble.estimators import voting
from support import ensemble


def test_a_match_is_the_best_of_all_and_clusters_beyond_k_go_where_they_share_most():
    rng = np.random.default_rng(0)
    for _ in range(30):
        counts = rng.integers(0, 20, (3, 3))
        found = voting._matched(counts, np.array([3]))
        best = max(counts[range(3), p].sum() for p in itertools.permutations(range(3)))
        assert counts[range(3), found].sum() == best
    more = np.array([[9, 0], [8, 1], [0, 5]])
    assert voting._matched(more, np.array([3])).tolist() == [0, 0, 1]


def test_agreement_is_the_mean_normalised_mutual_information():
    _, labels = ensemble(n=60)
    table = whole(ge.Membership.from_labels(labels, "cpu"))
    counts, ends = contingency(table), np.cumsum(table.widths)
    for i in range(8):
        expected = np.mean([normalized_mutual_info_score(labels[:, i], other) for other in labels.T])
        found = voting._agreement(counts[:, ends[i] - table.widths[i] : ends[i]], table.widths)
        assert found == pytest.approx(expected, rel=1e-12)


def test_renamed_copies_with_noise_are_voted_back():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 400)
    labels = np.stack(
        [rng.permutation(5)[np.where(rng.random(400) < 0.7, truth, rng.integers(0, 5, 400))] for _ in range(15)], 1
    )
    estimator = ge.Voting(5, device="cpu").fit(labels)
    assert ge.metrics.accuracy(truth, estimator.labels_) > 0.98
    assert estimator.n_iter_ >= 1


def test_partitions_of_other_numbers_of_clusters_start_from_groups_of_clusters():
    truth, labels = ensemble(n=300)
    assert (np.array([len(np.unique(column)) for column in labels.T]) != 4).all()
    assert ge.metrics.ari(truth, ge.Voting(4, device="cpu").fit_predict(labels)) > 0.7


def test_too_few_turns_warn():
    _, labels = ensemble(n=300, holes=0.3)
    with pytest.warns(ConvergenceWarning, match=r"^`max_iter` = 1 turns did not lead to convergence\.$"):
        ge.Voting(4, max_iter=1, device="cpu").fit(labels)
