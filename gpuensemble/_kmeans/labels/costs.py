"""Costs say what SEC and KCC make of counts: tables of costs and objectives, computed on the host in float64."""

import math
import operator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from gpuensemble._array.devices import Array, namespace
from gpuensemble._kmeans.labels.statistics import CostTables, Rows, Statistics, by_partition, inverse, per_column
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables.blocks import Block, Lasting, Table
from gpuensemble._tables.counts import sizes
from gpuensemble.membership import Membership


class Costs(Protocol):
    """Costs say what a method makes of statistics, on the host; they leave out a constant of each row."""

    identity: int
    dtype: str

    @property
    def scale(self) -> float:
        """Return the factor that tables and constants are multiplied by."""

    @property
    def counts_weight(self) -> bool:
        """Tell whether repeating the whole data multiplies the objective."""

    @property
    def weights(self) -> tuple[float, float] | None:
        """Return the least and the largest weight of a row; None means that all are 1."""

    def rows(self, m: Membership, multiplicity: Array | None = None, constant: bool = True) -> Rows:
        """Work out what the method knows of each row; the constant comes on demand."""

    def tables(self, statistics: Statistics, summed: bool) -> CostTables:
        """Make the table of what each cluster costs; with `summed` the per-partition costs are one row."""

    def terms(self, statistics: Statistics) -> Any:
        """Return numbers whose sum, with the constants of all rows divided by `scale`, the method minimises."""

    def centers(self, statistics: Statistics) -> Any:
        """Return the centres of the clusters, C x K."""


@dataclass(eq=False)
class SECCosts(Lasting):
    """SEC is weighted k-means of the rows b(x) / w(x) with weights w(x): Theorem 1 of SEC, with holes Theorem 6.

    With centres m[c, k] = N[c, k] / W[i, k], weights mu_i of partitions and e_c of clusters, the cost of x in k, over
    the observed i, is w(x) sum_i mu_i sum_{c in i} e_c m[c, k]^2 - 2 sum_i mu_i e_c(x) m[c(x), k].
    """

    widths: Any
    dtype: str
    of_column: Any  # mu_i e_c of each column
    sizes: Any  # e_c |c| of each column, in units of e_c
    unit: float  # of degrees and masses
    shift: int  # bits that degrees lose, since a sum in 62 bits could not hold them
    scale: float  # of tables: a power of two that keeps them near 1, so that no sum is subnormal or infinite
    weights: tuple[float, float]  # the least and the largest degree of a row, in the dtype
    last: tuple[Any, Any] = (None, None)  # statistics, and what `_squares` found for them

    counts_weight: ClassVar[bool] = False  # repeating the whole data leaves the objective as it is: degrees grow, too

    @classmethod
    def of(cls, table: Table, weighting: Weighting) -> "SECCosts":
        """Make the costs of a table, in two passes over it."""
        partition_weight, cluster_weight, dtype, cluster_unit = weighting
        of_column, count = partition_weight.repeat(table.widths)[:, None], sizes(table)[:, None]
        weighted, unit = count, 1.0
        if cluster_weight is not None:
            of_column = of_column * (cluster_weight[:, None] * cluster_unit)
            weighted, unit = count * cluster_weight[:, None], cluster_unit
        mass = sum(map(operator.mul, weighted[:, 0].tolist(), count[:, 0].tolist()))  # the sum of all degrees
        shift = max(0, mass.bit_length() - 61)
        unit *= 2.0**shift
        least, largest = zip(*table.each(_extremes, weighted), strict=True)
        scale = 2.0 ** math.frexp(max(1.0, float(min(least))) * unit)[1] * _near_one(of_column)
        ends = (_shifted(np.array([degree]), shift).astype(dtype) for degree in (min(least), max(largest)))
        low, high = (float(end[0]) for end in ends)
        return cls(table.widths, dtype, of_column, weighted, unit, shift, scale, (low, high))

    def rows(self, m: Membership, multiplicity: Array | None = None, constant: bool = True) -> Rows:
        """Work out degrees, masses and constants of any rows; degrees come from the sizes of the clusters at `fit`."""
        degrees = _shifted(m.gather_sum(self.sizes)[:, 0], self.shift)
        mass = degrees if multiplicity is None else degrees * multiplicity
        left_out = m.gather_sum(self.of_column)[:, 0] * (self.scale / self.unit) / degrees if constant else None
        return Rows(multiplicity, mass, degrees.astype(self.dtype), left_out)

    def tables(self, statistics: Statistics, summed: bool) -> CostTables:
        """Make tables of costs, times `scale`."""
        of_mass = inverse(statistics.masses) / self.unit
        table = statistics.counts * (-2 * self.scale * self.of_column)
        table *= per_column(of_mass, self.widths)
        parts = (self.scale * self.unit) * self._squares(statistics) * of_mass**2
        parts = parts.sum(0, keepdims=True) if summed else parts
        return CostTables(table.astype(self.dtype, copy=False), parts.astype(self.dtype))

    def terms(self, statistics: Statistics) -> Any:
        """Return the terms of the objective without the constants.

        It is -sum_i mu_i sum_k (sum_c e_c N[c, k]^2) / W[i, k], and the constants add sum_x (sum_i mu_i e_c(x)) / w(x).
        """
        return -(self._squares(statistics) * (inverse(statistics.masses) / self.unit))

    def centers(self, statistics: Statistics) -> Any:
        """Return the centres m[c, k]."""
        return statistics.counts * per_column(inverse(statistics.masses) / self.unit, self.widths)

    def _squares(self, statistics: Statistics) -> Any:
        """Return sum_{c in i} mu_i e_c N[c, k]^2, which is needed twice: by the objective, then by the next tables."""
        if self.last[0] is not statistics:
            squares = statistics.counts.astype("float64")
            squares *= squares
            squares *= self.of_column
            self.last = statistics, by_partition(squares, self.widths)
        return self.last[1]

    def __getstate__(self) -> dict:
        return self.__dict__ | {"last": (None, None)}


@dataclass(eq=False)
class KCCCosts(Lasting):
    """KCC is k-means with equal weights, whose distance the utility chooses; every utility is a table.

    m[c, k] = N[c, k] / n[i, k] is the distribution of partition i in cluster k. The cost of x in k, over the observed
    i, is |b_i - m_i|^2 for category, -log m[c(x), k] for entropy and 1 - m[c(x), k] / |m_i| for cosine; the first and
    last less 1 per label. A label counts e_c times, if clusters have weights.
    """

    widths: Any
    dtype: str
    utility: str
    of_label: Any  # e_c of each column, or 1
    share: Any  # P_i: the share of each cluster in its partition
    of_partition: Any  # r x 1: mu_i, times the normalisation
    of_column: Any  # C x 1: the same, times e_c
    scale: float  # of tables: a power of two that keeps them near 1

    counts_weight: ClassVar[bool] = True  # repeating the whole data doubles the objective
    weights: ClassVar[None] = None

    @classmethod
    def of(cls, utility: str, normalized: bool, table: Table, weighting: Weighting) -> "KCCCosts":
        """Make the costs of a table, in one pass over it."""
        partition_weight, cluster_weight, dtype, cluster_unit = weighting
        widths = table.widths
        of_label = 1.0 if cluster_weight is None else cluster_weight[:, None] * cluster_unit
        weighted = sizes(table)[:, None] * of_label
        share = weighted * per_column(inverse(by_partition(weighted, widths)), widths)
        normalization = _normalization(share, widths, utility) if normalized else 1.0
        of_partition = partition_weight[:, None] * normalization
        of_column = per_column(of_partition, widths) * of_label
        return cls(widths, dtype, utility, of_label, share, of_partition, of_column, _near_one(of_column))

    def rows(self, m: Membership, multiplicity: Array | None = None, constant: bool = True) -> Rows:
        """Give all rows equal weights; the constant is the weight of a row's labels, 0 for the entropy utility."""
        of_column = self.of_column * (self.scale * (self.utility != "entropy"))
        left_out = m.gather_sum(of_column)[:, 0] if constant else None
        return Rows(multiplicity, None, None, left_out)

    def tables(self, statistics: Statistics, summed: bool) -> CostTables:
        """Make tables of costs; nothing is per partition, since all weights are 1."""
        counts = statistics.counts * self.of_label
        norms = by_partition(counts**2, self.widths)
        if self.utility == "entropy":
            cost = np.where(self.of_column > 0, self._minus_log(counts), 0)  # not 0 times infinity
        elif self.utility == "cosine":
            cost = -counts * per_column(inverse(norms**0.5), self.widths)
        else:
            of_sum = inverse(by_partition(counts, self.widths))
            cost = per_column(norms * of_sum**2, self.widths) - 2 * counts * per_column(of_sum, self.widths)
        cost *= self.of_column * self.scale
        return CostTables(cost.astype(self.dtype, copy=False), np.zeros((1, cost.shape[1]), self.dtype))

    def terms(self, statistics: Statistics) -> Any:
        """Return terms whose sum is the sum of the costs without the constants of the rows, from counts alone."""
        counts = statistics.counts * self.of_label
        if self.utility == "entropy":
            return self.of_partition * by_partition(
                counts * np.where(counts > 0, self._minus_log(counts), 0), self.widths
            )
        norms = by_partition(counts**2, self.widths)
        explained = norms**0.5 if self.utility == "cosine" else norms * inverse(by_partition(counts, self.widths))
        return -self.of_partition * explained

    def centers(self, statistics: Statistics) -> Any:
        """Return the centres m[c, k]."""
        counts = statistics.counts * self.of_label
        return counts * per_column(inverse(by_partition(counts, self.widths)), self.widths)

    def _minus_log(self, counts: Any) -> Any:
        """Return -log m[c, k]; a cluster that a partition did not see has the distribution of the whole partition."""
        sums = per_column(by_partition(counts, self.widths), self.widths)
        with np.errstate(divide="ignore"):
            return -np.log(np.where(sums > 0, counts * inverse(sums), self.share))


def _near_one(weights: Any) -> float:
    """Return a power of two that brings the largest of these weights to between 1 and 2; 1 where all are 0."""
    largest = float(weights.max())
    return 2.0 ** (1 - math.frexp(largest)[1]) if largest > 0 else 1.0


def _extremes(block: Block, of_clusters: Any) -> tuple[int, int]:
    """Return the least and the largest degree of the rows of a block."""
    degrees = block.m.gather_sum(of_clusters)[:, 0]
    return int(degrees.min()), int(degrees.max())


def _shifted(degrees: Array, shift: int) -> Array:
    """Round degrees to leave out their last bits; they are at least 1, also for a cluster of rows that do not count."""
    if shift:
        degrees = (degrees + ((1 << shift) >> 1)) >> shift
    return namespace(degrees).maximum(degrees, 1)


def _normalization(share: Any, widths: Any, utility: str) -> Any:
    """Return 1 / |P_i|^2, 1 / H(P_i) or 1 / |P_i| of each partition, and 0 for a partition of one cluster."""
    if utility == "entropy":
        size = by_partition(-share * np.log(np.where(share > 0, share, 1)), widths)
    else:
        size = by_partition(share**2, widths) ** (0.5 if utility == "cosine" else 1.0)
    return np.where(widths[:, None] > 1, inverse(size), 0)
