"""Pictures show a consensus, with matplotlib (the `plot` extra): each function draws on one Axes and returns it.

None of them needs anything n x n. Colours are those of matplotlib's viridis, which colour-blind readers can tell apart,
and lines differ in style as well.
"""

from typing import Any

import numpy as np

from gpuensemble import metrics
from gpuensemble._array.devices import to_device, to_host
from gpuensemble._inspection.inputs import checked
from gpuensemble.membership import Membership

PIXELS = 512  # rows and columns of a heat map at most
STYLES = ("-", "--", "-.", ":")
FEW = 40  # partitions that are named one by one


def coassociation(labels: Any, consensus: Any, *, ax: Any = None, device: str = "auto") -> Any:
    """Draw the co-association matrix as a heat map, with samples in the order of the consensus.

    Samples are sorted by cluster, the largest first, and inside a cluster by stability. Beyond 512 samples a pixel is
    the mean over a block of pairs, which the axis label says; it comes from counts, so that the matrix is never built.

    Parameters
    ----------
    labels : n x r table
        The base partitions, as in `Membership.from_labels`.
    consensus : vector of n labels
        The cluster of each sample.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to count.

    Returns
    -------
    matplotlib Axes
    """
    m, clusters, _ = _inputs(labels, consensus, device)
    sizes = np.bincount(clusters)
    rank = np.argsort(np.argsort(-sizes, kind="stable"))
    firmness = np.round(_stability(m, clusters), 12)  # rounding must not order equal samples
    order = np.lexsort((-firmness, rank[clusters]))
    image, step = _block_means(m, order)
    ax = _axes(ax, "coassociation", (6.4, 5.4))
    n = len(order)
    drawn = ax.imshow(image, cmap="viridis", vmin=0, vmax=1, extent=(0, n, n, 0), interpolation="nearest")
    for edge in np.cumsum(np.sort(sizes)[::-1])[:-1]:
        ax.axhline(edge, color="white", linewidth=0.6)
        ax.axvline(edge, color="white", linewidth=0.6)
    ax.set_title(f"Co-association of {n:,} samples in {len(sizes)} clusters", fontsize=11)
    what = "one pair of samples" if step == 1 else f"the mean over {step} x {step} pairs"
    ax.set_xlabel(f"samples by cluster, then stability; a pixel is {what}")
    ax.set_ylabel("samples")
    ax.figure.colorbar(drawn, ax=ax, label="share of partitions that put both together")
    return ax


def convergence(fitted: Any, *, what: str = "objective", ax: Any = None) -> Any:
    """Draw how the objective, or the residual, of fitted estimators fell from iteration to iteration.

    Parameters
    ----------
    fitted : estimator, or dict of names and estimators
        What to draw. Those whose path has one value only, or that have none, are left out. The objectives of several
        estimators have different units: each is drawn as its excess over its own last value, relative to the first
        excess.
    what : {"objective", "residual"}
        Whether to draw `objective_path_` or `residual_path_`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    several = fitted if isinstance(fitted, dict) else {type(fitted).__name__: fitted}
    paths = {name: getattr(one, f"{what}_path_", []) for name, one in several.items()}
    paths = {name: np.array([float(value) for value in path]) for name, path in paths.items() if len(path) > 1}
    if not paths:
        raise ValueError(f"`fitted` must have a path of more than one {what}, got none.")
    relative = what == "objective" and len(several) > 1
    ax = _axes(ax, "convergence")
    colours = _colours(len(paths))
    for i, (name, path) in enumerate(paths.items()):
        values = (path - path[-1]) / (path[0] - path[-1] or 1.0) if relative else path
        steps = np.arange(1, len(path) + 1)
        ax.plot(steps, values, STYLES[i % len(STYLES)], color=colours[i], marker="o", markersize=3, label=name)
    if what == "residual":
        ax.set_yscale("log")
    ax.set_xlabel("iteration")
    ax.set_ylabel("excess over the last objective (first = 1)" if relative else what)
    ax.set_title(f"Convergence: {what}", fontsize=11)
    ax.xaxis.get_major_locator().set_params(integer=True)
    if len(several) > 1:
        ax.legend(frameon=False)
    return ax


def agreement(labels: Any, consensus: Any, *, names: Any = None, ax: Any = None) -> Any:
    """Draw the normalised mutual information of each base partition with the consensus, the best first.

    Samples that a partition has no label for do not count in it.

    Parameters
    ----------
    labels : n x r table
        The base partitions, as in `Membership.from_labels`.
    consensus : vector of n labels
        The cluster of each sample.
    names : sequence of r names, optional
        Names of the partitions; by default the columns of a DataFrame, else numbers. Beyond 40 partitions none is
        shown.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    m, clusters, _ = _inputs(labels, consensus, "cpu")
    hole = np.array(-1).astype(m.codes.dtype)
    columns = m.codes.T
    scores = np.array([metrics.nmi(column[column != hole], clusters[column != hole]) for column in columns])
    names = getattr(labels, "columns", range(len(scores))) if names is None else names
    order = np.argsort(-scores, kind="stable")
    mean = float(scores.mean())
    if len(scores) <= FEW:
        ax = _axes(ax, "agreement", (6.4, 0.19 * len(scores) + 1.6))
        ax.barh(np.arange(len(scores)), scores[order], color=_colours(3)[1])
        ax.axvline(mean, color="black", linestyle="--", linewidth=1, label=f"mean {mean:.2f}")
        ax.set_yticks(np.arange(len(scores)), [str(names[i]) for i in order], fontsize=8)
        ax.invert_yaxis()
        ax.set(xlim=(0, 1), xlabel="NMI with the consensus", ylabel="base partition")
    else:
        ax = _axes(ax, "agreement")
        ax.plot(np.arange(1, len(scores) + 1), scores[order], color=_colours(3)[1])
        ax.axhline(mean, color="black", linestyle="--", linewidth=1, label=f"mean {mean:.2f}")
        ax.set(ylim=(0, 1), xlabel="base partitions, best first", ylabel="NMI with the consensus")
    ax.set_title("Agreement of the base partitions with the consensus", fontsize=11)
    ax.legend(loc="lower left")
    return ax


def stability(labels: Any, consensus: Any, *, ax: Any = None, device: str = "auto") -> Any:
    """Draw how firmly each sample belongs to its cluster: curves of the sorted samples, one for each cluster.

    The stability of a sample is the share of the other samples of its cluster that a base partition puts together with
    it, on average over the partitions that saw it.

    Parameters
    ----------
    labels : n x r table
        The base partitions, as in `Membership.from_labels`.
    consensus : vector of n labels
        The cluster of each sample.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to count.

    Returns
    -------
    matplotlib Axes
    """
    m, clusters, names = _inputs(labels, consensus, device)
    values = _stability(m, clusters)
    ax = _axes(ax, "stability")
    k = len(names)
    colours = _colours(k)
    for cluster in range(k):
        some = np.sort(values[clusters == cluster])[::-1]
        share = np.linspace(0, 100, len(some)) if len(some) > 1 else np.array([50.0])
        style = STYLES[cluster % len(STYLES)]
        ax.plot(
            share, some, style, color=colours[cluster], label=f"{names[cluster]} ({len(some):,})", marker="." * (k > 40)
        )
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("samples of the cluster, most stable first, per cent")
    ax.set_ylabel("stability (share of the cluster found together)")
    ax.set_title(f"Stability of {len(values):,} samples", fontsize=11)
    if k <= 24:
        ax.legend(title="cluster (samples)", fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def _inputs(labels: Any, consensus: Any, device: str) -> tuple[Membership, np.ndarray, np.ndarray]:
    """Return the operator, and on the host the clusters of the consensus as codes, and what the caller calls them."""
    m, clusters, names = checked(labels, consensus, "consensus", device)
    return m, to_host(clusters), names


def _stability(m: Membership, clusters: np.ndarray) -> np.ndarray:
    """Return for each sample the mean over its partitions of the share of its cluster's other samples with it."""
    k = int(clusters.max()) + 1
    counts = to_host(m.count(clusters, k))
    starts = np.cumsum(m.widths) - m.widths
    seen = np.add.reduceat(counts, starts, axis=0).repeat(m.widths, axis=0)  # of cluster k by the column's partition
    share = np.where(seen > 1, (counts - 1) / np.maximum(seen - 1, 1), 1.0)
    together = np.empty(len(clusters))
    observed = to_host(m.gather_sum(np.ones((m.n_columns, 1))))[:, 0]
    for cluster in range(k):
        rows = np.flatnonzero(clusters == cluster)
        some = m.take(to_device(rows, m.device))
        together[rows] = to_host(some.gather_sum(share[:, cluster : cluster + 1]))[:, 0]
    return together / observed


def _block_means(m: Membership, order: np.ndarray) -> tuple[np.ndarray, int]:
    """Return means of the co-association over blocks of `step` samples in that order; counting needs no matrix."""
    n = len(order)
    step = -(-n // PIXELS)
    block = np.empty(n, "int32")
    block[order] = np.arange(n) // step
    n_blocks = int(block.max()) + 1
    counts = to_host(m.count(block, n_blocks)).astype("float64")
    sizes = np.bincount(block)
    return counts.T @ counts / (len(m.widths) * np.outer(sizes, sizes)), step


def _colours(n: int) -> list:
    """Return colours of one map, dark to light, none of them too light to see on white."""
    from matplotlib import colormaps

    return [colormaps["viridis"](x) for x in np.linspace(0, 0.88, max(n, 2))]


def _axes(ax: Any, name: str, size: tuple[float, float] = (6.4, 4.4)) -> Any:
    """Return the Axes given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ModuleNotFoundError(
            f'`plot.{name}` needs matplotlib: pip install "gpuensemble[plot]".', name="matplotlib"
        ) from None
    _, ax = pyplot.subplots(figsize=size, layout="constrained")
    return ax
