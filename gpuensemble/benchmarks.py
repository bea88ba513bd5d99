"""The cases of `gpuensemble bench`: kernels and methods on every device, each beside a peer that gives the same answer.

To add one: a generator that yields `Case`s, and its name in `CASES`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gpuensemble import KCC, SEC, _check, _harness, _machine, methods, metrics
from gpuensemble._array import choose_device, cuda_count, to_device, to_host
from gpuensemble._harness import Case
from gpuensemble.membership import Membership

R, K, CLUSTERS = 50, 20, 40
SQUARE = 1500  # samples at most for what is n x n


class Ensemble(NamedTuple):
    """Base partitions that see a hidden partition through noise, as codes and as a CSR matrix; a start for k-means."""

    codes: np.ndarray
    matrix: Any
    truth: np.ndarray
    start: np.ndarray

    def membership(self, device: str) -> Membership:
        """The operator on that device."""
        return Membership(to_device(self.codes, device), np.full(R, CLUSTERS), device=device)


def ensemble(n: int) -> Ensemble:
    """Each hidden cluster falls into three of the clusters of a partition, and 60 % of the labels are noise."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, n)
    codes = np.stack([rng.integers(0, CLUSTERS, (K, 3))[truth, rng.integers(0, 3, n)] for _ in range(R)], axis=1)
    noise = rng.random((n, R)) < 0.6
    codes[noise] = rng.integers(0, CLUSTERS, int(noise.sum()))
    columns = (codes + CLUSTERS * np.arange(R)).ravel().astype("int32")
    entries = (np.ones(n * R), columns, np.arange(0, n * R + 1, R, dtype="int32"))
    matrix = csr_matrix(entries, shape=(n, R * CLUSTERS))
    return Ensemble(codes.astype("uint8"), matrix, truth, (rng.permutation(n) % K).astype("int32"))


def run(device: str, samples: int, repeat: int, only: str, show: Callable[[str], None]) -> dict[str, Any]:
    """Run the cases, showing each as it ends; JSON with machine, versions and measured copy rates."""
    _check.integer(samples, "samples", K)
    _check.integer(repeat, "repeat", 1)
    devices = ["cpu", *(f"cuda:{i}" for i in range(cuda_count()))] if device == "auto" else [choose_device(device)]
    rates = {name: _harness.copy_rate(name) for name in devices}
    results = []
    for case in cases(devices, samples):
        if only in case.name:
            results.append(_harness.run(case, repeat))
            show(_harness.line(results[-1], rates))
    if not results:
        raise ValueError(f"`--only` must be part of the name of a case, got {only!r}.")
    return {"machine": _machine.describe(), "copy_bytes_per_second": rates, "results": results}


def cases(devices: list[str], samples: int) -> Iterator[Case]:
    """All of them, one after the other, so that only one holds memory."""
    for make in CASES:
        yield from make(devices, samples)


def _ours(devices: list[str], make: Callable[[str], Callable[[], Any]]) -> dict[str, Any]:
    """Our candidate on each device, and where it runs."""
    named = {f"gpuensemble, {device}": device for device in devices}
    return {"candidates": {name: make(device) for name, device in named.items()}, "devices": named}


def _case(name: str, ours: dict[str, Any], peer: str, theirs: Any, agree: Any, moved: int = 0, **notes: Any) -> Case:
    """A peer of None: our first device is the peer of the others."""
    candidates = dict(ours["candidates"]) | ({} if theirs is None else {peer: theirs})
    bytes_moved = dict.fromkeys(ours["candidates"], moved) if moved else {}
    peer = next(iter(candidates)) if theirs is None else peer
    return Case(name, candidates, peer, agree, notes=notes, devices=ours["devices"], bytes_moved=bytes_moved)


def _close(one: Any, two: Any) -> bool:
    return bool(np.allclose(to_host(one), to_host(two)))


def _same(one: Any, two: Any) -> bool:
    """The same labels, but for ties that rounding decides."""
    return bool((to_host(one) == to_host(two)).mean() > 0.999)


def _same_partition(one: Any, two: Any) -> bool:
    return metrics.ari(to_host(one), to_host(two)) > 0.99


def products(devices: list[str], samples: int) -> Iterator[Case]:
    """H @ table and H.T @ rows against SciPy's CSR products; the cheapest of K choices against product and argmin."""
    data = ensemble(samples)
    rng = np.random.default_rng(1)
    table, rows = rng.standard_normal((R * CLUSTERS, K)), rng.standard_normal((samples, K))
    transposed = data.matrix.T.tocsr()
    read, written = data.codes.nbytes + table.nbytes, 8 * samples * K

    def ours(name: str, argument: np.ndarray) -> dict[str, Any]:
        def make(device: str) -> Callable[[], Any]:
            m, on_device = data.membership(device), to_device(argument, device)
            return lambda: getattr(m, name)(on_device)

        return _ours(devices, make)

    size = f"n={samples:,} r={R} K={K}"
    yield _case(
        *(f"gather_sum, {size}", ours("gather_sum", table), "SciPy CSR product", lambda: data.matrix @ table),
        *(_close, read + written),
    )
    yield _case(
        *(f"scatter_add, {size}", ours("scatter_add", rows), "SciPy CSR product", lambda: transposed @ rows),
        *(_close, read + written),
    )
    theirs = lambda: (data.matrix @ table).argmin(1)  # noqa: E731
    yield _case(
        *(f"assign, {size}", ours("assign", table), "SciPy CSR product, NumPy argmin", theirs),
        *(lambda one, two: _same(*(x[0] if isinstance(x, tuple) else x for x in (one, two))), read + 12 * samples),
    )


def coassociation(devices: list[str], samples: int) -> Iterator[Case]:
    """The n x n matrix against SciPy's product of sparse matrices."""
    n = min(samples, SQUARE)
    data = ensemble(n)

    def make(device: str) -> Callable[[], Any]:
        return data.membership(device).coassociation

    theirs = lambda: (data.matrix @ data.matrix.T).toarray() / R  # noqa: E731
    moved = data.codes.nbytes + 8 * n * n
    yield _case(f"coassociation, n={n:,} r={R}", _ours(devices, make), "SciPy CSR product", theirs, _close, moved)


def k_means(devices: list[str], samples: int) -> Iterator[Case]:
    """SEC and KCC to convergence from a given start against scikit-learn's k-means on the CSR matrix."""
    from scipy.sparse import diags_array
    from sklearn.cluster import KMeans

    data = ensemble(samples)
    degrees = data.membership("cpu").degrees().astype(float)

    def make(kind: Any) -> Callable[[str], Callable[[], Any]]:
        def on_device(device: str) -> Callable[[], Any]:
            codes, start = to_device(data.codes, device), to_device(data.start, device)
            return lambda: kind(K, init=start, device=device).fit(codes).labels_

        return on_device

    def theirs(weight: np.ndarray) -> Callable[[], Any]:
        rows = diags_array(1 / weight).tocsr() @ data.matrix
        rows.indices, rows.indptr = rows.indices.astype("int32"), rows.indptr.astype("int32")
        of_start = np.eye(K)[data.start] * weight[:, None]
        centers = np.asarray(rows.T @ of_start).T / of_start.sum(0)[:, None]
        k_means = KMeans(K, init=centers, n_init=1, tol=0, max_iter=300)
        return lambda: k_means.fit(rows, sample_weight=weight).labels_

    size = f"n={samples:,} r={R} K={K}"
    yield _case(f"SEC, {size}", _ours(devices, make(SEC)), "scikit-learn KMeans", theirs(degrees), _same)
    ones = np.ones(samples)
    yield _case(f"KCC, {size}", _ours(devices, make(KCC)), "scikit-learn KMeans", theirs(ones), _same)


def linkage(devices: list[str], samples: int) -> Iterator[Case]:
    """EAC against scikit-learn's agglomerative clustering of the same matrix."""
    from sklearn.cluster import AgglomerativeClustering

    n = min(samples, SQUARE)
    data = ensemble(n)

    def make(device: str) -> Callable[[], Any]:
        codes = to_device(data.codes, device)
        return lambda: methods.make("eac", K, 0, device).fit(codes).labels_

    def theirs() -> Any:
        distance = 1 - (data.matrix @ data.matrix.T).toarray() / R
        return AgglomerativeClustering(K, metric="precomputed", linkage="average").fit(distance).labels_

    peer = "scikit-learn AgglomerativeClustering"
    yield _case(f"EAC, n={n:,} r={R} K={K}", _ours(devices, make), peer, theirs, _same_partition)


def scores(devices: list[str], samples: int) -> Iterator[Case]:
    """Normalised mutual information against scikit-learn's."""
    from sklearn.metrics import normalized_mutual_info_score

    data = ensemble(samples)

    def make(device: str) -> Callable[[], Any]:
        one, two = to_device(data.truth, device), to_device(data.codes[:, 0].copy(), device)
        return lambda: metrics.nmi(one, two)

    theirs = lambda: normalized_mutual_info_score(data.truth, data.codes[:, 0], average_method="geometric")  # noqa: E731
    peer = "scikit-learn normalized_mutual_info_score"
    agree = lambda one, two: abs(one - two) < 1e-9  # noqa: E731
    yield _case(f"nmi, n={samples:,}", _ours(devices, make), peer, theirs, agree)


CASES = (products, coassociation, k_means, linkage, scores)
