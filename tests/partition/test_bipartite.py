"""The spectral embedding of a table in blocks, without its co-association matrix."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from gpuensemble._partition import bipartite
from gpuensemble._tables import blocks
from support import membership, onehot, random_codes


def table(n=1200, holes=0.0, weighted=False, step=None):
    """Codes of noisy partitions of six clusters, as one block or in blocks of `step` rows; their weights."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 6, n)
    widths = np.full(12, 9)
    codes = random_codes(rng, n, widths, holes)
    kept = (rng.random(codes.shape) < 0.5) & (codes >= 0)
    codes[kept] = np.stack([rng.permutation(9)[truth] for _ in widths], axis=1)[kept]
    weight = rng.integers(1, 5, n) if weighted else None
    m = membership(np, codes, widths)
    if step is None:
        return blocks.whole(m, weight), codes, widths
    streamed = blocks.Streamed(m.codes, [*range(0, n, step), n], m.widths, m.complete, None, weight)
    return streamed, codes, widths


@pytest.mark.parametrize("sample_rows", [300, 100_000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("holes", [0, 0.3])
def test_the_embedding_spans_the_leading_singular_vectors(monkeypatch, sample_rows, weighted, holes):
    monkeypatch.setattr(bipartite, "SAMPLE_ROWS", sample_rows)
    given, codes, widths = table(holes=holes, weighted=weighted)
    of_column = np.random.default_rng(1).uniform(0.5, 1, widths.sum()) if weighted else np.ones(widths.sum())
    projection = bipartite.embedding(given, bipartite.of_samples(given, of_column), 6, np.random.default_rng(2))
    dense, weight = onehot(codes, widths), np.ones(len(codes)) if given.weight is None else given.weight
    degrees = dense @ ((weight @ dense) * of_column)
    rows = (weight / degrees)[:, None] ** 0.5
    left, values, _ = np.linalg.svd(rows * dense * of_column**0.5, full_matrices=False)
    assert values[5] > 1.1 * values[6]
    found = rows * (dense @ projection)
    assert np.sin(subspace_angles(found, left[:, :6])).max() < 0.02
    np.testing.assert_allclose(np.linalg.svd(found, compute_uv=False), 1, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_of_the_rows_is_the_same_for_any_blocks(monkeypatch, weighted):
    monkeypatch.setattr(bipartite, "SAMPLE_ROWS", 300)
    one, two = (table(weighted=weighted, step=step)[0] for step in (None, 170))
    found = [bipartite.cut(given, bipartite.of_samples(given), 6, np.random.default_rng(0)) for given in (one, two)]
    np.testing.assert_array_equal(found[0].projection, found[1].projection)
    np.testing.assert_array_equal(found[0].tables.table, found[1].tables.table)


def test_a_sample_saves_passes_over_all_rows(monkeypatch):
    calls = []
    product = bipartite._product

    def counted(block, *arguments):
        calls.append(len(block.m.codes))
        return product(block, *arguments)

    monkeypatch.setattr(bipartite, "_product", counted)
    passes = []
    for sample_rows in (100_000, 600):
        monkeypatch.setattr(bipartite, "SAMPLE_ROWS", sample_rows)
        calls.clear()
        given = table()[0]
        bipartite.embedding(given, bipartite.of_samples(given), 6, np.random.default_rng(0))
        passes.append(calls.count(1200))
    assert passes[1] < passes[0]
