"""This module turns a table of labels of any kind into partition-local codes."""

import numbers
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gpuensemble._array import checks, csr, frames
from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host
from gpuensemble._array.frames import Names
from gpuensemble._array.messages import shown

MIX = np.uint64(0x9E3779B97F4A7C15)  # of hashes: an odd number without pattern


class Coded(NamedTuple):
    """Codes are partition-local: column i has 0 .. widths[i] - 1, and all bits set where a label is missing."""

    codes: Array
    widths: np.ndarray
    complete: bool


def from_labels(labels: Any) -> tuple[Coded, list[np.ndarray]]:
    """Read a table of labels, of any kind that `frames` knows; a hole is NaN, None, null, NA or -1.

    This returns the codes and, of each column, its label values in the order of the codes.
    """
    frames.warn_of_vectors(labels)
    columns, names = frames.columns(labels)
    categories: list[np.ndarray] = []

    def coded():
        for i, column in enumerate(columns):
            local, values = _factorize(column, names, i)
            _check_values(local, values, names, i)
            categories.append(values)
            yield local, len(values)

    return _assemble(coded(), len(columns), names), categories


class Scan(NamedTuple):
    """A scan of some rows tells the label values of each column in them, and whether they have no hole."""

    values: list[np.ndarray]  # of each column
    complete: bool


def scan(labels: Any, first: int) -> Scan:
    """Look at some rows of a table, the first of which has the number `first`: some columns may be all holes."""
    columns, names = frames.columns(labels, first)
    found, complete = [], True
    seen: Array = False
    for i, column in enumerate(columns):
        local, values = _factorize(column, names, i)
        if len(values):
            _check_values(local, values, names, i)
        seen = (local >= 0) | seen
        complete = complete and bool((local >= 0).all())
        found.append(values)
    _check_seen(seen, names)
    return Scan(found, complete)


def joined(scans: list[Scan]) -> tuple[list[np.ndarray], bool]:
    """Return the values of each column of a whole table, as `from_labels` finds them, and whether it has no hole."""
    lengths = {len(one.values) for one in scans}
    if not lengths:
        raise ValueError("`labels` must be a table of at least one sample x one partition, got no row.")
    if len(lengths) > 1:
        raise ValueError(f"`labels` must have as many columns in all its parts, got {sorted(lengths)}.")
    categories = []
    for i, parts in enumerate(zip(*(one.values for one in scans), strict=True)):
        some = [part for part in parts if len(part)]
        if not some:
            raise ValueError(f"`labels` must have a label in every column, got only missing ones in column {i}.")
        if all(part.dtype.kind in "biuf" for part in some):
            _refuse_merging(some, i)
            categories.append(np.unique(np.concatenate(some)))
        else:
            distinct = dict.fromkeys(value for part in some for value in part.tolist())  # by first occurrence
            values = np.fromiter(distinct, object, len(distinct))
            categories.append(values[_in_order(values)])
    return categories, all(one.complete for one in scans)


def _refuse_merging(parts: list[np.ndarray], i: int) -> None:
    """Raise if whole numbers that are too large for a float would be joined with parts that are floats."""
    if np.result_type(*parts).kind != "f":
        return
    largest = max((int(part.max()) for part in parts if part.dtype.kind in "iu"), default=0)
    if largest > 2**53:
        rule = "at most 2**53 where their parts have different types"
        raise ValueError(f"`labels` must be {rule}, got {largest} in column {i}.")


def from_known_labels(labels: Any, categories: list[np.ndarray]) -> tuple[Coded, int]:
    """Return the codes of a table whose label values are known, and how many labels, now holes, are not among them."""
    columns, names = frames.columns(labels)
    if len(columns) != len(categories):
        raise ValueError(f"`labels` must have the {len(categories)} columns that `fit` saw, got {len(columns)}.")
    unknown = 0

    def coded():
        nonlocal unknown
        for i, (column, known) in enumerate(zip(columns, categories, strict=True)):
            local, values = _factorize(column, names, i)
            code_of = {value: code for code, value in enumerate(known.tolist())}
            codes = np.array([*(code_of.get(value, -1) for value in values.tolist()), -1])  # the last stands for -1
            recoded = to_device(codes, device_of(local))[local]
            unknown += int(((local >= 0) & (recoded < 0)).sum())
            yield recoded, len(known)

    return _assemble(coded(), len(columns), names), unknown


def from_vector(labels: Any, name: str) -> tuple[Coded, np.ndarray]:
    """Read a vector of labels, none missing (NumPy or CuPy array, Series, list): one column, and its label values."""
    column, names = frames.vector(labels, name)
    local, values = _factorize(column, names, 0)
    missing = local < 0
    if bool(missing.any()):
        place = names.place(0, int(missing.argmax()))
        raise ValueError(f"`{name}` must not hold missing labels (NaN, None or -1), got one{place}.")
    _check_values(local, values, names, 0)
    return _assemble(iter([(local, len(values))]), 1, names), values


def from_codes(codes: Any, widths: Any) -> Coded:
    """Read codes that are partition-local already; a hole is -1, or the largest value of an unsigned type."""
    codes = checks.array(codes, "codes", device_of(codes), 2, kinds="iu")
    widths = checks.array(widths, "widths", "cpu", 1, kinds="iu")
    if 0 in codes.shape:
        raise ValueError(f"`codes` must have at least one row and one column, got shape {codes.shape}.")
    if len(widths) != codes.shape[1] or widths.min() < 1:
        raise ValueError(
            f"`widths` must be {codes.shape[1]} positive integers, one per column of `codes`, got {widths.tolist()}."
        )
    checks.offsets(widths)
    hole = -1 if codes.dtype.kind == "i" else np.iinfo(codes.dtype).max

    def coded():
        for i, width in enumerate(widths.tolist()):
            local = namespace(codes).where(codes[:, i] == hole, -1, codes[:, i].astype("int64"))
            bad = (local < -1) | (local >= width)
            if bool(bad.any()):
                row = int(bad.argmax())
                rule = f"between 0 and {width - 1} in column {i}, or -1"
                raise ValueError(f"`codes` must be {rule}, got {int(local[row])} in row {row}.")
            yield local, width

    return _assemble(coded(), codes.shape[1], Names("codes", range(codes.shape[0]), range(codes.shape[1])))


def from_onehot(H: Any, offsets: Any) -> Coded:
    """Read a one-hot matrix, dense or sparse, whose partitions begin at these columns; the last offset is its width."""
    found = csr.matrix(H, "H", "cpu")
    bounds = checks.array(offsets, "offsets", "cpu", 1, "iu").astype("int64")
    (n, width), ends = found.shape, bounds[[0, -1]].tolist() if len(bounds) > 1 else []
    if ends != [0, width] or bool((bounds[1:] <= bounds[:-1]).any()):
        rule = f"the first column of each partition, then {width} = n_columns, from 0 on and rising"
        raise ValueError(f"`offsets` must be {rule}, got {shown(bounds.tolist())}.")
    row, column, value = _entries(found)
    if bool((value != 1).any()):
        raise ValueError(f"`H` must be 1 where a sample is in a cluster, else 0, got {value[value != 1][0]:g}.")
    partition = np.searchsorted(bounds, column, "right") - 1
    codes = np.full((n, len(bounds) - 1), -1, "int32")
    codes[row, partition] = column - bounds[partition]
    _refuse_two(row, partition, codes.shape[1])
    return from_codes(codes, np.diff(bounds))


def _entries(H: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row, column and value of each entry that is not 0."""
    if not isinstance(H, csr.Csr):
        row, column = np.nonzero(H)
        return row, column, H[row, column]
    there = H.data != 0
    return H.rows()[there], H.indices[there], H.data[there]


def _refuse_two(row: np.ndarray, partition: np.ndarray, r: int) -> None:
    """Raise if a row is in two clusters of a partition."""
    cells, counts = np.unique(row.astype("int64") * r + partition, return_counts=True)
    if bool((counts > 1).any()):
        at, i = divmod(int(cells[counts > 1][0]), r)
        raise ValueError(f"`H` must have one 1 at most in each partition, got more in row {at}, partition {i}.")


def _assemble(coded: Iterator[tuple[Array, int]], r: int, names: Names) -> Coded:
    """Put columns of codes (-1 is a hole) and their widths side by side, in the narrowest type that holds them all."""
    n = len(names.rows)
    codes: Array = None
    seen: Array = False
    widths, complete = [], True
    for i, (local, width) in enumerate(coded):
        codes = namespace(local).empty((n, r), "uint8") if i == 0 else codes
        codes = _widen(codes, width)
        codes[:, i] = local.astype(codes.dtype)  # -1 becomes all bits set
        seen = (local >= 0) | seen
        complete = complete and bool((local >= 0).all())
        widths.append(width)
    _check_seen(seen, names)
    return Coded(codes, np.array(widths, "int64"), complete)


def _check_seen(seen: Array, names: Names) -> None:
    if not bool(seen.all()):
        row = names.rows[int((~seen).argmax())]
        raise ValueError(f"`{names.table}` must have a label in every row, got only missing ones in row {shown(row)}.")


def code_dtype(width: int) -> str:
    """Return the narrowest type of codes that holds `width` clusters and a hole."""
    return "uint8" if width <= 255 else "uint16" if width <= 65535 else "int32"


def _widen(codes: Array, width: int) -> Array:
    """Return the codes in a type that holds `width` clusters and a hole; a hole, all bits set, stays one."""
    name = code_dtype(width)
    if np.dtype(name).itemsize <= codes.dtype.itemsize:
        return codes
    return namespace(codes).where(codes == np.iinfo(codes.dtype).max, -1, codes.astype("int32")).astype(name)


def _factorize(column: Any, names: Names, i: int) -> tuple[Array, np.ndarray]:
    """Return the codes of one column, -1 for a hole, and its distinct values."""
    kind = column.dtype.kind if isinstance(column.dtype, np.dtype) else "O"
    if kind in "biuf":
        return _factorize_numbers(column.to_numpy() if hasattr(column, "iloc") else column)
    if kind == "U" and column.dtype.itemsize and not hasattr(column, "iloc"):
        found = _factorize_text(column, names, i)
        if found is not None:
            return found
    if kind in "OUSTMm":
        return _factorize_objects(column, names, i)
    rule = "integers, strings or other hashable values"
    raise TypeError(f"`{names.table}` must hold {rule}, got dtype {column.dtype}{names.place(i)}.")


def _factorize_text(column: np.ndarray, names: Names, i: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Do it for an array of text by hashes of the characters, which are compared after all; None: two hashes collide.

    Objects of Python for each text would take five times as long.
    """
    import pandas

    characters = np.ascontiguousarray(column).view(f"{column.dtype.str[0]}u4").reshape(len(column), -1)
    _refuse_no_characters(characters, names, i)
    hashes = np.zeros(len(column), "uint64")
    for place in characters.T:
        hashes = (hashes ^ place) * MIX
        hashes ^= hashes >> np.uint64(32)
    local, found = pandas.factorize(hashes)
    first = np.empty(len(found), "int64")
    first[local[::-1]] = np.arange(len(column))[::-1]
    if (characters != characters[first[local]]).any():
        return None
    return local, column[first].astype(object)


def _refuse_no_characters(characters: np.ndarray, names: Names, i: int) -> None:
    """Raise if a number in an array of text stands for no character, as in a damaged file: Python trusts them all."""
    bad = (characters > sys.maxunicode).any(1)
    if bad.any():
        place = names.place(i, int(bad.argmax()))
        raise ValueError(f"`{names.table}` must hold text of Unicode, got a character that is none{place}.")


def _factorize_objects(column: Any, names: Names, i: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        local, values = frames.factorized(column)
    except TypeError as error:
        raise TypeError(
            f"`{names.table}` must hold hashable values, got one that is not{names.place(i)}: {error}."
        ) from None
    values = np.fromiter(values, object, len(values))
    keep = [code for code in _in_order(values) if not (_is_number(values[code]) and values[code] == -1)]
    renumbered = np.full(len(values) + 1, -1)  # the last stands for -1
    renumbered[keep] = np.arange(len(keep))
    return renumbered[local], values[keep]


def _in_order(values: np.ndarray) -> list[int]:
    """Return the order of the codes of distinct objects: numbers ascend, as those of arrays do; others stay."""
    codes = range(len(values))
    return sorted(codes, key=values.__getitem__) if all(map(_is_number, values)) else list(codes)


def _factorize_numbers(column: Array) -> tuple[Array, np.ndarray]:
    xp = namespace(column)
    hole = column == -1
    if column.dtype.kind == "f":
        hole |= xp.isnan(column)
    local = xp.full(len(column), -1, "int64")
    observed = column[~hole]
    if not len(observed):
        return local, to_host(observed)
    values, local[~hole] = _distinct(observed)
    return local, to_host(values)


def _distinct(observed: Array) -> tuple[Array, Array]:
    """Return the distinct values, ascending, and the place of each entry among them.

    Entries are counted where their range is small, and sorted otherwise."""
    xp = namespace(observed)
    low, high = float(observed.min()), float(observed.max())
    if not (low >= 0 and high < 2.0**53 and high - low < max(1 << 16, 2 * len(observed))):
        return xp.unique(observed, return_inverse=True)
    index = observed.astype("int64")
    if observed.dtype.kind == "f" and not bool((index == observed).all()):
        return xp.unique(observed, return_inverse=True)
    index -= int(low)
    present = xp.bincount(index) > 0
    return (xp.nonzero(present)[0] + int(low)).astype(observed.dtype), (xp.cumsum(present) - 1)[index]


def _check_values(local: Array, values: np.ndarray, names: Names, i: int) -> None:
    """Raise if a label is a number that is not whole, or negative: it is more likely a mistake than a label."""
    if not len(values):
        raise ValueError(f"`{names.table}` must have a label in every column, got only missing ones{names.place(i)}.")
    if values.dtype.kind in "biuf":
        bad = (values < 0) | (values != np.floor(values)) | np.isinf(values)
    else:
        bad = np.array([_is_number(value) and not (value >= 0 and value % 1 == 0) for value in values], bool)
    if bad.any():
        code = int(bad.argmax())
        place = names.place(i, int((local == code).argmax()))
        raise ValueError(
            f"`{names.table}` given as numbers must be whole and not negative, with -1 or NaN for a missing one, "
            f"got {shown(values[code])}{place}."
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real)
