"""The core of the benchmarks times candidates that must agree, in turns in one process, as ratios to a peer.

`gpuensemble bench` runs the cases of `cases.py`; a file of bench/ calls `main(cases)` with its own.
"""

import argparse
import contextlib
import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpuensemble._array import cores, threads
from gpuensemble._array.devices import namespace, on, to_device
from gpuensemble._cli.bench import machine, processes
from gpuensemble._cli.tables import outputs

COPY_BYTES = 1 << 28  # larger than any cache
PATIENCE = 1.0  # seconds at most, until threads of the run before have ended
PAUSE = 0.03  # seconds after that


@dataclass
class Case:
    """A case is a comparison: what each candidate does, which of them is the peer, and whether their answers agree."""

    name: str
    candidates: dict[str, Callable[[], Any]]
    peer: str  # whose answer the others must give
    agree: Callable[[Any, Any], bool]
    wanted: float | None = None  # the ratio that the first candidate should reach
    notes: dict[str, Any] = field(default_factory=dict)  # further facts for the report
    devices: dict[str, str] = field(default_factory=dict)  # where a candidate runs, if not on the CPU
    bytes_moved: dict[str, int] = field(default_factory=dict)  # what a candidate must at least read and write
    rivals: tuple[str, ...] = ()  # peers, the fastest of which in a round is what ratios are to; if there are several
    facts: Callable[[], dict[str, Any]] | None = None  # measures what else is to be reported


def main(cases: Callable[[], Iterator[Case]]) -> None:
    """Parse the command line, run the cases, print a table and write JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, help="of Numba, OpenMP and BLAS (default: all cores)")
    parser.add_argument("--repeat", type=int, default=7, help="rounds after the warm-up (default 7)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    if options.threads:
        processes.again_with(options.threads)
    results = []
    for case in cases():
        if options.only in case.name:
            results.append(run(case, options.repeat))
            print(line(results[-1]), flush=True)
    if options.json:
        report = {"machine": machine.describe(), "threads": options.threads, "results": results}
        outputs.write_json(str(options.json), report)


def run(case: Case, repeat: int) -> dict[str, Any]:
    """Warm up, compare the answers, then time the candidates in turns; ratios are taken within each round."""
    answers = {name: candidate() for name, candidate in case.candidates.items()}
    agree = all(case.agree(answer, answers[case.peer]) for answer in answers.values())
    del answers
    peaks = {name: peak_growth(candidate, case.devices.get(name, "cpu")) for name, candidate in case.candidates.items()}
    rounds = [{name: seconds(candidate) for name, candidate in case.candidates.items()} for _ in range(repeat)]
    rivals = case.rivals or (case.peer,)
    least = [min(one[name] for name in rivals) for one in rounds]
    timed = {}
    for name in case.candidates:
        times = [one[name] for one in rounds]
        timed[name] = _timed(case, name, times, [peer / own for peer, own in zip(least, times, strict=True)])
        timed[name]["peak_growth_bytes"] = peaks[name]
    peers = [name for name in rivals if name not in case.devices]
    found = {"case": case.name, "peer": case.peer, "peers": peers, "agree": agree, "wanted": case.wanted}
    return found | {"timed": timed, **case.notes, **(case.facts() if case.facts else {})}


def _timed(case: Case, name: str, times: list[float], ratios: list[float]) -> dict[str, Any]:
    """Report the rounds of a candidate."""
    median = statistics.median(times)
    found = {
        "device": case.devices.get(name, "cpu"),
        "median_seconds": median,
        "spread": (max(times) - min(times)) / median,
        "ratio": statistics.median(ratios),
        "seconds": times,
        "ratios": ratios,
    }
    if name in case.bytes_moved:
        moved = case.bytes_moved[name]
        found |= {"bytes_moved": moved, "bytes_per_second": moved / median}
    return found


def line(result: dict[str, Any], rates: dict[str, float] | None = None) -> str:
    """Write a case as text, a row per candidate; `rates` are the bytes per second of a copy on each device."""
    wanted = f", wanted {result['wanted']:g}x" if result["wanted"] else ""
    lines = [f"{result['case']}  (answers agree: {result['agree']}{wanted})"]
    for name, one in result["timed"].items():
        lines.append(
            f"  {name:36} {one['ratio']:7.2f}x {one['median_seconds'] * 1e3:10.2f} ms  spread {one['spread']:4.0%}"
            f"  peak +{one['peak_growth_bytes'] / 1e6:.1f} MB{_rate(one, rates or {})}"
        )
    known = ("case", "peer", "peers", "agree", "wanted", "timed")
    notes = {key: value for key, value in result.items() if key not in known}
    return "\n".join([*lines, *(f"  {key}: {_note(value)}" for key, value in notes.items())])


def _note(value: Any) -> Any:
    """Write seconds by name on a line; anything else is as it is."""
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{name} {one * 1e3:.2f} ms" for name, one in value.items())


def _rate(one: dict[str, Any], rates: dict[str, float]) -> str:
    if "bytes_per_second" not in one or one["device"] not in rates:
        return ""
    return f"  {one['bytes_per_second'] / 1e9:.2f} GB/s, {one['bytes_per_second'] / rates[one['device']]:.0%} of a copy"


def seconds(candidate: Callable[[], Any]) -> float:
    """Time one run; a device's work is waited for, and so is the end of what OpenMP's threads do after theirs: spin."""
    synchronize()
    _be_alone()
    _keep_awake()
    start = time.perf_counter()
    answer = candidate()
    synchronize()
    elapsed = time.perf_counter() - start
    del answer
    return elapsed


def _be_alone() -> None:
    """Wait for the end of threads of the run before: those of scikit-learn's `elkan` spin for 90 ms.

    What came after it seemed to take half as long again.
    """
    end = time.perf_counter() + PATIENCE
    with contextlib.suppress(OSError):  # not told: see cores.crowded
        while cores.running() > 1 and time.perf_counter() < end:
            time.sleep(0.001)


def _keep_awake() -> None:
    """Let each core multiply matrices for some time.

    A virtual machine takes a core away that has nothing to do, for longer than a short run takes.
    """
    end, matrix = time.perf_counter() + PAUSE, np.ones((128, 128))

    def task(first: int, last: int) -> None:
        while time.perf_counter() < end:
            matrix @ matrix

    with threads.one_blas_thread():
        threads.over_spans(threads.count(), 1, task, alone=False)


def synchronize() -> None:
    """Wait for the work of all devices."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and cupy.cuda.is_available():
        for index in range(cupy.cuda.runtime.getDeviceCount()):
            cupy.cuda.Device(index).synchronize()


def peak_growth(candidate: Callable[[], Any], device: str = "cpu") -> int:
    """Return how far memory rises above where it was, at its highest, during one run; -1 where nothing says so.

    Of a device it is what CuPy's pool takes; on the CPU it is resident memory, on Linux.
    """
    if device != "cpu":
        return _pool_growth(candidate)
    with contextlib.suppress(OSError, AttributeError):  # not Linux, not glibc
        ctypes.CDLL(None).malloc_trim(0)  # what was freed must not hide what is taken
        Path("/proc/self/clear_refs").write_text("5")  # forget the earlier peak
        before = _resident("VmRSS")
        candidate()
        return max(0, _resident("VmHWM") - before)
    return -1


def _pool_growth(candidate: Callable[[], Any]) -> int:
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    answer = candidate()
    after = pool.total_bytes()
    del answer
    return after - before


def copy_rate(device: str) -> float:
    """Measure the bytes per second that the device reads and writes when it copies a large array: its peak."""
    with on(device), ThreadPoolExecutor(os.cpu_count()) as pool:
        source = to_device(np.ones(COPY_BYTES // 8), device)
        target = namespace(source).zeros(len(source))

        def copy(part: slice = slice(None)) -> None:
            target[part] = source[part]

        def copy_in_threads() -> None:
            n, count = len(source), os.cpu_count() or 1
            list(pool.map(copy, [slice(n * i // count, n * (i + 1) // count) for i in range(count)]))

        candidate = copy_in_threads if device == "cpu" else copy
        return 2 * COPY_BYTES / min(seconds(candidate) for _ in range(5))


def _resident(key: str) -> int:
    entry = next(row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith(key))
    return int(entry.split()[1]) * 1024
