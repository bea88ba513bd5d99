"""Holes get the commonest label of their cluster of the consensus."""

from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import frames
from gpuensemble._array.devices import device_of, namespace, on, to_device, to_host
from gpuensemble._inspection.inputs import checked
from gpuensemble.estimators.pce.fill import filled
from gpuensemble.membership import Membership


class Imputed(NamedTuple):
    """`impute` returns this: the table without holes, and how sure its labels are."""

    labels: Any
    confidence: Any


def impute(labels: Any, consensus: Any, *, device: str = "auto") -> Imputed:
    """Fill the holes of a table: each with the label that is commonest, in that partition, in the sample's cluster.

    Of labels that are equally common the least is taken, or the first in the table where they are no numbers. Where no
    sample of a cluster has a label in a partition, nothing is known and its holes stay.

    Parameters
    ----------
    labels : n x r table
        The partitions, as in `Membership.from_labels`; NaN, None and -1 are holes.
    consensus : vector of n labels, or fitted estimator
        The cluster of each sample; an estimator stands for its `labels_`.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to count.

    Returns
    -------
    labels : n x r table
        A copy of `labels`, filled with the caller's own label values, in the same kind of table; a DataFrame of pandas
        for frames of other libraries and dicts, an array of NumPy for other arrays.
    confidence : n x r table
        1 where there was a label, the share of the filled label among the labels of the sample's cluster in that
        partition where there was a hole, NaN where the hole stays. A DataFrame if `labels` is a frame, else an array in
        the caller's library.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> found = ge.impute([[0, "a"], [0, None], [None, "a"], [1, "b"], [2, None]], [0, 0, 0, 1, 1])
    >>> found.labels
    [[0, 'a'], [0, 'a'], [0, 'a'], [1, 'b'], [2, 'b']]
    """
    labels = frames.table(labels)
    m, clusters, names = checked(labels, consensus, "consensus", device)
    with on(m.device):
        counts = to_host(m.count(clusters, len(names)))
        codes, shares = (to_device(table, m.device) for table in _commonest(m, counts))
        xp = namespace(m.codes)
        hole = xp.asarray(-1).astype(m.codes.dtype)
        codes = xp.where(m.codes == hole, codes.astype(m.codes.dtype)[clusters], m.codes)
        confidence = xp.where(m.codes == hole, shares[clusters], 1.0)
        table = filled(labels, m, Membership.from_coded(codes, m.widths, False, m.categories, m.device))
    confidence = to_device(confidence, device_of(labels))
    if not hasattr(labels, "iloc"):
        return Imputed(table, confidence)
    import pandas

    return Imputed(table, pandas.DataFrame(confidence, labels.index, labels.columns))


def _commonest(m: Membership, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the commonest code of each cluster in each partition, -1 where there is none, and its share: K x r."""
    parts = np.split(counts, np.cumsum(m.widths)[:-1])
    codes = np.stack([part.argmax(axis=0) for part in parts], axis=1)
    most = np.stack([part.max(axis=0) for part in parts], axis=1)
    seen = np.stack([part.sum(axis=0) for part in parts], axis=1)
    return np.where(seen, codes, -1), np.divide(most, seen, out=np.full(seen.shape, np.nan), where=seen > 0)
