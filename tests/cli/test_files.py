"""Tables in files: what is recognised, what is refused, and that files are written whole or not at all."""

import errno
import os
import pickle
import re

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet
from scipy.sparse import csc_matrix, csr_matrix, save_npz

import gpuensemble as ge
from gpuensemble._cli.tables import files, outputs
from gpuensemble._tables.files import whole_file


@pytest.fixture
def write(tmp_path):
    """A function that makes a file with that text and gives its path."""

    def make(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return make


READ = {
    "a header and ids": ("id,a,b\n007,x,1\n008,y,2\n", ["007", "008"], ["a", "b"], [["x", 1.0], ["y", 2.0]]),
    "ID in capitals, in the middle": ("a,ID\nx,1\nx,2\n", ["1", "2"], ["a"], [["x"], ["x"]]),
    "text that is all different": ("sample,a\ns1,1\ns2,1\n", ["s1", "s2"], ["a"], [[1.0], [1.0]]),
    "an index of pandas": (",0,1\ns1,3,4\ns2,3,4\n", ["s1", "s2"], ["0", "1"], [[3.0, 4.0], [3.0, 4.0]]),
    "an index of numbers": (",0,1\n0,3,4\n1,3,4\n", ["0", "1"], ["0", "1"], [[3.0, 4.0], [3.0, 4.0]]),
    "a named index": ("cell,0,1,2\ns1,3,4,5\ns2,3,4,5\n", ["s1", "s2"], ["0", "1", "2"], [[3.0, 4, 5], [3.0, 4, 5]]),
    "no header": ("1,x\n1,x\n2,y\n", None, ["0", "1"], [[1.0, "x"], [1.0, "x"], [2.0, "y"]]),
    "no header, ids": ("s1,1\ns2,1\n", ["s1", "s2"], ["1"], [[1.0], [1.0]]),
    "names over text": ("p,q\nx,u\nx,u\n", None, ["p", "q"], [["x", "u"], ["x", "u"]]),
    "labels over text": ("x,u\nx,u\ny,v\n", None, ["0", "1"], [["x", "u"], ["x", "u"], ["y", "v"]]),
    "holes": (
        "id,a,b\ni,,NA\nj,1.0,x\nk,-1,None\nl,2.0,null\n",
        list("ijkl"),
        ["a", "b"],
        [[None, None], [1.0, "x"], [None, None], [2.0, None]],
    ),
    "1.0 and 1 are one label": ("a,b\n1.0,x\n1,x\n", None, ["a", "b"], [[1.0, "x"], [1.0, "x"]]),
    "01 is not 1": ("a,b\n01,x\n1,x\n01,y\n", None, ["a", "b"], [["01", "x"], ["1", "x"], ["01", "y"]]),
    "mixed": ("a,b\n1,x\nu,x\n1,y\n", None, ["a", "b"], [["1", "x"], ["u", "x"], ["1", "y"]]),
    "long numbers": (
        "a,b\n12345678901234567890,x\n12345678901234567891,x\n12345678901234567891,y\n",
        None,
        ["a", "b"],
        [["12345678901234567890", "x"], ["12345678901234567891", "x"], ["12345678901234567891", "y"]],
    ),
    "spaces and quotes": ('a, b \n"x, y", 1\n"x, y",1 \n', None, ["a", "b"], [["x, y", 1.0], ["x, y", 1.0]]),
    "a byte order mark": ("\ufeffid,a\ni,1\nj,1\n", ["i", "j"], ["a"], [[1.0], [1.0]]),
}


@pytest.mark.parametrize(("text", "ids", "columns", "values"), READ.values(), ids=READ)
@pytest.mark.parametrize("separator", [",", "\t"])
def test_labels_in_text(write, text, ids, columns, values, separator):
    if separator == "\t":
        text = re.sub(r',(?! y")', "\t", text)
    table = files.read_labels(write(text, "t.csv" if separator == "," else "t.tsv"))
    assert (None if table.ids is None else list(table.ids)) == ids
    assert list(table.values.columns) == columns
    found = table.values.astype(object).where(table.values.notna(), None).to_numpy().tolist()
    assert found == values


def test_flags_name_the_ids_and_the_header(write):
    path = write("x,1,3\ny,2,3\n")
    assert list(files.read_labels(path, "1", header=False).ids) == ["1", "2"]
    assert list(files.read_labels(path, header=True).values.columns) == ["1", "3"]
    with pytest.warns(UserWarning, match="column 'a' of .* has another label in every row; if it holds ids, name it"):
        assert files.read_labels(write("a,b\n1,5\n2,5\n3,6\n")).ids is None
    assert list(files.read_labels(path := write("a,b\n1,5\n2,5\n3,6\n"), "a").ids) == ["1", "2", "3"]
    assert files.read_labels(path, "a").id_name == "a"


def test_parquet_keeps_its_types(tmp_path):
    frame = pd.DataFrame({"a": [1, 1, 2], "b": pd.Categorical(["x", None, "y"])}, index=["007", "s", "t"])
    path = str(tmp_path / "t.parquet")
    frame.to_parquet(path)
    table = files.read_labels(path)
    assert list(table.ids) == ["007", "s", "t"]
    assert table.values["b"].isna().tolist() == [False, True, False]
    frame.reset_index(names="barcode").to_parquet(path)
    table = files.read_labels(path)
    assert (table.id_name, list(table.ids)) == ("barcode", ["007", "s", "t"])
    np.testing.assert_array_equal(files.read_features(path, drop=("b",)).values, [[1], [1], [2]])


def test_arrays(tmp_path):
    np.save(tmp_path / "t.npy", [[0, 1], [0, 2]])
    assert files.read_labels(str(tmp_path / "t.npy")).values.tolist() == [[0, 1], [0, 2]]
    np.save(tmp_path / "t.npy", np.array(["x", "y"]))
    assert files.read_labels(str(tmp_path / "t.npy")).labels().tolist() == ["x", "y"]
    np.savez(tmp_path / "t.npz", E=[[0], [0]], id=["a", "b"])
    table = files.read_labels(str(tmp_path / "t.npz"))
    assert (list(table.ids), table.values.tolist()) == (["a", "b"], [[0], [0]])
    np.savez(tmp_path / "t.npz", X=[[0.5], [1]], y=[0, 1], barcode=["a", "b"])
    table = files.read_features(str(tmp_path / "t.npz"), "barcode")
    assert (table.id_name, table.values.tolist()) == ("barcode", [[0.5], [1]])


def test_an_archive_has_features_and_labels(tmp_path):
    """Who reads features gets `X`, who reads labels `labels` or `label`, and who finds neither the only array."""
    path = str(tmp_path / "t.npz")
    for name in ("labels", "label"):
        np.savez(path, **{name: [[0, 1], [0, 2]]}, X=[[0.5], [1]], id=["a", "b"], more=[0, 0])
        assert files.read_features(path).values.tolist() == [[0.5], [1]]
        assert files.read_labels(path).values.tolist() == [[0, 1], [0, 2]]
    for name in ("labels", "X", "E"):
        np.savez(path, **{name: [[0, 1], [0, 2]]}, ids=["a", "b"])
        assert files.read_features(path).values.tolist() == [[0, 1], [0, 2]]
        assert files.read_labels(path).values.tolist() == [[0, 1], [0, 2]]


OF_LABELS = "must hold labels in an array called labels or label, or in its only one beside the ids, got"
OF_FEATURES = "must hold features in an array called X, or in its only one beside the ids, got"
UNCLEAR = [
    ("read_labels", ("X", "y"), f"{OF_LABELS} 'X', which may be features, and 'y', which may be labels."),
    ("read_labels", ("a", "b"), f"{OF_LABELS} 'a', 'b'."),
    ("read_labels", ("id",), f"{OF_LABELS} none."),
    ("read_features", ("labels", "y"), f"{OF_FEATURES} 'labels', 'y'."),
    ("read_features", tuple("abcdefg"), f"{OF_FEATURES} 'a', 'b', 'c', 'd', ...."),
]


@pytest.mark.parametrize(("read", "names", "message"), UNCLEAR)
def test_an_archive_of_several_arrays_says_which_is_meant(tmp_path, read, names, message):
    np.savez(tmp_path / "t.npz", **dict.fromkeys(names, np.array([0, 1])))
    with pytest.raises(ValueError, match=re.escape(f"t.npz` {message}")):
        getattr(files, read)(str(tmp_path / "t.npz"))


@pytest.mark.parametrize("kind", [csr_matrix, csc_matrix])
def test_sparse_features(tmp_path, kind):
    dense = np.array([[0, 1.5, 0], [2, 0, 0]])
    save_npz(tmp_path / "t.npz", kind(dense))
    values = files.read_features(str(tmp_path / "t.npz")).values
    assert values.format == "csr"
    np.testing.assert_array_equal(values.toarray(), dense)


def test_a_damaged_header_in_an_archive_is_noticed(tmp_path):
    """A table of fewer rows does not reach the end of its member, where the checksum is."""
    path = tmp_path / "t.npz"
    np.savez(path, labels=np.arange(10_000).reshape(5000, 2) % 7)
    path.write_bytes(path.read_bytes().replace(b"(5000, 2)", b"(4000, 2)"))
    with pytest.raises(ValueError, match=f"^`{path}` must be an NPZ file of numbers or text"):
        files.read_labels(str(path))


def test_a_member_that_the_directory_of_an_archive_lost_is_missed(tmp_path):
    """The comment of the first entry swallows the others: what is left would be a table."""
    path = tmp_path / "t.npz"
    np.savez(path, labels=np.arange(12).reshape(6, 2) % 3, id=list("abcdef"))
    content = bytearray(path.read_bytes())
    second, end = content.rfind(b"PK\1\2"), content.rfind(b"PK\5\6")
    first = content.find(b"PK\1\2")
    content[first + 32 : first + 34] = (end - second).to_bytes(2, "little")
    path.write_bytes(content)
    assert np.load(path).files == ["labels"]
    with pytest.raises(ValueError, match=f"^`{path}` must be an NPZ file of numbers or text"):
        files.read_labels(str(path))


def test_an_array_of_python_2_is_read_without_a_warning(tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, np.array([[0, 1], [0, 2]]))
    path.write_bytes(path.read_bytes().replace(b"(2, 2), ", b"(2L, 2),"))
    assert files.read_labels(str(path)).values.tolist() == [[0, 1], [0, 2]]
    assert ge.SEC(2, random_state=0).fit(path).labels_.shape == (2,)


def test_a_sparse_matrix_says_whether_it_goes_by_rows_or_columns(tmp_path):
    by_columns = csc_matrix(np.eye(3) + np.eye(3, k=1))
    parts = {name: getattr(by_columns, name) for name in ("data", "indices", "indptr", "shape")}
    for more in ({}, {"format": b"bsr"}, {"format": b"xyz"}, {"format": np.array([b"csr", b"csc"])}):
        np.savez(tmp_path / "t.npz", **parts, **more)
        with pytest.raises(ValueError, match=r"t\.npz` must hold a sparse matrix by rows or columns, got format"):
            files.read_features(str(tmp_path / "t.npz"))


def test_features_in_text(write):
    path = write("id,a,b,kind\nx,1,,u\ny,-1,2e3,v\n")
    np.testing.assert_array_equal(files.read_features(path, drop=("kind",)).values, [[1, np.nan], [-1, 2000]])


REFUSED = {
    "no file": (None, "t.csv", "must be a file that is there, got none."),
    "an ending": ("a,b\n", "t.xls", "must end in one of .csv, .tsv, .txt, .csv.gz, .tsv.gz, "),
    "nothing in it": ("", "t.csv", "must hold a table, got an empty file."),
    "white space": ("  \n\t\n", "t.csv", "must hold a table, got white space alone."),
    "marks of byte order": (
        "\ufeff\ufeff",
        "t.csv",
        "must be a table separated by ',': No columns to parse from file.",
    ),
    "a header alone": ("id,a\n", "t.csv", "must have at least one row, got none below the header."),
    "ids alone": ("id\nx\ny\n", "t.csv", "must have a column beside the ids, got 'id' alone."),
    "a long line": ("a,b\n1,2,3\n", "t.csv", "must be a table separated by ',': Expected 2 fields in line 2, saw 3."),
    "a short line": ("a,b\n1,2\n1\n", "t.csv", "must have lines of one length, got 2 cells in most and 1 in line 3."),
    "a hole in a vector": (
        "a\nx\n\ny\n",
        "t.csv",
        "must have lines of one length, got 1 cells in most and 0 in line 3.",
    ),
    "a hole in a vector, of white space": (
        "a\nx\n \t\r\ny\n",
        "t.csv",
        "must have lines of one length, got 1 cells in most and 0 in line 3.",
    ),
    "an open quote": ('a,b\n"1,2\n', "t.csv", "must be a table separated by ',': EOF inside string starting at row 1."),
    "another encoding": (b"a,b\n\xff\xfe,2\n", "t.csv", "must be text in UTF-8, got byte 0xff."),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16-le"), "t.csv", "must be text in UTF-8, got a NUL byte in line 1."),
    "labels beyond a NUL": ("a,b\nx\0y,1\nx\0z,1\n", "t.csv", "must be text in UTF-8, got a NUL byte in line 2."),
    "an id twice": ("id,a\nx,1\nx,2\n", "t.csv", "must have every id once, got 'x' twice in column 'id'; --id names"),
    "an empty id": ("id,a\nx,1\n,2\n", "t.csv", "must have an id in every row, got none in row 1."),
    "a name twice": ("id,a,a\nx,1,2\n", "t.csv", "must have a different name for each column, got 'a' twice."),
    "no Parquet": (b"PAR0 nothing", "t.parquet", "must be a Parquet file: "),
    "no NPY": (b"nothing", "t.npy", "must be an NPY file of numbers or text (pickled objects are never loaded)"),
    "no NPZ": (b"PK\x03\x04 nothing", "t.npz", "must be an NPZ file of numbers or text (pickled objects"),
    "a pickle": (pickle.dumps([1]), "t.npy", "must be an NPY file of numbers or text (pickled objects"),
}


@pytest.mark.parametrize(("content", "name", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_files_get_one_sentence(write, tmp_path, content, name, message):
    path = str(tmp_path / name) if content is None else write(content, name)
    with pytest.raises(ValueError, match=re.escape(f"`{path}` {message}")) as error:
        files.read_labels(path)
    assert "\n" not in str(error.value)


def test_bad_arrays_get_one_sentence(tmp_path):
    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "was here"),))

    np.save(tmp_path / "t.npy", np.array([Evil()], object), allow_pickle=True)
    np.savez(tmp_path / "t.npz", labels=np.array([[Evil()]], object), allow_pickle=True)
    for name in ("t.npy", "t.npz"):
        with pytest.raises(ValueError, match="pickled objects are never loaded"):
            files.read_labels(str(tmp_path / name))
    assert not (tmp_path / "was here").exists()
    np.save(tmp_path / "t.npy", np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match=r"must hold a table of numbers or text, got float64 of shape \(2, 2, 2\)\."):
        files.read_labels(str(tmp_path / "t.npy"))
    np.savez(tmp_path / "t.npz", labels=[[1], [2]], id=["x"])
    with pytest.raises(ValueError, match=r"must have an id for each of 2 rows, got shape \(1,\)\."):
        files.read_labels(str(tmp_path / "t.npz"))


def test_lists_in_parquet_are_named(tmp_path):
    path = str(tmp_path / "t.parquet")
    pd.DataFrame({"a": [1, 2], "b": [[1], [2]]}).to_parquet(path)
    for read in (files.read_labels, files.read_features):
        with pytest.raises(ValueError, match=rf"^`{path}` must hold numbers or text, got list<.*> in column 'b'\.$"):
            read(path)


DATES = pd.to_datetime([None, "2020-01-02", "2020-01-02"])


@pytest.mark.parametrize(
    ("dates", "first"),
    [
        (DATES, "'2020-01-02 00:00:00' in row 1"),
        (DATES.tz_localize("UTC"), "'2020-01-02 00:00:00+00:00' in row 1"),
        (DATES - DATES[1], "'0 days 00:00:00' in row 1"),
        (pd.Categorical(DATES), "'2020-01-02 00:00:00' in row 1"),
        (DATES.date, "'2020-01-02' in row 1"),
        (DATES[[0, 0, 0]], "'NaT' in row 0"),
    ],
)
def test_dates_in_parquet_are_no_features(tmp_path, dates, first):
    """Pandas would count them in nanoseconds, and a missing one as a date of long ago."""
    path = str(tmp_path / "t.parquet")
    pd.DataFrame({"x": [0.5, 1, 2], "t": dates}).to_parquet(path)
    with pytest.raises(ValueError, match=re.escape(f"`{path}` must hold numbers, got {first}, column 't'; --drop")):
        files.read_features(path)
    assert files.read_features(path, drop=("t",)).values.tolist() == [[0.5], [1], [2]]


@pytest.mark.parametrize("text", ["a\n1.5\n2.5\n9.5\n \n\t\n", 'a\n1.5\n2.5\n9.5\n" "\n', 'a\n1.5\n2.5\n""\n9.5\n'])
def test_blank_lines_at_the_end_and_quoted_blanks_of_one_column(write, text):
    """The first are left out, the others are holes."""
    values = files.read_features(write(text)).values
    assert values[~np.isnan(values)].tolist() == [1.5, 2.5, 9.5]
    assert len(values) == 3 + ('"' in text)


def test_a_line_of_white_space_is_a_blank_line(write):
    for text in (" \na,b\n1.5,2\n\t\n2.5,3\n", " \na,b\nx,1.5,2\n \ny,2.5,\n", "a,b\n1.5,2\n \n2.5,\n"):
        assert files.read_features(write(text)).values.shape == (2, 2)


@pytest.mark.parametrize("read", [files.read_labels, files.read_features])
def test_names_twice_and_indexes_of_two_columns_in_parquet_are_refused(tmp_path, read):
    path = str(tmp_path / "t.parquet")
    parquet.write_table(pyarrow.table([[1, 1, 2], [1, 2, 2]], names=["a", "a"]), path)
    with pytest.raises(ValueError, match=r"^`.*` must have a different name for each column, got 'a' twice[.]$"):
        read(path)
    index = pd.MultiIndex.from_product([range(2), ["x", "y"]], names=["one", None])
    pd.DataFrame({"a": [1, 1, 2, 2]}, index).to_parquet(path)
    with pytest.raises(ValueError, match=r"^`.*` must have one column in its index, got 2; --no-ids leaves it out, "):
        read(path)
    assert read(path, False).ids is None
    pd.DataFrame(index=list("abc")).to_parquet(path)
    with pytest.raises(ValueError, match=r"^`.*` must have a column beside the ids, got none[.]$"):
        read(path)


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_arrays_of_text_are_no_features(tmp_path, ending):
    path = str(tmp_path / f"t{ending}")
    (np.save if ending == ".npy" else np.savez)(path, np.array([["1", "2"], ["3", "x"]]))
    with pytest.raises(ValueError, match=f"^`{path}` must hold numbers, got text[.]$"):
        files.read_features(path)


def test_text_among_features_is_named(write):
    path = write("id,a,kind\nx,1,u\ny,2,v\n")
    message = f"`{path}` must hold numbers, got 'u' in row 0, column 'kind'; --drop leaves a column out, "
    with pytest.raises(ValueError, match=re.escape(message)):
        files.read_features(path)
    with pytest.raises(ValueError, match="must have the column that --drop names, got 'b'"):
        files.read_features(path, drop=("b",))
    with pytest.raises(ValueError, match="must have the column that --id names, got 'b'"):
        files.read_features(path, "b")
    with pytest.raises(ValueError, match="must have a column that --drop does not leave out, got none"):
        files.read_features(path, drop=("a", "kind"))


@pytest.mark.parametrize("ending", files.ENDINGS)
def test_what_is_written_is_read_again(write, tmp_path, ending):
    if ending.endswith(".zst"):
        pytest.importorskip("zstandard", reason="zstandard is not installed")
    table = files.read_labels(write("id,a\n007,x\nb,x\n"))
    path = str(tmp_path / f"out{ending}")
    outputs.write(path, {"label": np.array([4, 0], "int32")}, table)
    again = files.read_labels(path)
    assert list(again.labels()) == [4, 0]
    if ending != ".npy":
        assert list(again.ids) == ["007", "b"]
    assert sorted(os.listdir(tmp_path)) == [f"out{ending}", "t.csv"]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_ids_that_are_called_as_a_column_of_labels_are_not_lost(write, tmp_path, ending):
    for name in ("label", "confidence", "file", "allow_pickle"):
        table = files.read_labels(write(f"{name},a,b\nx,1,2\ny,1,2\nz,2,2\n"), name)
        columns = {"label": np.array([4, 0, 4]), "confidence": np.ones(3)}
        path = str(tmp_path / f"out{ending}")
        written = outputs.written(columns, table, path)["ids"]
        assert written == (name if name in ("file", "allow_pickle") else "id")
        again = files.read_labels(path, written)
        assert (list(again.ids), again.id_name) == (["x", "y", "z"], written)
        assert list(again.labels()) == [4, 0, 4]
        assert list(outputs.written(columns, table, None)["table"][written]) == ["x", "y", "z"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("before")

    def fail_halfway():
        with whole_file(str(path)) as file:
            file.write(b"half")
            raise OSError(errno.ENOSPC, "disk full")

    with pytest.raises(OSError, match="full"):
        fail_halfway()
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["out.csv"]
    with whole_file(str(path)) as file:
        file.write(b"after")
    assert path.read_text() == "after"
    (tmp_path / "other").symlink_to(path)
    with whole_file(str(tmp_path / "other")) as file:
        file.write(b"through the link")
    assert path.read_text() == "through the link"
    assert (tmp_path / "other").is_symlink()


def test_outputs_are_checked_before_any_work(tmp_path):
    outputs.check(None)
    outputs.check(str(tmp_path / "new.csv"))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="must be a file, or nothing yet, got something else"):
        outputs.check(str(tmp_path / "folder.csv"))
    with pytest.raises(ValueError, match="must be in a folder that is there and can be written to"):
        outputs.check(str(tmp_path / "none" / "t.csv"))
    with pytest.raises(ValueError, match=r"must end in one of \.png, \.pdf\."):
        outputs.check(str(tmp_path / "t.csv"), (".png", ".pdf"))
