"""The number of threads changes no bit, and neither does a fit that runs beside another one."""

import contextlib
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from every_method import METHODS, OF_ROWS, OF_SIMILARITY, fitted, same_bits
from threadpoolctl import ThreadpoolController, threadpool_limits

from gpuensemble._array import threads
from gpuensemble._kernels import integers
from gpuensemble._kernels.cpu import lta, membership, thin
from gpuensemble._kernels.cpu.slices import scaled
from gpuensemble._linear import pairs
from support import ensemble

SQUARE = [name for name in METHODS if METHODS[name].square]
STABLE = [name for name in METHODS if name != "nrsec"]  # another rounding gives it another Z (docs/rsec.md)


def table_of(name, seed=0):
    """So many rows that threads share the work."""
    n = 50 if name in (*OF_SIMILARITY, *OF_ROWS) else membership.INLINE // 8 + 1
    return ensemble(n=n, holes=0.2 if METHODS[name].holes else 0.0, seed=seed)[1]


@contextlib.contextmanager
def n_threads(number, monkeypatch):
    """So many threads, in our pool and in BLAS."""
    with monkeypatch.context() as patch, threadpool_limits(number, "blas"), ThreadPoolExecutor(number) as pool:
        patch.setattr(threads, "count", lambda: number)
        patch.setattr(threads, "pool", lambda: pool)
        patch.setattr(membership, "BRIEF", membership.INLINE)
        patch.setattr(integers, "ALONE", membership.INLINE)
        yield


@pytest.mark.parametrize("name", STABLE)
def test_the_number_of_threads_changes_nothing(name, monkeypatch):
    """No bit, and no label where matrices of n x n are decomposed by as many threads as BLAS has."""
    labels, found = table_of(name), []
    for number in (1, 2):
        with n_threads(number, monkeypatch):
            found.append(fitted(name, labels, 4)[0])
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].labels_, other.labels_)
        if name not in SQUARE:
            same_bits(found[0], other)


@pytest.mark.parametrize(("name", "parameters"), [("lta", {}), ("lta", {"transform": "sample"}), ("rsec", {})])
def test_small_matrices_that_threads_share_have_the_bits_of_one(name, parameters, monkeypatch):
    """One thread does not wait for others up to these sizes; beyond them nothing but the threads is another."""
    for room, limit in (
        (lta, "ALONE"),
        (scaled, "ALONE"),
        (thin, "ALONE"),
        (pairs, "SHARED"),
        (pairs, "SHARED_BLOCKS"),
    ):
        monkeypatch.setattr(room, limit, 0)
    labels, found, shared = ensemble(n=300, seed=0)[1], [], []
    for number in (1, 2):
        with n_threads(number, monkeypatch):
            submit = threads.pool().submit
            monkeypatch.setattr(threads.pool(), "submit", lambda *call: shared.append(call) or submit(*call))  # noqa: B023
            found.append(fitted(name, labels, 4, **parameters)[0])
    assert len(shared) > 100
    same_bits(*found)


@pytest.mark.parametrize("name", METHODS)
def test_fits_beside_each_other_have_the_bits_that_they_have_alone(name):
    labels = [table_of(name, seed) for seed in (3, 4)]
    alone = [fitted(name, table, 4)[0] for table in labels]
    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("ignore")  # what is said is caught for all threads at once
        together = list(pool.map(lambda table: METHODS[name].make(4, 0, "cpu").fit(table), labels))
    for one, two in zip(alone, together, strict=True):
        same_bits(one, two)


def blas_threads():
    return {library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"}


def test_one_thread_of_blas_lasts_until_the_last_fit_ends():
    """Fits of several threads overlap: the first that ends must not bring the threads back, nor the last keep one."""
    with threadpool_limits(2, "blas"):
        first, second = contextlib.ExitStack(), contextlib.ExitStack()
        first.enter_context(threads.one_blas_thread())
        second.enter_context(threads.one_blas_thread())
        first.close()
        assert blas_threads() == {1}
        second.close()
        assert blas_threads() == {2}


WORKING = (
    "_linear",
    "_partition",
    "rsec/solver",
    "lta/solver",
    "pce/steps",
    "nmfc.py",
    "numpy/linalg",
    "scipy/linalg",
)  # BLAS


@pytest.mark.parametrize("name", METHODS)
def test_blas_has_one_thread_during_a_fit(name):
    """A profile function looks at each call of code that works with BLAS, in the thread of the fit."""
    labels, seen = table_of(name), []
    libraries = threads._libraries()

    def look(frame, event, _):
        if event == "call" and len(seen) < 50 and any(part in frame.f_code.co_filename for part in WORKING):
            seen.extend(library["num_threads"] for library in libraries.info() if library["user_api"] == "blas")

    model = METHODS[name].make(4, 0, "cpu")
    with threadpool_limits(2, "blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert blas_threads() == {2}
        sys.setprofile(look)
        try:
            model.fit(labels)
        finally:
            sys.setprofile(None)
        assert blas_threads() == {2}
    assert set(seen) == {1}
