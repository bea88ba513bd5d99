"""Quality of the consensus on real data, rows shuffled: pools of base partitions, and feature sets.

python bench/bench_quality.py DATA [--draws 10] [--only NAME] [--counts]

DATA holds `.npz` files: pools (`E`, n x 100 labels, and `y`) named pool_*.npz, and feature sets (`X`, or CSR as
`X_data`, `X_indices`, `X_indptr`, `X_shape`, and `y`). They are not part of this repository.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfTransformer

import gpuensemble as ge

METHODS = {
    "SEC k-means++": lambda k, seed: ge.SEC(k, init="k-means++", random_state=seed, device="cpu"),
    "SEC spectral": lambda k, seed: ge.SEC(k, random_state=seed, device="cpu"),
    "SEC entropy": lambda k, seed: ge.SEC(k, cluster_weight="entropy", random_state=seed, device="cpu"),
    "KCC category": lambda k, seed: ge.KCC(k, random_state=seed, device="cpu"),
    "KCC entropy": lambda k, seed: ge.KCC(k, utility="entropy", random_state=seed, device="cpu"),
    "HBGF": lambda k, seed: ge.HBGF(k, random_state=seed, device="cpu"),
    "EAC average": lambda k, seed: ge.EAC(k, device="cpu"),
}
TEXT = ("k1b", "tr11", "tr12", "tr23")


def pool(path, draws):
    """Labels of 20 of the partitions on 1000 of the rows, shuffled, and the truth."""
    data = np.load(path)
    rng = np.random.default_rng(0)
    for _ in range(draws):
        rows, columns = rng.permutation(len(data["y"]))[:1000], rng.permutation(data["E"].shape[1])[:20]
        yield data["E"][np.ix_(rows, columns)], data["y"][rows]


def feature_set(path, draws, counts):
    """100 k-means partitions of the shuffled rows, k from K to sqrt(n), cosine of tf-idf for text; and the truth.

    `counts`: of the terms' counts as they are.
    """
    data = np.load(path)
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(data["y"]))
        if "X" in data:
            features = data["X"][order].astype(float)
        else:
            parts = (data["X_data"].astype(float), data["X_indices"], data["X_indptr"])
            terms = csr_matrix(parts, shape=tuple(data["X_shape"]))
            features = (terms if counts else TfidfTransformer().fit_transform(terms))[order]
        truth = data["y"][order]
        low = len(np.unique(truth))
        high = max(low, round(len(truth) ** 0.5))
        distance = "cosine" if path.stem in TEXT else "sqeuclidean"
        yield (
            ge.generate.random_k(features, 100, (low, high), random_state=seed, device="cpu", distance=distance),
            truth,
        )


def scores(draws, name):
    """NMI, ARI and objective of each method on each draw."""
    found = {method: [] for method in METHODS}
    for seed, (labels, truth) in enumerate(draws):
        k = len(np.unique(truth))
        for method, make in METHODS.items():
            fitted = make(k, seed).fit(labels)
            found[method].append(
                (ge.metrics.nmi(truth, fitted.labels_), ge.metrics.ari(truth, fitted.labels_), fitted.objective_)
            )
    print(f"{name}: K = {k}, {seed + 1} draws")
    for method, rows in found.items():
        nmi, ari, _ = np.mean(rows, axis=0)
        print(f"  {method:15} NMI {nmi:.3f} +- {np.std(rows, axis=0)[0]:.3f}   ARI {ari:.3f}", flush=True)
    ratio = np.mean([a[2] / b[2] for a, b in zip(found["SEC spectral"], found["SEC k-means++"], strict=True)])
    print(f"  objective, spectral start / best of 10 k-means++ starts: {ratio:.4f}", flush=True)
    return {method: np.mean(rows, axis=0)[:2] for method, rows in found.items()}, ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", default="pool_", help="files whose name contains this (default pool_)")
    parser.add_argument("--counts", action="store_true", help="text as counts of terms, without tf-idf")
    options = parser.parse_args()
    warnings.simplefilter("error")
    means, ratios = [], []
    for path in sorted(options.data.glob(f"*{options.only}*.npz")):
        is_pool = path.stem.startswith("pool_")
        draws = pool(path, options.draws) if is_pool else feature_set(path, options.draws, options.counts)
        mean, ratio = scores(draws, path.stem)
        means.append(mean)
        ratios.append(ratio)
    print(f"mean over {len(means)} sets; objective ratio {np.mean(ratios):.4f}")
    for method in METHODS:
        nmi, ari = np.mean([mean[method] for mean in means], axis=0)
        print(f"  {method:15} NMI {nmi:.3f}   ARI {ari:.3f}")


if __name__ == "__main__":
    main()
