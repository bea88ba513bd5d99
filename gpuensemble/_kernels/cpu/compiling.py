"""Numba compiles the kernels without the GIL, keeps them on disk, and divides as NumPy does."""

import warnings
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
kernel: Any = numba.njit(nogil=True, cache=KEPT, error_model="numpy")
# sums over columns in any order, several at a time
reordered: Any = numba.njit(nogil=True, cache=KEPT, error_model="numpy", fastmath={"reassoc"})
