"""The core of the benchmarks: candidates that must agree, timed in turns in one process, as ratios to a peer.

A bench file calls `main(cases)` with a function that gives its cases; see bench/README.md.
"""

import argparse
import contextlib
import ctypes
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGES = ("gpuensemble", "numpy", "scipy", "scikit-learn", "numba", "cupy-cuda12x", "cupy-cuda13x")


@dataclass
class Case:
    """Things to compare: what each candidate does, which of them is the peer, and whether their answers agree."""

    name: str
    candidates: dict[str, Callable[[], Any]]
    peer: str
    agree: Callable[[Any, Any], bool]
    wanted: float | None = None  # the ratio that the first candidate should reach
    notes: dict[str, Any] = field(default_factory=dict)  # further facts for the report, such as bytes


def main(cases: Callable[[], Iterator[Case]]) -> None:
    """Parse the command line, run the cases, print a table and write JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, help="of Numba and OpenMP (default: all cores)")
    parser.add_argument("--repeat", type=int, default=7, help="rounds after the warm-up (default 7)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    if options.threads and os.environ.get("NUMBA_NUM_THREADS") != str(options.threads):
        names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | dict.fromkeys(names, str(options.threads)))
    results = []
    for case in cases():
        if options.only in case.name:
            results.append(run(case, options.repeat))
            print(line(results[-1]), flush=True)
    if options.json:
        partial = options.json.with_suffix(".partial")
        partial.write_text(json.dumps({"machine": machine(), "threads": options.threads, "results": results}, indent=1))
        partial.replace(options.json)


def run(case: Case, repeat: int) -> dict[str, Any]:
    """Warm up, compare the answers, then time the candidates in turns; ratios are taken within each round."""
    answers = {name: candidate() for name, candidate in case.candidates.items()}
    agree = all(case.agree(answer, answers[case.peer]) for answer in answers.values())
    del answers
    peaks = {name: peak_growth(candidate) for name, candidate in case.candidates.items()}
    rounds = [{name: seconds(candidate) for name, candidate in case.candidates.items()} for _ in range(repeat)]
    timed = {}
    for name in case.candidates:
        times = [one[name] for one in rounds]
        ratios = [one[case.peer] / one[name] for one in rounds]
        timed[name] = {
            "median_seconds": statistics.median(times),
            "spread": (max(times) - min(times)) / statistics.median(times),
            "ratio": statistics.median(ratios),
            "peak_growth_bytes": peaks[name],
        }
    return {"case": case.name, "peer": case.peer, "agree": agree, "wanted": case.wanted, "timed": timed, **case.notes}


def line(result: dict[str, Any]) -> str:
    """A case as a block of text: a row per candidate."""
    wanted = f", wanted {result['wanted']:g}x" if result["wanted"] else ""
    lines = [f"{result['case']}  (answers agree: {result['agree']}{wanted})"]
    for name, one in result["timed"].items():
        lines.append(
            f"  {name:28} {one['ratio']:7.2f}x {one['median_seconds'] * 1e3:10.2f} ms  spread {one['spread']:4.0%}"
            f"  peak +{one['peak_growth_bytes'] / 1e6:.1f} MB"
        )
    notes = {key: value for key, value in result.items() if key not in ("case", "peer", "agree", "wanted", "timed")}
    return "\n".join([*lines, *(f"  {key}: {value}" for key, value in notes.items())])


def seconds(candidate: Callable[[], Any]) -> float:
    """One run; a device's work is waited for."""
    _synchronize()
    start = time.perf_counter()
    answer = candidate()
    _synchronize()
    elapsed = time.perf_counter() - start
    del answer
    return elapsed


def _synchronize() -> None:
    cupy = sys.modules.get("cupy")
    if cupy is not None and cupy.cuda.is_available():
        cupy.cuda.Device().synchronize()


def peak_growth(candidate: Callable[[], Any]) -> int:
    """How far resident memory rises above where it was, at its highest, during one run (Linux; elsewhere -1)."""
    with contextlib.suppress(OSError, AttributeError):  # not Linux, not glibc
        ctypes.CDLL(None).malloc_trim(0)  # what was freed must not hide what is taken
        Path("/proc/self/clear_refs").write_text("5")  # forget the earlier peak
        before = _resident("VmRSS")
        candidate()
        return max(0, _resident("VmHWM") - before)
    return -1


def _resident(key: str) -> int:
    entry = next(row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith(key))
    return int(entry.split()[1]) * 1024


def machine() -> dict[str, Any]:
    """What the figures belong to."""
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(row for row in lines if row.startswith("model name")).split(":")[1].strip()
    return platform.processor()
