"""This room goes from a similarity matrix, an embedding or the graph of samples and clusters to labels.

It may import all rooms before it: `_array`, `_kernels`, `membership`, `_linear`, `_tables` and `_kmeans`.
"""
