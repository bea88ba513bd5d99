"""A block of columns comes near to eigenvectors of a symmetric matrix: by polynomials, and by the best within it."""

from collections.abc import Callable

from gpuensemble._array.devices import Array, namespace
from gpuensemble._linear.orthonormal import orthonormal


class Course:
    """This is the way that a block of orthonormal columns goes from matrix to matrix, and where it should be next."""

    def __init__(self, v: Array):
        self.v = v
        self.step: Array = None  # what the columns have beside the span of those before

    def to(self, v: Array) -> "Course":
        """Go to other columns; where they are more or fewer, a new course begins."""
        course = Course(v)
        if v.shape == self.v.shape:
            course.step = v - self.v @ (self.v.T @ v)
        return course

    def ahead(self, ratio: float) -> Array:
        """Return the columns that come next, if the next step is the last one times a ratio."""
        return self.v if self.step is None else orthonormal(self.v + ratio * self.step, 1)


def coupling(x: Array, v: Array) -> Array:
    """Return how far orthonormal columns are from an invariant space."""
    image = x @ v
    return ((image - v @ (v.T @ image)) ** 2).sum() ** 0.5


def filtered(apply: Callable[[Array], Array], v: Array, others: tuple[Array, Array], degree: int) -> Array:
    """Apply a Chebyshev polynomial of an operator, which is small where the eigenvalues of the others are."""
    low, high = others
    centre, half = (low + high) / 2, (high - low) / 2
    last, v = v, (apply(v) - centre * v) / half
    for _ in range(degree - 1):
        last, v = v, (2 / half) * (apply(v) - centre * v) - last
    return v


def ritz(x: Array, v: Array, side: int) -> tuple[Array, Array, Array]:
    """Find the best eigenvectors within orthonormal columns; return values, vectors and the length of each residual.

    The largest come first if few are above (side 1), else the least.
    """
    xp = namespace(x)
    image = x @ v
    inner = v.T @ image
    values, turn = xp.linalg.eigh((inner + inner.T) / 2)
    values, turn = values[::-side], turn[:, ::-side]
    v, image = v @ turn, image @ turn
    return values, v, ((image - v * values) ** 2).sum(0) ** 0.5
