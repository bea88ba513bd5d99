"""Numba kernels loop over the rows of a table here, with sums that stay in vector registers.

Numba's own vectoriser keeps such sums in memory, and looks for overlapping arrays at each row of the table, which takes
longer than the additions. Here tables and sums have rows of whole cache lines (`tiles`), and a line is one vector. Per
column the additions are those of a plain loop, in its order. Start with `rows`; `emitter` writes the code.
"""
