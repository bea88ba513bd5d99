"""Text tables as strangers' programs write them: each is read as it was meant, or refused with flags that choose."""

import uuid

import numpy as np
import pandas as pd
import pytest

from gpuensemble._cli.tables import files

N = 30
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 4, (N, 3))
CODES[:4] = np.arange(4)[:, None]  # every label is there
WORDS = np.array(["red", "green", "blue", "grey"])[CODES]
FLOATS = RNG.normal(size=(N, 3)).round(4)
NAMES = ["p1", "p2", "p3"]
IDS = [f"s{i}" for i in range(N)]
BARCODES = ["".join(letters) + "-1" for letters in RNG.choice(list("ACGT"), (N, 12))]
UUIDS = [str(uuid.UUID(bytes=RNG.bytes(16))) for _ in range(N)]
PEOPLE = [f"{a}{b}" for a in ("An", "Ben", "Cla", "Dan", "Ed", "Fro") for b in ("na", "ni", "ra", "ka", "do")]


def csv(table, names=NAMES, index=None, **options):
    """What pandas writes; without names there is no header, without an index no ids."""
    frame = pd.DataFrame(table, columns=names, index=index)
    return frame.to_csv(index=index is not None, header=names is not None, **options)


def r_table(table, ids, sep=" "):
    """What R's write.table writes: no cell above the row names."""
    lines = [sep.join(f'"{name}"' for name in NAMES)]
    lines += [sep.join([f'"{i}"', *map(str, row)]) for i, row in zip(ids, table, strict=True)]
    return "\n".join(lines) + "\n"


def r_csv(table, ids):
    """What R's write.csv writes: quoted names, and an empty one above the row names."""
    return '"",' + r_table([[f'"{cell}"' for cell in row] for row in table], ids, ",")


def named(title, ids, table=CODES, names=NAMES):
    return csv(table, names, pd.Index(ids, name=title))


# What is read: rows, columns, whether the first line holds names, the ids.
LABELS = {
    "pandas, index of text, labels of text": (csv(WORDS, NAMES, IDS), (N, 3, True, IDS)),
    "pandas, index of text, labels of numbers": (csv(CODES, NAMES, IDS), (N, 3, True, IDS)),
    "pandas, index of numbers": (csv(WORDS, NAMES, range(N)), (N, 3, True, [*map(str, range(N))])),
    "pandas, shuffled index": (csv(WORDS, NAMES, range(N)[::-1]), (N, 3, True, [*map(str, range(N)[::-1])])),
    "pandas, numbered columns, index of text": (csv(WORDS, [0, 1, 2], IDS), (N, 3, True, IDS)),
    "pandas, numbered columns, both numbered": (csv(CODES, [0, 1, 2], range(N)), (N, 3, True, [*map(str, range(N))])),
    "pandas without index, text": (csv(WORDS), (N, 3, True, None)),
    "pandas without index, numbers": (csv(CODES), (N, 3, True, None)),
    "pandas, many numbered columns, no index": (csv(np.tile(CODES, 4), range(12)), (N, 12, True, None)),
    "pandas, numbered columns of text, no index": (csv(WORDS, range(3)), (N, 3, True, None)),
    "pandas, holes make floats of labels": (csv(np.where(CODES, CODES, np.nan), range(3)), (N, 3, True, None)),
    "pandas, named index": (named("cell", IDS, WORDS), (N, 3, True, IDS)),
    "pandas, index beside ids": (
        csv(np.column_stack([IDS, WORDS]), ["sample", *NAMES], range(N)),
        (N, 3, True, IDS),
    ),
    "pandas, index beside a column called id": (
        csv(np.column_stack([range(100, 100 + N), CODES]), ["id", *NAMES], range(N)),
        (N, 3, True, [*map(str, range(100, 100 + N))]),
    ),
    "pandas, written, read and written": (
        csv(np.column_stack([range(N), CODES]), ["Unnamed: 0", *NAMES]),
        (N, 3, True, [*map(str, range(N))]),
    ),
    "pandas, twice written and read": (
        csv(np.column_stack([range(N), CODES]), ["Unnamed: 0", *NAMES], IDS),
        (N, 3, True, IDS),
    ),
    "R's write.csv": (r_csv(WORDS, IDS), (N, 3, True, IDS)),
    "R's write.csv, numbered rows": (r_csv(WORDS, range(1, N + 1)), (N, 3, True, [*map(str, range(1, N + 1))])),
    "R's write.table with commas": (r_table(WORDS, IDS, ","), (N, 3, True, IDS)),
    "R's write.table with commas, numbers": (
        r_table(CODES, range(1, N + 1), ","),
        (N, 3, True, [*map(str, range(1, N + 1))]),
    ),
    **{
        f"numbers called {title}": (named(title, range(7, 7 + N)), (N, 3, True, [*map(str, range(7, 7 + N))]))
        for title in ("sample", "cell", "Barcode", "id", "ID", "sample_id", "index", "patient id", "name", "IDs")
    },
    "barcodes": (named("barcode", BARCODES, WORDS), (N, 3, True, BARCODES)),
    "barcodes under another name": (named("spot", BARCODES, WORDS), (N, 3, True, BARCODES)),
    "barcodes without a header": (csv(np.column_stack([BARCODES, WORDS]), None), (N, 3, False, BARCODES)),
    "barcodes and one column of numbers, no header": (
        csv(np.column_stack([BARCODES, CODES[:, 0]]), None),
        (N, 1, False, BARCODES),
    ),
    "ids and labels that seem to count": ("s0,0,1\ns1,1,1\ns2,0,0\n", (3, 2, False, ["s0", "s1", "s2"])),
    "UUIDs": (named("uuid", UUIDS), (N, 3, True, UUIDS)),
    "UUIDs without a header": (csv(np.column_stack([UUIDS, CODES]), None), (N, 3, False, UUIDS)),
    "ids that begin as names of ids do, no header": (
        csv(np.column_stack([[f"id_{i}" for i in range(N)], WORDS]), None),
        (N, 3, False, [f"id_{i}" for i in range(N)]),
    ),
    "ids that end as names of ids do, no header": (
        csv(np.column_stack([[f"{i}-id" for i in range(N)], CODES]), None),
        (N, 3, False, [f"{i}-id" for i in range(N)]),
    ),
    "R's own names over numbered ids and one partition": (
        csv(np.column_stack([IDS, CODES[:, 0]]), ["V1", "V2"]),
        (N, 1, True, IDS),
    ),
    "people": (named("who", PEOPLE, WORDS), (N, 3, True, PEOPLE)),
    "people without a header": (csv(np.column_stack([PEOPLE, WORDS]), None), (N, 3, False, PEOPLE)),
    "ids in the last column": (csv(np.column_stack([WORDS, BARCODES]), [*NAMES, "spot"]), (N, 3, True, BARCODES)),
    "ids with leading zeros": (
        csv(np.column_stack([[f"{i:04}" for i in range(N)], CODES]), ["nr", *NAMES]),
        (N, 3, True, [f"{i:04}" for i in range(N)]),
    ),
    "no header, numbers": (csv(CODES[3:], None), (N - 3, 3, False, None)),
    "no header, text": (csv(WORDS, None), (N, 3, False, None)),
    "no header, ids and numbers": (csv(np.column_stack([IDS, CODES])[5:], None), (N - 5, 3, False, IDS[5:])),
    "no header, ids and text": (csv(np.column_stack([IDS, WORDS]), None), (N, 3, False, IDS)),
    "no header, a hole comes first": (csv(np.array([["", "1", "2"], *CODES[4:]]), None), (N - 3, 3, False, None)),
    "no header, a hole in text comes first": (
        csv(np.array([["", "red", "red"], *WORDS]), None),
        (N + 1, 3, False, None),
    ),
    "one column of text": ("kind\n" + "\n".join(WORDS[:, 0]), (N, 1, True, None)),
    "one column of numbers": ("kind\n" + "\n".join(map(str, CODES[:, 0])), (N, 1, True, None)),
    "one column of text, no header": ("\n".join(WORDS[:, 0]), (N, 1, False, None)),
    "one column of numbers, no header": ("\n".join(map(str, CODES[1:, 0])), (N - 1, 1, False, None)),
    "numbers of clusters are names": (csv(np.tile(CODES, 2), [10, 20, 30, 40, 50, 60]), (N, 6, True, None)),
    "numbers of clusters are names of words": (csv(WORDS, [10, 20, 30]), (N, 3, True, None)),
    "words, the first of them a hole": (csv(np.array([["red", "NA"], *WORDS[:, :2]]), None), (N + 1, 2, False, None)),
    "R's own names over numbered ids": (
        csv(np.column_stack([IDS, WORDS]), ["V1", "V2", "V3", "V4"]),
        (N, 3, True, IDS),
    ),
    "numbered columns beside people": (named("spot", PEOPLE, WORDS, range(3)), (N, 3, True, PEOPLE)),
    "numbers of clusters beside ids": (csv(CODES, [10, 20, 30], pd.Index(IDS, name="spot")), (N, 3, True, IDS)),
    "names that are labels of another kind": (csv(WORDS, ["a", "b", "c"]), (N, 3, True, None)),
    "letters as names and labels, beside numbers": (
        csv(np.column_stack([CODES, np.array(list("abcd"))[CODES[:, 0]]]), list("xyza")),
        (N, 4, True, None),
    ),
    "two rows below names": ("id,a,b\nx,red,red\ny,red,blue\n", (2, 2, True, ["x", "y"])),
    "two rows, ids and numbers": ("s1,1\ns2,1\n", (2, 1, False, ["s1", "s2"])),
    "three rows, an index": (",a\ns1,u\ns2,v\ns3,u\n", (3, 1, True, ["s1", "s2", "s3"])),
    "one row": ("a,b\n1,2\n", (1, 2, True, None)),
    "windows": (csv(WORDS, NAMES, IDS, lineterminator="\r\n"), (N, 3, True, IDS)),
    "a byte order mark": ("\ufeff" + csv(WORDS, NAMES, IDS), (N, 3, True, IDS)),
    "all quoted": (csv(WORDS, NAMES, IDS, quoting=1), (N, 3, True, IDS)),
    "blank lines at the end": (csv(WORDS, NAMES, IDS) + "\n\n", (N, 3, True, IDS)),
}
FEATURES = {
    "ids of text": (csv(FLOATS, NAMES, IDS), (N, 3, True, IDS)),
    "named ids": (named("gene", PEOPLE, FLOATS), (N, 3, True, PEOPLE)),
    "an index of numbers": (csv(FLOATS, NAMES, range(N)), (N, 3, True, [*map(str, range(N))])),
    "no ids": (csv(FLOATS), (N, 3, True, None)),
    "no header": (csv(FLOATS, None), (N, 3, False, None)),
    "no header, whole numbers": (csv((FLOATS * 1e4).astype(int), None), (N, 3, False, None)),
    "no header, ids": (csv(FLOATS, None, IDS), (N, 3, False, IDS)),
    "no header, a hole comes first": (csv([[np.nan, 0.5, 1.5], *FLOATS], None), (N + 1, 3, False, None)),
    "numbered columns": (csv(FLOATS, range(3)), (N, 3, True, None)),
    "one numbered column": (csv(FLOATS[:, :1], [0]), (N, 1, True, None)),
    "numbered columns, and ids": (csv(FLOATS, range(3), IDS), (N, 3, True, IDS)),
    "years are names, no ids": (csv(FLOATS, [2019, 2020, 2021]), (N, 3, True, None)),
    "years are names": (csv(FLOATS, [2019, 2020, 2021], IDS), (N, 3, True, IDS)),
    "numbers called sample": (named("sample", range(N), FLOATS), (N, 3, True, [*map(str, range(N))])),
    "decimals called index": (named("index", FLOATS[:, 0], FLOATS), (N, 4, True, None)),
    "decimals without a zero": (
        csv(np.char.lstrip(np.abs(FLOATS % 1).astype("U6"), "0")),
        (N, 3, True, None),
    ),
    "R's write.table with commas": (r_table(FLOATS, IDS, ","), (N, 3, True, IDS)),
    "two rows": ("a,b\n1.5,2\n2.5,2\n", (2, 2, True, None)),
}
LABELS_REFUSED = {
    "ids that are there twice": (named("sample", [*IDS[:-1], "s0"], WORDS), "column 'sample'; --id sample .* --no-ids"),
    "ids that are there twice, another name": (
        named("spot", [*BARCODES[:-2], *BARCODES[:2]], WORDS),
        "got different entries in most rows of column 'spot'; --id spot takes it for ids, which must all be different, "
        "--no-ids for data",
    ),
    "an index that is there twice": (
        csv(WORDS, NAMES, [*IDS[:-1], "s0"]),
        "every id once, got 's0' twice in column ''",
    ),
    "ids that are there twice, no header": (
        csv(np.column_stack([[*BARCODES[:-1], BARCODES[1]], WORDS]), None),
        "column '0'; --id 0 takes .* --no-ids",
    ),
    "numbers all different, not called ids": (named("nr", range(50, 50 + N)), "column 'nr'; --id nr .* --no-ids"),
    "numbers all different, no header": (
        csv(np.column_stack([range(50, 50 + N), CODES]), None),
        "column '0'; --id 0 .* --no-ids",
    ),
    "two columns of ids": (
        csv(np.column_stack([IDS, BARCODES, WORDS]), ["sample", "barcode", *NAMES]),
        "in every row of column 'sample' and 'barcode'; --id sample",
    ),
    "one column that counts, or a header": (
        "0\n0\n1\n1\n2\n",
        "got '0'; --header .* 4 samples.* --no-header .* 5 samples",
    ),
    "two columns that count, or a header": ("0,1\n0,1\n1,1\n0,0\n1,0\n", "got '0', '1'; --header .* --no-header"),
    "an index over one row, or a hole": (",b\nc,c\n", "got '', 'b'; --header"),
    "an index that counts, or a hole": (",0,1\n2,0,1\n2,0,1\n", "got '', '0', '1'; --header"),
    "ids and columns that count, of which one is new": ("s0,0,1\ns1,1,0\ns2,2,0\n", "got 's0', '0', '1'; --header"),
    "one column of words, the first seen once": (
        "red\n" + "\n".join(WORDS[WORDS[:, 0] != "red", 0]) + "\npink",
        "got 'red'; --header",
    ),
    "names of numbers, or labels seen once": (csv(CODES[:, :2], [10, 20]), "got '10', '20'; --header"),
    "names of numbers over few words": (csv(WORDS[4:7], [10, 20, 30]), "got '10', '20', '30'; --header"),
    "names of numbers, or a label seen once": (csv(CODES[:, :1], [10]), "got '10'; --header"),
    "rising numbers over few labels": (csv(CODES[:3], [10, 20, 30]), "got '10', '20', '30'; --header"),
    "letters as names and labels": (csv(np.array(list("abcd"))[CODES], list("abc")), "got 'a', 'b', 'c'; --header"),
    "letters as names and labels beside ids": (
        named("who", PEOPLE, np.array(list("abcd"))[CODES], list("abc")),
        "got 'who', 'a', 'b', 'c'; --header",
    ),
    "ids and labels, the first seen once": (
        "s0,f\ns1,e\ns2,b\ns3,b\ns4,a\ns5,a\ns6,e\n",
        "got 's0', 'f'; --header",
    ),
    "a strange label above numbers": ("1,?\n1,2\n2,2\n1,1\n", "got '1', '\\?'; --header"),
    "a strange label beside numbered ids": ("s1,unknown\ns2,3\ns3,4\ns4,3\n", "got 's1', 'unknown'; --header"),
    "letters in all": ("a,b\nb,c\nc,a\n", "got 'a', 'b'; --header"),
    "names, of which one is a label": ("a,b\na,x\na,y\nb,x\n", "got 'a', 'b'; --header"),
    "one row below words": ("a,b\nx,u\n", "got 'a', 'b'; --header takes them for names above 1 samples"),
    "few words, all different in each column": ("p,q\nx,u\ny,v\nz,w\n", "got 'p', 'q'; --header"),
    "few words, all different": ("label,q\nx,u\ny,v\nz,w\n", "row of column 'label' and 'q'; --id label"),
    "few words, all different in one": ("label,q\nx,u\ny,v\nz,u\n", "row of column 'label'; --id label .* --no-ids"),
}
FEATURES_REFUSED = {
    "row numbers that are not called ids": (named("nr", range(1, N + 1), FLOATS), "column 'nr'; --id nr .* --no-ids"),
    "row numbers without a header": (csv(np.column_stack([np.arange(N).astype(object), FLOATS]), None), "column '0'"),
    "decimal commas": (csv(FLOATS, decimal=","), "must have points in its decimal numbers, got '-0,3139' in row 0"),
    "decimal commas in one column": (
        csv(np.column_stack([np.char.replace(FLOATS[:, 0].astype(str), ".", ","), FLOATS])[:, :2], NAMES[:2], IDS),
        "must have points in its decimal numbers, got .* column 'p1'; `pandas.read_csv",
    ),
    "decimal commas in one column, no ids": (
        csv(np.column_stack([np.char.replace(FLOATS[:, 0].astype(str), ".", ","), FLOATS])[:, :2], NAMES[:2]),
        "must have points in its decimal numbers",
    ),
}


def put(tmp_path, text, name="t.csv"):
    (tmp_path / name).write_bytes(text.encode())
    return str(tmp_path / name)


@pytest.mark.parametrize(("text", "expected"), LABELS.values(), ids=LABELS)
def test_labels_are_read_as_they_were_meant(tmp_path, capsys, text, expected):
    table = files.read_labels(put(tmp_path, text))
    assert_reading(table, expected, capsys.readouterr(), "partitions")


@pytest.mark.parametrize(("text", "expected"), FEATURES.values(), ids=FEATURES)
def test_features_are_read_as_they_were_meant(tmp_path, capsys, text, expected):
    table = files.read_features(put(tmp_path, text))
    assert_reading(table, expected, capsys.readouterr(), "features")


def assert_reading(table, expected, printed, what):
    rows, columns, names, ids = expected
    assert table.values.shape == (rows, columns)
    assert (None if table.ids is None else list(table.ids)) == ids
    said = "names in the first line" if names else "no names"
    assert printed.out == ""
    assert printed.err.startswith(f"gpuensemble: {table.path}: {rows} samples x {columns} {what}, {said}, ")
    assert printed.err.count("\n") == 1
    assert ("no ids" in printed.err) == (ids is None)


@pytest.mark.parametrize(("text", "message"), LABELS_REFUSED.values(), ids=LABELS_REFUSED)
def test_labels_that_may_be_read_in_two_ways_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as error:
        files.read_labels(put(tmp_path, text))
    assert str(error.value).endswith(".")


@pytest.mark.parametrize(("text", "message"), FEATURES_REFUSED.values(), ids=FEATURES_REFUSED)
def test_features_that_may_be_read_in_two_ways_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as error:
        files.read_features(put(tmp_path, text))
    assert str(error.value).endswith(".")


def test_row_numbers_beside_ids_are_left_out_and_told(tmp_path, capsys):
    path = put(tmp_path, LABELS["pandas, index beside ids"][0])
    assert list(files.read_labels(path).values.columns) == NAMES
    said = "names in the first line, row numbers left out, ids in column 'sample'"
    assert capsys.readouterr().err == f"gpuensemble: {path}: {N} samples x 3 partitions, {said}\n"
    assert list(files.read_labels(path, "sample").values.columns) == NAMES
