"""Numba compiles the kernels without the GIL, keeps them on disk, and divides as NumPy does."""

import functools
import pickle
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event


def _can_keep() -> bool:
    """Tell whether Numba has a place on disk for what it compiles: the package, or a folder of the user's."""
    try:
        numba.njit(cache=True)(_nothing)
    except RuntimeError:
        warnings.warn(
            "Numba can write neither to the package nor to a home folder: kernels are compiled in every process; set "
            "NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=2,
        )
        return False
    return True


def _nothing() -> None:
    """Do nothing; what is kept of it tells whether anything can be."""


KEPT = _can_keep()


class _Watch(event.Listener):
    """This adds up the time that compiling takes, and tells a person at a terminal of it once."""

    def __init__(self) -> None:
        self.seconds, self._began, self._open, self._told = 0.0, 0.0, 0, False

    def on_start(self, event: Any) -> None:
        """Begin with the outermost of kernels that need each other."""
        if not self._open:
            self._began = time.perf_counter()
        self._open += 1
        module = event.data["dispatcher"].py_func.__module__ or ""  # a function may have none
        ours = module.startswith("gpuensemble.")
        if ours and not self._told and sys.stderr is not None and sys.stderr.isatty():
            print(f"gpuensemble: compiling kernels{', once' if KEPT else ''} ...", file=sys.stderr)
            self._told = True

    def on_end(self, event: Any) -> None:
        """Stop with the outermost one; Numba compiles one at a time, whatever the number of threads."""
        self._open -= 1
        if not self._open:
            self.seconds += time.perf_counter() - self._began


WATCH = _Watch()
event.register("numba:compile", WATCH)


OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
FROM_KERNELS: Any = OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: Callable) -> Any:
    """Compile a function without the GIL."""
    return _forgiving(numba.njit(cache=KEPT, **OPTIONS)(function))


def inner(function: Callable) -> Any:
    """Compile a function that only kernels call, which it is kept with: Python would call nothing, and crash."""
    return numba.njit(**FROM_KERNELS)(function)


def inlined(function: Callable) -> Any:
    """Put a function into the one kernel that calls it, before that is compiled: each on its own would take longer."""
    return numba.njit(inline="always", **FROM_KERNELS)(function)


def reordered(function: Callable) -> Any:
    """Compile a function whose sums over columns may be added up in any order, several at a time."""
    return _forgiving(numba.njit(cache=KEPT, fastmath={"reassoc"}, **OPTIONS)(function))


def inner_reordered(function: Callable) -> Any:
    """Do `reordered` for a function that only kernels call."""
    return numba.njit(fastmath={"reassoc"}, **FROM_KERNELS)(function)


@functools.cache
def _stamp() -> tuple:
    """Return what changes with any file that a kernel's functions may come from."""
    home = Path(__file__).parents[1]
    files = sorted((str(path.relative_to(home)), path.stat()) for path in home.rglob("*.py"))
    return tuple((name, facts.st_mtime_ns, facts.st_size) for name, facts in files)


def _forgiving(dispatcher: Any) -> Any:
    """Let a file that was kept count as none if it is damaged, or from another version of any file of kernels.

    Numba looks at the file of the kernel only, and not at those whose functions the kernel calls. And it reads its
    index of what it has compiled before it looks whether that belongs to this version of the code.
    """
    file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, _stamp())
    if hasattr(file, "_load_index"):
        load = file._load_index

        def load_index() -> dict:
            try:
                return load()
            except (AttributeError, EOFError, ImportError, LookupError, TypeError, ValueError, pickle.PickleError):
                return {}

        file._load_index = load_index
    return dispatcher
