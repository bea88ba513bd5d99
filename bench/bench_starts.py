"""The best of ten k-means++ starts against scikit-learn's, on real pools of base partitions: SEC's objective.

python bench/bench_starts.py DATA [--seeds 20]
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans

import gpuensemble as ge


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    for path in sorted(options.data.glob("pool_*.npz")):
        data = np.load(path)
        rng = np.random.default_rng(0)
        rows, columns = rng.permutation(len(data["y"]))[:1000], rng.permutation(data["E"].shape[1])[:20]
        labels, k = data["E"][np.ix_(rows, columns)], len(np.unique(data["y"]))
        m = ge.Membership.from_labels(labels, device="cpu")
        weight = m.degrees().astype(float)
        entries = (np.repeat(1 / weight, 20), (m.codes + m.offsets[:-1]).ravel(), np.arange(0, 20 * len(rows) + 1, 20))
        matrix = csr_matrix(entries, shape=m.shape)
        ours, theirs = [], []
        for seed in range(options.seeds):
            fitted = ge.SEC(k, init="k-means++", n_init=10, random_state=seed, device="cpu").fit(labels)
            ours.append(fitted.objective_)
            peer = KMeans(k, n_init=10, random_state=seed, tol=0).fit(matrix, sample_weight=weight)
            theirs.append(peer.inertia_)
        ratio = np.mean(ours) / np.mean(theirs)
        error = np.hypot(np.std(ours), np.std(theirs)) / np.mean(theirs) / options.seeds**0.5
        print(f"{path.stem:15} ours / scikit-learn, mean of {options.seeds}: {ratio:.4f} +- {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
