"""Leading singular triples and eigenvectors from a start, against LAPACK's."""

import numpy as np
import pytest

from cudasim import standin
from cudasim.tally import counted
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._linear import krylov

SPECTRA = {
    "graded": 10.0 ** -np.linspace(0, 12, 60),
    "a gap": np.where(np.arange(60) < 8, 1.0, 1e-3),
    "clustered": np.repeat([5.0, 1.0, 0.01], 20),
    "rank 3": np.where(np.arange(60) < 3, 2.0, 0.0),
}


@pytest.fixture
def rng():
    """A generator of each test's own, so that its data do not depend on the tests before it."""
    return np.random.default_rng(0)


def matrix(rng, sigma, rows=60):
    """A matrix with these singular values."""
    u, _ = np.linalg.qr(rng.standard_normal((rows, len(sigma))))
    v, _ = np.linalg.qr(rng.standard_normal((len(sigma), len(sigma))))
    return (u * sigma) @ v.T


@pytest.mark.parametrize("sigma", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize("rows", [60, 80])
def test_singular_triples_shrink_as_those_of_lapack(xp, rng, sigma, rows):
    x = matrix(rng, sigma, rows)
    given, start = xp.asarray(x), xp.asarray(rng.standard_normal((60, 24)))
    u, found, v, angle = krylov.singular_triples(given, start, 12)
    assert all(namespace(part) is xp for part in (u, found, v, angle))
    tau = 0.05
    left, values, right = np.linalg.svd(x, full_matrices=False)
    expected = (left * np.maximum(values - tau, 0)) @ right
    shrunk = (u * xp.maximum(found - tau, 0)) @ v.T
    if (values > tau).sum() <= 24:
        np.testing.assert_allclose(to_host(shrunk), expected, atol=1e-10 * values[0])
        assert to_host(angle)[to_host(found) > tau].max() < 1e-6
    else:
        assert to_host(found)[-1] > tau  # the block says that it is too narrow
    for basis in (u, v):
        np.testing.assert_allclose(to_host(basis.T @ basis), np.eye(24), atol=1e-12)


def test_a_random_column_shows_a_direction_that_the_start_lacks(rng):
    x = matrix(rng, np.where(np.arange(60) < 8, 1.0, 1e-3))
    _, _, right = np.linalg.svd(x)
    start = right[1:21].T  # orthogonal to the first singular vector
    _, _, _, angle = krylov.singular_triples(x, start, 2)
    assert angle[:7].max() < 1e-6
    _, sigma, _, angle = krylov.singular_triples(x, np.hstack([start[:, :-2], rng.standard_normal((60, 2))]), 2)
    assert (sigma[:8] > 0.999).all()
    assert angle[:8].max() > 1e-6


@pytest.mark.parametrize("near", [1e-1, 1e-6])
def test_eigenvectors_are_those_of_lapack(xp, rng, near):
    values = np.concatenate([[3.0, 2.5, 2.4], np.linspace(1, -0.5, 57)])
    q, _ = np.linalg.qr(rng.standard_normal((60, 60)))
    symmetric = (q * values) @ q.T
    start, _ = np.linalg.qr(q[:, :3] + near * rng.standard_normal((60, 3)))
    given = xp.asarray(symmetric)
    shallow, deep = (krylov.tracked(lambda x: given @ x, xp.asarray(start), depth) for depth in (2, 12))
    np.testing.assert_allclose(to_host(deep.values), [3, 2.5, 2.4], atol=1e-12)
    np.testing.assert_allclose(to_host(deep.vectors @ deep.vectors.T), q[:, :3] @ q[:, :3].T, atol=1e-9)
    assert float(deep.residual.max()) < 1e-8
    assert float(deep.residual.max()) < float(shallow.residual.max()) < near * 60


@pytest.mark.parametrize("find", [krylov.tracked, lambda *given: krylov.converged(*given, -1.0, 2)])
def test_a_start_that_is_invariant_does_no_harm(xp, find):
    _, vectors, residual = find(lambda x: 2 * x, xp.asarray(np.eye(20)[:, :2]), 4)
    np.testing.assert_allclose(to_host(vectors.T @ vectors), np.eye(2), atol=1e-12)
    assert float(residual.max()) < 1e-12


def symmetric(rng, n=300):
    """A matrix whose leading eigenvalues are 3, 2.5 and 2.4, and its eigenvectors."""
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (q * np.concatenate([[3.0, 2.5, 2.4], np.linspace(2.2, -0.5, n - 3)])) @ q.T, q


def test_a_space_grows_until_its_vectors_are_found(xp, rng):
    matrix, q = symmetric(rng)
    given, start = xp.asarray(matrix), xp.asarray(np.linalg.qr(rng.standard_normal((300, 8)))[0])
    products = []
    for tolerance in (1e-2, 1e-5, 1e-9):
        calls = []

        def product(x, calls=calls):
            calls.append(x.shape[1])
            return given @ x

        found = krylov.converged(product, start, 40, tolerance, 3)
        assert float(found.residual[:3].max()) <= tolerance * 3
        np.testing.assert_allclose(to_host(found.vectors.T @ found.vectors), np.eye(8), atol=1e-12)
        exact = to_host(given @ found.vectors - found.vectors * found.values)
        np.testing.assert_allclose((exact**2).sum(0) ** 0.5, to_host(found.residual), atol=1e-12)
        products.append(len(calls))
    assert products[0] < products[1] < products[2]
    np.testing.assert_allclose(
        to_host(found.vectors)[:, :3] @ to_host(found.vectors)[:, :3].T, q[:, :3] @ q[:, :3].T, atol=1e-7
    )


def test_the_host_waits_for_two_numbers_now_and_then():
    matrix, _ = symmetric(np.random.default_rng(0))
    start = np.linalg.qr(np.random.default_rng(1).standard_normal((300, 8)))[0]
    with standin.installed(None) as cupy:
        given, block = cupy.asarray(matrix), cupy.asarray(start)
        calls = []
        with counted() as found:
            krylov.converged(lambda x: calls.append(x) or given @ x, block, 12, 1e-6, 3, begin=3)
    assert len(calls) == 12
    assert 3 <= found.reads <= 7  # of 10 steps
    assert (found.up, found.down) == (0, 16 * found.reads)


def test_the_next_look_is_half_way_to_the_goal_and_at_once_where_nothing_is_known():
    look = krylov.Looks(30)
    assert look.after(30, 10, 1e-1, 1e-3) == (40, 30, 1e-1, 0)
    assert look.after(30, 10, 1e-1, 1e-3).after(40, 10, 1e-2, 1e-10).next == 80  # 8 steps at a digit a step
    assert look.after(30, 10, 1e-1, 1e-3).after(50, 10, 1e-2, 1e-10).next == 130  # half a digit a step
    assert look.after(30, 10, 1e-1, 1e-3).after(40, 10, 1e-2, 1e-3).next == 50  # the end is near
    assert look.after(30, 10, 1e-1, 1e-3).after(40, 10, 2e-1, 1e-3).next == 50  # it got worse
    assert look.after(30, 10, 1e-1, 0.0).after(40, 10, 1e-2, 0.0).next == 50  # no goal


def test_a_space_is_given_up_where_it_seems_to_need_far_more_blocks_than_it_may_have():
    look = krylov.Looks(30).after(30, 10, 1e-1, 1e-10)
    assert look.after(40, 10, 1e-2, 1e-10).needed == pytest.approx(80)  # a digit a step
    assert look.after(40, 10, 2e-1, 1e-10).needed == np.inf
    close, apart = np.linspace(-1, 1, 300), np.concatenate([0.1 / np.arange(1.0, 298), [0.8, 0.9, 1.0]])
    start = np.linalg.qr(np.random.default_rng(1).standard_normal((300, 8)))[0]

    def n_products(values, patience):
        calls = []
        krylov.converged(lambda x: calls.append(x) or values[:, None] * x, start, 20, 1e-10, 3, 4, patience)
        return len(calls)

    assert n_products(close, 2) < 10 < n_products(close, np.inf) == 20
    assert n_products(apart, 2) == n_products(apart, np.inf) < 12


def test_columns_that_depend_on_each_other_and_on_the_basis_are_left_out(xp, rng):
    basis = np.linalg.qr(rng.standard_normal((50, 4)))[0]
    new = rng.standard_normal((50, 2))
    block = np.hstack([new, new @ [[1.0], [2.0]], basis[:, :2] + 1e-13, 1e-5 * rng.standard_normal((50, 1))])
    block -= basis @ (basis.T @ block)
    found = to_host(krylov._orthonormal_to(xp.asarray(basis), xp.asarray(block)))
    lengths = (found**2).sum(0)
    assert sorted(lengths.round(9)) == [0, 0, 0, 1, 1, 1]
    np.testing.assert_allclose(basis.T @ found, 0, atol=1e-13)
    np.testing.assert_allclose(found.T @ found, np.diag(lengths), atol=1e-13)


@pytest.mark.parametrize("first", [1.5, 1e6])
def test_a_loose_tolerance_keeps_vectors_orthonormal(xp, rng, first):
    """One pass over a block may be enough; where one eigenvalue is far beyond the others, it is not."""
    values = np.concatenate([[first], np.linspace(1, 0, 199)])
    q, _ = np.linalg.qr(rng.standard_normal((200, 200)))
    given, start = xp.asarray((q * values) @ q.T), xp.asarray(np.linalg.qr(rng.standard_normal((200, 6)))[0])
    passes = []
    found = krylov.converged(lambda x: passes.append(x) or given @ x, start, 30, 1e-3 / first, 3)
    basis = np.hstack([to_host(block) for block in passes])
    assert basis.shape[1] > 24
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-9)
    np.testing.assert_allclose(to_host(found.vectors.T @ found.vectors), np.eye(6), atol=1e-9)
    exact = to_host(given @ found.vectors - found.vectors * found.values)
    np.testing.assert_allclose((exact**2).sum(0) ** 0.5, to_host(found.residual), atol=1e-9 * first)


def test_blocks_are_orthonormal_where_the_start_is_all_but_invariant(xp, rng):
    q, _ = np.linalg.qr(rng.standard_normal((60, 60)))
    given, start = xp.asarray((q * np.linspace(1, 0, 60)) @ q.T), q[:, :6] + 1e-14 * rng.standard_normal((60, 6))
    passes = []
    krylov.converged(lambda x: passes.append(x) or given @ x, xp.asarray(np.linalg.qr(start)[0]), 9, 1e-3, 3, 4)
    basis = np.hstack([to_host(block) for block in passes])
    assert basis.shape[1] == 24
    np.testing.assert_allclose(basis.T @ basis, np.diag((basis**2).sum(0).round()), atol=1e-9)


def test_rounding_within_the_basis_is_no_new_direction(xp, rng):
    basis, turn = np.linalg.qr(rng.standard_normal((50, 4)))[0], np.linalg.qr(rng.standard_normal((4, 3)))[0]
    found = to_host(krylov._orthonormal_to(xp.asarray(basis), xp.asarray(1e-16 * basis @ turn)))
    assert (found == 0).all()


@pytest.mark.parametrize("lean", [0, 1, 30, 300])
def test_columns_become_orthonormal_however_far_they_lean(xp, rng, lean):
    basis, new = np.split(np.linalg.qr(rng.standard_normal((200, 15)))[0], [9], axis=1)
    block = new @ np.diag([0.1, 1, 1, 10, 1, 1])
    block[:, 1:] += lean * new[:, :1]
    block += 1e-12 * basis[:, :6]  # more than rounding leaves
    found = to_host(krylov._orthonormal_to(xp.asarray(basis), xp.asarray(block)))
    np.testing.assert_allclose(found.T @ found, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(basis.T @ found, 0, atol=1e-14)
    np.testing.assert_allclose(found @ found.T, new @ new.T, atol=1e-15 * max(lean, 1) ** 2 + 1e-11)


@pytest.mark.parametrize("n", [12, 17, 21, 30, 47])
def test_the_last_block_takes_what_room_is_left(xp, rng, n):
    values = np.concatenate([[3.0, 2.5, 2.4], np.linspace(1, -0.5, n - 3)])
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    given, start = xp.asarray((q * values) @ q.T), np.linalg.qr(rng.standard_normal((n, 11)))[0]
    found = krylov.converged(lambda x: given @ x, xp.asarray(start), 12, 1e-3, 3)
    assert float(found.residual[:3].max()) <= 3e-3
    leading = to_host(found.vectors)[:, :3]
    np.testing.assert_allclose(leading @ leading.T, q[:, :3] @ q[:, :3].T, atol=1e-2)
