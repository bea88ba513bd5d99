"""Text in other clothes: separators, packed files, stdin and stdout, and the flags that say how a table is read."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpuensemble._cli import main
from gpuensemble._cli.tables import files, outputs, packed
from support import ensemble

ROOT = Path(main.__file__).parents[2]
ROWS = [["id", "a", "b"], ["s1", "red", "1"], ["s2", "red", "2"], ["s3", "blue", "2"]]
READ = [["red", 1.0], ["red", 2.0], ["blue", 2.0]]


def joined(sep, rows=ROWS):
    return "".join(sep.join(row) + "\n" for row in rows)


@pytest.fixture
def put(tmp_path):
    """A function that makes a file with that content and gives its path."""

    def make(content, name="t.txt"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(tmp_path / name)

    return make


@pytest.mark.parametrize("sep", [",", ";", "\t", "|", " ", ", ", "   "])
@pytest.mark.parametrize("given", [True, False])
def test_separators_of_text_are_told_by_evidence_or_a_flag(put, sep, given):
    table = files.read_labels(put(joined(sep)), sep=(sep.strip(" ") or " ") if given else None)
    assert (list(table.ids), table.values.to_numpy().tolist()) == (["s1", "s2", "s3"], READ)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_a_flag_goes_before_the_ending(put, name):
    table = files.read_labels(put(joined(";"), name), sep=";")
    assert table.values.to_numpy().tolist() == READ


def test_a_table_of_r_in_text(put):
    """R's write.table: spaces, quotes, and no cell above the row names."""
    table = files.read_labels(put('"a" "b"\n"s 1" "red" 1\n"s 2" "red" 2\n"s 3" "blue" 2\n'))
    assert list(table.ids) == ["s 1", "s 2", "s 3"]
    assert table.values.to_numpy().tolist() == READ


def test_numbers_in_columns_of_one_width(put):
    table = files.read_features(put("   1.5    20.25\n  10.5     2.25\n  -1.0     0.25 \n"))
    assert table.values.tolist() == [[1.5, 20.25], [10.5, 2.25], [-1, 0.25]]


def test_one_column_of_text_has_no_separator(put):
    assert files.read_labels(put("kind\nred\nred\nblue\nblue\nred\n")).values["kind"].tolist()[:3] == [
        "red",
        "red",
        "blue",
    ]


SEPARATED = {
    "semicolons": (
        "t.csv",
        joined(";"),
        "separated by ',', as its ending says, got lines that ';' splits .*; --sep ';'",
    ),
    "semicolons and decimal commas": (
        "t.csv",
        "a;b\n1,5;2,5\n3,5;4,5\n",
        "got lines that ';' splits evenly; --sep ';'",
    ),
    "both split": ("t.csv", "1,5;2,5\n3,5;4,5\n", "got lines that ';' splits evenly; --sep ';'"),
    "tabs": ("t.csv", joined("\t"), "separated by ',', .* got lines that tab splits evenly; --sep tab reads them so"),
    "commas": ("t.tsv", joined(","), "separated by tab, as its ending says, got lines that ',' splits evenly"),
    "tabs in a packed file": ("t.csv.gz", gzip.compress(joined("\t").encode()), "got lines that tab splits evenly"),
    "two in text": (
        "t.txt",
        "1,5\t2,5\n3,5\t4,5\n",
        "must have one separator, got lines that ',' and tab splits evenly",
    ),
    "none in text": ("t.txt", "a b\nc\nd e f\n", "must have a separator, got none of ',', ';', tab, .* that splits"),
    "a short line": ("t.txt", "a,b\n1,2\n1\n", "must have a separator"),
    "ends in separators": ("t.csv", "a,b\n1,2,\n3,4,\n", "Expected 2 fields in line 2, saw 3"),
    "numbers, the first line short": (
        "t.csv",
        "1,2\n3,1,2\n3,1,2\n4,1,2\n",
        "lines of one length, got a first line that is sh",
    ),
}


@pytest.mark.parametrize(("name", "content", "message"), SEPARATED.values(), ids=SEPARATED)
def test_other_separators_are_named(put, name, content, message):
    with pytest.raises(ValueError, match=message):
        files.read_labels(put(content, name))


@pytest.mark.parametrize("text", ["a;b\n3,14;2\n1,5;3\n", "a;b\n3,14;2\n-1,5e3;3\n", "a;b\n1.003,14;2\n1,5;3\n"])
def test_decimal_commas_are_told_what_to_do(put, text):
    rule = r"must have points in its decimal numbers, got '[\d.]+,14' in row 0, column 'a'; `pandas.read_csv\("
    with pytest.raises(ValueError, match=rule):
        files.read_features(put(text, "t.csv"), sep=";")


@pytest.mark.parametrize("ending", [".csv.gz", ".tsv.gz", ".txt.gz"])
def test_gzip_is_read_and_written(put, tmp_path, ending):
    sep = "," if ".csv" in ending else "\t"
    table = files.read_labels(put(gzip.compress(joined(sep).encode()), f"t{ending}"))
    assert table.values.to_numpy().tolist() == READ
    outputs.write(out := str(tmp_path / f"out{ending}"), {"label": np.arange(3)}, table)
    assert gzip.decompress(Path(out).read_bytes()).decode() == joined(
        sep, [["id", "label"], *([f"s{i + 1}", str(i)] for i in range(3))]
    )


def test_zstandard_is_read_and_written(put, tmp_path):
    zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
    frames = [zstandard.ZstdCompressor().compress(part.encode()) for part in (joined(",")[:9], joined(",")[9:])]
    path = put(b"".join(frames), "t.csv.zst")
    table = files.read_labels(path)
    assert table.values.to_numpy().tolist() == READ
    outputs.write(out := str(tmp_path / "out.csv.zst"), {"label": np.arange(3)}, table)
    assert zstandard.ZstdDecompressor().decompress(Path(out).read_bytes()).startswith(b"id,label\ns1,0\n")
    put(b"".join(frames)[:-3], "t.csv.zst")
    with pytest.raises(ValueError, match=r"t\.csv\.zst` must be a whole file of Zstandard, got a damaged one: "):
        files.read_labels(path)
    put(b"something else", "t.csv.zst")
    with pytest.raises(ValueError, match=r"must be a whole file of Zstandard"):
        files.read_labels(path)


def test_without_zstandard_one_sentence_says_what_to_install(put, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    rule = r'zst` needs a package that is not there: pip install "gpuensemble\[zstd\]"\.$'
    with pytest.raises(ValueError, match=rule):
        files.read_labels(put(b"", "t.csv.zst"))
    with pytest.raises(ValueError, match=rule):
        outputs.check(str(tmp_path / "out.csv.zst"))


@pytest.mark.parametrize("end", [1, 10, 30, -1])
def test_a_truncated_gzip_file_is_one_sentence(put, end):
    content = gzip.compress(joined(",").encode())
    with pytest.raises(ValueError, match=r"^`.*t\.csv\.gz` must be a whole file of gzip, got a damaged one: .*\.$"):
        files.read_labels(put(content[:end], "t.csv.gz"))


def test_the_same_table_makes_the_same_packed_file():
    assert packed.pack("a.csv.gz", b"text") == packed.pack("b.csv.gz", b"text")


@pytest.fixture
def labels(tmp_path, monkeypatch):
    """A file of words in the current folder, as pandas writes it with its index."""
    monkeypatch.chdir(tmp_path)
    _, codes = ensemble()
    frame = pd.DataFrame(np.array(["red", "green", "blue", "grey", "pink"] * 4)[codes], columns=list("pqrstuvw"))
    frame.index = [f"s{i}" for i in range(len(frame))]
    frame.to_csv("labels.csv")
    return frame


FIT = "-k 4 --method sec --device cpu"


def run(capsys, command):
    code = main.main(command.split())
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_stdin_and_stdout(capsys, labels, monkeypatch):
    code, expected, _ = run(capsys, f"fit labels.csv {FIT}")
    assert code == 0
    for text, more in ((labels.to_csv(), ""), (labels.to_csv(sep=";"), ""), (labels.to_csv(sep="|"), "--sep |")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code, out, err = run(capsys, f"fit - {FIT} --out - {more}")
        assert (code, out) == (0, expected)
        said = f"{len(labels)} samples x 8 partitions, names in the first line, ids in the first column"
        assert err == f"gpuensemble: -: {said}\n"
    assert run(capsys, f"fit - {FIT}")[2] == "gpuensemble: `-` must hold a table, got an empty file.\n"
    assert os.listdir() == ["labels.csv"]


def test_a_pipe_of_processes(labels, tmp_path):
    words = [sys.executable, "-m", "gpuensemble", "fit", "-", *FIT.split(), "--json"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        words, input=labels.to_csv(), env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["table"]["id"] == list(labels.index)
    assert done.stderr.count("\n") == 1


def test_what_was_recognised_is_said_by_every_command_on_stderr(capsys, labels):
    n = len(labels)
    pd.DataFrame(np.random.default_rng(0).normal(size=(n, 3)), columns=list("xyz")).to_csv("features.csv", index=False)
    said = f"gpuensemble: features.csv: {n} samples x 3 features, names in the first line, no ids\n"
    for command in ("cluster features.csv -k 2 -r 2 --how random-k", "generate features.csv -k 2 -r 2 --how random-k"):
        code, out, err = run(capsys, f"{command} --device cpu --json")
        assert (code, err) == (0, said)
        json.loads(out)
    code, out, err = run(capsys, "fit-views features.csv features.csv -k 2 --device cpu --json")
    assert (code, err) == (0, said * 2)
    json.loads(out)
    code, out, err = run(capsys, "score labels.csv labels.csv --columns p q --json")
    said = f"gpuensemble: labels.csv: {n} samples x 8 partitions, names in the first line, ids in the first column\n"
    assert (code, err) == (0, said * 2)
    json.loads(out)


def test_ids_that_are_there_twice_are_no_partition(capsys, labels):
    """The flags that the refusal names do what it says."""
    labels.rename(index={"s1": "s0"}).rename_axis("cell").to_csv("twice.csv")
    code, out, err = run(capsys, f"fit twice.csv {FIT}")
    assert (code, out) == (2, "")
    assert err == (
        "gpuensemble: `twice.csv` must show which column holds ids, got different entries in most rows of column "
        "'cell'; --id cell takes it for ids, which must all be different, --no-ids for data.\n"
    )
    code, _, err = run(capsys, f"fit twice.csv {FIT} --id cell")
    assert code == 2
    assert "must have every id once, got 's0' twice in column 'cell'; " in err
    for flag, partitions in (("--no-ids", 9), ("--drop cell", 8)):
        code, _, err = run(capsys, f"fit twice.csv {FIT} {flag}")
        assert code == 0
        assert f"{partitions} partitions, names in the first line, no ids\n" in err


def test_a_second_column_of_ids_is_no_partition(capsys, labels):
    labels.assign(id=range(len(labels)), barcode=[f"A{i}" for i in range(len(labels))]).to_csv("two.csv", index=False)
    code, _, err = run(capsys, f"fit two.csv {FIT}")
    assert code == 2
    assert (
        "must hold labels beside the ids, got different entries in most rows of column 'barcode'; --drop leaves" in err
    )
    assert run(capsys, f"fit two.csv {FIT} --drop barcode")[0] == 0


def test_scores_are_not_matched_by_order_if_one_file_has_ids(capsys, labels):
    labels[["p"]].to_csv("truth.csv")
    labels[["p"]].to_csv("found.csv", index=False)
    code, out, err = run(capsys, "score truth.csv found.csv")
    assert (code, out) == (2, "")
    assert "`found.csv` must have ids, as `truth.csv` has, got none; --id says which column holds them, --no-ids" in err
    code, out, _ = run(capsys, "score truth.csv found.csv --no-ids --columns p p --json")
    assert (code, json.loads(out)["ari"]) == (0, 1)


def test_a_number_picks_the_column_of_ids_unless_it_is_a_name(put):
    path = put("cell,a,b,spot\ns1,5,1,t1\ns2,2,1,t2\ns3,5,3,t3\n", "t.csv")
    for given, ids in (("0", ["s1", "s2", "s3"]), ("3", ["t1", "t2", "t3"])):
        with pytest.warns(UserWarning, match="has another label in every row"):
            assert list(files.read_labels(path, given).ids) == ids
    with pytest.raises(ValueError, match="must have the column that --id names, got '4'"):
        files.read_labels(path, "4")
    path = put("cell,7,0,b\ns1,x,y1,1\ns2,x,y2,1\ns3,x,y3,2\n", "t.csv")
    with pytest.raises(ValueError, match="must have one column that --id means, got '0', a name and a number"):
        files.read_labels(path, "0")
    path = put("a,b,0\n1,x,y1\n1,x,y2\n2,x,y3\n", "t.csv")
    assert list(files.read_labels(path, "0").ids) == ["y1", "y2", "y3"]


def test_a_name_in_a_flag_says_that_there_are_names(put):
    path = put("p,q\nx,u\ny,v\nz,u\n", "t.csv")
    with pytest.raises(ValueError, match="must show whether its first line holds names"):
        files.read_labels(path)
    assert list(files.read_labels(path, "p").ids) == ["x", "y", "z"]


def test_no_ids_leaves_arrays_without_them(tmp_path):
    np.savez(tmp_path / "t.npz", labels=[[0], [0]], id=["a", "b"])
    assert files.read_labels(str(tmp_path / "t.npz"), False).ids is None
    frame = pd.DataFrame({"a": [1, 1, 2]}, index=["x", "y", "z"])
    frame.to_parquet(tmp_path / "t.parquet")
    assert list(files.read_labels(str(tmp_path / "t.parquet")).ids) == ["x", "y", "z"]
    assert files.read_labels(str(tmp_path / "t.parquet"), False).ids is None


def test_an_index_of_parquet_gives_way_to_ids(tmp_path):
    """A table that was filtered keeps the numbers of its rows."""
    frame = pd.DataFrame({"barcode": ["AC", "AG", "AT", "CA"], "a": [1, 1, 2, 2]}, index=[0, 2, 5, 7])
    frame.to_parquet(tmp_path / "t.parquet")
    table = files.read_labels(str(tmp_path / "t.parquet"))
    assert (table.id_name, list(table.ids), table.values.shape) == ("barcode", ["AC", "AG", "AT", "CA"], (4, 1))
    frame[["a"]].to_parquet(tmp_path / "t.parquet")
    assert list(files.read_labels(str(tmp_path / "t.parquet")).ids) == [0, 2, 5, 7]
