"""The holes of a table of labels are filled with the caller's own values, in the caller's kind of table."""

from typing import Any

from gpuensemble._array.devices import device_of, namespace, to_device, to_host
from gpuensemble.membership import Membership


def filled(labels: Any, observed: Membership, complete: Membership) -> Any:
    """Copy the table that `observed` was made of, with the labels of `complete` where it has holes.

    An array stays in its library and dtype, a DataFrame stays one; a list of rows becomes a list of lists.
    """
    rowwise, frame = isinstance(labels, list | tuple), hasattr(labels, "iloc")
    out: Any = [list(row) for row in labels] if rowwise else labels.copy()
    home = device_of(labels)
    for i, values in enumerate(observed.categories or []):
        holes = observed.codes[:, i] != complete.codes[:, i]  # a filled hole is no longer what it was
        rows = namespace(holes).nonzero(holes)[0]
        codes = complete.codes[rows, i].astype("int64")
        if rowwise:
            for row, code in zip(to_host(rows).tolist(), to_host(codes).tolist(), strict=True):
                out[row][i] = values[code]
        elif frame:
            out.iloc[to_host(rows), i] = values[to_host(codes)]
        else:
            out[to_device(rows, home), i] = (values if home == "cpu" else to_device(values, home))[
                to_device(codes, home)
            ]
    return out
