"""This minimises over matrices with orthonormal columns, by the Cayley step and curvilinear search with it.

The method is that of Wen, Yin: A feasible method for optimization with orthogonality constraints, Mathematical
Programming, 2013.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuensemble._array import checks, threads
from gpuensemble._array.devices import Array, device_of, namespace, to_host

BLOCK_ROWS, DEVICE_ROWS = 1 << 13, 1 << 18  # rows worked on at a time: on the CPU they stay in the cache
DECREASE = 1e-4  # Armijo: the share of the decrease that the slope promises, which a step must reach
MAX_TRIALS = 25  # of a step; each is at most half as long as the one before
MAX_TURN = 100  # of step * |W|: a longer step hardly leads further, and costs digits
DRIFT = 20  # times eps: columns further from orthonormal than this are orthonormalised
MAX_REPAIRS = 4  # Newton steps beyond the first one


class Minimum(NamedTuple):
    """`minimize` returns this; values and steps have the shape of the leading axes.

    Attributes
    ----------
    x, value : arrays
        The best point, and the objective there.
    path : array
        The values at the start and after each iteration, along the first axis.
    n_iter : int
        The number of iterations.
    converged : bool
        Whether the gradient is small enough everywhere.
    n_reorthonormalised : int
        How often columns had to be made orthonormal again.
    step : array
        What the next iteration would have tried first.
    """

    x: Array
    value: Array
    path: Array
    n_iter: int
    converged: bool
    n_reorthonormalised: int
    step: Array


class _Point(NamedTuple):
    """This holds a point, the objective there, and its gradient within the manifold."""

    x: Array
    value: Array
    grad: Array  # G - X sym(X'G): W is that of G, and it vanishes at a minimum
    skew: Array  # X'grad
    excess: Array  # what rounding added to it, symmetric
    gram: Array  # grad'grad
    full: Array  # |G|^2


def cayley_step(x: Any, grad: Any, step: Any) -> Array:
    """Move a matrix with orthonormal columns against a gradient, along a curve of such matrices.

    The point is (I + step W)^-1 (I - step W) x, where W = grad x' - x grad'. Its columns are orthonormal as those of x
    are, and a small step descends (Wen and Yin, Lemma 3; PCE, Theorem 1). No n x n matrix is made: half of the 2K x 2K
    system of their Lemma 4 is eliminated, which leaves one of K x K whose singular values are at least 1.

    Parameters
    ----------
    x : array, ... x n x K
        With orthonormal columns.
    grad : array, ... x n x K
        The gradient of the objective among all matrices.
    step : float, or array in the shape of the leading axes
        How far to go.

    Returns
    -------
    array, ... x n x K
        The rounding error is about eps (1 + step |W|)^2.
    """
    x = _checked(x, "x")
    grad = checks.numbers_of(grad, "grad").astype(x.dtype)  # a copy: it is overwritten
    if grad.shape != x.shape:
        raise ValueError(f"`grad` must have the shape of `x`, {x.shape}, got {grad.shape}.")
    checks.finite(grad, "grad")
    step = namespace(x).zeros(x.shape[:-2], x.dtype) + step
    checks.finite(step.reshape(-1), "step")
    point = _point(x, step, grad)
    return _repaired(_product(point, *_curve(point, step), out=namespace(x).empty_like(x))[0])


def minimize(
    value_and_grad: Callable[..., tuple[Array, Array]],
    x0: Any,
    *,
    max_iter: int = 1000,
    tol: float = 1e-6,
    step: Any = None,
    non_monotone: float = 0.0,
    workspace: list[Array] | None = None,
) -> Minimum:
    """Minimise a function of a matrix with orthonormal columns by curvilinear search (Wen and Yin, Algorithm 2).

    The steps are those of Barzilai and Borwein, long and short in turn, shortened until they fulfil Armijo's condition.

    Parameters
    ----------
    value_and_grad : function
        From a matrix to its objective and its gradient among all matrices, a new array. With leading axes: of each
        matrix on its own. `minimize` overwrites the gradient and, later on, the matrix. If there is a workspace, the
        function is given a second argument, an array to put the gradient into.
    x0 : array, ... x n x K
        The start, with orthonormal columns.
    max_iter : int
        Most iterations.
    tol : float
        The search ends when the gradient within the manifold is at most `tol` times the longest gradient met.
    step : float or array, optional
        What to try first; by default, and where it is 0, a turn by a tenth of a radian.
    non_monotone : float, from 0 to below 1
        Weight of the past in the value that a step is measured against (Zhang and Hager, 2004); 0: the last value
        alone, so that the objective never rises.
    workspace : list of arrays like x0, optional
        To work in, three of them at best, so that no large array is made; x0 is then worked in as well. Arrays that are
        free at the end are left in the list: x0, if the result is another, takes the place of that.

    Returns
    -------
    Minimum
        `converged` tells whether all matrices reached `tol`. Columns that rounding has moved by more than 20 eps away
        from orthonormal are orthonormalised; `n_reorthonormalised` counts how often.

    Notes
    -----
    The host waits for a device once per trial of a step, and once more where columns are orthonormalised. Besides x0
    and what `value_and_grad` holds, four arrays of the size of x0 are made, or three with a workspace.
    """
    x = _checked(x0, "x0")
    checks.integer(max_iter, "max_iter", 0)
    checks.number(tol, "tol", 0, inclusive=True)
    if checks.number(non_monotone, "non_monotone", 0, inclusive=True) >= 1:
        raise ValueError(f"`non_monotone` must be less than 1, got {non_monotone:g}.")
    xp = namespace(x)
    free: list[Array] = [] if workspace is None else workspace

    def evaluated(x: Array) -> tuple[Array, Array]:
        return value_and_grad(x) if workspace is None else value_and_grad(x, free.pop() if free else xp.empty_like(x))

    point = _point(x, *evaluated(x))
    short = 0.1 / _nonzero(_turn(point) ** 0.5)
    step = short if step is None else xp.where(0 * short + step > 0, step, short)
    path, reference, mass, longest = [point.value], point.value, 1.0, point.full
    still, stuck = _norm(point) <= tol**2 * longest, longest < 0
    n_iter = trials = repairs = 0
    while n_iter < max_iter:
        step = xp.where(still | stuck, 0, xp.minimum(step, MAX_TURN / _nonzero(_turn(point) ** 0.5)))
        curve = _curve(point, step)
        x, drift = _product(point, *curve, out=free.pop() if free else xp.empty_like(x))
        value, grad = evaluated(x)
        enough = value <= reference - DECREASE * step * _turn(point)
        ended, accepted, drifted = _flags((still | stuck).all(), enough.all(), drift > DRIFT)
        if ended or not accepted or drifted:
            free += [x] if workspace is None else [x, grad]
        if ended:
            break
        if not accepted:
            trials += 1
            if trials == MAX_TRIALS:  # the objective does not resolve anything lower
                stuck, trials = stuck | ~enough, 0
            step = xp.where(enough, step, _shorter(point, step, value))
            continue
        if drifted:
            repairs += 1
            x = _orthonormalised(x)
            value, grad = evaluated(x)
        new = _point(x, value, grad)
        step = _barzilai_borwein(point, new, *curve, long=n_iter % 2 == 0)
        past = non_monotone * mass
        reference, mass = (past * reference + new.value) / (past + 1), past + 1
        if workspace is not None:
            free += [point.x, point.grad]
        elif n_iter:
            free.append(point.x)
        point, n_iter, trials = new, n_iter + 1, 0
        path.append(point.value)
        longest = xp.maximum(longest, point.full)
        still = _norm(point) <= tol**2 * longest
    if workspace is not None:
        free.append(point.grad)
    return Minimum(point.x, point.value, xp.stack(path), n_iter, bool(still.all()), repairs, step)


def _checked(x: Any, name: str) -> Array:
    """Return floating matrices with orthonormal columns, or raise."""
    x = checks.numbers_of(x, name)
    if x.dtype.kind == "c":
        raise TypeError(f"`{name}` must hold real numbers, got dtype {x.dtype}.")
    if x.ndim < 2 or x.shape[-1] > x.shape[-2] or 0 in x.shape:
        raise ValueError(f"`{name}` must have at least as many rows as columns, and one column, got shape {x.shape}.")
    xp = namespace(x)
    far = float(xp.abs(_inner(x, x) - _eye(x)).max())
    if not far <= float(xp.finfo(x.dtype).eps) ** 0.5:
        checks.finite(x, name)
        raise ValueError(f"`{name}` must have orthonormal columns, got inner products that are off by {far:.2g}.")
    return x


def _point(x: Array, value: Array, grad: Array) -> _Point:
    """Make a point from its gradient among all matrices, `grad`, which is overwritten."""
    inner = _inner(x, grad)
    symmetric = (inner + inner.swapaxes(-1, -2)) / 2
    inner, gram = 0 * inner, 0 * inner
    for rows in _blocks(x):
        grad[rows] -= x[rows] @ symmetric
        inner += _inner(x[rows], grad[rows])
        gram += _inner(grad[rows], grad[rows])
    excess = (inner + inner.swapaxes(-1, -2)) / 2
    full = gram.trace(axis1=-2, axis2=-1) + _dot(symmetric, symmetric)
    return _Point(x, namespace(x).asarray(value), grad, inner - excess, excess, gram, full)


def _curve(point: _Point, step: Array) -> tuple[Array, Array]:
    """Return the K x K matrices P and Q of (I + step W)^-1 (I - step W) x = x P + grad Q."""
    step = step[..., None, None]
    outside = step**2 * (point.gram + point.skew @ point.skew)  # of the gradient's part orthogonal to x
    z = namespace(outside).linalg.inv(_eye(point.x) + 2 * step * point.skew + outside)
    q = -2 * step * z
    return z - outside @ z - point.excess @ q, q


def _product(point: _Point, p: Array, q: Array, out: Array) -> tuple[Array, Array]:
    """Put x P + grad Q into `out`, and return it and how far its columns are from orthonormal, in units of eps."""
    square: Any = 0
    for rows in _blocks(out):
        out[rows] = point.x[rows] @ p + point.grad[rows] @ q
        square = square + _inner(out[rows], out[rows])
    return out, _drift(square, out)


def _drift(square: Array, x: Array) -> Array:
    """Return how far the columns of x, whose inner products are `square`, are from orthonormal, in units of eps."""
    xp = namespace(x)
    return xp.abs(square - _eye(x)).max() / float(xp.finfo(x.dtype).eps)


def _repaired(x: Array) -> Array:
    """Take a Newton step from x, which is near to orthonormal, towards the orthonormal matrix nearest to it."""
    return x @ (1.5 * _eye(x) - 0.5 * _inner(x, x))


def _orthonormalised(x: Array) -> Array:
    """Take Newton steps until the columns of x are orthonormal but for rounding: each step squares the error."""
    x = _repaired(x)
    for _ in range(MAX_REPAIRS):
        if not float(_drift(_inner(x, x), x)) > 100 * DRIFT:
            break
        x = _repaired(x)
    return x


def _turn(point: _Point) -> Array:
    """Return |W|^2, which is also how fast the objective falls with the step."""
    return 2 * _norm(point) + 2 * _dot(point.skew, point.skew)


def _norm(point: _Point) -> Array:
    """Return |grad|^2."""
    return point.gram.trace(axis1=-2, axis2=-1)


def _shorter(point: _Point, step: Array, value: Array) -> Array:
    """Return the minimum of the parabola through the two values and the slope, but between 1/10 and 1/2 of the step."""
    xp = namespace(step)
    expected = _turn(point) * step
    ratio = expected / _nonzero(2 * (value - point.value + expected))
    return step * xp.where(ratio > 0.1, xp.minimum(ratio, 0.5), 0.1)  # 0.1 if the value is not a number


def _barzilai_borwein(old: _Point, new: _Point, p: Array, q: Array, long: bool) -> Array:
    """Return half of |s|^2 / |s.y| or |s.y| / |y|^2, where s = x_new - x, y = grad_new - grad.

    It is half of the step of Barzilai and Borwein, as ours is half their step. Since x.grad = 0 at both points, s.y
    needs x.grad_new and x_new.grad only; what x_new = x P + grad Q brings in comes from K x K matrices.
    """
    xp = namespace(p)
    shift = p - _eye(old.x)
    ss = _dot(shift, shift) + 2 * _dot(shift, old.skew @ q) + _dot(q, old.gram @ q)
    along_x, along_grad = 0 * ss, 0 * ss
    for rows in _blocks(old.x):
        along_x = along_x + _dot(old.x[rows], new.grad[rows])
        along_grad = along_grad + _dot(old.grad[rows], new.grad[rows])
    sy = xp.abs(along_x + _dot(p, old.skew) + _dot(q, old.gram))
    yy = _norm(old) + _norm(new) - 2 * along_grad
    return 0.5 * (ss / _nonzero(sy) if long else sy / _nonzero(yy))


def _flags(*flags: Array) -> list[bool]:
    """Bring values from the device in one transfer."""
    return to_host(namespace(*flags).stack(flags)).tolist()


def row_blocks(n: int, device: str) -> list[slice]:
    """Return slices of a few of `n` rows at a time, as many as suit the `device`."""
    return threads.spans(n, BLOCK_ROWS if device == "cpu" else DEVICE_ROWS)


def _blocks(x: Array) -> list[tuple]:
    return [(..., rows, slice(None)) for rows in row_blocks(x.shape[-2], device_of(x))]


def _inner(x: Array, y: Array) -> Array:
    return x.swapaxes(-1, -2) @ y


def _dot(x: Array, y: Array) -> Array:
    return namespace(x).einsum("...ij,...ij->...", x, y)


def _eye(x: Array) -> Array:
    return namespace(x).eye(x.shape[-1], dtype=x.dtype)


def _nonzero(x: Array) -> Array:
    """Make a divisor of x: a number whose inverse is finite takes the place of 0 and below."""
    xp = namespace(x)
    return xp.maximum(x, float(xp.finfo(x.dtype).tiny) ** 0.5)
