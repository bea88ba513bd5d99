"""What clusters cost, from integer counts, on the CPU: the twin of kernels/pricing.cu, with the same bits.

Products, quotients and square roots are rounded once each; sums run over the clusters of a partition, and over the
partitions, in ascending order.
"""

import numpy as np

from gpuensemble._kernels.cpu.compiling import inner, kernel
from gpuensemble._kernels.cpu.vector.empty import empty

KINDS = ("sec", "category", "cosine")  # of costs; `price` knows them by their number


def price(kind, counts, masses, columns, offsets, scale, unit, dtype, summed, total):
    """Return the table of costs, C x K, that of partitions, r x K, or 1 x K if `summed`, and two facts.

    These are the objective, `total` and the sum of the terms of the clusters, and how many clusters are empty.
    `columns` are mu_i e_c and e_c of each column, C x 2, then mu_i of each partition, r; `masses` may be None.
    """
    (n_columns, n_clusters), r = counts.shape, len(offsets) - 1
    table = np.empty((n_columns, n_clusters), dtype)
    masses = np.empty((0, n_clusters), np.int64) if masses is None else masses
    parts, terms, seen = np.empty((r, n_clusters)), np.empty((r, n_clusters)), np.empty((r, n_clusters), np.bool_)
    price_partitions(KINDS.index(kind), counts, masses, *columns, offsets, scale, unit, table, parts, terms, seen, 0, r)
    facts = np.empty(2)
    of_partitions = np.empty((1 if summed else r, n_clusters), dtype)
    add_up(parts, terms, seen, total, of_partitions, facts)
    return table, of_partitions, facts


@kernel
def price_partitions(
    kind, counts, masses, of_column, of_partition, offsets, scale, unit, table, parts, terms, seen, first, last
):
    """Price the clusters of partitions first .. last - 1."""
    n_clusters = counts.shape[1]
    squares, sums = empty(n_clusters, np.float64), empty(n_clusters, np.float64)
    for i in range(first, last):
        _add_columns(kind, counts, of_column, offsets[i], offsets[i + 1], squares, sums, seen[i])
        for k in range(n_clusters):
            square = squares[k]
            parts[i, k] = 0
            if kind == 0:
                mass = masses[i if len(masses) > 1 else 0, k]
                factor = (1.0 / mass if mass > 0 else 0.0) / unit
                parts[i, k] = scale * unit * square * (factor * factor)
                terms[i, k] = -(square * factor)
            elif kind == 1:
                factor = 1.0 / sums[k] if sums[k] > 0 else 0.0
                terms[i, k] = -of_partition[i] * (square * factor)
            else:
                root = np.sqrt(square)
                factor = 1.0 / root if root > 0 else 0.0
                terms[i, k] = -of_partition[i] * root
            sums[k] = factor
        for c in range(offsets[i], offsets[i + 1]):
            weight, label = of_column[c, 0], of_column[c, 1]
            for k in range(n_clusters):
                factor = sums[k]
                if kind == 0:
                    cost = counts[c, k] * (-2 * scale * weight) * factor
                elif kind == 1:
                    cost = (squares[k] * (factor * factor) - 2 * (counts[c, k] * label) * factor) * (weight * scale)
                else:
                    cost = -(counts[c, k] * label) * factor * (weight * scale)
                table[c, k] = cost


@inner
def _add_columns(kind, counts, of_column, first, last, squares, sums, seen):
    """Find sums of counts and of their squares over columns first .. last - 1, and the clusters that are seen there."""
    n_clusters = len(sums)
    for k in range(n_clusters):
        squares[k], sums[k], seen[k] = 0.0, 0.0, False
    for c in range(first, last):
        outer, factor = (of_column[c, 0], 1.0) if kind == 0 else (1.0, of_column[c, 1])
        for k in range(n_clusters):
            count = counts[c, k] * factor
            squares[k] += count * count * outer
            sums[k] += count
            seen[k] |= counts[c, k] != 0


@kernel
def add_up(parts, terms, seen, total, of_partitions, facts):
    """Add up the parts of each cluster, and the terms of all, of which the rounding errors are added up, too."""
    r, n_clusters = parts.shape
    high, low, empty = total, 0.0, 0
    for k in range(n_clusters):
        part, sum_of_terms, lost, any_seen = 0.0, 0.0, 0.0, False
        for i in range(r):
            part += parts[i, k]
            before, term = sum_of_terms, terms[i, k]
            sum_of_terms = before + term
            back = sum_of_terms - before
            lost += (before - (sum_of_terms - back)) + (term - back)
            any_seen |= seen[i, k]
            if len(of_partitions) > 1:
                of_partitions[i, k] = parts[i, k]
        if len(of_partitions) == 1:
            of_partitions[0, k] = part
        before = high
        high = before + sum_of_terms
        back = high - before
        low += (before - (high - back)) + (sum_of_terms - back) + lost
        empty += not any_seen
    facts[0], facts[1] = high + low, empty


def drift(before, after, parts, offsets, complete, edges, safety):
    """Bound what new tables take off the margin of a row, by bin of its weight and by label, and its rounding error.

    `before` and `after` are tables, C x K, and `parts` those of partitions; without a `before` nothing is known. It
    returns what is taken, bins x K, in float32, and the rounding error of each bin.

    The cost of cluster k changes by the change of the table, somewhere between its least and largest entry in each
    partition, plus the weight times the change of the per-partition costs; with holes a partition may not count. The
    bounds are concave and convex in the weight, so that the ends of a bin bound what is between them.
    """
    n_clusters, r = after.shape[1], len(offsets) - 1
    low, high, size = (np.empty((r, n_clusters)) for _ in "lhs")
    known = before is not None
    find_changes(after if before is None else before, after, offsets, low, high, size, 0, r)
    taken = np.full((len(edges) - 1, n_clusters), np.inf, np.float32)
    rounding = np.empty(len(edges) - 1)
    bound_rounding(size, parts[1], rounding_unit(safety, r, after.dtype), edges, rounding)
    if known:
        least, largest = np.empty((2, len(edges), n_clusters))
        bound_costs(low, high, parts[0], parts[1], complete, edges, least, largest)
        bound_margins(least, largest, taken)
    return taken, rounding


def rounding_unit(safety, r, dtype):
    """Return by how much a sum of r costs is wrong, in units of the sum of their sizes."""
    return safety * (r + 4) * float(np.finfo(dtype).eps)


@kernel
def find_changes(before, after, offsets, low, high, size, first, last):
    """Find the least and largest change of an entry of partitions first .. last - 1, and the largest finite entry."""
    for i in range(first, last):
        for k in range(low.shape[1]):
            low[i, k], high[i, k], size[i, k] = np.inf, -np.inf, 0.0
        for c in range(offsets[i], offsets[i + 1]):
            for k in range(low.shape[1]):
                entry = np.float64(after[c, k])
                change = entry - np.float64(before[c, k])
                if np.isnan(change):  # infinite before and after
                    change = np.float64(0)
                low[i, k], high[i, k] = min(low[i, k], change), max(high[i, k], change)
                if abs(entry) < np.inf:
                    size[i, k] = max(size[i, k], abs(entry))


@kernel
def bound_rounding(size, parts, unit, edges, rounding):
    """Bound the rounding error of the margins of rows, by bin of their weight."""
    largest, largest_part = 0.0, 0.0
    for k in range(size.shape[1]):
        of_table, of_parts = 0.0, 0.0
        for i in range(len(size)):
            of_table += size[i, k]
        for i in range(len(parts)):
            of_parts += abs(np.float64(parts[i, k]))
        largest, largest_part = max(largest, of_table), max(largest_part, of_parts)
    for b in range(len(rounding)):
        rounding[b] = unit * largest + unit * largest_part * edges[b + 1]


@kernel
def bound_costs(low, high, before, after, complete, edges, least, largest):
    """Find between what the change of each cluster's cost is, for a row with the weight of each edge."""
    n_clusters = low.shape[1]
    summed = len(after) == 1  # the sum of all partitions, the same for every row
    for k in range(n_clusters):
        of_table = 0.0, 0.0
        for e in range(len(edges)):
            if e == 0 or not summed:
                down, up = 0.0, 0.0
                for i in range(len(low)):
                    change = 0.0 if summed else (np.float64(after[i, k]) - np.float64(before[i, k])) * edges[e]
                    lower, upper = low[i, k] + change, high[i, k] + change
                    if complete:
                        down, up = down + lower, up + upper
                    else:
                        down, up = down + min(lower, 0.0), up + max(upper, 0.0)
                of_table = down, up
            down, up = of_table
            if summed:
                change = (np.float64(after[0, k]) - np.float64(before[0, k])) * edges[e]
                down, up = down + change, up + change
            # not a number: costs that became infinite, and others that ceased to be
            least[e, k], largest[e, k] = -np.inf if np.isnan(down) else down, np.inf if np.isnan(up) else up


@kernel
def bound_margins(least, largest, taken):
    """Bound what is taken off the margins of rows, by bin of their weight and by label."""
    n_clusters = least.shape[1]
    for b in range(len(taken)):
        first, second = np.inf, np.inf  # the least of all clusters, and of the others
        for k in range(n_clusters):
            lower = min(least[b, k], least[b + 1, k])
            if lower < first:
                first, second = lower, first
            else:
                second = min(second, lower)
        for k in range(n_clusters):
            lower = min(least[b, k], least[b + 1, k])
            others = 0.0 if n_clusters == 1 else second if lower == first else first
            upper = max(largest[b, k], largest[b + 1, k])
            most = upper - others + 1e-9 * (abs(upper) + abs(others))  # for the rounding of these very sums
            bound = np.float32(most)
            taken[b, k] = bound + abs(bound) * np.float32(2.0**-22) + np.float32(1e-37)
