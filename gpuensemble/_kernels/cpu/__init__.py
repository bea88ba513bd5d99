"""Kernels on the CPU, compiled by Numba; `membership`, `slices` and `lta` are the twins of the files of kernels/."""
