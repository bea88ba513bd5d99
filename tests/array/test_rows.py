"""Hashes of rows of codes against integers of Python's own, and distinct rows against NumPy's."""

import numpy as np
import pytest

from gpuensemble._array import rows
from support import check, oracle_hash, random_codes


def codes_of(dtype):
    """Codes of random rows in that type, and the same with -1 for a hole."""
    plain = random_codes(np.random.default_rng(0), 50, [3, 7, 2, 5])
    return plain.astype(dtype), plain


@pytest.mark.parametrize("seed", [0, 1, 2**40])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
def test_a_hash_is_that_of_exact_integers(xp, dtype, seed):
    codes, plain = codes_of(dtype)
    as_they_are = [oracle_hash(row, seed) for row in codes]
    check(rows.hashes(xp.asarray(codes), seed), np.array(as_they_are, "uint64"), xp)
    of_any_type = [oracle_hash(row, seed) for row in plain]
    check(rows.hashes(xp.asarray(codes), seed, canonical=True), np.array(of_any_type, "uint64"), xp)


def test_distinct_rows_come_in_the_order_of_their_first_occurrence(xp):
    codes, _ = codes_of("uint8")
    codes = np.concatenate([codes, codes[::-3]])
    _, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    first_of_row = first[inverse]
    found, group, multiplicity = rows.distinct(xp.asarray(codes))
    expected = np.unique(first_of_row)
    check(found, expected, xp)
    check(group, np.searchsorted(expected, first_of_row), xp)
    check(multiplicity, np.bincount(first_of_row)[expected], xp)
