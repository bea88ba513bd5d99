"""A step of PCE's search for F on the CPU, with names and arguments of cuda/pce/curve.py.

It goes down f(X) = tr(X'DX) / 2 - tr(X'T) with X'X = I, along the curve of `stiefel.cayley_step`. D is diagonal, so
that all that the search asks lies in the span of X, g = D X - T - X S, T and D g: with Z = [X g T Dg], the inner
products Z'Z give the value at each trial step, and the next step of Barzilai and Borwein, without another pass over the
rows. S is any symmetric matrix: the curve does not depend on it. The nearer it is to the symmetric part of
X'(D X - T), the fewer digits are lost where g is short.
"""

import numpy as np

from gpuensemble._kernels.cpu.compiling import kernel


def frame(points, product, mean, reliability, labels, table, gamma, out) -> None:
    """Put [X g T Dg] into `out`: D = V^2 + gamma, T = V^2 mean + table[labels], and product = X S."""
    _frame(points, product, mean, reliability, labels, table, points.dtype.type(gamma), out)


@kernel
def _frame(points, product, mean, reliability, labels, table, gamma, out):
    n, k = points.shape
    for x in range(n):
        square = reliability[x] * reliability[x]
        diagonal = square + gamma
        row = table[np.uintp(labels[x])]
        for j in range(k):
            target = mean[x, j] * square + row[j]
            gradient = diagonal * points[x, j] - target - product[x, j]
            out[x, j] = points[x, j]
            out[x, k + j] = gradient
            out[x, 2 * k + j] = target
            out[x, 3 * k + j] = diagonal * gradient


def curve(gram, centre, step, is_long, settings):
    """Take a step of the search; return the 2K x K matrix that makes the new point of [X g], its S, and the next step.

    gram is Z'Z, centre S; step, of one number, is what to try first, 0: a turn by a tenth of a radian. It is shortened
    until it fulfils Armijo's condition; if none does, or g is nothing but rounding, the point stays. The next step is a
    long or short one of Barzilai and Borwein. The columns of the new point are orthonormal to first order in what those
    of X lack.
    """
    k = len(centre)
    inner, square = gram[:k, k : 2 * k], gram[k : 2 * k, k : 2 * k]
    even, odd = (inner + inner.T) / 2, (inner - inner.T) / 2
    across = square - inner.T @ inner  # of the part of g that is orthogonal to X
    turn = 2 * (square.trace() + (odd**2 - even**2).sum())  # |W|^2
    if not turn > settings.noise * np.finfo(float).eps * square.trace():
        return np.eye(2 * k, k), centre + even, step
    first = step[0] if step[0] > 0 else 0.1 / turn**0.5
    eta = min(first, settings.max_turn / turn**0.5)
    for _ in range(settings.max_trials):
        s = _shift(gram, eta, even, odd, across)
        change = _dot(gram, s, np.concatenate([centre, np.eye(k)])) + _dot(gram, s, _scaled(s, centre)) / 2
        expected = eta * turn
        if change <= -settings.decrease * expected:
            break
        # The minimum of the parabola through the two values and the slope, but between 1/10 and 1/2 of the step.
        ratio = expected / (2 * (change + expected)) if change + expected else np.inf
        eta *= min(ratio, 0.5) if ratio > 0.1 else 0.1
    else:  # the objective does not resolve anything lower
        return np.eye(2 * k, k), centre + even, np.zeros(1)
    return _settled(gram, centre, even, s, is_long)


def _settled(gram, centre, even, s, is_long):
    """Return what `curve` does, once s, what is added to X, is chosen."""
    k = len(centre)
    move = np.eye(2 * k, k) + s
    gradient = _scaled(move, centre)
    gradient[2 * k : 3 * k] -= np.eye(k)
    after = move.T @ (gram[: 2 * k] @ gradient)
    after = (after + after.T) / 2
    gradient[: 2 * k] -= move @ after  # within the manifold
    gradient[:k] += even
    gradient[k : 2 * k] -= np.eye(k)  # what it has changed by
    sy = abs(_dot(gram, s, gradient))
    numerator, divisor = (_dot(gram, s, s), sy) if is_long else (sy, _dot(gram, gradient, gradient))
    return move, after, np.array([0.5 * numerator / divisor if divisor > 0 else 0.0])


def _shift(gram, eta, even, odd, across):
    """Return what the step eta adds to X, in terms of [X g]."""
    k = len(even)
    turned = 2 * eta * odd + eta**2 * across
    inverse = np.linalg.inv(np.eye(k) + turned)
    shift = np.concatenate([(2 * eta * even - eta**2 * across) @ inverse - inverse @ turned, -2 * eta * inverse])
    move = np.eye(2 * k, k) + shift
    error = move.T @ (gram[: 2 * k, : 2 * k] @ move) - np.eye(k)
    return shift - move @ (error / 2)


def _scaled(x, centre):
    """Return D x in terms of Z, for x in terms of [X g]: D X = g + X S + T."""
    k = len(centre)
    return np.concatenate([centre @ x[:k], x[:k], x[:k], x[k:]])


def _dot(gram, x, y):
    """Return the inner product of two matrices in terms of the first columns of Z."""
    return float((x * (gram[: len(x), : len(y)] @ y)).sum())
