"""A tree over groups of samples, from counts alone: it works at any number of samples, and is cut at any K."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuensemble._array import checks, frames
from gpuensemble._array.devices import choose_device, on, to_device, to_host
from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._inspection.inputs import Inputs, checked
from gpuensemble._inspection.stability import counted
from gpuensemble._partition import linkage
from gpuensemble.estimators.sec import SEC
from gpuensemble.membership import Membership

MOST_ROWS = 2000  # distinct rows that are leaves themselves
SOME_LEAVES = 100  # where there are more of them
SPECIAL = set(" \t\n()[]{}/\\,;:=*'\"`+-<>_")  # what the Newick format wants in quotes


@dataclass(frozen=True)
class Tree:
    """`consensus_tree` returns this.

    Attributes
    ----------
    linkage : array, (leaves - 1) x 4
        As SciPy's `linkage`, for its functions: the two nodes of each merge, its height, 1 - the mean consensus value
        between them, and how many leaves are below. Node `leaves + i` is what merge i made.
    leaf : array of n int32
        The leaf of each sample.
    names : list
        The name of each leaf: its cluster, or the first of its samples where leaves are distinct rows.
    samples : Index or None
        The caller's names of the samples.
    """

    linkage: np.ndarray
    leaf: np.ndarray
    names: list
    samples: Any = None

    def cut(self, n_clusters: int) -> np.ndarray:
        """Return the cluster of each sample when the tree is cut into so many; those of a larger K are parts of these.

        Parameters
        ----------
        n_clusters : int
            The number of clusters, from 1 to the number of leaves.

        Returns
        -------
        array of n int32
            Numbered by first occurrence.
        """
        n_clusters = checks.integer(n_clusters, "n_clusters", 1, len(self.names), "leaves")
        merges = self.linkage[:, :2].astype("int64")
        return by_first_occurrence(linkage.cut(merges, n_clusters)[self.leaf]).astype("int32")

    def newick(self, *, samples: bool = False) -> str:
        """Return the tree in the Newick format; the length of a branch is the difference of heights.

        Parameters
        ----------
        samples : bool
            Whether samples hang on their leaf, with branches of length 0; else the leaves themselves are the tips.
        """
        heights = np.append(np.zeros(len(self.names)), self.linkage[:, 2])
        parts = self._bundles() if samples else [_quoted(name) for name in self.names]
        for (one, two), height in zip(self.linkage[:, :2].astype("int64"), self.linkage[:, 2], strict=True):
            below = ",".join(f"{parts[i]}:{height - heights[i]:.6g}" for i in (one, two))
            parts.append(f"({below})")
            parts[one] = parts[two] = ""  # what was used: the text of a deep tree is not kept at every level
        return parts[-1] + ";"

    def _bundles(self) -> list[str]:
        """Return each leaf as the node of its samples; of one sample it is that sample."""
        names = range(len(self.leaf)) if self.samples is None else self.samples
        tips: list[list[str]] = [[] for _ in self.names]
        for name, leaf in zip(names, self.leaf.tolist(), strict=True):
            tips[leaf].append(_quoted(name))
        return [some[0] if len(some) == 1 else f"({','.join(f'{tip}:0' for tip in some)})" for some in tips]


def consensus_tree(labels: Any, leaves: Any = None, *, random_state: Any = None, device: str = "auto") -> Tree:
    """Link groups of samples by the mean consensus value between them (average linkage), without an n x n matrix.

    The consensus value of two samples is the share of the partitions that put them together, among those that saw both.
    Its mean over the pairs between two groups is weighted as in `stability`. Groups that no partition has seen together
    have mean 0.

    Parameters
    ----------
    labels : n x r table
        The base partitions, as in `Membership.from_labels`; NaN, None and -1 are holes.
    leaves : None, int, vector of n labels, or fitted estimator
        What the tree begins with. None: the distinct rows of the table if there are no more than 2,000, which is the
        tree over all samples; else 100 clusters. A number: so many clusters, which `SEC` finds. Labels, or those of an
        estimator: their clusters.
    random_state : None, int or numpy.random.Generator
        The seed of `SEC`, where it finds the leaves.
    device : str
        "auto", "cpu", "cuda" or "cuda:N": where to count.

    Returns
    -------
    Tree
        With `linkage`, `leaf`, `names`, `cut(n_clusters)` and `newick()`.

    Notes
    -----
    Time is that of the leaves, one count of the table, and their number squared. A merge never lies below one that it
    contains. With distinct rows for leaves, no holes and no ties, this is the tree that average linkage makes of all n
    samples; on ties the merge that was found first comes first.

    Examples
    --------
    >>> import gpuensemble as ge
    >>> tree = ge.consensus_tree([[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1]], device="cpu")
    >>> tree.cut(2).tolist()
    [0, 0, 0, 1]
    >>> tree.newick()
    '(3:0.888889,(0:0.333333,2:0.333333):0.555556);'
    """
    labels = frames.table(labels)
    inputs = _leaves(labels, leaves, random_state, choose_device(device, labels))
    with on(inputs.m.device):
        counts = counted(inputs)
    agree, seen = (table.T @ table for table in (part.astype("float64") for part in counts))
    samples = labels.index if hasattr(labels, "iloc") else None
    return Tree(_linked(agree, seen), to_host(inputs.clusters), inputs.names.tolist(), samples)


def _leaves(labels: Any, leaves: Any, random_state: Any, device: str) -> Inputs:
    """Return the table beside the leaf of each sample."""
    if leaves is not None and not isinstance(leaves, int | np.integer):
        return checked(labels, leaves, "leaves", device)
    m = Membership.from_labels(labels, device)
    if leaves is None:
        merged = m.merge()
        if len(merged.multiplicity) <= MOST_ROWS:
            first = np.unique(to_host(merged.group), return_index=True)[1]
            return Inputs(m, to_device(merged.group.astype("int32"), m.device), _names(labels, first))
    n = checks.integer(SOME_LEAVES if leaves is None else leaves, "leaves", 1, len(m.codes), "n_samples")
    return checked(labels, SEC(n, random_state=random_state, device=device).fit(labels), "leaves", device)


def _names(labels: Any, rows: np.ndarray) -> Any:
    """Return the caller's names of some samples, else their numbers."""
    return labels.index[rows] if hasattr(labels, "iloc") else rows


def _linked(agree: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Link groups by agree / seen, exact counts that a merge adds up, along chains of nearest neighbours.

    The quotient of sums lies between the two quotients, so a merge makes no pair more alike than both were, and the
    chains find the merges that always taking the most alike pair finds.
    """
    n = len(agree)
    alike = np.divide(agree, seen, out=np.zeros((n, n)), where=seen > 0)
    np.fill_diagonal(alike, -1)
    pairs, heights = np.empty((n - 1, 2), "int64"), np.empty(n - 1)
    chain: list[int] = []
    for step in range(n - 1):
        chain = chain or [int((alike.max(axis=1) >= 0).argmax())]
        while True:
            row = alike[chain[-1]]
            best = int(row.argmax())
            if len(chain) > 1 and row[chain[-2]] >= row[best]:
                break
            chain.append(best)
        gone, kept = chain.pop(), chain.pop()
        pairs[step], heights[step] = (gone, kept), alike[gone, kept]
        _merge(agree, seen, alike, gone, kept)
    merges = linkage.ordered(pairs, heights) if n > 1 else pairs
    below = [1] * n
    for one, two in merges:
        below.append(below[one] + below[two])
    return np.column_stack([np.sort(merges, axis=1), 1 - np.sort(heights)[::-1], below[n:]]).astype("float64")


def _merge(agree: np.ndarray, seen: np.ndarray, alike: np.ndarray, gone: int, kept: int) -> None:
    """Add up the counts of two groups; the place of the first is left out from now on."""
    for table in (agree, seen):
        table[kept] += table[gone]
        table[:, kept] = table[kept]
    row = np.divide(agree[kept], seen[kept], out=np.zeros(len(alike)), where=seen[kept] > 0)
    row[alike[kept] < 0] = -1  # those that are gone, and the group itself
    alike[kept] = alike[:, kept] = row
    alike[gone] = alike[:, gone] = -1


def _quoted(name: Any) -> str:
    """Return a name as the Newick format wants it."""
    text = str(name)
    return "'" + text.replace("'", "''") + "'" if not text or SPECIAL & set(text) else text
