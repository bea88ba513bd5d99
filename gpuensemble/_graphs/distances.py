"""Rows that are compared: by products, which are fast, and by differences, which lose no digits.

A squared distance from products is off by some eps of |x|^2. Rows that are much nearer to each other than to the mean
have neighbours that only differences tell.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuensemble._array import threads
from gpuensemble._array.csr import Csr, cast, dense, row_sums, scaled, some_rows
from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._kernels.cpu.graphs import nearest as cpu

ENTRIES = {"cpu": 1 << 19, "cuda": 1 << 26}  # of a block of scores
CARE = 256  # eps, times |x|^2: where the last neighbour is not farther than that, rounding may have chosen it


class Rows(NamedTuple):
    """These are the rows that are compared, as their differences and their products are taken."""

    whole: Any  # array or Csr; for cosines of length 1
    X: Any  # the same, less the mean
    square: Array  # lengths of the rows of X, squared
    mean: Array | None  # that was taken off

    @property
    def device(self) -> str:
        """Return where they are."""
        return device_of(self.square)

    @property
    def entries(self) -> int:
        """Return how many scores to work on at a time."""
        return ENTRIES["cpu" if self.device == "cpu" else "cuda"]

    @property
    def is_sparse(self) -> bool:
        """Tell whether they are a matrix by rows."""
        return isinstance(self.X, Csr)

    def take(self, rows: Any) -> Any:
        """Return some of the rows, named by an array or a slice."""
        return some_rows(self.X, rows)

    def about(self, mean: Array | None) -> "Rows":
        """Return these rows in float64, less another mean; sparse ones have none."""
        return _less_mean(cast(self.whole, "float64"), mean)

    def mean_of(self, some: Array) -> Array | None:
        """Return the mean of some of the rows, in float64; None where rows are sparse."""
        return None if self.is_sparse else self.whole[some].mean(0, dtype="float64")


def of_matrix(X: Any, metric: str, mean: Array | None = None) -> Rows:
    """Take a mean, by default their own, off dense rows, to lose fewer digits; bring rows to length 1 for cosines."""
    if metric == "cosine":
        return _less_mean(scaled(X, squared=True), None)
    if mean is None and not isinstance(X, Csr):
        mean = (X.sum(0, dtype="float64") / len(X)).astype(X.dtype)
    return _less_mean(X, mean)


def _less_mean(whole: Any, mean: Array | None) -> Rows:
    X = whole if mean is None or isinstance(whole, Csr) else namespace(whole).ascontiguousarray(whole - mean)
    return Rows(whole, X, row_sums(X, lambda x, *_: x * x).astype(X.dtype), mean)


def doubtful(rows: Rows, chosen: Array, kept: Array, squares: Array, others: Rows | None = None) -> Array:
    """Return the places of those of the chosen rows whose neighbours may be chosen by rounding.

    These are among the `others`, by default the rows themselves; `squares` are the distances by scores. Where they are
    no more than noise, differences tell how near the neighbours are: what is equal to a row is as near as can be. A
    list that is not full has all rows that there are.
    """
    xp = namespace(squares)
    noise = CARE * float(xp.finfo(rows.square.dtype).eps) * rows.square[chosen]
    near = xp.nonzero((squares[:, -1] <= 2 * noise) & (kept[:, -1] >= 0))[0]
    if not len(near):
        return near
    others = rows if others is None else others
    farthest = differences(rows.whole, chosen[near], others.whole, kept[near]).max(1)
    return near[xp.nonzero((farthest > 0) & (farthest <= noise[near]))[0]]


def by_distance(rows: Rows, kept: Array) -> tuple[Array, Array]:
    """Return the neighbours in the order of their squared distances, which come from differences, and these."""
    return by_value(kept, differences(rows.whole, namespace(kept).arange(len(kept)), rows.whole, kept))


def differences(X: Any, chosen: Array, Y: Any, kept: Array) -> Array:
    """Return the squared distances of the chosen rows of X from the rows of Y that are kept for each, from differences.

    Sparse rows have squares less twice a product, in float64, which is 0 for equal ones.
    """
    xp, device = namespace(kept), device_of(kept)
    found, size = xp.empty(kept.shape), max(1, ENTRIES["cpu" if device == "cpu" else "cuda"] // kept.shape[1])
    if device == "cpu":
        threads.over_spans(len(kept), size, _on_host(X, chosen, Y, kept, found), alone=len(kept) <= size)
        return found
    for span in threads.spans(len(kept), max(1, size // X.shape[1])):
        block = dense(some_rows(X, chosen[span])).astype("float64")
        others = dense(some_rows(Y, kept[span].ravel())).reshape(*kept[span].shape, -1)
        found[span] = ((block[:, None] - others) ** 2).sum(2)
    return found


def _on_host(X: Any, chosen: Array, Y: Any, kept: Array, found: Array) -> Callable[[int, int], None]:
    """Return what finds the distances of some of the chosen rows."""
    if isinstance(X, Csr):
        parts = (*X[:3], *Y[:3], X.shape[1])
        return lambda first, last: cpu.sparse_distances(*parts, chosen, kept, first, last, found)
    return lambda first, last: cpu.dense_distances(X, Y, chosen, kept, first, last, found)


def by_value(names: Array, values: Array) -> tuple[Array, Array]:
    """Sort each row by values, equal ones by names."""
    xp = namespace(names)
    by_name = xp.argsort(names, axis=1, kind="stable")
    names, values = (xp.take_along_axis(part, by_name, axis=1) for part in (names, values))
    order = xp.argsort(values, axis=1, kind="stable")
    return xp.take_along_axis(names, order, axis=1), xp.take_along_axis(values, order, axis=1)
