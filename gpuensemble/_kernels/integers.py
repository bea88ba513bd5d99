"""Tables of small whole numbers, as most base partitions are, are coded by look-ups on the CPU, not sorted."""

import numpy as np

from gpuensemble._array import threads
from gpuensemble._array.coding import Coded, code_dtype
from gpuensemble._kernels.cpu.compiling import kernel

LARGE = 1 << 14  # labels; NumPy looks fewer up sooner than a kernel is loaded
ALONE = 1 << 18  # labels up to which one thread does not wait for others
SAMPLE = 256  # rows that are looked at first
WIDEST, CELLS = 1 << 16, 1 << 25  # of the labels of a partition, and of all look-ups
SPAN = 1 << 15  # rows that a thread takes at a time, at most


def coded(labels):
    """Return what `from_labels` of _array/coding.py does, or None where labels are not so small, or wrong."""
    if type(labels) not in (np.ndarray, np.memmap) or labels.ndim != 2 or not labels.size:  # none that is masked
        return None
    if labels.dtype.kind not in "iu" or labels.dtype == np.uint64 or not labels.dtype.isnative:
        return None
    labels = np.ascontiguousarray(labels)
    width = min(WIDEST, CELLS // labels.shape[1])
    found = _looked_at(labels, width) if labels.size < LARGE else _read(labels, width)
    if found is None:
        return None
    seen, codes = found
    if not seen[:, 1:].any(axis=1).all():
        return None
    widths, complete = seen[:, 1:].sum(axis=1), not seen[:, 0].any()
    dtype, ends = code_dtype(int(widths.max())), widths.cumsum()
    values = np.nonzero(seen[:, 1:])[1].astype(labels.dtype)
    if codes.dtype != dtype or bool((values[ends - 1] >= widths).any()):
        codes = _renumbered(codes, seen, dtype)
    parts = [values[first:end] for first, end in zip((ends - widths).tolist(), ends.tolist(), strict=True)]
    return Coded(codes, widths.astype("int64"), complete), parts


def _looked_at(labels, width):
    """Do `_read` for a few labels by NumPy."""
    r, low, high = labels.shape[1], int(labels.min()), int(labels.max())
    if low < -1 or high + 1 >= width or (low < 0 and (labels < 0).all(axis=1).any()):
        return None
    seen = np.zeros((r, high + 2), np.bool_)
    seen[np.arange(r), labels.astype(np.intp) + 1] = True
    return seen, labels.astype(code_dtype(max(high + 1, 1)))


def _read(labels, width):
    """Tell which labels each partition has, the hole, then those from 0 on, and copy labels as if they were codes.

    It returns None if they are more than `width`, or if a row has none.
    """
    n, r = labels.shape
    for rows in (labels[:: max(1, n // SAMPLE)], labels):  # a sample mostly has the largest label
        beyond = min(width - 1, max(int(rows.max()) + 1, 1))
        if beyond < 1:
            return None
        seen, codes = np.zeros((r, beyond + 1), np.bool_), np.empty((n, r), code_dtype(beyond))
        if _over_rows(labels, lambda first, last, seen=seen, codes=codes: _copy(labels, seen, codes, first, last)):
            return seen[:, : 1 + np.flatnonzero(seen.any(axis=0))[-1]], codes
    return None


def _renumbered(labels, seen, dtype):
    """Number the labels that each partition has; a hole has all bits set."""
    places = (np.cumsum(seen, axis=1) - seen[:, :1] - 1).astype(dtype)
    places[:, 0] = np.array(-1).astype(dtype)
    codes = np.empty(labels.shape, dtype)
    if labels.size < LARGE:
        codes[:] = places[np.arange(labels.shape[1]), (labels + labels.dtype.type(1)).astype(np.intp)]
    else:
        _over_rows(labels, lambda first, last: _look_up(labels, places, codes, first, last))
    return codes


def _over_rows(labels, task):
    """Tell whether a task is content with all rows."""
    n, wrong = len(labels), []

    def judged(first, last):
        if not task(first, last):
            wrong.append(first)

    threads.over_spans(n, threads.even_span(n, SPAN), judged, alone=labels.size < ALONE)
    return not wrong


@kernel
def _copy(labels, seen, codes, first, last):
    """Copy labels of some rows, and mark them; return whether all are small, none is below -1, and no row is empty."""
    r, beyond = labels.shape[1], seen.shape[1] - 1
    for x in range(first, last):
        low, high = np.int64(0), np.int64(-1)
        for i in range(r):
            label = np.int64(labels[x, i])
            low, high = min(low, label), max(high, label)
            codes[x, i] = label
        if low < -1 or high >= beyond or high < 0:
            return False
        for i in range(r):
            place = np.uintp(np.int64(labels[x, i]) + 1)
            if not seen[i, place]:  # most are: other threads read what nobody writes to
                seen[i, place] = True
    return True


@kernel
def _look_up(labels, places, codes, first, last):
    """Find the codes of some rows of labels that were copied as codes."""
    one = labels.dtype.type(1)
    for x in range(first, last):
        for i in range(labels.shape[1]):
            codes[x, i] = places[i, labels.dtype.type(labels[x, i] + one)]
    return True
