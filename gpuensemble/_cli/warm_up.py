"""Kernels are compiled before they are needed, and the time that it takes is told from that of the work."""

import time
import warnings
from typing import Any

import numpy as np

from gpuensemble._array.threads import one_blas_thread
from gpuensemble._kernels.cpu.compiling import KEPT, WATCH
from gpuensemble.clustering import ConsensusClustering
from gpuensemble.estimators._base import registry

CLUSTERS = (3, 40)  # few and many, for which other kernels are compiled


class Stopwatch:
    """This tells how many seconds have passed since it was made, without those that went into compiling."""

    def __init__(self) -> None:
        self._start, self._compiling = time.perf_counter(), WATCH.seconds

    def seconds(self) -> float:
        """Return the seconds of work."""
        return time.perf_counter() - self._start - self.compiling()

    def compiling(self) -> float:
        """Return the seconds of compiling."""
        return WATCH.seconds - self._compiling


def run(device: str) -> dict[str, Any]:
    """Fit every method to small tables, with holes if it takes them, so that its kernels are compiled and kept."""
    watch, methods = Stopwatch(), [one for one in registry.methods().values() if not one.missing]
    rng = np.random.default_rng(0)
    features = 9 * np.eye(3, 6)[np.arange(120) % 3] + rng.standard_normal((120, 6))
    labels = rng.integers(0, 3, (120, 8))
    holes = np.where(rng.random(labels.shape) < 0.2, -1, labels)
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tables say little, and nobody looks at the answers
        for k in CLUSTERS:
            for method in methods:
                tables = [[features, features]] if method.of_views else [labels, holes] if method.holes else [labels]
                for table in tables:
                    method.make(k, 0, device).fit(table)
            ConsensusClustering(k, random_state=0, device=device).fit(features)
    return {"methods": len(methods), "kept": KEPT, "compiling": watch.compiling(), "seconds": watch.seconds()}


def told(report: dict[str, Any]) -> str:
    """Say how long it took."""
    kept = "and kept on disk" if report["kept"] else "but cannot be kept: set NUMBA_CACHE_DIR to a folder to write to"
    return f"kernels of {report['methods']} methods are compiled, in {report['compiling']:.1f} s, {kept}"
