"""Pictures of consensuses with several numbers of clusters, K: how sharp each is, and which samples go where."""

import itertools
from typing import Any

import numpy as np

from gpuensemble._array.messages import shown
from gpuensemble.plot._common import (
    STYLES,
    UNKNOWN,
    axes,
    beside,
    colours,
    described,
    name_runs,
    of_clusters,
    shown_of,
    thinned,
)

MOST = 1000  # samples that have a column each
STEPS = 200  # of a curve
WIDEST, TALLEST = 0.85, 0.6  # of the room in a level of a tree, and of its height, that nodes take


def cdf(values: Any, *, ax: Any = None) -> tuple[Any, Any]:
    """Draw for each K the share of pairs of samples whose consensus value is no greater than x.

    A curve that is flat between 0 and 1 says that nearly all pairs are either always or never together.

    Parameters
    ----------
    values : dict or DataFrame, an entry or column for each K
        Consensus values 0 .. 1 of pairs of samples, all or a sample of them; NaN does not count. The numbers of values
        may differ.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    data : DataFrame
        The curves: x down, K across.
    """
    import pandas

    x = np.linspace(0, 1, STEPS + 1)
    of_k = {k: np.searchsorted(some, x, "right") / len(some) for k, some in _values(values).items()}
    data = pandas.DataFrame(of_k, pandas.Index(x, name="consensus value"))
    ax = axes(ax, "cdf")
    for i, (k, colour) in enumerate(zip(data, colours(len(of_k)), strict=False)):
        ax.step(x, data[k], STYLES[i % len(STYLES)], where="post", color=colour)
    ax.set(xlim=(0, 1), ylim=(0, 1.02))
    described(ax, "Distribution of consensus values", "consensus value", "share of pairs up to it")
    beside(ax, ax.get_lines()[-len(of_k) :], list(of_k), "K")
    return ax, data


def delta_area(values: Any, *, ax: Any = None) -> tuple[Any, Any]:
    """Draw by how much the area under the curve of `cdf` grows from each K to the next, relative to the area before.

    The first K has no K before it: its point is the area itself, as in Monti et al. (2003).

    Parameters
    ----------
    values : dict or DataFrame, an entry or column for each K
        As in `cdf`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    data : DataFrame, a row for each K
        `area`, which is 1 - the mean of the values, and `delta`: NaN where the area before is 0.
    """
    import pandas

    area = pandas.Series({k: 1 - float(some.mean()) for k, some in _values(values).items()}, dtype="float64")
    before = area.shift()
    delta = ((area - before) / before.where(before > 0)).where(before.notna(), area)
    data = pandas.DataFrame({"area": area, "delta": delta}).rename_axis("K")
    ax, places = axes(ax, "delta_area", (6.4, 3.8)), np.arange(len(data))
    ax.axhline(0, color="black", linewidth=0.8)
    ax.plot(places, data["delta"], "-o", color=colours(3)[1], markersize=5)
    ax.set_xticks(places, [str(k) for k in data.index], parse_math=False)
    described(ax, "Area under the distribution", "K", "relative growth")
    return ax, data


def tracking(labels: Any, *, ax: Any = None) -> tuple[Any, Any]:
    """Draw the cluster of each sample for each K: a row for each K, a column for each sample, a colour for each name.

    Names should mean the same from row to row: `ge.align` gives each column the names of the one before. Samples are
    sorted by their cluster in the first row, then in the second and so on; beyond 1000, as many are drawn evenly from
    each cluster of the first row. A sample without a label is grey.

    Parameters
    ----------
    labels : n x m table
        The cluster of each sample for each of m numbers K, which are the names of the columns of a DataFrame; NaN, None
        and -1 are holes.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    data : DataFrame
        The labels of the samples that are drawn, in the order of the picture.
    """
    from matplotlib.colors import ListedColormap

    frame, codes, names = _coded(labels)
    rows = np.lexsort(codes.T[::-1])
    rows = rows[thinned(codes[rows, 0], MOST)]
    m, n, k = frame.shape[1], len(rows), len(names)
    ax = axes(ax, "tracking", (7.2, 0.34 * m + 1.4))
    look = ListedColormap(of_clusters(k)).with_extremes(bad=UNKNOWN)
    drawn = np.ma.masked_less(codes[rows].T, 0)
    limits = {"vmin": -0.5, "vmax": k - 0.5, "extent": (0, n, m - 0.5, -0.5)}
    ax.imshow(drawn, cmap=look, aspect="auto", interpolation="nearest", **limits)
    for y in range(m):
        name_runs(ax, codes[rows, y], names, y)
        ax.axhline(y + 0.5, color="white", linewidth=2)
    ax.set_yticks(np.arange(m), [str(column) for column in frame.columns], parse_math=False)
    ax.tick_params(left=False)
    unknown = "; grey: no label" if (codes[rows] < 0).any() else ""
    caption = f"{shown_of(n, len(codes))}, by their clusters from top to bottom{unknown}"
    described(ax, "Clusters of each sample", caption, "K")
    return ax, frame.iloc[rows]


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
    frame, codes, names = _coded(labels)
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


def _values(values: Any) -> dict[Any, np.ndarray]:
    """Return the values of each K, ascending, without NaN; raise if there are none, or one is not in 0 .. 1."""
    found = {k: np.sort(np.asarray(some, "float64").ravel()) for k, some in values.items()}
    found = {k: some[~np.isnan(some)] for k, some in found.items()}
    if not found:
        raise ValueError("`values` must have an entry for each K, got none.")
    for k, some in found.items():
        if not len(some):
            raise ValueError(f"`values` must hold a number for each K, got none for {shown(k)}.")
        if some[0] < 0 or some[-1] > 1:
            wrong = some[0] if some[0] < 0 else some[-1]
            raise ValueError(f"`values` must be between 0 and 1, got {wrong} for {shown(k)}.")
    return found


def _coded(labels: Any) -> tuple[Any, np.ndarray, list]:
    """Return the table as a DataFrame, its labels as codes in common for all columns, -1 for holes, and their names."""
    import pandas

    from gpuensemble._array.devices import to_host

    frame = labels if hasattr(labels, "iloc") else pandas.DataFrame(to_host(labels))
    flat = frame.to_numpy(dtype=object).T.ravel()
    known = np.flatnonzero(~(pandas.isna(flat) | (flat == -1)))
    if not len(known):
        raise ValueError("`labels` must have a label, got none.")
    codes = np.full(len(flat), -1)
    codes[known], names = pandas.factorize(flat[known])
    return frame, codes.reshape(frame.shape[::-1]).T, [_plain(name) for name in names]


def _plain(name: Any) -> Any:
    """Write whole numbers, which are floats in a column with holes, without a point."""
    return int(name) if isinstance(name, float) and name.is_integer() else name


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
