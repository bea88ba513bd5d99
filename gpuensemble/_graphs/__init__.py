"""This room has neighbour graphs of features, and partitions of their nodes. Start with `graph`.

It may import all rooms before it: `_array`, `_kernels`, `_linear` and `_kmeans`.
"""
