"""The t-product and the t-SVD against block-circulant matrices, and against a plain full FFT."""

import numpy as np
import pytest
from test_prox import DTYPES, close, one_thread, random  # noqa: F401

from gpuensemble import tsvd
from gpuensemble._array.devices import namespace, to_host

SHAPES = [(4, 3), (3, 4), (2, 2), (1, 5)]
LENGTHS = [1, 2, 3, 6, 7]


def tensor(shape, n3, axis, dtype, seed=0):
    """A random tensor whose slices have that shape."""
    return np.moveaxis(random((n3, *shape), dtype, seed), 0, axis)


def circulant(a, axis):
    """The block-circulant matrix of a tensor: block (i, j) is the slice i - j."""
    front = np.moveaxis(a, axis, 0)
    n3 = len(front)
    return np.block([[front[(i - j) % n3] for j in range(n3)] for i in range(n3)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("n3", LENGTHS)
def test_tproduct_is_the_product_of_circulant_matrices(xp, n3, axis, dtype):
    a, b = tensor((4, 3), n3, axis, dtype), tensor((3, 2), n3, axis, dtype, 1)
    column = circulant(a, axis) @ np.moveaxis(b, axis, 0).reshape(-1, 2)
    expected = np.moveaxis(column.reshape(n3, 4, 2), 0, axis)
    close(tsvd.tproduct(xp.asarray(a), xp.asarray(b), axis), expected, xp, dtype, 10)


def test_a_real_tensor_times_a_complex_one(xp):
    a, b = tensor((4, 3), 5, 0, "float64"), tensor((3, 2), 5, 0, "complex128", 1)
    expected = tsvd.tproduct(a, b.real, 0) + 1j * tsvd.tproduct(a, np.ascontiguousarray(b.imag), 0)
    close(tsvd.tproduct(xp.asarray(a), xp.asarray(b), 0), expected, xp, "complex128")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_transpose_is_that_of_the_circulant_matrix(xp, axis):
    a = tensor((4, 3), 5, axis, "complex128")
    turned = to_host(tsvd.transpose(xp.asarray(a), axis))
    np.testing.assert_array_equal(circulant(turned, axis), circulant(a, axis).conj().T)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("n3", LENGTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_tsvd_rebuilds_the_tensor(xp, shape, n3, axis, dtype):
    x = tensor(shape, n3, axis, dtype)
    u, s, v = tsvd.tsvd(xp.asarray(x), axis)
    rebuilt = tsvd.tproduct(tsvd.tproduct(u, s, axis), tsvd.transpose(v, axis), axis)
    close(rebuilt, x, xp, dtype, np.linalg.norm(x))
    identity = np.zeros((n3, min(shape), min(shape)))
    identity[0] = np.eye(min(shape))
    for factor in (u, v):
        close(tsvd.tproduct(tsvd.transpose(factor, axis), factor, axis), np.moveaxis(identity, 0, axis), xp, dtype)
    full = np.linalg.svd(np.moveaxis(np.fft.fft(x, axis=axis), axis, 0), compute_uv=False)
    spectrum = np.fft.fft(np.moveaxis(to_host(s), axis, 0), axis=0)
    diagonals = np.stack([np.diag(row) for row in full])
    assert abs(spectrum - diagonals).max() <= 1e-3 * full.max() * (np.finfo(dtype).eps * 1e6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("n3", LENGTHS)
def test_the_norm_is_that_of_the_circulant_matrix(xp, n3, axis, dtype):
    x = tensor((4, 3), n3, axis, dtype)
    norm = tsvd.tensor_nuclear_norm(xp.asarray(x), axis)
    assert namespace(norm) is xp or xp is np
    assert norm.shape == ()
    assert norm.dtype == x.real.dtype
    expected = np.linalg.norm(circulant(x, axis), "nuc") / n3
    assert float(norm) == pytest.approx(expected, rel=1000 * float(np.finfo(dtype).eps))


BAD = {
    "two axes": (tsvd.tsvd, (np.ones((2, 2)),), ValueError, r"`x` must have at least 3 axes and one entry, got an"),
    "four axes": (tsvd.tsvd, (np.ones((2, 2, 2, 2)),), ValueError, r"`x` must have 3 axes, got an array of shape"),
    "axis": (tsvd.tensor_nuclear_norm, (np.ones((2, 2, 2)), 3), ValueError, r"`axis` must be between -3 and 2, got 3"),
    "NaN": (tsvd.tsvd, (np.full((2, 2, 2), np.nan),), ValueError, r"`x` must be finite, got nan at \[0, 0, 0\]"),
    "lengths": (tsvd.tproduct, (np.ones((2, 2, 3)), np.ones((2, 2, 4))), ValueError, r"`b` must have the length 3 of"),
    "slices": (tsvd.tproduct, (np.ones((2, 3, 4)), np.ones((2, 3, 4))), ValueError, r"`b` must have slices of 3 rows"),
    "infinity in b": (tsvd.tproduct, (np.ones((2, 2, 2)), np.full((2, 2, 2), np.inf)), ValueError, r"`b` must be fini"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence(xp, name):
    call, arguments, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        call(*(xp.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments))
