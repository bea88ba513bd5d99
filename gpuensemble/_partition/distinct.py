"""Distinct rows of a table stand for all rows equal to them, on the host: what is square in n is square in these."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from gpuensemble._array.devices import to_device, to_host
from gpuensemble._kernels import products
from gpuensemble._kernels.cpu.graphs import linkage as average
from gpuensemble._kmeans.labels.labellings import Given
from gpuensemble._partition import linkage, votes
from gpuensemble._tables.blocks import InMemory, Table
from gpuensemble.membership import Membership


class Distinct(NamedTuple):
    """These are the distinct rows of a table that count, and which row of the table is which."""

    m: Membership
    multiplicity: Any  # how often each counts, at least once
    group: Any  # of each row of the table: its distinct row, or -1 for one whose copies do not count at all

    def columns(self) -> Any:
        """Return the column of each label, -1 for a hole."""
        codes = self.m.codes
        return np.where(codes == np.array(-1).astype(codes.dtype), -1, codes.astype("int64") + self.m.offsets[:-1])

    def sparse_onehot(self) -> Any:
        """Return H of the distinct rows, a sparse matrix of SciPy's."""
        columns = self.columns()
        pointers = np.concatenate([[0], np.cumsum((columns >= 0).sum(1))])
        columns = columns[columns >= 0]
        return csr_array((np.ones(len(columns)), columns, pointers), (len(self.m.codes), self.m.n_columns))


def all_rows(table: Table) -> Membership:
    """Read all rows of a table into memory, if they are not there."""
    return table.block.m if isinstance(table, InMemory) else table.take(np.arange(table.n_rows))


def of(table: Table) -> Distinct:
    """Read all rows of a table, and merge equal ones."""
    m = all_rows(table)
    merged = m.merge()
    group, multiplicity = to_host(merged.group), to_host(merged.multiplicity)
    codes = to_host(merged.membership.codes)
    if table.weight is not None:
        multiplicity = np.bincount(group, table.weight, len(multiplicity)).astype("int64")  # exact below 2**53
        number = np.where(multiplicity > 0, np.cumsum(multiplicity > 0) - 1, -1)
        group, codes, multiplicity = number[group], codes[multiplicity > 0], multiplicity[multiplicity > 0]
    return Distinct(Membership.from_coded(codes, m.widths, m.complete, None, "cpu"), multiplicity, group)


def tree(rows: Distinct, weight: Any) -> Any:
    """Link distinct rows by the mean of H diag(weight) H' between groups of samples, without that matrix.

    What a group has in each column is kept, C x groups in float32, which is exact below 2**24 samples.
    """
    if len(rows.multiplicity) == 1:
        return np.zeros((0, 2), "int64")
    dtype = "float32" if rows.multiplicity.sum() < 1 << 24 else "float64"
    counts = np.zeros((rows.m.n_columns, len(rows.multiplicity)), dtype)
    for columns in rows.columns().T:
        seen = np.flatnonzero(columns >= 0)
        counts[columns[seen], seen] = rows.multiplicity[seen]
    return linkage.ordered(*average.of_counts(counts, weight, rows.multiplicity))


def labelled(table: Table, rows: Distinct, found: Any, weight: Any, dtype: str) -> tuple[Given, votes.Voted]:
    """Spread labels of distinct rows over the table; make the rule by which new rows are labelled.

    That rule is the mean similarity H diag(weight) H' with the rows of a label. Rows that do not count follow it.
    """
    n_clusters = int(found.max()) + 1
    counts = products.count(rows.m, found, rows.multiplicity, n_clusters)
    sizes = np.bincount(found, rows.multiplicity, n_clusters)
    rule = votes.Voted.by(votes.similarities(counts, weight, sizes), dtype)
    labels = found[rows.group]
    idle = np.flatnonzero(rows.group < 0)
    if len(idle):
        labels[idle] = to_host(rule.found(table.take(idle))[0])
    return Given(to_device(labels, table.device)), rule
