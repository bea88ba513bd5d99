"""Costs say what SEC and KCC make of counts: tables of costs and objectives, in float64, where the counts are.

Products, quotients and sums are in a fixed order, so that they have the same bits on every device. The logarithm of the
entropy utility has not, and is worked out on the host.
"""

import math
import operator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host
from gpuensemble._kernels import kmeans
from gpuensemble._kmeans.labels.statistics import (
    CostTables,
    Priced,
    Rows,
    Statistics,
    by_partition,
    inverse,
    per_column,
)
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables.blocks import Block, Lasting, Table, shared_on
from gpuensemble._tables.counts import sizes
from gpuensemble.membership import Membership


class Costs(Protocol):
    """Costs say what a method makes of statistics; they leave out a constant of each row."""

    identity: int
    widths: Any
    dtype: str

    @property
    def scale(self) -> float:
        """Return the factor that tables and constants are multiplied by."""

    @property
    def sizes(self) -> Any:
        """Return what a row's degree is the sum of over its clusters, less the last `shift` bits; None: no degree."""

    @property
    def shift(self) -> int:
        """Return how many bits degrees lose."""

    @property
    def counts_weight(self) -> bool:
        """Tell whether repeating the whole data multiplies the objective."""

    @property
    def weights(self) -> tuple[float, float] | None:
        """Return the least and the largest weight of a row; None means that all are 1."""

    def rows(self, m: Membership, multiplicity: Array | None = None, constant: bool = True) -> Rows:
        """Work out what the method knows of each row; the constant comes on demand."""

    def rows_of_block(self, block: Block) -> Rows:
        """Work out what the method knows of each row of a block."""

    def priced(self, statistics: Statistics, summed: bool, total: float = 0.0) -> Priced:
        """Make the table of what each cluster costs; with `summed` the per-partition costs are one row.

        The objective is `total`, the constants of all rows divided by `scale`, plus what the statistics make of it.
        """

    def pricing(self, device: str) -> "Pricing | None":
        """Return what a kernel needs to know to make tables; None: no kernel does it."""

    def centers(self, statistics: Statistics) -> Any:
        """Return the centres of the clusters, C x K."""


class Pricing(NamedTuple):
    """This is what `kmeans.price` needs to know of costs, on one device."""

    kind: str  # of kmeans.KINDS
    columns: tuple[Array, Array]  # mu_i e_c and e_c of each column, C x 2, and mu_i
    offsets: Array  # the first column of each partition, then C
    scale: float
    unit: float
    dtype: str


@dataclass(eq=False)
class Sizes(Lasting):
    """These are the sizes of clusters, which make the degrees of rows."""

    sizes: Any  # e_c |c| of each column, in units of e_c

    def degrees(self, m: Membership) -> Array:
        """Return the degree of each row."""
        return m.gather_sum(self.sizes)[:, 0]


@dataclass(eq=False)
class SECCosts(Lasting):
    """SEC is weighted k-means of the rows b(x) / w(x) with weights w(x): Theorem 1 of SEC, with holes Theorem 6.

    With centres m[c, k] = N[c, k] / W[i, k], weights mu_i of partitions and e_c of clusters, the cost of x in k, over
    the observed i, is w(x) sum_i mu_i sum_{c in i} e_c m[c, k]^2 - 2 sum_i mu_i e_c(x) m[c(x), k].
    """

    widths: Any
    dtype: str
    of_column: Any  # mu_i e_c of each column
    clusters: "Sizes"
    unit: float  # of degrees and masses
    shift: int  # bits that degrees lose, since a sum in 62 bits could not hold them
    scale: float  # of tables: a power of two that keeps them near 1, so that no sum is subnormal or infinite
    weights: tuple[float, float]  # the least and the largest degree of a row, in the dtype

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
        mass = _exact_dot(weighted[:, 0], count[:, 0])  # the sum of all degrees
        shift = max(0, mass.bit_length() - 61)
        unit *= 2.0**shift
        clusters = Sizes(weighted)
        least, largest = zip(*table.each(_extremes, clusters), strict=True)
        scale = 2.0 ** math.frexp(max(1.0, float(min(least))) * unit)[1] * _near_one(of_column)
        ends = (_shifted(np.array([degree]), shift).astype(dtype) for degree in (min(least), max(largest)))
        low, high = (float(end[0]) for end in ends)
        return cls(table.widths, dtype, of_column, clusters, unit, shift, scale, (low, high))

    @property
    def sizes(self) -> Any:
        """Return e_c |c| of each column."""
        return self.clusters.sizes

    def rows_of_block(self, block: Block) -> Rows:
        """Work out the same for a block, whose degrees may be known."""
        known = block.taken("degrees", self.clusters.identity)
        return self.rows(block.m, block.multiplicity, known=known)

    def rows(
        self, m: Membership, multiplicity: Array | None = None, constant: bool = True, known: Array | None = None
    ) -> Rows:
        """Work out degrees, masses and constants of any rows; degrees come from the sizes of the clusters at `fit`."""
        degrees = _shifted(self.clusters.degrees(m) if known is None else known, self.shift)
        mass = degrees if multiplicity is None else degrees * multiplicity
        left_out = _of_labels(m, self.of_column) * (self.scale / self.unit) / degrees if constant else None
        return Rows(multiplicity, mass, degrees.astype(self.dtype), left_out)

    def priced(self, statistics: Statistics, summed: bool, total: float = 0.0) -> Priced:
        """Make tables of costs, times `scale`.

        The objective is -sum_i mu_i sum_k (sum_c e_c N[c, k]^2) / W[i, k], to which the constants of the rows add
        sum_x (sum_i mu_i e_c(x)) / w(x).
        """
        return _priced(self.pricing(device_of(statistics.counts)), statistics, summed, total)

    def pricing(self, device: str) -> Pricing:
        """Return what a kernel needs to know to make tables."""
        return _pricing(self, device, "sec", (self.of_column, 0, 0), self.unit)

    def centers(self, statistics: Statistics) -> Any:
        """Return the centres m[c, k]."""
        return statistics.counts * per_column(inverse(statistics.masses) / self.unit, self.widths)


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
    sizes: ClassVar[None] = None
    shift: ClassVar[int] = 0

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
        left_out = _of_labels(m, of_column) if constant else None
        return Rows(multiplicity, None, None, left_out)

    def rows_of_block(self, block: Block) -> Rows:
        """Give the rows of a block equal weights."""
        return self.rows(block.m, block.multiplicity)

    def priced(self, statistics: Statistics, summed: bool, total: float = 0.0) -> Priced:
        """Make tables of costs; nothing is per partition, since all weights are 1.

        The objective comes from the counts alone, without the constants of the rows.
        """
        pricing = self.pricing(device_of(statistics.counts))
        if pricing is None:
            return self._priced_by_entropy(statistics, total)
        return _priced(pricing, statistics, True, total)

    def pricing(self, device: str) -> Pricing | None:
        """Return what a kernel needs to know to make tables; logarithms are the host's."""
        if self.utility == "entropy":
            return None
        return _pricing(self, device, self.utility, (self.of_column, self.of_label, self.of_partition), 1.0)

    def _priced_by_entropy(self, statistics: Statistics, total: float) -> Priced:
        """Do it on the host."""
        device, counts = device_of(statistics.counts), to_host(statistics.counts) * self.of_label
        minus_log = self._minus_log(counts)
        cost = np.where(self.of_column > 0, minus_log, 0)  # not 0 times infinity
        cost *= self.of_column * self.scale
        terms = self.of_partition * by_partition(counts * np.where(counts > 0, minus_log, 0), self.widths)
        facts = np.array([math.fsum([total, *terms.ravel().tolist()]), (counts == 0).all(0).sum()])
        tables = CostTables(cost.astype(self.dtype, copy=False), np.zeros((1, cost.shape[1]), self.dtype))
        return Priced(tables.to(device), to_device(facts, device))

    def centers(self, statistics: Statistics) -> Any:
        """Return the centres m[c, k]."""
        counts = statistics.counts * self.of_label
        return counts * per_column(inverse(by_partition(counts, self.widths)), self.widths)

    def _minus_log(self, counts: Any) -> Any:
        """Return -log m[c, k]; a cluster that a partition did not see has the distribution of the whole partition."""
        sums = per_column(by_partition(counts, self.widths), self.widths)
        with np.errstate(divide="ignore"):
            return -np.log(np.where(sums > 0, counts * inverse(sums), self.share))


def _pricing(costs: Any, device: str, kind: str, columns: tuple, unit: float) -> Pricing:
    """Bring mu_i e_c and e_c of each column, and mu_i, to a device; they are sent there once."""
    widths, dtype, scale = costs.widths, costs.dtype, costs.scale

    def make() -> Pricing:
        of_column = [np.broadcast_to(x, (widths.sum(), 1))[:, 0] for x in columns[:2]]
        of_partition = np.broadcast_to(columns[2], (len(widths), 1))[:, 0]
        found = np.stack(of_column, axis=1).astype("float64"), of_partition.astype("float64")
        sent = tuple(to_device(x, device) for x in found)
        return Pricing(kind, sent, offsets_on(device, costs), scale, unit, dtype)

    return shared_on(device, costs, make, "pricing")


def _priced(pricing: Pricing, statistics: Statistics, summed: bool, total: float) -> Priced:
    """Make tables and objective by a kernel."""
    kind, *given = pricing
    *tables, facts = kmeans.price(kind, *statistics, *given, summed, total)
    return Priced(CostTables(*tables), facts)


def offsets_on(device: str, costs: Any) -> Array:
    """Return the first column of each partition, then C, on a device."""
    return shared_on(device, costs, lambda: to_device(checks.offsets(costs.widths), device), "offsets")


def _near_one(weights: Any) -> float:
    """Return a power of two that brings the largest of these weights to between 1 and 2; 1 where all are 0."""
    largest = float(weights.max())
    return 2.0 ** (1 - math.frexp(largest)[1]) if largest > 0 else 1.0


def _exact_dot(one: Any, two: Any) -> int:
    """Return the sum of products of integers on the host, however large it is."""
    if float(one.astype("float64") @ two) < 2.0**62:
        return int(one @ two)
    return sum(map(operator.mul, one.tolist(), two.tolist()))


def _extremes(block: Block, clusters: Sizes) -> tuple[int, int]:
    """Return the least and the largest degree of the rows of a block."""
    degrees = block.kept("degrees", clusters.identity, lambda: clusters.degrees(block.m))
    return int(degrees.min()), int(degrees.max())


def _of_labels(m: Membership, of_column: Any) -> Array:
    """Add up what the labels of each row count, C x 1; where all of a partition count the same, one row tells it."""
    first = np.cumsum(m.widths) - m.widths
    if m.complete and bool((of_column[first].repeat(m.widths, axis=0) == of_column).all()):
        return m.take(slice(0, 1)).gather_sum(of_column)[:, 0].repeat(len(m.codes))
    return m.gather_sum(of_column)[:, 0]


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
