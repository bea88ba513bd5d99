"""The command line: what it prints, what it writes, and how it fails."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

import gpuensemble as ge
from gpuensemble._cli import commands, demo, main
from gpuensemble._cli.bench import cases as bench_cases
from gpuensemble._cli.bench import harness
from gpuensemble._cli.doctor import run as doctor
from gpuensemble.estimators._base.registry import methods as all_methods
from gpuensemble.estimators._base.registry import of_labels
from support import ensemble

ROOT = Path(main.__file__).parents[2]


@pytest.fixture
def labels(tmp_path, monkeypatch):
    """A file of string labels, ids and holes, in the current folder; the hidden partition."""
    monkeypatch.chdir(tmp_path)
    truth, codes = ensemble(holes=0.2)
    frame = pd.DataFrame(codes).astype(object).map(lambda code: "" if code < 0 else f"c{code}")
    frame.insert(0, "sample", [f"{i:03}-s" for i in np.random.default_rng(0).permutation(len(codes))])
    frame.to_csv("labels.csv", index=False)
    pd.DataFrame({"sample": frame["sample"], "class": truth}).sample(frac=1, random_state=0).to_csv(
        "truth.csv", index=False
    )
    return frame


def run(capsys, *arguments):
    """The exit code, stdout, and stderr without what was read; arguments are split at spaces."""
    code = main.main([part for argument in arguments for part in str(argument).split()])
    printed = capsys.readouterr()
    return code, printed.out, without_what_was_read(printed.err)


def without_what_was_read(err):
    """What is on stderr, without the lines that say what a file was taken for."""
    return re.sub(r"gpuensemble: \S+: \d+ samples x \d+ (partitions|features), .*\n", "", err)


def test_demo_improves_on_its_base_partitions(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "demo", "--partitions", 12, "--device", "cpu", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["device"] == "cpu"
    single, of_features, base, *methods = report["scores"]
    assert of_features["nmi"] > 0.88
    assert single["nmi"] < 0.8
    assert len(methods) == len(all_methods())
    assert all(row["ari"] > 0.4 for row in methods)
    far = ("cspa", "hgpa", "pta", "ptgp")  # balanced parts, and graphs of few nearest rows
    known = zip(methods, of_labels().values(), strict=False)
    linear = [row for row, method in known if not (method.square or method.name in far)]
    assert all(row["nmi"] > base["nmi"] and row["ari"] > base["ari"] for row in linear)
    assert os.listdir(tmp_path) == []


def test_demo_prints_a_table_and_draws(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "SQUARE", 100)
    code, out, err = run(capsys, "demo", "--partitions", 4, "--device", "cpu", "--plot", tmp_path / "heat.png")
    lines = out.splitlines()
    assert code == 0
    assert err == ""
    assert lines[0] == "1797 samples, 4 base partitions, on cpu"
    assert len(lines) == 6 + len(all_methods())
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("method", of_labels())
def test_the_same_ids_come_out_in_the_same_order(capsys, labels, method):
    if not of_labels()[method].holes:
        labels = labels.replace("", "c9")
        labels.to_csv("labels.csv", index=False)
    code, out, err = run(capsys, "fit labels.csv -k 4 --device cpu --out c.csv --method", method)
    assert (code, err) == (0, "")
    assert out.startswith("80 samples x 8 partitions, ids in 'sample', ")
    written = pd.read_csv("c.csv", dtype=str)
    assert list(written.columns) == ["sample", "label"]
    assert written["sample"].tolist() == labels["sample"].tolist()
    code, out, _ = run(capsys, "score", "truth.csv", "c.csv", "--json")
    assert code == 0
    assert json.loads(out)["ari"] > {"cspa": 0.8, "hgpa": 0.5}.get(method, 0.9)


def test_without_a_file_the_labels_go_to_stdout(capsys, labels):
    code, out, err = run(capsys, "fit labels.csv -k 4 --device cpu --confidence")
    assert (code, err) == (0, "")
    printed = pd.read_csv(io.StringIO(out), dtype={"sample": str})
    assert list(printed.columns) == ["sample", "label", "confidence"]
    code, out, _ = run(capsys, "fit labels.csv -k 4 --device cpu --json")
    report = json.loads(out)
    assert report["table"] == {"sample": labels["sample"].tolist(), "label": printed["label"].tolist()}
    assert (report["method"], report["samples"], report["clusters"], report["device"]) == ("ClusterWalk", 80, 4, "cpu")
    assert sorted(os.listdir()) == ["labels.csv", "truth.csv"]


def test_settings_reach_the_method(capsys, labels):
    fit = "fit labels.csv -k 4 --device cpu"
    code, *_ = run(capsys, fit, "--method kcc --set utility=entropy --set n_init=2 --set init=random")
    assert code == 0
    code, out, err = run(capsys, fit, "--set", "utility=entropy")
    assert (code, out) == (2, "")
    assert err.startswith("gpuensemble: Invalid parameter 'utility' for estimator ClusterWalk(")
    code, _, err = run(capsys, fit, "--set", "n_init")
    assert (code, err) == (2, "gpuensemble: `--set` must be NAME=VALUE, got 'n_init'.\n")
    for command in (fit, "fit-views labels.csv -k 4"):
        for name, option in (("n_clusters", "-k"), ("device", "--device")):
            told = f"gpuensemble: `--set` must leave `{name}` to {option}, got 'cpu'.\n"
            assert run(capsys, command, f"--set {name}=cpu") == (2, "", told)
    assert run(capsys, fit, "--set seed=3")[2].startswith("gpuensemble: Invalid parameter 'seed' for estimator Cluster")
    assert run(capsys, fit, "--set random_state=None --set verbose=0")[0] == 0


@pytest.fixture
def segments(tmp_path, monkeypatch):
    """A command that clusters a file of features in the current folder; settings are to follow."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", make_blobs(40, centers=2, random_state=0)[0])
    return "fit-segments x.npy -k 2 -r 12 --ratio 0.5 --labels labels.npy --out out.npy --device cpu --set"


def test_settings_of_segments_reach_sec(capsys, segments):
    assert run(capsys, segments, "random_state=3 --set init=random --set verbose=0")[0] == 0
    given = {"n_partitions": 12, "row_ratio": 0.5, "random_state": 3, "device": "cpu", "init": "random"}
    found = ge.segments.consensus("x.npy", 2, "again.npy", **given)
    np.testing.assert_array_equal(np.load("out.npy"), found.labels_)
    np.testing.assert_array_equal(np.load("labels.npy"), np.load("again.npy"))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("n_clusters=3", "`--set` must leave `n_clusters` to -k, got 3."),
        ("out=y.npy", "`--set` must leave `out` to --out, got 'y.npy'."),
        ("client=x", "`--set` must leave `client` to --scheduler, got 'x'."),
        ("labels=1", "Invalid parameter 'labels' for estimator SEC("),
        ("X=1", "Invalid parameter 'X' for estimator SEC("),
    ],
)
def test_settings_of_segments_are_parameters_of_sec(capsys, segments, setting, message):
    code, out, err = run(capsys, segments, setting)
    assert (code, out) == (2, "")
    assert err.startswith(f"gpuensemble: {message}")
    assert os.listdir() == ["x.npy"]


def test_warnings_are_sentences_on_stderr(capsys, labels):
    pd.DataFrame([[2, 2]] * 6).to_csv("same.csv", index=False, header=False)
    code, out, err = run(capsys, "fit same.csv -k 3 --device cpu --method sec")
    assert code == 0
    assert out.split() == ["label", *"000000"]
    assert err == ("gpuensemble: warning: `n_clusters` = 3 is more than there are distinct rows: 1 clusters.\n")


def test_from_features_to_scores(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features, truth = make_blobs(90, centers=3, cluster_std=0.5, random_state=0)
    frame = pd.DataFrame(features, columns=["x", "y"]).assign(id=[f"{i:04}" for i in range(90)])
    frame.assign(kind=truth).to_csv("features.tsv", index=False, sep="\t")
    frame[["id"]].assign(kind=truth).to_parquet("truth.parquet")
    generate = "generate features.tsv -r 12 --device cpu --drop kind"
    code, out, _ = run(capsys, generate, "-k 3-8 --out labels.npz")
    assert (code, out) == (0, "90 samples x 12 partitions, ids in 'id' -> labels.npz\n")
    code, *_ = run(capsys, generate, "-k 3 --out labels.csv")
    assert pd.read_csv("labels.csv", dtype=str)["id"].tolist() == frame["id"].tolist()
    for how, ratio in (("random-features", 0.5), ("row-segments", 0.4), ("subsample", 0.5)):
        code, out, _ = run(capsys, generate, "-k", 3, "--how", how, "--ratio", ratio, "--json")
        assert code == 0
        assert len(json.loads(out)["table"]) == 13
    code, _, err = run(capsys, generate, "-k 3-8 --how row-segments")
    assert (code, err) == (2, "gpuensemble: `-k` must be one number for --how row-segments, got 3-8.\n")
    for how in ("neighbor-graph", "spectral", "landmark-spectral", "random-k"):
        code, out, _ = run(capsys, generate, "-k 3-4 --how", how, "--json")
        assert code == 0
        assert max(max(column) for name, column in json.loads(out)["table"].items() if name != "id") <= 5
    code, _, err = run(capsys, generate, "-k 3 --how spectral --ratio 0.5")
    assert (code, err) == (2, "gpuensemble: `--ratio` must be left out for --how spectral, got 0.5.\n")
    assert run(capsys, "fit labels.csv -k 3 --device cpu --out c.parquet --plot heat.svg")[0] == 0
    code, out, _ = run(capsys, "score", "truth.parquet", "c.parquet", "--at-least", "ari=0.9")
    assert code == 0
    assert out.splitlines()[0] == "90 samples"
    assert "<svg" in Path("heat.svg").read_text()


def test_views_are_matched_by_their_ids(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features, truth = make_blobs(90, centers=3, cluster_std=0.5, random_state=0)
    ids = np.array([f"{i:04}" for i in range(90)])
    pd.DataFrame(features[:80], columns=["x", "y"]).assign(id=ids[:80]).to_csv("one.csv", index=False)
    order = np.random.default_rng(0).permutation(90)
    np.savez("two.npz", X=2 * features[order], id=ids[order])
    pd.DataFrame({"id": ids, "label": truth}).to_csv("truth.csv", index=False)
    code, out, err = run(
        capsys,
        "fit-views one.csv two.npz -k 3 --device cpu --out c.csv --set distance=sqeuclidean --set feature_ratio=1",
    )
    assert (code, err) == (0, "")
    assert out.startswith("90 samples in 2 views, ids in 'id', CMVC on cpu: 3 clusters in ")
    assert pd.read_csv("c.csv", dtype=str)["id"].tolist()[:80] == ids[:80].tolist()
    assert run(capsys, "score truth.csv c.csv --at-least ari=0.9")[0] == 0
    settings = "--set distance=sqeuclidean --set scale_rows=true --set smoothing=0.3"
    assert run(capsys, f"fit-views one.csv two.npz -k 3 --method cmvc --device cpu {settings}")[0] == 0
    code, out, err = run(capsys, "fit-views one.csv two.npz -k 3 --device cpu --set scale_rows=often")
    assert (code, err) == (2, "gpuensemble: `scale_rows` must be True or False, got 'often' of type str.\n")
    code, out, err = run(capsys, "fit-views one.csv two.npz -k 99 --device cpu")
    assert (code, out) == (2, "")
    assert err == "gpuensemble: `n_clusters` must be between 1 and n_samples=90, got 99.\n"


def test_a_score_below_the_bound_fails(capsys, labels):
    Path("one.csv").write_text("label\n0\n0\n1\n1\n")
    Path("two.csv").write_text("label\n0\n1\n0\n1\n")
    code, out, _ = run(capsys, "score", "one.csv", "two.csv", "--at-least", "ari=0.5", "--at-least", "purity=0.5")
    assert code == 1
    assert out.splitlines()[-1] == "FAIL: ari is below 0.5"
    code, out, _ = run(capsys, "score", "one.csv", "two.csv", "--at-least", "ari=0.5", "--json")
    assert code == 1
    assert json.loads(out)["failed"] == ["ari"]


BAD = {
    "no partitions": ("demo --partitions 0", "`n_partitions` must be at least 1, got 0."),
    "a device": ("demo --device gpu", '`device` must be "auto", "cpu", "cuda" or "cuda:N", got \'gpu\'.'),
    "a seed": ("demo --seed -1", "`random_state` must be None, an integer of at least 0 or a generator, got -1."),
    "a picture": ("demo --plot heat.gif", "`heat.gif` must end in one of .png, .pdf, .svg."),
    "no file": ("fit none.csv -k 2", "`none.csv` must be a file that is there, got none."),
    "an ending": (
        "fit truth.xls -k 2",
        "`truth.xls` must end in one of .csv, .tsv, .txt, .csv.gz, .tsv.gz, .txt.gz, .csv.zst, .tsv.zst, .txt.zst, "
        ".parquet, .npy, .npz.",
    ),
    "a folder": (
        "fit labels.csv -k 2 --out no/c.csv",
        "`no/c.csv` must be in a folder that is there and can be written to.",
    ),
    "clusters": ("fit labels.csv -k 99 --device cpu", "`n_clusters` must be between 1 and n_samples=80, got 99."),
    "no column": ("fit labels.csv -k 2 --id name", "`labels.csv` must have the column that --id names, got 'name'."),
    "no confidence": (
        "fit labels.csv -k 2 --method rsec --confidence",
        "`--confidence` needs a method that has one, got RSEC.",
    ),
    "an empty row": (
        "fit empty.csv -k 2 --device cpu",
        "`labels` must have a label in every row, got only missing ones in row 'b'.",
    ),
    "features": (
        "fit features.csv -k 2 --device cpu",
        "`labels` given as numbers must be whole and not negative, with -1 or NaN for a missing one, "
        "got 0.5 in row 'a', column 'x'.",
    ),
    "labels": (
        "generate labels.csv -k 2 --device cpu",
        "`labels.csv` must hold numbers, got 'c3' in row 0, column '0'; "
        "--drop leaves a column out, --id makes it the ids.",
    ),
    "many columns": (
        "score labels.csv truth.csv",
        "`labels.csv` must have one column of labels, one called 'label', or one named by a flag, "
        "got '0', '1', '2', '3', '4', '5', '6', '7'.",
    ),
    "other ids": (
        "score truth.csv empty.csv",
        "`empty.csv` must have the ids of `truth.csv`, got '072-s' in one of them only.",
    ),
    "other rows": ("score one.csv two.csv", "`two.csv` must have as many rows as `one.csv`, 1, got 2."),
    "a report": ("report labels.csv -k 2 --out a.pdf", "`a.pdf` must end in one of .html."),
    "numbers": (
        "report labels.csv -k 5-2 --out a.html",
        "`-k` must be a number or LOW-HIGH, the first below the second, got 5-2.",
    ),
    "one cluster": (
        "report labels.csv -k 1-3 --out a.html --device cpu",
        "`n_clusters` must be between 2 and n_samples=80, got 1.",
    ),
    "tables": (
        "cluster features.csv -k 2 --tables tables",
        "`--tables` must go with a report, got 'tables' alone.",
    ),
    "few samples": ("bench --samples 3 --device cpu", "`samples` must be at least 20, got 3."),
    "few rows": ("bench --square 3 --device cpu", "`square` must be at least 20, got 3."),
    "no thread": ("bench --threads 0", "`threads` must be at least 1, got 0."),
    "a case": ("bench --only nothing --device cpu", "`--only` must be part of the name of a case, got 'nothing'."),
    "a workload": ("bench --model L4 --only no", "`--only` must be part of the name of a workload, got 'no'."),
}


@pytest.mark.parametrize(("command", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(capsys, labels, monkeypatch, command, message):
    monkeypatch.setattr(bench_cases, "CASES", ())
    monkeypatch.setattr(harness, "COPY_BYTES", 1 << 12)
    Path("empty.csv").write_text("id,x\na,u\nb,\nc,u\n")
    Path("features.csv").write_text("id,x\na,0.5\nb,1\nc,1\n")
    Path("one.csv").write_text("label\n1\n")
    Path("two.csv").write_text("label\n1\n1\n")
    before = sorted(os.listdir())
    assert run(capsys, command) == (2, "", f"gpuensemble: {message}\n")
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device", "out.npy"), "out.npy: No space left on device."),
        (ConnectionError("`client` must keep its data, got none."), "`client` must keep its data, got none."),
        (MemoryError("Unable to allocate 1. GiB"), "not enough memory: Unable to allocate 1. GiB."),
        (MemoryError(), "not enough memory: MemoryError."),
    ],
)
def test_what_the_machine_lacks_is_one_sentence(capsys, labels, monkeypatch, error, message):
    def fails(*_):
        raise error

    monkeypatch.setattr(commands.files, "read_labels", fails)
    assert run(capsys, "fit labels.csv -k 4") == (2, "", f"gpuensemble: {message}\n")


@pytest.mark.parametrize("bound", ["ari=nan", "ari=inf", "ari=-1e999", "ari=abc", "ari=", "ari"])
def test_a_bound_is_a_finite_number(capsys, bound):
    """Every score would pass one that is NaN."""
    with pytest.raises(SystemExit) as error:
        main.main(["score", "a.csv", "b.csv", "--at-least", bound])
    assert error.value.code == 2
    rule = f"must be SCORE=VALUE, the value a finite number, got '{bound}'\n"
    assert capsys.readouterr().err.endswith(f"error: argument --at-least: {rule}")


def test_a_score_that_is_none_fails(capsys, monkeypatch):
    report = dict.fromkeys(commands.SCORES, float("nan")) | {"samples": 4}
    monkeypatch.setattr(commands, "score", lambda **_: dict(report))
    assert run(capsys, "score a.csv b.csv --at-least ari=0.5")[0] == 1


@pytest.mark.parametrize(
    "command", ["", "nothing", "fit", "fit labels.csv", "fit labels.csv -k two", "score a.csv b.csv --at-least x=1"]
)
def test_bad_usage_is_exit_code_2(capsys, command):
    with pytest.raises(SystemExit) as error:
        main.main(command.split())
    assert error.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("gpuensemble")


def test_clusters_of_a_table_of_features(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features, truth = make_blobs(90, centers=3, cluster_std=0.5, random_state=0)
    frame = pd.DataFrame(features, columns=["x", "y"]).assign(id=[f"{i:04}" for i in range(90)], kind=truth)
    frame.to_csv("features.csv", index=False)
    cluster = "cluster features.csv -k 3 --drop kind --device cpu"
    code, out, err = run(capsys, cluster, "--confidence --labels base.csv --out c.csv --plot heat.png")
    assert (code, err) == (0, "")
    assert out.startswith("90 samples, 20 base partitions, ids in 'id', SEC on cpu: 3 clusters in ")
    assert out.endswith(" -> base.csv, c.csv, heat.png\n")
    found = pd.read_csv("c.csv", dtype={"id": str})
    assert found["id"].tolist() == frame["id"].tolist()
    assert found["confidence"].between(0, 1).all()
    assert pd.read_csv("base.csv").shape == (90, 21)
    assert run(capsys, "score features.csv c.csv --columns kind label --id id --at-least ari=1")[0] == 0
    for options in ("--how random-k --method lwgp", "--method cluster-walk -r 5"):
        code, out, _ = run(capsys, cluster, options, "--json")
        assert code == 0
        assert json.loads(out)["clusters"] == 3
    code, _, err = run(capsys, "cluster features.csv -k 91 --drop kind --device cpu")
    assert (code, err) == (2, "gpuensemble: `n_clusters` must be between 1 and n_samples=90, got 91.\n")
    code, _, err = run(capsys, cluster, "--method lta --confidence")
    assert (code, err) == (2, "gpuensemble: `--confidence` needs a method that has one, got 'lta'.\n")


def test_a_number_of_clusters_is_chosen_and_reported(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features, truth = make_blobs(90, centers=4, n_features=5, random_state=0)
    ids = [f"<i>{i}" for i in range(90)]
    pd.DataFrame(features).assign(id=ids).to_csv("features.csv", index=False)
    options = "-k 2-6 --device cpu --report a.html --tables tables --out c.csv --labels base.csv"
    code, out, err = run(capsys, "cluster features.csv", options)
    assert code == 0
    assert err.splitlines()[-1].startswith("gpuensemble: K = 4 is the highest peak of the excess, ")
    assert out.endswith(" -> base.csv, c.csv, a.html\n")
    found = pd.read_csv("c.csv")
    assert found.columns.tolist() == ["id", "label", "consensus", "other", "margin", "kept"]
    assert found["id"].tolist() == ids
    assert ge.metrics.ari(truth, found["label"]) == 1
    tables = pd.read_csv("tables/samples.csv")
    np.testing.assert_allclose(tables["margin"], found["margin"])
    page = (tmp_path / "a.html").read_text("utf-8")
    assert "&lt;i&gt;89" in page
    assert "<i>" not in page
    assert "gpuensemble" in page

    code, out, _ = run(capsys, "report base.csv -k 4 --device cpu --out b.html --labels d.csv")
    assert (code, out) == (0, "90 samples x 20 partitions, 4 clusters, ids in 'id' -> b.html\n")
    assert ge.metrics.ari(truth, pd.read_csv("d.csv")["label"]) == 1
    code, out, _ = run(capsys, "report base.csv -k 2-6 --device cpu --out b.html --json")
    assert json.loads(out)["recommended"] == 4


@pytest.mark.parametrize("name", ["label", "consensus", "p0"])
def test_ids_that_are_called_as_an_output_are_kept(capsys, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    features, _ = make_blobs(30, centers=2, cluster_std=0.5, random_state=0)
    ids = [f"gene{i:02}" for i in range(30)]
    pd.DataFrame(features, columns=["x", "y"]).assign(**{name: ids}).to_csv("x.csv", index=False)
    run(capsys, "cluster x.csv -k 2 --device cpu --labels p.npz --out c.csv --report r.html --tables tables")
    assert pd.read_csv("c.csv")["id" if name != "p0" else name].tolist() == ids
    assert np.load("p.npz")["id" if name == "p0" else name].tolist() == ids
    assert pd.read_csv("tables/samples.csv")["id" if name == "consensus" else name].tolist() == ids
    out = run(capsys, "generate x.csv -k 2 -r 3 --device cpu --json")[1]
    assert json.loads(out)["table"]["id" if name == "p0" else name] == ids


@pytest.mark.parametrize(
    "command", ["demo", "cluster", "fit", "report", "fit-views", "generate", "score", "warm-up", "doctor", "bench"]
)
def test_every_command_has_help_with_examples_and_json(capsys, command):
    with pytest.raises(SystemExit) as error:
        main.main([command, "--help"])
    assert error.value.code == 0
    out = capsys.readouterr().out
    assert f"examples:\n  gpuensemble {command}" in out
    assert "--json" in out
    assert "Exit code: 0" in out


def test_progress_bars_are_for_terminals(capsys, labels, monkeypatch):
    fit = "fit labels.csv -k 4 --device cpu --method sec"
    assert run(capsys, fit)[2] == ""
    monkeypatch.setattr(main, "_verbose", lambda: 1)
    said = run(capsys, fit)[2]
    assert "start 1 of 1" in said
    assert "iterations, at most" in said


def test_doctor_fails_if_a_check_does(capsys, monkeypatch):
    report = doctor.run("cpu") | {"failed": 1}
    monkeypatch.setattr(doctor, "run", lambda device: report)
    assert run(capsys, "doctor")[0] == 1


def process(*arguments, cwd, **more):
    """A real process."""
    command = [sys.executable, "-m", "gpuensemble", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, **more)


def test_a_process_prints_no_traceback(labels, tmp_path):
    done = process("fit", "labels.csv", "-k", "4", "--device", "cpu", cwd=tmp_path)
    read = "gpuensemble: labels.csv: 80 samples x 8 partitions, names in the first line, ids in the first column\n"
    assert (done.returncode, done.stderr) == (0, read)
    assert len(done.stdout.splitlines()) == 81
    done = process("fit", "labels.csv", "-k", "0", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == read + "gpuensemble: `n_clusters` must be between 1 and n_samples=80, got 0.\n"


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are POSIX")
def test_a_full_disk_leaves_nothing_behind(labels, tmp_path):
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))

    command = "fit labels.csv -k 4 --device cpu --out c.csv".split()  # noqa: SIM905
    done = process(*command, cwd=tmp_path, preexec_fn=limit)
    assert done.returncode == 2
    assert without_what_was_read(done.stderr) == "gpuensemble: c.csv: File too large.\n"
    assert sorted(os.listdir(tmp_path)) == ["labels.csv", "truth.csv"]


def test_warm_up_says_how_many_methods_are_ready(capsys):
    code, out, err = run(capsys, "warm-up --device cpu")
    assert (code, err) == (0, "")
    ready = sum(not method.missing for method in all_methods().values())
    assert out.startswith(f"kernels of {ready} methods are compiled, in ")
