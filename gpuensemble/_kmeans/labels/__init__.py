"""k-means over a table of labels in blocks has exact sums, and the same bits everywhere. Start with `lloyd`."""
