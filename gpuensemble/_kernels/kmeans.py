"""These are the steps of k-means over labels on the device of their arrays, unchecked; start with `relabel`.

An iteration is `price` (tables of costs from counts), `drift` (what they take off the margins of rows) and `relabel`
(new labels, and what that adds to the counts). On a device nothing of it comes back to the host. On the CPU `iterate`
does several iterations in one call.
"""

from typing import Any

from gpuensemble._array.devices import Array, device_of
from gpuensemble._kernels.cpu.kmeans import pricing as cpu_pricing
from gpuensemble._kernels.cpu.kmeans import relabel as cpu
from gpuensemble._kernels.cpu.kmeans.iterate import Limits, Method, iterate
from gpuensemble._kernels.cpu.kmeans.relabel import NEW, Drift, RowFacts, State
from gpuensemble._kernels.cuda import pricing as cuda_pricing
from gpuensemble._kernels.cuda import relabel as cuda

KINDS = cpu_pricing.KINDS
__all__ = [
    "KINDS",
    "NEW",
    "Drift",
    "Limits",
    "Method",
    "RowFacts",
    "State",
    "drift",
    "iterate",
    "prepared",
    "price",
    "relabel",
]


def price(kind: str, counts: Array, *arguments: Any) -> tuple[Array, Array, Array]:
    """Return the table of costs, that of partitions, and two facts: the objective, and how many clusters are empty."""
    twin = cpu_pricing if device_of(counts) == "cpu" else cuda_pricing
    return twin.price(kind, counts, *arguments)


def drift(before: Array | None, after: Array, *arguments: Any) -> tuple[Array, Array]:
    """Bound what new tables take off the margin of a row, by bin of its weight and by label, and its rounding error."""
    twin = cpu_pricing if device_of(after) == "cpu" else cuda_pricing
    return twin.drift(before, after, *arguments)


def prepared(table: Array, *arguments: Any) -> Any:
    """Return tables of costs as `relabel` takes them."""
    return (cpu if device_of(table) == "cpu" else cuda).prepared(table, *arguments)


def relabel(m: Any, *arguments: Any) -> tuple[Array, Array, Array]:
    """Find new labels of all rows; return counts, masses, and how many rows moved and were evaluated."""
    return (cpu if device_of(m.codes) == "cpu" else cuda).relabel(m, *arguments)
