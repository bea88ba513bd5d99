"""A fit over blocks gives back an entry for each row of the table: in memory, on disk or on a cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpuensemble._array.devices import to_device, to_host
from gpuensemble._array.messages import shown
from gpuensemble._tables.blocks import InMemory, Table
from gpuensemble._tables.files import naming, refuse_input, refuse_shared, whole_files
from gpuensemble._tables.spread import Spread

DTYPES = ("int32", "float64")  # of labels and confidences


def columns(table: Table, out: Any, home: str, step: Callable, *shared: Any) -> tuple[Any, Any]:
    """Return the labels and confidences that `step` finds for each block.

    They are arrays in the caller's library, or on a cluster Dask arrays. With `out`, the path of an `.npy` file, both
    are written to disk, the confidences beside the labels, and come back memory-mapped.
    """
    if out is not None:
        return _on_disk(table, Path(out), step, shared)
    labels, confidence = table.columns(step, shared, DTYPES)
    if isinstance(table, InMemory | Spread):
        return to_device(labels, home), to_device(confidence, home)
    return labels, confidence


def check(out: Any, *inputs: Any) -> None:
    """Raise unless it is None, or a path that ends in .npy in a folder that is there, and none of the inputs.

    The confidences go beside the labels, under a name that the user did not give: they replace only what came with
    labels of that name.
    """
    if out is None:
        return
    if not isinstance(out, str | Path) or Path(out).suffix != ".npy":
        raise ValueError(f"`out` must be the path of an .npy file, got {shown(out)}.")
    if not Path(out).resolve().parent.is_dir():
        raise ValueError(f"`out` must be in a folder that is there, got {str(out)!r}.")
    beside = confidence_path(Path(out))
    for path in (out, beside):
        refuse_input(path, "out", *inputs)
    if beside.exists() and not Path(out).exists():
        rule = f"a name beside which {beside.name!r} can go"
        raise ValueError(f"`out` must be {rule}, got {str(out)!r} where that file is there already.")


def check_apart(read: Any, out: Any, **others: Any) -> None:
    """Raise unless outputs, each the parameter of its name, are different files, and none is the one that is read."""
    check(out, read)
    for name, output in others.items():
        refuse_input(output, name, read)
    beside = None if out is None else confidence_path(Path(out))
    refuse_shared([*others.items(), ("out", out), ("out", beside)])


def confidence_path(out: Path) -> Path:
    """Return the path of the confidences, which is beside that of the labels."""
    return out.with_suffix(".confidence.npy")


def _on_disk(table: Table, out: Path, step: Callable, shared: tuple) -> tuple[Any, Any]:
    """Write both files to the end before either takes its name."""
    paths = (str(out), str(confidence_path(out)))
    with whole_files(*paths) as files:
        for path, file, dtype in zip(paths, files, DTYPES, strict=True):
            header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (table.n_rows,)}
            with naming(path):
                np.lib.format.write_array_header_1_0(file, header)
        for parts in table.in_turn(step, *shared):
            for path, file, part, dtype in zip(paths, files, parts, DTYPES, strict=True):
                with naming(path):
                    file.write(to_host(part).astype(dtype, copy=False).tobytes())
    labels, confidence = (np.load(path, mmap_mode="r") for path in paths)
    return labels, confidence
