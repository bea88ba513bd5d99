"""k-means over feature matrices, dense or sparse, in weighted blocks of columns. Start with `distance`."""
