"""The membership operator is the one-hot matrix of all base partitions, kept as integer codes."""

import copy
import functools
import operator
from typing import Any, NamedTuple

from gpuensemble._array import checks, coding, csr, frames
from gpuensemble._array import rows as code_rows
from gpuensemble._array.devices import Array, choose_device, device_of, namespace, on_own_device, to_device
from gpuensemble._kernels import integers, products


class Merged(NamedTuple):
    """This holds the distinct rows of a Membership, in the order of their first occurrence; see `Membership.merge`."""

    membership: "Membership"
    group: Array  # of each row: its distinct row
    multiplicity: Array  # of each distinct row: how often it occurs
    first: Array  # of each distinct row: the first row that is equal to it


class Membership:
    """A `Membership` holds a table of base partitions, and multiplies with its one-hot matrix; all methods stand on it.

    The matrix H is n x C, C the number of clusters of all partitions: one 1 per row and observed partition. H is never
    built. Row x has its 1 of partition i in column ``offsets[i] + codes[x, i]``. Most users want
    `Membership.from_labels`, which takes labels of any kind; the constructor takes codes.

    Parameters
    ----------
    codes : array of integers, n x r
        The cluster of each sample in each partition, 0 .. K_i - 1; a hole is -1, or the largest value of an unsigned
        type.
    widths : r integers
        K_i, the number of clusters of each partition.
    device : str
        "auto" (where `codes` is, else CUDA if there is one, else the CPU), "cpu", "cuda" or "cuda:N".

    Attributes
    ----------
    codes : array, n x r
        Partition-local codes in the smallest of uint8, uint16 and int32 that holds the largest K_i and a hole; a hole
        has all bits set (255, 65535, -1).
    offsets : array of r + 1 int32
        The first column of each partition, then C; on the device of the codes.
    widths : NumPy array of r int64
        K_i.
    categories : list of r NumPy arrays, or None
        The caller's own label values in the order of the codes, from `from_labels`.
    complete : bool
        Whether there is no hole.
    n_columns : int
        C.
    shape : tuple
        (n, C).

    Notes
    -----
    Methods take NumPy or CuPy arrays, move them to the device of the codes, and answer there. Their results have the
    same bits on every device: integers are summed exactly, floats in a fixed order, each addition rounded once. In
    float32 this holds as long as no sum is subnormal, which CuPy's compiler flushes to zero.
    """

    def __init__(self, codes: Any, widths: Any, *, device: str = "auto"):
        device = choose_device(device, codes)
        self._store(coding.from_codes(codes, widths), None, device)

    @classmethod
    def from_labels(cls, labels: Any, device: str = "auto") -> "Membership":
        """Make the Membership of a table of labels.

        Parameters
        ----------
        labels : n x r table
            An array of NumPy, CuPy or any library that speaks `__array__`, DLPack or `__cuda_array_interface__`; a
            frame of pandas, polars, pyarrow or any that speaks Arrow; a dict of columns; a list of rows, or of fitted
            clusterers with `labels_`. Labels are whole numbers that are not negative, or any hashable values; a hole is
            NaN, None, null, NA or -1. Every row and every column needs a label.
        device : str
            "auto", "cpu", "cuda" or "cuda:N".
        """
        labels = frames.table(labels)
        device = choose_device(device, labels)
        coded, categories = integers.coded(labels) or coding.from_labels(labels)
        return cls._make(coded, categories, device)

    @classmethod
    def from_known_labels(cls, labels: Any, categories: list, device: str = "auto") -> tuple["Membership", int]:
        """Read `labels` to `device` in the columns of given `categories`; others are holes, and are counted as well."""
        labels = frames.table(labels)
        device = choose_device(device, labels)
        coded, unknown = coding.from_known_labels(labels, categories)
        return cls._make(coded, categories, device), unknown

    @classmethod
    def from_onehot(cls, H: Any, offsets: Any, device: str = "auto") -> "Membership":
        """Make the Membership on `device` of the n x C one-hot matrix `H` itself, dense or sparse.

        `offsets` are the first column of each partition, then C. A row without a 1 in a partition has a hole there.
        """
        device = choose_device(device, csr.entries(H))
        return cls._make(coding.from_onehot(H, offsets), None, device)

    @classmethod
    def from_coded(
        cls, codes: Array, widths: Any, complete: bool, categories: list | None, device: str
    ) -> "Membership":
        """Make one of `codes`, `widths`, `complete`, `categories` as they are; copied only to another `device`."""
        return cls._make(coding.Coded(codes, widths, complete), categories, device)

    @classmethod
    def _make(cls, coded: coding.Coded, categories: list | None, device: str) -> "Membership":
        self = cls.__new__(cls)
        self._store(coded, categories, device)
        return self

    def _store(self, coded: coding.Coded, categories: list | None, device: str) -> None:
        offsets = checks.offsets(coded.widths)
        self.codes = to_device(coded.codes, device)
        self.offsets = to_device(offsets, device)
        self.widths = coded.widths
        self.categories = categories
        self.complete = coded.complete
        self.n_columns = int(offsets[-1])
        self.shape = (len(self.codes), self.n_columns)

    def __repr__(self) -> str:
        n, r = self.codes.shape
        holes = "complete" if self.complete else "with holes"
        size = f"{n} samples x {r} partitions, {self.n_columns} columns"
        return f"Membership({size}, {holes}, {self.codes.dtype}, {self.device})"

    @property
    def device(self) -> str:
        """Say where the codes are: "cpu" or "cuda:N"."""
        return device_of(self.codes)

    @on_own_device
    def labels(self) -> Array:
        """Return the codes as a table of labels for any estimator: n x r int32, -1 for a hole."""
        xp = namespace(self.codes)
        return xp.where(self.codes == xp.iinfo(self.codes.dtype).max, -1, self.codes.astype("int32"))

    @on_own_device
    def gather_sum(self, table: Any) -> Array:
        """Sum for each sample the rows of a table that belong to its clusters: H @ table.

        Parameters
        ----------
        table : array, C x K
            float32, float64 or int64; any other type becomes float64.

        Returns
        -------
        array, n x K
        """
        table = checks.table(table, "table", self.device, self.n_columns, "n_columns", (*checks.FLOATS, "int64"))
        return products.gather_sum(self, table)

    @on_own_device
    def scatter_add(self, rows: Any) -> Array:
        """Sum for each cluster the rows of its samples: H.T @ rows, the adjoint of `gather_sum`.

        Parameters
        ----------
        rows : array, n x K
            float32 or float64; any other type becomes float64.

        Returns
        -------
        array, C x K
        """
        rows = checks.table(rows, "rows", self.device, len(self.codes), "n_samples")
        return products.scatter_add(self, rows)

    @on_own_device
    def count(self, labels: Any, n_clusters: int, weight: Any = None) -> Array:
        """Count the contingency table of a partition with all base partitions: H.T @ diag(weight) @ onehot(labels).

        Parameters
        ----------
        labels : array of n integers
            0 .. n_clusters - 1.
        n_clusters : int
            The number of different labels.
        weight : array of n integers, optional
            Multiplicities, not negative; all 1 by default.

        Returns
        -------
        array of int64, C x n_clusters
        """
        n_clusters = checks.integer(n_clusters, "n_clusters", 1)
        labels = checks.labels(labels, "labels", self.device, len(self.codes), n_clusters)
        return products.count(self, labels, self._multiplicity(weight), n_clusters)

    @on_own_device
    def sizes(self, weight: Any = None) -> Array:
        """Return the size of each cluster, its column's sum in H, as C integers; `weight` is that of `count`."""
        weight = self._multiplicity(weight)
        one_cluster = namespace(self.codes).zeros(len(self.codes), "int32")
        return products.count(self, one_cluster, weight, 1)[:, 0]

    @on_own_device
    def degrees(self, weight: Any = None) -> Array:
        """Return the degree of each row, the sum of the sizes of its clusters, n integers; `weight` as in `count`."""
        return products.gather_sum(self, self.sizes(weight)[:, None])[:, 0]

    def _multiplicity(self, weight: Any) -> Array | None:
        if weight is None:
            return None
        return checks.counts(weight, "weight", self.device, len(self.codes), times=self.codes.shape[1])

    @on_own_device
    def assign(self, table: Any, per_partition: Any = None, weight: Any = None) -> tuple[Array, Array]:
        """Find the cheapest of K choices for each row, without the n x K costs.

        The cost of choice k for row x is t + weight[x] * p, where t is the sum of table[column of x in i, k], and p the
        sum of per_partition[i, k], over the partitions i that x has a label in, ascending. The lowest k wins a tie. A
        row whose costs are all infinite goes to the k with the fewest infinite terms, then the least sum of the finite
        ones.

        Parameters
        ----------
        table : array, C x K
            float32 or float64 (any other type becomes float64), which is the type of all sums; +inf is allowed.
        per_partition : array, r x K, optional
            All 0 by default.
        weight : array of n numbers, optional
            All 1 by default.

        Returns
        -------
        labels : array of n int32
        cost : array of n
            The least cost, in the type of the table.
        """
        table = checks.table(table, "table", self.device, self.n_columns, "n_columns", infinite=True)
        per_partition = self._per_partition(per_partition, table)
        if weight is not None:
            weight = checks.weights(weight, "weight", self.device, len(self.codes), table.dtype)
        labels, cost, _ = products.assign(self, table, per_partition, weight)
        return labels, cost

    def _per_partition(self, given: Any, table: Array) -> Array:
        """Return one row per partition, or a single row, the sum of them all, where it is the same for every sample."""
        n_columns = table.shape[1]
        if given is None:
            return namespace(table).zeros((1, n_columns), table.dtype)
        parts = checks.table(given, "per_partition", self.device, self.codes.shape[1], "n_partitions")
        if parts.shape[1] != n_columns:
            raise ValueError(
                f"`per_partition` must have as many columns as `table`, {n_columns}, got {parts.shape[1]}."
            )
        parts = parts.astype(table.dtype)
        return functools.reduce(operator.add, parts)[None] if self.complete else parts

    @on_own_device
    def coassociation(self, rows: slice = slice(None), missing: str = "ignore", dtype: str = "float64") -> Array:
        """Build a dense block of rows of the co-association matrix: S = H @ H.T / r.

        Parameters
        ----------
        rows : slice
            Which rows, with step 1; all of them make an n x n matrix.
        missing : {"ignore", "signed", "seen"}
            "ignore": S[p, q] = agreements / r; a hole agrees with nothing. "signed": (agreements - disagreements) / r
            over the partitions that saw both, so that 0 means unknown. "seen": agreements / (partitions that saw
            both), NaN where none did; this is the S of `stability`.
        dtype : {"float64", "float32"}
            The type of the block, which is len(rows) x n.
        """
        checks.choice(missing, "missing", ("ignore", "signed", "seen"))
        checks.choice(dtype, "dtype", ("float64", "float32"))
        begin, end = checks.rows(rows, len(self.codes))
        if missing == "seen" and not self.complete:
            return self._coassociation_of_seen(begin, end, dtype)
        return products.coassociation(self, begin, end, int(missing == "signed"), dtype)

    def _coassociation_of_seen(self, begin: int, end: int, dtype: str) -> Array:
        """Divide agreements by agreements and disagreements together, whole numbers: the partitions that saw both."""
        xp, r = namespace(self.codes), self.codes.shape[1]
        agree, net = (xp.rint(products.coassociation(self, begin, end, penalty, dtype) * r) for penalty in (0, 1))
        both = 2 * agree - net
        return xp.where(both > 0, agree / xp.maximum(both, 1), xp.nan).astype(dtype, copy=False)

    @on_own_device
    def coassociation_dot(self, x: Any) -> Array:
        """Multiply the co-association matrix, which is not built, with an n x K array `x`."""
        return products.gather_sum(self, self.scatter_add(x)) / self.codes.shape[1]

    @on_own_device
    def take(self, rows: Array | slice) -> "Membership":
        """Take some `rows`: a slice gives a view, an array of integers on the codes' device a copy."""
        return self.filled(self.codes[rows], self.complete)

    @on_own_device
    def partitions(self, first: int, last: int) -> "Membership":
        """Return the Membership of the partitions from `first` to before `last` alone, a copy."""
        codes = namespace(self.codes).ascontiguousarray(self.codes[:, first:last])
        return self._make(coding.Coded(codes, self.widths[first:last], self.complete), None, self.device)

    def filled(self, codes: Array, complete: bool = True) -> "Membership":
        """Return the Membership of other `codes`, `complete` or not, of the same partitions; nothing is checked."""
        found = copy.copy(self)
        found.codes, found.complete, found.shape = codes, complete, (len(codes), self.n_columns)
        return found

    @on_own_device
    def merge(self) -> Merged:
        """Find the distinct rows, which row is which of them, and how often each occurs.

        Returns
        -------
        membership : Membership
            The distinct rows, in the order of their first occurrence.
        group : array of n integers
            The distinct row that each row is equal to.
        multiplicity : array of int64
            How many rows are equal to each distinct row.
        first : array of integers
            The first row that is equal to each distinct row.
        """
        first, group, multiplicity = code_rows.distinct(self.codes)
        return Merged(self.take(first), group, multiplicity, first)


def coassociation(
    labels: Any, missing: str = "ignore", rows: slice = slice(None), device: str = "auto", dtype: str = "float64"
) -> Array:
    """Build a dense block of rows of a table's co-association matrix; see `Membership.coassociation`.

    Parameters
    ----------
    labels : n x r table
        As in `Membership.from_labels`.
    missing, rows, dtype
        As in `Membership.coassociation`.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to work. The block comes back in the caller's library, NumPy or CuPy.

    Returns
    -------
    array, len(rows) x n
    """
    labels = frames.table(labels)
    block = Membership.from_labels(labels, device).coassociation(rows, missing, dtype)
    return to_device(block, device_of(labels))
