"""Labels that are read in parts: the values of a whole table from scans of its rows, and known labels found again."""

import numpy as np
import pandas as pd
import pytest

from gpuensemble._array import coding
from support import check


def tables():
    """Tables of 12 rows of several kinds, with holes."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 6, (12, 3)) * 3
    holes = rng.random((12, 3)) < 0.2
    holes[:, 1] = False
    names = np.array([f"n{i}" for i in range(16)], object)[numbers]
    yield numbers
    yield np.where(holes, -1, numbers).astype("int8")
    yield np.where(holes, np.nan, numbers)
    yield np.where(holes, None, names)
    yield pd.DataFrame(np.where(holes, None, names))
    yield np.where(holes, None, names).tolist()


def part(table, begin, end):
    return table.iloc[begin:end] if hasattr(table, "iloc") else table[begin:end]


@pytest.mark.parametrize("number", range(6))
def test_scans_of_parts_are_those_of_the_whole_table(number):
    table = list(tables())[number]
    coded, expected = coding.from_labels(table)
    scans = [coding.scan(part(table, begin, end), begin) for begin, end in ((0, 1), (1, 7), (7, 12))]
    categories, complete = coding.joined(scans)
    assert complete == coded.complete == (number == 0)
    assert [scan.complete for scan in scans].count(False) >= (number > 0)
    for found, values in zip(categories, expected, strict=True):
        assert found.tolist() == values.tolist()
        assert found.dtype == values.dtype


def test_a_column_of_holes_is_refused_only_where_all_parts_have_one():
    some, none = coding.scan(np.array([[1, 0], [2, 1]]), 0), coding.scan(np.array([[1, -1]]), 2)
    categories, complete = coding.joined([some, none])
    assert [values.tolist() for values in categories] == [[1, 2], [0, 1]]
    assert not complete
    with pytest.raises(ValueError, match=r"^`labels` must have a label in every column, got .* in column 1\.$"):
        coding.joined([none, none])
    with pytest.raises(ValueError, match=r"^`labels` must have as many columns in all its parts, got \[1, 2\]\.$"):
        coding.joined([some, coding.scan(np.array([[1]]), 2)])


def test_values_of_several_types_are_joined_as_python_has_them():
    scans = [coding.scan(table, 0) for table in ([["b"], [2]], np.array([[3], [2]]), [["a"], ["b"]])]
    assert coding.joined(scans)[0][0].tolist() == ["b", 2, 3, "a"]
    numbers = [coding.scan(np.array([[5], [1]]), 0), coding.scan(np.array([[3.0], [1.0]]), 2)]
    assert coding.joined(numbers)[0][0].tolist() == [1, 3, 5]


@pytest.mark.parametrize(("largest", "other", "fits"), [(2**53, 1.0, True), (2**53 + 1, 1.0, False), (2**60, 1, True)])
def test_whole_numbers_beyond_a_float_do_not_meet_floats(largest, other, fits):
    parts = np.array([[other], [0 * other]]), np.array([[largest], [7]]), np.array([[7]])
    scans = [coding.scan(part, 0) for part in parts]
    if fits:
        assert coding.joined(scans)[0][0].tolist() == [0, 1, 7, largest]
    else:
        with pytest.raises(ValueError, match=rf"at most 2\*\*53 where .* types, got {largest} in column 0\."):
            coding.joined(scans)


def test_rows_of_a_part_have_the_numbers_of_the_table():
    for table in (np.array([[1, 2], [3, -2]]), [[1, 2], [3, -2]]):
        with pytest.raises(ValueError, match=r"got -2 in row 101, column 1\."):
            coding.scan(table, 100)
    for table in (np.array([[1, 2], [-1, -1]]), [[1, 2], [None, -1]]):
        with pytest.raises(ValueError, match=r"only missing ones in row 101\."):
            coding.scan(table, 100)


def distinct_cases():
    rng = np.random.default_rng(0)
    for high in (1, 300, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 1 << 40, 2**53 - 1, 2**53, 2**53 + 2):
        for low in (0, 1, high // 2, max(0, high - 5)):
            yield np.append(rng.integers(low, high, 50, endpoint=True), [low, high])
    yield rng.integers(-5, 5, 50)
    yield np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], "uint64")
    yield np.array([True, False, True])
    yield np.arange(200_000)[::-1]  # more rows than the range that is always counted


@pytest.mark.parametrize("dtype", [None, "float64", "float32"])
def test_distinct_numbers_are_those_of_numpy(xp, dtype):
    for plain in distinct_cases():
        values = plain if dtype is None else plain.astype(dtype)
        expected, places = np.unique(values, return_inverse=True)
        found, index = coding._distinct(xp.asarray(values))
        check(found, expected, xp)
        check(index.astype("int64"), places, xp)


def test_fractions_among_small_numbers_stay_distinct(xp):
    values = np.array([1.0, 1.5, 1.25, 0.0, 1.5])
    found, index = coding._distinct(xp.asarray(values))
    check(found, np.array([0, 1, 1.25, 1.5]), xp)
    check(index.astype("int64"), np.array([1, 3, 2, 0, 3]), xp)


def test_small_ranges_are_counted_and_others_sorted(monkeypatch):
    """Counting takes an entry for each number of the range: twice the rows, or 65536, at most."""
    sorted_ranges = []

    class Recorder:
        def __getattr__(self, name):
            return getattr(np, name)

        def unique(self, values, **options):
            sorted_ranges.append(int(values.max()) - int(values.min()))
            return np.unique(values, **options)

    monkeypatch.setattr(coding, "namespace", lambda array: Recorder())
    for high in (65535, 65536):
        coding._distinct(np.array([7, 7 + high]))
    for high in (199_999, 200_000):
        coding._distinct(np.append(np.zeros(99_999, int), high))
    assert sorted_ranges == [65536, 200_000]


def test_known_labels_are_found_and_others_counted(xp):
    categories = [np.array([2, 4, 8]), np.array([0, 9])]
    labels = np.array([[8, 9], [4, 9], [3, 0], [2, 7], [-1, 0]])
    coded, unknown = coding.from_known_labels(xp.asarray(labels), categories)
    check(coded.codes, np.array([[2, 1], [1, 1], [255, 0], [0, 255], [255, 0]], "uint8"), xp)
    assert unknown == 2
    assert coded.widths.tolist() == [3, 2]
    assert not coded.complete
    coded, unknown = coding.from_known_labels(xp.asarray(labels[:2]), categories)
    assert (coded.complete, unknown) == (True, 0)
    with pytest.raises(ValueError, match=r"^`labels` must have the 2 columns that `fit` saw, got 1\.$"):
        coding.from_known_labels(xp.asarray(labels[:, :1]), categories)


def test_known_names_are_found():
    categories = [np.array(["a", "b"], object), np.array([1, "c"], object)]
    coded, unknown = coding.from_known_labels([["b", 1], ["z", "c"], [None, 1]], categories)
    assert coded.codes.tolist() == [[1, 0], [255, 1], [255, 0]]
    assert unknown == 1


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint16"])
def test_codes_of_any_integer_type_have_their_hole(dtype):
    codes = np.array([[0, 3], [-1, 1], [2, -1]]).astype(dtype)
    coded = coding.from_codes(codes, [3, 4])
    assert coded.codes.tolist() == [[0, 3], [255, 1], [2, 255]]
    assert not coded.complete
    assert coding.from_codes(codes[:1], [3, 4]).complete


def test_a_masked_or_old_matrix_is_a_table():
    masked = np.ma.array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    coded, categories = coding.from_labels(masked)
    assert coded.codes.tolist() == [[0, 255], [1, 0]]
    assert [values.tolist() for values in categories] == [[1, 3], [4]]
    assert masked.data.tolist() == [[1, 2], [3, 4]]
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1, 2], [3, 4]])
    assert coding.from_labels(matrix)[0].codes.tolist() == [[0, 0], [1, 1]]
