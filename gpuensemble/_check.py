"""Checks at the boundary. Each either lets the input pass or raises one sentence: name, rule, value."""

import numbers
from typing import Any

import numpy as np

from gpuensemble._array import Array, namespace, to_device

FLOATS = ("float32", "float64")


def integer(value: Any, name: str, low: int, high: int | None = None, of: str = "") -> int:
    """An integer between `low` and `high`; `of` says what the upper bound is."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be an integer, got {value!r} of type {type(value).__name__}.")
    value = int(value)
    if value < low or (high is not None and value > high):
        rule = f"at least {low}" if high is None else f"between {low} and {of + '=' if of else ''}{high}"
        raise ValueError(f"`{name}` must be {rule}, got {value}.")
    return value


def choice(value: Any, name: str, options: tuple) -> Any:
    """One of a few strings."""
    if value not in options:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, options))}, got {value!r}.")
    return value


def array(value: Any, name: str, device: str, ndim: int, kinds: str = "biuf") -> Array:
    """A contiguous array of those kinds of dtype with `ndim` axes, moved to the device; lists become arrays."""
    if namespace(value) is np:
        value = np.asarray(value)
    if value.dtype.kind not in kinds:
        raise TypeError(f"`{name}` must hold {'numbers' if 'f' in kinds else 'integers'}, got dtype {value.dtype}.")
    if value.ndim != ndim:
        raise ValueError(f"`{name}` must have {ndim} axes, got an array of shape {value.shape}.")
    value = to_device(value, device)
    return namespace(value).ascontiguousarray(value)


def table(
    value: Any, name: str, device: str, n_rows: int, rows: str, dtypes: tuple = FLOATS, infinite: bool = False
) -> Array:
    """A table of `n_rows` rows and at least one column, without NaN; a dtype not in `dtypes` becomes float64."""
    value = array(value, name, device, 2)
    if value.shape[0] != n_rows or value.shape[1] == 0:
        raise ValueError(f"`{name}` must have {rows}={n_rows} rows and at least one column, got shape {value.shape}.")
    if value.dtype.name not in dtypes:
        value = value.astype("float64")
    finite(value, name, infinite)
    return value


def finite(value: Array, name: str, infinite: bool = False) -> None:
    """Raise if a floating array holds NaN or an infinite value; `infinite` lets +inf pass."""
    if value.dtype.kind != "f":
        return
    xp = namespace(value)
    bad = xp.isnan(value) | (value == -xp.inf) if infinite else ~xp.isfinite(value)
    if bool(bad.any()):
        where = tuple(int(index[0]) for index in xp.nonzero(bad))
        rule = "must not hold NaN or -inf" if infinite else "must be finite"
        raise ValueError(f"`{name}` {rule}, got {float(value[where])} at {list(where)}.")


def labels(value: Any, name: str, device: str, n: int, n_clusters: int) -> Array:
    """A vector of n labels between 0 and n_clusters - 1, as int32."""
    value = vector(value, name, device, n, "biu")
    low, high = int(value.min()), int(value.max())
    if low < 0 or high >= n_clusters:
        worst = low if low < 0 else high
        raise ValueError(f"`{name}` must be between 0 and n_clusters - 1 = {n_clusters - 1}, got {worst}.")
    return value.astype("int32", copy=False)


def counts(value: Any, name: str, device: str, n: int, times: int) -> Array:
    """A vector of n integer weights, not negative, as int64; `times` their sum must fit into 63 bits."""
    value = vector(value, name, device, n, "biu").astype("int64")
    if int(value.min()) < 0:
        raise ValueError(f"`{name}` must not be negative, got {int(value.min())}.")
    if float(value.astype("float64").sum()) * times > 2.0**62:
        raise ValueError(
            f"`{name}` must add up to less than 2**62 / {times}, got {float(value.astype('float64').sum()):.3g}."
        )
    return value


def weights(value: Any, name: str, device: str, n: int, dtype: Any) -> Array:
    """A vector of n finite numbers in the dtype."""
    value = vector(value, name, device, n).astype(dtype, copy=False)
    finite(value, name)
    return value


def vector(value: Any, name: str, device: str, n: int, kinds: str = "biuf") -> Array:
    """A vector with one entry per sample."""
    value = array(value, name, device, 1, kinds)
    if len(value) != n:
        raise ValueError(f"`{name}` must have n_samples={n} entries, got {len(value)}.")
    return value


def offsets(widths: np.ndarray) -> np.ndarray:
    """The first column of each partition, then the number of columns, which must fit into 31 bits."""
    ends = np.concatenate([[0], np.cumsum(widths)])
    if ends[-1] >= 2**31:
        raise ValueError(f"The partitions must have fewer than 2**31 clusters in all, got {ends[-1]}.")
    return ends.astype("int32")


def rows(value: Any, n: int) -> tuple[int, int]:
    """The first row of a slice with step 1, and the one after its last."""
    if not isinstance(value, slice) or value.step not in (None, 1):
        raise TypeError(f"`rows` must be a slice with step 1, got {value!r}.")
    begin, end, _ = value.indices(n)
    if end <= begin:
        raise ValueError(f"`rows` must hold at least one of the n_samples={n} rows, got {value!r}.")
    return begin, end


def positive(value: Any, name: str, size: int, of: str) -> np.ndarray:
    """A vector of weights on the host: finite, not negative, not all 0; None means all 1."""
    if value is None:
        return np.ones(size)
    value = array(value, name, "cpu", 1).astype("float64")
    if len(value) != size:
        raise ValueError(f"`{name}` must have {of}={size} entries, got {len(value)}.")
    finite(value, name)
    if value.min() < 0 or value.max() == 0:
        raise ValueError(f"`{name}` must not be negative, nor all 0, got {value.min():g} to {value.max():g}.")
    return value


def multiplicities(value: Any, name: str, device: str, n: int) -> tuple[Array | None, float]:
    """Sample weights as integers, and what one unit of them stands for; None means all 1.

    Whole numbers stay what they are. Others become multiples of 2**-20 of the largest, rounded up to a power of two.
    """
    if value is None:
        return None, 1.0
    value = vector(value, name, device, n).astype("float64")
    finite(value, name)
    low, high = float(value.min()), float(value.max())
    if low < 0 or high == 0:
        raise ValueError(f"`{name}` must not be negative, nor all 0, got {low:g} to {high:g}.")
    xp = namespace(value)
    unit = 1.0 if bool((value == xp.rint(value)).all()) and high < 2**31 else 2.0 ** (np.frexp(high)[1] - 20)
    return xp.rint(value / unit).astype("int64"), float(unit)
