"""From features to labels: every way to make base partitions, with several consensus methods, on real data.

python bench/bench_features.py DATA [--sets dev|aside|all|NAME,...] [--ways a,b] [--methods c,d] [--seeds 5]
python bench/bench_features.py DATA --single        # k-means, Ward, spectral and HDBSCAN of scikit-learn

DATA holds `.npz` files that are not part of this repository: dense views `X`, `X0`, ..., or CSR as `X_data`,
`X_indices`, `X_indptr`, `X_shape`, and `y`. Rows are shuffled, and at most `--rows` of them used. Text is tf-idf with
cosines; other features are as they are, but for columns of different units, which are brought to unit variance.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans, SpectralClustering
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfTransformer

import gpuensemble as ge

# name of a set: file, view, whether it is text, whether columns have units of their own
DEV = {
    "digits": (None, "", False, False),
    "mf-pix": ("digit_mf", "0", False, False),
    "mf-fou": ("digit_mf", "1", False, False),
    "mf-fac": ("digit_mf", "2", False, False),
    "mf-kar": ("digit_mf", "4", False, False),
    "semeion": ("semeion", "", False, False),
    "pendigits": ("pendigits", "", False, False),
    "coil20": ("coil20", "", False, False),
    "orl": ("orl", "", False, False),
    "breast_w": ("breast_w", "", False, False),
    "bbcsport": ("bbcsport2", "0", True, False),
    "k1b": ("k1b", "", True, False),
    "tr11": ("tr11", "", True, False),
}
ASIDE = {  # looked at once, when all choices were made
    "mf-zer": ("digit_mf", "3", False, False),
    "tr12": ("tr12", "", True, False),
    "3sources": ("3sources_169", "0", True, False),
    "jaffe": ("jaffe676", "", False, False),
    "iris": ("iris", "", False, True),
    "wine": ("wine", "", False, True),
    "glass": ("glass", "", False, True),
    "ionosphere": ("ionosphere", "", False, True),
    "tr23": ("tr23", "", True, False),
    "breasttissue": ("breasttissue", "", False, True),
}
WAYS = {
    "neighbor-graph": ge.generate.neighbor_graph,
    "spectral": ge.generate.spectral,
    "landmark-spectral": ge.generate.landmark_spectral,
    "random-k": lambda X, k, r, **kw: ge.generate.random_k(X, r, (k, max(k, round(X.shape[0] ** 0.5))), **kw),
    "random-features": ge.generate.random_features,
    "subsample": ge.generate.subsample,
    "leiden": lambda X, k, r, **kw: ge.generate.leiden(X, n_seeds=max(1, r // 5), **kw),  # of five resolutions
}
METHODS = {
    "cluster-walk": lambda k, seed: ge.ClusterWalk(k, random_state=seed, device="cpu"),
    "sec-entropy": lambda k, seed: ge.SEC(k, cluster_weight="entropy", random_state=seed, device="cpu"),
    "lwgp": lambda k, seed: ge.LWGP(k, random_state=seed, device="cpu"),
}


def load(folder, name, seed, n_rows):
    """Shuffled features and classes, and the distance that suits them."""
    file, view, text, units = {**DEV, **ASIDE}[name]
    if file is None:
        X, y = load_digits(return_X_y=True)
    else:
        data = np.load(folder / f"{file}.npz")
        y = data["y"]
        if f"X{view}" in data:
            X = data[f"X{view}"].astype(float)
        else:
            parts = tuple(data[f"X{view}_{part}"] for part in ("data", "indices", "indptr"))
            X = csr_matrix((parts[0].astype(float), *parts[1:]), shape=tuple(data[f"X{view}_shape"]))
    X = TfidfTransformer().fit_transform(X) if text else X
    if text:
        kept = np.asarray(X.sum(1)).ravel() > 0
        X, y = X[kept], y[kept]
    elif units:
        X = X / np.where(X.std(0) > 0, X.std(0), 1)
    rows = np.random.default_rng(seed).permutation(len(y))[:n_rows]
    return X[rows], y[rows], "cosine" if text else "sqeuclidean"


def consensus(X, y, distance, seed, ways, methods, n_partitions):
    """NMI, ARI and seconds of each way with each method."""
    k, rows = len(np.unique(y)), {}
    for way in ways:
        begin = time.perf_counter()
        labels = WAYS[way](X, k, n_partitions, distance=distance, random_state=seed, device="cpu")
        seconds = time.perf_counter() - begin
        for method in methods:
            begin = time.perf_counter()
            found = METHODS[method](k, seed).fit_predict(labels)
            took = seconds + time.perf_counter() - begin
            rows[way, method] = ge.metrics.nmi(y, found), ge.metrics.ari(y, found), took
    return rows


def single(X, y, distance, seed):
    """NMI, ARI and seconds of single runs of scikit-learn, on rows of length 1 for text."""
    k, rows = len(np.unique(y)), {}
    dense = np.asarray(X.todense()) if hasattr(X, "todense") else X
    if distance == "cosine":
        dense = dense / np.linalg.norm(dense, axis=1, keepdims=True)
    estimators = {
        "k-means": KMeans(k, n_init=10, random_state=seed),
        "Ward": AgglomerativeClustering(k),
        "spectral": SpectralClustering(k, affinity="nearest_neighbors", random_state=seed),
        "HDBSCAN": HDBSCAN(min_cluster_size=max(5, len(y) // 100), copy=True),
    }
    for name, estimator in estimators.items():
        begin = time.perf_counter()
        found = estimator.fit_predict(dense)
        found = np.where(found < 0, found.max() + 1, found)  # what HDBSCAN calls noise is one cluster
        rows["scikit-learn", name] = ge.metrics.nmi(y, found), ge.metrics.ari(y, found), time.perf_counter() - begin
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default="dev")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--single", action="store_true")
    options = parser.parse_args()
    chosen = {"dev": [*DEV], "aside": [*ASIDE], "all": [*DEV, *ASIDE]}.get(options.sets, options.sets.split(","))
    warnings.simplefilter("ignore")
    found = {}
    for name in chosen:
        for seed in range(options.seeds):
            X, y, distance = load(options.data, name, seed, options.rows)
            rows = (
                single(X, y, distance, seed)
                if options.single
                else consensus(
                    X, y, distance, seed, options.ways.split(","), options.methods.split(","), options.partitions
                )
            )
            for key, values in rows.items():
                found.setdefault(key, {}).setdefault(name, []).append(values)
        print(name, {"/".join(key): round(float(np.mean(at[name], 0)[0]), 3) for key, at in found.items()}, flush=True)
    print("\n| base partitions | consensus | NMI | ARI | s |", " | ".join(chosen), "|", sep=" ")
    print("|---" * (5 + len(chosen)) + "|")
    for (way, method), at in found.items():
        means = np.array([np.mean(at[name], 0) for name in chosen])
        cells = " | ".join(f"{100 * value:.1f}" for value in means[:, 0])
        nmi, ari, seconds = means.mean(0)
        print(f"| {way} | {method} | {100 * nmi:.1f} | {100 * ari:.1f} | {seconds:.2f} | {cells} |")


if __name__ == "__main__":
    main()
