"""SEC's objective from its starts, on real pools of base partitions.

python bench/bench_starts.py DATA [--seeds 20]
python bench/bench_starts.py DATA --spectral [--draws 20]

The best of ten k-means++ starts against scikit-learn's; with `--spectral`, the k-means of embedded rows inside of the
spectral start: once from rows that QR with pivoting chooses, against the best of ten by k-means++.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from bench_quality import pool
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans

import gpuensemble as ge
from gpuensemble._kmeans.features import lloyd as features
from gpuensemble._partition import bipartite
from gpuensemble._tables.blocks import whole


def against_scikit_learn(data, seeds):
    """The mean objectives of ours and scikit-learn's as a ratio, and its error."""
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(data["y"]))[:1000], rng.permutation(data["E"].shape[1])[:20]
    labels, k = data["E"][np.ix_(rows, columns)], len(np.unique(data["y"]))
    m = ge.Membership.from_labels(labels, device="cpu")
    weight = m.degrees().astype(float)
    entries = (np.repeat(1 / weight, 20), (m.codes + m.offsets[:-1]).ravel(), np.arange(0, 20 * len(rows) + 1, 20))
    matrix = csr_matrix(entries, shape=m.shape)
    ours, theirs = [], []
    for seed in range(seeds):
        fitted = ge.SEC(k, init="k-means++", n_init=10, random_state=seed, device="cpu").fit(labels)
        ours.append(fitted.objective_)
        peer = KMeans(k, n_init=10, random_state=seed, tol=0).fit(matrix, sample_weight=weight)
        theirs.append(peer.inertia_)
    error = np.hypot(np.std(ours), np.std(theirs)) / np.mean(theirs) / seeds**0.5
    return np.mean(ours) / np.mean(theirs), error


def pivots_against_ten(labels, k, seed):
    """SEC's objective from pivoted rows over that from ten k-means++ starts of the same embedding, and both times."""
    rng = np.random.default_rng(seed)
    table = whole(ge.Membership.from_labels(labels, device="cpu"))
    projection = bipartite.embedding(table, bipartite.of_samples(table), k, rng)
    points, weight = table.block.m.gather_sum(projection), np.ones(len(labels))
    directions = bipartite._directions(points)
    objectives, seconds = [], []
    for pivots in (True, False):
        begin = time.perf_counter()
        start = {"init": directions[bipartite._pivots(points, k, rng, weight)]} if pivots else {"n_init": 10}
        found = features.kmeans(directions, k, rng, sample_weight=weight, **start)
        seconds.append(time.perf_counter() - begin)
        objectives.append(ge.SEC(k, init=found.labels, device="cpu").fit(labels).objective_)
    return objectives[0] / objectives[1], *seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--spectral", action="store_true")
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    everything = []
    for path in sorted(options.data.glob("pool_*.npz")):
        if options.spectral:
            pairs = enumerate(pool(path, options.draws))
            found = np.array([pivots_against_ten(E, len(np.unique(y)), seed) for seed, (E, y) in pairs])
            everything.append(found)
            report(path.stem, found)
        else:
            ratio, error = against_scikit_learn(np.load(path), options.seeds)
            print(
                f"{path.stem:15} ours / scikit-learn, mean of {options.seeds}: {ratio:.4f} +- {error:.4f}", flush=True
            )
    if everything:
        report("all", np.concatenate(everything))


def report(name, found):
    """Print the ratio of objectives with its error, and the median ratio of times."""
    ratio, faster = found[:, 0], np.median(found[:, 2] / found[:, 1])
    error = ratio.std() / len(ratio) ** 0.5
    print(f"{name:15} pivots / ten: {ratio.mean():.5f} +- {error:.5f}, {faster:.1f} times as fast", flush=True)


if __name__ == "__main__":
    main()
