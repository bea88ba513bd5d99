"""Lloyd's k-means: `labels/` over a table of labels in blocks (SEC, KCC), `features/` over feature matrices.

May import `_array`, `_kernels`, `membership`, `_linear` and `_tables`.
"""
