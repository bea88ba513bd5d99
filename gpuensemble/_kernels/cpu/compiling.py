"""Numba compiles the kernels without the GIL, keeps them on disk, and divides as NumPy does."""

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numba


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


def kernel(function: Callable) -> Any:
    """Compile a function without the GIL."""
    return _forgiving(numba.njit(nogil=True, cache=KEPT, error_model="numpy")(function))


def reordered(function: Callable) -> Any:
    """Compile a function whose sums over columns may be added up in any order, several at a time."""
    return _forgiving(numba.njit(nogil=True, cache=KEPT, error_model="numpy", fastmath={"reassoc"})(function))


def _forgiving(dispatcher: Any) -> Any:
    """Let a file that was kept, and that is damaged or names a class of another version, count as none.

    Numba reads its index of what it has compiled before it looks whether that belongs to this version of the code.
    """
    file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(file, "_load_index"):
        load = file._load_index

        def load_index() -> dict:
            try:
                return load()
            except (AttributeError, EOFError, ImportError, LookupError, TypeError, ValueError, pickle.PickleError):
                return {}

        file._load_index = load_index
    return dispatcher
