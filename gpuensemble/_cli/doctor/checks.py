"""`gpuensemble doctor` checks kernels, functions and methods at small size, each beside what it must give."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuensemble import generate, metrics, neighbors, prox, tsvd
from gpuensemble._array.devices import device_of, on, to_device, to_host
from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._kernels import products
from gpuensemble.clustering import ConsensusClustering
from gpuensemble.estimators._base import registry
from gpuensemble.membership import Membership

N, K = 150, 7
# (type of tables, widths of the partitions): codes of one, two and four bytes.
KINDS = (
    ("float64", (3, 9, 5, 4)),
    ("float32", (3, 9, 5, 4)),
    ("float64", (300, 9, 5, 4)),
    ("float64", (70_000, 9, 5, 4)),
)


class Check(NamedTuple):
    """A check is something to compute on a device, and what it must be; both give arrays on the host.

    The definition may give fewer of them: the rest are compared between devices only.
    """

    name: str
    run: Callable[[str], list]
    define: Callable[[], list]
    against: str
    tolerance: float = 0.0  # of floats, relative to the largest; 0: the same bits


def all_checks() -> list[Check]:
    """List all checks, the kernels first: what fails in them fails in the methods as well."""
    return [*_kernel_checks(), _slices_check(), _stacks_check(), *_function_checks(), *_method_checks()]


class _Data(NamedTuple):
    """This holds codes, -1 for a hole, and arguments of the kernels."""

    codes: np.ndarray
    widths: np.ndarray
    table: np.ndarray
    per_partition: np.ndarray
    weight: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    counts: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        """Return the column of each label; a hole has one, too."""
        return self.codes + (np.cumsum(self.widths) - self.widths)


def _data(dtype: str, widths: tuple[int, ...]) -> _Data:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, width, N) for width in widths], axis=1)
    codes[:, 1:][rng.random((N, len(widths) - 1)) < 0.2] = -1
    table, parts = rng.standard_normal((sum(widths), K)), rng.standard_normal((len(widths), K))
    weight, rows = rng.random(N), rng.standard_normal((N, K))
    labels, counts = rng.integers(0, K, N).astype("int32"), rng.integers(0, 9, N)
    table, parts, weight, rows = (x.astype(dtype) for x in (table, parts, weight, rows))
    return _Data(codes, np.array(widths), table, parts, weight, rows, labels, counts)


def _kernel_checks() -> list[Check]:
    """Make checks of the products of the membership operator, for every type of codes and tables."""
    every = [_data(*kind) for kind in KINDS]

    def check(name: str, compute: Callable, define: Callable) -> Check:
        def on_device(device: str) -> list:
            with on(device):
                return [to_host(x) for data in every for x in compute(*_on_device(data, device))]

        return Check(f"kernel {name}", on_device, lambda: [x for data in every for x in define(data)], "NumPy")

    return [
        check("gather_sum", lambda m, d: [m.gather_sum(d.table)], lambda d: [_gathered(d, d.table)]),
        check("scatter_add", lambda m, d: [m.scatter_add(d.rows)], lambda d: [_scattered(d, d.rows)]),
        check("assign", lambda m, d: m.assign(d.table, d.per_partition, d.weight), _assigned),
        check("count", lambda m, d: [m.count(d.labels, K, d.counts)], lambda d: [_counted(d, d.counts)]),
        check("count_masses", _count_masses, _defined_masses),
        check(
            "degrees", lambda m, d: [m.degrees()], lambda d: [_gathered(d, _scattered(d, np.ones((N, 1), int)))[:, 0]]
        ),
        check("coassociation", lambda m, d: [m.coassociation(missing="signed")], lambda d: [_signed(d)]),
    ]


def _on_device(data: _Data, device: str) -> tuple[Membership, _Data]:
    m = Membership(to_device(data.codes, device), data.widths, device=device)
    return m, _Data(data.codes, data.widths, *(to_device(x, device) for x in data[2:]))


def _gathered(d: _Data, table: np.ndarray) -> np.ndarray:
    """Compute H @ table, the partitions one after the other."""
    total = np.zeros((N, table.shape[1]), table.dtype)
    for i in range(len(d.widths)):
        seen = d.codes[:, i] >= 0
        total[seen] += table[d.columns[seen, i]]
    return total


def _scattered(d: _Data, rows: np.ndarray) -> np.ndarray:
    """Compute H.T @ rows, the rows one after the other."""
    total = np.zeros((d.widths.sum(), rows.shape[1]), rows.dtype)
    for i in range(len(d.widths)):
        seen = d.codes[:, i] >= 0
        np.add.at(total, d.columns[seen, i], rows[seen])
    return total


def _assigned(d: _Data) -> list:
    parts = sum(
        np.where(d.codes[:, [i]] >= 0, d.per_partition[i], 0 * d.per_partition[i]) for i in range(len(d.widths))
    )
    costs = _gathered(d, d.table) + d.weight[:, None] * parts
    return [costs.argmin(1).astype("int32"), costs.min(1)]


def _counted(d: _Data, weight: np.ndarray) -> np.ndarray:
    return _scattered(d, np.eye(K, dtype="int64")[d.labels] * weight[:, None])


def _count_masses(m: Membership, d: _Data) -> Any:
    return products.count_masses(m, d.labels, None, d.counts, K)


def _defined_masses(d: _Data) -> list:
    masses = np.add.reduceat(_counted(d, d.counts), np.cumsum(d.widths) - d.widths, axis=0)
    return [_counted(d, np.ones(N, "int64")), masses]


def _signed(d: _Data) -> np.ndarray:
    total = np.zeros((N, N))
    for column in d.codes.T:
        seen = (column[:, None] >= 0) & (column >= 0)
        total += np.where(seen, np.where(column[:, None] == column, 1.0, -1.0), 0.0)
    return total / len(d.widths)


def _slices_check() -> Check:
    """Make a check of the shrinking of singular values of Fourier slices, which LTA iterates."""
    x = np.random.default_rng(2).standard_normal((40, 3, 8))

    def shrunk(device: str) -> list:
        return [to_host(prox.tensor_nuclear(to_device(x, device), 1.5, 0))]

    def define() -> list:
        u, values, v = np.linalg.svd(np.fft.fft(x, axis=0), full_matrices=False)
        return [np.fft.ifft((u * np.maximum(values - 1.5, 0)[:, None]) @ v, axis=0).real]

    return Check("kernel shrink_slices", shrunk, define, "NumPy", 1e-9)


def _stacks_check() -> Check:
    """Make a check of singular values of a stack: some are below what a Gram matrix tells, and some are 0."""
    x = np.random.default_rng(3).standard_normal((6, 12, 14)) * np.logspace(0, -9, 14)
    x[2:4] = x[2:4, :, :5] @ np.random.default_rng(4).standard_normal((5, 14))

    def found(device: str) -> list:
        there = to_device(x, device)
        u, s, v = tsvd.tsvd(there, 0)
        rebuilt = tsvd.tproduct(tsvd.tproduct(u, s, 0), tsvd.transpose(v, 0), 0)
        return [to_host(part) for part in (prox.nuclear(there, 1e-7), rebuilt, s)]

    def define() -> list:
        u, values, v = np.linalg.svd(x, full_matrices=False)
        diagonals = np.linalg.svd(np.fft.fft(x, axis=0), compute_uv=False)[:, None] * np.eye(12)
        return [(u * np.maximum(values - 1e-7, 0)[:, None]) @ v, x, np.fft.ifft(diagonals, axis=0).real]

    return Check("kernel orthogonalise", found, define, "NumPy", 1e-11)


def _planted(n: int, n_clusters: int, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make a partition, base partitions that see it through noise, and features in as many heaps."""
    rng = np.random.default_rng(1)
    truth = np.arange(n) * n_clusters // n
    labels = np.stack([rng.permutation(n_clusters)[truth] for _ in range(8)], axis=1)
    wrong = rng.random(labels.shape) < noise
    labels[wrong] = rng.integers(0, n_clusters, int(wrong.sum()))
    features = 10.0 * np.eye(n_clusters)[truth] + rng.standard_normal((n, n_clusters))
    return truth, labels, features


def _function_checks() -> list[Check]:
    """Make checks of base partitions, of neighbours, of what a user of features calls, and of scores."""
    truth, labels, features = _planted(N, 3)

    def partitions(device: str) -> list:
        found = generate.random_features(to_device(features, device), 3, 4, random_state=0, device=device, n_init=5)
        return [by_first_occurrence(column) for column in to_host(found).T]

    def scores(device: str) -> list:
        one, two = to_device(labels[:, 0], device), to_device(labels[:, 1], device)
        return [metrics.nmi(one, two), metrics.ari(one, two)]

    def defined_scores() -> list:
        from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

        nmi = normalized_mutual_info_score(labels[:, 0], labels[:, 1], average_method="geometric")
        return [nmi, adjusted_rand_score(labels[:, 0], labels[:, 1])]

    def nearest(device: str) -> list:
        found = neighbors.nearest(to_device(features, device), 5, device=device)
        return [to_host(found.indices), to_host(found.distances)]

    def defined_neighbors() -> list:
        from sklearn.neighbors import NearestNeighbors

        distances, indices = NearestNeighbors(n_neighbors=6, metric="sqeuclidean").fit(features).kneighbors(features)
        return [indices[:, 1:].astype("int32"), distances[:, 1:]]

    def clusters(device: str) -> list:
        found = ConsensusClustering(3, random_state=0, device=device).fit(to_device(features, device))
        return [by_first_occurrence(to_host(found.labels_))]

    planted = by_first_occurrence(truth)
    return [
        Check("generate", partitions, lambda: [planted] * 4, "the planted clusters"),
        Check("neighbors", nearest, defined_neighbors, "scikit-learn", 1e-9),
        Check("ConsensusClustering", clusters, lambda: [planted], "the planted clusters"),
        Check("metrics", scores, defined_scores, "scikit-learn", 1e-9),
    ]


def _method_checks() -> list[Check]:
    """Make a check of every method, on labels, or views, of a planted partition."""

    def check(method: registry.Method) -> Check:
        # No noise for methods on n x n arrays, where rounding decides about doubtful samples, and RSEC misses some; and
        # for those of partitioners, which balance sizes.
        truth, labels, features = _planted(N, 3, noise=0.0 if method.square or method.estimator._needs else 0.05)

        def fitted(device: str) -> list:
            views = [to_device(features, device), to_device(features[:, ::-1] * 2, device)]
            given = views if method.of_views else to_device(labels, device)
            estimator = method.make(3, 0, device).fit(given)
            if device_of(estimator.labels_) != device or estimator.device_ != device:
                raise RuntimeError(f"asked for {device}, worked on {estimator.device_}")
            return [by_first_occurrence(to_host(estimator.labels_)), estimator.objective_]

        return Check(
            f"method {method.title}", fitted, lambda: [by_first_occurrence(truth)], "the planted clusters", 1e-6
        )

    return [check(method) for method in registry.methods().values() if not method.missing]


def not_installed() -> dict[str, str]:
    """Return the methods whose package is not installed, and why they cannot be checked."""
    return {f"method {one.title}": f"needs {one.missing}" for one in registry.methods().values() if one.missing}
