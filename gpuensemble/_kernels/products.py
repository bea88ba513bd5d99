"""These are the products of the membership operator on its codes' device, unchecked; `Membership` is the checked front.

m is a `Membership`, or anything with its codes, offsets, widths, n_columns and complete. Arrays are on its device,
which is CuPy's current one, contiguous, and of the types that the kernels have.
"""

from typing import Any

from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._array.threads import spans
from gpuensemble._kernels.cpu import contingency
from gpuensemble._kernels.cpu import membership as cpu
from gpuensemble._kernels.cpu.features import embedding as cpu_embedding
from gpuensemble._kernels.cuda import embedding as cuda_embedding
from gpuensemble._kernels.cuda import membership as cuda
from gpuensemble._kernels.cuda import scatter as cuda_scatter

# A floating sum over rows has a fixed shape, so that it has the same bits on every device: segments of at least
# SEGMENT_ROWS rows, MAX_SEGMENTS of them at most, fewer where their sums together would pass MAX_PARTS numbers.
SEGMENT_ROWS = 4096
MAX_SEGMENTS = 64
MAX_PARTS = 1 << 22
CHUNK_ROWS = {"cpu": 1 << 15, "cuda": 1 << 18}  # rows whose sums are kept at a time: little memory, or few launches


def gather_sum(m: Any, table: Array) -> Array:
    """Return H @ table."""
    return _twin(m).gather_sum(m, table)


def gather_shares(m: Any, table: Array, share: Array, magic: Array) -> Array:
    """Return H @ table in float64, each row times its share; adding `magic` and taking it off rounds to whole units."""
    return (cpu_embedding if device_of(m.codes) == "cpu" else cuda_embedding).gather_shares(m, table, share, magic)


def gather_scatter(m: Any, table: Array, share: Array, magic: Array) -> Array:
    """Return H.T @ gather_shares(m, table, share, magic); sums of whole units are exact."""
    found = cpu_embedding.gather_scatter(m, table, share, magic) if device_of(m.codes) == "cpu" else None
    if found is not None:
        return found
    total = 0
    for rows in _chunks(m):
        some = m.take(rows)
        total = scatter_add(some, gather_shares(some, table, share[rows], magic)) + total
    return total


def gather_lengths(m: Any, table: Array) -> Array:
    """Return the length of each row of H @ table, in float64."""
    twin: Any = cpu_embedding if device_of(m.codes) == "cpu" else cuda_embedding
    lengths = [twin.gather_lengths(m.take(rows), table) for rows in _chunks(m)]
    return namespace(*lengths).concatenate(lengths)


def _chunks(m: Any) -> list[slice]:
    return spans(len(m.codes), CHUNK_ROWS["cpu" if device_of(m.codes) == "cpu" else "cuda"])


def scatter_add(m: Any, rows: Array) -> Array:
    """Return H.T @ rows."""
    n = len(m.codes)
    segments = min(MAX_SEGMENTS, n // SEGMENT_ROWS, MAX_PARTS // (m.n_columns * rows.shape[1]))
    twin = cpu if device_of(m.codes) == "cpu" else cuda_scatter
    return twin.scatter_add(m, rows, -(-n // max(1, segments)))


def count(m: Any, labels: Array, weight: Array | None, n_clusters: int) -> Array:
    """Count H.T @ diag(weight) @ onehot(labels) in integers; no weight means all 1."""
    return _twin(m).count(m, labels, weight, n_clusters)


def count_masses(m: Any, labels: Array, weight: Array | None, mass: Array, n_clusters: int) -> tuple[Array, Array]:
    """Do `count`, and sum the masses of the rows of each label that each partition saw: C x K and r x K."""
    return _twin(m).count_masses(m, labels, weight, mass, n_clusters)


def count_moves(m: Any, rows: Array | None, old: Array, new: Array, weight: Array | None, n_clusters: int) -> Array:
    """Return by how much `count` changes where labels `old` become `new`; only `rows` are looked at, or all: None."""
    twin = contingency if device_of(m.codes) == "cpu" else cuda
    return twin.count_moves(m, rows, old, new, weight, n_clusters)


def count_moved_masses(
    m: Any, rows: Array | None, old: Array, new: Array, weight: Array | None, mass: Array, n_clusters: int
) -> tuple[Array, Array]:
    """Return by how much `count_masses` changes where labels `old` become `new`."""
    twin = contingency if device_of(m.codes) == "cpu" else cuda
    return twin.count_moved_masses(m, rows, old, new, weight, mass, n_clusters)


def assign(m: Any, table: Array, per_partition: Array, weight: Array | None) -> tuple[Array, Array, Array]:
    """Return each row's cheapest column, its cost, and that of the next; `per_partition` may be summed into one row."""
    return _twin(m).assign(m, table, per_partition, weight)


def coassociation(m: Any, begin: int, end: int, penalty: int, dtype: str) -> Array:
    """Return rows begin .. end - 1 of the co-association matrix: (agreements - penalty * disagreements) / r."""
    return _twin(m).coassociation(m, begin, end, penalty, dtype)


def _twin(m: Any) -> Any:
    return cpu if device_of(m.codes) == "cpu" else cuda
