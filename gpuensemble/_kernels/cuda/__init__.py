"""Kernels on CUDA: a launcher for each file of kernels/, which `source` compiles with CuPy."""
