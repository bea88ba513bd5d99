"""This launches kernels/relabel.cu, with the names, arguments, labels and counts of cpu/kmeans/relabel.py."""

import numpy as np

from gpuensemble._kernels.cuda import membership as kernels
from gpuensemble._kernels.cuda.source import TYPE, function, grid


def prepared(table, per_partition, offsets, complete, heaviest):
    """Return tables of costs as `relabel` takes them."""
    return kernels.padded_table(table), kernels.padded_table(per_partition)[0]


def relabel(membership, tables, rows, state, drift, n_clusters, anew):
    """Find the labels of all rows for new tables; return counts, masses, and how many rows moved and were evaluated."""
    import cupy

    (n, r), ((table, pitch), parts), codes = membership.codes.shape, tables, membership.codes
    n_cells = membership.n_columns * n_clusters
    # one array, which is cleared by one launch
    sums = cupy.zeros(2 if anew else 2 + n_cells + rows.n_masses * n_clusters, np.int64)
    counts, masses = sums[2 : 2 + n_cells].reshape(-1, n_clusters), sums[2 + n_cells :].reshape(-1, n_clusters)
    given = (table, parts, np.int32(len(parts) == 1), np.int32(n_clusters), np.int32(pitch))
    of_rows = [_of_each(values, n) for values in rows[:3]] + [_of_each(rows.sizes, membership.n_columns)]
    bounds = (drift.edges, np.int32(len(drift.edges) - 1), drift.taken, drift.rounding)
    lanes, each = kernels.lanes_of(n_clusters)
    types = f"{TYPE[table.dtype.name]}, {kernels.CODE[codes.dtype.name]}, {lanes}, {each}"
    kernel = function(f"relabel<{types}>", "relabel.cu")
    of_masses = (np.int32(rows.shift), np.int32(rows.n_masses))
    written = (np.int32(not anew), counts, masses, sums[:2])
    start = (codes, membership.offsets, np.int64(n), np.int32(r))
    kernel(
        (grid(-(-n * lanes // kernels.ROW_THREADS)),),
        (kernels.ROW_THREADS,),
        (*start, *given, *of_rows, *of_masses, *state, *bounds, *written),
    )
    if anew:
        counts, masses = _counted(membership, rows, state.labels, n_clusters)
    return counts, masses, sums[:2]


def _of_each(values, n):
    """Return an array with an entry for each of n, or no address where there is one for all, or none."""
    return values if len(values) == n else np.uintp(0)


def _counted(membership, rows, labels, n_clusters):
    """Count a partition, and add up its masses."""
    import cupy

    multiplicity = rows.multiplicity if len(rows.multiplicity) == len(labels) else None
    if not rows.n_masses:
        return kernels.count(membership, labels, multiplicity, n_clusters), cupy.empty((0, n_clusters), np.int64)
    mass = rows.mass if len(rows.mass) else _masses(membership, rows)
    if rows.n_masses > 1:
        return kernels.count_masses(membership, labels, multiplicity, mass, n_clusters)
    counts = kernels.count(membership, labels, multiplicity, n_clusters)
    of_first = kernels.count(membership.partitions(0, 1), labels, mass, n_clusters)
    return counts, of_first.sum(0, keepdims=True)


def _masses(membership, rows):
    """Return the masses of all rows from the sizes of their clusters."""
    import cupy

    degrees = kernels.gather_sum(membership, rows.sizes[:, None])[:, 0]
    if rows.shift:
        degrees = (degrees + ((1 << rows.shift) >> 1)) >> rows.shift
    return cupy.maximum(degrees, 1) * rows.multiplicity
