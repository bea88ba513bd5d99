"""These kernels find singular values of many matrices at once.

`shrinking` is the twin of kernels/slices.cu, `jacobi` and `pairs` are those of kernels/jacobi.cu and pairs.cu.
`scaled`, `lapack` and `sturm` serve pairs of symmetric matrices; on a device CuPy does that.
"""

from gpuensemble._kernels.cpu.slices.jacobi import orthogonalise
from gpuensemble._kernels.cpu.slices.shrinking import shrink_slices

__all__ = ["orthogonalise", "shrink_slices"]
