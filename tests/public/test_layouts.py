"""A law of the toolbox: how an array lies in memory never changes a result."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from test_prox import one_thread, random  # noqa: F401

from gpuensemble import prox, stiefel, tsvd
from gpuensemble._array.devices import to_host
from support import dealt

MODULES = (tsvd.__name__, stiefel.__name__)
DTYPES = {"float32": 1e-4, "float64": 1e-11, "complex64": 1e-4, "complex128": 1e-11}


def every_second(xp, x):
    """A view of every second entry of a longer array, along each axis."""
    longer = np.zeros([2 * size for size in x.shape], x.dtype)
    everywhere = (slice(None, None, 2),) * x.ndim
    longer[everywhere] = x
    return xp.asarray(longer)[everywhere]


def backwards(xp, x, axes):
    """A view of an array that has these axes the other way round."""
    view = tuple(slice(None, None, -1 if axis in axes else 1) for axis in range(x.ndim))
    return xp.asarray(x[view].copy())[view]


# Each makes views on the device: what goes there is laid out anew.
LAYOUTS = {
    "Fortran": lambda xp, x: xp.asarray(x.T.copy()).T,
    "first axis reversed": lambda xp, x: backwards(xp, x, [0]),
    "last axis reversed": lambda xp, x: backwards(xp, x, [x.ndim - 1]),
    "all reversed": lambda xp, x: backwards(xp, x, range(x.ndim)),
    "transposed": lambda xp, x: xp.asarray(x.swapaxes(-1, -min(2, x.ndim)).copy()).swapaxes(-1, -min(2, x.ndim)),
    "front last": lambda xp, x: xp.moveaxis(xp.asarray(np.moveaxis(x, 0, -1).copy()), -1, 0),
    "every second": every_second,
}


class Case(NamedTuple):
    """A call, its data, which are given in every dtype, and its parameters, which stay real; all in every layout."""

    call: Callable
    data: tuple
    parameters: tuple = ()
    is_real: bool = False

    def arrays(self, dtype):
        real = np.dtype(dtype).type(0).real.dtype
        data = [x.astype(dtype) if dtype.startswith("c") else x.real.astype(dtype) for x in self.data]
        return *data, *(x.astype(real) for x in self.parameters)


def data(*shapes):
    return tuple(random(shape, "complex128", seed) for seed, shape in enumerate(shapes))


def symmetric(shape, seed=0):
    x = random(shape, "float64", seed)
    return x + x.swapaxes(-1, -2)


def in_place(call):
    """A call that overwrites its first argument, as one that returns what that became, and the norm."""

    def called(x, *others):
        norm = call(x, *others)
        return x, norm

    return called


def sequence(start, x, y):
    shrink = prox.NuclearSequence(start, np.random.default_rng(0))
    shrink(x, 1.0)
    return x, shrink(y, 1.0), y


def minimum(x, target):
    found = stiefel.minimize(lambda x: (-(x * target).sum(), 0 - target), x, max_iter=5)
    return found.x, found.value


ORTHONORMAL = np.linalg.qr(random((9, 4), "float64"))[0], random((9, 4), "float64", 1)
LOW_RANK = random((30, 3), "float64") @ random((3, 30), "float64", 1)
PAIR = np.stack([LOW_RANK + LOW_RANK.T] * 2)
CASES = {
    "soft": Case(prox.soft, data((3, 4, 5)), (abs(random((4, 5), "float64")),)),
    "l21": Case(prox.l21, data((3, 4, 5)), (abs(random((3, 1, 5), "float64")),)),
    "mcp_weights": Case(lambda x: prox.mcp_weights(x, 2.0), data((3, 4, 5))),
    **{
        f"nuclear, {shape}": Case(lambda x: prox.nuclear(x, 1.0), data(shape))
        for shape in [(3, 5), (9, 4), (2, 3, 4, 5), (2, 3, 9, 4), (2, 3, 10, 12), (2, 40, 33)]
    },
    "nuclear, Gram matrix": Case(lambda x: prox.nuclear(x, 9.0), data((2, 130, 131))),
    "nuclear, weights": Case(lambda x, w: prox.nuclear(x, 1.0, w), data((2, 5, 6)), (np.linspace(0, 1, 5),)),
    **{
        f"tensor_nuclear, {shape}, axis {axis}": Case(
            lambda x, axis=axis: prox.tensor_nuclear(x, 1.0, axis), data(shape)
        )
        for axis in (-3, -2, -1)
        for shape in [(7, 5, 2), (4, 10, 6), (8, 9, 12), (2, 4, 5, 6)]
    },
    "nuclear_symmetric": Case(in_place(lambda x: prox.nuclear_symmetric(x, 1.0)), (symmetric((7, 7)),), (), True),
    "tensor_nuclear_symmetric": Case(
        in_place(lambda x, d: prox.tensor_nuclear_symmetric(x, 1.0, d)),
        (symmetric((2, 7, 7)),),
        (np.arange(1.0, 8),),
        True,
    ),
    "SlicePairs": Case(in_place(lambda x: prox.SlicePairs(x)(x, 2.0)), (random((2, 20, 7), "float64"),), (), True),
    "NuclearSequence": Case(sequence, (random((30, 5), "float64"), *PAIR), (), True),
    **{f"tsvd, axis {axis}": Case(lambda x, axis=axis: product(x, axis), data((3, 4, 5))) for axis in range(3)},
    "tproduct": Case(tsvd.tproduct, data((3, 4, 5), (4, 2, 5))),
    "transpose": Case(tsvd.transpose, data((3, 4, 5))),
    "tensor_nuclear_norm": Case(tsvd.tensor_nuclear_norm, data((3, 4, 5))),
    "fourier": Case(lambda x: tsvd.fourier("fft", x, 1), data((3, 4, 5))),
    "slices": Case(lambda x: tsvd.slices(x, 1), data((3, 4, 5))),
    "unsliced": Case(lambda x: tsvd.unsliced(x + 0j, 1, 5, True), data((3, 4, 5))),
    "cayley_step": Case(lambda x, grad: stiefel.cayley_step(x, grad, 0.3), ORTHONORMAL, (), True),
    "minimize": Case(minimum, ORTHONORMAL, (), True),
}


def product(x, axis):
    """The t-SVD's factors, whose signs are free, multiplied; and the singular values."""
    u, s, v = tsvd.tsvd(x, axis)
    return tsvd.tproduct(tsvd.tproduct(u, s, axis), tsvd.transpose(v, axis), axis), s


def assert_layout_does_not_matter(xp, case, layout, dtype):
    arrays = case.arrays(dtype)
    expected = case.call(*(xp.asarray(x.copy()) for x in arrays))
    given = [LAYOUTS[layout](xp, x) for x in arrays]
    for x, view in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(to_host(view), x)
    found = case.call(*given)
    for one, two in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_allclose(to_host(one), to_host(two), rtol=0, atol=DTYPES[dtype])


def test_every_public_function_is_under_the_law():
    own = [(name, value) for module in (tsvd, stiefel) for name, value in vars(module).items() if name[0] != "_"]
    public = {*prox.__all__, *(name for name, value in own if getattr(value, "__module__", "") in MODULES)}
    takes_no_array = {"Minimum", "row_blocks"}
    assert public - takes_no_array == {name.split(",")[0] for name in CASES}


@pytest.mark.parametrize(("name", "dtype"), dealt(CASES, DTYPES))
def test_memory_layout_changes_no_result(xp, name, dtype):
    case = CASES[name]
    if case.is_real and dtype.startswith("c"):
        with pytest.raises(TypeError, match=r"must (hold real numbers|be an array of float32 or float64)"):
            case.call(*map(xp.asarray, case.arrays(dtype)))
        return
    for layout in LAYOUTS:
        assert_layout_does_not_matter(xp, case, layout, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_reads_the_layout_is_found(xp, layout):
    case = Case(lambda x: xp.asarray(x.strides), data((3, 4, 5)))
    with pytest.raises(AssertionError, match="Not equal"):
        assert_layout_does_not_matter(xp, case, layout, "float64")
