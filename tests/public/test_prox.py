"""Proximal operators: their optimality conditions, agreement with LAPACK on every path, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from cudasim.tally import TALLY
from gpuensemble import prox
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._linear import thresholding
from support import TOLERANCE

DTYPES = ("float32", "float64", "complex64", "complex128")
REAL = {"complex64": "float32", "complex128": "float64"}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Matrices are small here: more threads of BLAS would only wait for each other."""
    with threadpool_limits(1, "blas"):
        yield


def random(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.startswith("c") else x).astype(dtype)


def tolerance(dtype):
    return TOLERANCE[np.dtype(REAL.get(dtype, dtype))]


def lapack(x, tau, weights=1.0):
    """Singular value thresholding by LAPACK's SVD, in double precision."""
    u, sigma, v = np.linalg.svd(x.astype("complex128" if x.dtype.kind == "c" else "float64"), full_matrices=False)
    return (u * np.maximum(sigma - tau * weights, 0)[..., None, :]) @ v


def close(actual, expected, xp, dtype, scale=1.0):
    """Same library, dtype and shape, and equal to the tolerance of the dtype, relative to `scale`."""
    assert namespace(actual) is xp
    assert actual.dtype == np.dtype(dtype)
    assert actual.shape == expected.shape
    assert abs(to_host(actual) - expected).max() <= tolerance(dtype) * scale


# ------------------------------------------------------------------------------------------------ entries and columns


@pytest.mark.parametrize("dtype", DTYPES)
def test_soft_satisfies_its_optimality_condition(xp, dtype):
    x, tau = random((3, 5, 4), dtype), random((5, 1), "float64", 1) ** 2
    z = prox.soft(xp.asarray(x), xp.asarray(tau))
    assert z.dtype == np.dtype(dtype)
    z = to_host(z)
    kept = abs(z) > 0
    assert 0 < kept.sum() < kept.size
    slope = np.where(kept, z / np.where(kept, abs(z), 1), 0)  # of the absolute value
    rest = x - z
    limit = np.broadcast_to(tau, x.shape)
    np.testing.assert_allclose(rest[kept], (limit * slope)[kept], rtol=0, atol=tolerance(dtype))
    assert (abs(rest[~kept]) <= limit[~kept] * (1 + tolerance(dtype))).all()
    close(prox.soft(xp.asarray(x), 0.0), x, xp, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_l21_satisfies_its_optimality_condition(xp, dtype):
    x = random((2, 6, 5), dtype)
    x[0, :, 1] = 0
    z = prox.l21(xp.asarray(x), 2.5)
    assert z.dtype == np.dtype(dtype)
    z = to_host(z)
    length, rest = np.linalg.norm(z, axis=1, keepdims=True), x - z
    kept = length[:, 0] > 0
    assert 0 < kept.sum() < kept.size
    unit = z / np.where(length > 0, length, 1)
    np.testing.assert_allclose(rest.swapaxes(1, 2)[kept], 2.5 * unit.swapaxes(1, 2)[kept], atol=2.5 * tolerance(dtype))
    assert (np.linalg.norm(rest, axis=1)[~kept] <= 2.5).all()
    per_column = np.array([0.0, 1.0, 2.0, 3.0, 1e3])
    expected = np.concatenate([prox.l21(x[..., i : i + 1], per_column[i]) for i in range(5)], axis=-1)
    close(prox.l21(xp.asarray(x), xp.asarray(per_column)), expected, xp, dtype)


def test_mcp_weights(xp):
    x = xp.asarray([[0.0, -1.0], [3.0, -4.0]])
    assert to_host(prox.mcp_weights(x, 2.0)).tolist() == [[1.0, 0.5], [0.0, 0.0]]
    assert to_host(prox.mcp_weights(xp.asarray([3j, 1 + 0j]), 4)).tolist() == [0.25, 0.75]


# ------------------------------------------------------------------------------------------------ singular values


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 3), (2, 33, 35), (2, 2, 3, 9), (1, 5), (130, 129), (2, 18, 40), (3, 9, 10)])
def test_nuclear_agrees_with_lapack(xp, shape, dtype):
    x = random(shape, dtype)
    weights = np.random.default_rng(1).random(min(shape[-2:]))
    scale = np.linalg.norm(x, 2, axis=(-2, -1)).max()
    for tau in (0.0, 1.5, 100.0):
        close(prox.nuclear(xp.asarray(x), tau), lapack(x, tau), xp, dtype, scale)
        close(prox.nuclear(xp.asarray(x), tau, xp.asarray(weights)), lapack(x, tau, weights), xp, dtype, scale)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("size", range(2, 12))
def test_equal_singular_values_take_a_weight_each(xp, size, dtype):
    """By rank: of two that are 5 one is reduced by 0 and one by 2, not both by the same."""
    x = 5 * np.eye(size, size + 1, dtype=dtype)
    found = to_host(prox.nuclear(xp.asarray(x), 2.0, xp.asarray(np.arange(size) % 2.0)))
    values = np.linalg.svd(found, compute_uv=False)
    np.testing.assert_allclose(values, [5.0] * (size - size // 2) + [3.0] * (size // 2), rtol=1e-5)


@pytest.mark.parametrize("shape", [(2, 7), (20, 8), (129, 129), (12, 9)])
@given(seed=st.integers(0, 99), tau=st.floats(0.1, 6))
@settings(max_examples=8)
def test_nuclear_satisfies_its_optimality_condition(shape, seed, tau):
    """x - z = tau (U V' + N), with U, V the singular vectors of z, |N| at most 1, and U'N = 0, N V = 0."""
    x = random(shape, "complex128", seed)
    z = prox.nuclear(x, tau)
    u, sigma, v = np.linalg.svd(z, full_matrices=False)
    kept = sigma > 1e-8
    u, v = u[:, kept], v[kept]
    rest = (x - z) / tau - u @ v
    assert np.linalg.norm(rest, 2) <= 1 + 1e-8
    assert abs(u.conj().T @ rest).max(initial=0) < 1e-8
    assert abs(rest @ v.conj().T).max(initial=0) < 1e-8


SPECTRA = {
    "random": lambda k: np.random.default_rng(3).random(k),
    "rank-deficient": lambda k: np.where(np.arange(k) < max(1, k // 3), 1.0, 0.0),
    "clustered": lambda k: 1e3 * 1e-3 ** (np.arange(k) % 3) * (1 + 1e-9 * np.random.default_rng(4).random(k)),
    "graded": lambda k: np.logspace(0, -16, k),
}
PATHS = {
    "gram": lambda x, tau: thresholding.by_gram(x, thresholding.thresholds(x, tau, None)),
    "products": lambda x, tau: thresholding.by_products(x, tau, None),
    "slices": lambda x, tau: thresholding.by_slices(x, tau, None),
    "chosen": prox.nuclear,
}


def matrix(spectrum, m, n, dtype):
    u, v = (np.linalg.qr(random((size, min(m, n)), dtype, size))[0] for size in (m, n))
    return (u * spectrum) @ v.conj().T


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", SPECTRA)
def test_every_path_agrees_with_lapack(xp, path, name):
    """To 1e-10 of the largest singular value in float64, as the documentation says, and to 1e-4 in float32."""
    sizes = [(8, 70), (50, 5), (30, 2)] if path == "slices" else [(48, 48), (40, 60)]
    if xp is not np and path in ("products", "chosen"):  # a kernel that is slow to simulate; test_stacks.py has more
        sizes = [(13, 13), (12, 20)]
    for dtype, allowed in [("float64", 1e-10), ("complex128", 1e-10), ("float32", 1e-4), ("complex64", 1e-4)]:
        for m, n in sizes:
            x = matrix(SPECTRA[name](min(m, n)), m, n, dtype).astype(dtype)
            u, sigma, v = np.linalg.svd(x.astype("complex128"), full_matrices=False)
            for tau in sigma[0] * np.array([0.0, 1e-14, 1e-11, 1e-8, 1e-6, 1e-5, 1e-4, 1e-2, 0.5, 2.0]):
                error = to_host(PATHS[path](xp.asarray(x), tau)) - (u * np.maximum(sigma - tau, 0)) @ v
                assert np.linalg.norm(error) <= allowed * sigma[0], (m, n, dtype, tau)


@pytest.mark.parametrize("path", ["gram", "products"])
def test_the_gram_matrix_alone_would_not_agree(monkeypatch, path):
    """What CARE is for: without it, small singular values are wrong."""
    monkeypatch.setitem(thresholding.CARE, "float64", 0.0)
    monkeypatch.setitem(thresholding.ACCURACY, "float64", np.inf)
    x = matrix(SPECTRA["graded"](60), 60, 60, "float64")
    assert np.linalg.norm(PATHS[path](x, 1e-9) - lapack(x, 1e-9), 2) > 1e-10


def test_one_function_chooses():
    chosen = {
        ((2000, 2), "c", "cpu"): "slices",
        ((9, 8, 70), "c", "cuda:0"): "slices",
        ((9, 8, 70), "f", "cuda:0"): "slices",
        ((9, 8, 70), "f", "cpu"): "products",
        ((1, 5), "c", "cpu"): "products",
        ((128, 400), "c", "cpu"): "products",
        ((129, 400), "f", "cpu"): "gram",
        ((9, 32, 32), "f", "cuda:0"): "products",
        ((9, 200, 300), "f", "cuda:1"): "products",
        ((128, 400), "f", "cuda:0"): "products",
        ((129, 400), "c", "cuda:0"): "gram",
        ((1, 129, 400), "c", "cuda:0"): "gram",
    }
    for (shape, kind, device), name in chosen.items():
        assert thresholding.algorithm(shape, kind, device) == name


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e25, 1e200])
@pytest.mark.parametrize("shape", [(3, 20), (20, 20), (130, 130)])
def test_entries_of_any_size(shape, size):
    x = random(shape, "float64") * size
    np.testing.assert_allclose(prox.nuclear(x, 2 * size) / size, lapack(x / size, 2.0), atol=1e-12)
    small = random((5, 4, 3), "float64")
    expected = prox.tensor_nuclear(small, 1.0, 0)
    np.testing.assert_allclose(prox.tensor_nuclear(small * size, size, 0) / size, expected, atol=1e-12)


def test_zero_stays_zero(xp):
    for shape in [(2, 5), (40, 30), (130, 130)]:
        assert not to_host(prox.nuclear(xp.zeros(shape), 1.0)).any()
        assert not to_host(prox.nuclear(xp.zeros(shape), 0.0)).any()


def test_unchecked_calls_wait_for_nothing(xp):
    x = xp.asarray(random((5, 6, 4), "float64"))
    before = TALLY.reads
    prox.soft(x, x * x, check=False)
    prox.l21(x, 1.0, check=False)
    prox.mcp_weights(x, 1.0, check=False)
    prox.nuclear(x, 1.0, check=False)
    prox.tensor_nuclear(x, 1.0, 0, check=False)
    assert TALLY.reads == before


# ------------------------------------------------------------------------------------------------ tensors


def full_fft(x, tau, axis):
    """The definition: the whole spectrum, one LAPACK SVD a slice."""
    spectrum = np.moveaxis(np.fft.fft(x.astype("complex128"), axis=axis), axis, 0)
    shrunk = np.stack([lapack(part, tau) for part in spectrum])
    out = np.moveaxis(np.fft.ifft(shrunk, axis=0), 0, axis)
    return out if x.dtype.kind == "c" else out.real


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(5, 6, 2), (6, 5, 3), (4, 1, 7), (2, 9, 8), (1, 12, 13), (7, 11, 10)])
def test_tensor_nuclear_agrees_with_the_full_transform(xp, shape, axis, dtype):
    x = random(shape, dtype)
    for tau in (0.0, 2.0):
        close(prox.tensor_nuclear(xp.asarray(x), tau, axis), full_fft(x, tau, axis), xp, dtype, np.linalg.norm(x))


def test_tensors_in_a_batch(xp):
    x = random((2, 3, 5, 4, 6), "float64")
    expected = np.stack([[full_fft(one, 1.0, 1) for one in two] for two in x])
    close(prox.tensor_nuclear(xp.asarray(x), 1.0, -2), expected, xp, "float64", 10)
    close(prox.tensor_nuclear(xp.asarray(x), 1.0, 3), expected, xp, "float64", 10)


def test_the_tensor_prox_decreases_its_objective():
    from gpuensemble import tsvd

    x = random((6, 5, 4), "float64")
    z = prox.tensor_nuclear(x, 0.7, 0)

    def objective(y):
        return 0.7 * tsvd.tensor_nuclear_norm(y, 0) + ((y - x) ** 2).sum() / 2

    rng = np.random.default_rng(0)
    assert all(objective(z) < objective(z + 1e-3 * rng.standard_normal(z.shape)) for _ in range(20))


def test_arguments_are_left_alone(xp):
    for dtype in ("float64", "complex128"):
        x = random((6, 5, 4), dtype)
        given = xp.asarray(x)
        for call in (prox.soft, prox.l21, prox.nuclear, prox.tensor_nuclear):
            call(given, 0.5)
            assert (to_host(given) == x).all(), call.__name__


# ------------------------------------------------------------------------------------------------ bad input


def with_entry(value):
    x = np.ones((3, 3, 3))
    x[1, 2, 0] = value
    return x


X = np.ones((3, 3, 3))
BAD = {
    "NaN": (prox.soft, (with_entry(np.nan), 1.0), ValueError, r"`x` must be finite, got nan at \[1, 2, 0\]\.$"),
    "infinity": (prox.l21, (with_entry(-np.inf), 1.0), ValueError, r"`x` must be finite, got -inf at \[1, 2, 0\]\.$"),
    "NaN in a matrix": (prox.nuclear, (with_entry(np.nan), 1.0), ValueError, r"`x` must be finite, got nan at \["),
    "NaN in a tensor": (prox.tensor_nuclear, (with_entry(np.inf), 1.0), ValueError, r"`x` must be finite, got inf at"),
    "NaN for weights": (prox.mcp_weights, (with_entry(np.nan), 1.0), ValueError, r"`x` must be finite, got nan at"),
    "complex NaN": (prox.nuclear, (np.full((3, 3), complex(0, np.inf)), 1.0), ValueError, r"`x` must be finite, got "),
    "negative tau": (prox.soft, (X, -1.0), ValueError, r"`tau` must be finite and not negative, got -1\.0\.$"),
    "NaN as tau": (prox.nuclear, (X, np.nan), ValueError, r"`tau` must be finite and not negative, got nan\.$"),
    "one negative tau": (prox.soft, (X, np.array([1, 2, -3.0])), ValueError, r"`tau` must not be negative, got -3\.0"),
    "tau of a wrong shape": (prox.l21, (X, np.ones((3, 1))), ValueError, r"`tau` must broadcast to shape \(3, 1, 3\)"),
    "tau for each matrix": (prox.nuclear, (X, np.ones(3)), TypeError, r"`tau` must be a number, got "),
    "complex tau": (prox.soft, (X, np.ones(3) * 1j), TypeError, r"`tau` must hold real numbers, got dtype complex128"),
    "a vector": (prox.nuclear, (np.ones(3), 1.0), ValueError, r"`x` must have at least 2 axes and one entry, got an"),
    "a vector for l21": (prox.l21, (np.ones(3), 1.0), ValueError, r"`x` must have at least 2 axes .* shape \(3,\)\.$"),
    "a matrix": (prox.tensor_nuclear, (np.ones((3, 3)), 1.0), ValueError, r"`x` must have at least 3 axes .*\(3, 3\)"),
    "nothing": (prox.nuclear, (np.ones((0, 3)), 1.0), ValueError, r"`x` must have at least 2 axes and one entry"),
    "an empty list": (prox.soft, (np.ones(0), 1.0), ValueError, r"`x` must have at least one entry, got an array of"),
    "strings": (prox.soft, (np.array(["a"]), 1.0), TypeError, r"`x` must hold numbers, got dtype <U1\.$"),
    "axis": (prox.tensor_nuclear, (X, 1.0, 3), ValueError, r"`axis` must be between -3 and 2, got 3\.$"),
    "axis of a batch": (prox.tensor_nuclear, (X[None], 1.0, 0), ValueError, r"`axis` must be one of the last three"),
    "axis as a word": (prox.tensor_nuclear, (X, 1.0, "x"), TypeError, r"`axis` must be an integer, got 'x'"),
    "few weights": (
        prox.nuclear,
        (X, 1.0, [1.0, 2.0]),
        ValueError,
        r"`weights` must have min\(m, n\)=3 entries, got 2",
    ),
    "negative weight": (prox.nuclear, (X, 1.0, [1.0, -2, 0]), ValueError, r"`weights` must not be negative, got -2\.0"),
    "NaN weight": (prox.nuclear, (X, 1.0, [1.0, 0, np.nan]), ValueError, r"`weights` must be finite, got nan at \[2\]"),
    "gamma": (prox.mcp_weights, (X, 0.0), ValueError, r"`gamma` must be positive, got 0\.$"),
    "negative gamma": (prox.mcp_weights, (X, -2.0), ValueError, r"`gamma` must be finite and not negative, got -2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence(xp, name):
    call, arguments, kind, message = BAD[name]
    on_device = [xp.asarray(a) if isinstance(a, np.ndarray) and a.dtype.kind != "U" else a for a in arguments]
    with pytest.raises(kind, match=message):
        call(*on_device)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
def test_lengths_of_columns_whose_squares_have_no_place(xp, dtype, size):
    size = size ** (0.1 if dtype == "float32" else 1)
    x = xp.asarray(np.array([[3, 0], [4, 0], [0, 1e-4]]).astype(dtype) * size)
    eps = 1e-6 if dtype == "float32" else 1e-14
    np.testing.assert_array_equal(to_host(prox.l21(x, 0.0)), to_host(x))
    shrunk = to_host(prox.l21(x, size))
    np.testing.assert_allclose(shrunk / size, np.array([[2.4, 0], [3.2, 0], [0, 0]]), rtol=eps, atol=eps)
