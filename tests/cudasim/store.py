"""What compilers made, kept on disk: made once, also if several processes want it at the same time.

A product is a function of its inputs, and is found by their hash. The folder is in that of temporary files, one for
each user; it may be deleted at any time that nothing runs.
"""

import contextlib
import functools
import hashlib
import os
import tempfile
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows; the same may then be made twice, which does no harm
    fcntl = None


def made(inputs, suffix, make):
    """The path of what `make` makes of these texts; `make` is given the path to write to."""
    path = folder() / (hashlib.sha256("\0".join(inputs).encode()).hexdigest() + suffix)
    if path.exists():
        return path
    with _alone(path.with_suffix(".lock")):
        if not path.exists():  # while we waited for the lock, another process may have made it
            with tempfile.TemporaryDirectory(dir=folder()) as scratch:
                product = Path(scratch) / "product"
                make(product)
                os.replace(product, path)  # in one step: others look for it without a lock
    return path


@contextlib.contextmanager
def _alone(path):
    """One process or thread at a time. The file stays: it would not be safe to remove what another waits for."""
    with open(path, "w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@functools.cache
def folder():
    """The folder, which no other user may write to: what is loaded from there runs in this process."""
    user = os.getuid() if hasattr(os, "getuid") else 0  # on Windows each user has temporary files of their own
    path = Path(tempfile.gettempdir()) / f"cudasim-{user}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != user:
        raise RuntimeError(f"{path} belongs to another user.")
    return path
