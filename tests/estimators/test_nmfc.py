"""NMFC: the updates of the paper on the dense matrix, and an objective that is what it says."""

import numpy as np
import pytest

import gpuensemble as ge
from gpuensemble._partition import distinct
from gpuensemble._tables.blocks import whole
from gpuensemble.estimators import nmfc
from support import ensemble


def literal(similarity, q, turns):
    """Li, Ding, Jordan 2007: multiplicative updates of S = Q D Q'; the objective relative to |S|^2 after each of D."""
    gram = q.T @ q
    d, path = np.diag(np.diagonal(q.T @ similarity @ q) / np.diagonal(gram) ** 2), []
    for _ in range(turns):
        d = d * np.sqrt((q.T @ similarity @ q) / (q.T @ q @ d @ q.T @ q))
        path.append(((similarity - q @ d @ q.T) ** 2).sum() / (similarity**2).sum())
        q = q * np.sqrt((similarity @ q @ d) / (q @ q.T @ similarity @ q @ d))
    return path


@pytest.mark.parametrize("holes", [0, 0.2])
def test_objectives_are_those_of_the_dense_updates(holes):
    _, labels = ensemble(n=40, holes=holes)
    labels = labels[np.random.default_rng(0).integers(0, 40, 60)]  # copies of rows
    estimator = ge.NMFC(4, random_state=0, tol=0, max_iter=12, device="cpu").fit(labels)
    table = whole(ge.Membership.from_labels(labels, "cpu"))
    rows = distinct.of(table)
    start = nmfc._start(rows, np.ones(table.n_columns), 4, np.random.default_rng(np.random.SeedSequence(0).spawn(1)[0]))
    expected = literal(ge.coassociation(labels, device="cpu"), start[rows.group], len(estimator.objective_path_))
    np.testing.assert_allclose(estimator.objective_path_, expected, rtol=1e-9)
    assert estimator.objective_path_[-1] < estimator.objective_path_[0]
    assert estimator.n_iter_ == len(estimator.objective_path_) - 1


def test_a_large_tolerance_ends_after_one_turn():
    _, labels = ensemble(n=40)
    assert ge.NMFC(4, random_state=0, tol=10.0, device="cpu").fit(labels).n_iter_ == 1
