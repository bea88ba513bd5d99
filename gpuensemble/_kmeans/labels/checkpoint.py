"""A checkpoint keeps the state of a fit in a file.

It is written every few iterations, whole or not at all; nothing in it is unpickled. The file knows what it belongs to:
the content of the table, row by row, and every parameter that changes the result.
"""

import hashlib
import io
import json
import numbers
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import rows
from gpuensemble._array.devices import device_of, namespace, to_host
from gpuensemble._kmeans.labels.labellings import ByCosts
from gpuensemble._kmeans.labels.lloyd import Problem, Progress
from gpuensemble._kmeans.labels.statistics import Statistics
from gpuensemble._tables.blocks import Block, Table
from gpuensemble._tables.files import whole_file

EVERY = 5  # iterations between two writings
WORD = 1 << 64
MAGIC = b"gpuensemble checkpoint 2\n"  # another number whenever the content means something else


class Saved(NamedTuple):
    """This says how far a fit got: at which start it was, how far in it, and what the best start before it found."""

    entropy: Any  # of the random draws
    run: int  # the number of the current start
    current: Progress | None
    best: Progress | None  # of the starts before


class Checkpoint(NamedTuple):
    """A checkpoint names a file, says what the file belongs to, and whether to go on from it."""

    path: str
    key: str
    resume: bool

    def note(self, saved: Saved, n_new: int) -> None:
        """Save the state of a run after new iterations, if one of every few or the last one is among them."""
        progress = saved.current
        if progress is not None and (progress.converged or len(progress.evaluated) % EVERY < n_new):
            save(self.path, self.key, saved)

    def load(self, problem: Problem) -> Saved | None:
        """Load the state that a fit is to go on from; return None if there is nothing to go on from."""
        return load(self.path, self.key, problem) if self.resume else None


def key_of(table: Table, parameters: dict[str, Any]) -> str:
    """Make a key of the content of a table, in the order of its rows, and of parameters."""
    parts = [f"{name}={_canonical(value)}" for name, value in sorted(parameters.items())]
    parts += [str(table.n_rows), _canonical(table.widths), _canonical(table.weight), *map(str, content(table))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def content(table: Table) -> tuple[int, int]:
    """Make two hashes of all labels and of the order of the rows.

    They are sums over rows, and so the same for any blocks and workers.
    """
    one, two = table.total(_content)
    return one % WORD, two % WORD


def _content(block: Block) -> tuple[int, int]:
    """Sum the hashes over the rows of a block, as integers that cannot overflow."""
    codes = block.m.codes
    xp = namespace(codes)
    hashes = block.of_table(rows.hashes(codes, 0, canonical=True))
    place = xp.arange(block.first, block.first + block.n_rows).astype("uint64")
    found = []
    for seed in (1, 2):
        mixed = rows.hashes(xp.stack([hashes, place], axis=1), seed)
        # halves of the words, so that no sum of rows wraps around
        low, high = (mixed & 0xFFFFFFFF).astype("int64").sum(), (mixed >> 32).astype("int64").sum()
        found.append(int(low) + (int(high) << 32))
    return found[0], found[1]


def _canonical(value: Any) -> str:
    """Make a text that is the same for equal values: numbers of any type, arrays in any library."""
    if value is None or isinstance(value, str):
        return repr(value)
    if isinstance(value, bool | np.bool_):
        return repr(bool(value))
    if isinstance(value, numbers.Integral):
        return repr(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, np.random.Generator | np.random.RandomState | np.random.SeedSequence):
        return "drawn"  # the file holds what was drawn
    array = to_host(value) if device_of(value) != "cpu" else np.asarray(value)
    return f"{array.shape} {hashlib.sha256(array.astype('float64').tobytes()).hexdigest()}"


def save(path: str, key: str, saved: Saved) -> None:
    """Write the file anew. A start that is not yet past its first iteration is left out: it begins again."""
    arrays: dict[str, Any] = {"entropy": np.array(json.dumps(saved.entropy)), "run": np.array(saved.run)}
    for name, progress in (("current", saved.current), ("best", saved.best)):
        if progress is not None and isinstance(progress.labelling, ByCosts):
            arrays |= {f"{name}_{part}": value for part, value in _arrays(progress).items()}
    write(path, key, arrays)


def load(path: str, key: str, problem: Problem) -> Saved | None:
    """Load what a fit of the same table and parameters left in the file; return None if there is no file."""
    arrays = read(path, key)
    if arrays is None:
        return None
    progress = (_progress(arrays, name, problem) for name in ("current", "best"))
    return Saved(json.loads(str(arrays["entropy"])), int(arrays["run"]), *progress)


def write(path: str, key: str, arrays: dict[str, Any]) -> None:
    """Write arrays into a file, with what they belong to, and a checksum over all of it."""
    content = io.BytesIO()
    np.savez(content, key=np.array(key), **arrays)
    with whole_file(path) as file:
        file.write(MAGIC + hashlib.sha256(content.getvalue()).digest() + content.getvalue())


def read(path: str, key: str) -> dict[str, Any] | None:
    """Read the arrays of a file that belongs to this; return None if there is no file."""
    if not Path(path).exists():
        return None
    text = Path(path).read_bytes()
    head = len(MAGIC) + hashlib.sha256().digest_size
    if not (text.startswith(MAGIC) and hashlib.sha256(text[head:]).digest() == text[len(MAGIC) : head]):
        raise ValueError(f"`checkpoint` must be a whole file that this version wrote, got another one in {path!r}.")
    with np.load(io.BytesIO(text[head:]), allow_pickle=False) as file:  # as we wrote it, to the last bit
        arrays = dict(file)
    if str(arrays["key"]) != key:
        rule = "of the same table and parameters to resume from"
        raise ValueError(f"`checkpoint` must be {rule}, got others in {path!r}.")
    return arrays


def _arrays(progress: Progress) -> dict[str, Any]:
    labelling, (counts, masses) = progress.labelling, progress.statistics.to("cpu")
    made = labelling.statistics.to("cpu")
    codes, clusters = zip(*labelling.fillers, strict=True) if labelling.fillers else ((), ())
    arrays = {
        "made_counts": made.counts,
        "made_masses": made.masses,
        "filler_codes": np.array(codes, "int64"),
        "filler_clusters": np.array(clusters, "int64"),
        "counts": counts,
        "masses": masses,
        "path": np.array(progress.path),
        "evaluated": np.array(progress.evaluated),
        "converged": np.array(progress.converged),
    }
    return {name: value for name, value in arrays.items() if value is not None}


def _progress(arrays: dict[str, Any], name: str, problem: Problem) -> Progress | None:
    if f"{name}_counts" not in arrays:
        return None

    def part(of: str) -> Any:
        return arrays.get(f"{name}_{of}")

    device = problem.table.device
    made = Statistics(part("made_counts"), part("made_masses")).to(device)
    fillers = tuple(zip(map(tuple, part("filler_codes").tolist()), part("filler_clusters").tolist(), strict=True))
    return Progress(
        ByCosts(made, problem.priced(made).tables, fillers),
        Statistics(part("counts"), part("masses")).to(device),
        part("path").tolist(),
        part("evaluated").tolist(),
        bool(part("converged")),
    )
