# ruff: noqa: E402 - path and environment are set before NumPy and the package are imported
"""Counts of what every method asks of a device, made on the stand-in, for `gpuensemble bench --model` and docs/gpu.md.

    python tests/counts.py write            # after a change of what runs on a device: all of it, in a few minutes
    python tests/counts.py write SEC PCE    # only workloads whose title contains one of these, and all methods
    python tests/counts.py compare          # nothing is written: says what differs

It fills gpuensemble/_cli/bench/counts.json and the table of docs/gpu.md. Tests count a part again. g++ and NVRTC are
needed.
"""

import contextlib
import json
import os
import re
import sys
import time
import types
import warnings
from pathlib import Path
from typing import ClassVar
from unittest import mock

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # matrices are small: more threads would wait for each other
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # what is counted is this checkout, whatever is installed

from cudasim import nvrtc, standin
from cudasim.counting import LAUNCHES, CountedModule
from cudasim.shim import ShimModule
from cudasim.tally import TALLY
from gpuensemble._array.devices import choose_device
from gpuensemble._cli.bench import workloads
from gpuensemble._kernels.cuda import source
from gpuensemble._kmeans.features import seeding
from gpuensemble._partition import bipartite
from gpuensemble._tables import readers
from gpuensemble.estimators._base import registry

FILE = ROOT / "gpuensemble" / "_cli" / "bench" / "counts.json"
PAGE = ROOT / "docs" / "gpu.md"
FEW_BLOCKS = 32  # of a grid: a small launch then strides over its work, as a large one does
SEEDS = 256  # rows that k-means++ draws from
FIELDS = ("launches", "kernels", "reads", "up", "down", "dram", "cached", "flops32", "flops64")
OF_KERNELS = ("dram", "cached", "flops32", "flops64")


class Marks:
    """Stands in for tqdm: notes what was counted when a bar begins and when it is moved on, after each iteration."""

    seen: ClassVar = []

    def __init__(self, **_):
        self.seen.append(so_far())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """A bar ends."""

    def set_description(self, *_, **__):
        """Nobody looks."""

    set_postfix = set_description

    def update(self, steps):
        """Some steps more are done."""
        if steps:
            self.seen.append(so_far())


class Ended(RuntimeError):
    """A fit had fewer iterations than are to be counted."""


def so_far():
    """What was counted since the process began: of everything, and the part that is due to our kernels."""
    ours = {f"kernel_{name}": sum(getattr(one, name) for _, one in LAUNCHES) for name in OF_KERNELS}
    return {name: getattr(TALLY, name) for name in FIELDS} | ours


def minus(two, one, times=1):
    """The difference, divided by a number of times."""
    return {name: (two[name] - one[name]) / times for name in two}


def of_fit(workload, given, iterations):
    """What a fit asks of the device in all, and before and after each of its iterations, if it has a bar."""
    Marks.seen.clear()
    before = so_far()
    workloads.fitted(workload, given, iterations, "cuda", verbose=1)
    return minus(so_far(), before), [minus(mark, before) for mark in Marks.seen]


def of_workload(workload, size):
    """What comes before and after the iterations, and an iteration, at a size; without iterations all is before."""
    beside, rows = size if isinstance(size, tuple) else (1, size)
    rows = beside * rows if workload.growth == "blocks" else rows
    found = {"rows": rows, "beside": beside}
    given = workload.data(rows)
    with limits(workload.growth, rows, beside):
        if workload.iterations is None:
            return found | {"setup": of_fit(workload, given, workload.at_most)[0], "iteration": None}
        low, high = workload.iterations
        whole, marks = of_fit(workload, given, workload.at_most or high)
        if marks and len(marks) <= high:
            raise Ended(f"ended after {len(marks) - 1} of {high} iterations")
        marks = marks or {low: of_fit(workload, given, low)[0], high: whole, -1: whole}
    one = minus(marks[high], marks[low], high - low)
    first = 0 if workload.growth == "square" else low  # a bar of k-means begins before its start
    rest = {name: whole[name] - (marks[-1][name] - marks[first][name]) - first * one[name] for name in one}
    return found | {"setup": rest, "iteration": one}


@contextlib.contextmanager
def limits(growth, rows, beside):
    """Blocks of a file, or samples of a table, are as small beside its rows as those of large ones are."""
    with contextlib.ExitStack() as stack:
        if growth == "blocks":
            stack.enter_context(mock.patch.object(readers, "BLOCK_BYTES", rows // beside * workloads.R))
        if growth == "sampled":
            for name in ("SAMPLE_ROWS", "START_ROWS"):
                stack.enter_context(mock.patch.object(bipartite, name, beside))
            for name in ("START_ROWS_PER_CLUSTER", "PART_ROWS", "PIVOT_ROWS_PER_CLUSTER", "FEW_ROWS"):
                stack.enter_context(mock.patch.object(bipartite, name, 1))
            for room, name in ((bipartite, "PIVOT_ROWS"), (seeding, "SEED_ROWS")):
                stack.enter_context(mock.patch.object(room, name, SEEDS))
            stack.enter_context(mock.patch.object(seeding, "SEED_ROWS_PER_CLUSTER", 1))
        yield


@contextlib.contextmanager
def on_standin(engine):
    """The stand-in device, with small grids, and with what only the first fit of a process asks for done."""
    small = mock.patch.object(source, "MAX_BLOCKS", FEW_BLOCKS)
    with small, standin.installed(engine), marking(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choose_device("cuda")
        yield


@contextlib.contextmanager
def marking():
    """`Marks` takes the place of tqdm."""
    before = sys.modules.get("tqdm")  # mock.patch.dict would also forget what is imported meanwhile
    sys.modules["tqdm"] = types.SimpleNamespace(tqdm=Marks)
    try:
        yield
    finally:
        del sys.modules["tqdm"]
        if before is not None:
            sys.modules["tqdm"] = before


# ------------------------------------------------------------------------------------------------ every method

ROWS, PARTITIONS, CLUSTERS = 300, 10, 5
SHOWN = ("launches", "kernels", "reads", "up", "down")
WINDOW = {"lta": (1, 5), "rsec": (2, 6), "nrsec": (2, 6), "pce": (2, 6), "cmvc": (0, 1)}  # else the second iteration
MOST = {"lta": 90, "rsec": 8, "nrsec": 8, "pce": 8}


def of_method(method):
    """What a small fit of a method asks of the device, in all and in an iteration, if it has any on the device."""
    given = workloads.noisy(ROWS, PARTITIONS, CLUSTERS)
    views = workloads.views(768, 16, 10).table  # of fewer rows its first consensus would be its last
    made = method.make(10 if method.of_views else CLUSTERS, 0, "cuda", 1)
    settings = {"init": given.start, "tol": 1e-300, "max_iter": MOST.get(method.name, 3)}
    known = made.get_params()
    made.set_params(**{name: value for name, value in settings.items() if name in known and name != "init"})
    if method.name in FROM_LABELS:
        made.set_params(init=given.start)
    low, high = WINDOW.get(method.name, (1, 2))
    Marks.seen.clear()
    before = so_far()
    made.fit(views if method.of_views else given.table)
    whole, marks = minus(so_far(), before), Marks.seen
    one = minus(marks[high], marks[low], high - low) if len(marks) > high else None
    shown = {name: {key: value[key] for key in SHOWN} for name, value in (("fit", whole), ("iteration", one)) if value}
    return {"iteration": None} | shown


FROM_LABELS = ("sec", "sec-entropy", "kcc")


def of_methods():
    """The same of every method that is installed, by name."""
    return {name: of_method(method) for name, method in registry.methods().items() if not method.missing}


# ------------------------------------------------------------------------------------------------ what is written


def rounded(found):
    """The same with numbers that are whole as whole numbers, and others to a hundredth."""
    if isinstance(found, dict):
        return {key: rounded(value) for key, value in found.items()}
    if isinstance(found, list):
        return [rounded(value) for value in found]
    return found if not isinstance(found, float) else int(found) if found == int(found) else round(found, 2)


def table(methods):
    """The table of docs/gpu.md."""
    lines = ["| method | an iteration: launches (ours) | host reads | bytes up, down | a fit: launches | host reads |"]
    lines.append("|---|---|---|---|---|---|")
    for name, found in methods.items():
        one, fit = found["iteration"], found["fit"]
        words = ("", "", "")
        if one:
            words = f"{one['launches']:g} ({one['kernels']:g})", f"{one['reads']:g}", f"{one['up']:g}, {one['down']:g}"
        cells = (registry.methods()[name].title, *words, f"{fit['launches']:g}", f"{fit['reads']:g}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_table(page, methods):
    """The page with the table in its place."""
    begin, end = "<!-- counts: begin -->\n", "\n<!-- counts: end -->"
    return re.sub(f"(?<={begin}).*?(?={end})", lambda _: table(methods), page, flags=re.DOTALL)


def count(only, keep):
    """Count the methods, and the workloads whose title contains one of `only`; the rest is as it was.

    `keep` is called with what is known so far after each of them, so that a run that is cut off is not lost.
    """
    found = {"methods": {}, "workloads": {}, "before": {}} | (json.loads(FILE.read_text()) if FILE.exists() else {})
    with on_standin(ShimModule):
        found["methods"] = rounded(of_methods())
    keep(found)
    nvrtc.missing()  # loads it, which the stand-in device would get in the way of
    failed = 0
    with on_standin(CountedModule):
        for workload in workloads.workloads():
            if any(part in workload.title for part in only or ("",)):
                begin = time.perf_counter()
                try:
                    points = [of_workload(workload, size) for size in workload.rows_counted]
                except (Ended, NotImplementedError) as error:  # of a kernel, by the interpreter of PTX
                    failed += 1
                    print(f"FAIL: {workload.title}: {error}", flush=True)
                    continue
                found["workloads"][workload.title] = rounded(points)
                print(f"{workload.title}: {time.perf_counter() - begin:.0f} s", flush=True)
                keep(found)
    return found, failed


def differences(known, found, path=""):
    """A line for each number that differs."""
    if isinstance(known, dict) and isinstance(found, dict):
        for key in known.keys() | found.keys():
            yield from differences(known.get(key), found.get(key), f"{path}/{key}")
    elif isinstance(found, dict | list) and known is None:
        yield f"{path} is new"
    elif isinstance(known, list) and isinstance(found, list) and len(known) == len(found):
        for i, (one, two) in enumerate(zip(known, found, strict=True)):
            yield from differences(one, two, f"{path}/{i}")
    elif known != found:
        yield f"{path}: {known} became {found}"


def written(found):
    """Fills the file, with the workloads that there are, in their order, and the table of the page."""
    titles = [workload.title for workload in workloads.workloads() if workload.title in found["workloads"]]
    text = json.dumps(
        found | {"workloads": {title: found["workloads"][title] for title in titles}}, separators=(",", ":")
    )
    FILE.write_text(re.sub(r'(?<=[}\]],)(?=["{])', "\n", text) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), found["methods"]))


def main(what, *only):
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    found, failed = count(only, written if what == "write" else lambda found: None)
    lines = sorted(differences(known, found))
    print(*(lines if what == "compare" else ()), f"{len(lines)} numbers differ from what was written", sep="\n")
    return int(bool(failed or (lines and what == "compare")))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
