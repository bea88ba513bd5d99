"""A file is written whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """Open a file that takes its name when all is written; if anything fails, what was there before stays."""
    target = Path(path).resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        error.filename = error.filename or path  # a full disk does not say which file it was
        raise
    finally:
        partial.unlink(missing_ok=True)
