"""Pictures of consensuses with several numbers of clusters, K: how sharp each is, and which samples go where."""

from typing import Any

import numpy as np

from gpuensemble._array import frames
from gpuensemble._array.messages import shown
from gpuensemble.plot._common import (
    STYLES,
    UNKNOWN,
    axes,
    beside,
    colours,
    described,
    legend,
    name_runs,
    of_clusters,
    shown_of,
    thinned,
)

MOST = 1000  # samples that have a column each
STEPS = 200  # of a curve


def cdf(values: Any, *, ax: Any = None) -> tuple[Any, Any]:
    """Draw for each K the share of pairs of samples whose consensus value is no greater than x.

    A curve that is flat between 0 and 1 says that nearly all pairs are either always or never together.

    Parameters
    ----------
    values : Choice, or dict or DataFrame, an entry or column for each K
        What `choose_k` returned; or consensus values 0 .. 1 of pairs of samples, all or a sample of them: NaN does not
        count, and the numbers of values may differ.
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
    of_k = {k: _share_up_to(x, *some) for k, some in _values(values).items()}
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
    values : Choice, or dict or DataFrame, an entry or column for each K
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

    of_k = {k: 1 - float(np.average(some, weights=weight)) for k, (some, weight) in _values(values).items()}
    area = pandas.Series(of_k, dtype="float64")
    before = area.shift()
    delta = ((area - before) / before.where(before > 0)).where(before.notna(), area)
    data = pandas.DataFrame({"area": area, "delta": delta}).rename_axis("K")
    ax, places = axes(ax, "delta_area", (6.4, 3.8)), np.arange(len(data))
    ax.axhline(0, color="black", linewidth=0.8)
    ax.plot(places, data["delta"], "-o", color=colours(3)[1], markersize=5)
    ax.set_xticks(places, [str(k) for k in data.index], parse_math=False)
    described(ax, "Area under the distribution", "K", "relative growth")
    return ax, data


def choice(found: Any, *, ax: Any = None) -> tuple[Any, Any]:
    """Draw how well the consensuses of drawn partitions agree with each other for each K, and how well by chance.

    Bars are standard errors. The greatest distance of the two curves is no recommendation: see `choose_k`. A vertical
    line marks the recommended K.

    Parameters
    ----------
    found : Choice
        What `choose_k` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    data : DataFrame, a row for each K
        `stability`, `stability_null`, `excess`, and the error of each.
    """
    names = ["stability", "stability_null", "excess"]
    data = found.table[[f"{name}{more}" for name in names for more in ("", "_error")]]
    ax, places = axes(ax, "choice"), np.arange(len(data))
    drawn = [
        ax.errorbar(places, data[name], data[f"{name}_error"], fmt=f"{style}o", color=colour, capsize=3, markersize=4)
        for name, style, colour in zip(names, STYLES, colours(3), strict=False)
    ]
    if found.recommended is not None:
        ax.axvline(data.index.get_loc(found.recommended), color="0.6", linewidth=1, zorder=0)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xticks(places, [str(k) for k in data.index], parse_math=False)
    clear = "no clear K" if found.recommended is None else f"recommended: K = {found.recommended}"
    described(ax, f"Stability against chance: {clear}", "K", "mean adjusted Rand index")
    legend(ax, drawn, ["drawn partitions", "shuffled partitions", "excess"], fontsize=8)
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

    frame, codes, names = coded(labels)
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


def _share_up_to(x: np.ndarray, values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the share of the weight of the values, which ascend, that are no greater than each x."""
    up_to = np.append(0, np.cumsum(weight))
    return up_to[np.searchsorted(values, x, "right")] / up_to[-1]


def _values(values: Any) -> dict[Any, tuple[np.ndarray, np.ndarray]]:
    """Return the values of each K, ascending, and their weights."""
    if hasattr(values, "pairs"):
        return {k: (values.pairs.index.to_numpy(), share.to_numpy()) for k, share in values.pairs.items()}
    return {k: (some, np.ones(len(some))) for k, some in _given(values).items()}


def _given(values: Any) -> dict[Any, np.ndarray]:
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


def coded(labels: Any) -> tuple[Any, np.ndarray, list]:
    """Return the table as a DataFrame, its labels as codes in common for all columns, -1 for holes, and their names."""
    import pandas

    from gpuensemble._array.devices import to_host

    labels = frames.table(labels)
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
