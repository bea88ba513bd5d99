"""No command writes over what it reads, nor twice into one file, by whatever name: this is refused before any work."""

import argparse
import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpuensemble._cli import arguments, main

OUTPUTS = {
    "demo": {"--plot": "png", "--report": "html"},
    "cluster x.csv -k 2": {"--out": "csv", "--labels": "npz", "--plot": "svg", "--report": "html"},
    "fit x.csv -k 2": {"--out": "csv", "--plot": "pdf"},
    "fit cells.h5ad -k 2 --keys a,b": {"--out": "h5ad", "--plot": "png"},
    "fit x.csv -k 2 --method sec --set": {"out": "npy", "checkpoint": "state"},
    "report x.csv -k 2": {"--out": "html", "--labels": "parquet"},
    "fit-views y.csv x.csv -k 2": {"--out": "tsv.gz"},
    "generate x.csv -k 2": {"--out": "txt"},
    "fit-segments x.npy -k 2": {"--labels": "npy", "--out": "npy", "--checkpoint": "state"},
    "bench --against x.json": {"--out": "json"},
}
NEEDED = {"report": ("--out",), "fit-segments": ("--labels", "--out")}
PAIRS = [(command, pair) for command, outputs in OUTPUTS.items() for pair in itertools.combinations(outputs, 2)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with something to read, of any kind."""
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"id": [f"s{i}" for i in range(12)], "a": np.arange(12) % 2, "b": np.arange(12) % 2})
    table.to_csv("x.csv", index=False)
    table.to_csv("y.csv", index=False)
    np.save("x.npy", np.random.default_rng(0).random((40, 2)))
    for name in ("x.json", "cells.h5ad"):
        Path(name).write_text("{}")
    return tmp_path


def content():
    return {path: Path(path).read_bytes() for path in sorted(os.listdir()) if os.path.isfile(path)}


def assert_refused(capsys, words, message):
    """One sentence, before anything is said of what was read, and nothing is written."""
    before = content()
    assert main.main(words) == 2
    assert capsys.readouterr() == ("", f"gpuensemble: {message}\n")
    assert content() == before


def flag(name, path):
    """The words for an output, and what a message calls it."""
    return ([name, path], name) if name.startswith("--") else ([f"{name}={path}"], f"--set {name}")


@pytest.mark.parametrize(
    ("command", "name", "ending"),
    [(command, *each) for command, outputs in OUTPUTS.items() if "x." in command for each in outputs.items()],
)
def test_what_is_read_is_not_overwritten(capsys, folder, command, name, ending):
    words = command.split()
    read = next(word for word in words if word.startswith("x."))
    Path(f"link.{ending}").symlink_to(read)
    there, called = flag(name, f"./link.{ending}")
    more = [word for other in NEEDED.get(words[0], ()) if other != name for word in (other, f"o{other}.npy")]
    message = f"`{called}` must be another file than the one that is read, got './link.{ending}'."
    assert_refused(capsys, [*words, *more, *there], message)


@pytest.mark.parametrize(("command", "pair"), PAIRS)
def test_two_outputs_do_not_go_to_one_file(capsys, folder, command, pair):
    words, outputs = command.split(), []
    for i, name in enumerate(pair):
        path = f"{i}.{OUTPUTS[command][name]}"
        Path(path).symlink_to("not there yet")
        outputs.append((*flag(name, path), path))
    more = [word for other in NEEDED.get(words[0], ()) if other not in pair for word in (other, f"o{other}.npy")]
    first, second = sorted(outputs, key=lambda each: main.WRITTEN.index(each[1].split()[-1].strip("-")))
    words += [*more, *first[0], *(["--set"] if second[1].startswith("--set") else []), *second[0]]
    assert_refused(capsys, words, f"`{second[1]}` must be another file than `{first[1]}`, got '{second[2]}' for both.")


def test_tables_of_a_report_are_files_too(capsys, folder):
    os.mkdir("tables")
    os.rename("x.csv", "tables/samples.csv")
    message = "`--tables` must be another file than the one that is read, got 'tables/samples.csv'."
    command = "report tables/samples.csv -k 2 --out r.html --tables ./tables"
    assert_refused(capsys, command.split(), message)
    message = "`--tables` must be another file than `--labels`, got 'tables/clusters.csv' for both."
    command = "cluster y.csv -k 2 --report r.html --tables tables --labels ./tables/clusters.csv"
    assert_refused(capsys, command.split(), message)


def test_what_stdin_comes_from_is_not_overwritten(capsys, folder, monkeypatch):
    if not os.path.exists("/dev/stdin"):
        pytest.skip("stdin has no name here")
    before = os.dup(0)
    with open("x.csv") as file:
        os.dup2(file.fileno(), 0)
        try:
            message = "`--out` must be another file than the one that is read, got 'x.csv'."
            assert_refused(capsys, ["fit", "-", "-k", "2", "--out", "x.csv"], message)
        finally:
            os.dup2(before, 0)
            os.close(before)


def test_every_option_that_names_a_file_is_known():
    """Else it would be written to, or read, without a look at the others."""
    (commands,) = (one for one in arguments.parser()._actions if isinstance(one, argparse._SubParsersAction))
    options = [option for parser in commands.choices.values() for option in parser._actions]
    files = {option.dest for option in options if option.metavar in ("FILE", "FOLDER")}
    places = {option.dest for option in options if not option.option_strings and option.dest != "help"}
    assert files | places == {*main.READ, *main.WRITTEN}


SEGMENTS = "fit-segments x.npy -k 2 -r 10 --labels labels.npy --out out.npy --device cpu"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--set init=foo", "`init` must be one of 'spectral', 'k-means++', 'random', got 'foo'."),
        ("--set n_init=0", "`n_init` must be at least 1, got 0."),
        ("--set max_iter=0", "`max_iter` must be at least 1, got 0."),
        ("--set dtype=int", "`dtype` must be one of 'float32', 'float64', got 'int'."),
        ("--set cluster_weight=x", "`cluster_weight` must be one of 'entropy', got 'x'."),
        ("--set partition_weight=[1,2]", "`partition_weight` must have n_partitions=10 entries, got 2."),
        ("--set verbose=-1", "`verbose` must be at least 0, got -1."),
        ("-k 41 --base-k 2", "`n_clusters` must be between 1 and n_samples=40, got 41."),
        ("--checkpoint no/state", "`checkpoint` must be a file in a folder that is there, got 'no/state'."),
        (
            "--out labels.confidence.npy --labels labels.confidence.confidence.npy",
            "`out` must be another file than `labels`, got",
        ),
    ],
)
def test_bad_parameters_of_segments_are_refused_before_anything_is_written(capsys, folder, option, message):
    before = content()
    assert main.main([*SEGMENTS.split(), *option.split()]) == 2
    assert message in capsys.readouterr().err
    assert content() == before
