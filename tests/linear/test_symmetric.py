"""Symmetric matrices in a sequence are thresholded as LAPACK's eigenvectors say, and nothing is missed."""

import numpy as np
import pytest

from cudasim import standin
from cudasim.tally import counted
from gpuensemble import prox
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._kernels.cpu.slices import scaled
from gpuensemble._linear import symmetric
from gpuensemble._linear.definite import inverse, is_definite
from gpuensemble._linear.orthonormal import orthonormal
from gpuensemble._linear.symmetric import SymmetricSequence

N = 200
SPECTRA = {  # for tau = 1
    "few above": np.concatenate([np.linspace(9, 4, 6), np.linspace(0.3, -0.2, N - 6)]),
    "few below": np.concatenate([np.linspace(9, 4, N - 6), np.linspace(0.9, 0.3, 6)]),
    "all above": np.linspace(9, 1.1, N),
    "none": np.linspace(0.9, -0.9, N),
}


@pytest.fixture(autouse=True)
def _blocks_of_any_size(monkeypatch):
    """Blocks are tried on the CPU, too, however small the matrices are."""
    monkeypatch.setitem(symmetric.LIMITS, "cpu", symmetric.LIMITS["cuda"])


def matrices(values, seed=0, n_steps=6, turn=1e-6):
    """Matrices with these eigenvalues whose eigenvectors turn a little from one to the next."""
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
    for _ in range(n_steps):
        x = (q * values) @ q.T
        yield (x + x.T) / 2
        q, _ = np.linalg.qr(q + turn * rng.standard_normal(q.shape) / len(q) ** 0.5)


def applied(sequence, x, tau=1.0):
    sequence.begin(x, tau)
    return sequence.finish(x, to_host(sequence.report).tolist())


def expected(x, tau=1.0):
    values, vectors = np.linalg.eigh(x)
    kept = np.maximum(abs(values) - tau, 0)
    return (vectors * np.copysign(kept, values)) @ vectors.T, kept.sum()


@pytest.mark.parametrize("values", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_each_result_is_lapack_s_and_most_come_from_blocks(xp, values, dtype):
    sequence = SymmetricSequence(xp.zeros((N, N), dtype))
    for given in matrices(values):
        x = xp.asarray(given.astype(dtype))
        norm = applied(sequence, x)
        wanted, wanted_norm = expected(given)
        assert namespace(x) is xp
        assert x.dtype == dtype
        np.testing.assert_allclose(to_host(x), wanted, atol=1e-11 if dtype == "float64" else 1e-4)
        assert float(norm) == pytest.approx(wanted_norm, rel=1e-9 if dtype == "float64" else 1e-4, abs=1e-4)
    assert sequence.n_blocks >= 4


STRANGERS = {  # an eigenvalue that the last matrix did not have, and where it is
    "above": ("few above", -1, 5.0),
    "far below 0": ("few above", -1, -3.0),
    "below": ("few below", 0, 0.5),
    "far below 0, few below": ("few below", 0, -3.0),
    "below where there was none": ("all above", 3, 0.5),
    "hardly below where there was none": ("all above", 3, 1 - 1e-7),
    "above where there was none": ("none", 3, 2.0),
    "far below 0 where there was none": ("none", 3, -2.0),
}


@pytest.mark.parametrize(("name", "place", "value"), STRANGERS.values(), ids=STRANGERS)
def test_an_eigenvalue_that_comes_from_nowhere_is_not_missed(xp, name, place, value):
    """Its vector is orthogonal to the block, which no iteration finds: only the proof can."""
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((N, N)))[0]
    sequence = SymmetricSequence(xp.zeros((N, N)))
    values = SPECTRA[name].copy()
    for _ in range(3):
        applied(sequence, xp.asarray((q * values) @ q.T))
    blocks = sequence.n_blocks
    assert blocks
    values[place] = value
    x = xp.asarray((q * values) @ q.T)
    applied(sequence, x)
    assert sequence.n_blocks == blocks
    np.testing.assert_allclose(to_host(x), expected((q * values) @ q.T)[0], atol=1e-11)


def test_a_wider_group_than_the_block_is_found(xp):
    sequence = SymmetricSequence(xp.zeros((N, N)))
    for n_above in (3, 4, 9, 18, 60, 150, 195, 200):
        values = np.concatenate([np.linspace(9, 3, n_above), np.linspace(0.5, 0.1, N - n_above)])
        for given in matrices(values, n_steps=2):
            x = xp.asarray(given.copy())
            applied(sequence, x)
            np.testing.assert_allclose(to_host(x), expected(given)[0], atol=1e-11)


def test_an_indefinite_matrix_has_a_full_decomposition(xp):
    values = np.linspace(3, -3, N)
    sequence = SymmetricSequence(xp.zeros((N, N)))
    for given in matrices(values, n_steps=3):
        x = xp.asarray(given.copy())
        applied(sequence, x)
        np.testing.assert_allclose(to_host(x), expected(given)[0], atol=1e-11)
    assert (sequence.n_blocks, sequence.n_decompositions) == (0, 3)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_few_below_that_turn_steadily_need_less_and_less(xp, dtype):
    """As tau falls the few fall with it, and their vectors turn by less each time, about one axis."""
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.standard_normal((N, N)))[0]
    axis = rng.standard_normal((N, N)) / N
    sequence = SymmetricSequence(xp.zeros((N, N), dtype))
    starts, tau, angle = [], 1.0, 1e-3
    for _ in range(12):
        q = np.linalg.qr(q + angle * (axis - axis.T) @ q)[0]
        given = (q * np.concatenate([np.linspace(9, 4, N - 6), tau * np.linspace(0.9, 0.3, 6)])) @ q.T
        x = xp.asarray(((given + given.T) / 2).astype(dtype))
        sequence.begin(x, tau)
        report = to_host(sequence.report).tolist()
        starts.append(report[1])
        sequence.finish(x, report)
        close = 1e-11 if dtype == "float64" else 1e-4
        np.testing.assert_allclose(to_host(x), expected(given, tau)[0], atol=close)
        tau, angle = tau / 1.1, angle / 1.1
    assert sequence.n_blocks >= 9
    if dtype == "float64":
        first, second, *_ = (start for start in starts if start)
        assert second < first / 20  # the second block knows how the first one went


@pytest.mark.parametrize(
    ("values", "launches", "flops"), [("few above", 400, 40), ("few below", 250, 12), ("all above", 30, 1)]
)
def test_a_block_waits_for_nothing_and_multiplies_thin_blocks(values, launches, flops):
    """In `begin` no number is read, and products are those of n x n with a block; a factor is no product."""
    with standin.installed(None) as cupy:
        sequence = SymmetricSequence(cupy.zeros((N, N)))
        for given in matrices(SPECTRA[values], n_steps=5):
            x = cupy.asarray(given)
            with counted() as found:
                sequence.begin(x, 1.0)
            before = sequence.n_blocks
            sequence.finish(x, to_host(sequence.report).tolist())
        assert sequence.n_blocks == before + 1
    assert found.reads == 0
    assert found.launches < launches
    assert found.multiplied < flops * 2 * N**2 * 15


def test_definite_matrices_are_told_from_others(xp):
    for given in matrices(np.linspace(2, 1e-6, N), n_steps=1):
        assert float(is_definite(xp.asarray(given.copy()))) == 1
        for below in (1e-3, 1.5):
            assert float(is_definite(xp.asarray(given - below * np.eye(N)))) == 0


@pytest.mark.parametrize("shift", [0, 20], ids=["indefinite", "definite"])
def test_an_inverse_is_one(xp, shift):
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((30, 30)), rng.standard_normal((30, 4))
    x = x + x.T + shift * np.eye(30)
    found = inverse(xp.asarray(x.copy()))(xp.asarray(v))
    np.testing.assert_allclose(to_host(found), np.linalg.solve(x, v), atol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_orthonormal_columns_span_the_same(xp, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 12)) * 10.0 ** -np.arange(12)  # lengths do not matter
    x[:, 7] = 0
    if dtype == "float64":
        x[:, 5] = x[:, 4] / 3  # depends on another
    q = orthonormal(xp.asarray(x.astype(dtype)))
    assert q.dtype == dtype
    kept = np.delete(np.arange(12), [5, 7] if dtype == "float64" else 7)
    found = to_host(q).astype(float)
    np.testing.assert_allclose(
        found.T @ found, np.diag(np.isin(np.arange(12), kept)), atol=1e-11 if dtype == "float64" else 1e-5
    )
    scaled = x[:, kept] / np.linalg.norm(x[:, kept], axis=0)
    np.testing.assert_allclose(found @ (found.T @ scaled), scaled, atol=1e-5)


def test_both_slices_of_a_pair_are_those_of_the_prox(xp):
    from gpuensemble._linear.pairs import SymmetricPairs

    copies = np.arange(1.0, N + 1) % 3 + 1
    first, second = matrices(SPECTRA["few below"] / 2, n_steps=2, turn=1e-2)
    pairs = SymmetricPairs(xp.zeros((2, N, N)), xp.asarray(copies))
    for step in range(3):
        given = np.stack([first, 0.1 * second]) + 0.01 * step * np.eye(N)
        x, plain = xp.asarray(given.copy()), given.copy()
        pairs.begin(x, 1.0)
        norm = pairs.finish(x, to_host(pairs.report).tolist())
        assert float(norm) == pytest.approx(float(prox.tensor_nuclear_symmetric(plain, 1.0, copies)), rel=1e-9)
        np.testing.assert_allclose(to_host(x), plain, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_pass_makes_the_scaled_slices_bit_for_bit(dtype):
    """On a device the same is done by one operation after the other."""
    rng = np.random.default_rng(0)
    given, root = rng.standard_normal((2, N, N)).astype(dtype), (rng.integers(1, 9, N) ** 0.5).astype(dtype)
    x, plain = given.copy(), given.copy()
    scaled.to_slices(x, root)
    plain[0] += plain[1]
    plain[1] *= -2
    plain[1] += plain[0]
    plain *= root
    plain *= root[:, None]
    np.testing.assert_array_equal(x, plain)
    scaled.from_slices(x, root)
    plain /= root
    plain /= root[:, None]
    plain[0] += plain[1]
    plain[0] *= 0.5
    np.subtract(plain[0], plain[1], out=plain[1])
    np.testing.assert_array_equal(x, plain)
    np.testing.assert_allclose(x, given, atol=1e-14 if dtype == "float64" else 1e-5)
