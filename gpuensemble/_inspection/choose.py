"""How many clusters a consensus should have: several criteria side by side, the first of them judged against chance."""

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from gpuensemble._array import checks, frames, random
from gpuensemble._array.devices import choose_device, on, to_device, to_host
from gpuensemble._array.messages import shown
from gpuensemble._array.progress import with_bar
from gpuensemble._array.threads import one_blas_thread
from gpuensemble._inspection import resampling
from gpuensemble._inspection.bootstrap import maker, signed
from gpuensemble._inspection.inputs import Inputs
from gpuensemble._inspection.stability import counted, of_clusters
from gpuensemble._partition import bipartite
from gpuensemble._tables.blocks import whole
from gpuensemble.membership import Membership

SAMPLE_ROWS = 20_000  # that partitions are drawn for, at most
ERRORS = 2  # standard errors that an agreement has to be above chance


@dataclass(frozen=True)
class Choice:
    """`choose_k` returns this: criteria of each number of clusters K, and what they say.

    Attributes
    ----------
    table : DataFrame, a row for each K
        `n_clusters`: how many clusters the consensus has, fewer than K where there are fewer distinct rows;
        `stability`, `stability_null`, `excess`, `pac`, each with its standard error in `..._error`; `area`,
        `area_change`, `eigengap`, `cluster_consensus`: see `choose_k`.
    recommended : int or None
        The K at the highest peak of `excess`; None if there is no clear K.
    why : str
        One sentence on that.
    labels : DataFrame, n rows, a column for each K
        The consensus of each K.
    pairs : DataFrame, a row for each consensus value, a column for each K
        The share of the pairs of samples that have that value; `pairs.cumsum()` is the CDF.
    seed : int
        The `random_state` with which the consensus of all samples was found, for each K.
    chosen : int
        The recommended K, or the one with the greatest `excess` if there is no clear K.
    """

    table: Any
    recommended: int | None
    why: str
    labels: Any
    pairs: Any
    seed: int

    @property
    def chosen(self) -> int:
        """Return the K to go on with."""
        return int(self.table["excess"].idxmax()) if self.recommended is None else self.recommended

    def warn(self, stacklevel: int) -> None:
        """Warn if there is no clear K, and say which one is taken all the same."""
        if self.recommended is None:
            warnings.warn(f"{self.why} K = {self.chosen} is taken.", stacklevel=stacklevel + 1)


class _Settings(NamedTuple):
    """This is the same for every K."""

    make: Callable[[int, int], Any]  # the consensus of a number of clusters and a seed, not fitted
    n_bootstrap: int
    n_pairs: int
    seeds: list[int]


def choose_k(
    data: Any,
    k_range: Any,
    *,
    consensus: Any = "sec-entropy",
    n_bootstrap: int = 10,
    n_pairs: int = 10**6,
    random_state: Any = None,
    device: str = "auto",
    verbose: int = 0,
) -> Choice:
    """Find the consensus of each number of clusters K, and tell which K the data speak for, if for any.

    For each K, tables of r partitions are drawn with replacement from the r base partitions, and the consensus of each
    is found. `stability` is the mean adjusted Rand index (ARI) of all pairs of these consensuses, its error is by the
    jackknife. `stability_null` is the same after the labels of each partition were shuffled among the samples that it
    saw. `excess` is the difference. The consensus value of two samples is the share of the drawn consensuses that put
    them together, among those that saw both; `pac` is the share of pairs with a value strictly between 0.1 and 0.9
    (Senbabaoglu et al. 2014), `area` the area under the values' CDF, `area_change` its increment, relative to the
    largest area of a smaller K; for K = 2 it is the area itself (Monti et al. 2003). `eigengap` is s_K - s_K+1, s the
    singular values of the graph that links samples and clusters. `cluster_consensus` is the mean over the clusters of
    that of `stability`.

    The highest peak of `excess` is the K inside the range with the greatest value of those that are greater than at the
    numbers before and after. It is recommended, or the smallest K down from it, but for the first of the range, as long
    as `excess` is within one standard error of the peak. Without a peak it is 2, if `excess` is greatest there. There
    is no clear K if none is above 0 by two standard errors, or if `excess` is greatest at an end of the range, beyond
    which there are other K, and has no peak.

    Parameters
    ----------
    data : n x r table of labels, or n x d matrix of features
        Which of the two, `consensus` says. Labels are as in `Membership.from_labels`; NaN, None and -1 are holes.
    k_range : range or list of int
        The numbers of clusters, ascending, at least 2: `range(2, 11)` for all from 2 to 10.
    consensus : str, estimator of a table of labels, or ConsensusClustering
        The consensus method, by its name on the command line or as an estimator; `data` is a table of labels. With a
        `ConsensusClustering`, `data` is a matrix of features, of which base partitions are made anew for each K. An
        estimator is cloned, and its number of clusters and its seed are set.
    n_bootstrap : int
        How many tables are drawn, at least 3; as many again of shuffled labels.
    n_pairs : int
        How many pairs of samples are drawn for `pac` and `area`; all are taken where there are no more.
    random_state : None, int or numpy.random.Generator
        The seed of all draws, and of the consensus.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to count, and where a method given by its name works.
    verbose : int
        1: a progress bar on stderr.

    Returns
    -------
    Choice
        With `table`, `recommended`, `why`, `labels`, `pairs`, `seed` and `chosen`.

    Notes
    -----
    The consensus of all samples is found once for each K. Partitions are drawn for at most 20,000 random rows, the same
    for every K. The error of `pac` is due to the draw of pairs and rows; that of `stability` and `excess` only to the
    draw of partitions. No criterion is right on all data (docs/choose_k.md): on real data the recommended K is often
    not the number of classes. A consensus of K = 2 is stable on almost anything that has a structure at all, so peaks
    count, not the greatest value.

    Examples
    --------
    >>> import numpy as np
    >>> import gpuensemble as ge
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(300) % 4
    >>> noise = rng.random((300, 20)) < 0.2
    >>> labels = np.where(noise, rng.integers(0, 4, (300, 20)), truth[:, None])
    >>> found = ge.choose_k(labels, range(2, 8), random_state=0, device="cpu")
    >>> found.recommended
    4
    >>> found.labels[4].nunique()
    4
    """
    n_bootstrap, n_pairs = checks.integer(n_bootstrap, "n_bootstrap", 3), checks.integer(n_pairs, "n_pairs", 1)
    of_features = makes_partitions(consensus)
    data = frames.features(data) if of_features else frames.table(data)
    make = maker(consensus.consensus if of_features else consensus, "consensus", choose_device(device, data))
    seeds = random.generators(random_state, 1)[0].integers(0, 2**31, 5).tolist()
    if of_features:
        ks, fitted = numbers(k_range, "k_range", checks.n_rows(data)), _of_features(data, consensus, device)
    else:
        m = Membership.from_labels(data, device)
        ks = numbers(k_range, "k_range", len(m.codes))
        fitted = _of_labels(data, m, make)
    settings = _Settings(make, n_bootstrap, n_pairs, seeds)
    rows, labels, pairs = {}, {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of fewer clusters: a column of the table tells of them
        for k in with_bar(ks, "numbers of clusters", verbose, len(ks), "K"):
            m, labels[k] = fitted(k, seeds[0])
            rows[k], pairs[k] = _criteria(m, labels[k], k, settings)
    return _choice(data, rows, labels, pairs, seeds[0])


def makes_partitions(consensus: Any) -> bool:
    """Tell whether an estimator takes features, and makes base partitions of them."""
    is_estimator = hasattr(consensus, "get_params") and not isinstance(consensus, type)
    return is_estimator and "partitions" in consensus.get_params()


def numbers(ks: Any, name: str, n: int) -> list[int]:
    """Check the numbers of clusters; a tuple could mean its two ends or its members."""
    if not isinstance(ks, range | list | np.ndarray):
        both = f": range({ks[0]}, {ks[1]} + 1) or {list(ks)}" if _is_pair(ks) else ""
        raise TypeError(f"`{name}` must be a range or a list of integers, got {shown(ks)}{both}.")
    found = [checks.integer(k, name, 2, n, "n_samples") for k in ks]
    if not found or any(two <= one for one, two in itertools.pairwise(found)):
        raise ValueError(f"`{name}` must hold ascending numbers, each once, got {shown(ks)}.")
    return found


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def _of_labels(labels: Any, m: Membership, make: Callable) -> Callable[[int, int], tuple[Membership, np.ndarray]]:
    """Return what finds the consensus of a table for a number of clusters and a seed."""
    return lambda k, seed: (m, to_host(make(k, seed).fit(labels).labels_))


def _of_features(X: Any, consensus: Any, device: str) -> Callable[[int, int], tuple[Membership, np.ndarray]]:
    """Return what makes base partitions of features and finds their consensus."""

    def fitted(k: int, seed: int) -> tuple[Membership, np.ndarray]:
        found = clone(consensus).set_params(n_clusters=k, random_state=seed).fit(X)
        return Membership.from_labels(found.base_labels_, device), to_host(found.labels_)

    return fitted


def _criteria(m: Membership, labels: np.ndarray, k: int, settings: _Settings) -> tuple[dict, dict]:
    """Return the row of the table of one K, and the share of the pairs that have each consensus value."""
    draws, pairing, shuffling, drawing = settings.seeds[1:]
    n = len(m.codes)
    rows = np.sort(np.random.default_rng(draws).choice(n, min(n, SAMPLE_ROWS), replace=False))
    with on(m.device):
        sample = m.take(to_device(rows, m.device))
        codes = to_host(signed(sample))
        shuffled = resampling.permuted(codes, np.random.default_rng(shuffling))
        found, null = (
            resampling.resampled(to_device(table, m.device), settings.n_bootstrap, settings.make, k, drawing)
            for table in (codes, shuffled)
        )
        row = {"n_clusters": len(np.unique(labels))} | _agreements(found, null)
        ends = resampling.drawn_pairs(len(rows), settings.n_pairs, np.random.default_rng(pairing))
        pairs = resampling.pairs_of(found, ends)
        pac = pairs.pac(len(rows), n)
        row |= {"pac": pac.value, "pac_error": pac.error, "area": pairs.area(), "area_change": np.nan}
        row |= {"eigengap": _eigengap(sample, k), "cluster_consensus": _cluster_consensus(m, labels)}
    return row, pairs.histogram()


def _agreements(found: np.ndarray, null: np.ndarray) -> dict[str, float]:
    own, chance = resampling.agreement(found), resampling.agreement(null)
    return {
        "stability": own.value,
        "stability_error": own.error,
        "stability_null": chance.value,
        "stability_null_error": chance.error,
        "excess": own.value - chance.value,
        "excess_error": float(np.hypot(own.error, chance.error)),
    }


def _eigengap(m: Membership, k: int) -> float:
    """Return s_K - s_K+1 of the graph that links samples and clusters; there are no more than C that are not 0."""
    table = whole(m)
    graph, n_vectors = bipartite.of_samples_and_clusters(table), min(k + 1, m.n_columns)
    with one_blas_thread():
        values = bipartite.leading(table, graph, n_vectors, np.random.default_rng(0)).values[:n_vectors]
    singular = np.append(np.maximum(values, 0) ** 0.5, np.zeros(k + 1))
    return float(singular[k - 1] - singular[k])


def _cluster_consensus(m: Membership, labels: np.ndarray) -> float:
    """Return the mean consensus of the clusters with more than one sample."""
    inputs = Inputs(m, to_device(labels.astype("int32"), m.device), np.arange(labels.max() + 1))
    of_each = of_clusters(inputs, counted(inputs))["consensus"]
    return float(np.nanmean(of_each)) if not np.isnan(of_each).all() else np.nan


def _choice(data: Any, rows: dict, labels: dict, pairs: dict, seed: int) -> Choice:
    """Make DataFrames with the caller's names of samples, and choose."""
    import pandas

    table = pandas.DataFrame.from_dict(rows, orient="index").rename_axis("K")
    largest = table["area"].cummax().shift()
    change = (table["area"] / largest - 1).where(largest > 0)
    table["area_change"] = change.where(table.index != 2, table["area"])
    of_samples = pandas.DataFrame(labels, data.index if hasattr(data, "iloc") else None)
    values = pandas.DataFrame(pairs).fillna(0.0).sort_index().rename_axis("consensus")
    return Choice(table, *_recommended(table), of_samples, values, seed)


def _recommended(table: Any) -> tuple[int | None, str]:
    """Return the K of the highest peak of the excess that is above chance, if there is one, and a sentence on it."""
    numbers, excess, error = table.index.tolist(), table["excess"].to_numpy(), table["excess_error"].to_numpy()
    clear = (excess > ERRORS * error) & (table["n_clusters"] == numbers)
    if not clear.any():
        return None, "No clear K: no consensus repeats itself more than those of shuffled partitions by two errors."
    best = int(np.where(clear, excess, -np.inf).argmax())
    inside = range(1, len(numbers) - 1)
    peaks = [i for i in inside if clear.iloc[i] and excess[i] > excess[i - 1] and excess[i] > excess[i + 1]]
    if peaks:
        peak = max(peaks, key=lambda i: excess[i])
        chosen = peak
        while chosen > 1 and clear.iloc[chosen - 1] and excess[chosen - 1] >= excess[peak] - error[peak]:
            chosen -= 1
        return numbers[chosen], _why(table, chosen, peak, best)
    if best == 0 and numbers[0] == 2:
        return 2, f"K = 2 has the greatest excess, {_said(table, 0)}, and no larger K is a peak."
    return None, f"No clear K: the excess is greatest at K = {numbers[best]}, {_said(table, best)}, and has no peak."


def _why(table: Any, chosen: int, peak: int, best: int) -> str:
    """Say which K is the peak, whether a smaller one is as good, and whether an end of the range is better."""
    numbers = table.index
    peaking = f"the highest peak of the excess, {_said(table, peak)}"
    said = f"K = {numbers[peak]} is {peaking}"
    if chosen != peak:
        said = f"K = {numbers[chosen]} is within one error of K = {numbers[peak]}, {peaking}"
    more = f"; K = {numbers[best]} has more, {_said(table, best)}, but is an end of the range"
    return f"{said}{more if best in (0, len(numbers) - 1) else ''}."


def _said(table: Any, place: int) -> str:
    return f"{table['excess'].iloc[place]:.3f} (error {table['excess_error'].iloc[place]:.3f})"
