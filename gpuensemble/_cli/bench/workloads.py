"""What `gpuensemble bench --model` speaks of: fits of given sizes, which run on any device and at any smaller size.

The stand-in device of the tests counts them at a few small sizes, `rows_counted`; where there is a GPU they are timed
at their own size.
"""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpuensemble import CMVC, KCC, SEC
from gpuensemble._array.devices import choose_device, to_device
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._partition import bipartite
from gpuensemble._tables import readers
from gpuensemble.estimators._base import registry

R, K = 100, 50
NOISE, WRONG = 0.5, 0.75  # labels that are noise, and labels of the start that are wrong
CLEAR, CLEARER = 0.1, 0.02  # labels that are noise where eigenvectors are looked for, in as many passes at any size
LINEAR, SQUARE = (1024, 1280, 1536), (480, 640, 800)
BLOCKS = ((2, 384), (2, 512), (3, 384), (2, 640))  # of a file, and the rows of each
SAMPLED = ((512, 1024), (512, 1280), (512, 1536), (1024, 1536))  # rows that k-means of a start sees, and all rows


class Workload(NamedTuple):
    """A fit of a size, and how its counts grow from those of small sizes."""

    name: str
    rows: int
    shape: str  # the rest of its size
    data: Callable[[int], Any]  # of so many rows
    fit: Callable[[Any, int, str, int], Any]  # of data, with so many iterations, on a device; 1 shows a bar
    iterations: tuple[int, int] | None  # an iteration is what is done between the ends of these, by their number
    growth: str = "linear"  # in the rows; "blocks", "sampled": also in what BLOCKS, SAMPLED have; "square": n x n
    at_most: int = 0  # iterations of the fit that is counted; 0: the last of `iterations`, or all
    measured: int = 10_000_000  # rows up to which it is timed, where there is a GPU
    seen: int = bipartite.SAMPLE_ROWS  # rows that k-means of a start sees, where growth is "sampled"

    @property
    def title(self) -> str:
        """Name it with its size."""
        return f"{self.name}, n={self.rows:,} {self.shape}"

    @property
    def rows_counted(self) -> tuple:
        """Return the sizes to count it at: rows, or pairs as in BLOCKS and SAMPLED; the second is for a check."""
        return {"linear": LINEAR, "square": SQUARE, "blocks": BLOCKS, "sampled": SAMPLED}[self.growth]

    @property
    def beside(self) -> int:
        """Return what its costs grow in beside its rows: the blocks of its file, or the rows that its start sees."""
        if self.growth == "sampled":
            return min(self.rows, self.seen)
        return -(-self.rows // max(1, readers.BLOCK_BYTES // R))


class Given(NamedTuple):
    """A table of labels as a caller has it, and labels to start from."""

    table: Any
    start: Any


def noisy(n: int, r: int, k: int, holes: float = 0.0, share: float = NOISE) -> Given:
    """Make base partitions that see k clusters through noise, so that k-means has work to do from the start."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % k
    table = np.stack([rng.permutation(k)[truth] for _ in range(r)], axis=1)
    noise = rng.random((n, r)) < share
    table[noise] = rng.integers(0, k, int(noise.sum()))
    table[:, 1:][rng.random((n, r - 1)) < holes] = -1
    start = np.where(rng.random(n) < WRONG, rng.integers(0, k, n), truth)
    start[:k] = np.arange(k)
    return Given(table, start)


def in_a_file(n: int, r: int, k: int) -> Given:
    """Make the same as codes in an .npy file, which goes with the process."""
    given = noisy(n, r, k)
    folder = tempfile.TemporaryDirectory(prefix="gpuensemble-")
    path = Path(folder.name) / "labels.npy"
    np.save(path, given.table.astype("uint8"))
    return Given(_InFolder(path, folder), given.start)


class _InFolder(NamedTuple):
    path: Path
    folder: Any  # as long as this is there, the file is


def from_a_start(kind: Any, k: int) -> Callable[[Given, int, str, int], Any]:
    """Fit from given labels."""

    def fit(given: Given, iterations: int, device: str, verbose: int) -> Any:
        table = given.table.path if isinstance(given.table, _InFolder) else given.table
        return kind(k, init=given.start, max_iter=iterations, device=device, verbose=verbose).fit(table)

    return fit


def by_default(name: str, k: int, **parameters: Any) -> Callable[[Given, int, str, int], Any]:
    """Fit a method as it comes, with a number of iterations if it has any."""

    def fit(given: Given, iterations: int, device: str, verbose: int) -> Any:
        made = registry.methods()[name].make(k, 0, device, verbose, **parameters)
        return (made.set_params(max_iter=iterations) if iterations else made).fit(given.table)

    return fit


def points(n: int, columns: int, k: int, seed: int = 0, apart: float = 1.0) -> Given:
    """Make features of k clusters that overlap, and centres to start from."""
    rng = np.random.default_rng(seed)
    centers = apart * rng.standard_normal((k, columns))
    X = (centers[np.arange(n) % k] + rng.standard_normal((n, columns))).astype("float32")
    return Given(X, X[rng.permutation(n)[:k]])


def k_means(given: Given, iterations: int, device: str, verbose: int) -> Any:
    """Cluster features from given centres."""
    device = choose_device(device)
    X, start = to_device(given.table, device), to_device(given.start, device)
    return features.kmeans(X, len(given.start), np.random.default_rng(0), init=start, max_iter=iterations, tol=0)


def views(n: int, columns: int, k: int) -> Given:
    """Make two views of the same clusters, which overlap."""
    both = [points(n, columns, k, seed, 0.4).table.astype("float64") for seed in range(2)]
    return Given(both, None)


def of_views(given: Given, iterations: int, device: str, verbose: int) -> Any:
    """Cluster views."""
    return CMVC(10, random_state=0, max_iter=iterations or 100, device=device, verbose=verbose).fit(given.table)


def _label_table(name: str, growth: str = "linear") -> Workload:
    """State a fit of a method that has no iterations on a device, as it comes."""
    of_size = partial(noisy, r=20, k=10, share=CLEAR if growth == "sampled" else NOISE)
    made, title = by_default(name, 10), registry.methods()[name].title
    return Workload(title, 1_000_000, "r=20 K=10", of_size, made, None, growth)


def _square(name: str, iterations: tuple[int, int], at_most: int, share: float) -> Workload:
    """State a fit of a method that works on n x n arrays, which never ends by itself."""
    of_size, made = partial(noisy, r=20, k=10, share=share), by_default(name, 10, tol=1e-300)
    title = registry.methods()[name].title
    return Workload(title, 2000, "r=20 K=10", of_size, made, iterations, "square", at_most)


def workloads() -> Iterator[Workload]:
    """Yield all of them."""
    large = partial(noisy, r=R, k=K)
    size = (1_000_000, f"r={R} K={K}", large)
    yield Workload("SEC", *size, from_a_start(SEC, K), (1, 2))
    clear = (*size[:2], partial(noisy, r=R, k=K, share=CLEARER))
    seen = max(bipartite.START_ROWS, K * bipartite.START_ROWS_PER_CLUSTER)
    yield Workload("SEC, its own start", *clear, by_default("sec", K), None, "sampled", at_most=1, seen=seen)
    yield Workload("KCC", *size, from_a_start(KCC, K), (1, 2))
    streamed = (100_000_000, f"r={R} K={K}", partial(in_a_file, r=R, k=K))
    yield Workload("SEC, of a file", *streamed, from_a_start(SEC, K), (1, 2), "blocks")
    shape, holes = "r=10 K=10, 50 % holes", partial(noisy, r=10, k=10, holes=0.5)
    yield Workload("PCE", 100_000, shape, holes, by_default("pce", 10, tol=0.0), (4, 8))
    yield Workload(
        "k-means of features", 1_000_000, "16 columns K=20", partial(points, columns=16, k=20), k_means, (2, 6)
    )
    yield Workload("CMVC", 100_000, "2 x 16 columns K=10", partial(views, columns=16, k=10), of_views, None)
    for name in ("cluster-walk", "mcla", "ecpcs"):
        yield _label_table(name)
    for name in ("hbgf", "lwgp"):
        yield _label_table(name, "sampled")
    yield _square("lta", (1, 3), 84, NOISE)
    yield _square("rsec", (9, 13), 14, CLEAR)  # where blocks do at every size; others decompose in full now and then


def fitted(workload: Workload, given: Any, iterations: int, device: str, verbose: int = 0) -> Any:
    """Fit it, without the warning that so few iterations do not lead to convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return workload.fit(given, iterations, device, verbose)
