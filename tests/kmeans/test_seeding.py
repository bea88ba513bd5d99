"""k-means++ and random rows against a literal reading of them: all distances, exact sums, rows in the table's order."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from gpuensemble._array.devices import to_host
from gpuensemble._kmeans.labels import seeding
from gpuensemble._kmeans.labels.costs import KCCCosts, SECCosts
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables import blocks
from support import membership, onehot, random_codes

WIDTHS = np.array([4, 3, 5])
N = 90


def drawn_table(holes, weighted, seed):
    """Codes with equal rows among them, and weights, some of which are 0."""
    rng = np.random.default_rng(seed)
    codes = random_codes(rng, N, WIDTHS, holes)
    return codes, rng.integers(0, 4, N) if weighted else None


def kinds(xp, codes, weight):
    """The table in one block, with equal rows merged, and in blocks that keep little."""
    m = membership(xp, codes, WIDTHS)
    given = None if weight is None else xp.asarray(weight)
    yield blocks.whole(m, given)
    merged = m.merge()
    times = np.bincount(to_host(merged.group), weight).astype("int64")
    yield blocks.InMemory(blocks.Block(merged.membership, 0, xp.asarray(times), merged.group, given))
    if xp is np:
        yield blocks.Streamed(m.codes, [0, 1, 30, 64, N], m.widths, m.complete, None, weight)


def costs_of(name, table):
    weighting = Weighting(np.ones(3), None, "float64")
    return SECCosts.of(table, weighting) if name == "SEC" else KCCCosts.of(name, False, table, weighting)


def distances(name, codes, weight):
    """N x N: what row x costs in a cluster of row y alone, over the partitions that x has a label in."""
    dense, seen = onehot(codes, WIDTHS), (codes >= 0).astype(float)
    agree = dense @ dense.T
    both = seen @ seen.T
    if name == "category":  # a partition that y has not seen has a centre of zeros
        return seen.sum(1)[:, None] + both - 2 * agree
    sizes = (np.ones(N) if weight is None else weight) @ dense
    degrees = np.maximum(dense @ sizes, 1)
    w, v = degrees[:, None], degrees[None, :]
    return seen.sum(1)[:, None] / w + w * both / v**2 - 2 * agree / v


class Shares:
    """Draws that hardly change with the sum they are drawn from: the last bits of a sum of floats are not ours."""

    def __init__(self):
        self.rng = np.random.default_rng(3)

    def integers(self, high, size):
        return np.array([int(Fraction(share) * int(high)) for share in self.rng.random(size)])


def literal_plus_plus(name, codes, weight, n_clusters, rng):
    """The rows that greedy k-means++ chooses, in the exact integers of which a seed is a promise."""
    times = np.ones(N, "int64") if weight is None else weight
    full = np.maximum(distances(name, codes, weight), 0)
    dense = onehot(codes, WIDTHS)
    mass = np.ones(N, "int64") if name == "category" else np.maximum(dense @ (times @ dense), 1).astype("int64")

    def drawn(units, n):
        ends = list(itertools.accumulate((units * times).tolist()))
        return [next(x for x, end in enumerate(ends) if end > draw) for draw in rng.integers(ends[-1], size=n).tolist()]

    chosen = drawn(mass, 1)
    nearest = full[:, chosen[0]]
    bound = nearest[times > 0].max() * times.sum()
    unit = 2.0 ** (math.frexp(bound)[1] - 60) if bound > 0 else 1.0
    while len(chosen) < n_clusters and (np.rint(nearest / unit) * times).any():
        candidates = drawn(np.rint(nearest / unit).astype("int64"), min(8, n_clusters))
        with_each = [np.minimum(nearest, full[:, row]) for row in candidates]
        sums = [int((np.rint(one / unit).astype("int64") * times).sum()) for one in with_each]
        best = sums.index(min(sums))
        chosen.append(candidates[best])
        nearest = with_each[best]
    return full[:, chosen].argmin(1)


@pytest.mark.parametrize("n_clusters", [1, 3, 12])
@pytest.mark.parametrize(("holes", "weighted"), [(0, False), (0.3, False), (0, True), (0.3, True)])
@pytest.mark.parametrize("name", ["category", "SEC"])
def test_plus_plus_is_its_definition_in_any_blocks(xp, name, holes, weighted, n_clusters):
    codes, weight = drawn_table(holes, weighted, n_clusters)
    expected = literal_plus_plus(name, codes, weight, n_clusters, Shares())
    for table in kinds(xp, codes, weight):
        costs = costs_of(name, table)
        labelling = seeding.plus_plus(table, costs, n_clusters, Shares())
        np.testing.assert_array_equal(all_labels(table, costs, labelling), expected)


def all_labels(table, costs, labelling):
    (found,) = table.columns(_labels, (costs, labelling), ("int32",))
    return to_host(found)


def _labels(block, costs, labelling):
    return (block.of_table(labelling.labels(block, costs)),)


def test_weights_that_are_huge_and_distances_that_are_tiny_have_a_unit():
    """The sum of the potentials fits into an integer, and none is rounded to nothing."""
    codes, weight = drawn_table(0, True, 0)
    table = blocks.whole(membership(np, codes, WIDTHS), weight << 40)
    costs = costs_of("category", table)
    labelling = seeding.plus_plus(table, costs, 5, Shares())
    expected = literal_plus_plus("category", codes, weight, 5, Shares())
    np.testing.assert_array_equal(all_labels(table, costs, labelling), expected)
    table = blocks.whole(membership(np, np.array([[0, 0], [0, 1], [0, 0]]), [1, 2]))
    costs = KCCCosts.of("category", False, table, Weighting(np.array([1.0, 1e-9]), None, "float64"))
    labels = all_labels(table, costs, seeding.plus_plus(table, costs, 2, Shares()))
    assert labels[0] == labels[2] != labels[1]


@pytest.mark.parametrize("n_clusters", [3, 200])
@pytest.mark.parametrize("weighted", [False, True])
def test_random_rows_are_those_of_the_generator(xp, weighted, n_clusters):
    codes, weight = drawn_table(0.3, weighted, 0)
    counted = np.arange(N) if weight is None else np.flatnonzero(weight)
    rows = np.random.default_rng(3).choice(counted, min(n_clusters, len(counted)), replace=False)
    expected = distances("category", codes, weight)[:, np.sort(rows)].argmin(1)
    for table in kinds(xp, codes, weight):
        costs = costs_of("category", table)
        labelling = seeding.random_rows(table, costs, n_clusters, np.random.default_rng(3))
        np.testing.assert_array_equal(all_labels(table, costs, labelling), expected)


def test_distances_that_were_lost_are_found_again():
    """To all rows chosen so far, or to those that are new since the last time."""
    codes, _ = drawn_table(0.3, False, 0)
    table = blocks.whole(membership(np, codes, WIDTHS))
    costs = costs_of("category", table)
    seeds = seeding.Seeds(blocks.Lasting(), costs, None, 1.0)
    for rows in ([3, 8, 20], [3, 8, 20], [3, 8, 20, 33, 50]):
        found = seeding._to_chosen(table.block, seeds._replace(chosen=table.take(np.array(rows))))
        expected = distances("category", codes, None)[:, rows].min(1)
        np.testing.assert_allclose(found / costs.scale, expected, atol=1e-12)


def test_distances_are_worked_out_once_where_there_is_memory(monkeypatch):
    """To the first row, then to the candidates for each further one; and nothing of them stays."""
    codes, weight = drawn_table(0, True, 0)
    table = blocks.whole(membership(np, codes, WIDTHS), weight)
    calls, plain = [], seeding._distances
    monkeypatch.setattr(seeding, "_distances", lambda *args: calls.append(len(args[2].codes)) or plain(*args))
    seeding.plus_plus(table, costs_of("category", table), 4, np.random.default_rng(0))
    assert calls == [1, 4, 4, 4]
    assert table.block.cache.distances is None
