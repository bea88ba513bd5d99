"""Numba compiles the kernels on the CPU; `membership`, `slices`, `lta` and `pairs` are twins of files of kernels/."""
