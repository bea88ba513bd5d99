"""Numba compiles the kernels without the GIL, keeps them on disk, and divides as NumPy does."""

from typing import Any

import numba

kernel: Any = numba.njit(nogil=True, cache=True, error_model="numpy")
# sums over columns in any order, several at a time
reordered: Any = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc"})
