"""The command that writes a report, and what the other one with a report shares with it."""

import shlex
import sys
from pathlib import Path
from typing import Any, Literal

from gpuensemble._cli.tables import files, outputs, recognition
from gpuensemble._report import report as page
from gpuensemble._report.findings import Findings, found_in

STABILITY = ("consensus", "other", "margin", "kept")  # columns beside the labels


def of_labels(
    path: str,
    clusters: tuple[int, int | None],
    method: str,
    out: str,
    tables: str | None,
    labels: str | None,
    seed: int,
    device: str,
    id_column: str | Literal[False] | None,
    header: bool | None,
    sep: str | None,
    verbose: int,
) -> dict[str, Any]:
    """Write a report on the consensus of a table of labels."""
    check(out, tables)
    outputs.check(labels)
    table = files.read_labels(path, id_column, header, sep)
    if id_column is not False:
        recognition.refuse_ids_among_labels(table.values, path)
    found = found_in(table.values, numbers(clusters), method, seed, device, verbose)
    columns = {"label": found.labels.to_numpy()} | write(found, out, tables, path)
    if labels is not None:
        outputs.write(labels, columns, table)
    n, r = found.partitions.shape
    said = {"samples": n, "partitions": r, "clusters": len(found.stability.clusters), "out": out}
    return said | ({} if table.ids is None else {"ids": outputs.id_name(columns, table)}) | why(found.choice)


def numbers(clusters: tuple[int, int | None]) -> int | range:
    """Return one number of clusters, or all from the first to the last."""
    low, high = clusters
    if high is not None and high <= low:
        raise ValueError(f"`-k` must be a number or LOW-HIGH, the first below the second, got {low}-{high}.")
    return low if high is None else range(low, high + 1)


def check(report: str | None, tables: str | None) -> None:
    """Raise, before any work, if a report or its tables cannot be written."""
    if report is None and tables is not None:
        raise ValueError(f"`--tables` must go with a report, got {tables!r} alone.")
    if report is not None:
        outputs.check(report, (".html",))
        page.check(report, tables)


def write(found: Findings, out: str, tables: str | None, path: str) -> dict[str, Any]:
    """Write the report; return columns on the stability of samples, to stand beside their labels."""
    command = shlex.join(["gpuensemble", *sys.argv[1:]])
    page.write(found, out, tables, f"Consensus clustering of {Path(path).name}", command)
    samples = found.stability.samples
    return {name: samples[name].to_numpy() for name in STABILITY if name in samples}


def why(choice: Any) -> dict[str, Any]:
    """Return what a report says on a number of clusters that was chosen."""
    return {} if choice is None else {"recommended": choice.recommended, "why": choice.why}
