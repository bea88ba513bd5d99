"""This module hashes rows of codes, finds the distinct ones, and numbers labels."""

from gpuensemble._array.devices import Array, device_of, namespace
from gpuensemble._array.threads import spans

CHUNK_BYTES = {"cpu": 1 << 20, "cuda": 1 << 26}  # of codes that are worked on at a time: in a cache, or few launches


def distinct(codes: Array) -> tuple[Array, Array, Array]:
    """Return the first occurrence of each distinct row, the group of each row, and the multiplicities.

    Rows are hashed, sorted by hash and compared, so that the answer is exact. Where two different rows share a hash,
    the chance of which is less than one in 10**5 at n = 10**7, another hash is tried.
    """
    xp = namespace(codes)
    seed = 0
    while True:
        _, first, group, multiplicity = xp.unique(
            _folded(codes, seed), return_index=True, return_inverse=True, return_counts=True
        )
        if _equal_rows(codes, first[group]):
            break
        seed += 1
    order = xp.argsort(first)
    rank = xp.empty_like(order)
    rank[order] = xp.arange(len(order))
    return first[order], rank[group], multiplicity[order]


def hashes(codes: Array, seed: int, canonical: bool = False) -> Array:
    """Return a 64-bit hash of each row: add, multiply and fold, one column at a time.

    If `canonical`, it is the same for codes of any type, whose hole has all bits set in one type and is -1 in another.
    """
    xp = namespace(codes)
    value = xp.full(len(codes), seed, "uint64")
    for i in range(codes.shape[1]):
        column = codes[:, i].astype("uint64")
        if canonical and codes.dtype.kind == "u":
            column[codes[:, i] == xp.iinfo(codes.dtype).max] = 0xFFFFFFFFFFFFFFFF
        value += column
        value *= 0x9E3779B97F4A7C15  # odd, so that multiplying loses nothing
        value ^= value >> 29
    return value


def _folded(codes: Array, seed: int) -> Array:
    """Return a 64-bit hash of each row of codes of one type: it adds up what it makes of eight bytes at a time."""
    xp, size = namespace(codes), codes.shape[1] * codes.itemsize
    n_words = -(-size // 8)
    found = xp.empty(len(codes), "uint64")
    keys = (xp.arange(n_words, dtype="uint64") + (1 + seed * n_words)) * 0x9E3779B97F4A7C15  # of each place one
    for rows in _chunks(codes):
        some = xp.ascontiguousarray(codes[rows]).view("uint8")
        padded = some if size == 8 * n_words else xp.zeros((len(some), 8 * n_words), "uint8")
        if padded is not some:
            padded[:, :size] = some
        value = padded.view("uint64") ^ keys
        for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):  # odd, so that multiplying loses nothing
            value ^= value >> 30
            value *= factor
        value ^= value >> 31
        found[rows] = value.sum(1)
    return found


def _equal_rows(codes: Array, other: Array) -> bool:
    """Tell whether each row is equal to the row named for it."""
    xp = namespace(codes)
    same = xp.ones((), bool)
    for rows in _chunks(codes):
        same = same & (codes[rows] == codes[other[rows]]).all()
    return bool(same)


def _chunks(codes: Array) -> list[slice]:
    """Return the rows to work on at a time, so that nothing as large as the codes is made."""
    most = CHUNK_BYTES["cpu" if device_of(codes) == "cpu" else "cuda"]
    return spans(len(codes), max(1, most // max(1, codes.shape[1] * codes.itemsize)))


def by_first_occurrence(labels: Array) -> Array:
    """Number labels from 0, in the order in which they first occur: rounding must not choose the numbers."""
    xp = namespace(labels)
    _, first, found = xp.unique(labels, return_index=True, return_inverse=True)
    return xp.argsort(xp.argsort(first))[found].astype("int32")
