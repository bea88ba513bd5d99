"""How firmly samples, clusters and partitions stand behind a consensus, from counts alone.

Monti, Tamayo, Mesirov, Golub: Consensus clustering: a resampling-based method for class discovery and visualization of
gene expression microarray data, Machine Learning, 2003.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import checks, frames
from gpuensemble._array.devices import namespace, on, to_device, to_host
from gpuensemble._array.threads import spans
from gpuensemble._inspection.bootstrap import kept_shares
from gpuensemble._inspection.inputs import Inputs, checked
from gpuensemble.membership import Membership
from gpuensemble.metrics.contingency import Table
from gpuensemble.metrics.ensembles import of_pairs
from gpuensemble.metrics.information import normalised
from gpuensemble.metrics.pairs import adjusted_rand

CELLS = 1 << 22  # of agreements counted in one go


@dataclass(frozen=True)
class Stability:
    """`stability` returns this: tables of samples, clusters and partitions.

    Attributes
    ----------
    samples : DataFrame, a row for each sample
        `cluster`: its cluster; `consensus`: its item consensus with it; `other`: the other cluster with the greatest
        item consensus; `other_consensus`: that; `margin`: `consensus` - `other_consensus`; `kept`: see `n_bootstrap`.
    clusters : DataFrame, a row for each cluster
        `size`; `consensus`: the mean S over the pairs inside; `nearest`: the other cluster with the greatest mean S
        over the pairs between; `nearest_consensus`: that.
    partitions : DataFrame, a row for each partition
        `nmi` and `ari` with the consensus, `mean_nmi`: the mean with the other partitions, over the samples that both
        saw; `n_clusters`; `holes`: the share of samples without a label.
    item_consensus : DataFrame, n x K
        The mean S of each sample with the samples of each cluster, but itself.
    """

    samples: Any
    clusters: Any
    partitions: Any
    item_consensus: Any


def stability(
    labels: Any,
    consensus: Any,
    *,
    n_bootstrap: int = 0,
    method: Any = None,
    random_state: Any = None,
    device: str = "auto",
) -> Stability:
    """Tell how firmly each sample, each cluster and each partition stands behind a consensus; it is linear in n.

    S of two samples is the share of the partitions that put them together, among those that saw both. The item
    consensus of sample i with cluster k is the mean of S over the samples j of k, but i. In a table with holes pairs
    weigh by the number of partitions that saw both: it is (partitions and samples j that agree with i) / (partitions
    and samples j that were seen with i), which is the mean of S where there are no holes. Means over the pairs inside a
    cluster, or between two, are made alike. All are quotients of exact counts, and need no n x n matrix.

    Parameters
    ----------
    labels : n x r table
        The base partitions, as in `Membership.from_labels`; NaN, None and -1 are holes.
    consensus : vector of n labels, or fitted estimator
        The cluster of each sample; an estimator stands for its `labels_`.
    n_bootstrap : int
        Find the consensus of so many tables of r partitions drawn with replacement. `samples` then has a column `kept`:
        the share of them in which the sample is, after `align`, in its cluster of `consensus`; tables in which the
        sample has no label do not count.
    method : estimator, or name of a method, optional
        What finds these consensuses; by default `consensus` itself if it is an estimator, else `ClusterWalk`. A name is
        one of `gpuensemble fit --method`; it finds as many clusters as there are.
    random_state : None, int or numpy.random.Generator
        The seed of the draws, and of the method.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to count.

    Returns
    -------
    Stability
        With the DataFrames `samples`, `clusters`, `partitions` and `item_consensus`, which have the index and the names
        of the columns of `labels`, if it is a frame, and the names of the clusters in `consensus`.

    Notes
    -----
    What is a mean over no pairs is NaN: the consensus of a sample or cluster that stands alone in its cluster, or was
    never seen with another sample of it. If there is no other cluster with a number, `other` and `nearest` are None.
    Memory is one n x K table of floats.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> found = ge.stability([[0, "a"], [0, "a"], [1, "a"], [1, "b"], [1, "b"]], ["x", "x", "y", "y", "y"])
    >>> found.samples["consensus"].round(2).tolist()
    [1.0, 1.0, 0.5, 0.75, 0.75]
    >>> found.samples["margin"].round(2).tolist()
    [0.83, 0.83, 0.0, 0.75, 0.75]
    >>> found.clusters["consensus"].round(2).to_dict()
    {'x': 1.0, 'y': 0.67}
    """
    labels = frames.table(labels)
    inputs = checked(labels, consensus, "consensus", device)
    n_bootstrap = checks.integer(n_bootstrap, "n_bootstrap", 0)
    _refuse_many(inputs.m, len(inputs.names))
    with on(inputs.m.device):
        counts = counted(inputs)
        item, samples = _samples(inputs, counts)
        if n_bootstrap:
            method = consensus if method is None and hasattr(consensus, "labels_") else method
            samples["kept"] = kept_shares(inputs, n_bootstrap, method, random_state)
        tables = (samples, of_clusters(inputs, counts), _partitions(inputs, counts))
    return _named(labels, inputs.names, item, *tables)


def own_consensus(inputs: Inputs) -> np.ndarray:
    """Return the item consensus of each sample with its own cluster; NaN where it makes no pair there."""
    _refuse_many(inputs.m, len(inputs.names))
    with on(inputs.m.device):
        _, samples = _samples(inputs, counted(inputs))
    return samples["consensus"]


class Counts(NamedTuple):
    """This counts the samples of each cluster of the consensus, on the host."""

    together: np.ndarray  # in each cluster of the table, C x K
    seen: np.ndarray  # with a label in each partition, r x K


def counted(inputs: Inputs) -> Counts:
    """Count the samples that clusters of the table and of the consensus share."""
    together = to_host(inputs.m.count(inputs.clusters, len(inputs.names)))
    return Counts(together, np.add.reduceat(together, _starts(inputs.m), axis=0))


def _refuse_many(m: Membership, n_clusters: int) -> None:
    """Raise if the item consensus does not fit into memory."""
    needed = 8 * n_clusters * (len(m.codes) + 2 * m.n_columns)
    what = f"The item consensus of {len(m.codes)} samples with {n_clusters} clusters"
    checks.fits(needed, what, "cpu", "use fewer clusters")


def _samples(inputs: Inputs, counts: Counts) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the item consensus of each sample with each cluster, and the columns of the table of samples."""
    m, names = inputs.m, inputs.names
    tables = [to_device(table, m.device) for table in (counts.together, counts.seen.repeat(m.widths, axis=0))]
    clusters = to_host(inputs.clusters)
    item = np.empty((len(clusters), len(names)))
    consensus, greatest, other = np.empty(len(clusters)), np.empty(len(clusters)), np.empty(len(clusters), "int64")
    for rows in spans(len(clusters), max(1, CELLS // len(names))):
        own = (np.arange(rows.stop - rows.start), clusters[rows])
        block = item[rows] = _item_consensus(m.take(rows), own, tables)
        consensus[rows], block[own] = block[own], np.nan
        other[rows], greatest[rows] = _greatest(block)
    return item, {
        "cluster": names[clusters],
        "consensus": consensus,
        "other": _names_of(other, names),
        "other_consensus": greatest,
        "margin": consensus - greatest,
    }


def _item_consensus(m: Membership, own: tuple, tables: list) -> np.ndarray:
    """Return the item consensus of some samples: agreements over chances to agree, in exact integers."""
    agree, seen = (to_host(m.gather_sum(table)) for table in tables)
    partitions = to_host((m.codes != namespace(m.codes).asarray(-1).astype(m.codes.dtype)).sum(axis=1))
    for pairs in (agree, seen):  # a sample makes no pair with itself
        pairs[own] -= partitions
    return quotient(agree, seen)


def of_clusters(inputs: Inputs, counts: Counts) -> dict[str, Any]:
    """Return the columns of the table of clusters; pairs of samples are counted from both sides."""
    agree, seen = (table.T @ table for table in (part.astype("float64") for part in counts))
    own = np.diag_indices(len(agree))
    for pairs in (agree, seen):
        pairs[own] -= counts.seen.sum(axis=0)
    means = quotient(agree, seen)
    consensus = means[own]
    means[own] = np.nan
    nearest, greatest = _greatest(means)
    return {
        "size": np.bincount(to_host(inputs.clusters)),
        "consensus": consensus,
        "nearest": _names_of(nearest, inputs.names),
        "nearest_consensus": greatest,
    }


def _partitions(inputs: Inputs, counts: Counts) -> dict[str, Any]:
    """Return the columns of the table of partitions."""
    m = inputs.m
    tables = [Table.of_dense(part).without_empty() for part in np.split(counts.together, _starts(m)[1:])]
    others = of_pairs(m, normalised)
    np.fill_diagonal(others, np.nan)
    known = ~np.isnan(others)
    return {
        "nmi": [normalised(table) for table in tables],
        "ari": [adjusted_rand(table) for table in tables],
        "mean_nmi": quotient(np.where(known, others, 0).sum(axis=1), known.sum(axis=1)),
        "n_clusters": m.widths,
        "holes": 1 - counts.seen.sum(axis=1) / len(m.codes),
    }


def _starts(m: Membership) -> np.ndarray:
    return np.cumsum(m.widths) - m.widths


def quotient(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return part / whole, NaN where there is nothing to have a part of."""
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def _greatest(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place and the value of the greatest number in each row; -1 and NaN where there is none."""
    place = np.where(np.isnan(table), -1, table).argmax(axis=1)
    value = table[np.arange(len(table)), place]
    return np.where(np.isnan(value), -1, place), value


def _names_of(places: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Return the names of clusters, None for -1."""
    found = names[places]
    if (places < 0).any():
        found = found.astype(object)
        found[places < 0] = None
    return found


def _named(labels: Any, names: np.ndarray, item: np.ndarray, samples: dict, clusters: dict, partitions: dict) -> Any:
    """Make DataFrames with the caller's names of samples, clusters and partitions."""
    import pandas

    named = pandas.Index(names, name="cluster", tupleize_cols=False)
    index, columns = (labels.index, labels.columns) if hasattr(labels, "iloc") else (None, None)
    return Stability(
        pandas.DataFrame(samples, index),
        pandas.DataFrame(clusters, named),
        pandas.DataFrame(partitions, columns),
        pandas.DataFrame(item, index, named),
    )
