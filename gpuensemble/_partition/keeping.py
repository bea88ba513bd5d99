"""What a cut has found is kept in a checkpoint: labellings become arrays with names, and labellings again."""

import dataclasses
from typing import Any

import numpy as np

from gpuensemble._array.devices import to_host
from gpuensemble._kmeans.labels.labellings import Given, Renumbered
from gpuensemble._kmeans.labels.statistics import CostTables
from gpuensemble._partition.bipartite import Embedded
from gpuensemble._partition.votes import Voted

KINDS = {kind.__name__: kind for kind in (Embedded, Given, Renumbered, Voted)}


def as_arrays(value: Any, name: str) -> dict[str, Any]:
    """Give a labelling, tables of costs or an array as arrays, whose names begin with this one."""
    if isinstance(value, CostTables):
        return {f"{name}.table": value.table, f"{name}.per_partition": value.per_partition}
    if not dataclasses.is_dataclass(value):
        return {name: to_host(value)}
    found = {name: np.array(type(value).__name__)}
    for field in dataclasses.fields(value):
        if field.init:
            found |= as_arrays(getattr(value, field.name), f"{name}.{field.name}")
    return found


def from_arrays(arrays: dict[str, Any], name: str) -> Any:
    """Make again what `as_arrays` took apart."""
    if name not in arrays:
        return CostTables(arrays[f"{name}.table"], arrays[f"{name}.per_partition"])
    if arrays[name].dtype.kind != "U":
        return arrays[name]
    kind = KINDS[str(arrays[name])]
    fields = [field.name for field in dataclasses.fields(kind) if field.init]
    return kind(**{field: from_arrays(arrays, f"{name}.{field}") for field in fields})
