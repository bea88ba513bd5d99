"""Pictures of how firmly samples and clusters stand behind a consensus; most are of what `ge.stability` returns."""

from typing import Any

import numpy as np

from gpuensemble._array.devices import to_host
from gpuensemble._inspection.inputs import checked
from gpuensemble._inspection.stability import own_consensus
from gpuensemble.plot._common import (
    FEW,
    OVER_BAND,
    STYLES,
    axes,
    band,
    beside,
    colours,
    described,
    of_clusters,
    shown_of,
    thinned,
)

MOST = 1000  # samples that have a bar each
MOST_LETTERS = 40  # of names that stand side by side


def stability(labels: Any, consensus: Any, *, ax: Any = None, device: str = "auto") -> tuple[Any, Any]:
    """Draw how firmly each sample belongs to its cluster: curves of the sorted samples, one for each cluster.

    The stability of a sample is its item consensus with its own cluster, as in `ge.stability`. A sample that is alone
    in its cluster has none, and is not drawn.

    Parameters
    ----------
    labels : n x r table
        The base partitions, as in `Membership.from_labels`.
    consensus : vector of n labels, or fitted estimator
        The cluster of each sample; an estimator stands for its `labels_`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to count.

    Returns
    -------
    ax : matplotlib Axes
    data : list of (name of the cluster, array)
        The values of each curve, greatest first.
    """
    inputs = checked(labels, consensus, "consensus", device)
    clusters, values = to_host(inputs.clusters), own_consensus(inputs)
    ax, k = axes(ax, "stability"), len(inputs.names)
    data = [(name, np.sort(values[clusters == i])[::-1]) for i, name in enumerate(inputs.names.tolist())]
    data = [(name, some[~np.isnan(some)]) for name, some in data]
    for i, (colour, (_, some)) in enumerate(zip(colours(k), data, strict=False)):
        share = np.linspace(0, 100, len(some))
        ax.plot(share, some, STYLES[i % len(STYLES)], color=colour, marker="." * (k > FEW))
    ax.set(xlim=(0, 100), ylim=(0, 1.02))
    caption = "samples of the cluster, most stable first, per cent"
    described(ax, f"Stability of {len(values):,} samples", caption, "item consensus, own cluster")
    if k <= FEW:
        sizes = np.bincount(clusters)
        named = [f"{name} ({size:,})" for name, size in zip(inputs.names.tolist(), sizes, strict=True)]
        beside(ax, ax.get_lines()[-k:], named, "cluster (samples)")
    return ax, data


def item_consensus(found: Any, *, ax: Any = None) -> tuple[Any, Any]:
    """Draw a bar for each sample: its item consensus with its own cluster, and on top of it those with the others.

    A sample whose bar has one colour is only ever found with its cluster. Samples are sorted by cluster, which a band
    over the picture shows, then by the item consensus with it; beyond 1000, as many are drawn evenly from each cluster.

    Parameters
    ----------
    found : Stability
        What `ge.stability` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    data : DataFrame
        The item consensus of each sample that is drawn with each cluster, in the order of the picture; NaN is not
        drawn.
    """
    clusters, names, rows = _sorted(found, "consensus")
    data = found.item_consensus.iloc[rows]
    values, own = np.nan_to_num(data.to_numpy()), clusters[:, None] == np.arange(len(names))
    ax, drawn = axes(ax, "item_consensus", (7.2, 4.0)), of_clusters(len(names))
    height = np.zeros(len(rows))
    for part in (np.where(own, values, 0), np.where(own, 0, values)):
        for k, colour in enumerate(drawn):
            _fill(ax, height, height + part[:, k], colour)
            height = height + part[:, k]
    ax.set_ylim(0, max(1.0, 1.02 * height.max()))
    _by_cluster(ax, clusters, names)
    described(ax, "Item consensus", _caption(rows, found), "own cluster, then others", OVER_BAND)
    return ax, data


def silhouette(found: Any, *, ax: Any = None) -> tuple[Any, Any]:
    """Draw a bar for each sample: its item consensus with its own cluster minus the greatest with another one.

    Below 0 are samples that the partitions put rather into another cluster. Samples are sorted by cluster, which a band
    over the picture shows, then by margin; beyond 1000, as many are drawn evenly from each cluster.

    Parameters
    ----------
    found : Stability
        What `ge.stability` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    data : Series
        The margin of each sample that is drawn, in the order of the picture; NaN, of a sample alone in its cluster or
        without another one, is not drawn.
    """
    clusters, names, rows = _sorted(found, "margin")
    data = found.samples["margin"].iloc[rows]
    ax, values = axes(ax, "silhouette", (7.2, 4.0)), np.nan_to_num(data.to_numpy())
    for k, colour in enumerate(of_clusters(len(names))):
        _fill(ax, np.zeros(len(rows)), np.where(clusters == k, values, 0), colour)
    mean = float(found.samples["margin"].mean())
    ax.axhline(0, color="black", linewidth=0.8)
    ax.axhline(mean, color="black", linestyle="--", linewidth=1)  # of NaN there is no line
    ax.set_ylim(min(-0.05, 1.05 * values.min()), 1.02)
    _by_cluster(ax, clusters, names)
    dashed = "" if np.isnan(mean) else f"; dashed: the mean of all, {mean:.2f}"
    described(ax, "Margins of item consensus", _caption(rows, found) + dashed, "own - best other", OVER_BAND)
    return ax, data


def cluster_consensus(found: Any, *, ax: Any = None) -> tuple[Any, Any]:
    """Draw a bar for each cluster, its consensus, and a mark at its mean consensus with the nearest other cluster.

    A cluster stands by itself where the mark is far below the end of its bar.

    Parameters
    ----------
    found : Stability
        What `ge.stability` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    data : DataFrame
        `consensus` and `nearest_consensus` of each cluster; NaN is not drawn.
    """
    data = found.clusters[["consensus", "nearest_consensus"]]
    ax, places = axes(ax, "cluster_consensus", (6.4, 3.6)), np.arange(len(data))
    ax.bar(places, data["consensus"], color=colours(3)[1], width=0.8)
    ax.plot(places, data["nearest_consensus"], "_", color="black", markersize=9, markeredgewidth=2)
    names = [str(name) for name in data.index]
    many = sum(len(name) + 1 for name in names) > MOST_LETTERS
    ax.set_xticks(places, names, fontsize=6 if many else 8, rotation=90 if many else 0, parse_math=False)
    ax.set_ylim(0, 1.02)
    caption = "cluster; bar: mean over the pairs inside, mark: over those with the nearest cluster"
    described(ax, "Cluster consensus", caption, "consensus")
    return ax, data


def _sorted(found: Any, by: str) -> tuple[np.ndarray, list, np.ndarray]:
    """Return for the samples to draw: the clusters as codes, the names of these, and the rows; greatest first."""
    names = list(found.clusters.index)
    code = {name: i for i, name in enumerate(names)}
    clusters = np.array([code[name] for name in found.samples["cluster"]])
    rows = np.lexsort((-found.samples[by].to_numpy(), clusters))
    rows = rows[thinned(clusters[rows], MOST)]
    return clusters[rows], names, rows


def _fill(ax: Any, low: np.ndarray, high: np.ndarray, colour: Any) -> None:
    """Fill bars of width 1 side by side, as one polygon."""
    ends = [np.append(values, values[-1]) for values in (low, high)]
    ax.fill_between(np.arange(len(low) + 1), *ends, step="post", color=colour, linewidth=0)


def _by_cluster(ax: Any, clusters: np.ndarray, names: list) -> None:
    ax.set_xlim(0, len(clusters))
    band(ax, clusters, names)


def _caption(rows: np.ndarray, found: Any) -> str:
    return f"{shown_of(len(rows), len(found.samples))}, by cluster, greatest first"
