"""The spectral embedding of a table in blocks, without its co-association matrix."""

import numpy as np
import pytest
from scipy.linalg import qr, subspace_angles

from cudasim import standin
from cudasim.shim import ShimModule, gxx
from cudasim.tally import counted
from gpuensemble import Membership
from gpuensemble._array.devices import to_host
from gpuensemble._kmeans.features import lloyd as features
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


@pytest.mark.parametrize("part_rows", [300, 100_000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("holes", [0, 0.3])
def test_the_embedding_spans_the_leading_singular_vectors(monkeypatch, part_rows, weighted, holes):
    monkeypatch.setattr(bipartite, "PART_ROWS", part_rows)
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
    monkeypatch.setattr(bipartite, "START_ROWS", 300)
    monkeypatch.setattr(bipartite, "START_ROWS_PER_CLUSTER", 1)
    monkeypatch.setattr(bipartite, "PART_ROWS", 300)
    one, two = (table(weighted=weighted, step=step)[0] for step in (None, 170))
    found = [bipartite.cut(given, bipartite.of_samples(given), 6, np.random.default_rng(0)) for given in (one, two)]
    np.testing.assert_array_equal(found[0].projection, found[1].projection)
    np.testing.assert_array_equal(found[0].tables.table, found[1].tables.table)


@pytest.fixture
def calls_of_product(monkeypatch):
    """The numbers of rows of the blocks that were multiplied."""
    calls = []
    product = bipartite._product

    def counted(block, *arguments):
        calls.append(len(block.m.codes))
        return product(block, *arguments)

    monkeypatch.setattr(bipartite, "_product", counted)
    return calls


def test_powers_of_the_matrix_make_the_krylov_space_narrow(monkeypatch, calls_of_product):
    widths, passes, given = [], [], table()[0]
    converged = bipartite.converged

    def watched(*arguments):
        calls_of_product.clear()
        found = converged(*arguments)
        widths.append(len(calls_of_product))
        return found

    monkeypatch.setattr(bipartite, "converged", watched)
    for powers in (0, bipartite.POWERS):
        monkeypatch.setattr(bipartite, "POWERS", powers)
        bipartite.embedding(given, bipartite.of_samples(given), 6, np.random.default_rng(0))
        passes.append(powers + widths[-1])
    assert widths[1] <= widths[0] - 2
    assert passes[1] <= passes[0] + 2


def test_a_sample_saves_passes_over_all_rows(monkeypatch, calls_of_product):
    calls, passes = calls_of_product, []
    for part_rows in (100_000, 300):
        monkeypatch.setattr(bipartite, "PART_ROWS", part_rows)
        calls.clear()
        given = table()[0]
        bipartite.embedding(given, bipartite.of_samples(given), 6, np.random.default_rng(0))
        passes.append(calls.count(1200))
    assert passes[1] < passes[0]


def test_pivots_are_the_rows_of_a_pivoted_decomposition(xp):
    rng = np.random.default_rng(0)
    points, weight = rng.standard_normal((60, 5)), rng.uniform(0.5, 2, 60)
    found = bipartite._pivots(xp.asarray(points), 5, rng, xp.asarray(weight))
    *_, expected = qr((points * weight[:, None] ** 0.5).T, pivoting=True, mode="economic")
    assert to_host(found).tolist() == expected[:5].tolist()


def test_pivots_of_a_sample_are_rows_of_all(xp, monkeypatch):
    monkeypatch.setattr(bipartite, "PIVOT_ROWS", 20)
    monkeypatch.setattr(bipartite, "PIVOT_ROWS_PER_CLUSTER", 1)
    points = np.repeat(np.eye(5), 12, axis=0)
    found = to_host(bipartite._pivots(xp.asarray(points), 5, np.random.default_rng(0), xp.ones(60)))
    assert sorted(found // 12) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n_init", [1, 3])
def test_fewer_distinct_rows_than_clusters_have_a_centre_each(xp, n_init):
    points = xp.asarray(np.repeat(np.eye(4)[:3], 5, axis=0))
    found = bipartite._centers(points, 4, np.random.default_rng(0), xp.ones(15), n_init)
    assert sorted(to_host(found).round(9).tolist()) == sorted(np.eye(4)[:3].tolist())


def test_one_start_from_pivots_ends_as_low_as_ten_others():
    given, *_ = table(n=3000)
    points = given.block.m.gather_sum(
        bipartite.embedding(given, bipartite.of_samples(given), 6, np.random.default_rng(0))
    )
    weight, objectives = np.ones(3000), []
    for alone in (True, False):
        rng = np.random.default_rng(1)
        directions = bipartite._directions(points)
        start = {"init": directions[bipartite._pivots(points, 6, rng, weight)]} if alone else {"n_init": 10}
        objectives.append(features.kmeans(directions, 6, rng, **start).objective)
    assert objectives[0] <= 1.001 * objectives[1]


# On a device: what goes over the bus.


def on_device(step=None):
    """A table of noisy partitions on the stand-in device, in memory or in blocks."""
    given, *_ = table(step=step)
    m = given.block.m if step is None else given
    if step is None:
        return blocks.whole(Membership.from_coded(m.codes, m.widths, True, None, "cuda:0"))
    return blocks.Streamed(given.codes, given.bounds, given.widths, True, None, None, ("cuda:0",))


@pytest.fixture
def calls(monkeypatch):
    """The number of rows of each block that was multiplied."""
    found, product = [], bipartite._product
    monkeypatch.setattr(
        bipartite, "_product", lambda block, *more: found.append(len(block.m.codes)) or product(block, *more)
    )
    return found


needs_gxx = pytest.mark.skipif(gxx() is None, reason="g++ is not installed: no kernel runs on the stand-in device")


@needs_gxx
def test_a_krylov_step_on_a_device_reads_two_numbers(calls):
    expected = bipartite.embedding(*graph_of(table()[0]), 6, np.random.default_rng(0))
    calls.clear()
    with standin.installed(ShimModule):
        given, graph = graph_of(on_device())
        with counted() as found:
            embedding = bipartite._embedding(given, graph, 6, np.random.default_rng(0))
        width, n_columns = 16, 108
        assert len(calls) >= 3
        assert 1 <= found.reads <= len(calls) - 2  # from the third block on
        assert found.down == 16 * found.reads
        assert found.up == 8 * n_columns * (width + 3)  # the first block, weights of the columns twice, degrees
        assert found.kernels == 1 + 2 * len(calls)
        angle = np.sin(subspace_angles(to_host(embedding), expected)).max()
    assert angle < 1e-6


@needs_gxx
def test_a_streamed_product_sends_codes_and_a_table(calls):
    with standin.installed(ShimModule):
        given, graph = graph_of(on_device(step=500))
        with counted() as found:
            bipartite._leading(given, graph, 6, np.random.default_rng(0))
    n_products, table_bytes = len(calls) // 3, 8 * 108 * 16
    fixed = table_bytes + 2 * 8 * 108  # the first block, weights of the columns, degrees
    assert sorted(calls) == [200] * n_products + [500] * 2 * n_products
    assert found.up == fixed + n_products * (1200 * 12 + table_bytes)
    looks = found.reads - 3 * n_products
    assert 1 <= looks <= n_products - 2
    assert found.down == 3 * n_products * table_bytes + 16 * looks


@needs_gxx
def test_labels_of_an_embedding_send_its_tables_once():
    with standin.installed(ShimModule):
        given, graph = graph_of(on_device(step=500))
        found = bipartite.cut(given, graph, 6, np.random.default_rng(0))
        with counted() as labels:
            together = np.concatenate(given.each(embedded_labels, found))
    tables = 2 * found.projection.nbytes + 8 * 6
    assert labels.up == 1200 * 12 + tables
    assert (labels.reads, labels.down) == (3, 4 * 1200)
    expected = bipartite.cut(*graph_of(table()[0]), 6, np.random.default_rng(0)).labels(table()[0].block)
    np.testing.assert_array_equal(together, expected)


def embedded_labels(block, labelling):
    return labelling.labels(block)


def graph_of(given):
    return given, bipartite.of_samples(given)
