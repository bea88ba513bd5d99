"""Row segmentation goes from features on disk or on a cluster to base partitions of random rows and their consensus.

See section 6 of the paper on SEC: no base partition needs all rows, so none needs all of the memory.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpuensemble._array import checks, csr, random, threads
from gpuensemble._array.devices import choose_device, on, to_host
from gpuensemble._array.messages import shown
from gpuensemble._array.progress import with_bar
from gpuensemble._kmeans.features.distances import DISTANCES, prepare
from gpuensemble._kmeans.features.lloyd import kmeans
from gpuensemble._tables import outputs, readers
from gpuensemble._tables.files import refuse_input, whole_file
from gpuensemble._tables.on_dask import current_client, is_dask, large_graphs, told_of_loss
from gpuensemble.generate.kmeans import enough


def consensus(
    X: Any,
    n_clusters: int,
    labels: Any,
    *,
    n_partitions: int = 100,
    row_ratio: float = 0.2,
    base_clusters: int | None = None,
    distance: str = "sqeuclidean",
    random_state: Any = None,
    device: str = "auto",
    client: Any = None,
    out: Any = None,
    checkpoint: Any = None,
    resume: bool = False,
    verbose: int = 0,
    **settings: Any,
) -> Any:
    """Cluster features that need not fit into memory.

    k-means clusters random segments of rows, and `SEC` finds the consensus of these partitions.

    Parameters
    ----------
    X : n x d matrix of numbers
        The path of an `.npy` file or a Zarr array, a `numpy.memmap`, a Dask array, or an array in memory. A segment is
        read at a time for each thread or worker.
    n_clusters : int
        The number of clusters of the consensus.
    labels : path of an .npy file
        Where the base partitions go, whole or not at all: n x r integers, column after column, -1 for a hole.
    n_partitions, row_ratio, distance
        As in `generate.row_segments`, which finds the same partitions of an array in memory.
    base_clusters : int, optional
        The number of clusters of each base partition; `n_clusters` by default.
    random_state : None, int or numpy.random.Generator
        The seed of all draws.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to work.
    client : dask.distributed.Client, optional
        Segments are clustered on its workers, which open a file by its path, and so is their consensus found. A Dask
        array finds the current client by itself.
    out, checkpoint, resume, verbose
        As in `SEC`. With `resume`, base partitions that are there are not made again. The first of them is, to see that
        they are those of this X and these parameters; without a seed only their shape tells.
    **settings
        Further parameters of `SEC`.

    Returns
    -------
    SEC
        The fitted estimator of the consensus.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from gpuensemble import segments
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0, 0], [9, 9]], 100, axis=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "labels.npy")
    ...     fitted = segments.consensus(X, 2, path, n_partitions=10, random_state=0, device="cpu")
    >>> len(set(fitted.labels_[:100])), len(set(fitted.labels_))
    (1, 2)
    """
    from gpuensemble.estimators.sec import SEC

    client = current_client(client) if is_dask(X) else client
    of_partitions, of_consensus = random.sequence(random_state).spawn(2)
    settings |= {"device": device, "client": client, "out": out, "checkpoint": checkpoint, "resume": resume}
    estimator = SEC(n_clusters, random_state=np.random.default_rng(of_consensus), verbose=verbose, **settings)
    path = _checked_path(labels)
    outputs.check(out, X)
    for name, output in (("labels", path), ("checkpoint", checkpoint)):
        refuse_input(output, name, X)
    base_clusters = n_clusters if base_clusters is None else base_clusters
    how = (n_partitions, row_ratio, distance, of_partitions, device, client)
    if resume and path.exists():
        _check_resumed(path, X, base_clusters, *how, seeded=random_state is not None)
    else:
        write(X, base_clusters, path, *how, verbose)
    return estimator.fit(path)


def write(
    X: Any,
    n_clusters: int,
    path: Path,
    n_partitions: int,
    row_ratio: float,
    distance: str,
    random_state: Any,
    device: str,
    client: Any,
    verbose: int,
) -> None:
    """Write the base partitions of random segments of rows into a file.

    Parameters
    ----------
    X : n x d matrix of numbers
        As in `consensus`.
    n_clusters : int
        The number of clusters of each base partition.
    path : Path
        The .npy file that the partitions go to.
    n_partitions, row_ratio, distance, random_state, device, client, verbose
        As in `consensus`.
    """
    shape, dtype, columns = _columns(X, n_clusters, n_partitions, row_ratio, distance, random_state, device, client)
    with whole_file(str(path)) as file:
        header = {"descr": np.dtype(dtype).str, "fortran_order": True, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for column in with_bar(columns, "base partitions", verbose, n_partitions, "partition"):
            file.write(column.tobytes())


def _columns(
    X: Any,
    n_clusters: int,
    n_partitions: int,
    row_ratio: float,
    distance: str,
    random_state: Any,
    device: str,
    client: Any,
) -> tuple[tuple[int, int], str, Iterator[Any]]:
    """Return the shape and type of the table of base partitions, and its columns as they are asked for."""
    checks.choice(distance, "distance", DISTANCES)
    source = _source(X)
    n = source.shape[0]
    size = math.ceil(checks.ratio(row_ratio, "row_ratio") * n)
    n_clusters = checks.integer(n_clusters, "n_clusters", 1, size, "rows of a segment")
    n_partitions = enough(n_partitions, n, size)
    dtype = next(name for name in ("int8", "int16", "int32") if n_clusters - 1 <= np.iinfo(name).max)
    hands, draws = random.dealt(n, size, n_partitions, random_state)
    calls = ((rows, n_clusters, distance, device, rng) for rows, rng in zip(hands, draws, strict=True))

    def columns() -> Iterator[Any]:
        for rows, inside in _in_threads(source, calls) if client is None else _on_workers(source, calls, client):
            column = np.full(n, -1, dtype)
            column[rows] = inside
            yield column

    return (n, n_partitions), dtype, columns()


def _checked_path(labels: Any) -> Path:
    if not isinstance(labels, str | Path) or Path(labels).suffix != ".npy":
        raise ValueError(f"`labels` must be the path of an .npy file, got {shown(labels)}.")
    return Path(labels)


def _check_resumed(path: Path, X: Any, n_clusters: int, n_partitions: int, *how: Any, seeded: bool) -> None:
    """Raise if the base partitions in a file are not those that would be made: another shape, or another first one."""
    (n, _), _, columns = _columns(X, n_clusters, n_partitions, *how)
    found = readers.opened_array(path, "labels")()
    if found.shape != (n, n_partitions):
        rule = f"of {n} rows and {n_partitions} partitions"
        raise ValueError(f"`labels` must be {rule} to resume from, got shape {found.shape} in {str(path)!r}.")
    if seeded and not np.array_equal(next(columns), found[:, 0]):
        rule = "of the same features and parameters to resume from"
        raise ValueError(f"`labels` must be {rule}, got others in {str(path)!r}.")


class _Local:
    """This gives rows of a matrix that any process can open, or that goes with the call."""

    def __init__(self, opened: readers.Opened, shape: tuple[int, ...]):
        self.opened, self.shape = opened, shape

    def sent(self, rows: Any, client: Any) -> tuple[Callable, Any]:
        """Return what a worker needs to get the rows: a function, and its argument."""
        if isinstance(self.opened, readers.Held):
            return _same, self.opened()[rows]
        return self.rows, rows

    def rows(self, rows: Any) -> Any:
        """Read some rows into memory."""
        return np.asarray(self.opened.rows(rows))


class _Collection:
    """This gives rows of a Dask array."""

    def __init__(self, array: Any):
        self.array, self.shape = array, array.shape

    def sent(self, rows: Any, client: Any) -> tuple[Callable, Any]:
        """Return what a worker needs to get the rows: a function, and its argument."""
        return _same, client.compute(self.array[rows])

    def rows(self, rows: Any) -> Any:
        """Compute some rows into memory."""
        return self.array[rows].compute()


def _same(value: Any) -> Any:
    return value


def _source(X: Any) -> Any:
    if is_dask(X):
        X = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
        found: Any = _Collection(X)
    else:
        opened = readers.opened_array(X, "X")
        found = _Local(opened, opened().shape)
    if len(found.shape) != 2 or 0 in found.shape:
        raise ValueError(f"`X` must be a matrix of at least one row and one column, got shape {tuple(found.shape)}.")
    return found


def _in_threads(source: Any, calls: Iterable[tuple]) -> Iterator:
    """Yield rows and labels of each segment; each has a single BLAS thread to itself."""
    every = ((_clustered, source.rows, rows, rows, *more) for rows, *more in calls)
    with threads.one_blas_thread():
        yield from threads.ahead(threads.pool().submit, every, 2 * threads.count())


def _on_workers(source: Any, calls: Iterable[tuple], client: Any) -> Iterator:
    def submit(rows: Any, *more: Any) -> Any:
        with large_graphs():
            return client.submit(_clustered, *source.sent(rows, client), rows, *more, pure=False)

    with told_of_loss():
        yield from threads.ahead(submit, calls, 2 * len(client.nthreads()))


def _clustered(get: Callable, argument: Any, rows: Any, n_clusters: int, distance: str, device: str, rng: Any) -> Any:
    """Cluster some rows by k-means; return them and their labels, on the host."""
    X = np.asarray(get(argument))
    device = choose_device(device)
    with on(device), threads.one_blas_thread():
        matrix = csr.unchecked(X, "X", device)
        bad = ~np.isfinite(X) if X.dtype.kind == "f" else np.zeros(1, bool)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(f"`X` must be finite, got {X[row, column]} in row {rows[row]}, column {column}.")
        csr.refuse_unfit(matrix, "X", distance, rows)
        return rows, to_host(kmeans(prepare(matrix, distance), n_clusters, rng).labels)
