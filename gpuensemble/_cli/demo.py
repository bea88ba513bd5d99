"""The demo does the main job on bundled data: base partitions of handwritten digits, every method, scores and times."""

from typing import Any

from gpuensemble import generate, metrics
from gpuensemble._array.devices import choose_device
from gpuensemble._array.random import generators
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._cli import reports
from gpuensemble._cli.tables import outputs
from gpuensemble._cli.warm_up import Stopwatch
from gpuensemble._report.findings import of_features
from gpuensemble._tables.files import whole_file
from gpuensemble.clustering import ConsensusClustering
from gpuensemble.estimators._base import registry

SHOWN = "cluster-walk"  # the method whose clusters the picture shows
NUMBERS = range(2, 16)  # of clusters, that the report chooses from
SQUARE = 500  # samples for methods that work on n x n arrays: enough to see them, in seconds


def run(
    partitions: int, seed: int, device: str, plot: str | None = None, report: str | None = None, verbose: int = 0
) -> dict[str, Any]:
    """Cluster scikit-learn's digits many times with k-means, combine the partitions, score them against the truth."""
    from sklearn.datasets import load_digits

    if plot is not None:
        figure = new_figure(plot)
    reports.check(report, None)
    device = choose_device(device)
    (rng,) = generators(seed, 1)
    features, truth = load_digits(return_X_y=True)
    order = rng.permutation(len(truth))
    features, truth = features[order], truth[order]
    n_clusters = len(set(truth.tolist()))
    k_range = (n_clusters, round(len(features) ** 0.5))
    labels = generate.random_k(features, partitions, k_range, seed, device, verbose=verbose)
    base = _mean([_score(truth, column) for column in labels.T])
    half = features.shape[1] // 2
    views = [features[:, :half], features[:, half:]]  # the upper and the lower half of the pictures
    consensus, rows = None, _of_features(features, truth, n_clusters, seed, device)
    with one_blas_thread():  # so few samples: more threads would only wait for each other
        for method in (one for one in registry.methods().values() if not one.missing):
            some = slice(0, SQUARE if method.square else None)
            watch = Stopwatch()
            estimator = method.make(n_clusters, seed, device, verbose)
            found = estimator.fit_predict(views if method.of_views else labels[some])
            row = {"method": method.title, "samples": len(found), "seconds": watch.seconds()}
            rows.append(row | _score(truth[some], found))
            consensus = found if method.name == SHOWN else consensus
    said: dict[str, Any] = {"samples": len(features), "partitions": partitions, "device": device}
    said["not_run"] = {one.title: f"needs {one.missing}" for one in registry.methods().values() if one.missing}
    said["scores"] = [*rows[:2], {"method": "a k-means partition, on average"} | base, *rows[2:]]
    if plot is not None:
        draw(figure, plot, labels, consensus, device)
        said["plot"] = plot
    if report is not None:
        several = ConsensusClustering(NUMBERS, random_state=seed, device=device, verbose=verbose).fit(features)
        reports.write(of_features(several, order, seed), report, None, "handwritten digits")
        said |= {"report": report} | reports.why(several.choice_)
    return said


def _of_features(features: Any, truth: Any, n_clusters: int, seed: int, device: str) -> list[dict[str, Any]]:
    """Score what a user of features would type, beside scikit-learn's k-means."""
    from sklearn.cluster import KMeans

    rows = []
    for name, estimator in (
        ("k-means, best of 10", KMeans(n_clusters, n_init=10, random_state=seed)),
        ("ConsensusClustering of features", ConsensusClustering(n_clusters, random_state=seed, device=device)),
    ):
        watch = Stopwatch()
        found = estimator.fit_predict(features)
        row = {"method": name, "samples": len(found), "seconds": watch.seconds()}
        rows.append(row | _score(truth, found))
    return rows


def new_figure(path: str) -> Any:
    """Make an empty figure that will be drawn into that file; raise, before any work, if it cannot be."""
    outputs.check(path, (".png", ".pdf", ".svg"))
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ModuleNotFoundError('--plot needs matplotlib: pip install "gpuensemble[plot]".') from None
    return Figure(figsize=(7.2, 6), layout="constrained")


def draw(figure: Any, path: str, labels: Any, consensus: Any, device: str) -> None:
    """Draw the co-association picture of a consensus."""
    from gpuensemble import plot

    plot.coassociation(labels, consensus, ax=figure.subplots(), device=device)
    with whole_file(path) as file:
        figure.savefig(file, format=path[-3:], dpi=150)


def table(report: dict[str, Any]) -> str:
    """Write a line about the data, then a line per method."""
    lines = ["{samples} samples, {partitions} base partitions, on {device}".format(**report)]
    lines.append(f"{'':32} {'NMI':>6} {'ARI':>6} {'seconds':>8}")
    for row in report["scores"]:
        seconds = f"{row['seconds']:8.2f}" if "seconds" in row else ""
        fewer = f"  of the first {row['samples']}" if row.get("samples", report["samples"]) < report["samples"] else ""
        lines.append(f"{row['method']:32} {row['nmi']:6.3f} {row['ari']:6.3f} {seconds}{fewer}".rstrip())
    lines += [f"not run: {name} ({reason})" for name, reason in report["not_run"].items()]
    if "plot" in report:
        lines.append(f"co-association picture: {report['plot']}")
    if "report" in report:
        lines.append(f"report on {NUMBERS[0]} to {NUMBERS[-1]} clusters of the features: {report['report']}")
        lines.append(report["why"])
    return "\n".join(lines)


def _score(truth: Any, found: Any) -> dict[str, float]:
    return {"nmi": metrics.nmi(truth, found), "ari": metrics.ari(truth, found)}


def _mean(scores: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}
