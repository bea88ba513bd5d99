"""`gpuensemble bench --model` tells what a GPU would need for what was counted: data sheets, no measurement.

counts.json has what fits ask of a device, counted on the stand-in device of the tests at a few small sizes
(`python tests/counts.py write`). Counts grow by a constant for each row, for each block of a file and for each row of
the sample that a start looks at, or with powers of n where arrays are n x n: two or three sizes give these, and one
more size checks them.

An iteration takes as long as the slowest of what a device does at the same time (memory, the L2 cache, arithmetic, and
launches by the host), then the reads of the host, for which the device stands still, then copies over the bus. Nothing
else is in the model: no occupancy, no atomics that collide, no work of the host itself.
"""

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.devices import cuda_count
from gpuensemble._cli.bench import harness, sheets, workloads
from gpuensemble._cli.bench.sheets import LAUNCH, READ, SHEETS, Sheet
from gpuensemble._cli.bench.workloads import Workload

FILE = Path(__file__).with_name("counts.json")
LLOYD = 20  # iterations of a fit, where one is spoken of: what SEC needs at n = 1,000,000
ROOF, FEWER, WHOLE = 1.3, 5.0, 1.5  # what is aimed at on an A100
Counts = dict[str, float]


class Modelled(NamedTuple):
    """A workload on a device: what it asks for, and how long each of that takes."""

    counts: Counts
    seconds: dict[str, float]

    @property
    def total(self) -> float:
        """Return the seconds of all of it."""
        alone = ("host reads", "bus")
        together = max(value for name, value in self.seconds.items() if name not in alone)
        return together + sum(self.seconds[name] for name in alone)

    @property
    def binds(self) -> str:
        """Name what takes longest."""
        return max(self.seconds, key=lambda name: self.seconds[name])


@functools.cache
def recorded() -> dict[str, Any]:
    """Return what is in counts.json."""
    return json.loads(FILE.read_text())


def at_size(workload: Workload, points: list[dict[str, Any]], part: str) -> tuple[Counts, float]:
    """Return the counts at the size of the workload, and by which share any of them is off, at most, at the check."""
    fit, check = [points[0], *points[2:]], points[1]
    found, off = {}, 0.0
    for name, known in check[part].items():
        terms = [_terms(workload, name, point["rows"], point["beside"]) for point in fit]
        factors = np.linalg.lstsq(np.array(terms, float), np.array([point[part][name] for point in fit], float))[0]
        there = _terms(workload, name, check["rows"], check["beside"]) @ factors
        off = max(off, abs(there - known) / max(abs(known), 1.0))
        found[name] = max(0.0, float(_terms(workload, name, workload.rows, workload.beside) @ factors))
    return found, off


def _terms(workload: Workload, name: str, rows: int, beside: int) -> np.ndarray:
    """Return what a count is a sum of, each times a factor: launches and reads do not depend on the rows of a block."""
    each = name in ("launches", "kernels", "reads")
    if workload.growth == "square":
        powers = (0,) if each else (2, 3) if "flops" in name else (0, 2)
        return np.array([float(rows) ** power for power in powers])
    of_rows = [] if each else [rows]
    of_others = [beside] if workload.growth == "blocks" or (workload.growth == "sampled" and not each) else []
    return np.array([1, *of_rows, *of_others], float)


def on_sheet(counts: Counts, sheet: Sheet, of: str = "") -> Modelled:
    """Say how long a device needs; `of` is "kernel_" for our kernels alone, as if they were one launch."""
    seconds = {
        "memory": counts[f"{of}dram"] / sheet.memory,
        "L2 cache": counts[f"{of}cached"] / sheet.cache,
        "float64": counts[f"{of}flops64"] / sheet.float64,
        "float32": counts[f"{of}flops32"] / sheet.float32,
        "launches": 0.0 if of else counts["launches"] * LAUNCH,
        "host reads": 0.0 if of else counts["reads"] * READ,
        "bus": 0.0 if of else (counts["up"] + counts["down"]) / sheet.bus,
    }
    return Modelled(counts, seconds)


def run(name: str, only: list[str], repeat: int) -> dict[str, Any]:
    """Model every workload that was counted, and time it beside that where there is a GPU."""
    checks.integer(repeat, "repeat", 1)
    sheet = SHEETS[name]
    known = recorded()["workloads"]
    wanted = [one for one in workloads.workloads() if any(part in one.title for part in only or ("",))]
    if not wanted:
        raise ValueError(f"`--only` must be part of the name of a workload, got {', '.join(only)!r}.")
    chosen = [one for one in wanted if one.title in known]
    rows = [_row(one, known[one.title], sheet, repeat) for one in chosen]
    return {
        "model": sheet._asdict(),
        "seconds_of_a_launch": LAUNCH,
        "seconds_of_a_read": READ,
        "rows": rows,
        "aims": aims(SHEETS["A100"]) if not only else [],
    }


def _row(workload: Workload, points: list[dict[str, Any]], sheet: Sheet, repeat: int) -> dict[str, Any]:
    row: dict[str, Any] = {"workload": workload.title, "counted_at": [point["rows"] for point in points]}
    for part in ("iteration", "setup"):
        if points[0][part] is not None:
            counts, off = at_size(workload, points, part)
            found = on_sheet(counts, sheet)
            row[part] = {"counts": counts, "seconds": found.seconds, "total": found.total, "binds": found.binds}
            row[part]["off_at_the_check"] = off
            row[part]["even"] = workload.growth == "blocks" or len({point[part]["kernels"] for point in points}) == 1
    if cuda_count() and workload.rows <= workload.measured:
        row["measured_seconds"] = _measured(workload, repeat)
    return row


def _measured(workload: Workload, repeat: int) -> float:
    """Time an iteration on the first GPU, or a whole fit where there are none: the least of some rounds."""
    given = workload.data(workload.rows)

    def least(iterations: int) -> float:
        fit = functools.partial(workloads.fitted, workload, given, iterations, "cuda:0")
        return min(harness.seconds(fit) for _ in range(repeat + 1))

    if workload.iterations is None:
        return least(workload.at_most)
    low, high = workload.iterations
    last = workload.at_most or high
    return (least(last + high - low) - least(last)) / (high - low)


def aims(sheet: Sheet) -> list[str]:
    """Say what the counts give for each of the four aims, which are stated for an A100 in float64."""
    known, by_name = recorded()["workloads"], {one.name: one for one in workloads.workloads()}

    def of(name: str, part: str) -> Counts:
        return at_size(by_name[name], known[by_name[name].title], part)[0]

    lloyd, begin = on_sheet(of("SEC", "iteration"), sheet), on_sheet(of("SEC", "setup"), sheet)
    # what our kernels ask for as they are, with rows decided in 16 bits; without launches, host reads and the library
    roof = on_sheet(lloyd.counts, sheet, "kernel_").total
    own = on_sheet(of("SEC, its own start", "setup"), sheet)
    streamed = on_sheet(of("SEC, of a file", "iteration"), sheet)
    once = by_name["SEC, of a file"].rows * workloads.R / sheet.bus
    pce, before = on_sheet(of("PCE", "iteration"), sheet), on_sheet(recorded()["before"]["PCE"], sheet)
    alone = begin.total + LLOYD * lloyd.total
    whole = own.total + (LLOYD - 1) * lloyd.total
    return [
        f"SEC at n = 10^6, r = {workloads.R}, K = {workloads.K}: an iteration takes {lloyd.total / roof:.2f} x the "
        f"roof of its kernels, {roof * 1e3:.2f} ms; the aim is {ROOF} x",
        f"SEC of a file, n = 10^8: {streamed.binds} binds; the codes once over the bus take {once:.2f} s, all copies "
        f"{streamed.seconds['bus']:.2f} s, the iteration {streamed.total:.2f} s; the aim is the codes once, no more",
        f"PCE at n = 10^5: {pce.total * 1e3:.2f} ms an iteration, {before.total / pce.total:.1f} x less than the "
        f"{before.total * 1e3:.2f} ms that were counted first; the aim is {FEWER:g} x",
        f"SEC's fit of {LLOYD} iterations with its own start takes {whole / alone:.2f} x that from given labels "
        f"({whole:.2f} s and {alone:.2f} s); the aim is {WHOLE} x",
    ]


def table(report: dict[str, Any]) -> str:
    """Write the report as text."""
    sheet = report["model"]
    lines = [
        f"A model, not a measurement: {sheet['name']}, from {sheet['source']}.",
        sheets.LATENCIES,
        "Counts are extrapolated from those at the sizes in brackets; `off` is the error at the second of these.",
        "",
    ]
    for row in report["rows"]:
        sizes = ", ".join(f"{rows:,}" for rows in row["counted_at"])
        lines.append(f"{row['workload']}  (counted at n = {sizes})")
        for part, name in (("iteration", "an iteration"), ("setup", "the rest" if "iteration" in row else "a fit")):
            if part in row:
                lines += _lines(name, row[part])
        if "measured_seconds" in row:
            lines.append(f"  measured on this machine's GPU: {row['measured_seconds'] * 1e3:.3f} ms")
    return "\n".join([*lines, "", *report["aims"]]).rstrip()


def _lines(name: str, part: dict[str, Any]) -> list[str]:
    """Write the counts of an iteration, or of the rest of a fit, and below each how long it takes."""
    counts, times = part["counts"], part["seconds"]
    asked = (
        f"{counts['launches']:.0f} launches ({counts['kernels']:.0f} ours)",
        f"{counts['reads']:.0f} host reads",
        f"bus {counts['up'] / 1e6:.2f} MB up, {counts['down'] / 1e6:.2f} down",
        f"memory {counts['dram'] / 1e6:.1f} MB",
        f"L2 {counts['cached'] / 1e6:.1f} MB",
        f"{counts['flops64'] / 1e9:.3f} Gflop float64",
        f"{counts['flops32'] / 1e9:.3f} float32",
    )
    taken = ", ".join(f"{key} {value * 1e3:.3f}" for key, value in times.items())
    off = f", off {part['off_at_the_check']:.1%}"
    off += "" if part["even"] else ", and of little worth: the sizes differ in how often kernels are launched"
    return [
        f"  {name}: {', '.join(asked)}{off}",
        f"    ms: {taken}: {part['total'] * 1e3:.3f} in all, {part['binds']} binds",
    ]
