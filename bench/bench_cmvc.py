"""CMVC on real views, rows shuffled: quality beside other methods, with samples absent from views, and speed.

python bench/bench_cmvc.py DATA quality [--seeds 10] [--only NAME]
python bench/bench_cmvc.py DATA rows
python bench/bench_cmvc.py DATA weighting
python bench/bench_cmvc.py DATA absent
python bench/bench_cmvc.py DATA speed [--repeat 5]

DATA holds `.npz` files: views `X0`, `X1`, ..., or CSR as `X0_data`, `X0_indices`, `X0_indptr`, `X0_shape`, and so on;
`y`; and `mask`, samples x views, where a sample is present. They are not part of this repository. `rows`
has sets of one matrix `X` besides, whose columns are halved to make two views.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness
import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

import gpuensemble as ge

# Views that are used, what their rows hold, and NMI in the paper's Table 6: CMVC, KCC and k-means on the concatenation.
SETS = {
    "digit_mf": ((0, 1), "features", (0.823, 0.814, 0.719)),
    "3sources_169": ((0, 1, 2), "counts", (0.728, 0.691, 0.413)),
    "bbcsport2": ((0, 1), "weighted terms", (0.881, 0.880, 0.486)),
    "3sources_416": ((0, 1, 2), "counts", None),
}
MEASURED = ("breast_w", "wine", "pendigits", "semeion", "coil20")  # columns in their own units, or pixels
WEIGHTINGS = {
    "as they are": lambda X: X,
    "unit rows": normalize,
    "tf-idf": lambda X: TfidfTransformer().fit_transform(X),
    "tf-idf of log counts": lambda X: TfidfTransformer(sublinear_tf=True).fit_transform(X),
}
THREADS = {"scikit-learn": 1, "scikit-learn, two at a time": 2}
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def load(folder, name):
    """The views, the truth, and where samples are present or None."""
    data = np.load(folder / f"{name}.npz")
    if name in MEASURED:
        return np.array_split(data["X"].astype(float), 2, axis=1), data["y"], None
    views = []
    for v in SETS[name][0]:
        if f"X{v}" in data:
            views.append(data[f"X{v}"].astype(float))
        else:
            parts = (data[f"X{v}_data"].astype(float), data[f"X{v}_indices"], data[f"X{v}_indptr"])
            views.append(sparse.csr_array(parts, shape=tuple(data[f"X{v}_shape"])))
    return views, data["y"], data["mask"].astype(bool) if "mask" in data else None


def draws(folder, name, seeds, weighting=None):
    """Seed, shuffled views, truth and presence; rows of length 1, tf-idf where they are counts, or `MEASURED`."""
    views, truth, present = load(folder, name)
    usual = "as they are" if name in MEASURED else "tf-idf" if SETS[name][1] == "counts" else "unit rows"
    weighting = weighting or usual
    views = [WEIGHTINGS[weighting](X) for X in views]
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(truth))
        shuffled = None if present is None else present[order]
        yield seed, [X[order] for X in views], truth[order], shuffled


def concatenated(views, k, seed):
    """k-means on all columns; an absent sample has zeros."""
    stack = sparse.hstack if sparse.issparse(views[0]) else np.hstack
    return KMeans(k, n_init=10, random_state=seed).fit_predict(stack(views))


def fused(views, k, seed, present, n_init=1):
    """KCC with the sub-views and first base partitions that CMVC has."""
    alone = ge.CMVC(k, trade_off=0, n_init=n_init, random_state=seed, device="cpu").fit(views, present=present)
    return ge.KCC(k, utility="cosine", init="k-means++", random_state=seed, device="cpu").fit_predict(
        alone.base_labels_
    )


def half(X, rng):
    """Half of the columns."""
    return X[:, np.sort(rng.permutation(X.shape[1])[: X.shape[1] // 2])]


def model(**options):
    """Labels of CMVC with these options."""
    return lambda X, k, s, p: ge.CMVC(k, random_state=s, device="cpu", **options).fit_predict(X, present=p)


METHODS = {
    "CMVC cosine": model(),
    "CMVC cosine, n_init=10": model(n_init=10),
    "CMVC sqeuclidean": model(distance="sqeuclidean"),
    "CMVC sqeuclidean, n_init=10": model(distance="sqeuclidean", n_init=10),
    "CMVC sqeuclidean, scale_rows": model(distance="sqeuclidean", scale_rows=True),
    "CMVC sqeuclidean, scale_rows, n_init=10": model(distance="sqeuclidean", scale_rows=True, n_init=10),
    "CMVC sqeuclidean, exact": model(distance="sqeuclidean", update="exact"),
    "CMVC sqeuclidean, exact, scale_rows": model(distance="sqeuclidean", update="exact", scale_rows=True),
    "CMVC kl": model(distance="kl"),
    "CMVC kl, n_init=10": model(distance="kl", n_init=10),
    "CMVC kl, smoothing=0": model(distance="kl", smoothing=0),
    "CMVC kl, smoothing=0, n_init=10": model(distance="kl", smoothing=0, n_init=10),
    "CMVC cosine, no sub-views": model(n_subviews=1, feature_ratio=1),
    "KCC, same sub-views": fused,
    "KCC, same sub-views, n_init=10": lambda *args: fused(*args, n_init=10),
    "k-means, all columns": lambda X, k, s, p: concatenated(X, k, s),
}


ROWS = {
    f"{distance}{', scale_rows' * scale}{f', smoothing={s}' * (distance == 'kl')}": model(
        distance=distance, scale_rows=scale, smoothing=s
    )
    for distance in ("cosine", "sqeuclidean", "kl")
    for s in ((0.0, 0.3, 0.5, 0.7) if distance == "kl" else (0.5,))
    for scale in (False, True)
}


def report(title, scores):
    print(f"  {title:40} NMI {np.mean(scores):.3f} +- {np.std(scores):.3f}", flush=True)


def compare(folder, options, name, methods):
    """NMI of each method on a set."""
    for title, method in methods.items():
        found = []
        for seed, views, truth, present in draws(folder, name, options.seeds):
            labels = method(views, len(np.unique(truth)), seed, present)
            found.append(ge.metrics.nmi(truth, labels))
        report(title, found)


def quality(folder, options):
    """NMI of each method on each set."""
    for name, (_, _, paper) in SETS.items():
        if options.only in name:
            print(f"{name}; paper: {'-' if paper is None else 'CMVC {}, KCC {}, all columns {}'.format(*paper)}")
            compare(folder, options, name, METHODS)


def rows(folder, options):
    """NMI with rows scaled and smoothed, or not, on sets of text and of measurements."""
    for name in (*SETS, *MEASURED):
        if options.only in name:
            print(name)
            compare(folder, options, name, ROWS)


def weighting(folder, options):
    """NMI of CMVC for each weighting of terms."""
    for name, (_, kind, _) in SETS.items():
        if options.only in name:
            print(name)
            for title in WEIGHTINGS if kind == "counts" else list(WEIGHTINGS)[: 2 if kind == "features" else 3]:
                drawn = draws(folder, name, options.seeds, title)
                report(
                    title,
                    [ge.metrics.nmi(y, METHODS["CMVC cosine"](X, len(np.unique(y)), s, p)) for s, X, y, p in drawn],
                )


def absent(folder, options):
    """NMI with a share of the rows absent from each view, but for those that would be absent from all."""
    for name in SETS:
        if options.only in name and name != "3sources_416":
            print(name)
            for share in SHARES:
                found = {"CMVC": [], "KCC, same sub-views": [], "k-means, all columns": []}
                for seed, views, truth, _ in draws(folder, name, options.seeds):
                    rng, k = np.random.default_rng(seed), len(np.unique(truth))
                    present = rng.random((len(truth), len(views))) >= share
                    gone = np.flatnonzero(~present.any(1))
                    present[gone, rng.integers(0, len(views), len(gone))] = True
                    cleared = [
                        X.multiply(seen[:, None]).tocsr() if sparse.issparse(X) else X * seen[:, None]
                        for X, seen in zip(views, present.T, strict=True)
                    ]
                    labels = (
                        METHODS["CMVC cosine"](views, k, seed, present),
                        fused(views, k, seed, present),
                        concatenated(cleared, k, seed),
                    )
                    for title, one in zip(found, labels, strict=True):
                        found[title].append(ge.metrics.nmi(truth, one))
                for title, scores in found.items():
                    report(f"{share:.0%} absent, {title}", scores)


class Peer:
    """CMVC's loop with scikit-learn's KMeans: sub-views, first partitions from random rows, and guided ones.

    k-means on unit rows stands for the cosine distance; the guide is a one-hot block times sqrt(lambda).
    """

    trade_off, n_subviews = 0.01, 10

    def __init__(self, views, k, distance, threads=1):
        self.views, self.k, self.distance, self.threads = views, k, distance, threads

    def fit(self, n_iter):
        rng = np.random.default_rng(0)
        parts = [half(X, rng) for X in self.views for _ in range(self.n_subviews)]
        parts = [normalize(X) for X in parts] if self.distance == "cosine" else parts
        quick = config_context(assume_finite=True, skip_parameter_validation=True)
        limits = threadpool_limits(1 if self.threads > 1 else None)
        with quick, limits, ThreadPoolExecutor(self.threads) as pool:
            base = list(pool.map(lambda X: self.kmeans(X, "random").labels_, parts))
            consensus = self.kmeans(self.onehot(base), "k-means++", n_init=5).labels_
            for _ in range(n_iter):
                guide = self.trade_off**0.5 * np.eye(self.k)[consensus]
                base = list(
                    pool.map(lambda pair, guide=guide: self.guided(*pair, guide), zip(parts, base, strict=True))
                )
                H = self.onehot(base)
                consensus = self.kmeans(H, self.means(H, consensus)).labels_
        return consensus

    def kmeans(self, X, init, n_init=1):
        return KMeans(self.k, init=init, n_init=n_init, tol=0, random_state=0, algorithm="lloyd", copy_x=False).fit(X)

    def guided(self, X, labels, guide):
        both = sparse.hstack([X, guide], format="csr") if sparse.issparse(X) else np.hstack([X, guide])
        return self.kmeans(both, self.means(both, labels)).labels_

    def means(self, X, labels):
        onehot = np.eye(self.k)[labels]
        return np.asarray(X.T @ onehot).T / np.maximum(onehot.sum(0), 1)[:, None]

    def onehot(self, base):
        n, r = len(base[0]), len(base)
        columns = (np.stack(base, axis=1) + self.k * np.arange(r)).astype("int32").ravel()
        return sparse.csr_matrix((np.ones(n * r), columns, np.arange(0, n * r + 1, r, dtype="int32")), (n, r * self.k))


def _alike(one, two, truth):
    """Whether both are as near to the truth: other draws give other labels, as two seeds of one of them do."""
    return abs(ge.metrics.nmi(truth, one) - ge.metrics.nmi(truth, two)) < 0.15


def speed(folder, options):
    """A whole fit against the loop, with as many iterations: against the faster of its two ways to use threads."""
    for name in ("bbcsport2", "digit_mf"):
        if options.only not in name:
            continue
        _, views, truth, _ = next(draws(folder, name, 1))
        k = len(np.unique(truth))
        for distance in ("cosine", "sqeuclidean"):
            ours = ge.CMVC(k, distance=distance, random_state=0, device="cpu")
            n_iter = ours.fit(views).n_iter_
            peers = {title: Peer(views, k, distance, threads) for title, threads in THREADS.items()}
            case = harness.Case(
                f"{name}, {distance}, {n_iter} iterations",
                {"gpuensemble": lambda ours=ours, views=views: ours.fit_predict(views)}
                | {title: lambda peer=peer, n_iter=n_iter: peer.fit(n_iter) for title, peer in peers.items()},
                peer="scikit-learn",
                rivals=tuple(THREADS),
                agree=lambda one, two, truth=truth: _alike(one, two, truth),
                wanted=6,
            )
            print(harness.line(harness.run(case, options.repeat)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("part", choices=("quality", "rows", "weighting", "absent", "speed"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=5, help="rounds of `speed` after the warm-up (default 5)")
    parser.add_argument("--only", default="", help="sets whose name contains this")
    options = parser.parse_args()
    parts = {"quality": quality, "rows": rows, "weighting": weighting, "absent": absent, "speed": speed}
    parts[options.part](options.data, options)


if __name__ == "__main__":
    main()
