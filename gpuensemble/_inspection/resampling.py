"""How much consensuses of drawn partitions agree: with each other as partitions, and pair of samples by pair.

Monti, Tamayo, Mesirov, Golub: Consensus clustering, Machine Learning, 2003. Senbabaoglu, Michailidis, Li: Critical
limitations of consensus clustering in class discovery, Scientific Reports, 2014.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array.devices import Array, to_host
from gpuensemble._inspection.bootstrap import consensuses
from gpuensemble.membership import Membership
from gpuensemble.metrics.ensembles import of_pairs
from gpuensemble.metrics.pairs import adjusted_rand

UNSURE = (1, 9)  # tenths: consensus values strictly between them are ambiguous


class Value(NamedTuple):
    """A number that was estimated, and its standard error."""

    value: float
    error: float


def resampled(codes: Array, n_bootstrap: int, make: Callable, n_clusters: int, seed: int) -> np.ndarray:
    """Return the consensuses of drawn partitions, a column each; -1 where none of those drawn has seen the row."""
    found = np.full((len(codes), n_bootstrap), -1, "int32")
    for column, (rows, labels) in enumerate(consensuses(codes, n_bootstrap, make, n_clusters, seed)):
        found[to_host(rows), column] = to_host(labels)
    return found


def permuted(codes: np.ndarray, rng: Any) -> np.ndarray:
    """Shuffle the labels of each partition among the samples that it saw, so that partitions agree by chance only."""
    found = codes.copy()
    for column in found.T:
        seen = np.flatnonzero(column >= 0)
        column[seen] = column[rng.permutation(seen)]
    return found


def agreement(labels: np.ndarray) -> Value:
    """Return the mean ARI of all pairs of columns over the rows that both have, and its jackknife error."""
    known = labels[(labels >= 0).any(axis=1)]
    scores = of_pairs(Membership.from_labels(known, "cpu"), adjusted_rand)
    np.fill_diagonal(scores, np.nan)
    b = len(scores)
    without = [np.nanmean(np.delete(np.delete(scores, i, 0), i, 1)) for i in range(b)]
    return Value(float(np.nanmean(scores)), float(((b - 1) * np.var(without)) ** 0.5))


class Pairs(NamedTuple):
    """Pairs of samples, and in how many columns they are together, of how many that have both."""

    ends: Any  # 2 x pairs
    agree: Any
    seen: Any

    def pac(self, n_rows: int, n_all: int) -> Value:
        """Return the share of ambiguous pairs, and its error: by the draw of pairs, and of `n_rows` of all rows."""
        ambiguous = (10 * self.agree > UNSURE[0] * self.seen) & (10 * self.agree < UNSURE[1] * self.seen)
        share = float(ambiguous.mean())
        of_pairs = share * (1 - share) / len(ambiguous) if 2 * len(ambiguous) < n_rows * (n_rows - 1) else 0.0
        often = np.bincount(self.ends.ravel(), minlength=n_rows)
        sums = np.bincount(self.ends.ravel(), np.tile(ambiguous, 2), n_rows)
        of_rows = np.var(sums[often > 0] / often[often > 0]) * 4 / n_rows * (1 - n_rows / n_all)
        return Value(share, float(of_pairs + of_rows) ** 0.5)

    def area(self) -> float:
        """Return the area under the CDF of the consensus values from 0 to 1, which is 1 less their mean."""
        return 1 - float((self.agree / self.seen).mean())

    def histogram(self) -> dict[float, float]:
        """Return the share of the pairs that have each consensus value, ascending."""
        values, count = np.unique(self.agree / self.seen, return_counts=True)
        return dict(zip(values.tolist(), (count / count.sum()).tolist(), strict=True))


def pairs_of(labels: np.ndarray, ends: Array) -> Pairs:
    """Count the columns that put the ends of each pair together; pairs that no column has seen are left out."""
    agree, seen = np.zeros((2, ends.shape[1]), "int32")
    for column in labels.T:
        one, two = column[ends]
        both = (one >= 0) & (two >= 0)
        agree += both & (one == two)
        seen += both
    return Pairs(ends[:, seen > 0], agree[seen > 0], seen[seen > 0])


def drawn_pairs(n: int, n_pairs: int, rng: Any) -> np.ndarray:
    """Return all pairs of n rows if there are no more than so many, else so many random ones."""
    if n * (n - 1) // 2 <= n_pairs:
        return np.stack(np.triu_indices(n, 1))
    one = rng.integers(0, n, n_pairs)
    two = rng.integers(0, n - 1, n_pairs)
    return np.stack([one, two + (two >= one)])
