"""Several sets of centres go through Lloyd's iteration at once: as each would alone, and with as few launches."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from cudasim.tally import counted
from gpuensemble import generate
from gpuensemble._array.csr import Csr, matrix, onehot
from gpuensemble._array.devices import to_host
from gpuensemble._kernels.cpu.features import batches as cpu
from gpuensemble._kernels.cpu.features.greedy import choose_rows
from gpuensemble._kmeans.features import batches, distances, lloyd, seeding
from support import check

DISTANCES = distances.DISTANCES
LAUNCHES = {"sqeuclidean": 5, "cosine": 5, "kl": 34}  # of a step: one of them a product, or a kernel and a transpose


def table(n=240, d=6, seed=0):
    """Rows around a few centres, about half of their entries 0, none of them negative."""
    rng = np.random.default_rng(seed)
    X = abs(3 * rng.standard_normal((5, d))[rng.integers(0, 5, n)] + rng.standard_normal((n, d)))
    X = np.where(rng.random((n, d)) < 0.5, X, 0)
    X[:, 0] += 0.1
    return X


def features(xp, X, distance="sqeuclidean", sparse=False):
    device = "cpu" if xp is np else "cuda:0"
    return distances.prepare(matrix(csr_array(X) if sparse else X, "X", device), distance)


def starts(xp, given, sizes):
    """The positions of random rows of each number."""
    rng, weight = np.random.default_rng(1), xp.ones(1)
    return lloyd._seeded(given, list(sizes), lloyd.random_rows, [rng] * len(sizes), weight)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_set_in_a_batch_is_a_set_alone(xp, distance, sparse):
    given, sizes = features(xp, table(), distance, sparse), (2, 9, 33, 5, 1, 40)
    begin = starts(xp, given, sizes)
    together = batches.lloyd(given, begin, xp.ones(1), 100, 0.0)
    assert len({one.n_iter for one in together}) > 2  # some end before others
    for start, found in zip(begin, together, strict=True):
        (alone,) = batches.lloyd(given, [start], xp.ones(1), 100, 0.0)
        check(found.labels, to_host(alone.labels), xp, exact=True)
        check(found.centers, to_host(alone.centers), xp, exact=True)
        assert (found.objective, found.n_iter, found.costs) == (alone.objective, alone.n_iter, alone.costs)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_batch_is_the_iteration_of_the_cpu(xp, distance, weighted):
    X, sizes = table(), (3, 8, 20)
    weight = np.random.default_rng(2).random(len(X)) + 0.1 if weighted else np.ones(1)
    here, there = features(np, X, distance), features(xp, X, distance)
    found = batches.lloyd(there, starts(xp, there, sizes), xp.asarray(weight), 100, 0.0)
    for start, one in zip(starts(np, here, sizes), found, strict=True):
        alone = lloyd._lloyd(here, lloyd._at(here, start, weight), 100, 0.0)
        check(one.labels, alone.labels, xp)
        check(one.centers, alone.centers, xp)
        assert one.n_iter == alone.n_iter
        assert one.objective == pytest.approx(alone.objective)


def test_a_single_row_is_its_own_centre_whatever_it_weighs(xp):
    X = np.array([[3.0, 4]])
    found = lloyd.kmeans(xp.asarray(X), 1, np.random.default_rng(0), sample_weight=xp.asarray(np.array([0.3])))
    check(found.centers, X, xp)
    assert found.objective == 0


def test_sets_with_empty_clusters_are_filled_beside_others(xp):
    X = np.repeat([[0.0, 0], [0, 1], [1, 0], [50, 50]], [4, 1, 1, 1], axis=0)
    far = [xp.asarray(np.array([[0.0, 0], [1000, 1000]])), xp.asarray(X[4:6])]
    given = features(xp, X)
    begin = [[centers - given.means[0]] for centers in far]
    two = batches.lloyd(given, [begin[0], begin[1], begin[0]], xp.ones(1), 100, 0.0)
    for one in (two[0], two[2]):
        check(one.labels, np.array([0, 0, 0, 0, 0, 0, 1], "int32"), xp)
        check(one.centers, np.array([[1 / 6, 1 / 6], [50, 50]]), xp)
    assert two[1].objective == pytest.approx(two[0].objective)


def test_a_batch_fits_into_memory(xp, monkeypatch):
    given, sizes, asked = features(xp, table()), [2, 9, 33, 5], []
    whole = batches.lloyd(given, starts(xp, given, sizes), xp.ones(1), 100, 0.0)
    together = batches._together
    monkeypatch.setattr(batches, "_together", lambda *args: asked.append(len(args[1])) or together(*args))
    monkeypatch.setattr(batches, "memory", lambda device: 4 * (11 * batches.COPIES * 8 * 6 + 2 * 8 * 240))
    small = batches.lloyd(given, starts(xp, given, sizes), xp.ones(1), 100, 0.0)
    assert asked == [2, 1, 1]
    for one, two in zip(whole, small, strict=True):
        check(two.labels, to_host(one.labels), xp, exact=True)
    assert batches.fitting(given, [2] * 1000, 300) == 1


def test_the_guide_of_eq_9_is_of_one_set_alone(xp):
    labels = xp.asarray(np.arange(240, dtype="int32") % 3)
    guide = distances.FeatureBlock(onehot(labels, 3, "float64"), 0.3, None, "agreement")
    guided = features(xp, table()).beside(distances.prepare([guide], "agreement"))
    assert batches.fitting(guided, [3, 3]) == 1


@pytest.mark.parametrize("distance", ["sqeuclidean", "cosine"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("most", [64, 4096])
def test_starts_side_by_side_are_those_of_the_cpu(xp, monkeypatch, distance, weighted, most):
    monkeypatch.setattr(seeding, "SEED_ROWS", most)
    monkeypatch.setattr(seeding, "SEED_ROWS_PER_CLUSTER", 4)  # of 20 clusters there are 80 rows
    monkeypatch.setattr(seeding, "MOST_COSTS", 1000)  # not all at once
    X, sizes = table(), [3, 20, 20, 1, 7]
    weight = np.random.default_rng(2).integers(0, 3, len(X)).astype(float) if weighted else np.ones(1)
    found = [
        lloyd.several(features(lib, X, distance), sizes, [rng] * 5, lib.asarray(weight), lloyd.plus_plus)
        for lib, rng in ((np, np.random.default_rng(0)), (xp, np.random.default_rng(0)))
    ]
    for here, there in zip(*found, strict=True):
        check(there[0], here[0], xp)


@pytest.mark.parametrize("distance", ["sqeuclidean", "cosine"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_start_in_one_call_is_that_of_array_expressions(monkeypatch, distance, dtype, absent, weighted):
    """Of 600 rows, more than a block, some equal, one zero; all, or a sample, are drawn from.

    They are whole numbers, so that squared distances have no rounding that could move a draw.
    """
    rng = np.random.default_rng(3)
    X = rng.integers(-9, 9, (600, 11)).astype(dtype) + 6 * rng.integers(0, 4, (600, 1)).astype(dtype)
    X[5], X[7] = 0, X[6]
    present = rng.random(600) < 0.8 if absent else None
    weight = rng.integers(0, 3, 600).astype(float) if weighted else np.ones(1)
    given = distances.prepare([distances.FeatureBlock(X, 0.5, present, mean=np.zeros(11))], distance)
    for most, k in itertools.product((100, 4096), (1, 2, 20, 60)):
        monkeypatch.setattr(seeding, "SEED_ROWS", most)
        monkeypatch.setattr(seeding, "SEED_ROWS_PER_CLUSTER", 4)
        expected = seeding.plus_plus(given, k, np.random.default_rng(k), weight)[0]
        (found,) = seeding.several(given, [k], [np.random.default_rng(k)], weight, seeding.plus_plus)
        np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize(("place", "row"), [(0.0, 2), (0.5, 3), (1.0, 4)])
def test_the_ends_of_potentials_are_rows_that_count(place, row):
    X, weight = np.arange(6.0)[:, None], np.array([0.0, 0, 1, 1, 1, 0])
    found = choose_rows(X, X[:, 0] ** 2, np.zeros(6), False, 1.0, weight, np.full(1, place), 1, 1)
    assert found.tolist() == [row]


def test_the_pool_changes_no_start(monkeypatch):
    given, found = features(np, table()), []
    for worth in (0, 1 << 62):
        monkeypatch.setattr(seeding, "WORTH", worth)
        rngs = [np.random.default_rng(7)] * 4
        found.append(seeding.several(given, [3, 9, 2, 9], rngs, np.ones(1), seeding.plus_plus))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one[0], two[0])


def test_many_tries_are_left_to_array_expressions():
    """A vector has room for 12 tries in float64, which is what exp(10) centres have."""
    given = features(np, table())
    assert seeding._is_narrow(given, 22_000)
    assert not seeding._is_narrow(given, 60_000)


def test_starts_end_where_no_row_is_left(xp):
    X = np.repeat(np.eye(3), 4, axis=0)
    found = lloyd.several(features(xp, X), [2, 9, 3], [np.random.default_rng(0)] * 3, xp.ones(1), lloyd.plus_plus)
    assert [len(one[0]) for one in found] == [2, 3, 3]


# -------------------------------------------------------------------------------- what a device is asked to do


def counted_steps(monkeypatch):
    """The tallies of the steps that are made from now on."""
    found, step = [], batches._step

    def tallied(*args):
        with counted() as tally:
            result = step(*args)
        found.append(tally)
        return result

    monkeypatch.setattr(batches, "_step", tallied)
    return found


@pytest.mark.parametrize("xp", ["standin"], indirect=True)
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_launches_of_a_step_do_not_depend_on_the_number_of_sets(xp, monkeypatch, distance, sparse):
    given, steps = features(xp, table(), distance, sparse), counted_steps(monkeypatch)
    for sizes in ((4,), (4, 7, 3, 9, 12)):
        batches.lloyd(given, starts(xp, given, sizes), xp.ones(1), 1, 0.0)
    one, five = steps
    assert one.launches == five.launches <= LAUNCHES[distance] + sparse
    assert one.kernels == five.kernels == 3 + sparse + (distance != "kl")
    assert (one.reads, one.up, one.down) == (five.reads, five.up, five.down) == (0, 0, 0)


@pytest.mark.parametrize("xp", ["standin"], indirect=True)
def test_the_host_reads_once_in_some_steps_for_all_sets(xp, monkeypatch):
    given, steps, sizes = features(xp, table()), counted_steps(monkeypatch), (9, 12, 7)
    begin = starts(xp, given, sizes)
    with counted() as whole:
        found = batches.lloyd(given, begin, xp.ones(1), 100, 0.0)
    assert len(steps) < max(one.n_iter for one in found) + batches.READ_EVERY
    assert whole.reads == len(steps) // batches.READ_EVERY
    assert whole.down <= 8 * 3 * len(sizes) * whole.reads  # status, steps and costs of the sets


@pytest.mark.parametrize("xp", ["standin"], indirect=True)
def test_sparse_rows_stay_sparse(xp, monkeypatch):
    n, d, k = 300, 400, 5
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, d)) < 0.01, rng.random((n, d)), 0)
    X[:, 0] = 1
    given, steps = features(xp, X, "cosine", sparse=True), counted_steps(monkeypatch)
    monkeypatch.setattr(Csr, "dense", None)
    begin = starts(xp, given, (k, k))
    batches.lloyd(given, begin, xp.ones(1), 100, 0.0)
    # arrays of centres, and scores; a dense copy of the rows would be 8 n d bytes
    assert max(step.touched for step in steps) < 60 * 8 * 2 * k * d < 8 * n * d * 3
    assert not any(step.multiplied for step in steps)


@pytest.mark.parametrize("xp", ["standin"], indirect=True)
def test_seeding_does_not_wait_for_the_host(xp):
    for sparse in (False, True):
        given = features(xp, table(), sparse=sparse)
        with counted() as tally:
            lloyd.several(given, [20], [np.random.default_rng(0)], xp.ones(1), lloyd.plus_plus)
        assert tally.reads == 1


@pytest.mark.parametrize("xp", ["standin"], indirect=True)
def test_the_launches_of_seeding_do_not_depend_on_the_number_of_starts(xp):
    given, tallies = features(xp, table()), []
    for sizes in ([20], [20, 5, 20, 12]):
        rngs = [np.random.default_rng(k) for k in sizes]
        with counted() as tally:
            lloyd.several(given, sizes, rngs, xp.ones(1), lloyd.plus_plus)
        tallies.append(tally)
    one, four = tallies
    assert one.kernels == four.kernels == 2 * 20 + 1
    assert one.launches == four.launches <= one.kernels + 15
    assert one.reads == four.reads == 1


@pytest.mark.parametrize("xp", ["standin"], indirect=True)
def test_partitions_of_random_k_share_their_steps(xp, monkeypatch):
    X, options = xp.asarray(table()), {"k_range": (3, 9), "random_state": 0, "max_iter": 1}
    steps = counted_steps(monkeypatch)
    few, many = (generate.random_k(X, r, **options) for r in (2, 8))
    assert [step.launches for step in steps] == [steps[0].launches] * 2
    check(many[:, :2], to_host(few), xp, exact=True)


# -------------------------------------------------------------------------------- units


def test_sums_are_in_units_that_add_up_exactly():
    for n in (1, 7, 4096, 10**6, 10**9):
        assert 2 ** batches._digits(n) * n <= 2**62
    X = np.array([[1e-300, 0, 3e8], [-2e-300, 0, 1]])
    scale = batches._scale(X, None, 2.0, 2)
    assert (np.frexp(scale)[0] == 0.5).all()
    assert (abs(X * 2 * scale) <= 2**50).all()
    assert (abs(X[1] * scale)[[0, 2]] >= 1).all()


def test_a_small_entry_is_never_lost():
    """A centre that lacks what a row has would be infinitely far from it by "kl"."""
    X = np.array([[1.0, 1e-30], [1, 0]])
    sums, counts, masses = np.zeros((1, 2), "int64"), np.zeros(1, "int64"), np.zeros(1, "int64")
    labels, before = np.zeros((1, 2), "int32"), np.full((1, 2), -1, "int32")
    arguments = (X, np.full(2, 2.0**40), np.ones(1), 1.0, None, np.array([0, 1], "int32"))
    cpu.move_rows(*arguments, labels, before, sums, counts, masses)
    assert sums.tolist() == [[2**41, 1]]
    assert (counts.tolist(), masses.tolist()) == ([2], [2])
    cpu.move_rows(*arguments, before, labels, sums, counts, masses)
    assert not sums.any()
    assert not counts.any()
