"""Damage to files, as disks, networks and editors do it: the same number gives the same damage everywhere."""

import re
import shutil
from pathlib import Path

import numpy as np

LONGEST = 64  # bytes of a piece that is moved or lost
NUMBERS = (b"0", b"1", b"2", b"11", b"255", b"4294967295", b"1000000000", b"1000000000000000", b"9" * 30, b"-1", b"1e9")


def damage(source: Path, target: Path, seed: list[int]) -> None:
    """Copy a file or a folder, and damage the copy."""
    rng = np.random.default_rng(seed)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        files = sorted(path for path in target.rglob("*") if path.is_file()) if target.is_dir() else [target]
        if len(files) > 1 and rng.random() < 0.2:
            _rearrange(files, rng)
        elif files:
            file = files[rng.integers(len(files))]
            file.write_bytes(WAYS[rng.integers(len(WAYS))](file.read_bytes(), rng))


def _rearrange(files: list[Path], rng: np.random.Generator) -> None:
    """Lose a file of a folder, let one take the place of another, or exchange two."""
    one, two = (files[i] for i in rng.choice(len(files), 2, replace=False))
    way, before = rng.integers(3), one.read_bytes()
    if way == 0:
        one.unlink()
        return
    one.write_bytes(two.read_bytes())
    if way == 1:
        two.write_bytes(before)


def _piece(data: bytes, rng: np.random.Generator) -> tuple[int, int]:
    """Choose where a piece begins and ends."""
    begin = int(rng.integers(len(data) + 1))
    return begin, min(len(data), begin + int(rng.integers(1, LONGEST)))


def flip_bits(data: bytes, rng: np.random.Generator) -> bytes:
    bits = np.unpackbits(np.frombuffer(data, "uint8"))
    places = rng.integers(len(bits), size=rng.integers(1, 4)) if len(bits) else []
    bits[places] ^= 1
    return np.packbits(bits).tobytes()


def change_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4) if data else 0):
        changed[rng.integers(len(data))] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.integers(256)])
    return bytes(changed)


def truncate(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data) + 1)]


def insert(data: bytes, rng: np.random.Generator) -> bytes:
    begin, _ = _piece(data, rng)
    return data[:begin] + rng.bytes(rng.integers(1, 9)) + data[begin:]


def lose_piece(data: bytes, rng: np.random.Generator) -> bytes:
    begin, end = _piece(data, rng)
    return data[:begin] + data[end:]


def blank_piece(data: bytes, rng: np.random.Generator) -> bytes:
    begin, end = _piece(data, rng)
    return data[:begin] + bytes(end - begin) + data[end:]


def repeat_piece(data: bytes, rng: np.random.Generator) -> bytes:
    begin, end = _piece(data, rng)
    return data[:end] + data[begin:end] + data[end:]


def swap_pieces(data: bytes, rng: np.random.Generator) -> bytes:
    a, b, c = sorted(int(place) for place in rng.integers(len(data) + 1, size=3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def other_number(data: bytes, rng: np.random.Generator) -> bytes:
    """Write another number for one in digits; padding behind it keeps the length, so that headers stay headers."""
    found = list(re.finditer(rb"\d+", data))
    if not found:
        return data
    match = found[rng.integers(len(found))]
    number = NUMBERS[rng.integers(len(NUMBERS))]
    behind, more = data[match.end() :], len(number) - len(match[0])
    behind = behind.replace(b" " * more, b"", 1) if more > 0 else behind.replace(b"  ", b" " * (2 - more), 1)
    return data[: match.start()] + number + behind


WAYS = (
    *(flip_bits, change_bytes, truncate, insert, lose_piece, blank_piece, repeat_piece, swap_pieces),
    *(other_number, other_number),  # as often again: it alone asks for tables that no memory holds
)
