"""The eigenvalues of a tridiagonal matrix below a bound are as many as its Sturm sequence has negative terms."""

from gpuensemble._kernels.cpu.compiling import kernel

LEAST = 1e-300  # a term that is nearer to 0 is taken for as far below it


@kernel
def count_below(diagonal, squares, bound):
    """Return how many eigenvalues of a symmetric tridiagonal matrix are below a bound; `squares` are those beside."""
    count, term = 0, 1.0
    for i in range(len(diagonal)):
        term = diagonal[i] - bound - (squares[i - 1] / term if i else 0.0)
        if abs(term) < LEAST:
            term = -LEAST
        count += term < 0
    return count
