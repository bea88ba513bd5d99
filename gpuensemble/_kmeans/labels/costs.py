"""What SEC and KCC make of counts: tables of costs and objectives, computed on the host in float64."""

import math
import operator
from typing import Any

import numpy as np

from gpuensemble._array.devices import Array, namespace, to_host
from gpuensemble._kernels import products
from gpuensemble._kmeans.labels.bounds import Rows, Tables, by_partition
from gpuensemble._kmeans.labels.lloyd import NUMBERS, Statistics, rows_of
from gpuensemble._tables.blocks import Block, Table
from gpuensemble.membership import Membership

UNIT = 1 << 20  # cluster weights are whole multiples of 1 / UNIT
THETA = 0.4  # of the entropy weights
CELLS = 1 << 22  # of contingency tables counted in one go


class SECCosts:
    """Weighted k-means of the rows b(x) / w(x) with weights w(x): Theorem 1 of SEC, with holes Theorem 6.

    With centres m[c, k] = N[c, k] / W[i, k], weights mu_i of partitions and e_c of clusters, the cost of x in k, over
    the observed i, is w(x) sum_i mu_i sum_{c in i} e_c m[c, k]^2 - 2 sum_i mu_i e_c(x) m[c(x), k].
    """

    counts_weight = False  # repeating the whole data leaves the objective as it is: degrees grow, too

    def __init__(self, table: Table, partition_weight: Any, cluster_weight: Any, dtype: str):
        self.number, self.widths, self.dtype = next(NUMBERS), table.widths, dtype
        self._last: tuple[Any, Any] = (None, None)
        self.of_column = partition_weight.repeat(table.widths)[:, None]
        count = sizes(table)[:, None]
        self.sizes, self.unit = count, 1.0  # of degrees and masses
        if cluster_weight is not None:
            self.of_column = self.of_column * (cluster_weight[:, None] / UNIT)
            self.sizes = count * cluster_weight[:, None]
            self.unit /= UNIT
        mass = sum(map(operator.mul, self.sizes[:, 0].tolist(), count[:, 0].tolist()))  # the sum of all degrees
        self.shift = max(0, mass.bit_length() - 61)  # degrees lose bits that a sum in 62 cannot hold
        self.unit *= 2.0**self.shift
        least, largest = zip(*table.each(_extremes, self.sizes), strict=True)
        # A power of two of about the least degree keeps tables near 1, so that no sum is subnormal.
        self.scale = 2.0 ** math.frexp(max(1.0, float(min(least))) * self.unit)[1]
        low, high = (self._shifted(np.array([degree])).astype(dtype) for degree in (min(least), max(largest)))
        self.weights = float(low[0]), float(high[0])
        self.total = total_constant(table, self) / self.scale

    def rows(self, m: Membership, multiplicity: Array | None = None, constant: bool = True) -> Rows:
        """Of any rows; their degrees come from the sizes of the clusters at `fit`."""
        degrees = self._shifted(m.gather_sum(self.sizes)[:, 0])
        mass = degrees if multiplicity is None else degrees * multiplicity
        left_out = m.gather_sum(self.of_column)[:, 0] * (self.scale / self.unit) / degrees if constant else None
        return Rows(multiplicity, mass, degrees.astype(self.dtype), left_out)

    def _shifted(self, degrees: Array) -> Array:
        if self.shift:
            degrees = (degrees + ((1 << self.shift) >> 1)) >> self.shift
        return namespace(degrees).maximum(degrees, 1)  # 0: a cluster of rows that do not count

    def tables(self, statistics: Statistics, summed: bool) -> Tables:
        """Tables of costs, times `scale`."""
        inverse = _inverse(statistics.masses) / self.unit
        table = statistics.counts * (-2 * self.scale * self.of_column)
        table *= _per_column(inverse, self.widths)
        parts = (self.scale * self.unit) * self._squares(statistics) * inverse**2
        parts = parts.sum(0, keepdims=True) if summed else parts
        return Tables(table.astype(self.dtype, copy=False), parts.astype(self.dtype))

    def objective(self, statistics: Statistics) -> float:
        """sum_x (sum_i mu_i e_c(x)) / w(x) - sum_i mu_i sum_k (sum_c e_c N[c, k]^2) / W[i, k]."""
        explained = self._squares(statistics) * (_inverse(statistics.masses) / self.unit)
        return math.fsum([self.total, *(-explained).ravel().tolist()])

    def centers(self, statistics: Statistics) -> Any:
        """m[c, k]."""
        return statistics.counts * _per_column(_inverse(statistics.masses) / self.unit, self.widths)

    def _squares(self, statistics: Statistics) -> Any:
        """Needed twice for the same statistics: for the objective, then for the tables of the next iteration."""
        if self._last[0] is not statistics:
            squares = statistics.counts.astype("float64")
            squares *= squares
            squares *= self.of_column
            self._last = statistics, by_partition(squares, self.widths)
        return self._last[1]

    def __getstate__(self) -> dict:
        return self.__dict__ | {"_last": (None, None)}


class KCCCosts:
    """k-means with equal weights, the distance chosen by the utility; every utility is a table.

    m[c, k] = N[c, k] / n[i, k] is the distribution of partition i in cluster k. Cost of x in k, over the observed i:
    category |b_i - m_i|^2, entropy -log m[c(x), k], cosine 1 - m[c(x), k] / |m_i|; the first and last less 1 per label.
    A label counts e_c times, if clusters have weights.
    """

    counts_weight = True  # repeating the whole data doubles the objective

    weights = None

    def __init__(
        self, utility: str, normalized: bool, table: Table, partition_weight: Any, cluster_weight: Any, dtype: str
    ):
        self.number, self.widths, self.dtype, self.utility = next(NUMBERS), table.widths, dtype, utility
        self.of_label = 1.0 if cluster_weight is None else cluster_weight[:, None] / UNIT
        weighted = sizes(table)[:, None] * self.of_label
        self.share = weighted * _per_column(_inverse(by_partition(weighted, self.widths)), self.widths)  # P_i
        normalization = _normalization(self.share, self.widths, utility) if normalized else 1.0
        self.of_partition = partition_weight[:, None] * normalization
        self.of_column = _per_column(self.of_partition, self.widths) * self.of_label
        self.total = total_constant(table, self)

    def rows(self, m: Membership, multiplicity: Array | None = None, constant: bool = True) -> Rows:
        """Equal weights; the constant is the weight of a row's labels, 0 for the entropy utility."""
        left_out = m.gather_sum(self.of_column * (self.utility != "entropy"))[:, 0] if constant else None
        return Rows(multiplicity, None, None, left_out)

    def tables(self, statistics: Statistics, summed: bool) -> Tables:
        """Tables of costs; nothing is per partition, since all weights are 1."""
        counts = statistics.counts * self.of_label
        norms = by_partition(counts**2, self.widths)
        if self.utility == "entropy":
            cost = np.where(self.of_column > 0, self._minus_log(counts), 0)  # not 0 times infinity
        elif self.utility == "cosine":
            cost = -counts * _per_column(_inverse(norms**0.5), self.widths)
        else:
            inverse = _inverse(by_partition(counts, self.widths))
            cost = _per_column(norms * inverse**2, self.widths) - 2 * counts * _per_column(inverse, self.widths)
        cost *= self.of_column
        return Tables(cost.astype(self.dtype, copy=False), np.zeros((1, cost.shape[1]), self.dtype))

    def objective(self, statistics: Statistics) -> float:
        """The sum of the costs, from counts alone."""
        counts = statistics.counts * self.of_label
        if self.utility == "entropy":
            terms = by_partition(counts * np.where(counts > 0, self._minus_log(counts), 0), self.widths)
            return math.fsum((self.of_partition * terms).ravel().tolist())
        norms = by_partition(counts**2, self.widths)
        explained = norms**0.5 if self.utility == "cosine" else norms * _inverse(by_partition(counts, self.widths))
        return math.fsum([self.total, *(-self.of_partition * explained).ravel().tolist()])

    def centers(self, statistics: Statistics) -> Any:
        """m[c, k]."""
        counts = statistics.counts * self.of_label
        return counts * _per_column(_inverse(by_partition(counts, self.widths)), self.widths)

    def _minus_log(self, counts: Any) -> Any:
        """-log m[c, k]; a cluster that a partition did not see has the distribution of the whole partition."""
        sums = _per_column(by_partition(counts, self.widths), self.widths)
        with np.errstate(divide="ignore"):
            return -np.log(np.where(sums > 0, counts * _inverse(sums), self.share))


def sizes(table: Table) -> Any:
    """The size of each cluster of all partitions."""
    return table.total(_sizes)


def _sizes(block: Block) -> Any:
    return to_host(block.m.sizes(block.multiplicity))


def _extremes(block: Block, of_clusters: Any) -> tuple[int, int]:
    """The least and the largest degree."""
    degrees = block.m.gather_sum(of_clusters)[:, 0]
    return int(degrees.min()), int(degrees.max())


def total_constant(table: Table, costs: Any) -> float:
    """What the costs leave out, of all rows: a sum in whole multiples of a power of two, whatever the order."""
    largest = max(table.each(_largest_constant, costs))
    if largest <= 0:
        return 0.0
    scale = 2.0 ** (61 - math.frexp(largest * table.n_rows)[1])
    return table.total(_sum_of_constants, costs, scale) / scale


def _largest_constant(block: Block, costs: Any) -> float:
    return float(_of_table(block, costs).max())


def _sum_of_constants(block: Block, costs: Any, scale: float) -> int:
    terms = _of_table(block, costs)
    return int(namespace(terms).rint(terms * scale).astype("int64").sum())


def _of_table(block: Block, costs: Any) -> Array:
    """The constant of each row of the table, times its weight."""
    constant = block.of_table(rows_of(block, costs).constant)
    return constant if block.weight is None else constant * block.weight


def entropy_weights(table: Table) -> Any:
    """Weights of clusters in units of 1 / UNIT: exp(-h_c / (THETA r)), h_c the entropy of the others' labels inside c.

    After Huang, Wang and Lai, Locally Weighted Ensemble Clustering, IEEE Transactions on Cybernetics, 2018.
    """
    entropies, first, r = [], 0, len(table.widths)
    while first < r:
        last = first + 1
        while last < r and int(table.widths[first : last + 1].sum()) * table.n_columns <= CELLS:
            last += 1
        for i, counts in zip(range(first, last), table.total(_contingencies, first, last), strict=True):
            inside = _entropy(counts, table.widths)
            entropies.append(inside.sum(0) - inside[i])
        first = last
    weights = np.exp(-np.concatenate(entropies) / (THETA * r))
    return np.maximum(np.rint(UNIT * weights), 1).astype("int64")


def _contingencies(block: Block, first: int, last: int) -> tuple:
    """The contingency tables of partitions first .. last - 1 with all partitions, on the host."""
    m, multiplicity = block.m, block.multiplicity
    xp = namespace(m.codes)
    hole = xp.asarray(-1).astype(m.codes.dtype)
    found = []
    for i in range(first, last):
        rows = slice(None) if m.complete else xp.nonzero(m.codes[:, i] != hole)[0]
        some, weight = m.take(rows), None if multiplicity is None else multiplicity[rows]
        width = int(m.widths[i])
        if len(some.codes):
            found.append(to_host(products.count(some, some.codes[:, i].astype("int32"), weight, width)))
        else:
            found.append(np.zeros((m.n_columns, width), "int64"))
    return tuple(found)


def _entropy(counts: Any, widths: Any) -> Any:
    """Of each partition's labels inside each cluster, in bits: r x K."""
    share = counts * _per_column(_inverse(by_partition(counts, widths)), widths)
    return by_partition(-share * np.log2(np.where(share > 0, share, 1)), widths)


def _normalization(share: Any, widths: Any, utility: str) -> Any:
    """1 / |P_i|^2, 1 / H(P_i) or 1 / |P_i|; 0 for a partition of one cluster."""
    if utility == "entropy":
        size = by_partition(-share * np.log(np.where(share > 0, share, 1)), widths)
    else:
        size = by_partition(share**2, widths) ** (0.5 if utility == "cosine" else 1.0)
    return np.where(widths[:, None] > 1, _inverse(size), 0)


def _inverse(x: Any) -> Any:
    """1 / x, and 0 where x is 0."""
    return np.where(x > 0, 1.0 / np.where(x > 0, x, 1), 0.0)


def _per_column(x: Any, widths: Any) -> Any:
    """Rows of an r x K array repeated for the columns of each partition; a single row stands for all."""
    return x.repeat(widths, axis=0) if len(x) == len(widths) else x
