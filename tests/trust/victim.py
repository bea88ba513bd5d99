"""A process in which things go wrong: it fits again and again in children of its own, and tells what became of each.

Run as `python victim.py FOLDER PLANS`, with the library of `faulty.cpp` preloaded; `run` tells what a plan is. It
prints a line of JSON for each fault: how the child ended, what it said, what was in the folder then, and the same of a
second child that goes on from there undisturbed. Children are forked, so that none has to load what all need.
"""

import contextlib
import ctypes
import errno
import hashlib
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import gpuensemble as ge
from gpuensemble._cli.main import main
from gpuensemble._kmeans.labels import checkpoint
from gpuensemble._tables import readers

LIMIT = 60  # seconds after which a child hangs
LARGE = 1 << 17  # bytes of an allocation that may fail: NumPy itself crashes if smaller buffers, of casts, get none
HOW = {"full": errno.ENOSPC, "broken": errno.EIO, "killed": -1}
library = ctypes.CDLL(os.environ["LD_PRELOAD"])
library.faulty_calls.restype = ctypes.c_char_p
library.faulty_allocations.restype = ctypes.c_long
library.faulty_arm_memory.argtypes = [ctypes.c_size_t, ctypes.c_long]
library.faulty_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
checkpoint.EVERY = 4


def table(n):
    """Labels of rows in four groups, some of them wrong, in eight bytes each, so that they are coded into a file."""
    rng = np.random.default_rng(0)
    labels = np.repeat(rng.integers(0, 4, (n, 1)), 6, axis=1)
    return np.where(rng.random(labels.shape) < 0.45, rng.integers(0, 4, labels.shape), labels)


def fit(folder, n_clusters=4, **settings):
    """Fit a file, as a program does."""
    try:
        ge.SEC(
            *(n_clusters,),
            **({"init": "random", "n_init": 2, "random_state": 0, "max_iter": 40} | settings),
            **{"checkpoint": folder / "out" / "state", "resume": True, "out": folder / "out" / "labels.npy"},
        ).fit(folder / "table.npy")
    except (OSError, MemoryError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


def segments(folder, n_clusters=4):
    """Run the command that makes base partitions and their consensus."""
    out = folder / "out"
    files = ["--labels", out / "base.npy", "--out", out / "labels.npy", "--checkpoint", out / "state", "--resume"]
    more = ["-k", n_clusters, "-r", 12, "--ratio", 0.5, "--set", "init=random", "--set", "n_init=2"]
    return main([str(word) for word in ["fit-segments", folder / "features.npy", *files, *more]])


def command(folder, n_clusters=4):
    """Run the command that reads a table into memory, and writes an array."""
    return main(["fit", str(folder / "table.npy"), "-k", str(n_clusters), "--out", str(folder / "out" / "labels.npy")])


TASKS = {"fit": fit, "segments": segments, "command": command}


def inputs(folder, n):
    """Write what is read: a table of labels, and features."""
    for name in ("out", "tmp", "before"):
        (folder / name).mkdir(parents=True)
    tempfile.tempdir = str(folder / "tmp")
    np.save(folder / "table.npy", table(n))
    rng = np.random.default_rng(1)
    np.save(folder / "features.npy", rng.normal(size=(n, 3)) + 2 * rng.integers(0, 3, (n, 1)))


def child(act, kill_after=None):
    """Do it in a child: its exit code or the signal that ended it, what it printed, and what it said on stderr."""
    pipes = [os.pipe(), os.pipe()]
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT)
        for number, (_, into) in enumerate(pipes, 1):
            os.dup2(into, number)
        code = act()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    out, error = map(read, pipes)
    error = re.sub(r"gpuensemble: .*: \d+ samples x \d+ partitions, no ids\n", "", error)
    return {"status": status, "out": out, "error": error}


def read(pipe):
    """What the child wrote, which is less than a pipe holds."""
    source, into = pipe
    os.close(into)
    with open(source) as file:
        return file.read()


def digests(folder):
    """The files in the folders of results and of temporary files, by name: a hash of what each holds."""
    paths = [path for name in ("out", "tmp") for path in (folder / name).iterdir()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def reset(folder):
    """Bring back what was there before."""
    shutil.rmtree(folder / "out")
    shutil.copytree(folder / "before", folder / "out")


def calls(folder, act):
    """The names of all calls of an undisturbed run that change a file."""

    def watched():
        library.faulty_arm(bytes(folder), 0, 0)
        code = act(folder)
        print("\n" + library.faulty_calls().decode())
        return code

    reset(folder)
    return child(watched)["out"].split("\n")[-2].split()


def states(folder, act):
    """A hash of each state of the checkpoint of an undisturbed run, in their order."""

    def watched():
        save = checkpoint.save

        def saving(path, *args):
            save(path, *args)
            print("\n" + hashlib.sha256(Path(path).read_bytes()).hexdigest())

        checkpoint.save = saving
        return act(folder)

    reset(folder)
    return [line for line in child(watched)["out"].split("\n") if len(line) == 64]


def disturbed(folder, act, arm, kill_after=None, resumed=True):
    """What became of a run that was disturbed, and of the one that goes on from there."""

    def run():
        arm()
        return act(folder)

    reset(folder)
    facts = {"first": child(run, kill_after), "left": digests(folder)}
    return facts | {"second": child(lambda: act(folder)), "end": digests(folder)} if resumed else facts


def each_call(folder, act, fault, step):
    """One after the other, every call (or every few) that changes a file goes wrong."""
    for number in range(1, len(calls(folder, act)) + 1, step):

        def arm(number=number):
            library.faulty_arm(bytes(folder), number, HOW[fault])

        yield {"fault": f"{fault} at call {number}"} | disturbed(folder, act, arm)


def each_size(folder, act, _, step):
    """Files may not be longer than some bytes, from none to the length of the longest."""
    for size in range(0, max(path.stat().st_size for path in (folder / "after").iterdir()), step):

        def arm(size=size):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        yield {"fault": f"files of at most {size} bytes"} | disturbed(folder, act, arm)


def each_allocation(folder, act, _, number):
    """Some of the large allocations fail, each in a child, in which a second fit follows undisturbed."""

    def watched():
        library.faulty_arm_memory(LARGE, 0)
        code = act(folder)
        print(f"\n{library.faulty_allocations()}")
        return code

    reset(folder)
    count = int(child(watched)["out"].split()[-1])
    for which in np.linspace(1, count, min(number, count)).astype(int).tolist():

        def twice(which=which):
            library.faulty_arm_memory(LARGE, which)
            code = act(folder)
            library.faulty_arm_memory(sys.maxsize, 0)
            print(json.dumps([code, digests(folder)]))
            return act(folder)

        reset(folder)
        facts = child(twice)
        yield {"fault": f"no memory at allocation {which} of {count}", "second": facts, "end": digests(folder)}


def each_kill(folder, act, _, number):
    """Kills at random moments of a run."""
    reset(folder)
    start = time.monotonic()
    child(lambda: act(folder))
    duration = time.monotonic() - start
    moments = random.Random(0)
    for _ in range(number):
        moment = moments.random()
        facts = disturbed(folder, act, lambda: None, moment * duration)
        yield {"fault": f"killed at {moment:.3f} of {duration:.3f} s"} | facts


def make_before(folder, act):
    """Answers of another fit, and what this one leaves when it is killed half way: a checkpoint, and a partial file."""
    child(lambda: act(folder, 3))
    for path in (folder / "out").iterdir():
        if not path.name.startswith("labels"):
            path.unlink()
    keep(folder, "before")
    middle = len(calls(folder, act)) // 2
    disturbed(folder, act, lambda: library.faulty_arm(bytes(folder), middle, HOW["killed"]), resumed=False)
    keep(folder, "before")


def keep(folder, name):
    """Copy what is there now."""
    shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(folder / "out", folder / name)


def undisturbed(folder, act, scenario):
    """Make what is there before and after; return facts of an undisturbed run."""
    with contextlib.redirect_stdout(io.StringIO()):
        act(folder)  # children find all loaded and compiled
    if scenario == "old":
        reset(folder)
        make_before(folder, act)
    reset(folder)
    facts = {"before": digests(folder), "states": states(folder, act), "calls": calls(folder, act)}
    keep(folder, "after")
    return facts | {"end": digests(folder)}


SWEEPS = {"sizes": each_size, "memory": each_allocation, "kills": each_kill}


def run(folder, n, task, scenario, faults):
    """Print the facts of an undisturbed run, and of each fault, given as name:number."""
    act = TASKS[task]
    readers.BLOCK_BYTES = 4 * n  # two blocks of the table
    inputs(folder, n)
    print(json.dumps(undisturbed(folder, act, scenario)), flush=True)
    for fault in faults:
        name, number = fault.split(":")
        for facts in SWEEPS.get(name, each_call)(folder, act, name, int(number)):
            print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    for number, plan in enumerate(json.loads(sys.argv[2])):
        run(Path(sys.argv[1]) / str(number), *plan)
