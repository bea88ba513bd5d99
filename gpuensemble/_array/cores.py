"""A thread that helps needs a core: Linux tells which one it is on, how long it waited, and who else runs.

A thread is woken where it was last. If that is the core of the one who waits for help, both may stay there for tens of
milliseconds, while another core has nothing to do. So a helper moves off.

Elsewhere than on Linux threads stay where the system puts them, and nobody knows how long they waited.
"""

import ctypes
import os
import sys
import threading

LINUX = sys.platform == "linux"
WAITS = "/proc/thread-self/schedstat"  # "949460 20300 2": time on a core, time in wait for one, both in ns; turns
RUNNING = "/proc/loadavg"  # "0.20 0.18 0.12 3/80 11206": 3 threads of the system run, or wait for a core
_core_of_this_thread = getattr(ctypes.CDLL(None), "sched_getcpu", None) if LINUX else None
_of_this_thread = threading.local()


def current() -> int:
    """Return the core that this thread is on, or -1 if that is not known."""
    return -1 if _core_of_this_thread is None else _core_of_this_thread()


def move_off(core: int) -> None:
    """Leave this core, if this thread is on it and may use another."""
    if core < 0 or current() != core:
        return
    allowed = os.sched_getaffinity(0)
    if len(allowed) > 1:
        os.sched_setaffinity(0, allowed - {core})
        os.sched_setaffinity(0, allowed)


def waited() -> float:
    """Return for how many seconds in all this thread was ready to run, and others had the cores; 0 if not known."""
    try:
        file = _of_this_thread.file
    except AttributeError:
        file = _of_this_thread.file = _opened()
    return 0.0 if file < 0 else int(os.pread(file, 100, 0).split()[1]) / 1e9


def _opened() -> int:
    """Open the file once for each thread: a pass over few rows takes less time. It stays open, as the thread stays."""
    try:
        return os.open(WAITS, os.O_RDONLY) if LINUX else -1
    except OSError:  # a kernel that does not count, or a sandbox that hides it
        return -1


def crowded(n_threads: int) -> bool:
    """Tell whether other processes run where so many threads of this one would; True if that is not known.

    Where this process may use some of the cores only, nobody knows who else does.
    """
    if not LINUX or len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
        return True
    try:
        of_all, _ = _read(RUNNING).split()[3].split(b"/")
        ours = running()  # some may have begun meanwhile: no harm
    except OSError:
        return True
    return int(of_all) - ours + n_threads > (os.cpu_count() or 1)


def running() -> int:
    """Return how many threads of this process run, or wait for a core; 1, this one, elsewhere than on Linux."""
    return sum(map(_runs, os.listdir("/proc/self/task"))) if LINUX else 1


def _runs(thread: str) -> bool:
    """Tell whether a thread of this process runs, or waits for a core: "11 (python) R ..."."""
    try:
        return _read(f"/proc/self/task/{thread}/stat").rpartition(b")")[2].split()[0] == b"R"
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return False


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
