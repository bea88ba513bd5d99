"""Lloyd's iterations over one block of features, and a guide if there is one, on the CPU: many of them in one call.

On small data most of the time would go into the calls between two steps. A compiled loop has none, and holds no lock.
"""

import math
from typing import Any

import numba
import numpy as np

from gpuensemble import _cpu_features as steps
from gpuensemble._csr import Csr, OneHot
from gpuensemble._distance import LACKING
from gpuensemble._vector import DOT_ROWS, aligned, dot_rows, dot_width

SQUARED, COSINE, KL, AGREEMENT = range(4)
# sums over columns in any order, several at a time
_reordered: Any = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc"})
CODES = {"sqeuclidean": SQUARED, "cosine": COSINE, "kl": KL, "agreement": AGREEMENT}


def fits(features: Any) -> bool:
    """Whether there is one block, or one and the labels of a guide that all rows have."""
    guide = features.parts[1:]
    return not guide or (len(guide) == 1 and isinstance(guide[0], OneHot))


def advance(
    features: Any,
    state: Any,
    position: list,
    empty: Any,
    shift: Any,
    total: float,
    objective: float,
    limit: int,
    tol: float,
):
    """Take steps until no row moves, a cluster is empty, or the objective falls too little, `limit` at most.

    Labels, sums, counts and masses are then those of the last step, and positions those that it used. Returns how many
    steps there were, how many rows the last one moved, and the objective before it.
    """
    part, dtype = features.parts[0], features.dtype
    none, nowhere = np.empty(0, np.int32), np.empty((0, 0))
    if isinstance(part, Csr):
        dense, entries = np.empty((0, 0), dtype), (part.data, part.indices, part.indptr.astype(np.int64, copy=False))
    else:  # of the same types, so that one compilation serves both
        dense, entries = np.ascontiguousarray(part), (np.empty(0, dtype), none, np.empty(0, np.int64))
    k = len(empty)
    space, offset = steps.scores_and_offset(k, dtype)
    width = dot_width(k, dtype) if len(dense) else space.shape[1]
    guided = len(features.parts) > 1
    present = features.present[0]
    return _advance(
        dense,
        *entries,
        np.empty(0, bool) if present is None else np.ascontiguousarray(present),
        features.parts[1].indices if guided else none,
        CODES[features.distances[0]],
        CODES[features.distances[-1]],
        features.weights[0],
        features.weights[-1],
        LACKING[dtype.name],
        total,
        aligned((part.shape[1], width or k), dtype),
        space,
        offset,
        np.empty((0 if width else len(space), dense.shape[1]), dtype),
        features.square,
        features.bounded,
        state.weight,
        state.labels,
        state.margin,
        state.sums[0],
        state.sums[1] if guided else nowhere,
        state.counts[0],
        state.masses[0],
        state.counts[1] if guided else np.empty(0, np.int64),
        state.masses[1] if guided else np.empty(0),
        position[0],
        position[1] if guided else nowhere,
        empty,
        shift,
        objective,
        limit,
        float(tol),
    )


@steps.kernel
def _advance(
    dense,
    data,
    indices,
    indptr,
    present,
    guide,
    kind,
    guide_kind,
    weight,
    guide_weight,
    lacking,
    total,
    table,
    space,
    offset,
    buffer,
    square,
    bounded,
    row_weight,
    labels,
    margin,
    sums,
    guide_sums,
    number,
    mass,
    guide_number,
    guide_mass,
    position,
    guide_position,
    empty,
    shift,
    objective,
    limit,
    tol,
):
    k = len(sums)
    guide_table, products = np.empty((guide_sums.shape[1], k), data.dtype), np.empty((len(buffer), k), data.dtype)
    own, guide_own, size, guide_size = [np.empty(k) for _ in range(4)]
    every, none = np.arange(len(labels)), np.full(len(labels), -1, np.int32)
    _fill(kind, position, weight, lacking, table, own)
    _fill(guide_kind, guide_position, guide_weight, lacking, guide_table, guide_own)
    n_steps = 0
    while True:
        n_steps += 1
        for c in range(k):
            offset[0, c] = np.inf if empty[c] else guide_own[c] + (0.0 if len(present) else own[c])
        rows = steps.open_rows(labels, margin, shift)
        moved = 0
        for begin in range(0, len(rows), len(space)):
            chosen = rows[begin : begin + len(space)]
            before = labels[chosen]
            _scores(dense, data, indices, indptr, chosen, table, buffer, products, space)
            _add_guide(chosen, guide, guide_table, present, own, space)
            moved += steps.choose(space, offset, k, chosen, square, kind == SQUARED, labels, margin)
            if kind != KL:
                _move(dense, data, indices, indptr, guide, chosen, before, labels, row_weight, sums, guide_sums)
        if kind == KL:
            _clear(sums)
            _clear(guide_sums)
            _move(dense, data, indices, indptr, guide, every, none, labels, row_weight, sums, guide_sums)
        steps.count_rows(labels, present, row_weight, number, mass)
        if len(guide):
            steps.count_rows(labels, present[:0], row_weight, guide_number, guide_mass)
        if moved == 0 or (number == 0).any() or n_steps == limit:
            return n_steps, moved, objective
        found = total - weight * _saved(kind, sums, mass, size)
        found -= guide_weight * _saved(guide_kind, guide_sums, guide_mass, guide_size)
        if objective - found <= tol * found:
            return n_steps, moved, objective
        objective = found
        for c in range(k):
            shift[c] = 0.0
        _place(kind, sums, size, weight, position, shift)
        _place(guide_kind, guide_sums, guide_size, guide_weight, guide_position, shift)
        _fill(kind, position, weight, lacking, table, own)
        _fill(guide_kind, guide_position, guide_weight, lacking, guide_table, guide_own)
        for c in range(k):
            empty[c] = False
            shift[c] = np.sqrt(shift[c]) if bounded else np.inf


@steps.kernel
def _scores(dense, data, indices, indptr, chosen, table, buffer, products, out):
    """out = the products of the chosen rows, which are in ascending order, and the table."""
    m = len(chosen)
    if not len(dense):
        steps.sparse_scores(data, indices, indptr, chosen, table, True, out)
    elif not len(buffer):  # few clusters: BLAS would spend its time on copies of the rows
        for j in range(0, m, DOT_ROWS):
            dot_rows(dense, chosen, j, m, table, out)
    else:
        if chosen[m - 1] - chosen[0] == m - 1:
            np.dot(dense[chosen[0] : chosen[0] + m], table, products[:m])
        else:
            for j in range(m):
                for c in range(dense.shape[1]):
                    buffer[j, c] = dense[chosen[j], c]
            np.dot(buffer[:m], table, products[:m])
        for j in range(m):
            for c in range(products.shape[1]):
                out[j, c] = products[j, c]


@steps.kernel
def _clear(sums):
    for c in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            sums[c, j] = 0.0


@_reordered
def _fill(kind, position, weight, lacking, table, offset):
    """`table` and `offset` of `_distance` for a block; the table is columns x clusters."""
    factor = -weight if kind == COSINE else -2 * weight
    for c in range(len(offset)):
        offset[c] = 0.0
    for c in range(position.shape[0]):
        square = 0.0
        if kind == KL:
            for j in range(position.shape[1]):
                table[j, c] = weight * (-math.log(position[c, j]) if position[c, j] > 0 else lacking)
        else:
            for j in range(position.shape[1]):
                table[j, c] = factor * position[c, j]
                square += position[c, j] ** 2
        if kind == SQUARED:
            offset[c] = weight * square


@steps.kernel
def _add_guide(chosen, guide, guide_table, present, own, out):
    """Add what the labels of the guide cost, and the offsets of a block that some rows are absent from."""
    for j in range(len(chosen)):
        for c in range(len(own)):
            if len(guide):
                out[j, c] += guide_table[guide[chosen[j]], c]
            if len(present) and present[chosen[j]]:
                out[j, c] += own[c]


@steps.kernel
def _move(dense, data, indices, indptr, guide, chosen, before, labels, row_weight, sums, guide_sums):
    if len(dense):
        steps.move_dense(dense, chosen, before, labels, row_weight, sums)
    else:
        steps.move_sparse(data, indices, indptr, chosen, before, labels, row_weight, sums)
    step = min(1, len(row_weight) - 1)
    if len(guide):
        for j in range(len(chosen)):
            x, old = chosen[j], before[j]
            guide_sums[labels[x], guide[x]] += row_weight[x * step]
            if old >= 0:
                guide_sums[old, guide[x]] -= row_weight[x * step]


@_reordered
def _saved(kind, sums, mass, size):
    """What the means of clusters save, as `_distance` has it; `size` becomes what their sums are divided by."""
    saved = 0.0
    for c in range(sums.shape[0]):
        total, square = 0.0, 0.0
        for j in range(sums.shape[1]):
            total += sums[c, j]
            square += sums[c, j] ** 2
        size[c] = math.sqrt(square) if kind == COSINE else total if kind == KL else mass[c]
        if kind == COSINE:
            saved += size[c]
        elif kind == SQUARED and mass[c] > 0:
            saved += square / mass[c]
        elif kind == KL:
            for s in sums[c]:
                saved += s * math.log(s / total) if s > 0 else 0.0
        elif kind == AGREEMENT:
            for j in range(sums.shape[1]):
                s = sums[c, j]
                saved += s * (s / _of_label(sums, j) - 1) if s > 0 else 0.0
    return saved


@_reordered
def _place(kind, sums, size, weight, position, shift):
    """Put the means of clusters into `position`, as `_distance` has it; add the squares of how far they moved."""
    for c in range(sums.shape[0]):
        factor, moved = 1 / size[c] if size[c] > 0 else 0.0, 0.0
        for j in range(sums.shape[1]):
            new = sums[c, j] * factor
            moved += (new - position[c, j]) ** 2
            position[c, j] = new
        if kind == AGREEMENT:
            for j in range(sums.shape[1]):
                position[c, j] = sums[c, j] / max(_of_label(sums, j), 1e-300)
        shift[c] += weight * moved


@steps.kernel
def _of_label(sums, j):
    """How many rows have the label j."""
    found = 0.0
    for c in range(sums.shape[0]):
        found += sums[c, j]
    return found
