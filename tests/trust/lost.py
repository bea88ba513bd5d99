"""A process that fits on a cluster whose processes are killed; it tells what became of each fit.

Run as `python lost.py FOLDER WHAT NUMBER`: it prints a line of JSON for each fit, the first of which nobody disturbs.
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
from gpuensemble._cli.main import main

N, R, PARTS = 20_000, 8, 4
WORKERS = 2


def table():
    """Labels of rows in four groups, half of them wrong."""
    rng = np.random.default_rng(0)
    labels = np.repeat(rng.integers(0, 4, (N, 1)), R, axis=1)
    return np.where(rng.random(labels.shape) < 0.5, rng.integers(0, 4, labels.shape), labels).astype("int8")


class Processes:
    """A scheduler and workers of one thread, each a process of ours that can be killed, on this machine alone."""

    def __init__(self, folder, *options):
        self.folder, self.options = folder, options
        self.file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0")
        self.workers = [self.worker() for _ in range(WORKERS)]

    def worker(self):
        """Start a worker."""
        place = ("--local-directory", str(self.folder), "--no-nanny", "--nthreads", "1")
        return self._start("worker", *place, *self.options)

    def client(self):
        """Return a client when all workers are there."""
        client = Client(scheduler_file=str(self.file))
        client.wait_for_workers(WORKERS, timeout=60)
        return client

    def stop(self):
        """Kill all that is left."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, what, *options):
        words = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(self.file)]
        where = ["--host", "127.0.0.1", "--no-dashboard"]
        with open(self.folder / f"{what}.log", "a") as log:
            return subprocess.Popen([*words, *where, *options], stdout=log, stderr=log)


@contextlib.contextmanager
def cluster(folder, *options):
    """Processes that are gone in the end, and a client of them."""
    processes = Processes(folder, *options)
    try:
        with processes.client() as client:
            yield processes, client
    finally:
        processes.stop()


def fitted(labels, client):
    """A hash of labels, confidences and objectives, or the error."""
    start = time.monotonic()
    try:
        found = ge.SEC(4, init="random", n_init=2, random_state=0, client=client).fit(labels)
        parts = [np.asarray(found.labels_), np.asarray(found.confidence_), np.asarray(found.objective_path_)]
        facts = {"digest": hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()}
    except (OSError, RuntimeError, ValueError) as error:
        facts = {"error": f"{type(error).__name__}: {error}"}
    return facts | {"seconds": time.monotonic() - start}


def tell(fault, facts):
    """Print the facts of a fit."""
    print(json.dumps({"fault": fault} | facts), flush=True)


def in_a_moment(act, *arguments):
    """Do it at a moment of what goes on here."""
    timer = threading.Timer(*arguments, act)
    timer.start()
    return timer


def recomputable():
    """Labels that a worker can make again."""
    return dask.array.from_array(table(), chunks=(N // PARTS, R))


def killed(folder, number, at_a_time):
    """At a random moment of each fit one worker is killed, or all of them; new ones take their places."""
    moments = random.Random(0)
    with cluster(folder) as (processes, client):
        labels = recomputable()
        fitted(labels, client)  # loads what fits need
        first = fitted(labels, client)
        tell("none", first)
        for _ in range(number):
            moment = moments.random()

            def kill():
                for _ in range(at_a_time):
                    processes.workers.pop(0).kill()
                    processes.workers.append(processes.worker())

            timer = threading.Timer(moment * first["seconds"], kill)
            timer.start()
            facts = fitted(labels, client)
            timer.join()
            tell(f"{at_a_time} killed at {moment:.3f} of {first['seconds']:.2f} s", facts)


def scattered(folder, number):
    """The only copy of the table is in the memory of the workers, all of which are killed."""
    with cluster(folder) as (processes, client):
        parts = client.scatter(np.array_split(table(), PARTS))
        chunks = [dask.array.from_delayed(part, (N // PARTS, R), "int8") for part in parts]
        labels = dask.array.concatenate(chunks)
        first = fitted(labels, client)
        tell("none", first)
        def kill():
            for process in processes.workers:
                process.kill()
            processes.workers = [processes.worker() for _ in range(WORKERS)]
        if number:
            timer = threading.Timer(number * first["seconds"] / 4, kill)
            timer.start()
        else:
            kill()
        tell("scattered data are lost", fitted(labels, client))


def headless(folder, number):
    """The scheduler is killed in the middle of a fit."""
    with cluster(folder) as (processes, client):
        labels = recomputable()
        fitted(labels, client)
        first = fitted(labels, client)
        tell("none", first)
        threading.Timer(first["seconds"] * number / 100, processes.scheduler.kill).start()
        tell("the scheduler is killed", fitted(labels, client))
        tell("there is no scheduler", fitted(labels, client))


if __name__ == "__main__":
    folder, what, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    folder.mkdir(exist_ok=True)
    if what == "worker": killed(folder, number, 1)
    if what == "workers": killed(folder, number, 2)
    if what == "scattered": scattered(folder, number)
    if what == "headless": headless(folder, number)
