"""k-means over feature matrices, dense or sparse, measures weighted blocks of columns. Start with `distances`."""
