"""One published method a file."""
