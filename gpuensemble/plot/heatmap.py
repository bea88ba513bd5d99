"""The co-association matrix as a heat map, from counts: nothing is n x n but the picture."""

from typing import Any

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.devices import to_device, to_host
from gpuensemble._inspection.inputs import Inputs, checked
from gpuensemble._inspection.stability import own_consensus, quotient
from gpuensemble.membership import Membership
from gpuensemble.plot._common import OVER_BAND, UNKNOWN, axes, band, described, runs, shown_of, thinned, tree_order

PIXELS = 512  # rows and columns of a heat map at most


def coassociation(
    labels: Any, consensus: Any, *, order: str = "stability", ax: Any = None, device: str = "auto"
) -> tuple[Any, Any]:
    """Draw the co-association matrix as a heat map, with samples in the order of the consensus.

    An entry is the share of the partitions that put two samples together, among those that saw both, as in
    `stability`; it is grey where no partition saw both. A band over the picture shows the clusters.

    Parameters
    ----------
    labels : n x r table
        The base partitions, as in `Membership.from_labels`.
    consensus : vector of n labels, or fitted estimator
        The cluster of each sample; an estimator stands for its `labels_`.
    order : {"stability", "tree"}
        "stability": the largest cluster first, and inside a cluster the sample with the greatest item consensus first.
        Beyond 512 samples a pixel is the mean over a block of pairs, which the axis label says; it comes from counts,
        so that the matrix is never built. "tree": clusters, and samples inside a cluster, as they stand in the tree
        that average linkage makes of the entries; beyond 512 samples of as many, drawn evenly from each cluster.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to count.

    Returns
    -------
    ax : matplotlib Axes
    data : DataFrame
        What the pixels show; its index and columns are the numbers of the rows of `labels`, of a block the first.
    """
    import pandas

    inputs = checked(labels, consensus, "consensus", device)
    by_tree = checks.choice(order, "order", ("stability", "tree")) == "tree"
    rows = _by_tree(inputs) if by_tree else _by_stability(inputs)
    image, step = _means(_taken(inputs.m, rows))
    ax = axes(ax, "coassociation", (6.4, 5.8))
    _draw(ax, image, to_host(inputs.clusters)[rows], inputs.names)
    pixel = "one pair of samples" if step == 1 else f"the mean over {step} x {step} pairs"
    unseen = "; grey: no partition saw both" if np.isnan(image).any() else ""
    caption = f"{shown_of(len(rows), len(inputs.clusters))}, by cluster, then {order}; a pixel is {pixel}{unseen}"
    described(ax, f"Co-association in {len(inputs.names)} clusters", caption, "samples", OVER_BAND)
    return ax, pandas.DataFrame(image, rows[::step], rows[::step])


def _draw(ax: Any, image: np.ndarray, clusters: np.ndarray, names: Any) -> None:
    """Draw the pixels, lines between clusters, their band, and the bar of shares."""
    from matplotlib import colormaps

    n, colours = len(clusters), colormaps["viridis"].with_extremes(bad=UNKNOWN)
    drawn = ax.imshow(image, cmap=colours, vmin=0, vmax=1, extent=(0, n, n, 0), interpolation="nearest")
    for first, _ in runs(clusters)[1:]:
        ax.axhline(first, color="white", linewidth=0.6)
        ax.axvline(first, color="white", linewidth=0.6)
    band(ax, clusters, names)
    ax.figure.colorbar(drawn, ax=ax, label="consensus value")


def _by_stability(inputs: Inputs) -> np.ndarray:
    """Return all rows: the largest cluster first, inside a cluster by item consensus."""
    clusters = to_host(inputs.clusters)
    rank = np.argsort(np.argsort(-np.bincount(clusters), kind="stable"))
    return np.lexsort((-own_consensus(inputs), rank[clusters]))


def _by_tree(inputs: Inputs) -> np.ndarray:
    """Return rows, some of each cluster where there are many, in the order of their tree."""
    clusters = to_host(inputs.clusters)
    rows = np.argsort(clusters, kind="stable")
    rows = rows[thinned(clusters[rows], PIXELS)]
    shares, _ = _means(_taken(inputs.m, rows))
    place, of_rows = np.argsort(tree_order(shares)), clusters[rows]
    middle = np.bincount(of_rows, place) / np.maximum(np.bincount(of_rows), 1)
    return rows[np.lexsort((place, np.argsort(np.argsort(middle))[of_rows]))]


def _taken(m: Membership, rows: np.ndarray) -> Membership:
    return m.take(to_device(rows, m.device))


def _means(m: Membership) -> tuple[np.ndarray, int]:
    """Return means of the co-association over blocks of `step` samples; counting needs no matrix."""
    n = len(m.codes)
    step = -(-n // PIXELS)
    block = (np.arange(n) // step).astype("int32")
    counts = to_host(m.count(block, int(block[-1]) + 1)).astype("float64")
    seen = np.add.reduceat(counts, np.cumsum(m.widths) - m.widths, axis=0)
    return quotient(counts.T @ counts, seen.T @ seen), step
