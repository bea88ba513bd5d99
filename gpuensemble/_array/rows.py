"""This module hashes rows of codes, finds the distinct ones, and numbers labels."""

from gpuensemble._array.devices import Array, namespace


def distinct(codes: Array) -> tuple[Array, Array, Array]:
    """Return the first occurrence of each distinct row, the group of each row, and the multiplicities.

    Rows are hashed, sorted by hash and compared, so that the answer is exact. Where two different rows share a hash,
    the chance of which is less than one in 10**5 at n = 10**7, another hash is tried.
    """
    xp = namespace(codes)
    seed = 0
    while True:
        _, first, group, multiplicity = xp.unique(
            hashes(codes, seed), return_index=True, return_inverse=True, return_counts=True
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


def _equal_rows(codes: Array, other: Array) -> bool:
    """Tell whether each row is equal to the row named for it.

    It goes by columns, so that nothing as large as the codes is made."""
    xp = namespace(codes)
    same = xp.ones(len(codes), bool)
    for i in range(codes.shape[1]):
        same &= codes[:, i] == codes[other, i]
    return bool(same.all())


def by_first_occurrence(labels: Array) -> Array:
    """Number labels from 0, in the order in which they first occur: rounding must not choose the numbers."""
    xp = namespace(labels)
    _, first, found = xp.unique(labels, return_index=True, return_inverse=True)
    return xp.argsort(xp.argsort(first))[found].astype("int32")
