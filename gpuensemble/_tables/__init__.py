"""A table of labels in blocks of rows: in memory, on disk, on a Dask cluster; how it is read, and where answers go.

May import `_array`, `_kernels` and `membership`. Start with `blocks`.
"""
