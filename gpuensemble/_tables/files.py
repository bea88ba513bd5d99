"""A file is written whole or not at all, and does not take the place of what is read."""

import contextlib
import csv
import os
import secrets
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

# What readers of files raise if a file is not what its name says.
UNREADABLE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError),
    *(TypeError, ValueError, csv.Error, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, without a full stop, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


@contextlib.contextmanager
def damage_named(path: str, *more: type[BaseException]) -> Iterator[None]:
    """Raise one sentence that names the file, for whatever a library, which may have errors of its own, says of it."""
    try:
        yield
    except more + UNREADABLE as error:
        raise ValueError(f"`{path}` must be a whole file: {first_line(error)}.") from None


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """Open a file that takes its name when all is written; if anything fails, what was there before stays."""
    with whole_files(path) as (file,):
        yield file


@contextlib.contextmanager
def whole_files(*paths: str) -> Iterator[list[BinaryIO]]:
    """Open files that belong together, and take their names when all of them are written to the end.

    If a write fails, what was there before stays. The first takes its name first, and what the others replace is gone
    by then: a process that is killed in between leaves a file out, but never one beside others that it does not fit.
    """
    with contextlib.ExitStack() as stack:
        partials = [stack.enter_context(_partial(path)) for path in paths]
        yield [file for file, _ in partials]
        for path, (file, _) in zip(paths, partials, strict=True):
            with naming(path):
                file.flush()
                os.fsync(file.fileno())
                file.close()
        for path in paths[1:]:
            Path(path).resolve().unlink(missing_ok=True)
        for path, (_, partial) in zip(paths, partials, strict=True):
            partial.replace(Path(path).resolve())


@contextlib.contextmanager
def _partial(path: str) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a file beside that path; it is gone in the end, unless it has taken that name.

    What it replaces lends it its mode. It has a name that nobody can guess, and is opened by us alone.
    """
    target = Path(path).resolve()
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with naming(path, partial), os.fdopen(os.open(partial, flags, 0o666), "wb") as file:
            if target.exists():
                os.chmod(partial, stat.S_IMODE(target.stat().st_mode))
            yield file, partial
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(path: str, partial: Path | None = None) -> Iterator[None]:
    """Let an error name the path: a full disk does not say which file it was, and nobody knows the partial one.

    An error without a number is a sentence of our own, and not of the disk.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(partial)):
            error.filename = path
        raise


def refuse_input(output: Any, name: str, *inputs: Any) -> None:
    """Raise if an output, given as the parameter of that name, is one of the files that are read."""
    if output is None:
        return
    paths = [getattr(given, "filename", given) for given in inputs]  # of a memory-mapped array, too
    there = [path for path in paths if isinstance(path, str | Path) and os.path.exists(path)]
    if any(_are_one(path, output) for path in there):
        raise ValueError(f"`{name}` must be another file than the one that is read, got {str(output)!r}.")


def refuse_shared(outputs: Iterable[tuple[str, Any]]) -> None:
    """Raise if two outputs, each beside the name of its parameter, are one file, by whatever names; None is none."""
    before: list[tuple[str, Any]] = []
    for name, path in outputs:
        if path is None:
            continue
        other = next((other for other, taken in before if _are_one(path, taken)), None)
        if other is not None:
            raise ValueError(f"`{name}` must be another file than `{other}`, got {str(path)!r} for both.")
        before.append((name, path))


def _are_one(one: Any, two: Any) -> bool:
    """Tell whether two paths lead to one file: one that is there, or that both would make."""
    if os.path.exists(one) and os.path.exists(two):
        return os.path.samefile(one, two)
    return Path(one).resolve() == Path(two).resolve()
