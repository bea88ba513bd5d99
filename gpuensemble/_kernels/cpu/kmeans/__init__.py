"""The steps of k-means over labels on the CPU; `relabel` and `pricing` are twins of files of kernels/."""
