"""Routines of LAPACK do what SciPy's wrappers do, and let other threads run meanwhile."""

import sys
import threading

import numpy as np
import pytest
import scipy.linalg

from gpuensemble._kernels.cpu.slices import lapack
from gpuensemble._linear.definite import inverse, is_definite

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_routines_are_scipy_s(dtype):
    x = RNG.standard_normal((30, 30)).astype(dtype)
    x = x @ x.T
    mine, theirs = x.copy(), scipy.linalg.lapack.get_lapack_funcs("potrf", (x,))(x, lower=0)[0]
    assert lapack.call("potrf", dtype, "U", 30, mine, 30) == 0
    np.testing.assert_array_equal(np.tril(mine).T, theirs)


@pytest.mark.parametrize("first", [0, 7, 29])
def test_what_a_routine_says_of_its_failure_is_returned(first):
    x = np.eye(30)
    x[first, first] = -1
    assert lapack.call("potrf", "float64", "U", 30, x.copy(), 30) == first + 1
    assert is_definite(x) == 0.0


def test_integers_come_back():
    x = RNG.standard_normal((20, 20))
    made, pivots = x.copy(), np.zeros(20, "int64")
    assert lapack.call("getrf", x.dtype, 20, 20, made, 20, pivots) == 0
    solved = np.ones(20)
    assert lapack.call("getrs", x.dtype, "T", 20, 1, made, 20, pivots, solved, 20) == 0
    np.testing.assert_allclose(x @ solved, np.ones(20), atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("definite", [True, False])
def test_an_inverse_is_numpy_s(dtype, definite):
    x = RNG.standard_normal((40, 40))
    x = x @ x.T + np.eye(40) if definite else x + x.T
    columns = RNG.standard_normal((40, 3))
    found = inverse(x.astype(dtype))(columns.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.linalg.solve(x, columns), rtol=0, atol=1e-2 if dtype == "float32" else 1e-10)


def test_arrays_with_gaps_are_refused():
    with pytest.raises(ValueError, match=r"^An array for LAPACK must be contiguous, got strides \(320, 16\)\.$"):
        lapack.call("potrf", "float64", "U", 20, np.eye(40)[:, ::2], 20)


def test_other_threads_run_meanwhile():
    x = RNG.standard_normal((900, 900))
    x = x @ x.T
    diagonal, beside, scales, work = (np.empty(size) for size in (900, 899, 899, 64 * 900))
    given = ("sytrd", x.dtype, "L", 900, x, 900, diagonal, beside, scales, work, work.size)
    turns, seen = 0, []

    def work():
        seen.append(turns)
        lapack.call(*given)
        seen.append(turns)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # who asks for the GIL is given it at once
    try:
        other = threading.Thread(target=work)
        other.start()
        while other.is_alive():
            turns += 1
    finally:
        sys.setswitchinterval(interval)
    before, after = seen
    assert after - before > 10_000  # a wrapper that holds the GIL leaves few
