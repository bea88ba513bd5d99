"""This launches kernels/relabel.cu, with the names, arguments, labels and counts of cpu/kmeans/relabel.py."""

from types import SimpleNamespace

import numpy as np

from gpuensemble._kernels.cuda import membership as kernels
from gpuensemble._kernels.cuda import short
from gpuensemble._kernels.cuda.source import TYPE, function, grid


def prepared(table, per_partition, offsets, complete, heaviest):
    """Return tables of costs as `relabel` takes them; `heaviest` is the largest weight of a row."""
    given, (parts, _), n_parts = kernels.padded_table(table), kernels.padded_table(per_partition), len(per_partition)
    in_short = short.shortened(given, (parts, n_parts), table.shape, offsets, complete, heaviest)
    return given, (parts, n_parts), in_short


def relabel(membership, tables, rows, state, drift, n_clusters, anew):
    """Find the labels of all rows for new tables; return counts, masses, and how many rows moved and were evaluated."""
    import cupy

    (n, r), ((table, pitch), (parts, n_parts), in_short), codes = membership.codes.shape, tables, membership.codes
    old, facts = None if anew else state.labels.copy(), cupy.zeros(2, np.int64)
    given = (table, parts, np.int32(n_parts == 1), np.int32(n_clusters), np.int32(pitch), *in_short)
    of_rows = (_of_each(rows.weight, n), _of_each(rows.sizes, membership.n_columns), np.int32(rows.shift))
    bounds = (drift.edges, np.int32(len(drift.edges) - 1), drift.taken, drift.rounding)
    lanes, pairs = short.lanes_of(n_clusters)
    types = f"{TYPE[table.dtype.name]}, {kernels.CODE[codes.dtype.name]}, {lanes}, {pairs}"
    kernel = function(f"relabel<{types}>", "relabel.cu")
    start = (codes, membership.offsets, np.int64(n), np.int32(r))
    arguments = (*start, *given, *of_rows, *state, *bounds, facts)
    kernel((grid(-(-n * lanes // kernels.ROW_THREADS)),), (kernels.ROW_THREADS,), arguments)
    return *_counted(membership, rows, old, state.labels, n_clusters), facts


def _of_each(values, n):
    """Return an array with an entry for each of n, or no address where there is one for all, or none."""
    return values if len(values) == n else np.uintp(0)


def _counted(membership, rows, old, labels, n_clusters):
    """Count a partition, and add up its masses; with `old` labels, by how much that changes."""
    import cupy

    multiplicity = rows.multiplicity if len(rows.multiplicity) == len(labels) else None
    if not rows.n_masses:
        return _counts(membership, old, labels, multiplicity, n_clusters), cupy.empty((0, n_clusters), np.int64)
    if rows.n_masses > 1:
        mass = rows.mass if len(rows.mass) else _masses(membership, rows)
        return kernels.count_moved_masses(membership, None, old, labels, multiplicity, mass, n_clusters)
    counts = _counts(membership, old, labels, multiplicity, n_clusters)
    if not rows.shift:  # a degree is a sum over clusters, so that sums of degrees are, too; none that counts is 0
        return counts, (rows.sizes[:, None] * counts).sum(0, keepdims=True)
    mass = rows.mass if len(rows.mass) else _masses(membership, rows)
    return counts, _counts(_first(membership), old, labels, mass, n_clusters).sum(0, keepdims=True)


def _first(membership):
    """Return the first partition alone; nothing goes up for it."""
    import cupy

    codes, widths = cupy.ascontiguousarray(membership.codes[:, :1]), membership.widths[:1]
    return SimpleNamespace(codes=codes, offsets=membership.offsets[:2], widths=widths, n_columns=int(widths[0]))


def _counts(membership, old, labels, weight, n_clusters):
    return kernels.count_moves(membership, None, old, labels, weight, n_clusters)


def _masses(membership, rows):
    """Return the masses of all rows from the sizes of their clusters."""
    import cupy

    degrees = kernels.gather_sum(membership, rows.sizes[:, None])[:, 0]
    if rows.shift:
        degrees = (degrees + ((1 << rows.shift) >> 1)) >> rows.shift
    return cupy.maximum(degrees, 1) * rows.multiplicity
