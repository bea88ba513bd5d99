"""The nearest rows of every row: among all rows, by blocks of products, or among those of an inverted file.

Scores are |y|^2 - 2 x.y: squared distances less |x|^2. Rounding makes them worthless for rows that are much nearer to
each other than to the mean, so what was found is held against distances from differences: rows in doubt are searched
anew in float64, from a mean of their own, and if that is not enough by differences alone.

An inverted file is a k-means of the rows; a row is compared with the rows of the few clusters whose centres are nearest
to it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from scipy.sparse import csr_array

from gpuensemble._array import threads
from gpuensemble._array.csr import Csr, dense, some_rows
from gpuensemble._array.devices import Array, device_of, namespace, to_device, to_host
from gpuensemble._graphs.distances import Rows, by_value, differences, doubtful
from gpuensemble._kernels.cpu.graphs import nearest as cpu
from gpuensemble._kmeans.features.lloyd import kmeans

WIDE = {"dense": 1 << 11, "sparse": 1 << 14}  # columns of a block of scores on the CPU
SPAN = 1 << 14  # rows that look into the lists of an inverted file together
SAMPLE = 64  # rows of each list that its centre is made from
ITERATIONS = 10  # of the k-means of an inverted file


class Others(NamedTuple):
    """These are the rows that some are compared with: turned, so that a block of rows is multiplied with them."""

    turned: Any  # columns x rows, dense or SciPy's
    square: Array
    names: Array


def exact(rows: Rows, q: int, chosen: Array | None = None, group: Array | None = None) -> Array:
    """Find the q nearest of all rows for each row, or for the chosen ones; the nearest come first.

    A row is not its own neighbour, nor are rows of its group, where groups are given.
    """
    xp = namespace(rows.square)
    n = len(rows.square)
    chosen = xp.arange(n) if chosen is None else chosen
    group = xp.arange(n) if group is None else group
    kept, squares = _compared(rows, q, chosen, group, _by_products)
    again = doubtful(rows, chosen, kept, squares)
    if len(again):
        some = chosen[again]
        rows = rows.about(rows.mean_of(some))
        kept[again], squares = _compared(rows, q, some, group, _by_products)
        left = doubtful(rows, some, kept[again], squares)
        if len(left) and not rows.is_sparse:
            kept[again[left]], _ = _compared(rows, q, some[left], group, _by_differences)
    return kept


def _compared(rows: Rows, q: int, chosen: Array, group: Array, scoring: Callable) -> tuple[Array, Array]:
    """Compare the chosen rows with all rows; return the q with the least scores of each, and these with |x|^2."""
    xp = namespace(rows.square)
    n = len(rows.square)
    least, kept = _nothing(rows, n, q)
    wide = min(n, WIDE["sparse" if rows.is_sparse else "dense"] if rows.device == "cpu" else rows.entries)
    tall = max(1, rows.entries // wide)

    def search(first: int, last: int) -> None:
        for part in threads.spans(n, wide):
            names, scores = xp.arange(part.start, part.stop), scoring(rows, part)
            for span in threads.spans(last - first, tall):
                some = chosen[first + span.start : first + span.stop]
                keep_nearest(scores(some), names, some, group, least, kept)

    _in_spans(rows, len(chosen), max(tall, -(-len(chosen) // (4 * threads.count()))), search)
    return kept[chosen], least[chosen] + rows.square[chosen, None]


def _by_products(rows: Rows, part: slice) -> Callable[[Array], Array]:
    """Return what finds the scores of some rows beside those of a part."""
    others = _others(rows, part)
    return lambda some: _scores(rows.take(some), others)


def _by_differences(rows: Rows, part: slice) -> Callable[[Array], Array]:
    """Return what finds the squared distances of some rows from those of a part."""
    xp = namespace(rows.square)
    names = xp.arange(part.start, part.stop)
    return lambda some: differences(rows.whole, some, rows.whole, xp.tile(names, (len(some), 1)))


def inverted(rows: Rows, q: int, n_probes: int, rng: Any) -> Array:
    """Find the q nearest rows of each row in its `n_probes` nearest lists, sqrt(n) of which hold all rows."""
    xp = namespace(rows.square)
    n = len(rows.square)
    n_lists = max(1, round(n**0.5))
    sample = to_device(rng.choice(n, min(n, SAMPLE * n_lists), replace=False), rows.device)
    centers = kmeans(rows.take(sample), n_lists, rng, init="random", max_iter=ITERATIONS).centers
    probes, _ = nearest_centers(rows, centers, min(n_probes, len(centers)))
    order = xp.argsort(probes[:, 0], kind="stable")
    ends = to_host(xp.searchsorted(probes[order, 0], xp.arange(len(centers) + 1)))
    group = xp.arange(n)
    least, kept = _nothing(rows, n, q)

    def search(first: int, last: int) -> None:
        by_list = xp.argsort(probes[first:last].ravel(), kind="stable")
        lists = probes[first:last].ravel()[by_list]
        begins = to_host(xp.searchsorted(lists, xp.arange(len(centers) + 1)))
        for c in range(len(centers)):
            some = by_list[begins[c] : begins[c + 1]] // probes.shape[1] + first
            members = order[ends[c] : ends[c + 1]]
            if len(some) and len(members):
                keep_nearest(_scores(rows.take(some), _others(rows, members)), members, some, group, least, kept)

    _in_spans(rows, n, SPAN, search)
    if rows.square.dtype == "float32" and len(doubtful(rows, group, kept, least + rows.square[:, None])):
        return inverted(rows.about(rows.mean_of(group)), q, n_probes, rng)
    return completed(rows, kept)


def completed(rows: Rows, kept: Array) -> Array:
    """Search exactly for rows of which too few neighbours were found: -1 stands for one that lacks."""
    short = namespace(kept).nonzero(kept[:, -1] < 0)[0]
    if len(short):
        kept[short] = exact(rows, kept.shape[1], short)
    return kept


def nearest_centers(rows: Rows, centers: Array, q: int) -> tuple[Array, Array]:
    """Find the q nearest centres of each row, the nearest first, and their squared distances."""
    return nearest_others(rows, Rows(centers, centers, (centers * centers).sum(1), None), q)


def nearest_others(rows: Rows, given: Rows, q: int) -> tuple[Array, Array]:
    """Find the q nearest of the given rows for each row, the nearest first, and their squared distances."""
    xp = namespace(rows.square)
    n, p = len(rows.square), len(given.square)
    # the given rows are numbered after the rows, so that none is left out for being the row itself
    others, group = _others(given, slice(0, p)), xp.arange(n + p)
    if rows.is_sparse and not given.is_sparse:  # SciPy would turn it for every block
        others = others._replace(turned=xp.ascontiguousarray(others.turned))
    least, kept = _nothing(rows, n, q)
    tall = max(1, rows.entries // p)

    def search(first: int, last: int) -> None:
        for span in threads.spans(last - first, tall):
            some = slice(first + span.start, first + span.stop)
            names = xp.arange(some.start, some.stop)
            keep_nearest(_scores(rows.take(some), others), others.names + n, names, group, least, kept)

    _in_spans(rows, n, SPAN, search)
    return kept - n, xp.maximum(least + rows.square[:, None], 0)


def nearest_seen(new: Rows, seen: Rows, q: int) -> tuple[Array, Array]:
    """Find the q rows seen before that are nearest to each new row, and their squared distances, from differences."""
    xp = namespace(new.square)
    every = xp.arange(len(new.square))
    kept, squares = nearest_others(new, seen, q)
    again = doubtful(new, every, kept, squares, seen)
    if len(again):
        mean = new.mean_of(again)
        some = new._replace(whole=some_rows(new.whole, again)).about(mean)
        kept[again], squares = nearest_others(some, seen.about(mean), q)
        left = doubtful(some, every[: len(again)], kept[again], squares, seen)
        if len(left) and not new.is_sparse:
            kept[again[left]] = _nearest_by_differences(some, left, seen, q)
    return by_value(kept, differences(new.whole, every, seen.whole, kept))


def _nearest_by_differences(new: Rows, chosen: Array, seen: Rows, q: int) -> Array:
    """Find the q nearest of the rows seen before for the chosen ones."""
    xp, n = namespace(chosen), len(seen.square)
    found = []
    for span in threads.spans(len(chosen), max(1, seen.entries // n)):
        some = chosen[span]
        every = xp.tile(xp.arange(n), (len(some), 1))
        found.append(by_value(every, differences(new.whole, some, seen.whole, every))[0][:, :q])
    return xp.concatenate(found)


def _in_spans(rows: Rows, n: int, size: int, search: Callable[[int, int], None]) -> None:
    """Search for spans of rows, in threads on the CPU; each has a single BLAS thread to itself."""
    with threads.one_blas_thread():
        if rows.device == "cpu":
            threads.over_spans(n, size, search, alone=n <= size)
        else:
            search(0, n)


def _nothing(rows: Rows, n: int, q: int) -> tuple[Array, Array]:
    """Make empty lists of the nearest: n x q scores and rows."""
    xp = namespace(rows.square)
    return xp.full((n, q), xp.inf, rows.square.dtype), xp.full((n, q), -1, "int64")


def _others(rows: Rows, names: Any) -> Others:
    """Turn some of the rows, named by an array or a slice."""
    found, square = rows.take(names), rows.square[names]
    if isinstance(names, slice):
        names = namespace(square).arange(names.start, names.stop)
    if isinstance(found, Csr) and rows.device == "cpu":
        return Others(_scipy(found).T.tocsr(), square, names)
    return Others(dense(found).T, square, names)


def _scores(block: Any, others: Others) -> Array:
    """Return the scores of a block of rows, by rows."""
    if isinstance(others.turned, csr_array):
        product = (_scipy(block) @ others.turned).toarray()
    elif isinstance(block, Csr) and device_of(others.square) == "cpu":
        product = _scipy(block) @ others.turned
    else:
        product = dense(block) @ others.turned
    product *= -2
    product += others.square
    return product


def _scipy(X: Csr) -> csr_array:
    return csr_array((X.data, X.indices, X.indptr), shape=X.shape)


def keep_nearest(scores: Array, columns: Array, rows: Array, group: Array, least: Array, kept: Array) -> None:
    """Put columns of low scores into the lists of their rows, but for columns of the row's own group.

    Of equal scores the smaller column comes first.
    """
    if device_of(scores) == "cpu":
        cpu.keep_nearest(scores, columns, rows, group, least, kept)
        return
    xp = namespace(scores)
    scores = xp.where(group[columns] == group[rows][:, None], xp.inf, scores)
    names = xp.concatenate([kept[rows], xp.broadcast_to(columns, scores.shape)], axis=1)
    values = xp.concatenate([least[rows], scores], axis=1)
    names, values = by_value(names, values)
    q = least.shape[1]
    kept[rows], least[rows] = names[:, :q], values[:, :q]
