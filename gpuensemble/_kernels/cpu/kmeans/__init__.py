"""The steps of k-means over labels on the CPU; `relabel`, `pricing` and `short` are twins of files of kernels/."""
