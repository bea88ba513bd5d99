"""The methods and the toolbox share this linear algebra: Krylov spaces, eigenvectors, singular value thresholding.

It may import `_array` and `_kernels`. Start with `thresholding`; `pairs` and `sequence` are the special forms that
LTA and RSEC call through `prox`.
"""
