"""A table of labels comes in blocks of rows: in memory, on disk or on a Dask cluster.

This room reads tables, and says where answers go. It may import `_array`, `_kernels` and `membership`. Start with
`blocks`.
"""
