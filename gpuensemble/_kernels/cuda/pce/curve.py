"""This launches kernels/curve.cu, with names and arguments of cpu/pce/curve.py, and the bits of its `frame`."""

import numpy as np

from gpuensemble._kernels.cuda.source import TYPE, function, grid

THREADS = 256  # of a block


def frame(points, product, mean, reliability, labels, table, gamma, out):
    """Put [X g T Dg] into `out`; see cpu/pce/curve.py."""
    kind = points.dtype
    n, k = points.shape
    kernel = function(f"frame<{TYPE[kind.name]}>", "curve.cu")
    arguments = (points, product, mean, reliability, labels, table, kind.type(gamma), np.int64(n), np.int32(k), out)
    kernel((grid(-(-n * k // THREADS)),), (THREADS,), arguments)


def curve(gram, centre, step, is_long, settings):
    """Take a step of the search; return the matrix that makes the new point, its centre, and the next step."""
    import cupy

    k = len(centre)
    move, after, following = cupy.empty((2 * k, k)), cupy.empty((k, k)), cupy.empty(1)
    work = cupy.empty(14 * k * k + k)
    numbers = (np.int32(settings.max_trials), *map(np.float64, settings[1:]))
    arguments = (gram, np.int32(k), np.int32(is_long), *numbers, centre, step, move, after, following, work)
    function("curve<double>", "curve.cu")((1,), (THREADS,), arguments)
    return move, after, following
