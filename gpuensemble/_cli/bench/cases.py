"""`gpuensemble bench` has these cases: kernels and methods on every device, beside peers that give the same answer.

A method that no peer has is compared between devices.

To add a case, write a generator that yields `Case`s, and put its name into `CASES`.
"""

import functools
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpuensemble import KCC, SEC, metrics, prox
from gpuensemble._array import checks
from gpuensemble._array.devices import choose_device, cuda_count, to_device, to_host
from gpuensemble._array.progress import with_bar
from gpuensemble._cli.bench import harness, machine, processes
from gpuensemble._cli.bench.harness import Case
from gpuensemble._cli.bench.parts import parts, transfers
from gpuensemble._cli.bench.pools import CLUSTERS, KINDS, Ensemble, K, R, ensemble
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble.estimators._base import registry

FEW = 10  # partitions, for methods of many iterations
SQUARE = 1500  # samples at most for what is n x n
SOLVED = 300  # samples at most for what is n x n in each of many iterations, on the CPU alone
WINS = 2000  # the same where there is a GPU, which can win there
COLUMNS = 16  # of features
ITERATIONS = 50  # of their k-means at most
WITH_A_PEER = ("sec", "kcc", "eac")  # methods that another library has, and that have a case of their own


def run(
    device: str,
    samples: int,
    repeat: int,
    only: list[str],
    show: Callable[[str], None],
    *,
    square: int | None = None,
    threads: int | None = None,
    busy: bool = False,
    verbose: int = 0,
) -> dict[str, Any]:
    """Run the cases, showing each as it ends, and a bar if `verbose`; report results, machine, versions, copy rates.

    Those of k-means run with one thread as well, in a process of their own, unless `threads` says how many there are.
    """
    checks.integer(samples, "samples", K)
    checks.integer(repeat, "repeat", 1)
    devices = ["cpu", *(f"cuda:{i}" for i in range(cuda_count()))] if device == "auto" else [choose_device(device)]
    solved = WINS if devices != ["cpu"] else SOLVED
    solved = solved if square is None else checks.integer(square, "square", K)
    rates = {name: harness.copy_rate(name) for name in devices}
    results, single = [], []
    with processes.busy(busy):
        for case in cases(devices, samples, solved, verbose):
            if any(part in case.name for part in only or ("",)):
                results.append(harness.run(case, repeat))
                show(harness.line(results[-1], rates))
                single += [case.name] if case.rivals else []
        if not results:
            raise ValueError(f"`--only` must be part of the name of a case, got {', '.join(only)!r}.")
        if single and threads is None and "cpu" in devices:
            more = processes.with_one_thread(single, samples, repeat)
            results += more
            show("\n".join(harness.line(result, rates) for result in more))
    how = {"threads": threads, "busy": busy, "samples": samples, "repeat": repeat}
    return {"machine": machine.describe(), **how, "copy_bytes_per_second": rates, "results": results}


def cases(devices: list[str], samples: int, square: int, verbose: int = 0) -> Iterator[Case]:
    """Yield all cases, one after the other, so that only one holds memory."""
    for make in with_bar(CASES, "groups of cases", verbose, len(CASES), "group"):
        yield from make(devices, samples, square) if make in SQUARES else make(devices, samples)


def _ours(devices: list[str], make: Callable[[str], Callable[[], Any]]) -> dict[str, Any]:
    """Make our candidate on each device, and say where it runs."""
    named = {f"gpuensemble, {device}": device for device in devices}
    return {"candidates": {name: make(device) for name, device in named.items()}, "devices": named}


def _case(name: str, ours: dict[str, Any], peers: dict[str, Any], agree: Any, moved: int = 0) -> Case:
    """Make a case, whose ratios are to the first of the peers; without one, to our first device."""
    candidates = ours["candidates"] | peers
    bytes_moved = dict.fromkeys(ours["candidates"], moved) if moved else {}
    peer = next(iter(peers or candidates))
    return Case(name, candidates, peer, agree, devices=ours["devices"], bytes_moved=bytes_moved)


def _optional(name: str) -> Any:
    """Return a library that need not be installed, or None."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def _close(one: Any, two: Any) -> bool:
    return bool(np.allclose(to_host(one), to_host(two)))


def _same(one: Any, two: Any) -> bool:
    """Tell whether labels are the same, but for ties that rounding decides."""
    return bool((to_host(one) == to_host(two)).mean() > 0.999)


def _same_partition(one: Any, two: Any) -> bool:
    return metrics.ari(to_host(one), to_host(two)) > 0.99


def products(devices: list[str], samples: int) -> Iterator[Case]:
    """Time H @ table and H.T @ rows against SciPy's CSR products, and the cheapest of K against product and argmin."""
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
    peers = {"SciPy CSR product": lambda: data.matrix @ table}
    yield _case(f"gather_sum, {size}", ours("gather_sum", table), peers, _close, read + written)
    peers = {"SciPy CSR product": lambda: transposed @ rows}
    yield _case(f"scatter_add, {size}", ours("scatter_add", rows), peers, _close, read + written)
    peers = {"SciPy CSR product, NumPy argmin": lambda: (data.matrix @ table).argmin(1)}
    agree = lambda one, two: _same(*(x[0] if isinstance(x, tuple) else x for x in (one, two)))  # noqa: E731
    yield _case(f"assign, {size}", ours("assign", table), peers, agree, read + 12 * samples)


def coassociation(devices: list[str], samples: int, square: int) -> Iterator[Case]:
    """Time the n x n matrix against SciPy's product of sparse matrices."""
    n = min(samples, max(SQUARE, square))
    data = ensemble(n)

    def make(device: str) -> Callable[[], Any]:
        return data.membership(device).coassociation

    peers = {"SciPy CSR product": lambda: (data.matrix @ data.matrix.T).toarray() / R}
    moved = data.codes.nbytes + 8 * n * n
    yield _case(f"coassociation, n={n:,} r={R}", _ours(devices, make), peers, _close, moved)


def k_means(devices: list[str], samples: int) -> Iterator[Case]:
    """Time SEC and KCC to convergence from a given start against scikit-learn's k-means, on three kinds of tables.

    Ours begins with the caller's integers of 8 bytes, theirs with the CSR matrix that they stand for. The better of
    scikit-learn's two algorithms in a round is the peer.
    """
    for name, make in KINDS.items():
        data = make(samples)
        degrees = data.membership("cpu").degrees().astype(float)
        for kind, weight in ((SEC, degrees), (KCC, np.ones(samples))):
            peers = {f"scikit-learn KMeans, {how}": _k_means_of(data, weight, how) for how in ("lloyd", "elkan")}
            title = f"{kind.__name__}, {name}, n={samples:,} r={R} K={data.n_clusters}"
            case = _case(title, _ours(devices, _from_a_start(kind, data)), peers, _same)
            case.rivals = tuple(peers)
            case.facts = functools.partial(parts, kind, data, devices[-1])
            yield case


def _from_a_start(kind: Any, data: Ensemble) -> Callable[[str], Callable[[], Any]]:
    """Fit the caller's table from labels."""
    table = data.table

    def on_device(device: str) -> Callable[[], Any]:
        return lambda: kind(data.n_clusters, init=data.start, device=device).fit(table).labels_

    return on_device


def _k_means_of(data: Ensemble, weight: np.ndarray, how: str) -> Callable[[], Any]:
    """Fit scikit-learn's k-means from the centres of the same labels, on rows that have them for means."""
    from scipy.sparse import diags_array
    from sklearn.cluster import KMeans

    rows = diags_array(1 / weight).tocsr() @ data.matrix
    rows.indices, rows.indptr = rows.indices.astype("int32"), rows.indptr.astype("int32")
    of_start = np.eye(data.n_clusters)[data.start] * weight[:, None]
    centers = np.asarray(rows.T @ of_start).T / of_start.sum(0)[:, None]
    k_means = KMeans(data.n_clusters, init=centers, n_init=1, tol=0, max_iter=300, algorithm=how)
    return lambda: k_means.fit(rows, sample_weight=weight).labels_


def linkage(devices: list[str], samples: int) -> Iterator[Case]:
    """Time EAC against scikit-learn's agglomerative clustering of the same matrix.

    Partitions have weights that no two sums of agree in: where similarities tie, there is more than one tree.
    """
    from sklearn.cluster import AgglomerativeClustering

    n = min(samples, SQUARE)
    data, weight = ensemble(n), 0.5 + np.random.default_rng(0).random(R)

    def make(device: str) -> Callable[[], Any]:
        codes = to_device(data.codes, device)
        return lambda: registry.methods()["eac"].make(K, 0, device, partition_weight=weight).fit(codes).labels_

    def theirs() -> Any:
        weighted = data.matrix.multiply(weight.repeat(CLUSTERS)).tocsr()
        distance = 1 - (weighted @ data.matrix.T).toarray() / weight.sum()
        return AgglomerativeClustering(K, metric="precomputed", linkage="average").fit(distance).labels_

    peers = {"scikit-learn AgglomerativeClustering": theirs}
    yield _case(f"EAC, n={n:,} r={R} K={K}", _ours(devices, make), peers, _same_partition)


def base_partition(devices: list[str], samples: int) -> Iterator[Case]:
    """Time k-means of features to convergence or 50 iterations, from a row of each hidden cluster, in float32."""
    from sklearn.cluster import KMeans

    rng = np.random.default_rng(0)
    truth = rng.permutation(samples) % K
    points = (2 * rng.standard_normal((K, COLUMNS))[truth] + rng.standard_normal((samples, COLUMNS))).astype("float32")
    centers = points[np.unique(truth, return_index=True)[1]]

    def make(device: str) -> Callable[[], Any]:
        X, start = to_device(points, device), to_device(centers, device)
        return lambda: features.kmeans(X, K, rng, init=start, max_iter=ITERATIONS, tol=0).labels

    k_means = KMeans(K, init=centers, n_init=1, tol=0, max_iter=ITERATIONS)
    peers = {"scikit-learn KMeans": lambda: k_means.fit(points).labels_}
    faiss = _optional("faiss")
    if faiss is not None:

        def by_faiss() -> Any:
            fitted = faiss.Kmeans(COLUMNS, K, niter=ITERATIONS, max_points_per_centroid=samples)
            fitted.train(points, init_centroids=centers)
            return fitted.index.search(points, 1)[1][:, 0]

        peers[f"faiss Kmeans, {ITERATIONS} iterations"] = by_faiss
    name = f"k-means of features, n={samples:,} x {COLUMNS} K={K}"
    yield _case(name, _ours(devices, make), peers, _same_partition)


def shrinkage(devices: list[str], samples: int) -> Iterator[Case]:
    """Time singular value thresholding against NumPy's FFT and SVD: a matrix, and the Fourier slices of n x n x 2."""
    n = min(samples, SOLVED)
    x = np.random.default_rng(0).standard_normal((n, n, 2))
    tau = n**0.5

    def shrunk(slices: np.ndarray) -> np.ndarray:
        u, s, v = np.linalg.svd(slices, full_matrices=False)
        return (u * np.maximum(s - tau, 0)[..., None, :]) @ v

    def ours(prox: Callable, x: np.ndarray) -> dict[str, Any]:
        def make(device: str) -> Callable[[], Any]:
            on_device = to_device(x, device)
            return lambda: prox(on_device, tau)

        return _ours(devices, make)

    matrix = np.ascontiguousarray(x[..., 0])
    peers = {"NumPy SVD": lambda: shrunk(matrix)}
    yield _case(f"prox.nuclear, {n} x {n}", ours(prox.nuclear, matrix), peers, _close)
    along_first = lambda x, tau: prox.tensor_nuclear(x, tau, axis=0)  # noqa: E731
    peers = {"NumPy FFT and batched SVD": lambda: np.fft.ifft(shrunk(np.fft.fft(x, axis=0)), axis=0).real}
    yield _case(f"prox.tensor_nuclear, {n} x {n} x 2", ours(along_first, x), peers, _close)


def without_a_peer(devices: list[str], samples: int, square: int) -> Iterator[Case]:
    """Time the methods that no library has, which are compared between devices, side by side."""

    def case_of(name: str, method: registry.Method, given: Any) -> Case:
        def make(device: str) -> Callable[[], Any]:
            return lambda: method.make(K, 0, device).fit(given).labels_

        case = _case(name, _ours(devices, make), {}, _same_partition)
        case.facts = functools.partial(transfers, given, devices)
        return case

    for method in registry.of_labels().values():
        if method.name in WITH_A_PEER:
            continue
        n = min(samples, square if method.square else SQUARE)
        table = np.ascontiguousarray(ensemble(n, 0.1).table[:, :FEW])
        yield case_of(f"{method.title}, n={n:,} r={FEW} K={K}", method, table)
    n = min(samples, SQUARE)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, n)
    views = [4 * rng.standard_normal((K, COLUMNS))[truth] + rng.standard_normal((n, COLUMNS)) for _ in range(2)]
    for method in registry.of_views().values():
        yield case_of(f"{method.title}, n={n:,}, 2 x {COLUMNS} K={K}", method, views)


def scores(devices: list[str], samples: int) -> Iterator[Case]:
    """Time normalised mutual information against scikit-learn's."""
    from sklearn.metrics import normalized_mutual_info_score

    data = ensemble(samples)

    def make(device: str) -> Callable[[], Any]:
        one, two = to_device(data.truth, device), to_device(data.codes[:, 0].copy(), device)
        return lambda: metrics.nmi(one, two)

    score = functools.partial(normalized_mutual_info_score, average_method="geometric")
    peers = {"scikit-learn normalized_mutual_info_score": lambda: score(data.truth, data.codes[:, 0])}
    agree = lambda one, two: abs(one - two) < 1e-9  # noqa: E731
    yield _case(f"nmi, n={samples:,}", _ours(devices, make), peers, agree)


SQUARES = (coassociation, without_a_peer)  # these are told how large n x n arrays may be
CASES = (products, coassociation, k_means, linkage, base_partition, shrinkage, without_a_peer, scores)
