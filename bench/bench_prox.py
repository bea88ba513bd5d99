"""Singular value thresholding and the tensor nuclear prox against LAPACK's SVD, and against each other.

python bench/bench_prox.py [--threads 1] [--only tensor]

The cases "slices" and "matrices" are what `algorithm` of _linear/thresholding.py chooses by; "stack" shows what tensors
gain by being given together; "iteration" and "pair" show what the forms that work in place are for.
"""

import harness


def lapack(x, tau):
    """By LAPACK's SVD, batched."""
    import numpy as np

    u, sigma, v = np.linalg.svd(x, full_matrices=False)
    return (u * np.maximum(sigma - tau, 0)[..., None, :]) @ v


def close(one, two):
    import numpy as np

    return bool(abs(one - two).max() <= 1e-10 * max(1.0, np.linalg.norm(two.reshape(-1)[:1000])))


def near(one, two):
    """To the accuracy of `prox.NuclearSequence`."""
    return bool(abs(one - two).max() <= 1e-7)


def tensor():
    """The published LTA's step: n x n x 2, Fourier transform along the first axis."""
    import numpy as np
    import scipy.fft

    from gpuensemble import prox

    for n in (500, 1000, 2000):
        x, tau = np.random.default_rng(0).random((n, n, 2)), 0.3 * n**0.5

        def loop(x=x, tau=tau):
            spectrum = np.fft.fft(x, axis=0)
            return np.fft.ifft(np.stack([lapack(part, tau) for part in spectrum]), axis=0).real

        def half(x=x, tau=tau, n=n):
            return scipy.fft.irfft(lapack(scipy.fft.rfft(x, axis=0, workers=-1), tau), n=n, axis=0, workers=-1)

        def ours(x=x, tau=tau):
            return prox.tensor_nuclear(x, tau, 0)

        candidates = {"gpuensemble": ours, "SVD of each slice, full FFT": loop}
        yield harness.Case(f"tensor {n} x {n} x 2, loop", candidates, "SVD of each slice, full FFT", close, wanted=6)
        candidates = {"gpuensemble": ours, "batched SVD, half spectrum": half}
        yield harness.Case(f"tensor {n} x {n} x 2, half", candidates, "batched SVD, half spectrum", close, wanted=2)


def slices():
    """Batches of n x V slices: the kernel, and the same in NumPy."""
    import numpy as np

    from gpuensemble._linear import thresholding

    rng = np.random.default_rng(1)

    for dtype in ("complex128", "float64"):
        for n_slices, n_rows, length in [(1000, 2, 2000), (1000, 4, 500), (500, 8, 1000), (5000, 3, 20)]:
            shape = (n_slices, n_rows, length)
            x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype == "complex128" else 0)
            tau = length**0.5
            candidates = {
                "kernel": lambda x=x, tau=tau: thresholding.by_slices(x, tau, None),
                "matmul, eigh, matmul": lambda x=x, tau=tau: thresholding.by_products(x, tau, None),
                "batched SVD": lambda x=x, tau=tau: lapack(x, tau),
            }
            yield harness.Case(f"slices {n_slices} x {n_rows} x {length} {dtype}", candidates, "batched SVD", close)


def matrices():
    """The Gram matrix against the SVD: where the first is chosen."""
    import numpy as np

    from gpuensemble._linear import thresholding

    rng = np.random.default_rng(2)
    for batch, m, n in [(200, 9, 9), (100, 32, 32), (50, 64, 64), (20, 100, 100), (1, 400, 400), (1, 1600, 1600)]:
        for dtype in ("float64", "complex128") if n < 1000 else ("float64",):
            shape = (batch, m, n)
            x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype == "complex128" else 0)
            tau = n**0.5

            def gram(x=x, tau=tau):
                limits = thresholding.thresholds(x, tau, None)
                return np.stack([thresholding.by_gram(one, limits) for one in x])

            candidates = {
                "Gram matrix": gram,
                "Gram matrices at once": lambda x=x, tau=tau: thresholding.by_products(x, tau, None),
                "SVD": lambda x=x, tau=tau: lapack(x, tau),
            }
            yield harness.Case(f"matrices {batch} x {m} x {n} {dtype}", candidates, "SVD", close)


def stacks():
    """Many tensors: with a leading axis, and one after the other."""
    import numpy as np

    from gpuensemble import prox

    rng = np.random.default_rng(5)
    for shape in [(200, 10, 9, 3), (50, 20, 20, 4), (10, 50, 50, 12)]:
        x, tau = rng.standard_normal(shape), 3.0
        candidates = {
            "leading axis": lambda x=x, tau=tau: prox.tensor_nuclear(x, tau, -3),
            "one by one": lambda x=x, tau=tau: np.stack([prox.tensor_nuclear(one, tau, -3) for one in x]),
        }
        yield harness.Case(f"stack of tensors {' x '.join(map(str, shape))}", candidates, "one by one", close)


def iteration():
    """Matrices each near the one before, whose results have low rank, as in RSEC."""
    import numpy as np

    from gpuensemble import prox

    rng = np.random.default_rng(3)
    for n in (400, 800, 1600):
        u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
        x = (u * 10 / (1 + np.arange(n)) ** 1.2) @ v
        tau = 10 / (n / 25) ** 1.2  # rank n / 25
        shrink = prox.NuclearSequence(np.eye(n, n // 12), rng)
        for _ in range(5):
            shrink(x + 1e-4 * rng.standard_normal((n, n)) / n**0.5, tau)

        def started(x=x, tau=tau, shrink=shrink):
            out = x.copy()
            shrink(out, tau)
            return out

        candidates = {
            "sequence": started,
            "on its own": lambda x=x, tau=tau: prox.nuclear(x, tau),
            "SVD": lambda x=x, tau=tau: lapack(x, tau),
        }
        yield harness.Case(f"iteration n = {n}, rank {n // 25}", candidates, "SVD", near)


def pairs():
    """LTA's steps: two stacked matrices, symmetric with the transform along the pair, or along the last axis."""
    import numpy as np

    from gpuensemble import prox

    for n in (500, 1000):
        x, tau = np.random.default_rng(4).random((2, n, n)), 0.3 * n**0.5
        forms = {"symmetric": (prox.tensor_nuclear_symmetric, 0), "slices of two": (prox.SlicePairs(x), 2)}
        for name, (form, axis) in forms.items():
            given = x + x.swapaxes(1, 2) if axis == 0 else x

            def special(given=given, tau=tau, form=form):
                out = given.copy()
                form(out, tau)
                return out

            candidates = {
                "special form": special,
                "tensor_nuclear": lambda x=given, tau=tau, axis=axis: prox.tensor_nuclear(x, tau, axis),
            }
            yield harness.Case(f"pair of {n} x {n}, {name}", candidates, "tensor_nuclear", close)


def cases():
    yield from tensor()
    yield from slices()
    yield from matrices()
    yield from stacks()
    yield from iteration()
    yield from pairs()


if __name__ == "__main__":
    harness.main(cases)
