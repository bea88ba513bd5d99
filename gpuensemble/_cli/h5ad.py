"""Cells in an .h5ad file: partitions are columns of obs, and their consensus goes into a copy of the file."""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpuensemble import anndata as of_cells
from gpuensemble._array.devices import choose_device
from gpuensemble._cli import demo
from gpuensemble._cli.tables import files, outputs
from gpuensemble._tables.files import damage_named, naming, whole_file
from gpuensemble.estimators._base import registry

ENDING = ".h5ad"
NEGATED = {"id": "no-ids", "header": "no-header"}  # the options that make False of another one's value


def fit(
    path: str,
    n_clusters: int,
    keys: list[str] | None,
    key_added: str,
    out: str | None,
    plot: str | None,
    confidence: bool,
    settings: dict[str, Any],
    **options: Any,
) -> dict[str, Any]:
    """Find the consensus of columns of obs; write a whole copy of the file, or a table with the names of the cells."""
    outputs.check(out, (*files.ENDINGS, ENDING))
    figure = None if plot is None else demo.new_figure(plot)
    adata = _read(path)
    if keys is None:
        names = ", ".join(map(str, adata.obs.columns)) or "none"
        raise ValueError(f"`--keys` must name the partitions among the columns of obs, got none; there: {names}.")
    start = time.perf_counter()
    of_cells.consensus(adata, keys, n_clusters, key_added=key_added, **options | settings)
    seconds = time.perf_counter() - start
    report = {
        "method": registry.methods()[options["method"]].estimator.__name__,
        "samples": adata.n_obs,
        "partitions": len(keys),
        "clusters": len(adata.obs[key_added].cat.categories),
        "device": choose_device(options["device"]),
        "seconds": seconds,
    } | _written(adata, key_added, out, confidence, path)
    if plot is not None:
        demo.draw(figure, plot, adata.obs[keys], adata.obs[key_added].cat.codes.to_numpy(), options["device"])
        report["plot"] = plot
    return report


def refuse_options(path: str, **options: Any) -> None:
    """Raise if an option is given that the kind of the file has no use for."""
    for name, value in options.items():
        if value is not None:
            flag, given = (NEGATED[name], True) if value is False else (name, value)
            kind = "an" if path.endswith(ENDING) else "no"
            raise ValueError(f"`--{flag}` must be left out for `{path}`, {kind} {ENDING} file, got {given!r}.")


def _read(path: str) -> Any:
    try:
        import anndata
    except ImportError:
        raise ModuleNotFoundError(
            f'`{path}` needs a package that is not there: pip install "gpuensemble[anndata]".'
        ) from None
    if not Path(path).is_file():
        raise ValueError(f"`{path}` must be a file that is there, got {'a folder' if Path(path).is_dir() else 'none'}.")
    private = sys.modules.get("anndata._io.specs.registry")  # has the error for a kind of element that it does not know
    with damage_named(path, getattr(private, "IORegistryError", OSError)):
        return anndata.read_h5ad(path)


def _written(adata: Any, key_added: str, out: str | None, confidence: bool, path: str) -> dict[str, Any]:
    """Write all of the cells if the output is of their kind, else a table of labels."""
    if out is not None and out.endswith(ENDING):
        _write(adata, out)
        return {"out": out, "ids": "obs names"}
    columns = {"label": adata.obs[key_added].cat.codes.to_numpy("int32")}
    if confidence:
        columns["confidence"] = adata.obs[f"{key_added}_confidence"].to_numpy()
    return outputs.written(columns, files.FileTable(path, adata.obs, adata.obs_names, "cell"), out)


def _write(adata: Any, out: str) -> None:
    """Write all of the cells, whole or not at all: HDF5 goes to and fro in a file, so that it is made beside first."""
    with (
        naming(out),
        tempfile.NamedTemporaryFile(dir=Path(out).resolve().parent, prefix=".", suffix=".partial") as made,
        whole_file(out) as file,
    ):
        adata.write_h5ad(made.name)
        with Path(made.name).open("rb") as content:
            shutil.copyfileobj(content, file)
