"""Tables of small whole numbers, as most base partitions are, are coded by look-ups on the CPU, not sorted."""

import numpy as np

from gpuensemble._array import threads
from gpuensemble._array.coding import Coded, code_dtype
from gpuensemble._kernels.cpu.compiling import kernel

LARGE = 1 << 18  # labels; NumPy looks fewer up sooner than a kernel is loaded
SAMPLE = 256  # rows that are looked at first
WIDEST, CELLS = 1 << 16, 1 << 25  # of the labels of a partition, and of all look-ups
SPAN = 1 << 15  # rows that a thread takes at a time, at most


def coded(labels):
    """Return what `from_labels` of _array/coding.py does, or None where labels are not so small, or wrong."""
    if type(labels) not in (np.ndarray, np.memmap) or labels.ndim != 2 or not labels.size:  # none that is masked
        return None
    if labels.dtype.kind not in "iu" or labels.dtype == np.uint64 or not labels.dtype.isnative:
        return None
    labels, (n, r) = np.ascontiguousarray(labels), labels.shape
    seen = _seen(labels, min(WIDEST, CELLS // r))
    if seen is None or not seen[:, 1:].any(axis=1).all():
        return None
    widths, complete = seen[:, 1:].sum(axis=1), not seen[:, 0].any()
    dtype = code_dtype(int(widths.max()))
    places = (np.cumsum(seen, axis=1) - seen[:, :1] - 1).astype(dtype)
    places[:, 0] = np.array(-1).astype(dtype)
    codes = np.empty((n, r), dtype)
    if labels.size < LARGE:
        codes[:] = places[np.arange(r), labels.astype(np.intp) + 1]
        if not complete and (labels < 0).all(axis=1).any():
            return None
    elif not _over_rows(n, lambda first, last: _look_up(labels, places, codes, first, last)):
        return None
    values = [np.flatnonzero(row[1:]).astype(labels.dtype) for row in seen]
    return Coded(codes, widths.astype("int64"), complete), values


def _seen(labels, width):
    """Tell which labels each partition has, the hole, then those from 0 on; None if they are more than `width`."""
    r = labels.shape[1]
    if labels.size < LARGE:
        low, high = int(labels.min()), int(labels.max())
        if low < -1 or high + 1 >= width:
            return None
        seen = np.zeros((r, high + 2), np.bool_)
        seen[np.arange(r), labels.astype(np.intp) + 1] = True
        return seen
    for rows in (labels[:: max(1, len(labels) // SAMPLE)], labels):  # a sample mostly has the largest label
        seen = np.zeros((r, min(width, max(int(rows.max()) + 2, 2))), np.bool_)
        if seen.size and _over_rows(len(labels), lambda first, last, seen=seen: _mark(labels, seen, first, last)):
            return seen[:, : 1 + np.flatnonzero(seen.any(axis=0))[-1]]
    return None


def _over_rows(n, task):
    """Tell whether a task is content with all rows."""
    wrong = []
    span = threads.even_span(n, SPAN)
    threads.over_spans(n, span, lambda first, last: None if task(first, last) else wrong.append(first), alone=False)
    return not wrong


@kernel
def _mark(labels, seen, first, last):
    """Mark the labels of some rows; return whether all are small and none is below -1."""
    beyond = seen.shape[1] - 1
    for x in range(first, last):
        for i in range(labels.shape[1]):
            label = np.int64(labels[x, i])
            if label >= beyond or label < -1:
                return False
            if not seen[i, label + 1]:  # most are: other threads read what nobody writes to
                seen[i, label + 1] = True
    return True


@kernel
def _look_up(labels, places, codes, first, last):
    """Find the codes of some rows; return whether each has a label."""
    for x in range(first, last):
        n_holes = 0
        for i in range(labels.shape[1]):
            label = np.int64(labels[x, i])
            codes[x, i] = places[i, label + 1]
            if label < 0:
                n_holes += 1
        if n_holes == labels.shape[1]:
            return False
    return True
