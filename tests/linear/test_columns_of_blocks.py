"""A block goes on as it went, and polynomials of the inverse find what is below."""

import numpy as np
import pytest

from gpuensemble._array.devices import to_host
from gpuensemble._linear import blocks
from gpuensemble._linear.definite import inverse


def turned(angle, n=40, w=3):
    """Columns that turn in the planes of the axes 0 and 10, 1 and 11, ..., and within their span."""
    v = np.zeros((n, w))
    v[np.arange(w), np.arange(w)], v[10 + np.arange(w), np.arange(w)] = np.cos(angle), np.sin(angle)
    return v @ np.linalg.qr(np.random.default_rng(int(1e6 * angle)).standard_normal((w, w)))[0]


def beside(v, expected):
    """How far the span of some orthonormal columns is from that of others."""
    return np.linalg.norm(v - expected @ (expected.T @ v))


def test_a_block_goes_on_as_it_went(xp):
    course = blocks.Course(xp.asarray(turned(0.0))).to(xp.asarray(turned(1e-3)))
    ahead = to_host(course.ahead(0.5))
    np.testing.assert_allclose(ahead.T @ ahead, np.eye(3), atol=1e-12)
    assert beside(ahead, turned(1.5e-3)) < 1e-8
    assert beside(to_host(course.v), turned(1.5e-3)) > 5e-4


def test_a_block_without_a_past_stays(xp):
    v = xp.asarray(turned(1e-3))
    assert blocks.Course(v).ahead(0.9) is v
    assert blocks.Course(xp.asarray(turned(0.0, w=2))).to(v).ahead(0.9) is v


def test_a_polynomial_of_the_inverse_damps_all_but_the_few_below(xp):
    values = np.concatenate([[0.5, 0.7, 0.9], np.linspace(3, 50, 37)])
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))[0]
    start = np.linalg.qr(q[:, :3] + 1e-3 * np.random.default_rng(1).standard_normal((40, 3)))[0]
    shifted = xp.asarray((q * (values - 0.4)) @ q.T)
    errors = []
    for degree in (1, 3, 5):
        found = to_host(blocks.filtered(inverse(shifted.copy()), xp.asarray(start), (0, 1 / 2.6), degree))
        errors.append(beside(np.linalg.qr(found)[0], q[:, :3]))
    growth = np.exp(np.arccosh(2 * 2.6 / 0.5 - 1))
    assert errors[1] < 4 * errors[0] / growth**2
    assert errors[2] < 4 * errors[1] / growth**2
    assert errors[2] == pytest.approx(0, abs=1e-7)
