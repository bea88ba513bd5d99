"""The command line."""

import argparse
import json
import sys
import time
from typing import Any

from gpuensemble import __version__, coassociation
from gpuensemble._array import choose_device, to_host


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 if it went well, 2 with one sentence on stderr if its input was bad."""
    parser = argparse.ArgumentParser(prog="gpuensemble", description=__doc__)
    parser.add_argument("--version", action="version", version=f"gpuensemble {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo_parser = commands.add_parser(
        "demo", help="a consensus of k-means partitions of bundled data (handwritten digits)"
    )
    demo_parser.add_argument("--partitions", type=int, default=30, help="how many base partitions (default 30)")
    demo_parser.add_argument("--seed", type=int, default=0, help="of the base partitions (default 0)")
    demo_parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default auto)")
    demo_parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = vars(parser.parse_args(arguments))
    as_json = options.pop("json")
    del options["command"]
    try:
        report = demo(**options)
    except (TypeError, ValueError) as error:
        print(f"gpuensemble: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report) if as_json else _table(report))
    return 0


def demo(partitions: int, seed: int, device: str) -> dict[str, Any]:
    """Cluster scikit-learn's digits many times with k-means and combine the partitions by evidence accumulation."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits
    from sklearn.metrics import normalized_mutual_info_score as nmi
    from sklearn.utils import shuffle

    if partitions < 1:
        raise ValueError(f"`--partitions` must be at least 1, got {partitions}.")
    device = choose_device(device)
    features, truth = shuffle(*load_digits(return_X_y=True), random_state=seed)
    n_clusters = 10
    sizes = range(n_clusters, int(len(features) ** 0.5))  # as in the papers: k from K to sqrt(n)
    labels = [
        KMeans(sizes[(7 * i) % len(sizes)], n_init=1, random_state=seed + i).fit_predict(features)
        for i in range(partitions)
    ]
    start = time.perf_counter()
    similarity = to_host(coassociation([list(row) for row in zip(*labels, strict=True)], device=device))
    tree = linkage(squareform(1 - similarity, checks=False), "average")
    consensus = fcluster(tree, n_clusters, "maxclust")
    seconds = time.perf_counter() - start
    return {
        "samples": len(features),
        "partitions": partitions,
        "device": device,
        "nmi_of_kmeans_with_the_true_k": nmi(
            truth, KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(features)
        ),
        "nmi_of_a_base_partition": sum(nmi(truth, column) for column in labels) / partitions,
        "nmi_of_the_consensus": nmi(truth, consensus),
        "seconds_of_the_consensus": seconds,
    }


def _table(report: dict[str, Any]) -> str:
    """A line per entry: its name in words, and its value."""
    width = max(map(len, report))
    lines = []
    for name, value in report.items():
        shown = f"{value:.3f}" if isinstance(value, float) else value
        lines.append(f"{name.replace('_', ' '):{width}}  {shown}")
    return "\n".join(lines)
