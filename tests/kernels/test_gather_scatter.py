"""H' D H times columns is a pass over the labels on the CPU, and is what two passes give, bit for bit."""

import numpy as np
import pytest

from gpuensemble._array import threads
from gpuensemble._kernels import products
from gpuensemble._kernels.cpu import membership as cpu
from gpuensemble._kernels.cpu.features import embedding
from gpuensemble._kernels.cpu.kmeans import sharing
from support import membership, onehot

MAGIC = np.array(1.5 * 2.0**32)  # rounds to multiples of 2 ** -20


def problem(n, sizes, k, dtype="uint8", holes=0.0):
    rng = np.random.default_rng(n + k)
    codes = rng.integers(0, sizes, (n, len(sizes)))
    codes[:, 1:][rng.random((n, len(sizes) - 1)) < holes] = -1
    m = membership(np, codes.astype(dtype), np.array(sizes))
    return m, codes, rng.standard_normal((sum(sizes), k)), rng.random(n)


def in_two_passes(m, table, share):
    return products.scatter_add(m, embedding.gather_shares(m, table, share, MAGIC))


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
@pytest.mark.parametrize("k", [1, 7, 8, 56, 57, 130])  # lanes, and tiles of 56 columns
def test_one_pass_has_the_bits_of_two(k, dtype, holes):
    m, codes, table, share = problem(301, (3, 9, 4, 40), k, dtype, holes)
    found = embedding.gather_scatter(m, table, share, MAGIC)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, in_two_passes(m, table, share))
    H = onehot(codes, m.widths)
    np.testing.assert_allclose(found, H.T @ ((H @ table) * share[:, None]), atol=1e-3)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_threads_add_up_what_they_took(n_threads, monkeypatch):
    m, _, table, share = problem(100_000, (5, 6, 7, 8, 9), 16)
    expected, lengths = in_two_passes(m, table, share), np.linalg.norm(cpu.gather_sum(m, table), axis=1)
    monkeypatch.setattr(threads, "count", lambda: n_threads)
    assert sharing.n_threads(m.codes.size, cpu.INLINE) == n_threads
    for _ in range(5):  # a helper may come too late
        np.testing.assert_array_equal(embedding.gather_scatter(m, table, share, MAGIC), expected)
    np.testing.assert_allclose(embedding.gather_lengths(m, table), lengths, rtol=1e-13)


def test_many_partitions_are_more_than_a_group():
    m, _, table, share = problem(50, (3,) * 70, 5)
    np.testing.assert_array_equal(embedding.gather_scatter(m, table, share, MAGIC), in_two_passes(m, table, share))


def test_a_table_beyond_the_cache_takes_two_passes_over_some_rows_at_a_time(monkeypatch):
    m, _, table, share = problem(301, (3, 9, 4), 7)
    expected = embedding.gather_scatter(m, table, share, MAGIC)
    monkeypatch.setattr(embedding, "CACHED", 100)
    monkeypatch.setitem(products.CHUNK_ROWS, "cpu", 64)
    assert embedding.gather_scatter(m, table, share, MAGIC) is None
    np.testing.assert_array_equal(products.gather_scatter(m, table, share, MAGIC), expected)
    lengths = products.gather_lengths(m, table)
    np.testing.assert_array_equal(lengths, embedding.gather_lengths(m, table))
