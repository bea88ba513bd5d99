"""LTA's Algorithm 2, line by line: a full FFT, one LAPACK SVD per slice, every variable an array of its own."""

from typing import NamedTuple

import numpy as np

MU, GROWTH, MU_MAX = 1e-4, 1.1, 1e10


class Iterate(NamedTuple):
    """The variables after an iteration, the largest entry of its residuals, and its objective."""

    P1: np.ndarray
    P2: np.ndarray
    E: np.ndarray
    B: np.ndarray
    C: np.ndarray
    L1: np.ndarray
    L2: np.ndarray
    L3: np.ndarray
    residual: float
    objective: float


def coassociation(labels):
    """Eq. 6."""
    labels = np.asarray(labels)
    return np.mean([column[:, None] == column for column in labels.T], axis=0)


def tensor_nuclear(T, tau, axis):
    """The proximal point of tau times the tensor nuclear norm, and that norm of it; slices are the other two axes."""
    spectrum = np.moveaxis(np.fft.fft(T, axis=axis), axis, 0)
    norm = 0.0
    for f, part in enumerate(spectrum):
        U, s, V = np.linalg.svd(part, full_matrices=False)
        s = np.maximum(s - tau, 0)
        spectrum[f] = (U * s) @ V
        norm += s.sum()
    return np.fft.ifft(np.moveaxis(spectrum, 0, axis), axis=axis).real, norm / len(spectrum)


def symmetric(X):
    return (X + X.T) / 2


def iterations(labels, transform, lambda_error=0.002):
    """The iterates of Algorithm 2, without an end; tensors are n x n x 2."""
    A = coassociation(labels)
    M = A == 1  # Eq. 8
    axis = {"sample": 0, "partition": 2}[transform]
    E, B, C, L1, L2, L3 = (np.zeros_like(A) for _ in range(6))
    mu = MU
    while True:
        T = np.stack([B - L1 / mu, (A - E - L2 / mu + C - L3 / mu) / 2], axis=2)  # Eq. 13
        P, norm = tensor_nuclear(T, 1 / mu, axis)  # Eq. 12
        P1, P2 = P[:, :, 0], P[:, :, 1]
        E = (A - P2 - L2 / mu) * mu / (2 * lambda_error + mu)  # Eq. 15
        B = np.where(M, 1, np.clip(symmetric(P1 + L1 / mu), 0, 1))  # Eq. 17
        C = np.clip(symmetric(P2 + L3 / mu), 0, 1)  # Eq. 20
        d1, d2, d3 = P1 - B, P2 + E - A, P2 - C
        residual = max(np.abs(d).max() for d in (d1, d2, d3))
        L1, L2, L3 = L1 + mu * d1, L2 + mu * d2, L3 + mu * d3  # Eq. 22
        yield Iterate(P1, P2, E, B, C, L1, L2, L3, residual, norm + lambda_error * (E**2).sum())
        mu = min(mu * GROWTH, MU_MAX)


def run(labels, transform, lambda_error=0.002, tol=1e-8, max_iter=500):
    """The last iterate, and how many there were."""
    for n_iter, iterate in enumerate(iterations(labels, transform, lambda_error), 1):
        if iterate.residual < tol or n_iter == max_iter:
            break
    return iterate, n_iter
