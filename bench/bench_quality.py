"""Quality of the consensus on real data, rows shuffled: every method of the registry on every set.

python bench/bench_quality.py DATA [--draws 10] [--partitions 20] [--rows 1000] [--only pool_] [--methods sec,kcc,...]

DATA holds `.npz` files: pools (`E`, n x 100 labels, and `y`) named pool_*.npz, and feature sets (`X`, or CSR as
`X_data`, `X_indices`, `X_indptr`, `X_shape`, and `y`), of which 100 k-means partitions are made. They are not part of
this repository. The table says NMI and ARI, their means over sets, and the difference in NMI from the first method with
the standard error over sets and draws, which are the same for all methods.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer

import gpuensemble as ge
from gpuensemble.estimators._base.registry import of_labels

FIRST = "cluster-walk"
TEXT = ("k1b", "tr11", "tr12", "tr23")


def pool(path, draws, n_partitions=20, n_rows=1000):
    """Labels of some of the partitions on some of the rows, shuffled, and the truth."""
    data = np.load(path)
    rng = np.random.default_rng(0)
    for _ in range(draws):
        rows, columns = rng.permutation(len(data["y"]))[:n_rows], rng.permutation(data["E"].shape[1])[:n_partitions]
        yield data["E"][np.ix_(rows, columns)], data["y"][rows]


def feature_set(path, draws, counts=False):
    """100 k-means partitions of the shuffled rows, k from K to sqrt(n), cosine of tf-idf for text; and the truth.

    `counts`: of the terms' counts as they are.
    """
    data = np.load(path)
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(data["y"]))
        features = data["X"].astype(float) if "X" in data else _terms(data, counts)
        truth = data["y"][order]
        low = len(np.unique(truth))
        high = max(low, round(len(truth) ** 0.5))
        distance = "cosine" if path.stem in TEXT else "sqeuclidean"
        generate = ge.generate.random_k
        yield (
            generate(features[order], 100, (low, high), random_state=seed, device="cpu", distance=distance),
            truth,
        )


def _terms(data, counts):
    parts = (data["X_data"].astype(float), data["X_indices"], data["X_indptr"])
    terms = csr_matrix(parts, shape=tuple(data["X_shape"]))
    return terms if counts else TfidfTransformer().fit_transform(terms)


def scores(draws, methods):
    """NMI, ARI and seconds of each method on each draw: draws x methods x 3."""
    found = []
    for seed, (labels, truth) in enumerate(draws):
        row = []
        for method in methods:
            begin = time.perf_counter()
            fitted = method.make(len(np.unique(truth)), seed, "cpu").fit(labels)
            seconds = time.perf_counter() - begin
            row.append((ge.metrics.nmi(truth, fitted.labels_), ge.metrics.ari(truth, fitted.labels_), seconds))
        found.append(row)
    return np.array(found)


def report(found, methods):
    """Print a line for each method: means, the difference from the first with its error, each set, seconds."""
    everything = np.concatenate(list(found.values()))
    sets = np.array([rows.mean(0) for rows in found.values()])
    print(f"{'method':24} {'NMI':>5} {'ARI':>5}  {'difference':>15}  ahead  seconds  {'  '.join(found)}")
    first = everything[:, 0, 0]
    for i, method in enumerate(methods):
        apart = everything[:, i, 0] - first
        error = apart.std(ddof=1) / len(apart) ** 0.5 if len(apart) > 1 else float("nan")
        ahead = int((sets[:, i, 0] > sets[:, 0, 0]).sum())
        nmi, ari = sets[:, i, :2].mean(0)
        each = "  ".join(f"{value:{len(name)}.3f}" for name, value in zip(found, sets[:, i, 0], strict=True))
        line = f"{apart.mean():+.4f} +- {error:.4f}  {ahead:5}  {np.median(everything[:, i, 2]):7.3f}  {each}"
        print(f"{method.title:24} {nmi:.4f} {ari:.4f}  {line}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=20, help="of a pool (default 20)")
    parser.add_argument("--rows", type=int, default=1000, help="of a pool (default 1000; 0: all)")
    parser.add_argument("--only", default="pool_", help="files whose name contains this (default pool_)")
    parser.add_argument("--methods", default="", help="names of the registry, with commas (default: all but n x n)")
    parser.add_argument("--counts", action="store_true", help="text as counts of terms, without tf-idf")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    every = of_labels()
    names = options.methods.split(",") if options.methods else [n for n, method in every.items() if not method.square]
    methods = [every[name] for name in sorted(names, key=lambda name: name != FIRST)]
    found = {}
    for path in sorted(options.data.glob(f"*{options.only}*.npz")):
        if path.stem.startswith("pool_"):
            draws = pool(path, options.draws, options.partitions, options.rows or None)
        else:
            draws = feature_set(path, options.draws, options.counts)
        found[path.stem.removeprefix("pool_")] = scores(draws, methods)
    report(found, methods)


if __name__ == "__main__":
    main()
