"""How Numba compiles the kernels: without the GIL, kept on disk, divisions as in NumPy."""

from typing import Any

import numba

kernel: Any = numba.njit(nogil=True, cache=True, error_model="numpy")
# sums over columns in any order, several at a time
reordered: Any = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc"})
