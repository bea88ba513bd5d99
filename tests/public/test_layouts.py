"""A law of the toolbox: how an array lies in memory never changes a result."""

import numpy as np
import pytest
from test_prox import one_thread, random  # noqa: F401

from gpuensemble import prox, stiefel, tsvd
from gpuensemble._array.devices import to_host


def turned(x):
    """The same array as a transposed view of another."""
    return x.T.copy().T if x.ndim < 3 else np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def front_last(x):
    """The same array as a view whose first axis is the nearest in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0)


def every_second(x):
    """The same array as every second entry of a longer one."""
    longer = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    longer[..., ::2] = x
    return longer[..., ::2]


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1].copy()[::-1],
    "all reversed": lambda x: np.flip(np.flip(x).copy()),
    "transposed": turned,
    "front last": front_last,
    "every second": every_second,
}


def symmetric(shape, dtype="float64"):
    x = random(shape, dtype)
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


ORTHONORMAL = np.linalg.qr(random((9, 4), "float64"))[0]
# name: the call, and arrays, each of which is given in every layout
CALLS = {
    "soft": (prox.soft, random((3, 4, 5), "float64"), abs(random((4, 5), "float64"))),
    "soft, complex": (lambda x: prox.soft(x, 0.5), random((3, 4, 5), "complex128")),
    "l21": (prox.l21, random((3, 4, 5), "complex128"), abs(random((3, 1, 5), "float64"))),
    "mcp_weights": (lambda x: prox.mcp_weights(x, 2.0), random((3, 4, 5), "float64")),
    "nuclear, slices": (lambda x: prox.nuclear(x, 1.0), random((2, 3, 4, 5), "complex128")),
    "nuclear, slices of many rows": (lambda x: prox.nuclear(x, 1.0), random((2, 3, 9, 4), "complex64")),
    "nuclear, products": (lambda x: prox.nuclear(x, 1.0), random((2, 3, 10, 12), "float64")),
    "nuclear, Gram matrix": (lambda x: prox.nuclear(x, 9.0), random((2, 130, 131), "float64")),
    "nuclear, weights": (lambda x, w: prox.nuclear(x, 1.0, w), random((2, 5, 6), "float64"), np.linspace(0, 1, 5)),
    **{
        f"tensor_nuclear, axis {axis}, {dtype}": (
            lambda x, axis=axis: prox.tensor_nuclear(x, 1.0, axis),
            random((2, 4, 5, 6), dtype),
        )
        for axis in (1, 2, 3)
        for dtype in ("float64", "complex128")
    },
    "tensor_nuclear, pairs": (lambda x: prox.tensor_nuclear(x, 1.0, 0), random((7, 5, 2), "float64")),
    "nuclear_symmetric": (in_place(lambda x: prox.nuclear_symmetric(x, 1.0)), symmetric((7, 7))),
    "tensor_nuclear_symmetric": (
        in_place(lambda x, d: prox.tensor_nuclear_symmetric(x, 1.0, d)),
        symmetric((2, 7, 7)),
        np.arange(1.0, 8),
    ),
    "SlicePairs": (in_place(lambda x: prox.SlicePairs(x)(x, 2.0)), random((2, 20, 7), "float64")),
    "NuclearSequence": (sequence, random((30, 5), "float64"), *np.stack([symmetric((30, 30))] * 2)),
    "tsvd": (lambda x: tsvd.tproduct(*tsvd.tsvd(x)[:2]), random((3, 4, 5), "complex128")),
    "tproduct": (tsvd.tproduct, random((3, 4, 5), "float64"), random((4, 2, 5), "complex128")),
    "transpose": (tsvd.transpose, random((3, 4, 5), "complex128")),
    "tensor_nuclear_norm": (tsvd.tensor_nuclear_norm, random((3, 4, 5), "float64")),
    "cayley_step": (lambda x, grad: stiefel.cayley_step(x, grad, 0.3), ORTHONORMAL, random((9, 4), "float64")),
    "minimize": (minimum, ORTHONORMAL, random((9, 4), "float64")),
}


def test_every_public_function_is_under_the_law():
    public = {*prox.__all__, "tsvd", "tproduct", "transpose", "tensor_nuclear_norm", "cayley_step", "minimize"}
    assert public == {name.split(",")[0] for name in CALLS}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_memory_layout_changes_no_result(xp, name, layout):
    call, *arrays = CALLS[name]
    expected = call(*(xp.asarray(x.copy()) for x in arrays))
    given = [xp.asarray(LAYOUTS[layout](x)) for x in arrays]
    for x, view in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(to_host(view), x)
    found = call(*given)
    for one, two in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        single = two.dtype in ("float32", "complex64")
        np.testing.assert_allclose(to_host(one), to_host(two), rtol=0, atol=1e-5 if single else 1e-12)
