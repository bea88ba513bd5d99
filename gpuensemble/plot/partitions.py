"""Pictures of what goes into a consensus, and of how it was found: agreement of partitions, convergence of fits."""

from typing import Any

import numpy as np

from gpuensemble import metrics
from gpuensemble._array import frames
from gpuensemble._array.devices import to_host
from gpuensemble._inspection.inputs import checked
from gpuensemble.plot._common import STYLES, UNKNOWN, axes, colours, described, legend, tree_order

FEW = 40  # partitions that are named one by one
WITH_CONSENSUS = "Agreement with the consensus"


def agreement(labels: Any, consensus: Any = None, *, names: Any = None, ax: Any = None) -> tuple[Any, Any]:
    """Draw the normalised mutual information of each base partition with the consensus, or with each other partition.

    With a consensus there is a bar for each partition, the best first. Without one there is a heat map of all pairs, in
    the order of the tree that average linkage makes of them. Samples that a partition has no label for do not count in
    it; two partitions without a sample in common are grey.

    Parameters
    ----------
    labels : n x r table
        The base partitions, as in `Membership.from_labels`.
    consensus : vector of n labels, or fitted estimator, optional
        The cluster of each sample; an estimator stands for its `labels_`.
    names : sequence of r names, optional
        Names of the partitions; by default the columns of a DataFrame, else numbers. Beyond 40 partitions none is
        shown.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ax : matplotlib Axes
    data : Series or DataFrame
        The scores in the order of the picture, under the names of the partitions.
    """
    import pandas

    alone = consensus is None
    labels = frames.table(labels)
    scores = np.asarray(to_host(metrics.pairwise(labels))) if alone else _with_consensus(labels, consensus)
    names = getattr(labels, "columns", range(len(scores))) if names is None else names
    order = tree_order(scores) if alone else np.argsort(-scores, kind="stable")
    index = pandas.Index([names[i] for i in order], name="partition", tupleize_cols=False)
    if alone:
        pairs = pandas.DataFrame(scores[np.ix_(order, order)], index, index)
        return _pairs(ax, pairs), pairs
    data = pandas.Series(scores[order], index)
    return (_bars if len(data) <= FEW else _curve)(ax, data), data


def _with_consensus(labels: Any, consensus: Any) -> np.ndarray:
    m, clusters, _ = checked(labels, consensus, "consensus", "cpu")
    hole = np.array(-1).astype(m.codes.dtype)
    return np.array([metrics.nmi(column[column != hole], clusters[column != hole]) for column in m.codes.T])


def _bars(ax: Any, data: Any) -> Any:
    ax, mean = axes(ax, "agreement", (6.4, 0.19 * len(data) + 1.6)), float(data.mean())
    ax.barh(np.arange(len(data)), data, color=colours(3)[1])
    ax.axvline(mean, color="black", linestyle="--", linewidth=1)
    ax.set_yticks(np.arange(len(data)), [str(name) for name in data.index], fontsize=8, parse_math=False)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    described(ax, WITH_CONSENSUS, f"NMI with the consensus; dashed: the mean, {mean:.2f}", "base partition")
    return ax


def _curve(ax: Any, data: Any) -> Any:
    ax, mean = axes(ax, "agreement"), float(data.mean())
    ax.plot(np.arange(1, len(data) + 1), data, color=colours(3)[1])
    ax.axhline(mean, color="black", linestyle="--", linewidth=1)
    ax.set_ylim(0, 1)
    caption = f"{len(data)} base partitions, best first; dashed: the mean, {mean:.2f}"
    described(ax, WITH_CONSENSUS, caption, "NMI with the consensus")
    return ax


def _pairs(ax: Any, data: Any) -> Any:
    from matplotlib import colormaps

    ax, r = axes(ax, "agreement", (6.4, 5.4)), len(data)
    drawn = ax.imshow(data, cmap=colormaps["viridis"].with_extremes(bad=UNKNOWN), vmin=0, vmax=1)
    if r <= FEW:
        texts = [str(name) for name in data.index]
        ax.set_xticks(np.arange(r), texts, fontsize=7, rotation=90, parse_math=False)
        ax.set_yticks(np.arange(r), texts, fontsize=7, parse_math=False)
    unseen = "; grey: no sample in common" if data.isna().to_numpy().any() else ""
    described(ax, "Agreement of the partitions", f"base partitions, like ones together{unseen}", "base partition")
    ax.figure.colorbar(drawn, ax=ax, label="NMI")
    return ax


def convergence(fitted: Any, *, what: str = "objective", ax: Any = None) -> tuple[Any, Any]:
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
    ax : matplotlib Axes
    data : dict of names and arrays
        The values of each curve.
    """
    several = fitted if isinstance(fitted, dict) else {type(fitted).__name__: fitted}
    paths = {name: getattr(one, f"{what}_path_", []) for name, one in several.items()}
    data = {name: np.array([float(value) for value in path]) for name, path in paths.items() if len(path) > 1}
    if not data:
        raise ValueError(f"`fitted` must have a path of more than one {what}, got none.")
    relative = what == "objective" and len(several) > 1
    if relative:
        data = {name: (path - path[-1]) / (path[0] - path[-1] or 1.0) for name, path in data.items()}
    ax = axes(ax, "convergence")
    for i, (values, colour) in enumerate(zip(data.values(), colours(len(data)), strict=False)):
        steps, style = np.arange(1, len(values) + 1), STYLES[i % len(STYLES)]
        ax.plot(steps, values, style, color=colour, marker="o", markersize=3)
    if what == "residual":
        ax.set_yscale("log")
    height = "excess over the last objective (first = 1)" if relative else what
    described(ax, f"Convergence: {what}", "iteration", height)
    ax.xaxis.get_major_locator().set_params(integer=True)
    if len(several) > 1:
        legend(ax, ax.get_lines()[-len(data) :], data)
    return ax, data
