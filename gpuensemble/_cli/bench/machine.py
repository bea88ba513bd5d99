"""Figures and checks belong to a machine: this describes its processor, memory, devices and versions."""

import contextlib
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from gpuensemble._array.devices import cuda_count

PACKAGES = (
    *("gpuensemble", "numpy", "scipy", "scikit-learn", "numba", "pandas", "cupy-cuda12x", "cupy-cuda13x"),
    *("dask", "matplotlib", "pyarrow"),
)


def describe() -> dict[str, Any]:
    """Describe the machine, as JSON can hold it."""
    total, free = _memory()
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": total,
        "memory_free_bytes": free,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions(),
        "devices": [_device(index) for index in range(cuda_count())],
    }


def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _device(index: int) -> dict[str, Any]:
    import cupy

    device = cupy.cuda.Device(index)
    free, total = device.mem_info
    return {
        "device": f"cuda:{index}",
        "name": cupy.cuda.runtime.getDeviceProperties(index)["name"].decode(),
        "compute_capability": device.compute_capability,
        "memory_bytes": total,
        "memory_free_bytes": free,
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(),
    }


def _processor() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(row for row in lines if row.startswith("model name")).split(":")[1].strip()
    return platform.processor()


def _memory() -> tuple[int | None, int | None]:
    """Return how many bytes there are in all, and how many are free; None where the system does not say."""
    with contextlib.suppress(OSError, KeyError):
        rows = dict(row.split(":", 1) for row in Path("/proc/meminfo").read_text().splitlines())
        return int(rows["MemTotal"].split()[0]) * 1024, int(rows["MemAvailable"].split()[0]) * 1024
    return None, None
