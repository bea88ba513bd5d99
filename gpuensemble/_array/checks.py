"""These checks guard the boundary. Each either lets the input pass or raises one sentence: name, rule, value."""

import numbers
from pathlib import Path
from typing import Any

import numpy as np

from gpuensemble._array import frames
from gpuensemble._array.devices import Array, device_of, memory, namespace, to_device
from gpuensemble._array.messages import as_float, shown

FLOATS = ("float32", "float64")
LARGEST = 2**31 - 1  # of a number of things
MOST = 1e200  # of weights: sums of so large ones, or so small ones, are still numbers


def integer(value: Any, name: str, low: int, high: int | None = None, of: str = "") -> int:
    """Return an integer between `low` and `high`; `of` says what the upper bound is."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be an integer, got {shown(value)} of type {type(value).__name__}.")
    value = int(value)
    if high is None and value > LARGEST:
        raise ValueError(f"`{name}` must be at most {LARGEST}, got {shown(value)}.")
    if value < low or (high is not None and value > high):
        rule = f"at least {low}" if high is None else f"between {low} and {of + '=' if of else ''}{high}"
        raise ValueError(f"`{name}` must be {rule}, got {shown(value)}.")
    return value


def number(value: Any, name: str, above: float, inclusive: bool = False) -> float:
    """Return a finite number above a bound, or, if `inclusive`, at least the bound."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number, got {shown(value)} of type {type(value).__name__}.")
    value = as_float(value)
    if not (value >= above if inclusive else value > above) or value == np.inf:
        rule = "at least" if inclusive else "greater than"
        raise ValueError(f"`{name}` must be finite and {rule} {above:g}, got {value:g}.")
    return value


def choice(value: Any, name: str, options: tuple) -> Any:
    """Return a value that is one of a few options."""
    plain = value is None or isinstance(value, str | bool | numbers.Real)  # an array cannot be compared with them
    if not plain or value not in options:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, options))}, got {shown(value)}.")
    return value


def flag(value: Any, name: str) -> bool:
    """Return True or False, of Python or of NumPy."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"`{name}` must be True or False, got {shown(value)} of type {type(value).__name__}.")
    return bool(value)


def floating(value: Any) -> str:
    """Return the parameter `dtype`, a string or a type of NumPy's; None means float64."""
    if value is None:
        return "float64"
    if (isinstance(value, type) and issubclass(value, np.floating)) or isinstance(value, np.dtype):
        value = np.dtype(value).name
    return choice(value, "dtype", FLOATS)


def path(value: Any, name: str) -> str | None:
    """Return the path of a file, which need not be there, in a folder that is there; None stays None."""
    if value is None:
        return None
    if not isinstance(value, str | Path):
        raise TypeError(f"`{name}` must be the path of a file, got {shown(value)} of type {type(value).__name__}.")
    if Path(value).is_dir() or not Path(value).resolve().parent.is_dir():
        raise ValueError(f"`{name}` must be a file in a folder that is there, got {str(value)!r}.")
    return str(value)


def fits(needed: int, what: str, device: str, instead: str) -> None:
    """Raise if arrays of that many bytes are more than the device's memory; `instead` says what to use."""
    there = memory(device)
    if there is not None and needed > there:
        size = f"{there / 1e9:.3g} GB"
        has = f"this machine has {size}" if device == "cpu" else f"{device} has {size} free"
        raise ValueError(f"{what} must fit into memory: {needed / 1e9:.3g} GB are needed, {has}; {instead}.")


def array(value: Any, name: str, device: str, ndim: int, kinds: str = "biuf") -> Array:
    """Return a contiguous array of those kinds of dtype with `ndim` axes, moved to the device; lists become arrays."""
    value = frames.array(value)
    if np.ma.is_masked(value):  # NumPy would show what is behind the mask
        raise ValueError(f"`{name}` must have no masked entry, got {np.ma.count_masked(value)}.")
    if namespace(value) is np:
        value = np.asarray(value)
        if value.dtype == object and "f" in kinds and all(isinstance(entry, numbers.Real) for entry in value.flat):
            found = np.fromiter(map(as_float, value.flat), "float64", value.size)
            value = found.reshape(value.shape)  # numbers of several types, as in a DataFrame, or too large ones
    if value.dtype.kind not in kinds:
        raise TypeError(f"`{name}` must hold {'numbers' if 'f' in kinds else 'integers'}, got dtype {value.dtype}.")
    if value.ndim != ndim:
        raise ValueError(f"`{name}` must have {ndim} axes, got an array of shape {value.shape}.")
    value = to_device(value, device)
    return namespace(value).ascontiguousarray(value)


def table(
    value: Any, name: str, device: str, n_rows: int, rows: str, dtypes: tuple = FLOATS, infinite: bool = False
) -> Array:
    """Return a table of `n_rows` rows, at least one column and no NaN; a dtype not in `dtypes` becomes float64."""
    value = array(value, name, device, 2)
    if value.shape[0] != n_rows or value.shape[1] == 0:
        raise ValueError(f"`{name}` must have {rows}={n_rows} rows and at least one column, got shape {value.shape}.")
    if value.dtype.name not in dtypes:
        value = value.astype("float64")
    finite(value, name, infinite)
    return value


def finite(value: Array, name: str, infinite: bool = False) -> None:
    """Raise if a floating array holds NaN or an infinite value; `infinite` lets +inf pass."""
    if value.dtype.kind not in "fc":
        return
    xp = namespace(value)
    bad = xp.isnan(value) | (value == -xp.inf) if infinite else ~xp.isfinite(value)
    if bool(bad.any()):
        where = tuple(int(index[0]) for index in xp.nonzero(bad))
        rule = "must not hold NaN or -inf" if infinite else "must be finite"
        raise ValueError(f"`{name}` {rule}, got {value[where].item()} at {list(where)}.")


def labels(value: Any, name: str, device: str, n: int, n_clusters: int) -> Array:
    """Return a vector of n labels between 0 and n_clusters - 1 as int32."""
    value = vector(value, name, device, n, "biu")
    low, high = int(value.min()), int(value.max())
    if low < 0 or high >= n_clusters:
        worst = low if low < 0 else high
        raise ValueError(f"`{name}` must be between 0 and n_clusters - 1 = {n_clusters - 1}, got {worst}.")
    return value.astype("int32", copy=False)


def counts(value: Any, name: str, device: str, n: int, times: int) -> Array:
    """Return n integer weights, none of them negative, as int64; `times` their sum must fit into 63 bits."""
    value = vector(value, name, device, n, "biu").astype("int64")
    if int(value.min()) < 0:
        raise ValueError(f"`{name}` must not be negative, got {int(value.min())}.")
    if float(value.astype("float64").sum()) * times > 2.0**62:
        raise ValueError(
            f"`{name}` must add up to less than 2**62 / {times}, got {float(value.astype('float64').sum()):.3g}."
        )
    return value


def weights(value: Any, name: str, device: str, n: int, dtype: Any) -> Array:
    """Return a vector of n finite numbers in the dtype."""
    value = vector(value, name, device, n).astype(dtype, copy=False)
    finite(value, name)
    return value


def vector(value: Any, name: str, device: str, n: int, kinds: str = "biuf") -> Array:
    """Return a vector with one entry per sample."""
    value = array(value, name, device, 1, kinds)
    if len(value) != n:
        raise ValueError(f"`{name}` must have n_samples={n} entries, got {len(value)}.")
    return value


def offsets(widths: np.ndarray) -> np.ndarray:
    """Return the first column of each partition, then the number of columns, which must fit into 31 bits."""
    total = sum(map(int, widths))  # of Python's integers, which do not wrap around
    if total >= 2**31:
        raise ValueError(f"The partitions must have fewer than 2**31 clusters in all, got {total}.")
    return np.concatenate([[0], np.cumsum(widths)]).astype("int32")


def rows(value: Any, n: int) -> tuple[int, int]:
    """Return the first row of a slice with step 1, and the one after its last."""
    if not isinstance(value, slice) or value.step not in (None, 1):
        raise TypeError(f"`rows` must be a slice with step 1, got {shown(value)}.")
    begin, end, _ = value.indices(n)
    if end <= begin:
        raise ValueError(f"`rows` must hold at least one of the n_samples={n} rows, got {shown(value)}.")
    return begin, end


def positive(value: Any, name: str, size: int, of: str) -> np.ndarray:
    """Return a vector of weights on the host, which are finite, not negative and not all 0; None means all 1."""
    if value is None:
        return np.ones(size)
    value = array(value, name, "cpu", 1).astype("float64")
    if len(value) != size:
        raise ValueError(f"`{name}` must have {of}={size} entries, got {len(value)}.")
    finite(value, name)
    not_all_zero(float(value.min()), float(value.max()), name)
    return value


def not_all_zero(low: float, high: float, name: str) -> None:
    """Raise if weights from `low` to `high` are negative or all 0, or so small or large that sums of them are not."""
    if low < 0 or high == 0:
        raise ValueError(f"`{name}` must not be negative, nor all 0, got {low:g} to {high:g}.")
    if not 1 / MOST <= high <= MOST:
        raise ValueError(f"`{name}` must have a largest weight from {1 / MOST:g} to {MOST:g}, got {high:g}.")


def multiplicities(value: Any, name: str, device: str, n: int) -> tuple[Array | None, float]:
    """Return sample weights as integers, and what one unit of them stands for; None means all 1.

    Whole numbers below 2**31 stay what they are. Others become multiples of 2**-20 of the power of two above the
    largest.
    """
    if value is None:
        return None, 1.0
    value = vector(value, name, device, n).astype("float64")
    finite(value, name)
    low, high = float(value.min()), float(value.max())
    not_all_zero(low, high, name)
    xp = namespace(value)
    unit = 1.0 if bool((value == xp.rint(value)).all()) and high < 2**31 else 2.0 ** (np.frexp(high)[1] - 20)
    return xp.rint(value / unit).astype("int64"), float(unit)


def numbers_of(value: Any, name: str, ndim: int = 0) -> Array:
    """Return an array of float32, float64, complex64 or complex128 with at least `ndim` axes and one entry.

    Other numbers become float64, or complex128 if they are complex."""
    if namespace(value) is np:
        value = np.asarray(value)
    if value.dtype.kind not in "biufc":
        raise TypeError(f"`{name}` must hold numbers, got dtype {value.dtype}.")
    if value.ndim < ndim or value.size == 0:
        rule = f"{ndim} axes and one entry" if ndim else "one entry"
        raise ValueError(f"`{name}` must have at least {rule}, got an array of shape {value.shape}.")
    if value.dtype.name in ("float32", "float64", "complex64", "complex128"):
        return value
    return value.astype("complex128" if value.dtype.kind == "c" else "float64")


def in_place(value: Any, name: str, ndim: int) -> Array:
    """Return an array of float32 or float64 with `ndim` axes and an entry as it is: a copy would be overwritten."""
    dtype = getattr(getattr(value, "dtype", None), "name", type(value).__name__)
    if dtype not in FLOATS:
        raise TypeError(f"`{name}` must be an array of float32 or float64, got {dtype}.")
    if value.ndim != ndim or value.size == 0:
        raise ValueError(f"`{name}` must have {ndim} axes and one entry, got an array of shape {value.shape}.")
    return value


def threshold(value: Any, name: str) -> float:
    """Return a number that is finite and not negative."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number, got {shown(value)} of type {type(value).__name__}.")
    if not 0 <= as_float(value) < np.inf:
        raise ValueError(f"`{name}` must be finite and not negative, got {as_float(value)}.")
    return float(value)


def thresholds(value: Any, name: str, x: Array, shape: tuple, check: bool) -> Any:
    """Return a threshold, or an array of them in the type of x that broadcasts to `shape`."""
    if isinstance(value, numbers.Real):
        return threshold(value, name)
    value = to_device(numbers_of(value, name), device_of(x))
    if value.dtype.kind != "f":
        raise TypeError(f"`{name}` must hold real numbers, got dtype {value.dtype}.")
    if value.ndim > len(shape) or any(a not in (1, b) for a, b in zip(value.shape[::-1], shape[::-1], strict=False)):
        raise ValueError(f"`{name}` must broadcast to shape {shape}, got shape {value.shape}.")
    if check:
        not_negative(value, name)
    return value.astype(x.real.dtype, copy=False)


def rank_weights(value: Any, x: Array, check: bool) -> Array | None:
    """Return one weight for each singular value of the matrices in x; None means all 1."""
    if value is None:
        return None
    value = array(value, "weights", device_of(x), 1)
    if len(value) != min(x.shape[-2:]):
        raise ValueError(f"`weights` must have min(m, n)={min(x.shape[-2:])} entries, got {len(value)}.")
    if check:
        not_negative(value, "weights")
    return value


def not_negative(value: Array, name: str) -> None:
    """Raise if a number is negative, NaN or infinite."""
    finite(value, name)
    if float(value.min()) < 0:
        raise ValueError(f"`{name}` must not be negative, got {float(value.min())}.")


def largest(x: Array, name: str) -> float:
    """Return the largest absolute value of all real and imaginary parts; raise if there is NaN or infinity."""
    xp = namespace(x)
    parts = (x.real, x.imag) if x.dtype.kind == "c" else (x,)
    size = float(xp.stack([xp.maximum(part.max(), -part.min()) for part in parts]).max())
    if not size < np.inf:
        finite(x, name)
    return size


def axis_of(value: Any, ndim: int) -> int:
    """Return one of the last three axes, counted from the end."""
    integer(value, "axis", -ndim, ndim - 1)
    value = value - ndim if value >= 0 else value
    if value < -3:
        raise ValueError(f"`axis` must be one of the last three axes, got {value} of {ndim} axes.")
    return int(value)


def share(value: Any, name: str) -> float:
    """Return a number that is at least 0 and less than 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= as_float(value) < 1:
        raise ValueError(f"`{name}` must be at least 0 and less than 1, got {shown(value)}.")
    return float(value)


def ratio(value: Any, name: str) -> float:
    """Return a number that is more than 0 and at most 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < as_float(value) <= 1:
        raise ValueError(f"`{name}` must be more than 0 and at most 1, got {shown(value)}.")
    return float(value)


def n_rows(table: Any) -> int:
    """Return the number of rows of a table that was not looked at yet: an array, or rows in a list."""
    return table.shape[0] if hasattr(table, "shape") else len(table)
