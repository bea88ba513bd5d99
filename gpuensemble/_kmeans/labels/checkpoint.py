"""The state of a fit in a file: written every few iterations, whole or not at all; nothing in it is unpickled."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._kmeans.labels.lloyd import Cheapest, Costs, Progress, Statistics
from gpuensemble._tables.whole import whole

EVERY = 5  # iterations between two writings


class Saved(NamedTuple):
    """How far a fit got."""

    entropy: Any  # of the random draws
    run: int  # the number of the current start
    current: Progress | None
    best: Progress | None  # of the starts before


def key_of(*parts: Any) -> str:
    """A name for a table and the settings of a fit."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def save(path: str, key: str, saved: Saved) -> None:
    """Write the file anew. A start that is not yet past its first iteration is left out: it begins again."""
    arrays: dict[str, Any] = {
        "key": np.array(key),
        "entropy": np.array(json.dumps(saved.entropy)),
        "run": np.array(saved.run),
    }
    for name, progress in (("current", saved.current), ("best", saved.best)):
        if progress is not None and isinstance(progress.recipe, Cheapest):
            arrays |= {f"{name}_{part}": value for part, value in _arrays(progress).items()}
    with whole(path) as file:
        np.savez(file, **arrays)


def load(path: str, key: str, costs: Costs, complete: bool) -> Saved | None:
    """What a fit of the same table and settings left there; None if there is no file."""
    if not Path(path).exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        found = str(arrays["key"])
        saved = Saved(
            json.loads(str(arrays["entropy"])),
            int(arrays["run"]),
            *(_progress(arrays, name, costs, complete) for name in ("current", "best")),
        )
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"`checkpoint` must be a file that `fit` wrote, got something else in {path!r}.") from None
    if found != key:
        raise ValueError(f"`checkpoint` must be of the same table and settings to resume from, got others in {path!r}.")
    return saved


def _arrays(progress: Progress) -> dict[str, Any]:
    recipe = progress.recipe
    codes, clusters = zip(*recipe.fillers, strict=True) if recipe.fillers else ((), ())
    arrays = {
        "made_counts": recipe.statistics.counts,
        "made_masses": recipe.statistics.masses,
        "filler_codes": np.array(codes, "int64"),
        "filler_clusters": np.array(clusters, "int64"),
        "counts": progress.statistics.counts,
        "masses": progress.statistics.masses,
        "path": np.array(progress.path),
        "evaluated": np.array(progress.evaluated),
        "converged": np.array(progress.converged),
    }
    return {name: value for name, value in arrays.items() if value is not None}


def _progress(arrays: dict[str, Any], name: str, costs: Costs, complete: bool) -> Progress | None:
    if f"{name}_counts" not in arrays:
        return None

    def part(of: str) -> Any:
        return arrays.get(f"{name}_{of}")

    made = Statistics(part("made_counts"), part("made_masses"))
    fillers = tuple(zip(map(tuple, part("filler_codes").tolist()), part("filler_clusters").tolist(), strict=True))
    return Progress(
        Cheapest(made, costs.tables(made, complete), fillers),
        Statistics(part("counts"), part("masses")),
        part("path").tolist(),
        part("evaluated").tolist(),
        bool(part("converged")),
    )
