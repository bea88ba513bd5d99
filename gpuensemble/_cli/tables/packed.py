"""Text is packed by gzip or Zstandard if the name ends in .gz or .zst; the name `-` is stdin."""

import contextlib
import gzip
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKINGS = ("", ".gz", ".zst")


def bare(path: str) -> str:
    """Return the name without the ending of its packing."""
    return path.removesuffix(".gz").removesuffix(".zst")


def read(path: str) -> str:
    """Return the text of a file, or of stdin."""
    try:
        found = _content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"`{path}` must be text in UTF-8, got byte {error.object[error.start]:#x}.") from None
    before, nul, _ = found.partition("\0")
    if nul:  # pandas would end the cell there
        raise ValueError(f"`{path}` must be text in UTF-8, got a NUL byte in line {before.count(chr(10)) + 1}.")
    return found


def _content(path: str) -> bytes:
    content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    if path.endswith(".gz"):
        with _whole(path, "gzip", EOFError, gzip.BadGzipFile, zlib.error):
            return gzip.decompress(content)
    if path.endswith(".zst"):
        zstandard = _zstandard(path)
        with _whole(path, "Zstandard", zstandard.ZstdError):
            return _frames(zstandard, content)
    return content


def _frames(zstandard: Any, content: bytes) -> bytes:
    """Unpack frames that follow each other; a frame that does not end is an error, which the library leaves to us."""
    parts = []
    while content:
        frame = zstandard.ZstdDecompressor().decompressobj()
        parts.append(frame.decompress(content))
        if not frame.eof:
            raise zstandard.ZstdError("it ends too early")
        content = frame.unused_data
    return b"".join(parts)


def pack(path: str, content: bytes) -> bytes:
    """Return what a file of that name holds; the same content makes the same file."""
    if path.endswith(".gz"):
        return gzip.compress(content, mtime=0)
    return _zstandard(path).ZstdCompressor().compress(content) if path.endswith(".zst") else content


@contextlib.contextmanager
def _whole(path: str, packing: str, *errors: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"`{path}` must be a whole file of {packing}, got a damaged one: {reason}.") from None


def check(path: str) -> None:
    """Raise if the package that packs such a file is not there."""
    if path.endswith(".zst"):
        _zstandard(path)


def _zstandard(path: str) -> Any:
    try:
        import zstandard
    except ImportError:
        raise ValueError(f'`{path}` needs a package that is not there: pip install "gpuensemble[zstd]".') from None
    return zstandard
