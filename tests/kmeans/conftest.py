"""Threads that share work in the tests of this folder."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuensemble._array import threads
from gpuensemble._kernels.cpu.features import lloyd as cpu_lloyd
from gpuensemble._kernels.cpu.kmeans import relabel


@pytest.fixture
def spread(monkeypatch):
    """Spread the smallest work over threads: a function that sets their number."""
    pools = []

    def spread(number):
        pools.append(ThreadPoolExecutor(number))
        monkeypatch.setattr(relabel, "ALONE", 1)
        monkeypatch.setattr(cpu_lloyd, "ALONE", 1)
        monkeypatch.setattr(threads, "count", lambda: number)
        monkeypatch.setattr(threads, "pool", lambda pool=pools[-1]: pool)
        return pools[-1]

    yield spread
    for pool in pools:
        pool.shutdown()
