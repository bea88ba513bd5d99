"""PCE: growth in n, against the dense transcription of its algorithm; quality on real data with holes.

python bench/bench_pce.py [--only growth]              speed and memory
python bench/bench_pce.py DATA [--only jaffe] [--draws 10]      quality, rows shuffled

DATA holds `.npz` files: feature sets (`X`, `y`), and 3sources_416.npz: three sources as CSR (`X0_data`, ...), each of
which lacks some of the rows (`mask`). They are not part of this repository.
"""

import argparse
import sys
import warnings
from pathlib import Path

import harness

SETS = ("jaffe676", "orl", "coil20", "pendigits")
SCALES = ("balanced", "published")
MISSING = (0.0, 0.3, 0.5, 0.6, 0.7)
ITERATIONS = 12


def ensemble(n, r=10, k=10, holes=0.5, noise=0.2):
    """Labels of a hidden partition, some of them noise, some missing; and the partition."""
    import numpy as np

    rng = np.random.default_rng(0)
    truth = rng.integers(0, k, n)
    labels = np.where(rng.random((n, r)) < noise, rng.integers(0, k, (n, r)), truth[:, None]).astype("int8")
    labels[rng.random((n, r)) < holes] = -1
    labels[:, 0] = np.where((labels < 0).all(1), truth, labels[:, 0])
    return labels, truth


def cases():
    yield growth()
    yield dense()


def growth():
    import gpuensemble as ge

    warnings.simplefilter("ignore")  # of iterations that are too few

    def fit(n):
        labels, _ = ensemble(n)
        return lambda: ge.PCE(10, max_iter=ITERATIONS, random_state=0, device="cpu").fit(labels)

    sizes = (1_000_000, 100_000, 10_000)
    notes = {"embedding": "80 MB at n = 1,000,000", "labels": "10 MB", "bound": "at most 12 x n = 100,000, 300 MB"}
    name = f"growth, r = 10, K = 10, 50% holes, {ITERATIONS} iterations"
    return harness.Case(name, {f"n = {n:,}": fit(n) for n in sizes}, "n = 1,000,000", lambda a, b: True, notes=notes)


def dense():
    import copy

    import numpy as np
    from threadpoolctl import threadpool_limits

    import gpuensemble as ge
    from gpuensemble.estimators.pce import embedding, start, steps
    from gpuensemble.estimators.pce.estimator import minimise
    from gpuensemble.estimators.pce.state import mean

    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    import literal_pce as literal

    labels, _ = ensemble(100_000)
    m = ge.Membership.from_labels(labels, device="cpu")
    start = start.start(m, 10, np.random.default_rng(0), True, True, True, "float64")
    lam = steps.first_lambda(steps.squared_residuals(start, mean(start)))

    @threadpool_limits.wrap(1, "blas")  # the faster choice for both: their products have few columns
    def ours():
        return minimise(copy.deepcopy(start), 1.0, True, 0.0, range(ITERATIONS)).state.labels

    @threadpool_limits.wrap(1, "blas")
    def theirs():
        found = literal.dense(start)
        literal.run(found, lam, 1.0, ITERATIONS, embedding.CURVE_STEPS)
        return found.Y.argmax(1)

    def agree(a, b):
        return ge.metrics.ari(a, b) > 0.999

    name = f"n = 100,000, r = 10, K = 10, 50% holes, {ITERATIONS} iterations"
    return harness.Case(name, {"PCE": ours, "dense matrices": theirs}, "dense matrices", agree, wanted=5)


def quality(data, draws, only):
    warnings.simplefilter("ignore")  # of iterations that are too few, on some draws
    for name in SETS:
        if only in name:
            for missing in MISSING:
                report(f"{name}, {missing:.0%} missing", (drawn(data, name, missing, seed) for seed in range(draws)))
            hidden(data, name, draws)
    if only in "3sources_416":
        for text in ("raw counts", "tf-idf"):
            report(f"3sources_416, {text}", (sources(data, text, seed) for seed in range(draws)))


def hidden(data, name, draws):
    """The share of hidden labels of complete partitions, half of them, that come back; beside the consensus' choice."""
    import numpy as np

    import gpuensemble as ge

    shares = []
    for seed in range(draws):
        labels, truth = drawn(data, name, 0.0, seed)
        rng, k = np.random.default_rng(seed), len(np.unique(truth))
        gone = rng.random(labels.shape) < 0.5
        gone[gone.all(1), 0] = False
        table = np.where(gone, -1, labels)
        found = [ge.PCE(k, scale=scale, random_state=seed, device="cpu").fit(table) for scale in SCALES]
        m = ge.Membership.from_labels(table, device="cpu")
        counts = np.split(m.count(found[0].labels_, k), m.offsets[1:-1])
        common = [values[part.argmax(0)][found[0].labels_] for values, part in zip(m.categories, counts, strict=True)]
        filled = [*(one.imputed_ for one in found), np.stack(common, axis=1)]
        shares.append([(one == labels)[gone].mean() for one in filled])
    balanced, published, majority = np.mean(shares, axis=0)
    print(
        f"{name}, hidden labels that come back: balanced {balanced:.3f}, published {published:.3f}, "
        f"the commonest label of the row's consensus cluster {majority:.3f}",
        flush=True,
    )


def drawn(data, name, missing, seed):
    """10 k-means partitions, each of a random share of the shuffled rows; rows that none of them saw are left out."""
    import numpy as np

    from gpuensemble._kmeans.features import lloyd as features

    rng = np.random.default_rng(seed)
    stored = np.load(data / f"{name}.npz")
    order = rng.permutation(len(stored["y"]))
    X, y = stored["X"][order].astype(float), stored["y"][order]
    labels = np.full((len(y), 10), -1)
    for i in range(10):
        rows = rng.permutation(len(y))[: round((1 - missing) * len(y))]
        labels[rows, i] = features.kmeans(X[rows], len(np.unique(y)), rng).labels
    seen = (labels >= 0).any(1)
    return labels[seen], y[seen]


def sources(data, text, seed):
    """One k-means partition of each source, of the rows that it has."""
    import numpy as np
    from scipy.sparse import csr_matrix
    from sklearn.cluster import KMeans
    from sklearn.feature_extraction.text import TfidfTransformer

    stored = np.load(data / "3sources_416.npz")
    y, order = stored["y"], np.random.default_rng(seed).permutation(len(stored["y"]))
    labels = np.full((len(y), 3), -1)
    for i in range(3):
        parts = tuple(stored[f"X{i}_{part}"] for part in ("data", "indices", "indptr"))
        X = csr_matrix(parts, shape=tuple(stored[f"X{i}_shape"])).astype(float)
        X = TfidfTransformer().fit_transform(X) if text == "tf-idf" else X
        rows = np.flatnonzero(stored["mask"][:, i])
        labels[rows, i] = KMeans(len(np.unique(y)), n_init=10, random_state=seed).fit_predict(X[rows])
    return labels[order], y[order]


def report(title, tables):
    """NMI and accuracy of each method, means over the draws; reliability against correctness, for both scales."""
    import numpy as np

    import gpuensemble as ge

    found = {}
    for seed, (labels, truth) in enumerate(tables):
        for method, fitted in fits(labels, len(np.unique(truth)), seed):
            scores = [ge.metrics.nmi(truth, fitted.labels_), ge.metrics.accuracy(truth, fitted.labels_)]
            scores += reliability(truth, fitted) if method.startswith("PCE") else [np.nan] * 4
            found.setdefault(method, []).append(scores)
    print(title)
    for method, rows in found.items():
        mean = np.mean(rows, axis=0)
        line = f"  {method:16} NMI {mean[0]:.3f} +- {np.std(rows, axis=0)[0]:.3f}   ACC {mean[1]:.3f}"
        if method.startswith("PCE"):
            right, wrong, correlation = np.nanmean(np.array(rows)[:, 2:5], axis=0)
            line += f"   v right {right:.3f} wrong {wrong:.3f} rank correlation {correlation:+.3f}"
            line += f"   iterations {mean[5]:.0f}"
        print(line, flush=True)


def fits(labels, k, seed):
    """Methods that take holes, and spectral clustering after filling them at random."""
    import numpy as np

    import gpuensemble as ge

    yield "PCE", ge.PCE(k, random_state=seed, device="cpu").fit(labels)
    yield "PCE published", ge.PCE(k, scale="published", random_state=seed, device="cpu").fit(labels)
    yield "PCE identity", ge.PCE(k, init="identity", random_state=seed, device="cpu").fit(labels)
    yield "KCC", ge.KCC(k, random_state=seed, device="cpu").fit(labels)
    yield "SEC", ge.SEC(k, random_state=seed, device="cpu").fit(labels)
    rng = np.random.default_rng(seed)
    filled = np.where(labels < 0, rng.integers(0, labels.max(0) + 1, labels.shape), labels)
    yield "spectral, filled", Labels(spectral(filled, k, rng))


class Labels:
    def __init__(self, labels):
        self.labels_ = labels


def spectral(labels, k, rng):
    import gpuensemble as ge
    from gpuensemble._partition import bipartite
    from gpuensemble._tables.blocks import whole

    table = whole(ge.Membership.from_labels(labels, device="cpu"))
    return bipartite.cut(table, bipartite.of_samples(table), k, rng).labels(table.block)


def reliability(truth, fitted):
    """The mean of v over right and over wrong rows, its rank correlation with being right, and the iterations."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment
    from scipy.stats import spearmanr
    from sklearn.metrics.cluster import contingency_matrix

    classes, clusters = linear_sum_assignment(-contingency_matrix(truth, fitted.labels_))
    class_of = np.full(fitted.labels_.max() + 1, -1)
    class_of[clusters] = np.unique(truth)[classes]
    right, v = class_of[fitted.labels_] == truth, fitted.reliability_
    if right.all() or np.ptp(v) == 0:
        return [v[right].mean(), v[~right].mean() if (~right).any() else np.nan, np.nan, fitted.n_iter_]
    return [v[right].mean(), v[~right].mean(), spearmanr(v, right)[0], fitted.n_iter_]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        harness.main(cases)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", default="", help="sets whose name contains this")
    options = parser.parse_args()
    quality(options.data, options.draws, options.only)


if __name__ == "__main__":
    main()
