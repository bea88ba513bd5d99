"""Trees: of clusters across numbers of clusters, K, and of a consensus."""

import itertools
from typing import Any

import numpy as np

from gpuensemble.plot._common import axes, colours, described
from gpuensemble.plot.numbers import coded

WIDEST, TALLEST = 0.85, 0.6  # of the room in a level of a tree, and of its height, that nodes take
TIPS = 30  # of a dendrogram at most


def clustree(labels: Any, *, ax: Any = None) -> tuple[Any, Any]:
    """Draw a tree across K: a node for each cluster, and lines to those clusters of the next K that share samples.

    The area of a node is the number of its samples. A line is the darker, the greater the share of the lower cluster's
    samples that come from the upper one. Clusters that keep their samples hang on one dark line; one that many light
    lines lead to is pieced together.

    Parameters
    ----------
    labels : n x m table
        As in `tracking`; names need not mean the same from K to K. Samples without a label in one of two neighbouring
        columns do not count in the lines between them.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    data : DataFrame, a row for each line
        `K` and `cluster` of the upper cluster, `next_K` and `next_cluster` of the lower one, `samples` that both share,
        and their `share` of the lower one.
    """
    frame, codes, names = coded(labels)
    m, k = codes.shape[1], len(names)
    sizes = np.stack([np.bincount(column[column >= 0], minlength=k) for column in codes.T])
    lines = [_shared(codes[:, y], codes[:, y + 1], k) for y in range(m - 1)]
    ax = axes(ax, "clustree", (6.4, min(9.0, 0.75 * m + 1.2)))
    diameters = _diameters(ax, sizes)
    x = _places(sizes, diameters, lines)
    _draw_lines(ax, x, lines)
    for y, node in zip(*np.nonzero(sizes), strict=True):
        ax.scatter(x[y, node], y, diameters[y, node] ** 2, color=colours(3)[1], edgecolor="white", zorder=2)
        _name_node(ax, (x[y, node], y), str(names[node]), diameters[y, node])
    ax.set(xlim=(0, 1), ylim=(m - 0.5, -0.5))
    ax.set_xticks([])
    ax.set_yticks(np.arange(m), [str(column) for column in frame.columns], parse_math=False)
    described(ax, "Tree of clusters", f"an area is a number of samples, of {len(codes):,}", "K")
    return ax, _edges(list(frame.columns), names, lines)


def dendrogram(tree: Any, *, ax: Any = None) -> tuple[Any, Any]:
    """Draw the tree of `consensus_tree`, from the root down to 30 tips at most.

    A tip is a leaf under its name, or what is merged below; either has its number of samples.

    Parameters
    ----------
    tree : Tree
        What `consensus_tree` returned, with at least two leaves.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    data : DataFrame, a row for each merge that is drawn
        `left`, `right`: the nodes, by their number in `tree.linkage`; `height`; `samples`.
    """
    import pandas
    from scipy.cluster.hierarchy import dendrogram as drawing

    n = len(tree.names)
    if n < 2:
        raise ValueError("`tree` must have at least two leaves, got one.")
    ax, tips = axes(ax, "dendrogram", (6.4, 4.4)), min(n, TIPS)
    samples = _samples_below(tree)
    drawn = drawing(tree.linkage, p=tips, truncate_mode="lastp", no_plot=True)
    for x, y in zip(drawn["icoord"], drawn["dcoord"], strict=True):
        ax.plot(x, y, color=colours(3)[0], linewidth=1.2)
    names = [_tip(tree, node, samples[node]) for node in drawn["leaves"]]
    ax.set_xticks(5 + 10 * np.arange(tips), names, rotation=90, fontsize=7, parse_math=False)
    ax.set(xlim=(0, 10 * tips), ylim=(0, 1.02 * max(tree.linkage[-1, 2], 1e-9)))
    below = "" if tips == n else f", merged into {tips}"
    described(ax, "Consensus tree", f"{n:,} leaves of {len(tree.leaf):,} samples{below}", "1 - mean consensus value")
    last = tree.linkage[n - tips :]
    of_merges = {"left": last[:, 0].astype("int64"), "right": last[:, 1].astype("int64"), "height": last[:, 2]}
    return ax, pandas.DataFrame(of_merges | {"samples": samples[2 * n - tips :]})


def _samples_below(tree: Any) -> np.ndarray:
    """Return how many samples are below each node, leaves first."""
    found = np.bincount(tree.leaf, minlength=len(tree.names)).tolist()
    for one, two in tree.linkage[:, :2].astype("int64").tolist():
        found.append(found[one] + found[two])
    return np.array(found)


def _tip(tree: Any, node: int, samples: int) -> str:
    """Return what is written at a tip: the name of a leaf, if it is one, and the number of samples."""
    many = f"({samples:,})" if samples > 1 or node >= len(tree.names) else ""
    return f"{tree.names[node]} {many}".rstrip() if node < len(tree.names) else many


def _shared(upper: np.ndarray, lower: np.ndarray, k: int) -> np.ndarray:
    """Count the samples that clusters of two columns share: k x k."""
    both = (upper >= 0) & (lower >= 0)
    return np.bincount(upper[both] * k + lower[both], minlength=k * k).reshape(k, k)


def _row_height(ax: Any, m: int) -> float:
    return ax.get_window_extent().height * 72 / ax.figure.dpi / m


def _diameters(ax: Any, sizes: np.ndarray) -> np.ndarray:
    """Return diameters of nodes in points: areas are as sizes, and no level is too wide or too high."""
    width = ax.get_window_extent().width * 72 / ax.figure.dpi
    roots = np.sqrt(sizes)
    unit = min(WIDEST * width / roots.sum(axis=1).max(), TALLEST * _row_height(ax, len(sizes)) / roots.max())
    return unit * roots


def _places(sizes: np.ndarray, diameters: np.ndarray, lines: list) -> np.ndarray:
    """Return where nodes stand in their level, 0 .. 1: below those that they come from, with equal gaps."""
    x = np.full(sizes.shape, np.nan)
    for y in range(len(sizes)):
        nodes = np.flatnonzero(sizes[y])
        if y:
            weight = lines[y - 1][:, nodes]
            of_parents = (np.nan_to_num(x[y - 1])[:, None] * weight).sum(axis=0) / np.maximum(weight.sum(axis=0), 1)
            nodes = nodes[np.argsort(of_parents, kind="stable")]
        wide = diameters[y, nodes] / diameters.sum(axis=1).max() * WIDEST
        room = wide + (1 - wide.sum()) / len(nodes)
        x[y, nodes] = np.cumsum(room) - room / 2
    return x


def _draw_lines(ax: Any, x: np.ndarray, lines: list) -> None:
    """Draw the lines of all levels, light ones below dark ones, and the bar of their shades."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap

    parts, shares = [], []
    for y, counts in enumerate(lines):
        of_lower = counts / np.maximum(counts.sum(axis=0), 1)
        for i, j in zip(*np.nonzero(counts), strict=True):
            parts.append([(x[y, i], y), (x[y + 1, j], y + 1)])
            shares.append(of_lower[i, j])
    if not parts:
        return
    order = np.argsort(shares, kind="stable")
    dark = LinearSegmentedColormap.from_list("shades", colormaps["Greys"](np.linspace(0.2, 1, 64)))
    shades = np.array(shares)[order]
    drawn = LineCollection([parts[i] for i in order], array=shades, cmap=dark, clim=(0, 1), linewidths=0.5 + 2 * shades)
    ax.add_collection(drawn)
    ax.figure.colorbar(drawn, ax=ax, label="share of the lower cluster", aspect=30)


def _name_node(ax: Any, place: tuple, name: str, diameter: float) -> None:
    """Write the name of a node into it, or where it is small above it."""
    if diameter > 5 * len(name) + 3:
        look: dict[str, Any] = {"color": "white", "va": "center_baseline", "xytext": (0, 0)}
    else:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.75}
        look = {"va": "bottom", "xytext": (0, diameter / 2 + 1), "bbox": box}
    ax.annotate(name, place, textcoords="offset points", ha="center", fontsize=7, parse_math=False, zorder=3, **look)


def _edges(columns: list, names: list, lines: list) -> Any:
    """Make the table of lines."""
    import pandas

    rows = []
    for (k, following), counts in zip(itertools.pairwise(columns), lines, strict=True):
        of_lower = counts.sum(axis=0)
        for i, j in zip(*np.nonzero(counts), strict=True):
            rows.append((k, names[i], following, names[j], int(counts[i, j]), float(counts[i, j] / of_lower[j])))
    return pandas.DataFrame(rows, columns=["K", "cluster", "next_K", "next_cluster", "samples", "share"])
