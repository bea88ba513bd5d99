"""Values are written into messages as a person would write them."""

from typing import Any

import numpy as np

SHOWN = 100  # characters of a value in a message, at most


def as_float(value: Any) -> float:
    """Return a real number as a float; one that is too large is infinite."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def shown(value: Any) -> str:
    """Write a value as a person would, on one line and not too long: 3, not np.int64(3)."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return f"{as_float(value):g}"  # Python refuses to write very long integers
    text = " ".join(repr(value.item() if isinstance(value, np.generic) else value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
