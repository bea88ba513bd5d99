"""Rows of features come from arrays that any process can open, or from Dask; threads or workers work on them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gpuensemble._array import csr, threads
from gpuensemble._tables import readers
from gpuensemble._tables.on_dask import is_dask, large_graphs, told_of_loss


class Local:
    """This gives rows of a matrix that any process can open, or that goes with the call."""

    def __init__(self, opened: readers.Opened, shape: tuple[int, ...]):
        self.opened, self.shape = opened, shape

    def sent(self, rows: Any, client: Any) -> tuple[Callable, Any]:
        """Return what a worker needs to get the rows: a function, and its argument."""
        if isinstance(self.opened, readers.Held):
            return _same, self.opened()[_index(rows)]
        return self.rows, rows

    def rows(self, rows: Any) -> Any:
        """Read some rows into memory."""
        return np.asarray(self.opened.rows(_index(rows)))


class Collection:
    """This gives rows of a Dask array."""

    def __init__(self, array: Any):
        self.array, self.shape = array, array.shape

    def sent(self, rows: Any, client: Any) -> tuple[Callable, Any]:
        """Return what a worker needs to get the rows: a function, and its argument."""
        return _same, client.compute(self.array[_index(rows)])

    def rows(self, rows: Any) -> Any:
        """Compute some rows into memory."""
        return self.array[_index(rows)].compute()


def _same(value: Any) -> Any:
    return value


def _index(rows: Any) -> Any:
    """Return what names rows in an array: a slice for a range of them."""
    return slice(rows.start, rows.stop) if isinstance(rows, range) else rows


def source(X: Any) -> Any:
    """Find out how rows of a matrix are got."""
    if is_dask(X):
        X = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
        found: Any = Collection(X)
    else:
        opened = readers.opened_array(X, "X")
        found = Local(opened, opened().shape)
    if len(found.shape) != 2 or 0 in found.shape:
        raise ValueError(f"`X` must be a matrix of at least one row and one column, got shape {tuple(found.shape)}.")
    return found


def over_rows(given: Any, task: Callable, calls: Iterable[tuple], client: Any) -> Iterator:
    """Yield task(get, argument, rows, *more) for calls (rows, *more), in threads or on workers, some at a time.

    `get(argument)` reads the rows. Each thread has a single BLAS thread to itself.
    """
    if client is None:
        every = ((task, given.rows, rows, rows, *more) for rows, *more in calls)
        with threads.one_blas_thread():
            yield from threads.ahead(threads.pool().submit, every, 2 * threads.count())
        return

    def submit(rows: Any, *more: Any) -> Any:
        with large_graphs():
            return client.submit(task, *given.sent(rows, client), rows, *more, pure=False)

    with told_of_loss():
        yield from threads.ahead(submit, calls, 2 * len(client.nthreads()))


def checked(get: Callable, argument: Any, rows: Any, distance: str, device: str) -> Any:
    """Read rows, and return them as a matrix on the device; what cannot be measured is refused."""
    X = np.asarray(get(argument))
    matrix = csr.unchecked(X, "X", device)
    bad = ~np.isfinite(X) if X.dtype.kind == "f" else np.zeros(1, bool)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"`X` must be finite, got {X[row, column]} in row {rows[row]}, column {column}.")
    csr.refuse_unfit(matrix, "X", distance, rows)
    return matrix
