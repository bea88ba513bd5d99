"""A process that fits on a cluster whose processes are killed; it tells what became of each fit.

Run as `python lost.py FOLDER KILLS`, it prints a line of JSON for each fit, the first of which nobody disturbs. Without
KILLS it runs a command instead.
"""

import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask.array
import numpy as np
from distributed import Client

import gpuensemble as ge

N, R, PARTS = 8000, 8, 4
WORKERS = 2
TINY = "60 kB"  # what a worker may hold in memory: less than its blocks, so that some of them are on disk
PATIENT = {f"DASK_DISTRIBUTED__WORKER__MEMORY__{name}": "False" for name in ("SPILL", "PAUSE", "TERMINATE")}


def table():
    """Labels of rows in four groups, half of them wrong."""
    rng = np.random.default_rng(0)
    labels = np.repeat(rng.integers(0, 4, (N, 1)), R, axis=1)
    return np.where(rng.random(labels.shape) < 0.5, rng.integers(0, 4, labels.shape), labels).astype("int8")


class Processes:
    """A scheduler and workers of one thread, each a process of ours, on this machine alone.

    There are no nannies: a worker that is killed is gone, and a new one takes its place when this says so. Every second
    one has next to no memory.
    """

    def __init__(self, folder):
        self.folder, self.started = folder, 0
        self.scheduler = self._start("scheduler", "--port", "0")
        self.workers = [self.new_worker() for _ in range(WORKERS)]

    def new_worker(self):
        """Start a worker."""
        self.started += 1
        memory = ("--memory-limit", "0" if self.started % 2 else TINY)
        return self._start("worker", "--no-nanny", "--nthreads", "1", "--local-directory", str(self.folder), *memory)

    def kill_workers(self, number):
        """Kill the oldest workers; new ones take their places."""
        for _ in range(number):
            _end(self.workers.pop(0))
            self.workers.append(self.new_worker())

    def client(self):
        """Return a client, when all workers are there."""
        client = Client(scheduler_file=str(self.folder / "scheduler.json"))
        client.wait_for_workers(WORKERS, timeout=60)
        return client

    def _start(self, what, *options):
        file = ("--scheduler-file", str(self.folder / "scheduler.json"))
        words = [sys.executable, "-m", f"distributed.cli.dask_{what}", *file, "--host", "127.0.0.1", "--no-dashboard"]
        with open(self.folder / f"{what}.log", "a") as log:
            return subprocess.Popen([*words, *options], stdout=log, stderr=log, env=os.environ | PATIENT)


def _end(process):
    process.kill()
    process.wait()


@contextlib.contextmanager
def processes(folder):
    """Processes that are gone in the end."""
    found = Processes(folder)
    try:
        yield found
    finally:
        for process in (*found.workers, found.scheduler):
            _end(process)


def tell_of_fit(fault, labels):
    """Fit, and print a hash of all that was found, or the error; return how long it took."""
    start = time.monotonic()
    try:
        found = ge.SEC(4, init="random", n_init=1, random_state=0).fit(labels)
        parts = [np.asarray(found.labels_), np.asarray(found.confidence_), np.asarray(found.objective_path_)]
        facts = {"digest": hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()}
    except OSError as error:
        facts = {"error": f"{type(error).__name__}: {error}"}
    seconds = time.monotonic() - start
    print(json.dumps({"fault": fault, "seconds": seconds} | facts), flush=True)
    return seconds


def tell_of_fit_with(fault, labels, act, after):
    """The same, while something happens after some seconds."""
    timer = threading.Timer(after, act)
    timer.start()
    try:
        tell_of_fit(fault, labels)
    finally:
        timer.join()  # it may start a worker, which is to be ended with the others


def spilled(dask_worker):
    """On a worker: how many values it has on disk."""
    return len(getattr(dask_worker.data, "slow", ()))


def scattered(client):
    """Labels that are in the memory of workers, and nowhere else."""
    parts = client.scatter(np.array_split(table(), PARTS))
    return dask.array.concatenate([dask.array.from_delayed(part, (N // PARTS, R), "int8") for part in parts])


def run(folder, kills):
    """Kill workers at random moments of fits, at times all of them, then what has the only copy, then the scheduler."""
    moments = random.Random(0)
    labels = dask.array.from_array(table(), chunks=(N // PARTS, R))
    with processes(folder) as cluster, cluster.client() as client:
        tell_of_fit("none: loads what workers need", labels)
        kept = client.persist(labels)
        duration = tell_of_fit("none: some blocks are on disk", kept)
        print(json.dumps({"spilled": sum(client.run(spilled).values())}), flush=True)
        del kept
        for number in range(kills):
            moment, victims = moments.random(), WORKERS if number % 3 == 2 else 1
            fault = f"{victims} killed at {moment:.3f} of {duration:.2f} s"
            tell_of_fit_with(fault, labels, lambda victims=victims: cluster.kill_workers(victims), moment * duration)
        client.wait_for_workers(WORKERS, timeout=60)
        lost = scattered(client)
        cluster.kill_workers(1)
        tell_of_fit("data are lost", lost)
        tell_of_fit_with("the scheduler is killed", labels, cluster.scheduler.kill, duration * moments.random())


def run_command(folder):
    """Kill the scheduler while the command makes base partitions, of which there is a part of a file."""
    np.save(folder / "features.npy", np.random.default_rng(0).normal(size=(60_000, 5)))
    with processes(folder) as cluster:
        cluster.client().close()
        address = json.loads((folder / "scheduler.json").read_text())["address"]
        files = ["--labels", str(folder / "base.npy"), "--out", str(folder / "out.npy"), "--scheduler", address]
        words = [sys.executable, "-m", "gpuensemble", "fit-segments", str(folder / "features.npy"), "-k", "6", *files]
        command = subprocess.Popen([*words, "-r", "500"], stderr=subprocess.PIPE, text=True)
        while command.poll() is None and not list(folder.glob("*.partial")):
            time.sleep(0.01)
        cluster.scheduler.kill()
        _, error = command.communicate()
    left = [path.name for path in folder.iterdir() if path.suffix in (".npy", ".partial")]
    print(json.dumps({"status": command.returncode, "error": error, "left": left}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        run_command(Path(sys.argv[1]))
