"""Large tables of small whole numbers are coded as all others are, and wrong ones raise the same sentence."""

import numpy as np
import pytest

import gpuensemble as ge
from gpuensemble._array import coding
from gpuensemble._kernels import integers


@pytest.fixture(autouse=True)
def large(monkeypatch):
    """Tables of a hundred labels count as large."""
    monkeypatch.setattr(integers, "LARGE", 100)
    monkeypatch.setattr(integers, "ALONE", 0)
    monkeypatch.setattr(integers, "SPAN", 7)


def table(dtype="int64", holes=0.0, high=9, n=60, r=5):
    rng = np.random.default_rng(0)
    found = (rng.integers(0, high, (n, r)) * [1, 3, 1, 2, 1]).astype(dtype)
    if holes:
        found[rng.random(found.shape) < holes] = -1
        found[:, 0] = np.maximum(found[:, 0], 0)
    return found


def same(labels):
    found, values = integers.coded(labels)
    expected, expected_values = coding.from_labels(labels)
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert found.codes.dtype == expected.codes.dtype
    np.testing.assert_array_equal(found.widths, expected.widths)
    assert found.widths.dtype == expected.widths.dtype
    assert found.complete == expected.complete
    for one, two in zip(values, expected_values, strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.dtype == two.dtype


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"])
def test_every_type_of_integers(dtype):
    same(table(dtype))
    if dtype.startswith("int"):
        same(table(dtype, holes=0.3))


@pytest.mark.parametrize("high", [254, 255, 256, 5000, 20_000])
def test_codes_are_as_narrow(high):
    labels = table(high=high, n=3000)
    labels[:high, 0] = np.arange(min(high, 3000))
    same(labels)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64"])
def test_labels_that_are_codes_already_are_copied(dtype):
    """The caller may change his table, and the codes stay."""
    labels = (np.arange(300).reshape(60, 5) % 4).astype(dtype)
    same(labels)
    found, _ = integers.coded(labels)
    labels[:] = 0
    assert found.codes.max() == 3


def test_a_label_that_the_sample_lacks(monkeypatch):
    monkeypatch.setattr(integers, "SAMPLE", 2)
    labels = table()
    labels[0] = labels[30] = 0
    same(labels)


def test_any_layout():
    same(np.asfortranarray(table()))
    same(table()[::-1, ::2])
    same(table().astype(">i8").astype("i8"))


@pytest.mark.parametrize("labels", [table("float64"), table("uint64"), table().astype(">i4"), table() == 0])
def test_others_are_left_to_the_general_way(labels):
    assert integers.coded(labels) is None
    ge.Membership.from_labels(labels, "cpu")


def test_labels_beyond_the_look_ups_are_left_to_the_general_way():
    labels = table()
    labels[3, 2] = 1 << 40
    assert integers.coded(labels) is None
    assert ge.Membership.from_labels(labels, "cpu").categories[2][-1] == 1 << 40


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ((3, 2), -2, r"got -2 in row 3, column 2\.$"),
        ((4, slice(None)), -1, r"^`labels` must have a label in every row, got only missing ones in row 4\.$"),
        ((slice(None), 1), -1, r"^`labels` must have a label in every column, got only missing ones in column 1\.$"),
    ],
)
def test_wrong_labels_are_named(place, value, message):
    labels = table()
    labels[place] = value
    assert integers.coded(labels) is None
    with pytest.raises(ValueError, match=message):
        ge.Membership.from_labels(labels, "cpu")


def test_what_is_masked_is_a_hole():
    labels = np.ma.masked_array(table(), np.random.default_rng(2).random((60, 5)) < 0.2)
    labels.mask[:, 0] = False
    assert integers.coded(labels) is None
    found, expected = ge.Membership.from_labels(labels, "cpu"), ge.Membership.from_labels(labels.filled(-1), "cpu")
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert not found.complete


def test_a_table_on_disk_is_coded_in_the_same_way(tmp_path):
    np.save(tmp_path / "labels.npy", table())
    same(np.load(tmp_path / "labels.npy", mmap_mode="r"))
