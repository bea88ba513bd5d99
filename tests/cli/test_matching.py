"""Rows of several files are matched by their ids, whatever their types, or by their order."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from gpuensemble._cli.main import main
from gpuensemble._cli.tables import files, matching


@pytest.fixture
def write(tmp_path):
    """A function that makes a file with that text and gives its path."""

    def make(text, name):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return make


def test_views_are_joined_by_their_ids(write, tmp_path):
    one = files.read_features(write("id,a\nx,1\ny,2\n", "one.csv"))
    two = files.read_features(write("id,b,c\nz,3,4\nx,5,6\n", "two.csv"))
    table, (a, b), present = matching.joined([one, two])
    assert list(table.ids) == ["x", "y", "z"]
    np.testing.assert_array_equal(a, [[1], [2], [np.nan]])
    np.testing.assert_array_equal(b, [[5, 6], [np.nan, np.nan], [3, 4]])
    np.testing.assert_array_equal(present, [[True, True], [True, False], [False, True]])
    sparse = two._replace(values=csr_matrix(two.values))
    _, (_, b), present = matching.joined([one, sparse])
    np.testing.assert_array_equal(b.toarray(), [[5, 6], [0, 0], [3, 4]])
    _, views, present = matching.joined([one, one])
    assert present is None
    np.testing.assert_array_equal(views[1], one.values)


def test_views_without_ids_are_joined_by_their_order(write):
    one, two = (files.read_features(write(f"b\n1.5\n{more}", f"{i}.csv")) for i, more in enumerate(["", "2.5\n"]))
    table, (a, b), present = matching.joined([one, one])
    assert (table.ids, a.tolist(), b.tolist(), present) == (None, [[1.5]], [[1.5]], None)
    with pytest.raises(ValueError, match=r"1\.csv` must have ids, or as many rows as .*0\.csv`, 1, got 2\."):
        matching.joined([one, two])


@pytest.mark.parametrize("order", [1, -1])
def test_ids_in_one_view_only_are_refused(write, order):
    """As many rows in each: nobody knows whether they are in the same order."""
    one = files.read_features(write("id,a\nx,1\ny,2\n", "one.csv"))
    two = files.read_features(write("a\n1.5\n2.5\n", "two.csv"))
    with pytest.raises(ValueError, match=r"two\.csv` must have ids, as `.*one\.csv` has, got none; --id says"):
        matching.joined([one, two][::order])


def stored(tmp_path, name, ids):
    """A file of one column, beside ids of any type."""
    path = str(tmp_path / name)
    values = np.arange(float(len(ids)))
    if name.endswith(".npz"):
        np.savez(path, X=values[:, None], id=ids)
    elif name.endswith(".csv"):
        pd.DataFrame({"id": ids, "x": values}).to_csv(path, index=False)
    else:
        pd.DataFrame({"id": ids, "x": values}).to_parquet(path)
    return path


SAME = {
    "integers": np.array([100, 102, 101]),
    "floats": np.array([100.0, 102, 101]),
    "text": np.array(["100", "102", "101"]),
    "categories": pd.Categorical([100, 102, 101]),
    "categories of text": pd.Categorical(["100", "102", "101"]),
}


IN_FILES = [*(("parquet", name) for name in SAME), *(("npz", name) for name in ("integers", "floats", "text"))]


@pytest.mark.parametrize(("ending", "other"), IN_FILES)
@pytest.mark.parametrize("order", [1, -1])
def test_ids_of_two_types_are_compared_as_text(tmp_path, ending, other, order):
    one = stored(tmp_path, "a.csv", ["100", "101", "102"])
    two = stored(tmp_path, f"b.{ending}", SAME[other])
    views = [files.read_features(path) for path in (one, two)][::order]
    table, (a, b), present = matching.joined(views)
    assert present is None
    assert list(table.ids) == (["100", "101", "102"] if order == 1 else ["100", "102", "101"])
    np.testing.assert_array_equal((a, b)[::order][1], [[0], [2], [1]] if order == 1 else [[0], [1], [2]])
    rows = matching.paired(*views)
    np.testing.assert_array_equal(rows, [0, 2, 1])


def test_commands_match_ids_of_two_types(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"x": np.repeat([0, 9], 6), "y": np.repeat([8, 1], 6)}, index=list(range(100, 112)))
    table.to_csv("a.csv", index_label="id")
    table[::-1].to_parquet("b.parquet")
    assert main(["fit-views", "a.csv", "b.parquet", "-k", "2", "--device", "cpu", "--out", "c.npz"]) == 0
    assert capsys.readouterr().out.startswith("12 samples in 2 views, ids in 'id', ")
    for pair in (["a.csv", "b.parquet"], ["b.parquet", "a.csv"]):
        assert main(["score", *pair, "--columns", "x", "x", "--at-least", "ari=1"]) == 0


def test_ids_of_one_type_keep_it(tmp_path):
    views = [files.read_features(stored(tmp_path, name, SAME["integers"])) for name in ("a.parquet", "b.npz")]
    table, _, present = matching.joined(views)
    assert (table.ids.dtype, present) == ("int64", None)


@pytest.mark.parametrize("entry", ["007", "7.0", "+7", "7e0"])
def test_numbers_that_text_writes_otherwise_are_refused(tmp_path, entry):
    one = files.read_features(stored(tmp_path, "a.csv", [entry, "x", "y"]), "id")
    two = files.read_features(stored(tmp_path, "b.parquet", [7, 8, 9]), "id")
    message = f"a.csv` must write ids as `{two.path}` does, got '{entry}' there and 7 here, which may be one id or two."
    for match in (lambda: matching.joined([two, one]), lambda: matching.paired(one, two)):
        with pytest.raises(ValueError, match=re.escape(message)):
            match()


def test_views_without_an_id_in_common_are_refused(tmp_path):
    names = {"a.csv": list("uvw"), "b.csv": list("wxy"), "c.csv": ["1", "2", "3"], "d.parquet": [100, 101, 102]}
    views = {name: files.read_features(stored(tmp_path, name, ids), "id") for name, ids in names.items()}
    for stranger, there in (("c.csv", "'1'"), ("d.parquet", "'100'")):
        message = f"{stranger}` must have ids of the other files, too, got {there}, and 'u' in `"
        with pytest.raises(ValueError, match=re.escape(message)):
            matching.joined([views["a.csv"], views["b.csv"], views[stranger]])
    assert matching.joined([views["c.csv"]])[2] is None


def test_an_id_in_one_file_only_is_written_as_a_person_would(tmp_path):
    one, two = (files.read_features(stored(tmp_path, f"{i}.parquet", [7, 8, i])) for i in range(2))
    with pytest.raises(ValueError, match=r"`.*1[.]parquet` must have the ids of `.*0[.]parquet`, got 0 in one of"):
        matching.paired(one, two)
