"""Features on disk or on a cluster become base partitions in a file, and these a consensus; nothing is loaded whole.

Row segmentation is that of section 6 of the paper on SEC: no base partition needs all rows, so none needs all of the
memory. Landmark spectral partitions are made from a sample of rows each, and label all rows in blocks.
"""

from pathlib import Path
from typing import Any

import numpy as np

from gpuensemble._array import checks, random
from gpuensemble._array.messages import shown
from gpuensemble._array.progress import bar
from gpuensemble._tables import outputs, readers
from gpuensemble._tables.files import whole_file
from gpuensemble._tables.on_dask import current_client, is_dask
from gpuensemble.estimators._base.kmeans import check_parameters
from gpuensemble.estimators.sec import SEC
from gpuensemble.segments._partitions import PARTITIONS, Base, Stripes, stripes


def consensus(
    X: Any,
    n_clusters: int,
    labels: Any,
    *,
    partitions: str = "segments",
    n_partitions: int | None = None,
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
) -> SEC:
    """Cluster features that need not fit into memory.

    k-means clusters random segments of rows, or landmark spectral clustering all rows; `SEC` finds the consensus of
    these partitions.

    Parameters
    ----------
    X : n x d matrix of numbers
        The path of an `.npy` file or a Zarr array, a `numpy.memmap`, a Dask array, or an array in memory. A segment is
        read at a time for each thread or worker.
    n_clusters : int
        The number of clusters of the consensus.
    labels : path of an .npy file
        Where the base partitions go, whole or not at all: n x r integers, column after column, -1 for a hole.
    partitions : {"segments", "landmark-spectral"}
        How base partitions are made: as `generate.row_segments` or `generate.landmark_spectral` make them of an array
        in memory. The second is more accurate, and takes longer.
    n_partitions : int, optional
        The number of base partitions, r; by default 100 segments, or 20 landmark spectral partitions.
    row_ratio : float
        The share of the rows in each segment.
    base_clusters : int, optional
        The number of clusters of each segment, or the least of each landmark spectral partition, which has up to 60, or
        twice as many; `n_clusters` by default.
    distance : str
        As in the function of `generate`.
    random_state : None, int or numpy.random.Generator
        The seed of all draws.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to work.
    client : dask.distributed.Client, optional
        Partitions are made on its workers, which open a file by its path, and so is their consensus found. A Dask
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
    client = current_client(client) if is_dask(X) else client
    of_partitions, of_consensus = random.sequence(random_state).spawn(2)
    settings |= {"device": device, "client": client, "out": out, "checkpoint": checkpoint, "resume": resume}
    estimator = SEC(n_clusters, random_state=np.random.default_rng(of_consensus), verbose=verbose, **settings)
    path = _checked_path(labels)
    outputs.check_apart(X, out, labels=path, checkpoint=checks.path(checkpoint, "checkpoint"))
    base = Base(
        checks.choice(partitions, "partitions", tuple(PARTITIONS)),
        n_clusters if base_clusters is None else base_clusters,
        PARTITIONS[partitions] if n_partitions is None else n_partitions,
        row_ratio,
        distance,
        of_partitions,
        device,
        client,
    )
    table = stripes(X, base)
    check_parameters(estimator, *table.shape)
    if resume and path.exists():
        _check_resumed(path, table, seeded=random_state is not None)
    else:
        write(table, path, verbose)
    return estimator.fit(path)


def write(table: Stripes, path: Path, verbose: int = 0) -> None:
    """Write base partitions into a file.

    Parameters
    ----------
    table : Stripes
        The table of base partitions, in parts.
    path : Path
        The .npy file that they go to.
    verbose : int
        1: a progress bar on stderr.
    """
    shape, dtype, parts = table
    with whole_file(str(path)) as file, bar("base partitions", verbose, shape[0] * shape[1], "label") as show:
        header = {"descr": np.dtype(dtype).str, "fortran_order": True, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        begin = file.tell()
        for part in parts:
            for i, column in enumerate(part.labels.T):
                file.seek(begin + ((part.column + i) * shape[0] + part.row) * np.dtype(dtype).itemsize)
                file.write(np.ascontiguousarray(column, dtype).data)
            show(part.labels.size)


def _checked_path(labels: Any) -> Path:
    if not isinstance(labels, str | Path) or Path(labels).suffix != ".npy":
        raise ValueError(f"`labels` must be the path of an .npy file, got {shown(labels)}.")
    return Path(labels)


def _check_resumed(path: Path, table: Stripes, seeded: bool) -> None:
    """Raise if the base partitions in a file are not those that would be made: another shape, or a first part."""
    (n, r), dtype, parts = table
    found = readers.opened_array(path, "labels")()
    if found.shape != (n, r):
        raise ValueError(
            f"`labels` must be of {n} rows and {r} partitions to resume from, got shape {found.shape} in {str(path)!r}."
        )
    if seeded:
        row, column, labels = next(parts)
        there = found[row : row + labels.shape[0], column : column + labels.shape[1]]
        if not np.array_equal(labels.astype(dtype), there):
            rule = "of the same features and parameters to resume from"
            raise ValueError(f"`labels` must be {rule}, got others in {str(path)!r}.")
