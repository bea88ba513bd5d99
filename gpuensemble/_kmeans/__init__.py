"""This room has Lloyd's k-means: `labels/` works on a table of labels in blocks (SEC, KCC), `features/` on matrices.

It may import `_array`, `_kernels`, `membership`, `_linear` and `_tables`.
"""
