"""This module shows a progress bar on stderr to those who ask for it."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any


@contextlib.contextmanager
def bar(
    description: str, verbose: int, total: int | None = None, unit: str = "it", done: int = 0
) -> Iterator[Callable]:
    """Give a function show(n, **facts) to call after n further steps; it shows nothing unless `verbose`.

    `doing` among the facts takes the place of the description.
    """
    if not verbose:
        yield lambda n=1, **facts: None
        return
    from tqdm import tqdm

    with tqdm(desc=description, total=total, unit=unit, initial=done) as shown:

        def show(n: int = 1, *, doing: str | None = None, **facts: Any) -> None:
            if doing is not None:
                shown.set_description(doing, refresh=not n)
            shown.set_postfix(facts, refresh=False)
            shown.update(n)

        yield show


def with_bar(
    steps: Iterable, description: str, verbose: int, total: int | None = None, unit: str = "it", done: int = 0
) -> Iterator:
    """Yield the steps one after another, and show a bar."""
    with bar(description, verbose, total, unit, done) as show:
        for step in steps:
            yield step
            show()
