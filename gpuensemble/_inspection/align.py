"""Partitions get the cluster names of a reference partition."""

import itertools
import math
import numbers
from typing import Any

import numpy as np

from gpuensemble._array import frames
from gpuensemble._array.devices import Array, device_of, namespace, on, to_device
from gpuensemble._array.messages import shown
from gpuensemble._inspection.inputs import checked
from gpuensemble.membership import Membership
from gpuensemble.metrics.contingency import Pair, Table, counted
from gpuensemble.metrics.matching import partners


def align(labels: Any, reference: Any, *, device: str = "auto") -> Any:
    """Rename the clusters of each partition of a table after those of a reference that they share most samples with.

    Clusters and names are matched one to one, so that most samples of the partition get the name that the reference
    gives them (the Hungarian method). A cluster that is left over, or shares no sample with its match, gets a new name:
    the whole numbers after the greatest of the reference, or "new 1", "new 2" ... if its names are no numbers, for the
    largest such cluster first. A hole stays what it is.

    Parameters
    ----------
    labels : n x r table
        The partitions, as in `Membership.from_labels`; NaN, None and -1 are holes.
    reference : vector of n labels, or fitted estimator
        The partition whose names are given, without holes; an estimator stands for its `labels_`.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to count.

    Returns
    -------
    n x r table
        A DataFrame with the same index and columns, a list of lists, or an array in the caller's library, as `labels`
        is; a DataFrame of pandas for frames of other libraries and dicts, an array of NumPy for other arrays. Its
        labels are those of the reference; an array of objects where these, or its holes, are no numbers.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> ge.align([[5, "x"], [5, "x"], [2, "y"], [2, None], [7, "y"]], [0, 0, 1, 1, 1])
    [[0, 0], [0, 0], [1, 1], [1, None], [2, 1]]
    """
    labels = frames.table(labels)
    m, clusters, names = checked(labels, reference, "reference", device)
    with on(m.device):
        codes = aligned(m, clusters, len(names))
        names = _more_names(names, int(codes.max()) + 1 - len(names))
    if device_of(labels) != "cpu" and names.dtype.kind == "O":
        raise TypeError(f"`reference` must hold numbers, as `labels` is a CuPy array, got {shown(names[0])}.")
    return _renamed(labels, to_device(codes, device_of(labels)), names)


def aligned(m: Membership, reference: Array, n_names: int) -> Array:
    """Return for each label the number of its cluster's match in the reference, or from `n_names` on; -1 for a hole."""
    xp = namespace(m.codes)
    hole = xp.asarray(-1).astype(m.codes.dtype)
    found = xp.full(m.codes.shape, -1, "int32")
    for i, width in enumerate(m.widths.tolist()):
        rows = xp.nonzero(m.codes[:, i] != hole)[0]
        codes = m.codes[rows, i]
        numbers_of = _numbers(counted(Pair(codes, reference[rows], (width, n_names))))
        found[rows, i] = to_device(numbers_of, m.device)[codes]
    return found


def _numbers(table: Table) -> np.ndarray:
    """Return the column that each row is matched with; rows without one are numbered on, the largest first."""
    found = partners(table).astype("int32")
    alone = np.flatnonzero(found < 0)
    largest_first = np.argsort(-table.sizes_y[alone], kind="stable")
    found[alone[largest_first]] = table.shape[1] + np.arange(len(alone))
    return found


def _more_names(names: np.ndarray, n_new: int) -> np.ndarray:
    """Return the names, and new ones."""
    known = names.tolist()
    if all(isinstance(name, numbers.Real) and math.isfinite(name) for name in known):
        last = int(max(known))
        every = [*known, *range(last + 1, last + 1 + n_new)]
        found = np.array(every)
        return found if found.tolist() == every else np.array(every, object)  # no type of numbers may hold them all
    new = (name for i in itertools.count(1) if (name := f"new {i}") not in known)
    every = [*known, *itertools.islice(new, max(0, n_new))]
    return np.fromiter(every, object, len(every))


def _renamed(labels: Any, codes: Array, names: np.ndarray) -> Any:
    """Put names in the place of codes, in the caller's kind of table."""
    if isinstance(labels, list | tuple):
        known = names.tolist()
        pairs = (zip(row, of_row, strict=True) for row, of_row in zip(labels, codes.tolist(), strict=True))
        return [[known[code] if code >= 0 else old for old, code in row] for row in pairs]
    if not hasattr(labels, "iloc"):
        with on(device_of(labels)):
            return _renamed_array(labels, codes, to_device(names, device_of(labels)))
    import pandas

    columns = (_renamed_array(labels.iloc[:, i].to_numpy(), codes[:, i], names) for i in range(codes.shape[1]))
    return pandas.DataFrame(dict(enumerate(columns)), labels.index).set_axis(labels.columns, axis=1)


def _renamed_array(labels: Array, codes: Array, names: Array) -> Array:
    """Put names in the place of codes, and leave holes as they are."""
    masked = isinstance(labels, np.ma.MaskedArray)
    old = labels.data if masked else labels
    found, holes = names[codes], codes < 0  # a hole has the last name, for now
    if bool(holes.any()):
        found = found.astype(_common_type(old, names))
        found[holes] = old[holes]
    return np.ma.array(found, mask=np.ma.getmaskarray(labels)) if masked else found


def _common_type(labels: Array, names: Array) -> Any:
    """Return the type that holds names, and what stands for holes."""
    if not (names.dtype.kind in "biuf" and labels.dtype.kind in "biuf"):
        return object
    found = namespace(names).result_type(names, labels)
    if found.kind == "f" and names.dtype.kind in "iu" and int(names.max()) > 2**53:
        rule = "at most 2**53 where `labels` has holes among floats"
        raise ValueError(f"`reference` must be {rule}, got {int(names.max())}.")
    return found
