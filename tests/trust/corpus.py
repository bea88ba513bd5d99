"""A small sound file of every format that we read, the road that a user takes with it, and what is right."""

import contextlib
import io
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import independent
import numcodecs
import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import zarr
from independent import Read
from scipy.sparse import csc_matrix, csr_matrix, save_npz

import gpuensemble as ge
from gpuensemble._cli.main import main

RNG = np.random.default_rng(0)
LABELS = np.where(RNG.random((12, 3)) < 0.1, -1, (np.arange(12)[:, None] // 4 + RNG.integers(0, 2, (12, 3))) % 4)
FEATURES = np.round(RNG.normal(size=(12, 3)) + 3 * (np.arange(12)[:, None] % 2), 3)
COUNTS = np.where(RNG.random((12, 12)) < 0.7, 0, RNG.integers(1, 9, (12, 12))).astype(float)
IDS = [f"s{i}" for i in range(12)]
WORDS = np.array(["red", "green", "blue", "grey", None], object)[LABELS]


class Refused(Exception):
    """The command line gave this sentence."""


class Format(NamedTuple):
    """A kind of file: its name, how it is written, which road reads it, and which reader tells the right answer."""

    name: str
    write: Callable[[Path], Any]
    road: Callable[[Path], Any]
    answer: Callable[[Read], Any]  # of a table in memory
    read: Callable[[Path], Read] | Read  # the table itself: a checksum guards it, so that no other is right


def command(*arguments: Any) -> dict[str, Any]:
    """Run a command; return the columns that it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*map(str, arguments), "--device", "cpu", "--json"])
    lines = [line for line in err.getvalue().splitlines() if not TAKEN_FOR.match(line)]
    told = [line for line in lines if not (line.startswith("gpuensemble: warning: ") and OWN_WARNING.search(line))]
    if code == 0 and not told:
        return json.loads(out.getvalue()).get("table", {})
    if code == 2 and len(told) == 1 and not out.getvalue():
        raise Refused(told[0].removeprefix("gpuensemble: "))
    raise AssertionError(f"exit code {code}, {err.getvalue()!r}")


OWN_WARNING = re.compile("has another label in every row|is more than there are distinct rows|only . are not empty")
TAKEN_FOR = re.compile(r"gpuensemble: .*: \d+ samples x \d+ (partitions|features), ")  # on stderr, of every table


def estimator(**more: Any) -> Any:
    return ge.SEC(3, random_state=0, device="cpu", **more)


def fit_command(path: Path) -> Any:
    return command(
        "fit",
        path,
        "-k",
        3,
        "--method",
        "sec",
        *(("--header", "--id", "id") if path.suffix in (".csv", ".tsv") else ()),
    )


def fit(path: Path) -> Any:
    return {"label": estimator().fit(path).labels_.tolist()}


def consensus(table: Read) -> Any:
    return _beside(table, {"label": estimator().fit(table.values).labels_.tolist()})


def generate_command(path: Path) -> Any:
    flags = ("--header", "--id", "id") if path.suffix == ".csv" else ()
    return command("generate", path, "-r", 4, "-k", "2-3", "--how", "random-k", *flags)


def partitions(table: Read) -> Any:
    found = ge.generate.random_k(table.values, 4, (2, 3), random_state=0, device="cpu")
    return _beside(table, {f"p{i}": column.tolist() for i, column in enumerate(found.T)})


def segments_command(path: Path) -> Any:
    labels, out = path.with_name("labels.npy"), path.with_name("consensus.npy")
    command("fit-segments", path, "-k", 2, "-r", 6, "--ratio", 0.5, "--labels", labels, "--out", out)
    return {"labels": np.load(labels).tolist(), "label": np.load(out).tolist()}


def segments(table: Read) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        labels = Path(folder, "labels.npy")
        found = ge.segments.consensus(
            table.values, 2, labels, n_partitions=6, row_ratio=0.5, random_state=0, device="cpu"
        )
        return {"labels": np.load(labels).tolist(), "label": found.labels_.tolist()}


def _beside(table: Read, columns: dict[str, Any]) -> dict[str, Any]:
    return columns if table.ids is None else {"id": table.ids, **columns}


def resume(path: Path) -> Any:
    """Go on from the file; it is damaged between the fit that wrote it and the one that resumes."""
    return {"label": estimator(checkpoint=str(path), resume=True).fit(LABELS).labels_.tolist()}


def write_checkpoint(path: Path) -> None:
    estimator(checkpoint=str(path)).fit(LABELS)


def write_text(table: Any) -> Callable[[Path], Any]:
    frame = pd.DataFrame(table, columns=["a", "b", "c"])
    frame.insert(0, "id", IDS)
    return lambda path: frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


def write_npy(table: Any) -> Callable[[Path], Any]:
    return lambda path: np.save(path, table)


def write_npz(**arrays: Any) -> Callable[[Path], Any]:
    return lambda path: np.savez(path, **arrays)


def write_parquet(table: Any, **options: Any) -> Callable[[Path], Any]:
    arrow = pyarrow.table({f"p{i}": list(column) for i, column in enumerate(table.T)})
    return lambda path: pyarrow.parquet.write_table(arrow, path, row_group_size=5, **options)


def write_parquet_of_pandas(path: Path) -> None:
    frame = pd.DataFrame(LABELS, columns=["a", "b", "c"]).astype("Int64").mask(LABELS < 0)
    frame.assign(id=IDS).to_parquet(path)


def write_parts(path: Path) -> None:
    path.mkdir()
    for i in range(3):
        write_parquet(LABELS[4 * i : 4 * i + 4])(path / f"{i}.parquet")


def write_zarr(table: Any, **options: Any) -> Callable[[Path], Any]:
    def write(path: Path) -> None:
        stored = zarr.create_array(str(path), shape=table.shape, chunks=(5, 2), dtype=table.dtype, **options)
        stored[:] = table

    return write


BLOSC = numcodecs.Blosc()
LONG = WORDS.astype("U99")  # a member of an archive that NumPy does not read at once
FORMATS = [
    Format("labels.csv", write_text(LABELS), fit_command, consensus, independent.text_labels),
    Format("words.tsv", write_text(WORDS), fit_command, consensus, independent.text_labels),
    Format("features.csv", write_text(FEATURES), generate_command, partitions, independent.text_features),
    Format("bytes.npy", write_npy(LABELS.astype("int8")), fit, consensus, independent.array),
    Format("integers.npy", write_npy(LABELS), fit, consensus, independent.array),
    Format("columns.npy", write_npy(np.asfortranarray(LABELS, ">i2")), fit, consensus, independent.array),
    Format("floats.npy", write_npy(LABELS.astype("float32")), fit_command, consensus, independent.array),
    Format("words.npy", write_npy(WORDS.astype("U5")), fit_command, consensus, independent.array),
    Format("features.npy", write_npy(FEATURES), generate_command, partitions, independent.array),
    Format("segments.npy", write_npy(FEATURES), segments_command, segments, independent.array),
    Format("labels.npz", write_npz(labels=LONG, id=IDS), fit_command, consensus, Read(LONG, IDS)),
    Format(
        "rows.npz",
        lambda path: save_npz(path, csr_matrix(COUNTS)),
        generate_command,
        partitions,
        Read(csr_matrix(COUNTS)),
    ),
    Format(
        "columns.npz",
        lambda path: save_npz(path, csc_matrix(COUNTS)),
        generate_command,
        partitions,
        Read(csr_matrix(COUNTS)),
    ),
    Format("labels.parquet", write_parquet(LABELS), fit, consensus, independent.arrow),
    Format("words.parquet", write_parquet(WORDS, compression="zstd"), fit, consensus, independent.arrow),
    Format("pandas.parquet", write_parquet_of_pandas, fit_command, consensus, independent.arrow),
    Format("parts", write_parts, fit, consensus, independent.arrow),
    Format("labels.zarr", write_zarr(LABELS.astype("int8"), fill_value=-1), fit, consensus, independent.zarr_array),
    Format("second.zarr", write_zarr(LABELS, zarr_format=2, compressors=BLOSC), fit, consensus, independent.zarr_array),
    Format("segments.zarr", write_zarr(FEATURES), segments_command, segments, independent.zarr_array),
    Format("checkpoint", write_checkpoint, resume, consensus, Read(LABELS)),
]
