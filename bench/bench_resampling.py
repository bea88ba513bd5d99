"""Consensus clustering by resampling against pyckmeans and consensusclustering, and what choose_k and stability cost.

python bench/bench_resampling.py peers [--samples 2000 5000] [--repeat 3] [--without consensusclustering]
python bench/bench_resampling.py large [--samples 1000000] [--partitions 50]

"peers" (pip install pyckmeans consensusclustering): rows of ten overlapping clusters in 20 columns, K from 2 to 8, 50
resamplings of 80 % of the rows, one k-means each. Each is timed from the features to its choice of K, and so is ours;
"ours, tables" makes the resamplings, and counts PAC over 10^6 pairs, which is what the others do. PAC, strictly between
0.1 and 0.9, is shown for each K. pyckmeans labels all rows by the centres of those that it drew, and "ours" counts
pairs of consensuses, so both have another definition.

"large": a table of labels, K from 2 to 10; choose_k against the sum of the nine fits alone, peak memory, and stability
at K = 20 against one fit.
"""

import argparse
import resource
import time
import warnings

import numpy as np

import gpuensemble as ge
from gpuensemble._inspection import resampling

NUMBERS = range(2, 9)


def features(n):
    """Ten clusters that overlap."""
    rng = np.random.default_rng(0)
    centers = 2.2 * rng.standard_normal((10, 20))
    return centers[rng.integers(0, 10, n)] + 2 * rng.standard_normal((n, 20))


def ours(X, seed):
    method = ge.ConsensusClustering(2, partitions="subsample", n_partitions=50, device="cpu")
    return ge.choose_k(X, NUMBERS, consensus=method, random_state=seed, device="cpu").table["pac"]


def tables(X, seed):
    """PAC of Monti's consensus matrix, from pairs that are drawn."""
    found = {}
    for k in NUMBERS:
        labels = ge.generate.subsample(X, k, 50, random_state=100 * seed + k, device="cpu")
        ends = resampling.drawn_pairs(len(X), 10**6, np.random.default_rng(k))
        found[k] = resampling.pairs_of(labels, ends).pac(len(X), len(X)).value
    return found


def consensusclustering(X, seed):
    from consensusclustering import ConsensusClustering
    from sklearn.cluster import KMeans

    peer = ConsensusClustering(KMeans(n_init=1, random_state=seed), 2, 8, 50, 0.8, rng=seed)
    peer.fit(X)
    peer.best_k("change_in_auc")
    return {k: pac(peer.consensus_k(k)) for k in NUMBERS}


def pyckmeans(X, seed):
    from pyckmeans import MultiCKMeans

    np.random.seed(seed)  # noqa: NPY002
    peer = MultiCKMeans(list(NUMBERS), n_rep=50, p_samp=0.8, p_feat=1.0, metrics=(), n_init=1)
    peer.fit(X)
    found = peer.predict(X)
    return {k: pac(result.cmatrix) for k, result in zip(NUMBERS, found.ckmeans_results, strict=True)}


def pac(matrix):
    values = np.round(matrix[np.triu_indices(len(matrix), 1)], 9)
    return ((values > 0.1) & (values < 0.9)).mean()


def peers(samples, repeat, without):
    runs = [run for run in (ours, tables, consensusclustering, pyckmeans) if run.__name__ != without]
    for n in samples:
        X = features(n)
        for warm in (ours, tables):
            warm(X[:300], 0)
        seconds, found = {}, {}
        for seed in range(repeat):
            for run in runs:
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    values = run(X, seed)
                seconds.setdefault(run.__name__, []).append(time.perf_counter() - start)
                found.setdefault(run.__name__, []).append([values[k] for k in NUMBERS])
        for name, rounds in found.items():
            of_k = zip(NUMBERS, np.mean(rounds, axis=0), np.std(rounds, axis=0), strict=True)
            said = ", ".join(f"{k}: {mean:.3f} ({spread:.3f})" for k, mean, spread in of_k)
            print(f"n = {n}, PAC of {name}, mean and spread over seeds: {said}", flush=True)
        medians = {name: np.median(some) for name, some in seconds.items()}
        said = ", ".join(f"{name} {second:.2f} s ({second / medians['ours']:.1f})" for name, second in medians.items())
        print(f"n = {n}: medians of {repeat}, over ours: {said}", flush=True)


def large(n, r):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 10, n)
    labels = np.empty((n, r), "int32")
    for column in range(r):
        noise = rng.random(n) < 0.3
        labels[:, column] = np.where(noise, rng.integers(0, 12, n), truth)
    make = ge.estimators._base.registry.of_labels()["sec-entropy"].make
    make(5, 0, "cpu").fit(labels[:1000])
    ge.choose_k(labels[:1000], [2, 3], n_bootstrap=3, device="cpu")
    ge.stability(labels[:1000], truth[:1000], device="cpu")

    def timed(what, call):
        start = time.perf_counter()
        call()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{what}: {time.perf_counter() - start:.1f} s, peak {peak:.2f} GB", flush=True)

    timed("one fit, K = 2", lambda: make(2, 0, "cpu").fit(labels))
    timed("nine fits, K = 2 .. 10", lambda: [make(k, 0, "cpu").fit(labels) for k in range(2, 11)])
    timed("choose_k, K = 2 .. 10", lambda: ge.choose_k(labels, range(2, 11), random_state=0, device="cpu"))
    found = make(20, 0, "cpu")
    timed("one fit, K = 20", lambda: found.fit(labels))
    timed("stability, K = 20", lambda: ge.stability(labels, found.labels_, device="cpu"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("peers", "large"))
    parser.add_argument("--samples", type=int, nargs="+")
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--without", default="", help="a peer that takes too long")
    given = parser.parse_args()
    if given.what == "peers":
        peers(given.samples or (2000, 5000), given.repeat, given.without)
    else:
        large((given.samples or [10**6])[0], given.partitions)


if __name__ == "__main__":
    main()
