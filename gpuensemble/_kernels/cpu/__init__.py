"""Numba compiles these kernels; `membership`, `slices`, `lta`, `pairs` and `pce` are twins of files of kernels/."""
