"""This makes arrays whose rows are whole cache lines, as the loops of `vector` need them."""

import math
from typing import Any

import numpy as np

LINE = 64  # bytes of a cache line
PAGE = 1 << 21  # bytes of a large page of the system
LARGE, ASKED = 1 << 20, 1 << 22  # bytes of a piece that is worth large pages, and from which on NumPy asks for them
WIDEST = 7  # lines of a row: 14 of the 16 registers of AVX2, 7 of the 32 of AVX-512
DOT_LINES, DOT_ROWS = 3, 4  # half lines of a table, and rows that are multiplied with it: 12 registers of AVX2
SUMS = 512  # rows of a block: their sums stay in the L2 cache


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Make zeros whose first entry is on a cache line."""
    (found,) = side_by_side(dtype, shape)
    return found


def side_by_side(dtype: Any, *shapes: tuple[int, ...], zero: bool = True) -> list[np.ndarray]:
    """Make arrays, of zeros or of anything, in one piece of memory; the first entry of each is on a cache line."""
    return in_one_piece(*((dtype, shape) for shape in shapes), zero=zero)


def in_one_piece(*kinds: tuple[Any, tuple[int, ...]], zero: bool = False) -> list[np.ndarray]:
    """Make arrays of a type and a shape each, as `side_by_side` does.

    A large piece is made of large pages where the system has some: small ones, which come one by one as they are first
    written to, take about twenty times as long to come by. NumPy asks for large ones from ASKED bytes on.
    """
    sizes = [-(-math.prod(shape) * np.dtype(dtype).itemsize // LINE) * LINE for dtype, shape in kinds]
    total = sum(sizes)
    if total < LARGE:
        raw = (np.zeros if zero else np.empty)(total + LINE, np.uint8)
        start = -raw.__array_interface__["data"][0] % LINE
    else:
        raw = np.empty(max(total + PAGE, ASKED), np.uint8)
        start = -raw.__array_interface__["data"][0] % PAGE
        if zero:
            raw[start : start + total] = 0
    found = []
    for (dtype, shape), size in zip(kinds, sizes, strict=True):
        found.append(np.ndarray(shape, dtype, raw, start))
        start += size
    return found


def padded(n_columns: int, dtype: Any, size: int = LINE) -> int:
    """Return so many columns or more, which make a whole number of vectors of `size` bytes."""
    lanes = size // np.dtype(dtype).itemsize
    return -(-n_columns // lanes) * lanes


def dot_width(n_columns: int, dtype: Any) -> int:
    """Return the entries of a row of a table for `dot_rows`, in whole half lines; 0 if the columns are too many."""
    width = padded(n_columns, dtype, LINE // 2)
    return width if width * np.dtype(dtype).itemsize <= DOT_LINES * LINE // 2 else 0


def shape_of_tiles(table):
    """Return the columns of a tile, whole cache lines and WIDEST of them at most, and how many tiles there are."""
    lines = -(-table.shape[1] * table.itemsize // LINE)
    n_tiles = -(-lines // WIDEST)
    return -(-lines // n_tiles) * LINE // table.itemsize, n_tiles


def tiled(table):
    """Return a copy in tiles of columns, padded with zeros."""
    tiles = room_for_tiles(table)
    width = tiles.shape[2]
    for tile in range(len(tiles)):
        part = table[:, tile * width : (tile + 1) * width]
        tiles[tile, :, : part.shape[1]] = part
    return tiles


def room_for_tiles(table):
    """Make zeros for the tiles of such a table."""
    return aligned(all_tiles(table), table.dtype)


def all_tiles(table):
    """Return the shape of the tiles of a table."""
    width, n_tiles = shape_of_tiles(table)
    return n_tiles, len(table), width


def sums_of(tiles):
    """Make room for the sums of a block of rows."""
    return aligned((SUMS, tiles.shape[2]), tiles.dtype)
