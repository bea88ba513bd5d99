"""The nearest rows of every row, searched in the way that suits the size, or that the caller chose."""

from typing import Any

from gpuensemble._array.devices import Array, namespace, to_device, to_host
from gpuensemble._graphs import libraries
from gpuensemble._graphs.distances import Rows
from gpuensemble._graphs.search import exact, inverted

METRICS = ("sqeuclidean", "cosine")
METHODS = ("auto", "exact", "inverted", *libraries.LIBRARIES)
AFFORDABLE = {"cpu": 1e11, "cuda": 1e14}  # products of an exact search, n * n * d, at most by default
CHECKED = 500  # rows by which the recall of a search that is not exact is measured


def nearest_rows(rows: Rows, q: int, method: str, n_probes: int, rng: Any) -> tuple[Array, str]:
    """Find the q nearest of every row, at most all others, and say how they were searched."""
    n, d = rows.X.shape
    if n < 2:
        raise ValueError(f"`X` must have at least two rows to have neighbours, got n_samples={n}.")
    q = min(q, n - 1)
    if method == "auto":
        method = _method(n, d, rows.device)
    if method == "exact":
        return exact(rows, q), method
    if method == "inverted":
        return inverted(rows, q, n_probes, rng), method
    return libraries.search(rows, q, method, rng), method


def _method(n: int, d: int, device: str) -> str:
    """Choose how to search."""
    if n * n * d <= AFFORDABLE["cpu" if device == "cpu" else "cuda"]:
        return "exact"
    return "cuvs" if device != "cpu" and libraries.is_there("cuvs") else "inverted"


def measured_recall(rows: Rows, found: Array, rng: Any) -> float:
    """Return the share of the true neighbours that were found, of some random rows."""
    n = len(found)
    chosen = to_device(rng.choice(n, min(n, CHECKED), replace=False), rows.device)
    true, seen = to_host(exact(rows, found.shape[1], chosen)), to_host(found[chosen])
    xp = namespace(true)
    return float(xp.mean([xp.isin(one, other).mean() for one, other in zip(true, seen, strict=True)]))
