"""The best of several runs of k-means depends on the problem, on its starts, and on what a checkpoint holds.

Runs of a table in the memory of the host go side by side, one in each thread. Threads that share a run meet after each
pass over the rows, and beside a busy process they wait there for one that has lost its core.
"""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, as_completed, wait
from typing import Any, NamedTuple

from gpuensemble._array import random, threads
from gpuensemble._kmeans.labels.checkpoint import Checkpoint, Saved
from gpuensemble._kmeans.labels.labellings import Labelling
from gpuensemble._kmeans.labels.lloyd import Problem, Progress, lloyd
from gpuensemble._tables.blocks import InMemory

SHORT = 1 << 16  # labels in a table: runs over fewer are Python for the most part, which one thread at a time does
ROOM = 1 << 25  # rows of all runs that go side by side, each with some 16 bytes of what is known of it


class Starts(NamedTuple):
    """This says how many runs there are, and how each begins."""

    number: int
    labelling: Callable[[Problem, Any], Labelling]  # of the problem and a random generator


def best_run(
    problem: Problem,
    starts: Starts,
    max_iter: int,
    seeds: Any,
    *,
    checkpoint: Checkpoint | None = None,
    show: Callable = lambda n, **facts: None,
    skip: bool | None = None,
) -> Progress:
    """Run Lloyd's iteration from each start; the run with the least objective wins, the earlier of equals.

    Parameters
    ----------
    problem : Problem
        The table, what clusters of its rows cost, and how many there are to be.
    starts : Starts
        How many runs there are, and how each begins.
    max_iter : int
        Most iterations of a run.
    seeds : SeedSequence
        What the starts draw from. A checkpoint that is resumed brings its own.
    checkpoint : Checkpoint, optional
        Where the state is saved every few iterations, and resumed from.
    show : function
        Called with how many iterations are done, of `max_iter` for each run, and with facts about them.
    skip : bool, optional
        As in `lloyd`.
    """
    saved = Saved(seeds.entropy, 0, None, None)
    if checkpoint is not None:
        saved = checkpoint.load(problem) or saved
        seeds = type(seeds)(saved.entropy)
    show(saved.run * max_iter)
    left = list(enumerate(random.generators(seeds, starts.number)))[saved.run :]
    n_together = _n_together(problem, len(left)) if checkpoint is None else 0
    best = _best_together(problem, starts, left[:n_together], max_iter, show, skip) if n_together else saved.best
    for number, rng in left[n_together:]:

        def after_each(progress: Progress, n_new: int, number: int = number, best: Progress | None = best) -> None:
            _tell(show, progress, n_new, max_iter)
            if checkpoint is not None:
                checkpoint.note(saved._replace(run=number, current=progress, best=best), n_new)

        begin = saved.current if number == saved.run else None
        show(0, doing=f"start {number + 1} of {starts.number}")
        run = lloyd(problem, begin or starts.labelling(problem, rng), max_iter, skip, after_each)
        best = run if best is None or run.objective < best.objective else best
    assert best is not None
    return best


def _tell(show: Callable, progress: Progress, n_new: int, max_iter: int) -> None:
    """Show that so many iterations are done; a run that is over has no more."""
    done = len(progress.evaluated)
    steps = max_iter - done + n_new if progress.converged else n_new
    show(steps, doing="iterations, at most", iteration=done, objective=f"{progress.objective:.6g}")


def _n_together(problem: Problem, n_runs: int) -> int:
    """Return how many runs are to go side by side: as many for each thread, so that none is left without."""
    table, n_threads = problem.table, threads.count()
    if not isinstance(table, InMemory) or table.device != "cpu" or n_threads == 1 or threads.inside():
        return 0
    if table.block.m.codes.size < SHORT or n_threads * table.n_rows > ROOM:
        return 0
    return n_runs - n_runs % n_threads


def _best_together(
    problem: Problem, starts: Starts, runs: list[tuple], max_iter: int, show: Callable, skip: bool | None
) -> Progress:
    """Do runs, pairs of number and generator, in the threads of the pool; return the best, the first of equals."""
    lock, over = threading.Lock(), threading.Event()
    best: list[tuple] = []

    def after_each(progress: Progress, n_new: int) -> None:
        if over.is_set():
            raise CancelledError
        with lock:
            _tell(show, progress, n_new, max_iter)

    def one(number: int, rng: Any) -> None:
        own = problem._replace(table=problem.table.apart())  # type: ignore[attr-defined]
        run = lloyd(own, starts.labelling(own, rng), max_iter, skip, after_each)
        with lock:
            best[:] = [min([*best, (run.objective, number, run)], key=lambda each: each[:2])]

    futures = [threads.pool().submit(one, *run) for run in runs]
    try:
        for future in as_completed(futures):
            future.result()
    finally:
        over.set()  # where a run failed or the caller gave up, the others end with their next call
        for future in futures:
            future.cancel()
        wait(futures)
    return best[0][-1]
