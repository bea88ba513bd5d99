"""The Cayley step against its n x n definition, and the search on problems whose minimum is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuensemble as ge
from cudasim.tally import TALLY
from gpuensemble._array.devices import namespace, to_host
from support import check

EPS = np.finfo("float64").eps


def orthonormal(rng, *shape):
    return np.linalg.qr(rng.standard_normal(shape))[0]


def dense_step(x, grad, step):
    """The definition, with n x n matrices."""
    w = grad @ x.T - x @ grad.T
    eye = np.eye(len(x))
    return np.linalg.solve(eye + step * w, (eye - step * w) @ x)


def off(x):
    """The largest error of orthogonality."""
    return np.abs(np.swapaxes(x, -1, -2) @ x - np.eye(x.shape[-1])).max()


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(0, 12), st.sampled_from([0, 1e-8, 1e-2, 1, 10]))
def test_the_step_is_that_of_the_definition(seed, k, further, step):
    rng = np.random.default_rng(seed)
    x, grad = orthonormal(rng, k + further, k), rng.standard_normal((k + further, k))
    found = ge.stiefel.cayley_step(x, grad, step)
    turn = step * np.linalg.norm(grad @ x.T - x @ grad.T)
    np.testing.assert_allclose(found, dense_step(x, grad, step), atol=20 * EPS * (1 + turn) ** 2)
    assert off(found) < 100 * EPS


@pytest.mark.parametrize("step", [1e2, 1e4, 1e6])
def test_a_long_step_stays_on_the_manifold(step):
    rng = np.random.default_rng(0)
    x, grad = orthonormal(rng, 60, 5), rng.standard_normal((60, 5))
    found = ge.stiefel.cayley_step(x, grad, step)
    assert off(found) < 100 * EPS
    np.testing.assert_allclose(found, dense_step(x, grad, step), atol=1e-15 * step * np.linalg.norm(grad))


def test_a_gradient_within_the_span_only_rotates():
    rng = np.random.default_rng(1)
    x = orthonormal(rng, 40, 4)
    grad = x @ rng.standard_normal((4, 4))
    found = ge.stiefel.cayley_step(x, grad, 0.3)
    np.testing.assert_allclose(found, dense_step(x, grad, 0.3), atol=1e-14)
    np.testing.assert_allclose(x @ (x.T @ found), found, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_steps_of_a_batch_are_steps_on_their_own(xp, dtype):
    rng = np.random.default_rng(2)
    x, grad = orthonormal(rng, 2, 3, 9, 4).astype(dtype), rng.standard_normal((2, 3, 9, 4)).astype(dtype)
    step = rng.random((2, 3)).astype(dtype)
    found = ge.stiefel.cayley_step(xp.asarray(x), xp.asarray(grad), xp.asarray(step))
    single = [[ge.stiefel.cayley_step(x[i, j], grad[i, j], float(step[i, j])) for j in range(3)] for i in range(2)]
    check(found, np.array(single), xp)


def test_a_small_step_descends_as_the_slope_says():
    rng = np.random.default_rng(3)
    x, target = orthonormal(rng, 30, 3), rng.standard_normal((30, 3))
    slope = -(np.linalg.norm(target @ x.T - x @ target.T) ** 2)  # the gradient of -tr(x'target) is -target
    for step in (1e-4, 1e-6):
        change = -((ge.stiefel.cayley_step(x, -target, step) - x) * target).sum()
        assert change == pytest.approx(slope * step, rel=50 * step)


def test_a_thousand_steps_stay_orthonormal():
    rng = np.random.default_rng(4)
    matrix = rng.standard_normal((100, 100))
    matrix = 1e3 * (matrix + matrix.T)
    calls = []

    def value_and_grad(x):
        calls.append(1)
        return -len(calls), 2 * matrix @ x + 1e3 * np.sin(len(calls))  # falls without end, and turns at each step

    found = ge.stiefel.minimize(value_and_grad, orthonormal(rng, 100, 6), max_iter=1000, tol=0)
    assert found.n_iter == 1000
    assert off(found.x) < 100 * EPS
    again = ge.stiefel.minimize(value_and_grad, found.x, max_iter=0)
    np.testing.assert_array_equal(again.x, found.x)


def test_drift_is_repaired_and_counted():
    rng = np.random.default_rng(5)
    target = rng.standard_normal((50, 4))
    start = orthonormal(rng, 50, 4) * (1 + 1e-10)  # as orthonormal as is asked for
    found = ge.stiefel.minimize(lambda x: (-(x * target).sum(), -target), start, max_iter=30)
    assert off(found.x) < 100 * EPS
    assert found.n_reorthonormalised >= 1


def test_procrustes_problems_are_solved_as_a_batch(xp):
    rng = np.random.default_rng(6)
    target = rng.standard_normal((5, 40, 4))
    on_device = xp.asarray(target)

    def value_and_grad(x):
        return -(x * on_device).sum((-2, -1)), -on_device

    found = ge.stiefel.minimize(value_and_grad, xp.asarray(orthonormal(rng, 5, 40, 4)), tol=1e-7)
    left, values, right = np.linalg.svd(target, full_matrices=False)
    assert namespace(found.x) is xp
    assert found.converged
    np.testing.assert_allclose(to_host(found.value), -values.sum(-1), rtol=1e-12)
    np.testing.assert_allclose(to_host(found.x), left @ right, atol=1e-6)
    assert (np.diff(to_host(found.path), axis=0) <= 0).all()
    assert found.path.shape == (found.n_iter + 1, 5)


@pytest.mark.parametrize("non_monotone", [0, 0.85])
@pytest.mark.parametrize(("n", "k"), [(100, 5), (6, 4), (7, 1)])
def test_leading_eigenvectors_are_found(n, k, non_monotone):
    rng = np.random.default_rng(7)
    values = np.sort(rng.standard_normal(n))
    vectors = orthonormal(rng, n, n)
    matrix = vectors * values @ vectors.T

    def value_and_grad(x):
        return -(x * (matrix @ x)).sum(), -2 * matrix @ x

    start = orthonormal(rng, n, k)
    found = ge.stiefel.minimize(value_and_grad, start, non_monotone=non_monotone)
    assert found.converged
    assert found.value == pytest.approx(-values[-k:].sum(), rel=1e-9)
    projection = vectors[:, -k:] @ vectors[:, -k:].T
    np.testing.assert_allclose(found.x @ found.x.T, projection, atol=1e-4)
    if not non_monotone:
        assert (np.diff(found.path) <= 0).all()


def test_a_square_matrix_is_rotated():
    rng = np.random.default_rng(8)
    target, start = orthonormal(rng, 5, 5), orthonormal(rng, 5, 5)
    if np.linalg.det(target @ start) < 0:
        start[:, 0] *= -1  # the search does not leave its component
    found = ge.stiefel.minimize(lambda x: (((x - target) ** 2).sum(), 2 * (x - target)), start, tol=1e-8)
    assert found.converged
    np.testing.assert_allclose(found.x, target, atol=1e-6)


def test_the_host_waits_once_per_trial(xp):
    if xp is np:
        pytest.skip("there is nothing to wait for")
    rng = np.random.default_rng(9)
    target, trials = xp.asarray(rng.standard_normal((30, 3))), []

    def value_and_grad(x):
        trials.append(1)
        return -(x * target).sum(), -target

    start = xp.asarray(orthonormal(rng, 30, 3))
    before = TALLY.reads
    ge.stiefel.minimize(value_and_grad, start, tol=1e-6)
    assert TALLY.reads - before <= len(trials) + 4  # the checks of the start, and the end


def test_a_workspace_changes_nothing_but_where_the_work_is_done():
    rng = np.random.default_rng(10)
    matrix = np.diag(np.arange(20.0))
    start = orthonormal(rng, 20, 2)
    kept, space = start.copy(), [np.full((20, 2), np.nan) for _ in range(3)]

    def value_and_grad(x, out=None):
        grad = np.matmul(2 * matrix, x, out=out)
        return (x * grad).sum() / 2, grad

    first = ge.stiefel.minimize(value_and_grad, start)
    np.testing.assert_array_equal(start, kept)
    mine = {id(array) for array in (*space, start)}
    second = ge.stiefel.minimize(value_and_grad, start, workspace=space)
    np.testing.assert_array_equal(first.x, second.x)
    np.testing.assert_array_equal(first.path, second.path)
    assert {id(array) for array in (*space, second.x)} == mine


def test_a_function_that_does_not_fall_ends_the_search():
    found = ge.stiefel.minimize(lambda x: (np.float64(1), np.arange(6.0).reshape(3, 2)), np.eye(3, 2))
    assert not found.converged
    assert found.n_iter == 0
    assert ge.stiefel.minimize(lambda x: (np.float64(1), np.zeros((3, 2))), np.eye(3, 2)).converged


BAD = {
    "too wide": (
        {"x": np.eye(2, 3)},
        r"`x` must have at least as many rows as columns, and one column, got shape \(2, 3\)",
    ),
    "a vector": (
        {"x": np.ones(2)},
        r"`x` must have at least as many rows as columns, and one column, got shape \(2,\)",
    ),
    "not orthonormal": (
        {"x": np.ones((3, 2))},
        "`x` must have orthonormal columns, got inner products that are off by 3.",
    ),
    "complex": ({"x": np.eye(3, 2, dtype=complex)}, "`x` must hold real numbers, got dtype complex128."),
    "NaN": ({"x": np.full((3, 1), np.nan)}, r"`x` must be finite, got nan at \[0, 0\]\."),
    "another shape": ({"grad": np.ones((3, 1))}, r"`grad` must have the shape of `x`, \(3, 2\), got \(3, 1\)\."),
    "an infinite gradient": ({"grad": np.full((3, 2), np.inf)}, r"`grad` must be finite, got inf at \[0, 0\]\."),
    "an infinite step": ({"step": np.inf}, r"`step` must be finite, got inf at \[0\]\."),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_a_bad_step_gets_one_sentence(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ge.stiefel.cayley_step(**({"x": np.eye(3, 2), "grad": np.ones((3, 2)), "step": 1.0} | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_iter": -1}, "`max_iter` must be at least 0, got -1."),
        ({"tol": -1}, "`tol` must be finite and at least 0, got -1."),
        ({"non_monotone": 1}, "`non_monotone` must be less than 1, got 1."),
        ({"x0": np.ones((3, 2))}, "`x0` must have orthonormal columns, got inner products that are off by 3."),
    ],
)
def test_a_bad_search_gets_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        ge.stiefel.minimize(lambda x: (0.0, x), **({"x0": np.eye(3, 2)} | change))


def test_columns_that_have_drifted_far_are_orthonormal_again(xp):
    """One Newton step leaves the square of the error, which may still be large."""
    x = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 4)))[0]
    for error in (1e-13, 1e-6, 1e-2, 0.2):
        found = to_host(ge.stiefel._orthonormalised(xp.asarray(x * (1 - error))))
        np.testing.assert_allclose(found.T @ found, np.eye(4), atol=1e-12)
