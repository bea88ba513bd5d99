"""These kernels work on graphs: trees of samples, communities, and the nearest of many rows."""
