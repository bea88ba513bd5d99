"""The command line."""

import argparse
import json
import sys
import time
from typing import Any

from gpuensemble import EAC, KCC, SEC, __version__, generate, metrics
from gpuensemble._array import choose_device
from gpuensemble._random import generators


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 if it went well, 2 with one sentence on stderr if its input was bad."""
    parser = argparse.ArgumentParser(prog="gpuensemble", description=__doc__)
    parser.add_argument("--version", action="version", version=f"gpuensemble {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo_parser = commands.add_parser(
        "demo", help="consensus of k-means partitions of bundled data (handwritten digits)"
    )
    demo_parser.add_argument("--partitions", type=int, default=30, help="how many base partitions (default 30)")
    demo_parser.add_argument("--seed", type=int, default=0, help="of everything random (default 0)")
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
    """Cluster scikit-learn's digits many times with k-means, combine the partitions, score them against the truth."""
    from sklearn.datasets import load_digits

    device = choose_device(device)
    (rng,) = generators(seed, 1)
    features, truth = load_digits(return_X_y=True)
    order = rng.permutation(len(truth))
    features, truth = features[order], truth[order]
    n_clusters = len(set(truth.tolist()))
    labels = generate.random_k(features, partitions, (n_clusters, round(len(features) ** 0.5)), seed, device)
    common: dict[str, Any] = {"n_clusters": n_clusters, "device": device}
    methods: dict[str, Any] = {
        "SEC": SEC(random_state=seed, **common),
        "SEC with cluster weights": SEC(cluster_weight="entropy", random_state=seed, **common),
        "KCC": KCC(random_state=seed, **common),
        "EAC, average linkage": EAC(**common),
    }
    scores = [{"method": "a base partition, on average"} | _mean([_score(truth, column) for column in labels.T])]
    for name, estimator in methods.items():
        start = time.perf_counter()
        found = estimator.fit_predict(labels)
        scores.append({"method": name} | _score(truth, found) | {"seconds": time.perf_counter() - start})
    return {"samples": len(features), "partitions": partitions, "device": device, "scores": scores}


def _score(truth: Any, found: Any) -> dict[str, float]:
    return {"nmi": metrics.nmi(truth, found), "ari": metrics.ari(truth, found)}


def _mean(scores: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}


def _table(report: dict[str, Any]) -> str:
    """A line about the data, then a line per method."""
    lines = ["{samples} samples, {partitions} base partitions, on {device}".format(**report)]
    lines.append(f"{'':30} {'NMI':>6} {'ARI':>6} {'seconds':>8}")
    for row in report["scores"]:
        seconds = f"{row['seconds']:8.2f}" if "seconds" in row else ""
        lines.append(f"{row['method']:30} {row['nmi']:6.3f} {row['ari']:6.3f} {seconds}".rstrip())
    return "\n".join(lines)
