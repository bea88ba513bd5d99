"""Algorithm 1 of PCE line by line, with dense one-hot matrices: an oracle for the tests, a peer for the bench.

Where K_i > K the rotations follow the majorised step, which the paper (K_i = K) does not need.
"""

from dataclasses import dataclass

import numpy as np

from gpuensemble import simplex


@dataclass
class Dense:
    Ys: list  # n x K_i each, holes filled
    observed: list  # n booleans each
    F: np.ndarray
    s: float
    v: np.ndarray
    a: np.ndarray
    Rs: list
    R: np.ndarray
    Y: np.ndarray
    eta: float | None = None


def dense(state):
    """A `partial.State` as dense matrices."""
    widths, codes = state.m.widths.tolist(), state.m.codes.astype(int)
    ends = np.cumsum([0, *widths])
    seen = state.observed.codes == state.m.codes
    return Dense(
        Ys=[np.eye(width)[codes[:, i]] for i, width in enumerate(widths)],
        observed=[seen[:, i] for i in range(len(widths))],
        F=state.points * state.scale,
        s=state.scale,
        v=state.reliability.copy(),
        a=state.weight.copy(),
        Rs=[state.tables[ends[i] : ends[i + 1]].copy() for i in range(len(widths))],
        R=state.turned.T.copy(),
        Y=np.eye(state.points.shape[1])[state.labels],
    )


def mean(d, without=None):
    """sum_i a_i Y_i R_i, but for one i."""
    return sum(d.a[i] * d.Ys[i] @ d.Rs[i] for i in range(len(d.Ys)) if i != without)


def objective(d, lam, gamma):
    """Eq. 4."""
    fit = (d.v**2 @ (d.F - mean(d)) ** 2).sum()
    return fit - lam * d.v.sum() + gamma * ((d.Y - d.F @ d.R) ** 2).sum()


def step_v(d, lam):
    """Eq. 6."""
    d.v = np.minimum(lam / (2 * ((d.F - mean(d)) ** 2).sum(1)), 1)


def step_F(d, gamma, n_steps):
    """Theorem 1, with steps of Barzilai and Borwein, halved until Armijo's condition holds."""
    D = (d.v**2 + gamma)[:, None]
    C = (gamma * d.Y @ d.R.T + (d.v**2)[:, None] * mean(d)) / d.s
    X = d.F / d.s
    for j in range(n_steps):
        G = D * X - C
        W2 = 2 * (G**2).sum() - 2 * np.trace(X.T @ G @ X.T @ G)
        eta = 0.1 / W2**0.5 if d.eta is None else d.eta
        value = (X * (G - C)).sum() / 2
        while True:
            M, N = np.hstack([eta * G, -eta * X]), np.hstack([X, G]).T
            new = X - M @ (N @ X) - M @ np.linalg.solve(np.eye(len(N)) + N @ M, N @ X - N @ M @ (N @ X))
            G_new = D * new - C
            if (new * (G_new - C)).sum() / 2 <= value - 1e-4 * eta * W2:
                break
            eta /= 2
        S = new - X
        Z = tangent(new, G_new) - tangent(X, G)
        d.eta = 0.5 * ((S**2).sum() / abs((S * Z).sum()) if j % 2 == 0 else abs((S * Z).sum()) / (Z**2).sum())
        X = new
    d.F = d.s * X


def tangent(X, G):
    """G without what leads off the manifold."""
    return G - X @ (X.T @ G + G.T @ X) / 2


def step_holes(d):
    """Eq. 11."""
    for i, (Y, R) in enumerate(zip(d.Ys, d.Rs, strict=True)):
        T = d.F - mean(d, without=i)
        cost = d.a[i] * (R**2).sum(1) - 2 * T @ R.T
        missing = ~d.observed[i]
        Y[missing] = np.eye(Y.shape[1])[cost[missing].argmin(1)]


def programme(d):
    """G and f of Eq. 12."""
    V2 = (d.v**2)[:, None]
    images = [Y @ R for Y, R in zip(d.Ys, d.Rs, strict=True)]
    G = np.array([[np.trace(A.T @ (V2 * B)) for B in images] for A in images])
    return G, np.array([np.trace(A.T @ (V2 * d.F)) for A in images])


def step_a(d):
    """Eq. 12."""
    d.a = simplex.minimiser(*programme(d))


def step_rotations(d):
    """Theorem 3."""
    V2 = (d.v**2)[:, None]
    for i, Y in enumerate(d.Ys):
        target = Y.T @ (V2 * (d.F - mean(d, without=i)))
        if Y.shape[1] > d.F.shape[1]:
            N = Y.T @ (V2 * Y)
            target += d.a[i] * (N.max() * np.eye(len(N)) - N) @ d.Rs[i]
        d.Rs[i] = polar(target)


def polar(x):
    left, _, right = np.linalg.svd(x, full_matrices=False)
    return left @ right


def run(d, lam, gamma, n_iter, n_steps):
    """Algorithm 1; lambda grows in the first ten iterations. Returns the objective after each iteration."""
    path = []
    for iteration in range(n_iter):
        step_v(d, lam)
        step_F(d, gamma, n_steps)
        step_holes(d)
        step_a(d)
        step_rotations(d)
        d.R = polar(d.F.T @ d.Y)
        d.Y = np.eye(d.Y.shape[1])[(d.F @ d.R).argmax(1)]
        path.append(objective(d, lam, gamma))
        lam *= 1.1 if iteration < 10 else 1
    return path
