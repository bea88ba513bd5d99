"""Tables of base partitions that the benches cluster: two that are made, and a real one that is made larger."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuensemble import generate
from gpuensemble._array.devices import to_device
from gpuensemble.membership import Membership

R, K, CLUSTERS = 50, 20, 40
SEPARATED, OVERLAPPING = 0.1, 0.6  # labels that are noise
WRONG = 0.9  # labels of the start, so that no cluster is left empty, which libraries fill in different ways
CHANGED = 0.02  # labels of a row that is drawn again that are changed


class Ensemble(NamedTuple):
    """This holds base partitions, a partition that they are known to see, and a start for k-means.

    The partitions are there as codes and as a CSR matrix.
    """

    codes: np.ndarray
    widths: np.ndarray
    matrix: Any
    truth: np.ndarray
    start: np.ndarray

    @property
    def n_clusters(self) -> int:
        """Return the number of clusters to look for."""
        return int(self.truth.max()) + 1

    @property
    def table(self) -> np.ndarray:
        """Return the labels as a caller has them: integers of 8 bytes."""
        return self.codes.astype("int64")

    def membership(self, device: str) -> Membership:
        """Return the operator on that device."""
        return Membership(to_device(self.codes, device), self.widths, device=device)


def ensemble(n: int, share: float = OVERLAPPING) -> Ensemble:
    """Make an ensemble: a hidden cluster falls into three clusters of a partition, and a share of labels is noise."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, n)
    codes = np.stack([rng.integers(0, CLUSTERS, (K, 3))[truth, rng.integers(0, 3, n)] for _ in range(R)], axis=1)
    noise = rng.random((n, R)) < share
    codes[noise] = rng.integers(0, CLUSTERS, int(noise.sum()))
    return _made(codes, np.full(R, CLUSTERS), truth, K, rng)


def enlarged(n: int) -> Ensemble:
    """Draw n rows, with some labels changed, from k-means partitions of scikit-learn's handwritten digits."""
    codes, truth = _digits()
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(codes), n)
    widths = codes.max(0) + 1
    drawn = codes[rows]
    changed = rng.random(drawn.shape) < CHANGED
    drawn[changed] = (rng.random(drawn.shape) * widths).astype(drawn.dtype)[changed]
    return _made(drawn, widths, truth[rows], int(truth.max()) + 1, rng)


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    pixels, truth = load_digits(return_X_y=True)
    found = generate.random_k(pixels, n_partitions=R, k_range=(5, CLUSTERS), random_state=0, device="cpu")
    return np.asarray(found).astype("int64"), truth


def _made(codes: np.ndarray, widths: np.ndarray, truth: np.ndarray, k: int, rng: np.random.Generator) -> Ensemble:
    from scipy.sparse import csr_matrix

    n, r = codes.shape
    columns = (codes + (np.cumsum(widths) - widths)).ravel().astype("int32")
    entries = (np.ones(n * r), columns, np.arange(0, n * r + 1, r, dtype="int32"))
    matrix = csr_matrix(entries, shape=(n, int(widths.sum())))
    start = np.where(rng.random(n) < WRONG, rng.permutation(n) % k, truth).astype("int32")
    return Ensemble(codes.astype("uint8"), widths, matrix, truth, start)


KINDS: dict[str, Callable[[int], Ensemble]] = {
    "separated": functools.partial(ensemble, share=SEPARATED),
    "overlapping": ensemble,
    "digits made larger": enlarged,
}
