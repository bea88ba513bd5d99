"""An active set solves the quadratic programme on the probability simplex, on the host."""

from typing import Any

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host

# Times the largest entry of G and f:
RIDGE = 1e-11  # added to the diagonal, so that there is one minimiser
TOLERANCE = 1e-12  # how far below the gradient of the positive variables that of a variable at 0 may be
ROUNDING = 1e-10  # of the input: asymmetry, and negative eigenvalues


def quadratic(G: Any, f: Any) -> Array:
    """Find the weights that minimise a quadratic function, none negative, with the sum 1.

    It is a'Ga - 2f'a over a >= 0, sum(a) = 1 (PCE, Eq. 12).

    Parameters
    ----------
    G : array, r x r
        Symmetric and positive semidefinite; it may be singular.
    f : array of r numbers
        The linear part.

    Returns
    -------
    array of r float64
        Where there are many minimisers, the one of least norm, which treats equal variables alike. The conditions of
        optimality hold to 2e-11 of the largest entry of G and f.

    Notes
    -----
    The work is done on the host; arrays on a device come there in one transfer.
    """
    xp = namespace(G, f)
    device = device_of(G if namespace(G) is xp else f)
    G, f = (checks.array(value, name, device, ndim) for value, name, ndim in ((G, "G", 2), (f, "f", 1)))
    if len(G) == 0 or G.shape != (len(G), len(G)):
        raise ValueError(f"`G` must be square, of at least one row, got shape {G.shape}.")
    if len(f) != len(G):
        raise ValueError(f"`f` must have as many entries as `G` has rows, {len(G)}, got {len(f)}.")
    host = to_host(xp.concatenate([G.astype("float64"), f.astype("float64")[None]]))
    G, f = host[:-1], host[-1]
    checks.finite(G, "G")
    checks.finite(f, "f")
    _check_semidefinite(G, np.abs(host).max())
    return to_device(minimiser(G, f), device)


def minimiser(G: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Solve `quadratic` on the host; `G` and `f` are taken to be right.

    As in Lawson and Hanson's non-negative least squares, variables are freed one at a time, first the one that promises
    most; those that reach 0 on the way to the minimum over the free variables are fixed there.
    """
    scale = max(np.abs(G).max(), np.abs(f).max()) or 1.0
    G = (G + G.T) / (2 * scale) + RIDGE * np.eye(len(f))
    f = f / scale
    freed = int((G.diagonal() - 2 * f).argmin())
    a = np.zeros(len(f))
    a[freed] = 1
    free = a > 0
    for _ in range(100 * len(f)):
        aim = _aim(G, f, free)
        while (aim[free] < 0).any():
            blocked = np.flatnonzero(free & (aim < 0))
            shares = a[blocked] / (a[blocked] - aim[blocked])
            a = a + shares.min() * (aim - a)
            a[blocked[shares.argmin()]] = 0
            free &= a > 0
            aim = _aim(G, f, free)
        a = aim
        gradient = G @ a - f
        freed = int(gradient.argmin())
        if gradient[freed] >= a @ gradient - TOLERANCE:
            return a
        free[freed] = True
    raise ArithmeticError(f"The active set of `G` did not settle in {100 * len(f)} steps.")


def _aim(G: np.ndarray, f: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Find the minimiser among all vectors that sum to 1 and are 0 where not free, by its conditions of optimality."""
    m = int(free.sum())
    conditions = np.ones((m + 1, m + 1))
    conditions[:m, :m] = G[np.ix_(free, free)]
    conditions[m, m] = 0
    out = np.zeros(len(f))
    out[free] = np.linalg.solve(conditions, np.append(f[free], 1.0))[:m]
    return out


def _check_semidefinite(G: np.ndarray, scale: float) -> None:
    skew = np.abs(G - G.T).max()
    if skew > ROUNDING * scale:
        raise ValueError(f"`G` must be symmetric, got entries that differ by {skew:.3g} from their mirror images.")
    lowest = np.linalg.eigvalsh(G)[0]
    if lowest < -ROUNDING * scale:
        raise ValueError(f"`G` must be positive semidefinite, got the eigenvalue {lowest:.3g}.")
