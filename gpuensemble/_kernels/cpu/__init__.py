"""Numba compiles these kernels; `membership`, `kmeans`, `slices`, `lta` and `pce` are twins of files of kernels/."""
