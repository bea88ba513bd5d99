"""The best of several runs of k-means depends on the problem, on its starts, and on what a checkpoint holds."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuensemble._array import random
from gpuensemble._kmeans.labels.checkpoint import Checkpoint, Saved
from gpuensemble._kmeans.labels.labellings import Labelling
from gpuensemble._kmeans.labels.lloyd import Problem, Progress, lloyd


class Starts(NamedTuple):
    """This says how many runs there are, and how each begins."""

    number: int
    labelling: Callable[[Any], Labelling]  # of a random generator


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
    best = saved.best
    for number, rng in enumerate(random.generators(seeds, starts.number)):
        if number < saved.run:
            continue

        def after_each(progress: Progress, n_new: int, number: int = number, best: Progress | None = best) -> None:
            done = len(progress.evaluated)
            steps = max_iter - done + n_new if progress.converged else n_new
            show(steps, doing="iterations, at most", iteration=done, objective=f"{progress.objective:.6g}")
            if checkpoint is not None:
                checkpoint.note(saved._replace(run=number, current=progress, best=best), n_new)

        begin = saved.current if number == saved.run else None
        show(0, doing=f"start {number + 1} of {starts.number}")
        run = lloyd(problem, begin or starts.labelling(rng), max_iter, skip, after_each)
        best = run if best is None or run.objective < best.objective else best
    assert best is not None
    return best
