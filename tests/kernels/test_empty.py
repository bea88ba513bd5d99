"""Arrays that kernels make are what NumPy would make, but for what is in them."""

import resource

import numba
import numpy as np
import pytest

from gpuensemble._kernels.cpu.vector.empty import empty
from gpuensemble._kernels.cpu.vector.tiles import LARGE, LINE, PAGE, in_one_piece, side_by_side


@numba.njit
def made(shape, like):
    return empty(shape, like.dtype)


@numba.njit
def sum_of_squares(n):
    """Of numbers below n, kept in two arrays of different types, of which one is a grid."""
    one, two = empty(n, np.float32), empty((n, 2), np.int64)
    for i in range(n):
        one[i], two[i, 0], two[i, 1] = i, i, -i
    total = 0.0
    for i in range(n):
        total += one[i] * two[i, 0] + two[i, 1] + two[i, 0]
    return total


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [0, 1, 17, (0, 3), (5, 7), (2, 3, 4)])
def test_shape_type_and_place(dtype, shape):
    found = made(shape, np.empty(0, dtype))
    expected = np.empty(shape, dtype)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found.flags.c_contiguous
    assert found.size == 0 or found.ctypes.data % LINE == 0
    found[...] = 1
    assert (found == 1).all()


def test_each_array_has_its_own_memory():
    assert sum_of_squares(1000) == sum(i * i for i in range(1000))


def test_memory_is_given_back():
    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    sum_of_squares(400_000)  # 8 MB
    before = peak()
    for _ in range(50):
        sum_of_squares(400_000)
    assert peak() - before < 100_000  # KB


def test_too_much_is_an_error():
    with pytest.raises(MemoryError):
        made(1 << 50, np.empty(0))


@pytest.mark.parametrize("n", [0, 1, 1000, LARGE // 8, LARGE])
def test_arrays_in_one_piece_have_their_types_and_lie_apart(n):
    found = in_one_piece(("int64", (3, 2)), ("float32", (n,)), ("uint8", (0, 4)), ("float64", (2, n // 2)))
    assert [(one.dtype.name, one.shape) for one in found] == [
        *(("int64", (3, 2)), ("float32", (n,)), ("uint8", (0, 4)), ("float64", (2, n // 2)))
    ]
    places = [one.__array_interface__["data"][0] for one in found]
    assert all(place % (LINE if one.size else 1) == 0 for place, one in zip(places, found, strict=True))
    for value, one in enumerate(found):
        one[...] = value
    assert all((one == value).all() for value, one in enumerate(found))
    assert n < LARGE or places[0] % PAGE == 0


@pytest.mark.parametrize("n", [3, LARGE // 4])
def test_zeros_are_zeros_wherever_they_lie(n):
    for _ in range(3):  # in memory that was written to before, too
        one, two = side_by_side("float64", (n,), (2, n))
        assert not one.any()
        assert not two.any()
        one[:], two[:] = 1, 2
