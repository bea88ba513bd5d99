"""Scores of all pairs of partitions of a table, from contingency tables that are counted in few passes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuensemble._array import checks, frames
from gpuensemble._array.devices import choose_device, device_of, namespace, on, to_device
from gpuensemble._tables import counts
from gpuensemble._tables.blocks import whole
from gpuensemble.membership import Membership
from gpuensemble.metrics.contingency import Pair, Table, counted
from gpuensemble.metrics.elements import similarity
from gpuensemble.metrics.information import adjusted, normalised, variation
from gpuensemble.metrics.pairs import adjusted_rand

SCORES = {
    "nmi": normalised,
    "ami": adjusted,
    "ari": adjusted_rand,
    "vi": variation,
    "element_centric": similarity,
}


def pairwise(labels: Any, score: str = "nmi", *, device: str = "auto") -> Any:
    """Score every partition of a table against every other; it is linear in n.

    Of two partitions only the samples count that both have a label for, as if all others were not there.

    Parameters
    ----------
    labels : n x r table
        The partitions, as in `Membership.from_labels`; NaN, None and -1 are holes.
    score : {"nmi", "ami", "ari", "vi", "element_centric"}
        Which score of this module; "vi" is a distance, all others are similarities.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to count.

    Returns
    -------
    r x r table
        A DataFrame with the names of the columns if `labels` is a frame or dict, else an array in the caller's library;
        NaN for two partitions that have no sample in common.

    Examples
    --------
    >>> from gpuensemble import metrics
    >>> metrics.pairwise([[0, "a", 0], [0, "a", 1], [1, "b", 0], [1, None, 1]], "ari").tolist()
    [[1.0, 1.0, -0.5], [1.0, 1.0, -0.5], [-0.5, -0.5, 1.0]]
    """
    of_table = SCORES[checks.choice(score, "score", tuple(SCORES))]
    labels = frames.table(labels)
    device = choose_device(device, labels)
    with on(device):
        m = Membership.from_labels(labels, device)
        found = of_pairs(m, of_table)
    if not hasattr(labels, "columns"):
        return to_device(found, device_of(labels))
    import pandas

    return pandas.DataFrame(found, labels.columns, labels.columns)


def of_pairs(m: Membership, of_table: Any) -> np.ndarray:
    """Return a symmetric function of the contingency table of each pair of partitions: r x r, on the host."""
    found = np.full((len(m.widths),) * 2, np.nan)
    few = m.n_columns * int(m.widths.max()) <= counts.WHOLE
    for i, j, table in _counted_at_once(m) if few else _counted_one_by_one(m):
        if len(table.counts):
            found[i, j] = found[j, i] = of_table(table.without_empty())
    return found


def _counted_at_once(m: Membership) -> Iterator[tuple[int, int, Table]]:
    """Give the tables of partitions i <= j, counted in as few passes as there is room for."""
    ends = np.cumsum(m.widths)
    starts, j = ends - m.widths, 0
    for columns in counts.contingencies(whole(m)):
        first = starts[j]
        while j < len(ends) and ends[j] - first <= columns.shape[1]:
            of_j = columns[:, starts[j] - first : ends[j] - first]
            yield from ((i, j, Table.of_dense(of_j[starts[i] : ends[i]])) for i in range(j + 1))
            j += 1


def _counted_one_by_one(m: Membership) -> Iterator[tuple[int, int, Table]]:
    """Do the same where partitions have so many clusters that most cells are empty."""
    seen = m.codes != namespace(m.codes).asarray(-1).astype(m.codes.dtype)
    for j, width in enumerate(m.widths.tolist()):
        for i in range(j + 1):
            both = seen[:, i] & seen[:, j]
            if bool(both.any()):
                yield i, j, counted(Pair(m.codes[both, i], m.codes[both, j], (int(m.widths[i]), width)))
