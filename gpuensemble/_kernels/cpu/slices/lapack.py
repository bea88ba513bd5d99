"""Routines of LAPACK that other threads run beside: SciPy's own wrappers hold the GIL, so that threads take turns."""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import get_cython_function_address

LETTERS = {"float32": "s", "float64": "d"}


def call(name: str, dtype: Any, *arguments: Any) -> int:
    """Call a routine for numbers of a type, with all of its arguments but the last, `info`, which is returned.

    Arrays are contiguous, and overwritten where the routine writes; arrays of integers have 64 bits an entry. LAPACK's
    integers have 64 or 32 bits, as SciPy was built: of a number in 64 bits the first 32 are the same.
    """
    given = [_by_reference(argument) for argument in arguments]
    info = ctypes.c_int64(0)
    _routine(name, np.dtype(dtype).name)(*given, ctypes.byref(info))
    return info.value


@functools.cache
def _routine(name: str, dtype: str) -> Callable:
    address = get_cython_function_address("scipy.linalg.cython_lapack", LETTERS[dtype] + name)
    return ctypes.CFUNCTYPE(None)(address)  # which lets go of the GIL


def _by_reference(argument: Any) -> Any:
    if isinstance(argument, str):
        return ctypes.byref(ctypes.c_char(argument.encode()))
    if isinstance(argument, int):
        return ctypes.byref(ctypes.c_int64(argument))
    if not argument.flags.forc:
        raise ValueError(f"An array for LAPACK must be contiguous, got strides {argument.strides}.")
    return ctypes.c_void_p(argument.ctypes.data)
