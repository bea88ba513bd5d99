"""What a checkpoint writes and reads, and what it belongs to."""

import numpy as np
import pytest

from gpuensemble._kmeans.labels import checkpoint, labellings, lloyd
from gpuensemble._kmeans.labels.costs import KCCCosts, SECCosts
from gpuensemble._kmeans.labels.runs import Starts, best_run
from gpuensemble._kmeans.labels.statistics import Statistics
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables.blocks import Block, InMemory, whole
from support import membership, oracle_hash, random_codes

WIDTHS = np.array([3, 4, 2])


def problem_of(name="SEC", seed=0):
    table = whole(membership(np, random_codes(np.random.default_rng(seed), 40, WIDTHS, 0.3), WIDTHS))
    weighting = Weighting(np.ones(3), None, "float64")
    costs = SECCosts.of(table, weighting) if name == "SEC" else KCCCosts.of("category", False, table, weighting)
    return lloyd.Problem.of(table, costs, 3)


def progress_of(problem, rng, n_iter=3, converged=False, fillers=()):
    """The progress of a run with numbers of its own."""
    masses = None if problem.costs.weights is None else (3, 3)
    made, now = (
        Statistics(rng.integers(0, 9, (9, 3)), None if masses is None else rng.integers(1, 99, masses)) for _ in "12"
    )
    labelling = labellings.ByCosts(made, problem.priced(made).tables, fillers)
    return lloyd.Progress(labelling, now, rng.random(n_iter + 1).tolist(), rng.random(n_iter).tolist(), converged)


def assert_same(one, two):
    for a, b in ((one.statistics, two.statistics), (one.labelling.statistics, two.labelling.statistics)):
        np.testing.assert_array_equal(a.counts, b.counts)
        np.testing.assert_array_equal(a.masses, b.masses)
    for a, b in zip(one.labelling.tables, two.labelling.tables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.labelling.fillers == two.labelling.fillers
    assert (one.path, one.evaluated, one.converged) == (two.path, two.evaluated, two.converged)


@pytest.mark.parametrize("name", ["SEC", "KCC"])
@pytest.mark.parametrize("converged", [False, True])
def test_what_is_saved_is_loaded(name, converged, tmp_path):
    problem, rng, path = problem_of(name), np.random.default_rng(0), str(tmp_path / "state")
    current = progress_of(problem, rng, 3, converged, (((0, 255, 1), 2), ((1, 1, 1), 0)))
    best = progress_of(problem, rng, 7, not converged)
    checkpoint.save(path, "key", checkpoint.Saved(2**100, 5, current, best))
    found = checkpoint.load(path, "key", problem)
    assert (found.entropy, found.run) == (2**100, 5)
    assert_same(found.current, current)
    assert_same(found.best, best)
    with pytest.raises(ValueError, match=r"^`checkpoint` must be of the same table and parameters to resume from, got"):
        checkpoint.load(path, "another key", problem)


def test_a_start_before_its_first_iteration_begins_again(tmp_path):
    problem, path = problem_of(), str(tmp_path / "state")
    begun = progress_of(problem, np.random.default_rng(0))._replace(labelling=labellings.Given(np.zeros(40, "int32")))
    checkpoint.save(path, "key", checkpoint.Saved([1, 2], 0, begun, None))
    assert checkpoint.load(path, "key", problem) == checkpoint.Saved([1, 2], 0, None, None)


def test_a_state_is_written_every_fifth_iteration_and_at_the_end(tmp_path, monkeypatch):
    problem, rng, written = problem_of(), np.random.default_rng(0), []
    monkeypatch.setattr(checkpoint, "save", lambda path, key, saved: written.append(len(saved.current.evaluated)))
    file = checkpoint.Checkpoint("path", "key", False)
    file.note(checkpoint.Saved(0, 0, None, None), 1)
    for n_iter in range(1, 13):
        file.note(checkpoint.Saved(0, 0, progress_of(problem, rng, n_iter, n_iter == 12), None), 1)
    assert written == [5, 10, 12]


def test_only_a_fit_that_is_to_go_on_reads_the_file(tmp_path):
    problem, path = problem_of(), str(tmp_path / "state")
    assert checkpoint.Checkpoint(path, "key", True).load(problem) is None
    checkpoint.save(path, "key", checkpoint.Saved(3, 1, None, None))
    assert checkpoint.Checkpoint(path, "key", False).load(problem) is None
    assert checkpoint.Checkpoint(path, "key", True).load(problem) == checkpoint.Saved(3, 1, None, None)


def test_the_content_of_a_table_is_a_sum_over_its_rows_in_exact_integers():
    codes = random_codes(np.random.default_rng(2), 40, WIDTHS, 0.3)
    expected = [0, 0]
    for place, row in enumerate(codes.tolist()):
        of_row = oracle_hash(row, 0)
        for i in range(2):
            expected[i] += oracle_hash([of_row, place], i + 1)
    assert checkpoint.content(whole(membership(np, codes, WIDTHS))) == (expected[0] % 2**64, expected[1] % 2**64)
    later = InMemory(Block(membership(np, codes, WIDTHS), first=100))
    assert checkpoint.content(later) != checkpoint.content(whole(membership(np, codes, WIDTHS)))


EQUAL = [
    [7, np.int8(7), np.uint64(7)],
    [0.5, np.float64(0.5), np.float32(0.5)],
    [True, np.True_],
    [[1, 2], (1.0, 2.0), np.array([1, 2], "int8")],
    [np.random.default_rng(0), np.random.RandomState(3)],
    [None],
    ["7"],
    ["None"],
    [[1, 3]],
    [[[1, 2]]],
    [0],
    [False],
    [0.25],
]


def test_keys_are_the_same_for_equal_parameters_and_no_others():
    table = problem_of().table
    keys = [[checkpoint.key_of(table, {"a": value, "b": 1}) for value in values] for values in EQUAL]
    assert all(len(set(same)) == 1 for same in keys)
    assert len({same[0] for same in keys}) == len(EQUAL)
    assert checkpoint.key_of(table, {"b": 1, "a": 7}) == keys[0][0]


def test_keys_are_the_same_for_arrays_of_every_library(xp):
    table = problem_of().table
    assert checkpoint.key_of(table, {"a": xp.asarray([1.0, 2.5])}) == checkpoint.key_of(table, {"a": [1.0, 2.5]})


def test_keys_know_rows_widths_weights_and_names():
    codes = random_codes(np.random.default_rng(0), 40, WIDTHS, 0.3)
    tables = [
        whole(membership(np, codes, WIDTHS)),
        whole(membership(np, codes, WIDTHS + 1)),
        whole(membership(np, codes, WIDTHS), np.arange(40)),
        whole(membership(np, codes[:39], WIDTHS)),
        whole(membership(np, codes[::-1], WIDTHS)),
    ]
    keys = {checkpoint.key_of(table, {"a": 1}) for table in tables} | {checkpoint.key_of(tables[0], {"b": 1})}
    assert len(keys) == 6


def test_runs_go_on_from_where_they_were_saved(tmp_path, monkeypatch):
    """Each state that is noted leads to the same end, with the starts before it left out."""
    problem, seeds = problem_of(), np.random.SeedSequence(4)
    drawn = []

    def start(problem, rng):
        drawn.append(rng.integers(0, 3, 40).astype("int32"))
        return labellings.Given(drawn[-1])

    noted, path = [], str(tmp_path / "state")
    plain = best_run(problem, Starts(4, start), 100, seeds)
    assert len(drawn) == 4
    file = checkpoint.Checkpoint(path, "key", False)
    monkeypatch.setattr(checkpoint.Checkpoint, "note", lambda self, saved, n_new: noted.append(saved))
    assert best_run(problem, Starts(4, start), 100, seeds, checkpoint=file).path == plain.path
    assert {saved.run for saved in noted} == {0, 1, 2, 3}
    assert all((saved.best is None) == (saved.run == 0) for saved in noted)
    file = checkpoint.Checkpoint(path, "key", True)
    for saved in tuple(noted):
        checkpoint.save(path, "key", saved)
        drawn.clear()
        resumed = best_run(problem, Starts(4, start), 100, np.random.SeedSequence(99), checkpoint=file)
        assert resumed.path == plain.path
        assert len(drawn) == 3 - saved.run
