"""This launches kernels/counts.cu over rows whose labels change, with names, arguments and bits of cpu/moves.py."""

from gpuensemble._kernels.cuda.membership import counted


def count_moves(membership, rows, old, new, weight, n_clusters):
    """Return by how much `count` changes where labels `old` become `new`; only `rows` are looked at, or all: None."""
    return counted(membership, rows, old, new, weight, None, n_clusters)


def count_moved_masses(membership, rows, old, new, weight, mass, n_clusters):
    """Return by how much `count_masses` changes where labels `old` become `new`."""
    cells = counted(membership, rows, old, new, weight, mass, n_clusters)
    return cells[: membership.n_columns], cells[membership.n_columns :]
