"""Kernels on CUDA have a launcher here for each file of kernels/, which `source` compiles with CuPy."""
