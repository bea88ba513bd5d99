"""The doctor tells whether this machine computes what it should, with a line for each kernel and method at small size.

On the CPU a kernel is compared with its definition in plain NumPy, and a method with the partition that its input was
made from; on a CUDA device both are compared with the CPU.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuensemble._array.devices import choose_device, compile_errors, cuda_count, why_no_cuda
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._cli.bench import machine
from gpuensemble._cli.doctor import checks as doctor_checks
from gpuensemble._cli.warm_up import Stopwatch


def run(device: str = "auto") -> dict[str, Any]:
    """Run all checks on the CPU, and on a CUDA device if there is one.

    The report has versions, devices, and a row for each check.
    """
    device = choose_device(device)
    checks = doctor_checks.all_checks()
    with one_blas_thread():  # so few samples: more threads would only wait for each other
        rows = [_row(check, "cpu", check.define, check.against) for check in checks]
        if device != "cpu":
            rows += [_row(check, device, functools.partial(check.run, "cpu"), "cpu") for check in checks]
    failed = sum(not row["ok"] for row in rows)
    unchecked = [f"cuda:{i}" for i in range(cuda_count()) if f"cuda:{i}" != device] or (["cuda"] * (device == "cpu"))
    reason = why_no_cuda() if not cuda_count() else "--device names another one"
    return {
        "machine": machine.describe(),
        "device": device,
        "checks": rows,
        "failed": failed,
        "not_checked": dict.fromkeys(unchecked, reason) | doctor_checks.not_installed(),
    }


def table(report: dict[str, Any]) -> str:
    """Write facts about the machine, a line for each check, and what was and was not checked."""
    machine = report["machine"]
    lines = [f"{name} {version}" for name, version in {"Python": machine["python"], **machine["versions"]}.items()]
    lines = [", ".join(lines), machine["system"]]
    lines.append(f"cpu: {machine['processor']}, {machine['cores']} cores, {_memory(machine)}")
    for one in machine["devices"]:
        capability = f"compute capability {one['compute_capability']}, driver {one['driver']}"
        lines.append(f"{one['device']}: {one['name']}, {_memory(one)}, {capability}, runtime {one['runtime']}")
    for row in report["checks"]:
        text = f"{'ok  ' if row['ok'] else 'FAIL'}  {row['check']:32} {row['device']:7} against {row['against']:20}"
        lines.append(f"{text} {row['seconds'] * 1e3:8.1f} ms  {row['detail']}".rstrip())
    where = sorted({row["device"] for row in report["checks"]})
    failed = f"{report['failed']} failed" if report["failed"] else "all passed"
    lines.append(f"{len(report['checks'])} checks on {' and '.join(where)}: {failed}")
    compiling = sum(row["compiling"] for row in report["checks"])
    if compiling > 1:
        lines.append(f"kernels were compiled, once, in {compiling:.1f} s, which the times above leave out")
    lines += [f"not checked: {name} ({reason})" for name, reason in report["not_checked"].items()]
    return "\n".join(lines)


def _memory(one: dict[str, Any]) -> str:
    if one["memory_bytes"] is None:
        return "memory not known"
    return f"{one['memory_free_bytes'] / 1e9:.1f} of {one['memory_bytes'] / 1e9:.1f} GB free"


def _row(check: doctor_checks.Check, device: str, expected: Callable[[], list], against: str) -> dict[str, Any]:
    """Run a check; one that raises has failed."""
    watch = Stopwatch()
    try:
        detail = _difference(check.run(device), expected(), check.tolerance)
    except _errors() as error:
        detail = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return {
        "check": check.name,
        "device": device,
        "against": against,
        "ok": not detail,
        "detail": detail,
        "seconds": watch.seconds(),
        "compiling": watch.compiling(),
    }


def _errors() -> tuple:
    """Return what a broken installation, driver or compiler raises."""
    from numba.core.errors import NumbaError

    known = (ArithmeticError, AttributeError, ImportError, LookupError, MemoryError, OSError, RuntimeError)
    return (*known, TypeError, ValueError, NumbaError, *compile_errors())


def _difference(found: list, expected: list, tolerance: float) -> str:
    """Return where one of the expected arrays differs; empty if all are equal, floats within the tolerance."""
    for i, pair in enumerate(zip(found, expected, strict=False)):
        one, two = map(np.asarray, pair)
        if one.shape != two.shape or one.dtype != two.dtype:
            return f"result {i} is {one.dtype} of shape {one.shape}, not {two.dtype} of shape {two.shape}"
        allowed = tolerance * np.abs(two).max() if two.dtype.kind == "f" else 0
        differs = ~((one == two) | (np.abs(one - two) <= allowed))
        if differs.any():
            place = tuple(int(axis[0]) for axis in np.nonzero(differs))
            share = float(differs.mean())
            return f"result {i} differs in {share:.1%}, first at {list(place)}: {one[place]} instead of {two[place]}"
    return ""
