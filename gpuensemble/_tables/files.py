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
from collections.abc import Iterator
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
    """Open a file that takes its name when all is written; if anything fails, what was there before stays.

    What it replaces lends it its mode. Until then it has a name that nobody can guess, and is opened by us alone.
    """
    target = Path(path).resolve()
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb") as file:
            if target.exists():
                os.chmod(partial, stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        if error.filename in (None, str(partial)):  # a full disk does not say which file it was
            error.filename = path
        raise
    finally:
        partial.unlink(missing_ok=True)


def refuse_input(output: Any, name: str, *inputs: Any) -> None:
    """Raise if an output, given as the parameter of that name, is one of the files that are read."""
    if output is None:
        return
    paths = [getattr(given, "filename", given) for given in inputs]  # of a memory-mapped array, too
    there = [path for path in paths if isinstance(path, str | Path) and os.path.exists(path)]
    if os.path.exists(output) and any(os.path.samefile(path, output) for path in there):
        raise ValueError(f"`{name}` must be another file than the one that is read, got {str(output)!r}.")
