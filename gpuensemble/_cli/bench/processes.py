"""Processes beside the bench: one that keeps a core busy, and one that runs some cases with a single thread."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ONE = ", one thread"  # after the names of those cases
# It ends with the process that began it, even if that was killed.
COMPANY = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True: pass
"""


@contextlib.contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Keep a core busy as long as this lasts: threads of BLAS that spin were once 50 times as slow beside that."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", COMPANY], stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            process.kill()


def again_with(threads: int) -> None:
    """Start the same command again, in the place of this process, if it does not have so many threads."""
    if os.environ.get(THREADS[0]) != str(threads):
        os.execve(sys.executable, sys.orig_argv, os.environ | dict.fromkeys(THREADS, str(threads)))


def with_one_thread(names: list[str], samples: int, repeat: int) -> list[dict[str, Any]]:
    """Run the cases of these names in a process of one thread, on the CPU; return their results."""
    options = ["--json", "--device", "cpu", "--threads", "1", "--samples", str(samples), "--repeat", str(repeat)]
    options += [word for name in names for word in ("--only", name)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": path}
    command = [sys.executable, "-m", "gpuensemble", "bench", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        raise ValueError(f"The cases with one thread could not be run: {done.stderr.strip()}")
    results = json.loads(done.stdout)["results"]
    return [result | {"case": result["case"] + ONE} for result in results]
