"""One HTML file on a consensus, and its tables."""

import numbers
from pathlib import Path
from typing import Any

from gpuensemble._array import checks, random
from gpuensemble._array.messages import shown
from gpuensemble._report.findings import TABLES, Findings, found_in, tables_of
from gpuensemble._report.sections import page
from gpuensemble._tables.files import whole_file


def report(
    data: Any,
    n_clusters: Any,
    *,
    out: Any,
    consensus: Any = "sec-entropy",
    tables: Any = None,
    title: str = "Consensus clustering",
    random_state: Any = None,
    device: str = "auto",
    verbose: int = 0,
) -> Findings:
    """Find a consensus, and write what is known of it into one HTML file that needs nothing else.

    It shows the input, the choice of K, the clusters, how sure each sample is, pictures, and how to repeat it. It needs
    matplotlib: the extra `plot`. The same input and seed make the same file.

    Parameters
    ----------
    data : n x r table of labels, or n x d matrix of features
        Which of the two, `consensus` says, as in `choose_k`. Names of samples and partitions are those of a DataFrame.
    n_clusters : int, range or list of int
        The number of clusters; of several, `choose_k` chooses one. If none is clear, the report says so, and shows the
        one with the greatest `excess`.
    out : path
        The file, which ends in .html. It is written whole or not at all.
    consensus : str, estimator of a table of labels, or ConsensusClustering
        As in `choose_k`; a `ConsensusClustering` takes features.
    tables : path, optional
        A folder, made if it is not there, for all tables as CSV files: samples, clusters, partitions, item_consensus,
        and of several numbers of clusters also numbers and labels_of_numbers.
    title : str
        The title of the page.
    random_state : None, int or numpy.random.Generator
        The seed of everything random; the report names the one that was used.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    verbose : int
        1: progress bars on stderr.

    Returns
    -------
    Findings
        With `labels`, `choice`, `stability`, `tree`, `partitions`, `confidence` and `settings`.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> from sklearn.datasets import load_iris
    >>> X, method = load_iris().data, ge.ConsensusClustering(2, device="cpu")
    >>> found = ge.report(X, range(2, 6), consensus=method, random_state=0, out="report.html")  # doctest: +SKIP
    >>> found.choice.recommended, found.labels, found.stability.samples  # doctest: +SKIP
    """
    check(out, tables)
    seed = _seed(random_state)
    found = found_in(data, n_clusters, consensus, seed, device, verbose)
    call = f"ge.report(data, {n_clusters!r}, consensus={consensus!r}, random_state={seed}, out={str(out)!r})"
    write(found, out, tables, title, f"import gpuensemble as ge\n\n{call}")
    return found


def check(out: Any, tables: Any) -> None:
    """Raise, before any work, if the report cannot be written."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ModuleNotFoundError('`report` needs matplotlib: pip install "gpuensemble[plot]".') from None
    if not (checks.path(out, "out") or "").endswith(".html"):
        raise ValueError(f"`out` must end in .html, got {shown(out)}.")
    if tables is not None and Path(tables).exists() and not Path(tables).is_dir():
        raise ValueError(f"`tables` must be a folder, or nothing yet, got {shown(str(tables))}.")


def files_of(tables: Any) -> list[str]:
    """Return the paths of all tables that may be written into that folder, none for None."""
    return [] if tables is None else [str(Path(tables) / f"{name}.csv") for name in TABLES]


def write(found: Findings, out: Any, tables: Any, title: str, command: str) -> None:
    """Write the page, and the tables if a folder is named."""
    content = page(found, title, command)
    with whole_file(str(out)) as file:
        file.write(content)
    if tables is None:
        return
    Path(tables).mkdir(parents=True, exist_ok=True)
    for name, frame in tables_of(found).items():
        with whole_file(str(Path(tables) / f"{name}.csv")) as file:
            frame.to_csv(file, mode="wb")


def _seed(random_state: Any) -> int:
    """Return the seed itself, or one drawn from it, which a report can name."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(random.generators(random_state, 1)[0].integers(1 << 31))
