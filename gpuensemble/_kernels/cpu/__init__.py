"""Numba compiles the kernels on the CPU; `membership`, `moves`, `slices`, `lta` and `pairs` have twins in kernels/."""
