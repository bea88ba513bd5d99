"""k-means over a table of labels in blocks: exact sums, the same bits everywhere. Start with `lloyd`."""
