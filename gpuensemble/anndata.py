"""Consensus clustering of the cells of an AnnData, with the habits of scanpy.

Partitions are columns of `adata.obs`. What is found goes back into the same object, or into a copy.
"""

import difflib
from collections import Counter
from typing import Any

import numpy as np

from gpuensemble._array import checks
from gpuensemble._array.devices import to_host
from gpuensemble._array.messages import shown
from gpuensemble._inspection.choose import choose_k, numbers
from gpuensemble._inspection.stability import stability
from gpuensemble.estimators._base import registry
from gpuensemble.generate.resolutions import RESOLUTIONS, checked_resolutions, leiden

DEFAULT_REP = "X_pca"
SHOWN = 5  # names in a sentence, at most


def consensus(
    adata: Any,
    keys: Any,
    n_clusters: Any,
    *,
    key_added: str = "consensus",
    method: str = "sec-entropy",
    random_state: Any = 0,
    device: str = "auto",
    verbose: int = 0,
    copy: bool = False,
    **method_args: Any,
) -> Any:
    """Find the consensus of partitions of the cells, which are columns of `adata.obs`.

    Parameters
    ----------
    adata : AnnData
        The cells. A view becomes an AnnData of its own; what it was a view of stays as it is.
    keys : list of str
        The columns of `adata.obs`: categories, text or whole numbers. What is missing (NaN, None, or the number -1) is
        a hole: the partition did not see that cell.
    n_clusters : int, range or list of int
        The number of clusters of the consensus; of several, `choose_k` chooses one.
    key_added : str
        Where the answer goes; what is there is replaced.
    method : str
        The name of a method, as `gpuensemble fit --help` lists them.
    random_state : int, None or numpy.random.Generator
        The seed.
    device : str
        "auto", "cpu", "cuda" or "cuda:N".
    verbose : int
        1: a progress bar on stderr.
    copy : bool
        Leave `adata` as it is, and return a copy with the answer.
    **method_args
        Further parameters of the method.

    Returns
    -------
    None, or AnnData if `copy`
        `.obs[key_added]` : the cluster of each cell, categories "0", "1", ... from the largest cluster to the smallest.
        `.obs[key_added + "_confidence"]` : how sure the method is, 0 .. 1, as it defines it; NaN if it does not.
        `.obsm[key_added + "_item_consensus"]` : a DataFrame, cells x clusters: the mean share of the partitions that
        put a cell together with the cells of a cluster, as in `stability`.
        `.uns[key_added]["params"]` : the parameters; of several numbers of clusters the chosen one. `"numbers"` beside
        them is then the table of `choose_k`, and `"why"` its sentence.

    Examples
    --------
    >>> import anndata, numpy, pandas
    >>> import gpuensemble as ge
    >>> obs = pandas.DataFrame({"a": list("xxyyy"), "b": list("uuuvv")}, index=list("12345")).astype("category")
    >>> adata = anndata.AnnData(numpy.ones((5, 2)), obs=obs)
    >>> ge.anndata.consensus(adata, ["a", "b"], n_clusters=2)
    >>> len(adata.obs["consensus"].cat.categories)
    2
    """
    copy = checks.flag(copy, "copy")
    names = _names(key_added)
    table, methods = _table(adata, keys, names), registry.of_labels()
    made = methods[checks.choice(method, "method", tuple(methods))]
    chosen = None
    if isinstance(n_clusters, range | list | tuple):
        ks, unfitted = numbers(n_clusters, "n_clusters", len(table)), made.make(2, None, device, 0, **method_args)
        chosen = choose_k(table, ks, consensus=unfitted, random_state=random_state, device=device, verbose=verbose)
        chosen.warn(2)
        n_clusters, random_state = chosen.chosen, chosen.seed
    estimator = made.make(n_clusters, random_state, device, verbose, **method_args).fit(table)
    clusters = by_size(to_host(estimator.labels_))
    items = stability(table, clusters, device=device).item_consensus.rename(columns=str)
    given = {"n_clusters": int(n_clusters), "method": method, "random_state": random_state, **method_args}
    # what can fail is over: nothing is written by halves
    target = adata.copy() if copy else adata
    _add_columns(target, {names[0]: categorical(clusters), names[1]: _confidence(estimator, len(table))})
    target.obsm[names[2]] = items
    why = {} if chosen is None else {"numbers": chosen.table.reset_index(), "why": chosen.why}
    target.uns[key_added] = {"params": {"keys": list(keys)} | _plain(given)} | why
    return target if copy else None


def partitions(
    adata: Any,
    resolutions: Any = RESOLUTIONS,
    n_seeds: int = 4,
    *,
    use_rep: str | None = None,
    neighbors_key: str | None = None,
    n_neighbors: int = 15,
    key_added: str = "leiden",
    random_state: Any = 0,
    device: str = "auto",
    verbose: int = 0,
) -> list[str]:
    """Make base partitions of the cells by Leiden's method, as columns of `adata.obs`.

    It needs the extra `leiden` (`pip install "gpuensemble[leiden]"`).

    Parameters
    ----------
    adata : AnnData
        The cells.
    resolutions : float or several
        The larger, the more clusters.
    n_seeds : int
        How many partitions are made at each resolution.
    use_rep : str, optional
        Make a neighbour graph of `.obsm[use_rep]`, or of `.X` if it is "X". By default the graph that scanpy has made,
        `.obsp["connectivities"]`, is used, and if there is none, "X_pca".
    neighbors_key : str, optional
        Use the graph that `scanpy.pp.neighbors(key_added=...)` has made under that name.
    n_neighbors : int
        Of the graph of `use_rep`; a graph that is there stays what it is.
    key_added : str
        The beginning of the names of the columns: `leiden_0.5_0` is the first seed at resolution 0.5. A column of that
        name is replaced.
    random_state : int, None or numpy.random.Generator
        The seed.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where neighbours are searched. Leiden's method works on the CPU.
    verbose : int
        1: a progress bar on stderr.

    Returns
    -------
    list of str
        The names of the columns, to be given to `consensus`.

    Examples
    --------
    >>> import anndata, numpy
    >>> import gpuensemble as ge
    >>> X = numpy.repeat([[0.0, 0], [9, 9]], 20, axis=0) + numpy.random.default_rng(0).random((40, 2))
    >>> adata = anndata.AnnData(X)
    >>> keys = ge.anndata.partitions(adata, resolutions=(0.5, 1.0), n_seeds=1, use_rep="X")
    >>> keys
    ['leiden_0.5_0', 'leiden_1.0_0']
    """
    gammas = checked_resolutions(resolutions)
    _text(key_added, "key_added")
    given = _graph_or_features(adata, use_rep, neighbors_key)
    options = {"n_neighbors": n_neighbors, "random_state": random_state, "device": device, "verbose": verbose}
    found = to_host(leiden(**given, resolutions=gammas, n_seeds=n_seeds, **options))
    keys = [f"{key_added}_{gamma}_{seed}" for gamma in gammas for seed in range(n_seeds)]
    _add_columns(adata, {key: categorical(by_size(labels)) for key, labels in zip(keys, found.T, strict=True)})
    return keys


def by_size(labels: np.ndarray) -> np.ndarray:
    """Number the clusters of `labels` from 0, the largest first; of two of one size, the one with the smaller label."""
    _, found, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(-sizes, kind="stable"))[found]


def categorical(clusters: np.ndarray) -> Any:
    """Name the `clusters` 0, 1, ... by the text of their numbers, as scanpy does."""
    import pandas

    names = pandas.Index([str(i) for i in range(int(clusters.max()) + 1)])
    return pandas.Categorical.from_codes(clusters, names)


def _confidence(estimator: Any, n: int) -> np.ndarray:
    """Return the confidence of each label, NaN if the method has none: that of another method must not stay."""
    found = getattr(estimator, "confidence_", None)
    return np.full(n, np.nan) if found is None else to_host(found)


def _names(key_added: Any) -> tuple[str, str, str]:
    """Return the names of the clusters, of their confidences and of the item consensus."""
    _text(key_added, "key_added")
    return key_added, f"{key_added}_confidence", f"{key_added}_item_consensus"


def _text(value: Any, name: str) -> None:
    if not isinstance(value, str) or not value:
        raise TypeError(f"`{name}` must be a name, got {shown(value)}.")


def _table(adata: Any, keys: Any, names: tuple[str, ...]) -> Any:
    """Return the columns of `adata.obs` that the caller names."""
    if isinstance(keys, str) or not hasattr(keys, "__iter__") or not len(keys):
        raise TypeError(f"`keys` must be a list of columns of `adata.obs`, got {shown(keys)}.")
    for key in keys:
        _refuse_unknown(key, "keys", "adata.obs", adata.obs.columns)
    twice = next((key for key, times in Counter(keys).items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"`keys` must name each column once, got {twice!r} twice.")
    own = next((key for key in keys if key in names), None)
    if own is not None:
        raise ValueError(f"`key_added` must not replace one of `keys`, got {names[0]!r}, which would replace {own!r}.")
    return adata.obs[list(keys)]


def _refuse_unknown(key: Any, name: str, place: str, there: Any) -> None:
    """Raise if nothing has that name; tell what is called much like it."""
    if key in there:
        return
    known = [str(one) for one in there]
    longer = [one for one in known if one.startswith(str(key))]
    like = (longer or difflib.get_close_matches(str(key), known, SHOWN, 0.5))[:SHOWN]
    told = f"much like it: {_listed(like)}" if like else f"there: {_listed(known[:SHOWN]) or 'none'}"
    raise ValueError(f"`{name}` must be in `{place}`, got {shown(key)}; {told}.")


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Keep what a file can hold: numbers and text, but no generator and no None."""
    return {
        name: value for name, value in parameters.items() if isinstance(value, str | bool | int | float | np.generic)
    }


def _graph_or_features(adata: Any, use_rep: Any, neighbors_key: Any) -> dict[str, Any]:
    """Return the graph, or the features, that partitions are made of, as an argument of `leiden`."""
    if use_rep is not None and neighbors_key is not None:
        raise ValueError("`use_rep` must be None if `neighbors_key` is given, got both.")
    if neighbors_key is not None:
        _refuse_unknown(neighbors_key, "neighbors_key", "adata.uns", adata.uns)
        name = adata.uns[neighbors_key].get("connectivities_key", "connectivities")
        _refuse_unknown(name, "neighbors_key", "adata.obsp", adata.obsp)
        return {"graph": adata.obsp[name]}
    if use_rep is None and "connectivities" in adata.obsp:
        return {"graph": adata.obsp["connectivities"]}
    if use_rep is None and DEFAULT_REP not in adata.obsm:
        rule = "must be given, as there is neither `adata.obsp['connectivities']` nor `adata.obsm['X_pca']`"
        raise ValueError(f"`use_rep` {rule}, got None.")
    if use_rep == "X":
        return {"X": _rows(adata.X)}
    use_rep = use_rep or DEFAULT_REP
    _refuse_unknown(use_rep, "use_rep", "adata.obsm", adata.obsm)
    return {"X": _rows(adata.obsm[use_rep])}


def _rows(features: Any) -> Any:
    """Return features that cannot be taken for a graph: as many cells as genes make a square matrix."""
    square = hasattr(features, "tocsr") and features.shape[0] == features.shape[1]
    return features.toarray() if square else features


def _add_columns(adata: Any, columns: dict[str, Any]) -> None:
    """Add columns to `adata.obs`, or replace those of the same names, all at once."""
    import pandas

    others = adata.obs.drop(columns=[name for name in columns if name in adata.obs.columns])
    adata.obs = pandas.concat([others, pandas.DataFrame(columns, index=adata.obs.index)], axis=1)
