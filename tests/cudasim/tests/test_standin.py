"""The stand-in device refuses what CuPy refuses, and counts what makes a host wait."""

import numpy as np
import pytest

from cudasim import standin
from cudasim.shim import ShimModule
from cudasim.tally import counted


@pytest.fixture
def cupy():
    with standin.installed(ShimModule) as module:
        yield module


REFUSED = {
    "implicit conversion": lambda cupy, x: np.asarray(x),
    "a NumPy function": lambda cupy, x: np.sqrt(x),
    "mixing with NumPy": lambda cupy, x: x + np.ones(3),
    "mixing with NumPy on the left": lambda cupy, x: np.ones(3) + x,
    "mixing with a list": lambda cupy, x: [1, 2, 3] * x,
    "a NumPy array as argument": lambda cupy, x: cupy.where(x > 0, x, np.zeros(3)),
    "a list for a ufunc": lambda cupy, x: cupy.add(x, [1, 2, 3]),
    "an index of NumPy's": lambda cupy, x: x[np.array([0])],
    "an index that names an element twice": lambda cupy, x: x.__setitem__(cupy.asarray([0, 0]), 1.0),
}


@pytest.mark.parametrize("attempt", REFUSED.values(), ids=REFUSED)
def test_mixing_is_refused(cupy, attempt):
    with pytest.raises((TypeError, IndexError), match=r"."):
        attempt(cupy, cupy.asarray([1.0, 2.0, 3.0]))


@pytest.mark.skipif(standin.real is None, reason="CuPy is not installed")
@pytest.mark.parametrize(
    "attempt",
    [
        lambda cupy, x: cupy.nothing(x),
        lambda cupy, x: cupy.isin_sorted(x),
        lambda cupy, x: x.to_device("cpu"),
        lambda cupy, x: cupy.linalg.svd(x, hermitian=True),
        lambda cupy, x: cupy.sum(x, where=x > 0),
    ],
)
def test_unknown_names_and_keywords_are_refused(cupy, attempt):
    with pytest.raises((AttributeError, TypeError), match="has no"):
        attempt(cupy, cupy.asarray([[1.0, 2.0], [3.0, 4.0]]))


def test_waiting_for_the_device_is_counted(cupy):
    x = cupy.asarray([1.0, 2.0])
    with counted() as quiet:
        total = (x * 2 + 1).sum()
    assert total.shape == ()
    assert quiet.reads == 0
    with counted() as loud:
        assert float(total) == 8
        assert bool((x > 0).all())
        assert x.get().tolist() == [1.0, 2.0]
    assert (loud.reads, loud.down) == (3, 8 + 1 + 16)


def test_launches_and_bytes_are_counted(cupy):
    with counted() as found:
        x = cupy.asarray(np.ones((4, 2)))
    assert (found.launches, found.up, found.reads) == (0, 64, 0)
    with counted() as views:
        x.T.reshape(2, 2, 2)[:, ::2].view("int64")
    assert views.launches == 0
    with counted() as found:
        y = x @ x.T  # 1
        y += 1  # 2
        y[0] = 3  # 3
        cupy.multiply(y, 2, out=y)  # 4
        y[y > 0].sum()  # 5, 6, 7
    assert found.launches == 7
    assert (found.kernels, found.up, found.down) == (0, 0, 0)
    assert found.multiplied == 2 * 4 * 4 * 2
    assert found.touched == (64 + 64 + 128) + 128 + 32 + 256 + (128 + 16) + 256 + (128 + 8)


def test_empty_holds_nothing_of_use(cupy):
    assert np.isnan(cupy.empty(3).get()).all()
    assert (cupy.empty(3, "int32").get() > 2**28).all()


def order(x):
    """The axes of an array from the farthest in memory to the nearest."""
    return tuple(sorted(range(x.ndim), key=lambda axis: -x.strides[axis]))


LAYOUTS = {
    "elementwise": (lambda cupy, x: x + 1, (0, 1, 2)),
    "function": (lambda cupy, x: cupy.where(x > 0, x, 0), (0, 1, 2)),
    "reduction": (lambda cupy, x: x.sum(0, keepdims=True) + 0 * x, (0, 1, 2)),
    "gather": (lambda cupy, x: x[:, cupy.asarray([0, 1])], (0, 1, 2)),
    "join": (lambda cupy, x: cupy.concatenate([x, x]), (0, 1, 2)),
    "product": (lambda cupy, x: x @ x.swapaxes(1, 2), (0, 1, 2)),
    "astype": (lambda cupy, x: x.astype("float32"), (2, 1, 0)),
    "empty_like": (lambda cupy, x: cupy.empty_like(x), (2, 1, 0)),
    "transpose": (lambda cupy, x: x.T, (0, 1, 2)),
    "Fourier transform, last axis": (lambda cupy, x: cupy.fft.rfft(x), (0, 1, 2)),
    "Fourier transform, first axis": (lambda cupy, x: cupy.fft.fft(x, axis=0), (2, 1, 0)),
    "eigenvectors": (lambda cupy, x: cupy.linalg.eigh(x @ x.swapaxes(1, 2))[1], (0, 2, 1)),
    "singular vectors": (lambda cupy, x: cupy.linalg.svd(x, full_matrices=False)[0], (0, 2, 1)),
    "orthonormal columns": (lambda cupy, x: cupy.linalg.qr(x[0])[0], (1, 0)),
    "tall singular vectors": (lambda cupy, x: cupy.linalg.svd(x[0], full_matrices=False)[2], (1, 0)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_results_lie_in_memory_as_those_of_cupy(cupy, name):
    call, expected = LAYOUTS[name]
    x = cupy.asarray(np.random.default_rng(0).random((4, 3, 2)).T.copy()).T  # in Fortran order
    assert order(x) == (2, 1, 0)
    assert order(call(cupy, x)) == expected


def test_a_view_of_another_size_asks_for_c_order(cupy):
    spectrum = cupy.fft.fft(cupy.asarray(np.ones((3, 2))), axis=0)
    with pytest.raises(ValueError, match="C-contiguous"):
        spectrum.view("float64")
    assert spectrum.T.view("float64").shape == (2, 6)
