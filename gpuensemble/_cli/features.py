"""The commands that take features: base partitions of them, and their consensus."""

import time
from typing import Any, Literal

from gpuensemble._array.devices import to_host
from gpuensemble._cli import demo, reports
from gpuensemble._cli.tables import files, outputs
from gpuensemble._report.findings import of_features
from gpuensemble.clustering import WAYS, ConsensusClustering

OF_ONE_NUMBER = ("random-features", "row-segments", "subsample")  # of clusters; the others take a range of them
RATIOS = {"random-features": "feature_ratio", "row-segments": "row_ratio", "subsample": "row_ratio"}
FEW = ("neighbor-graph", "spectral", "landmark-spectral")  # of which 20 partitions are enough


def make_partitions(
    path: str,
    n_partitions: int | None,
    clusters: tuple[int, int | None],
    how: str,
    ratio: float | None,
    distance: str,
    seed: int,
    device: str,
    out: str | None,
    drop: list[str],
    id_column: str | Literal[False] | None,
    header: bool | None,
    sep: str | None,
    verbose: int,
) -> dict[str, Any]:
    """Make base partitions of a table of features."""
    outputs.check(out)
    options = _options(how, clusters, ratio)
    table = files.read_features(path, id_column, header, tuple(drop), sep)
    r = (20 if how in FEW else 100) if n_partitions is None else n_partitions
    common = {"random_state": seed, "device": device, "distance": distance, "verbose": verbose}
    labels = to_host(WAYS[how](table.values, clusters[0], r, **common, **options))
    columns = {f"p{i}": labels[:, i] for i in range(labels.shape[1])}
    return outputs.written(columns, table, out) | {"samples": len(labels), "partitions": labels.shape[1]}


def _options(how: str, clusters: tuple[int, int | None], ratio: float | None) -> dict[str, Any]:
    """Return the arguments of a way to make partitions that -k and --ratio stand for."""
    low, high = clusters
    if high is not None and how in OF_ONE_NUMBER:
        raise ValueError(f"`-k` must be one number for --how {how}, got {low}-{high}.")
    if ratio is not None and how not in RATIOS:
        raise ValueError(f"`--ratio` must be left out for --how {how}, got {ratio:g}.")
    of_range = {} if high is None else {"k_range": (low, high)}
    return of_range if ratio is None else of_range | {RATIOS[how]: ratio}


def cluster(
    path: str,
    clusters: tuple[int, int | None],
    n_partitions: int,
    how: str,
    method: str,
    distance: str,
    seed: int,
    device: str,
    out: str | None,
    labels: str | None,
    plot: str | None,
    report: str | None,
    tables: str | None,
    confidence: bool,
    drop: list[str],
    id_column: str | Literal[False] | None,
    header: bool | None,
    sep: str | None,
    verbose: int,
) -> dict[str, Any]:
    """Find clusters of a table of features: base partitions, and their consensus."""
    for file in (out, labels):
        outputs.check(file)
    reports.check(report, tables)
    figure = None if plot is None else demo.new_figure(plot)
    table = files.read_features(path, id_column, header, tuple(drop), sep)
    estimator = ConsensusClustering(
        reports.numbers(clusters),
        partitions=how,
        n_partitions=n_partitions,
        consensus=method,
        distance=distance,
        random_state=seed,
        device=device,
        verbose=verbose,
    )
    start = time.perf_counter()
    estimator.fit(table.values)
    seconds = time.perf_counter() - start
    found, base = to_host(estimator.labels_), to_host(estimator.base_labels_)
    if confidence and estimator.confidence_ is None:
        raise ValueError(f"`--confidence` needs a method that has one, got {method!r}.")
    columns = {"label": found} | ({"confidence": to_host(estimator.confidence_)} if confidence else {})
    said = {
        "method": type(estimator.consensus_).__name__,
        "samples": len(found),
        "partitions": base.shape[1],
        "clusters": len(set(found.tolist())),
        "device": estimator.device_,
        "seconds": seconds,
    }
    if labels is not None:
        outputs.write(labels, {f"p{i}": base[:, i] for i in range(base.shape[1])}, table)
        said["labels"] = labels
    if report is not None:
        columns |= reports.write(of_features(estimator, table.ids, seed), report, tables, path)
        said["report"] = report
    said |= outputs.written(columns, table, out) | reports.why(estimator.choice_)
    if plot is not None:
        demo.draw(figure, plot, base, found, device)
        said["plot"] = plot
    return said
