"""The stand-in lays its results out in memory as CuPy does, which is often not as NumPy does.

CuPy gives C order to what it computes, whatever the order of the input: elementwise functions, reductions, products,
gathers, joins. What keeps the order of its input says so by name. A Fourier transform runs along the last axis of a
copy with swapped axes and gives back a view of that; cuSOLVER works on columns. A view stays a view.
"""

import numpy as np

KEEPING = {"astype", "copy", "zeros_like", "ones_like", "full_like"}  # their `order` is that of the input, or given


def laid(name, result, given, options):
    """A result of NumPy's in CuPy's layout; `name` as in "cupy.fft.rfft", `given` the arguments by position."""
    if isinstance(result, tuple):
        parts = tuple(laid(name, part, given, options) for part in result)
        return _decomposed(name, parts, *given) if name.startswith("cupy.linalg.") else parts
    if not isinstance(result, np.ndarray) or name.rpartition(".")[2] in KEEPING:
        return result
    if any(isinstance(x, np.ndarray) and np.may_share_memory(result, x) for x in (*given, *options.values())):
        return result
    if name.startswith("cupy.fft.") and result.ndim:
        axis = options.get("axis", given[2] if len(given) > 2 else -1)
        return _in_order(result.swapaxes(axis, -1)).swapaxes(axis, -1)
    if name == "cupy.linalg.solve" or (name == "cupy.linalg.inv" and result.ndim == 2 and given[0].flags.f_contiguous):
        return _in_columns(result)
    return _in_order(result)


def _decomposed(name, parts, matrix):
    """Left vectors lie in columns, but for those of a single wide matrix; right ones in rows, but for a tall one's."""
    if name == "cupy.linalg.eigh":
        return parts[0], _in_columns(parts[1])
    if name == "cupy.linalg.qr":
        return _in_columns(parts[0]), parts[1]
    if name == "cupy.linalg.svd" and matrix.ndim > 2:
        return _in_columns(parts[0]), *parts[1:]
    if name == "cupy.linalg.svd" and matrix.shape[0] > matrix.shape[1]:
        return _in_columns(parts[0]), parts[1], _in_columns(parts[2])
    return parts


def _in_order(x):
    return x.copy(order="C")


def _in_columns(x):
    return _in_order(x.swapaxes(-1, -2)).swapaxes(-1, -2)
