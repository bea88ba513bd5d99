"""What the methods and the toolbox share of linear algebra: Krylov spaces, eigenvectors, singular value thresholding.

May import `_array` and `_kernels`. Start with `thresholding`; `pairs` and `sequence` are the special forms that LTA
and RSEC call through `prox`.
"""
