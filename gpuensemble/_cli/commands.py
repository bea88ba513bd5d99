"""The commands take files in, and give a report out, as JSON can hold it."""

import ast
import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any, Literal

from gpuensemble import metrics, segments
from gpuensemble._array import checks
from gpuensemble._array.devices import to_host
from gpuensemble._cli import demo, h5ad
from gpuensemble._cli.bench import against as earlier
from gpuensemble._cli.bench import cases as bench_cases
from gpuensemble._cli.bench import model as bench_model
from gpuensemble._cli.bench import processes
from gpuensemble._cli.tables import files, matching, outputs, recognition
from gpuensemble.estimators._base import registry

OPTION_OF = {"n_clusters": "-k", "device": "--device"}  # what sets a parameter that `--set` does not
OF_SEGMENTS = {"out": "--out", "checkpoint": "--checkpoint", "resume": "--resume", "client": "--scheduler"}
SCORES = ("accuracy", "nmi", "ari", "purity", "precision", "recall", "f1")


def fit(
    path: str,
    n_clusters: int,
    method: str,
    seed: int,
    device: str,
    out: str | None,
    plot: str | None,
    confidence: bool,
    settings: list[str],
    drop: list[str],
    id_column: str | Literal[False] | None,
    header: bool | None,
    keys: list[str] | None,
    key_added: str | None,
    sep: str | None,
    verbose: int,
) -> dict[str, Any]:
    """Find the consensus of a table of labels."""
    more = _settings(settings, method, n_clusters, OPTION_OF)
    if path.endswith(h5ad.ENDING):
        h5ad.refuse_options(path, id=id_column, header=header, drop=next(iter(drop), None), sep=sep)
        _check_confidence(confidence, registry.methods()[method].estimator)
        common = {"method": method, "random_state": seed, "device": device, "verbose": verbose}
        return h5ad.fit(path, n_clusters, keys, key_added or "consensus", out, plot, confidence, more, **common)
    h5ad.refuse_options(path, keys=keys, **{"key-added": key_added})
    outputs.check(out)
    figure = None if plot is None else demo.new_figure(plot)
    table = files.read_labels(path, id_column, header, sep, tuple(drop))
    if id_column is not False:
        recognition.refuse_ids_among_labels(table.values, path)
    estimator = registry.methods()[method].make(n_clusters, seed, device, verbose, **more)
    report = _consensus(estimator, table, table.values, out, confidence) | {"partitions": table.values.shape[1]}
    if plot is not None:
        demo.draw(figure, plot, table.values, estimator.labels_, device)
        report["plot"] = plot
    return report


def fit_views(
    paths: list[str],
    n_clusters: int,
    method: str,
    seed: int,
    device: str,
    out: str | None,
    settings: list[str],
    id_column: str | Literal[False] | None,
    header: bool | None,
    sep: str | None,
    verbose: int,
) -> dict[str, Any]:
    """Find the consensus of several tables of features of the same samples."""
    given = _settings(settings, method, n_clusters, OPTION_OF)
    outputs.check(out)
    views = [files.read_features(path, id_column, header, sep=sep) for path in paths]
    table, matrices, present = matching.joined(views)
    estimator = registry.methods()[method].make(n_clusters, seed, device, verbose, **given)
    more = {} if present is None else {"present": present}
    return _consensus(estimator, table, matrices, out, False, **more) | {"views": len(views)}


def fit_segments(
    path: str,
    n_clusters: int,
    labels: str,
    out: str,
    partitions: str,
    n_partitions: int | None,
    row_ratio: float,
    base_clusters: int | None,
    distance: str,
    seed: int,
    device: str,
    scheduler: str | None,
    checkpoint: str | None,
    resume: bool,
    settings: list[str],
    verbose: int,
) -> dict[str, Any]:
    """Find the consensus of base partitions of features that need not fit into memory."""
    start = time.perf_counter()
    more = _settings(settings, "sec", n_clusters, OPTION_OF | OF_SEGMENTS)
    with _client(scheduler) as client:
        fitted = segments.consensus(
            path,
            n_clusters,
            labels,
            partitions=partitions,
            n_partitions=n_partitions,
            row_ratio=row_ratio,
            base_clusters=base_clusters,
            distance=distance,
            device=device,
            client=client,
            out=out,
            checkpoint=checkpoint,
            resume=resume,
            **{"random_state": seed, "verbose": verbose} | more,
        )
    return {
        "method": "SEC",
        "samples": len(fitted.labels_),
        "partitions": fitted.n_features_in_,
        "clusters": fitted.centers_.shape[1],
        "objective": fitted.objective_,
        "iterations": fitted.n_iter_,
        "device": fitted.device_,
        "seconds": time.perf_counter() - start,
        "labels": labels,
        "out": out,
    }


@contextlib.contextmanager
def _client(scheduler: str | None) -> Iterator[Any]:
    """Open a client of a Dask cluster, None without one. What is lost there is told once, by us, and not in a log."""
    if scheduler is None:
        yield None
        return
    from distributed import Client

    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with Client(scheduler) as client:
            yield client
    finally:
        logging.disable(before)


def score(
    truth: str,
    found: str,
    columns: tuple[str | None, str | None],
    id_column: str | Literal[False] | None,
    header: bool | None,
    sep: str | None,
) -> dict[str, Any]:
    """Score how well one partition agrees with another; rows are matched by their ids if the files have them."""
    one, two = (files.read_labels(path, id_column, header, sep) for path in (truth, found))
    y, z = (table.labels(column) for table, column in zip((one, two), columns, strict=True))
    rows = matching.paired(one, two)
    z = z.iloc[rows] if hasattr(z, "iloc") else z[rows]
    values = (metrics.accuracy(y, z), metrics.nmi(y, z), metrics.ari(y, z), metrics.purity(y, z))
    return {"samples": len(y), **dict(zip(SCORES, (*values, *metrics.pair_scores(y, z)), strict=True))}


def bench(
    device: str,
    samples: int,
    square: int | None,
    repeat: int,
    only: list[str],
    threads: int | None,
    busy: bool,
    against: str | None,
    model: str | None,
    quiet: bool,
    verbose: int,
) -> tuple[dict[str, Any], str, int]:
    """Time kernels and methods, or model them; return the report, its last lines, and the exit code."""
    if model is not None:
        report = bench_model.run(model, only, repeat)
        return report, bench_model.table(report), 0
    if threads is not None:
        processes.again_with(checks.integer(threads, "threads", 1))
    old = None if against is None else earlier.read(against)
    show = (lambda line: None) if quiet else (lambda line: print(line, flush=True))
    report = bench_cases.run(
        *(device, samples, repeat, only, show), square=square, threads=threads, busy=busy, verbose=verbose
    )
    differ = [result["case"] for result in report["results"] if not result["agree"]]
    verdict = f"FAIL: answers differ in {', '.join(differ)}" if differ else "all answers agree"
    rates = ", ".join(f"{name} {rate / 1e9:.1f} GB/s" for name, rate in report["copy_bytes_per_second"].items())
    text = f"{verdict}; a copy moves {rates}"
    if old is None:
        return report, text, int(bool(differ))
    changes = earlier.changes(old, report)
    slower = [change._asdict() | {"factor": change.factor} for change in changes if change.slower]
    report |= {"against": against, "slower": slower}
    return report, f"{text}\n{earlier.told(old, report, changes)}", int(bool(differ or slower))


def _consensus(
    estimator: Any, table: files.FileTable, samples: Any, out: str | None, confidence: bool, **more: Any
) -> dict[str, Any]:
    """Fit, and write or return the labels beside their ids."""
    _check_confidence(confidence, type(estimator))
    start = time.perf_counter()
    estimator.fit(samples, **more)
    seconds = time.perf_counter() - start
    columns = {"label": to_host(estimator.labels_)}
    if confidence:
        columns["confidence"] = to_host(estimator.confidence_)
    return {
        "method": type(estimator).__name__,
        "samples": len(columns["label"]),
        "clusters": len(set(columns["label"].tolist())),
        "objective": estimator.objective_,
        "iterations": estimator.n_iter_,
        "device": estimator.device_,
        "seconds": seconds,
        **outputs.written(columns, table, out),
    }


def _check_confidence(confidence: bool, kind: type) -> None:
    """Raise if confidences are asked of a method that has none."""
    if confidence and not hasattr(kind, "predict"):
        raise ValueError(f"`--confidence` needs a method that has one, got {kind.__name__}.")


def _settings(given: list[str], method: str, n_clusters: int, options: dict[str, str]) -> dict[str, Any]:
    """Parse parameters of a method; raise if it does not have one of them, or an option is there to set it."""
    found = parsed(given)
    for name, value in found.items():
        if name in options:
            raise ValueError(f"`--set` must leave `{name}` to {options[name]}, got {value!r}.")
    registry.methods()[method].make(n_clusters, None, "auto", **found)
    return found


def parsed(settings: list[str]) -> dict[str, Any]:
    """Parse name=value, the value as Python writes it, or true or false; anything else is text."""
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"`--set` must be NAME=VALUE, got {setting!r}.")
        try:
            found[name] = ast.literal_eval(value.capitalize() if value in ("true", "false") else value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found
