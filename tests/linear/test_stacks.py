"""Stacks of matrices on a device: decompositions as LAPACK's, in as many calls for ten matrices as for a hundred."""

import itertools
from typing import ClassVar

import numpy as np
import pytest

from cudasim import standin
from cudasim.shim import ShimModule, gxx
from cudasim.tally import TALLY, counted
from gpuensemble import prox, tsvd
from gpuensemble._array.devices import to_host
from gpuensemble._kernels.cpu.slices import jacobi
from gpuensemble._linear import stacks, thresholding

pytestmark = pytest.mark.skipif(gxx() is None, reason="g++ is not installed: no kernel runs on the stand-in device")
DTYPES = ("float32", "float64", "complex64", "complex128")


class Engine(ShimModule):
    """This runs `orthogonalise` by its twin, which has its bits (tests/kernels) and is faster than a simulated device.

    `wanted` has for each launch of it how many slices were to be made orthogonal.
    """

    wanted: ClassVar[list[int]] = []

    def get_function(self, expression):
        if not expression.startswith("orthogonalise"):
            return super().get_function(expression)
        parts = int(expression[-2])

        def run(grid, block, arguments, *, shared_mem=0):
            rows, turns, wanted, n_slices, n_rows, length, tolerance, noise = arguments
            assert rows.shape == (n_slices, n_rows, length * parts)
            self.wanted.append(int(wanted.sum()))
            jacobi._orthogonalise(rows, turns, wanted, parts, tolerance, noise, 0, n_slices)

        return run


@pytest.fixture
def device():
    with standin.installed(Engine) as module:
        Engine.wanted.clear()
        yield module


def random(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.startswith("c") else x).astype(dtype)


SPECTRA = {
    "random": lambda k: np.random.default_rng(3).random(k),
    "graded": lambda k: np.logspace(0, -12, k),
    "steep": lambda k: np.logspace(0, -30, k),
    "clusters": lambda k: 1e-4 ** (np.arange(k) % 3),
    "almost equal": lambda k: 1 + 1e-9 * np.random.default_rng(4).random(k),
    "equal": np.ones,
    "one": lambda k: 1.0 * (np.arange(k) == 0),
    "rank-deficient": lambda k: 1.0 * (np.arange(k) < k // 2),
    "zero": np.zeros,
}


def stack(m, n, dtype):
    """One matrix of each spectrum."""
    k = min(m, n)
    values = np.array([make(k) for make in SPECTRA.values()])
    u, v = (np.linalg.qr(random((len(values), size, k), dtype, size))[0] for size in (m, n))
    return ((u * values[:, None, :]) @ v.conj().swapaxes(1, 2)).astype(dtype)


def lapack(x, tau, weights=1.0):
    u, sigma, v = np.linalg.svd(x.astype("complex128" if x.dtype.kind == "c" else "float64"), full_matrices=False)
    return (u * np.maximum(sigma - tau * weights, 0)[..., None, :]) @ v


SHAPES = [(1, 1), (1, 4), (3, 5), (12, 12), (40, 33), (33, 90)]


@pytest.mark.parametrize(("shape", "dtype"), [*itertools.product(SHAPES, DTYPES), ((100, 100), "float64")])
def test_a_decomposition_is_one(device, shape, dtype):
    """Orthonormal factors, whatever the rank, the product to 100 eps, and LAPACK's singular values, to 100 eps."""
    x, eps = stack(*shape, dtype), float(np.finfo(dtype).eps)
    u, sigma, v = map(to_host, stacks.svd(device.asarray(x)))
    assert (u.dtype, sigma.dtype, v.dtype) == (x.dtype, x.real.dtype, x.dtype)
    identity = np.eye(min(shape))
    assert abs(u.conj().swapaxes(1, 2) @ u - identity).max() <= 100 * eps
    assert abs(v @ v.conj().swapaxes(1, 2) - identity).max() <= 100 * eps
    assert abs((u * sigma[:, None, :]) @ v - x).max() <= 100 * eps
    assert (np.diff(sigma, axis=1) <= 0).all()
    exact = np.linalg.svd(x.astype("complex128"), compute_uv=False)
    assert abs(sigma - exact).max() <= 100 * eps
    found = np.sort(to_host(stacks.singular_values(device.asarray(x))), axis=1)[:, ::-1]
    assert abs(found - exact).max() <= 100 * eps


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1e200, 1e307])
def test_a_decomposition_of_entries_of_any_size(device, size):
    x = random((3, 6, 9), "float64")
    u, sigma, v = map(to_host, stacks.svd(device.asarray(x * size)))
    exact = np.linalg.svd(x, compute_uv=False)
    allowed = 1e-13 if size > 1e-300 else 1e-10  # the entries themselves have lost digits
    np.testing.assert_allclose(sigma / size, exact, rtol=allowed)
    np.testing.assert_allclose((u * exact[:, None, :]) @ v, x, atol=10 * allowed)
    found = to_host(stacks.singular_values(device.asarray(x * size))) / size
    np.testing.assert_allclose(np.sort(found)[:, ::-1], exact, rtol=allowed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(12, 12), (9, 30), (40, 33)])
def test_thresholding_is_that_of_lapack(device, shape, dtype):
    """For thresholds between, at and below all singular values; with a weight for each rank, too."""
    x = stack(*shape, dtype)
    allowed = thresholding.ACCURACY[x.real.dtype.name]
    weights = np.random.default_rng(1).random(min(shape))
    for tau in (0.0, 1e-13, 1e-9, 3e-7, 1e-4, 3e-3, 0.5, 2.0):
        found = to_host(prox.nuclear(device.asarray(x), tau, check=False))
        assert np.linalg.norm(found - lapack(x, tau), axis=(1, 2)).max() <= allowed
        distinct = x[[0, 1]]  # equal singular values have no order that their weights could follow
        found = to_host(prox.nuclear(device.asarray(distinct), tau, device.asarray(weights), check=False))
        assert np.linalg.norm(found - lapack(distinct, tau, weights), axis=(1, 2)).max() <= allowed


def test_leading_axes_are_one_stack(device):
    x = random((2, 2, 3, 9, 10), "float64")
    np.testing.assert_allclose(to_host(prox.nuclear(device.asarray(x), 1.0)), lapack(x, 1.0), atol=1e-12)
    for axis in (-3, -2, -1):
        found = to_host(prox.tensor_nuclear(device.asarray(x), 1.0, axis))
        for i, j in np.ndindex(2, 2):
            np.testing.assert_allclose(found[i, j], prox.tensor_nuclear(x[i, j], 1.0, axis), atol=1e-12)


# ------------------------------------------------------------------------------------------------ what it costs

CALLS = {
    "nuclear": lambda x: prox.nuclear(x, 1.0),
    "nuclear, unchecked": lambda x: prox.nuclear(x, 1.0, check=False),
    "nuclear, small threshold": lambda x: prox.nuclear(x, 1e-9),
    "tensor_nuclear": lambda x: prox.tensor_nuclear(x, 1.0, 0),
    "tensor_nuclear, leading axis": lambda x: prox.tensor_nuclear(x[:, None], 1.0, 1),
    "tsvd": lambda x: tsvd.tsvd(x, 0),
    "tensor_nuclear_norm": lambda x: tsvd.tensor_nuclear_norm(x, 0),
}


def one_by_one(function, most):
    """A decomposition of NumPy's that counts a launch for each matrix, as CuPy's is beyond so many rows or columns."""

    def call(x, *args, **kwargs):
        if x.ndim > 2 and max(x.shape[-2:]) > most:
            TALLY.launches += len(x)
        return function(x, *args, **kwargs)

    return call


@pytest.mark.parametrize("side", [3, 12, 40, 100])
@pytest.mark.parametrize("name", CALLS)
def test_launches_and_reads_do_not_grow_with_the_stack(device, monkeypatch, name, side):
    monkeypatch.setattr(np.linalg, "svd", one_by_one(np.linalg.svd, 32))
    monkeypatch.setattr(np.linalg, "qr", one_by_one(np.linalg.qr, 0))
    found = []
    for n_slices in (10, 100) if side < 100 else (4, 12):
        x = device.asarray(random((n_slices, side, side + 1), "float64") + 10 * np.eye(side, side + 1))
        with counted() as one:
            CALLS[name](x)
        found.append((one.launches, one.kernels, one.reads))
    assert found[0] == found[1]
    assert found[0][0] <= 150
    assert found[0][2] <= (0 if name.endswith("unchecked") else 4)


def test_the_gram_matrix_is_enough_where_it_is_accurate(device):
    """Slices whose thresholds are above what it blurs are left alone by the rotations; all others are not."""
    x = device.asarray(stack(12, 20, "float64"))
    n_graded = 3  # "graded", "steep" and "clusters" have small values that are not 0
    for tau, most in [(0.5, 0), (1e-3, 0), (1e-7, len(x))]:
        Engine.wanted.clear()
        prox.nuclear(x, tau)
        assert (n_graded <= Engine.wanted[0] <= most) if most else Engine.wanted == [0]
    stacks.svd(x)
    assert Engine.wanted[-1] == len(x)


def test_the_gram_matrix_alone_would_not_agree(device, monkeypatch):
    monkeypatch.setitem(thresholding.CARE, "float64", 0.0)
    monkeypatch.setitem(thresholding.ACCURACY, "float64", np.inf)
    x = stack(40, 40, "float64")
    found = to_host(prox.nuclear(device.asarray(x), 1e-9))
    assert np.linalg.norm(found - lapack(x, 1e-9), axis=(1, 2)).max() > 1e-9


@pytest.mark.parametrize("call", [stacks.singular_values, stacks.svd, lambda x: thresholding.by_products(x, 0.5, None)])
def test_a_large_stack_goes_to_the_library_in_parts(device, monkeypatch, call):
    x = device.asarray(random((23, 5, 4), "complex64"))
    whole, sizes, eigh = call(x), [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda gram: sizes.append(len(gram)) or eigh(gram))
    for limit, size in [("ENTRIES", 160), ("MATRICES", 10)]:
        sizes.clear()
        with monkeypatch.context() as patch:
            patch.setattr(stacks, limit, size)
            found = call(x)
        assert sizes == [10, 10, 3]
        pairs = zip(found, whole, strict=True) if isinstance(whole, tuple) else [(found, whole)]
        for one, two in pairs:
            np.testing.assert_array_equal(to_host(one), to_host(two))


def not_a_number(squares, vectors):
    squares[::2], vectors[::2] = np.nan, np.nan


def not_orthogonal(squares, vectors):
    vectors[::2, :, 0] = vectors[::2, :, 1]


def of_another_matrix(squares, vectors):
    squares[::2], vectors[::2] = squares[1], vectors[1]


def not_converged(squares, vectors):
    c, s = np.cos(1e-9), np.sin(1e-9)
    vectors[::2, :, -2:] = vectors[::2, :, -2:] @ np.array([[c, s], [-s, c]])


@pytest.mark.parametrize("fault", [not_a_number, not_orthogonal, of_another_matrix, not_converged])
def test_eigenvectors_that_a_library_got_wrong_are_made_good(device, monkeypatch, fault):
    """As cuSOLVER may, without a word."""
    x, eigh = np.concatenate([random((3, 40, 44), "float64"), stack(40, 44, "float64")]), np.linalg.eigh

    def faulty(gram):
        found = eigh(gram)
        fault(*found)
        return found

    monkeypatch.setattr(np.linalg, "eigh", faulty)
    for tau in (3.0, 1e-7):
        np.testing.assert_allclose(to_host(prox.nuclear(device.asarray(x), tau)), lapack(x, tau), atol=1e-9)
    u, sigma, v = map(to_host, stacks.svd(device.asarray(x)))
    np.testing.assert_allclose((u * sigma[:, None, :]) @ v, x, atol=1e-12)
    np.testing.assert_allclose(sigma, np.linalg.svd(x, compute_uv=False), atol=1e-12)


@pytest.mark.parametrize("n3", [1, 2, 3, 6, 7])
def test_a_real_tensor_has_real_factors_whatever_phases_a_library_gives_to_eigenvectors(device, monkeypatch, n3):
    x, eigh, rng = random((n3, 5, 4), "float64"), np.linalg.eigh, np.random.default_rng(5)

    def turned(gram):
        squares, vectors = eigh(gram)
        phases = rng.random(squares.shape) * (2j * np.pi if gram.dtype.kind == "c" else 0)
        return squares, vectors * np.exp(phases)[:, None, :]

    monkeypatch.setattr(np.linalg, "eigh", turned)
    u, sigma, v = map(to_host, tsvd.tsvd(device.asarray(x), 0))
    assert u.dtype == sigma.dtype == v.dtype == "float64"
    rebuilt = tsvd.tproduct(tsvd.tproduct(u, sigma, 0), tsvd.transpose(v, 0), 0)
    np.testing.assert_allclose(rebuilt, x, atol=1e-13)
    for factor in (u, v):
        spectrum = np.fft.fft(factor, axis=0)
        product = spectrum.conj().swapaxes(1, 2) @ spectrum
        np.testing.assert_allclose(product, np.broadcast_to(np.eye(4), product.shape), atol=1e-13)
