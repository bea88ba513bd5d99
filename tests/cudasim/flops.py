"""Floating point operations of the library's functions, by name and shapes.

Products and decompositions have the counts of Golub and Van Loan, Matrix Computations (4th ed.: 1.1.11, 4.2, 5.2, 8.3,
8.6), Fourier transforms 5 n log2 n, half of that if they are real. Any other function has one for each entry of the
largest array of floats that it takes or gives. Whatever only moves numbers has none.
"""

from math import log2, prod

MOVES = {
    *(
        "",
        "copy",
        "astype",
        "reshape",
        "ravel",
        "flatten",
        "transpose",
        "take",
        "concatenate",
        "stack",
        "zeros",
        "ones",
    ),
    *("full", "zeros_like", "ones_like", "full_like", "arange", "repeat", "broadcast_to", "eye", "diag"),
    *("nonzero", "setitem", "getitem", "tile", "pad", "roll", "flip", "swapaxes", "moveaxis", "take_along_axis"),
}
COMPLEX = 4  # real operations of a complex one, about: a product and a sum have 8


def of(name, arrays, results):
    """How many, and of how many bits: 32 or 64."""
    floats = [x for x in (*arrays, *results) if x.dtype.kind in "fc"]
    if not floats:
        return 0, 64
    width = max(x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1) for x in floats)
    times = COMPLEX if any(x.dtype.kind == "c" for x in floats) else 1
    short = name.rpartition(".")[2]
    known = DECOMPOSITIONS.get(short) if ".linalg." in name else FOURIER.get(short) if ".fft." in name else None
    if known is not None:
        times = times if known in DECOMPOSITIONS.values() else 1
        done = known(arrays, results)
    elif short in ("matmul", "dot", "tensordot", "vdot", "inner"):
        done = 2 * _products(arrays, results)
    elif short == "einsum":
        done = 2 * max(x.size for x in floats)
    else:
        done = 0 if short in MOVES else max(x.size for x in floats)
    return int(times * done), 32 if width <= 4 else 64


def _products(arrays, results):
    """Of two arrays the shared side is what their sizes have more than the result."""
    if len(arrays) < 2:
        return max(x.size for x in arrays)
    shared = arrays[0].shape[-1] if arrays[0].ndim else 1
    return max(results[0].size, 1) * shared


def _shape(x):
    """The matrices of a stack: how many, the longer and the shorter side."""
    *many, m, n = x.shape
    return prod(many), max(m, n), min(m, n)


def _eigh(arrays, results):
    many, n, _ = _shape(arrays[0])
    return many * 9 * n**3


def _eigvalsh(arrays, results):
    many, n, _ = _shape(arrays[0])
    return many * 4 * n**3 / 3


def _svd(arrays, results):
    many, m, n = _shape(arrays[0])
    return many * (4 * m * n**2 - 4 * n**3 / 3 if len(results) == 1 else 14 * m * n**2 + 8 * n**3)


def _qr(arrays, results):
    many, m, n = _shape(arrays[0])
    return many * 4 * n**2 * (m - n / 3)  # R, and as many again for the thin Q


def _solve(arrays, results):
    many, n, _ = _shape(arrays[0])
    return many * 2 * n**3 / 3 + 2 * n * arrays[1].size


def _inverse(arrays, results):
    many, n, _ = _shape(arrays[0])
    return many * 2 * n**3


def _cholesky(arrays, results):
    many, n, _ = _shape(arrays[0])
    return many * n**3 / 3


def _transform(arrays, results):
    n = max(arrays[0].shape[-1], results[0].shape[-1])
    return 5 * max(arrays[0].size, results[0].size) * log2(max(n, 2))


def _real_transform(arrays, results):
    return _transform(arrays, results) / 2


DECOMPOSITIONS = {
    **{"eigh": _eigh, "eigvalsh": _eigvalsh, "svd": _svd, "qr": _qr},
    **{"solve": _solve, "inv": _inverse, "cholesky": _cholesky},
}
FOURIER = {"fft": _transform, "ifft": _transform, "rfft": _real_transform, "irfft": _real_transform}
