"""The nearest of many rows are kept while blocks of scores go by; their distances are then found from differences."""

import numpy as np

from gpuensemble._kernels.cpu.compiling import kernel, reordered


@kernel
def keep_nearest(scores, columns, rows, group, least, kept):
    """Put columns of low scores into the lists of their rows, ascending, but for columns of the row's own group.

    `scores` has a row for each of `rows`, which are rows of `least`, n x q, and of `kept`, and a column for each of
    `columns`. Of equal scores the smaller column comes first.
    """
    q = least.shape[1]
    for a in range(len(rows)):
        values, names = least[rows[a]], kept[rows[a]]
        for b in range(len(columns)):
            score, column = scores[a, b], columns[b]
            if score > values[q - 1] or group[column] == group[rows[a]]:
                continue
            place = q - 1
            while place >= 0 and (score < values[place] or (score == values[place] and column < names[place])):
                if place < q - 1:
                    values[place + 1], names[place + 1] = values[place], names[place]
                values[place], names[place] = score, column
                place -= 1


@reordered
def dense_distances(X, Y, chosen, kept, first, last, out):
    """Set the squared distances of the chosen rows of X, first .. last - 1, and the rows of Y kept for each of them."""
    for i in range(first, last):
        x = chosen[i]
        for a in range(kept.shape[1]):
            j, total = kept[i, a], 0.0
            for c in range(X.shape[1]):
                total += (np.float64(X[x, c]) - Y[j, c]) ** 2
            out[i, a] = total


@kernel
def sparse_distances(data, indices, indptr, others, their_indices, ends, n_columns, chosen, kept, first, last, out):
    """Do as `dense_distances` does, for matrices by rows: squares less twice the product, 0 for equal rows."""
    row = np.zeros(n_columns)
    for i in range(first, last):
        x = chosen[i]
        for e in range(indptr[x], indptr[x + 1]):
            row[indices[e]] = data[e]
        square, _ = _products(data, indices, indptr, x, row)
        for a in range(kept.shape[1]):
            other, product = _products(others, their_indices, ends, kept[i, a], row)
            out[i, a] = max(square + other - 2 * product, 0.0)
        for e in range(indptr[x], indptr[x + 1]):
            row[indices[e]] = 0.0


@kernel
def _products(data, indices, indptr, j, row):
    """Return the products of row j with itself and with a dense row."""
    square, product = 0.0, 0.0
    for e in range(indptr[j], indptr[j + 1]):
        value = np.float64(data[e])
        square += value * value
        product += value * row[indices[e]]
    return square, product
