"""What a report shows, as data: the choice of K, the consensus, its stability and its tree."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from gpuensemble._array import checks, frames
from gpuensemble._array.devices import choose_device, to_host
from gpuensemble._inspection.bootstrap import maker
from gpuensemble._inspection.choose import SAMPLE_ROWS, Choice, choose_k, makes_partitions, numbers
from gpuensemble._inspection.stability import Stability, stability
from gpuensemble._inspection.tree import Tree, consensus_tree

TABLES = ("samples", "clusters", "partitions", "item_consensus", "numbers", "labels_of_numbers")  # of which are files
N_BOOTSTRAP = 10  # consensuses of drawn partitions


@dataclass(frozen=True)
class Findings:
    """`report` returns this: what the report shows, as data.

    Attributes
    ----------
    partitions : DataFrame, n x r
        The base partitions.
    labels : Series of n
        The consensus.
    choice : Choice or None
        What `choose_k` found, if it chose the number of clusters.
    stability : Stability
        How firmly samples, clusters and partitions stand behind the consensus. `samples` has the column `kept`, of 10
        draws of partitions, up to 20,000 samples.
    tree : Tree
        The tree over the clusters of the consensus.
    confidence : array or None
        `confidence_` of the consensus, if it has one.
    settings : dict
        The method and its parameters.
    """

    partitions: Any
    labels: Any
    choice: Choice | None
    stability: Stability
    tree: Tree
    confidence: Any
    settings: dict[str, Any]


def found_in(data: Any, n_clusters: Any, consensus: Any, seed: int, device: str, verbose: int) -> Findings:
    """Choose the number of clusters if there are several, find the consensus, and look at it."""
    data = frames.features(data) if makes_partitions(consensus) else frames.table(data)
    if makes_partitions(consensus):
        given = {"n_clusters": n_clusters, "random_state": seed, "device": device, "verbose": verbose}
        index = data.index if hasattr(data, "iloc") else None
        return of_features(clone(consensus).set_params(**given).fit(data), index, seed)
    make, choice, k, own = maker(consensus, "consensus", choose_device(device, data)), None, n_clusters, seed
    if isinstance(n_clusters, range | list | tuple):
        ks = numbers(n_clusters, "n_clusters", checks.n_rows(data))
        common: dict[str, Any] = {"random_state": seed, "device": device, "verbose": verbose}
        choice = choose_k(data, ks, consensus=consensus, n_bootstrap=N_BOOTSTRAP, **common)
        k, own = choice.chosen, choice.seed
        choice.warn(3)
    fitted = make(k, own).fit(data)
    frame = data if hasattr(data, "iloc") else _frame(data)
    return _looked_at(frame, fitted, choice, _parameters(fitted), seed)


def of_features(fitted: Any, index: Any, seed: int) -> Findings:
    """Look at a `ConsensusClustering` that was fitted to features of samples with these names."""
    base = _frame(fitted.base_labels_, index)
    settings = {f"features.{name}": value for name, value in fitted.get_params(deep=False).items()}
    return _looked_at(base, fitted.consensus_, fitted.choice_, settings | _parameters(fitted.consensus_), seed)


def _looked_at(frame: Any, fitted: Any, choice: Choice | None, settings: dict, seed: int) -> Findings:
    import pandas

    labels = pandas.Series(to_host(fitted.labels_), frame.index, name="label")
    often = N_BOOTSTRAP if len(frame) <= SAMPLE_ROWS else 0
    found = stability(frame, labels, n_bootstrap=often, method=fitted, random_state=seed, device=fitted.device_)
    tree = consensus_tree(frame, labels, device=fitted.device_)
    sure = getattr(fitted, "confidence_", None)
    return Findings(frame, labels, choice, found, tree, None if sure is None else to_host(sure), settings)


def _parameters(fitted: Any) -> dict[str, Any]:
    return {"consensus": type(fitted).__name__} | fitted.get_params(deep=False)


def _frame(labels: Any, index: Any = None) -> Any:
    """Return a table of labels whose columns are called p0, p1, .. in a DataFrame."""
    import pandas

    table = pandas.DataFrame(to_host(labels) if not isinstance(labels, list) else labels, index)
    return table.set_axis([f"p{i}" for i in range(table.shape[1])], axis=1)


def tables_of(found: Findings) -> dict[str, Any]:
    """Return everything that the report shows in part, in full: DataFrames by the name of their file."""
    tables = {
        "samples": _with_ids(found.stability.samples, found),
        "clusters": found.stability.clusters,
        "partitions": found.stability.partitions.rename_axis("partition"),
        "item_consensus": _with_ids(found.stability.item_consensus, found),
    }
    if found.choice is not None:
        tables["numbers"] = found.choice.table
        tables["labels_of_numbers"] = _with_ids(found.choice.labels, found)
    return tables


def _with_ids(table: Any, found: Findings) -> Any:
    """Return a table whose index is called as the samples are, or `id` if a column is called so."""
    name = found.labels.index.name or "sample"
    return table.rename_axis("id" if name in table.columns else name)


def least_sure(found: Findings, most: int) -> Any:
    """Return the samples with the least margin between their own and the next cluster, the least sure first."""
    samples = found.stability.samples
    order = np.argsort(samples["margin"].to_numpy(), kind="stable")  # NaN, of samples alone, comes last
    return samples.iloc[order[:most]]
