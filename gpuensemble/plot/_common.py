"""Pictures share this: Axes, colours, text that is shown as it is, and samples of rows by cluster."""

import itertools
from typing import Any

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

STYLES = ("-", "--", "-.", ":")
FEW = 24  # names that a legend or a band of clusters shows
UNKNOWN = "0.75"  # the grey of what is not known
OVER_BAND = 1.07  # the height of a title, in that of the Axes


def axes(ax: Any, name: str, size: tuple[float, float] = (6.4, 4.4)) -> Any:
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


def described(ax: Any, title: str, x: str, y: str, height: float | None = None) -> None:
    """Set the title and the labels of the axes; they are broken into lines where the figure is small."""
    ax.set_title(title, y=height, fontsize=10, wrap=True)
    ax.set_xlabel(x, fontsize=9, wrap=True)
    ax.set_ylabel(y, fontsize=9, wrap=True)


def colours(n: int) -> list:
    """Return colours of one map, dark to light, none of them too light to see on white."""
    from matplotlib import colormaps

    return [colormaps["viridis"](x) for x in np.linspace(0, 0.88, max(n, 2))]


def of_clusters(n: int) -> list:
    """Return the same colours in an order in which neighbours are far apart, in grey as well."""
    half = -(-n // 2)
    found = colours(n)
    return [found[i // 2 + (half if i % 2 else 0)] for i in range(n)]


def on_colour(colour: Any) -> str:
    """Return the colour of text that can be read on that one."""
    red, green, blue = colour[:3]
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else "black"


def legend(ax: Any, handles: list, names: Any, **options: Any) -> None:
    """Draw a legend whose names are shown as they are: `$` begins no formula, and a first `_` hides nothing."""
    found = ax.legend(handles, ["?"] * len(handles), frameon=False, **options)
    for text, name in zip(found.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(str(name))


def beside(ax: Any, handles: list, names: Any, title: str) -> None:
    """Draw a legend to the right of the Axes, in two columns if it is long."""
    columns = 1 + (len(handles) > FEW // 2)
    place = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "ncols": columns, "columnspacing": 1}
    legend(ax, handles, names, title=title, fontsize=8, title_fontsize=8, **place)


def runs(clusters: np.ndarray) -> list[tuple[int, int]]:
    """Return the first place, and that after the last, of each run of equal clusters."""
    edges = np.flatnonzero(np.diff(clusters, prepend=-2, append=-2)).tolist()
    return list(itertools.pairwise(edges))


def band(ax: Any, clusters: np.ndarray, names: Any) -> None:
    """Draw a band over the Axes, whose x axis is 0 .. n: the cluster of each place, and the names of the wide ones."""
    over = ax.inset_axes([0, 1.01, 1, 0.05], sharex=ax)
    over.set_ylim(-0.5, 0.5)
    over.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
    found, drawn = runs(clusters), of_clusters(len(names))
    first, widths = [first for first, _ in found], [last - first for first, last in found]
    over.barh([0] * len(found), widths, left=first, height=1, color=[drawn[clusters[x]] for x in first])
    name_runs(over, clusters, names, 0)


def name_runs(ax: Any, clusters: np.ndarray, names: Any, y: float) -> None:
    """Write the names of clusters into their runs along the x axis, where they are wide enough; -1 has no name."""
    drawn = of_clusters(len(names))
    for first, last in runs(clusters):
        cluster = clusters[first]
        if cluster >= 0 and (last - first) / len(clusters) > 0.016 * (len(str(names[cluster])) + 1):
            look = {"ha": "center", "va": "center_baseline", "fontsize": 7, "color": on_colour(drawn[cluster])}
            ax.text((first + last) / 2, y, str(names[cluster]), parse_math=False, **look)


def thinned(clusters: np.ndarray, most: int) -> np.ndarray:
    """Return places, ascending: all if there are no more than `most`, else of each cluster its share, evenly spaced.

    The places of a cluster are next to each other. Each cluster keeps one at least, if there are no more than `most`.
    """
    n, found = len(clusters), runs(clusters)
    if n <= most:
        return np.arange(n)
    rest = max(0, most - len(found)) / (n - len(found)) if n > len(found) else 0
    kept = [1 + int((last - first - 1) * rest) for first, last in found]
    parts = zip(found, kept, strict=True)
    places = np.concatenate([first + np.arange(some) * (last - first) // some for (first, last), some in parts])
    return places[np.arange(most) * len(places) // most] if len(places) > most else places


def tree_order(shares: np.ndarray) -> np.ndarray:
    """Return the places of a symmetric matrix of 0 .. 1 in the order of the tree that average linkage makes of them."""
    if len(shares) < 2:
        return np.arange(len(shares))
    apart = squareform(1 - np.nan_to_num(shares), checks=False)  # what is not known is far apart
    return hierarchy.leaves_list(hierarchy.linkage(apart, "average"))


def shown_of(n_drawn: int, n: int) -> str:
    """Say how many samples are drawn."""
    return f"{n:,} samples" if n_drawn == n else f"{n_drawn:,} of {n:,} samples, evenly from each cluster"
