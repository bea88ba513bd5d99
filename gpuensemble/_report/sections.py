"""The sections of a report: the input, the choice of K, the clusters, how sure each sample is, and how to repeat it."""

import itertools
import platform
from importlib.metadata import version
from typing import Any

from gpuensemble import plot
from gpuensemble._array.messages import shown
from gpuensemble._inspection.align import align
from gpuensemble._report import html
from gpuensemble._report.findings import Findings, least_sure

MOST_SAMPLES = 100  # the least sure ones, in the report
MOST_PARTITIONS = 200
PACKAGES = ("gpuensemble", "numpy", "scipy", "scikit-learn", "numba", "pandas", "matplotlib")
CHOICE = (
    "A number after ± is a standard error. stability: mean adjusted Rand index between the consensuses of drawn "
    "partitions; stability_null: the same after "
    "the labels of each partition were shuffled; excess: the difference, whose peaks count. pac: share of pairs of "
    "samples that are neither always nor never together. area: under the distribution of consensus values; "
    "area_change: its relative growth. eigengap: of the graph of samples and clusters. cluster_consensus: mean over "
    "the clusters. No criterion is right on all data."
)
CLUSTERS = (
    "consensus: share of the partitions that put two samples of the cluster together, over all its pairs; nearest: the "
    "other cluster with the greatest share of pairs between them."
)
SAMPLES = (
    "consensus: mean share of the partitions that put the sample together with the others of its cluster; other: the "
    "next cluster, by the same measure; margin: the difference, below 0 where the partitions would rather put it "
    "there; kept: share of the consensuses of drawn partitions that leave it in its cluster."
)
PARTITIONS = (
    "nmi, ari: agreement with the consensus; mean_nmi: with the other partitions; holes: share of samples without a "
    "label."
)


def page(found: Findings, title: str, command: str) -> bytes:
    """Return the whole page."""
    return html.page(title, _lead(found), _sections(found, command))


def _lead(found: Findings) -> list[str]:
    n, r = found.partitions.shape
    said = f"{found.stability.clusters.shape[0]} clusters of {n:,} samples, the consensus of {r:,} partitions."
    return [html.paragraph(said, "lead"), *([] if found.choice is None else [html.paragraph(found.choice.why)])]


def _sections(found: Findings, command: str) -> dict[str, str]:
    """Return the sections of the page by their titles."""
    made = {"Input": _input(found)}
    if found.choice is not None:
        made["How many clusters"] = _numbers(found.choice)
    made |= {"Clusters": _clusters(found), "Samples": _samples(found), "Partitions": _partitions(found)}
    made["How to repeat it"] = _repeat(found, command)
    return {title: html.section(title, *parts) for title, parts in made.items()}


def _input(found: Findings) -> list[str]:
    n, r = found.partitions.shape
    of_each = found.stability.partitions
    fewest, most = of_each["n_clusters"].min(), of_each["n_clusters"].max()
    values = {
        "samples": f"{n:,}",
        "partitions": f"{r:,}",
        "clusters of a partition": f"{fewest}" if fewest == most else f"{fewest} to {most}",
        "samples without a label": f"{of_each['holes'].mean():.1%} of all entries",
    }
    return [html.pairs(values, "The table of partitions")]


def _numbers(choice: Any) -> list[str]:
    """Show the criteria of each number of clusters."""
    table = html.table(choice.table, "Criteria of each K", note=CHOICE, chosen=choice.chosen)
    shown_as = "is recommended" if choice.recommended is not None else "is shown below, but not recommended"
    named = _named_alike(choice.labels)
    high = 0.34 * named.shape[1] + 1.6
    higher = min(7, 1.5 * high)
    drawn = html.pictures(
        html.picture(lambda ax: plot.choice(choice, ax=ax), "Stability against chance for each K", (6.4, 4.4)),
        html.picture(lambda ax: plot.cdf(choice, ax=ax), "Distribution of consensus values for each K", (6.4, 4.4)),
        html.picture(lambda ax: plot.delta_area(choice, ax=ax), "Growth of the area under it", (6.4, 3.8)),
        html.picture(lambda ax: plot.tracking(named, ax=ax), "The cluster of each sample for each K", (7.2, high)),
        html.picture(lambda ax: plot.clustree(named, ax=ax), "Which clusters split from K to K", (6.4, higher)),
    )
    return [html.paragraph(f"K = {choice.chosen} {shown_as}; its row stands out."), table, drawn]


def _named_alike(labels: Any) -> Any:
    """Give the clusters of each K the names of those of the K before that they share most samples with."""
    named = labels.copy()
    for before, k in itertools.pairwise(labels.columns):
        named[k] = align(named[[k]], named[before])[k]
    return named


def _clusters(found: Findings) -> list[str]:
    clusters = found.stability.clusters
    shares = clusters.assign(share=clusters["size"] / clusters["size"].sum())
    columns = ["size", "share", "consensus", "nearest", "nearest_consensus"]
    said = "Heat map of the share of partitions that put two samples together"
    drawn = [
        html.picture(lambda ax: plot.coassociation(found.partitions, found.labels, ax=ax), said, (6.4, 5.8)),
        html.picture(lambda ax: plot.cluster_consensus(found.stability, ax=ax), "Consensus of clusters", (6.4, 4.4)),
    ]
    if len(clusters) > 1:
        drawn.append(html.picture(lambda ax: plot.dendrogram(found.tree, ax=ax), "Tree of the clusters", (6.4, 4.4)))
    return [html.table(shares[columns], "Size and consensus of each cluster", note=CLUSTERS), html.pictures(*drawn)]


def _samples(found: Findings) -> list[str]:
    least = least_sure(found, MOST_SAMPLES)
    caption = f"The {len(least):,} least sure of {len(found.labels):,} samples"
    drawn = html.pictures(
        html.picture(lambda ax: plot.silhouette(found.stability, ax=ax), "Margin of each sample", (6.4, 4.4)),
        html.picture(lambda ax: plot.item_consensus(found.stability, ax=ax), "Item consensus", (6.4, 4.4)),
    )
    return [html.table(least.rename_axis(least.index.name or "sample"), caption, note=SAMPLES), drawn]


def _partitions(found: Findings) -> list[str]:
    best = found.stability.partitions.sort_values("nmi", ascending=False, kind="stable").rename_axis("partition")
    some = best.iloc[:MOST_PARTITIONS]
    which = "Partitions" if len(some) == len(best) else f"The {len(some)} of {len(best)} partitions that agree most"
    drawn = html.picture(lambda ax: plot.agreement(found.partitions, ax=ax), "Agreement of the partitions", (6.4, 5.4))
    return [html.table(some, f"{which}, the best first", note=PARTITIONS), html.pictures(drawn)]


def _repeat(found: Findings, command: str) -> list[str]:
    """Show the command, the parameters and the versions."""
    settings = {name: shown(value) for name, value in found.settings.items()}
    versions = {name: version(name) for name in PACKAGES} | {"Python": platform.python_version()}
    versions["system"] = f"{platform.system()} {platform.machine()}"
    return [html.code(command), html.pairs(settings, "Parameters"), html.pairs(versions, "Versions")]
