"""Sums of rows of a float64 table, as a spectral cut needs them; it is the CPU's twin of kernels/embedding.cu."""

import numpy as np

from gpuensemble._kernels.cpu import membership
from gpuensemble._kernels.cpu.compiling import kernel
from gpuensemble._kernels.cpu.features.lanes import LANES, dot


def gather_shares(m, table, share, magic):
    """Return H @ table, each row times its share, rounded to whole multiples of a unit.

    Parameters
    ----------
    m : Membership
    table : array of float64, C x K
    share : array of n float64
    magic : array of one float64
        Is added and taken off again, which rounds.
    """
    rows = membership.gather_sum(m, table)
    rows *= share[:, None]
    rows += magic
    rows -= magic
    return rows


def gather_lengths(m, table):
    """Return the length of each row of H @ table."""
    rows = membership.gather_sum(m, table)
    lengths = np.empty(len(rows))
    _lengths(rows, np.empty(LANES), lengths)
    return lengths


@kernel
def _lengths(rows, lanes, lengths):
    for x in range(len(rows)):
        lengths[x] = np.sqrt(dot(rows[x], rows[x], lanes))
