"""The quadratic programme on the simplex against brute force over supports, its conditions of optimality, and SciPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuensemble as ge
from cudasim.tally import TALLY
from gpuensemble._array.devices import namespace, to_host


@st.composite
def programmes(draw, max_r=30):
    """G = E'E of any rank, sometimes with equal or badly scaled columns; f in the range of E' or not."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    r = draw(st.integers(1, max_r))
    factor = rng.standard_normal((draw(st.integers(1, r)), r))
    kind = draw(st.sampled_from(["plain", "positive", "copies", "whole", "scaled", "zero"]))
    if kind == "positive":
        factor = np.abs(factor)
    elif kind == "copies":
        factor = factor[:, rng.integers(0, r, r)]
    elif kind == "whole":
        factor = np.round(factor)
    elif kind == "scaled":
        factor *= 10.0 ** rng.uniform(-6, 6, r)
    elif kind == "zero":
        factor *= 0
    linear = factor.T @ rng.standard_normal(len(factor)) if draw(st.booleans()) else rng.standard_normal(r)
    return factor.T @ factor, linear * 10.0 ** draw(st.integers(-6, 6))


def residual(G, f, a):
    """How far the conditions of optimality are from being fulfilled, relative to the largest entry."""
    gradient = G @ a - f
    level = a @ gradient
    worst = max(level - gradient.min(), np.abs(gradient - level)[a > 0].max())
    return worst / max(np.abs(G).max(), np.abs(f).max(), np.finfo(float).tiny)


def check_optimal(G, f, a):
    assert a.min() >= 0
    assert abs(a.sum() - 1) < 1e-12
    assert residual(G, f, a) < 1e-10


@given(programmes())
def test_the_conditions_of_optimality_hold(problem):
    check_optimal(*problem, ge.simplex.quadratic(*problem))


@pytest.mark.parametrize("r", [1, 2, 50, 200])
@pytest.mark.parametrize("rank", [1, 0.5, 1.0])
def test_the_conditions_of_optimality_hold_for_many_variables(r, rank):
    rng = np.random.default_rng(r)
    factor = rng.random((max(1, round(rank * r)) if rank < 1 else r if rank == 1.0 else 1, r))
    G, f = factor.T @ factor, factor.T @ factor.mean(1)
    check_optimal(G, f, ge.simplex.quadratic(G, f))


@given(programmes(max_r=6))
def test_no_support_has_a_lower_minimum(problem):
    G, f = problem
    a = ge.simplex.quadratic(G, f)
    lowest = np.inf
    for size in range(1, len(f) + 1):
        for support in map(list, itertools.combinations(range(len(f)), size)):
            border = np.ones((size + 1, size + 1))
            border[:-1, :-1], border[-1, -1] = G[np.ix_(support, support)], 0
            b = np.linalg.lstsq(border, np.append(f[support], 1), rcond=None)[0][:-1]
            if b.min() >= 0 and abs(b.sum() - 1) < 1e-9:
                lowest = min(lowest, b @ G[np.ix_(support, support)] @ b - 2 * f[support] @ b)
    scale = max(np.abs(G).max(), np.abs(f).max())
    assert a @ G @ a - 2 * f @ a <= lowest + 1e-9 * scale


def test_equal_variables_share():
    np.testing.assert_allclose(
        ge.simplex.quadratic(np.ones((4, 4)), [1, 1, 1, 0.0]), [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-4
    )
    np.testing.assert_allclose(ge.simplex.quadratic(np.zeros((3, 3)), np.zeros(3)), np.full(3, 1 / 3), atol=1e-12)


def test_the_answer_is_in_the_callers_library_after_one_transfer(xp):
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((3, 5))
    G, f = factor.T @ factor, rng.standard_normal(5)
    before = TALLY.reads
    a = ge.simplex.quadratic(xp.asarray(G), xp.asarray(f))
    assert namespace(a) is xp
    assert TALLY.reads - before <= 1
    np.testing.assert_array_equal(to_host(a), ge.simplex.quadratic(G, f))


BAD = {
    "not square": (np.ones((2, 3)), np.ones(2), r"`G` must be square, of at least one row, got shape \(2, 3\)\."),
    "no row": (np.ones((0, 0)), np.ones(0), r"`G` must be square, of at least one row, got shape \(0, 0\)\."),
    "a vector": (np.ones(2), np.ones(2), r"`G` must have 2 axes, got an array of shape \(2,\)\."),
    "a short f": (np.eye(3), np.ones(2), r"`f` must have as many entries as `G` has rows, 3, got 2\."),
    "NaN in G": (np.full((1, 1), np.nan), np.ones(1), r"`G` must be finite, got nan at \[0, 0\]\."),
    "infinite f": (np.eye(1), np.full(1, np.inf), r"`f` must be finite, got inf at \[0\]\."),
    "text": ([["a"]], [1], "`G` must hold numbers, got dtype <U1."),
    "not symmetric": (
        [[1, 2], [1, 4]],
        [0, 0],
        "`G` must be symmetric, got entries that differ by 1 from their mirror",
    ),
    "indefinite": ([[1, 2], [2, 1]], [0, 0], "`G` must be positive semidefinite, got the eigenvalue -1."),
}


@pytest.mark.parametrize(("G", "f", "message"), BAD.values(), ids=BAD)
def test_bad_input_gets_one_sentence(G, f, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ge.simplex.quadratic(G, f)
