"""The command that reads .h5ad files: a copy with the consensus, tables with the names of cells, and its sentences."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

import gpuensemble as ge
from gpuensemble._cli.main import main

anndata = pytest.importorskip("anndata", reason="anndata is not installed")
h5py = pytest.importorskip("h5py", reason="anndata, which brings h5py, is not installed")
KEYS = "p0,p1,p2"


@pytest.fixture(autouse=True)
def cells(tmp_path, monkeypatch):
    """Cells of three kinds in a file of the current folder, with a graph, a layer and holes."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = rng.choice(3, 90, p=[0.2, 0.3, 0.5])
    obs = pd.DataFrame({"kind": truth.astype(str)}, index=[f"cell{i}" for i in range(90)])
    for i in range(3):
        codes = np.where(np.arange(90) % 10 == i, -1, truth)
        obs[f"p{i}"] = pd.Categorical.from_codes(codes, list("xyz"))
    adata = anndata.AnnData(
        rng.random((90, 5)), obs=obs.astype({"kind": "category"}), layers={"more": np.ones((90, 5))}
    )
    adata.uns["note"] = "kept"
    adata.write_h5ad("cells.h5ad")
    return adata


def run(*words):
    return main(["fit", "cells.h5ad", "-k", "3", "--device", "cpu", *words])


def test_a_copy_with_the_consensus(cells, tmp_path, capsys):
    before = (tmp_path / "cells.h5ad").read_bytes()
    assert run("--keys", KEYS, "--out", "out.h5ad") == 0
    told = "90 samples x 3 partitions, ids in 'obs names', ClusterWalk on cpu: 3 clusters in"
    assert capsys.readouterr().out.startswith(told)
    found = anndata.read_h5ad("out.h5ad")
    assert ge.metrics.ari(found.obs["consensus"], cells.obs["kind"]) == 1
    assert found.obs["consensus"].cat.categories.tolist() == ["0", "1", "2"]
    assert found.uns["note"] == "kept"
    np.testing.assert_array_equal(found.layers["more"], 1)
    np.testing.assert_array_equal(found.X, cells.X)
    assert (tmp_path / "cells.h5ad").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cells.h5ad", "out.h5ad"]
    ge.anndata.consensus(cells, KEYS.split(","), 3, method="cluster-walk", device="cpu")
    np.testing.assert_array_equal(found.obs["consensus"], cells.obs["consensus"])
    np.testing.assert_array_equal(found.obs["consensus_confidence"], cells.obs["consensus_confidence"])


def test_a_table_with_the_names_of_the_cells(cells, capsys):
    assert run("--keys", KEYS, "--out", "out.csv", "--confidence", "--method", "kcc", "--set", "utility=entropy") == 0
    found = pd.read_csv("out.csv")
    assert list(found.columns) == ["cell", "label", "confidence"]
    assert found["cell"].tolist() == list(cells.obs_names)
    assert ge.metrics.ari(found["label"], cells.obs["kind"]) == 1
    capsys.readouterr()
    assert run("--keys", KEYS, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["table"]["label"] == found["label"].tolist()
    assert report["method"] == "ClusterWalk"


def test_another_name_and_a_picture():
    assert run("--keys", KEYS, "--key-added", "k3", "--out", "out.h5ad", "--plot", "heat.png") == 0
    assert {"k3", "k3_confidence"} < set(anndata.read_h5ad("out.h5ad").obs)
    assert "consensus" not in anndata.read_h5ad("out.h5ad").obs


def test_a_file_that_cannot_be_written_whole_is_not_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "out.h5ad").write_text("before")

    def broken(self, path):
        with open(path, "wb") as file:
            file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(anndata.AnnData, "write_h5ad", broken)
    assert run("--keys", KEYS, "--out", "out.h5ad") == 2
    assert capsys.readouterr().err == "gpuensemble: out.h5ad: No space left on device.\n"
    assert (tmp_path / "out.h5ad").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cells.h5ad", "out.h5ad"]


BAD = {
    "no keys": (["--out", "out.h5ad"], "`--keys` must name the partitions among the columns of obs, got none; there: "),
    "wrong key": (["--keys", "p0,q1"], "`keys` must be in `adata.obs`, got 'q1'; much like it: 'p1'"),
    "the same file": (
        ["--keys", KEYS, "--out", "cells.h5ad"],
        "`--out` must be another file than the one that is read",
    ),
    "ending": (
        ["--keys", KEYS, "--out", "out.xlsx"],
        "`out.xlsx` must end in one of .csv, .tsv, .txt,",
    ),
    "id": (["--keys", KEYS, "--id", "x"], "`--id` must be left out for `cells.h5ad`, an .h5ad file, got 'x'."),
    "header": (["--keys", KEYS, "--header"], "`--header` must be left out for `cells.h5ad`, an .h5ad file, got True."),
    "no header": (
        ["--keys", KEYS, "--no-header"],
        "`--no-header` must be left out for `cells.h5ad`, an .h5ad file, got True.",
    ),
    "no ids": (["--keys", KEYS, "--no-ids"], "`--no-ids` must be left out for `cells.h5ad`, an .h5ad file, got True."),
    "drop": (["--keys", KEYS, "--drop", "p0"], "`--drop` must be left out for `cells.h5ad`, an .h5ad file, got 'p0'."),
    "sep": (["--keys", KEYS, "--sep", ";"], "`--sep` must be left out for `cells.h5ad`, an .h5ad file, got ';'."),
    "a copy": (["--keys", KEYS, "--set", "copy=true"], "Invalid parameter 'copy' for estimator ClusterWalk("),
    "another number": (["--keys", KEYS, "--set", "n_clusters=2"], "`--set` must leave `n_clusters` to -k, got 2."),
    "confidence": (["--keys", KEYS, "--confidence", "--method", "rsec"], "`--confidence` needs a method that has one"),
    "clusters": (["--keys", KEYS, "-k", "91"], "`n_clusters` must be between 1 and n_samples=90, got 91."),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_in_one_sentence(case, tmp_path, capsys):
    words, sentence = BAD[case]
    assert run(*words) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cells.h5ad"]


def test_options_of_cells_are_refused_for_tables(capsys):
    pd.DataFrame({"a": [0, 0, 1], "b": [0, 1, 1]}).to_csv("labels.csv", index=False)
    for words in (["--keys", "a,b"], ["--key-added", "a"]):
        assert main(["fit", "labels.csv", "-k", "2", *words]) == 2
        assert f"`{words[0]}` must be left out for `labels.csv`, no .h5ad file" in capsys.readouterr().err


def test_files_that_are_none(tmp_path, capsys):
    whole = (tmp_path / "cells.h5ad").read_bytes()
    for content in (whole[:5000], b"text", b"", whole[:100] + bytes(4000) + whole[4100:]):
        (tmp_path / "cells.h5ad").write_bytes(content)
        assert run("--keys", KEYS, "--out", "out.h5ad") == 2
        assert capsys.readouterr().err.startswith("gpuensemble: `cells.h5ad` must be a whole file: ")
    (tmp_path / "cells.h5ad").unlink()
    assert run("--keys", KEYS) == 2
    assert capsys.readouterr().err == "gpuensemble: `cells.h5ad` must be a file that is there, got none.\n"


def test_an_element_of_an_unknown_kind(capsys):
    with h5py.File("cells.h5ad", "r+") as file:
        file["obs/p0"].attrs["encoding-type"] = "of-tomorrow"
    assert run("--keys", KEYS, "--out", "out.h5ad") == 2
    told = capsys.readouterr().err
    assert told.startswith("gpuensemble: `cells.h5ad` must be a whole file: No read method registered")
    assert told.count("\n") == 1


def test_the_package_may_be_absent(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "anndata", None)
    assert run("--keys", KEYS) == 2
    assert 'needs a package that is not there: pip install "gpuensemble[anndata]".' in capsys.readouterr().err
