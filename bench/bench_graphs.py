"""Methods on graphs of clusters against SEC: time, memory and what they find, on made data.

python bench/bench_graphs.py linear [--samples 1000000]   # r = 50, about 2000 clusters, a fifth of the labels at random
python bench/bench_graphs.py many [--samples 200000]      # r = 100, about 23,000 clusters
python bench/bench_graphs.py small [--samples 1000]        # r = 20, after a first fit
python bench/bench_graphs.py tree [--samples 20000]       # EAC against SciPy's average linkage of the matrix

Each method runs in a process of its own, which tells its largest memory.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

import gpuensemble as ge
from gpuensemble.estimators._base.registry import of_labels

K = 20


def noisy(n, r=50, seed=0):
    """Each of 20 classes is spread over three clusters of each partition; a fifth of the labels are random."""
    rng = np.random.default_rng(seed)
    truth, columns = rng.integers(0, K, n), []
    for _ in range(r):
        k = rng.integers(20, 61)
        labels = rng.integers(0, k, (K, 3))[truth, rng.integers(0, 3, n)]
        stray = rng.random(n) < 0.2
        labels[stray] = rng.integers(0, k, stray.sum())
        columns.append(labels.astype("uint8"))
    return truth, np.stack(columns, axis=1)


def cells(n, r=100, seed=0):
    """20 blobs that overlap, cut into the cells of 20 to sqrt(n) random points of them by each partition."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, n)
    points = (1.5 * rng.standard_normal((K, 6))[truth] + rng.standard_normal((n, 6))).astype("float32")
    labels = np.empty((n, r), "int16")
    for i in range(r):
        centers = points[rng.choice(n, rng.integers(K, int(n**0.5)), replace=False)]
        for first in range(0, n, 20_000):
            some = points[first : first + 20_000]
            labels[first : first + 20_000, i] = ((centers**2).sum(1) - 2 * some @ centers.T).argmin(1)
    return truth, labels


CASES = {
    "linear": (noisy, 1_000_000, ("sec", "cluster-walk", "lwgp", "mcla", "mcla-spectral", "ecpcs", "voting")),
    "many": (
        cells,
        200_000,
        ("sec", "sec-entropy", "cluster-walk", "mcla-spectral", "ecpcs", "lwgp"),
    ),
    "small": (cells, 1000, ("cluster-walk", "lwgp", "lwea", "ecpcs", "ecpcs-hc", "mcla", "pta", "ptgp", "eac", "sec")),
    "tree": (cells, 20_000, ("eac", "lwea", "scipy")),
}


def fitted(name, truth, labels):
    """Seconds, seconds of the processor, and the score of a fit; SciPy links the whole matrix."""
    begin, processor = time.perf_counter(), time.process_time()
    found = scipy(labels) if name == "scipy" else of_labels()[name].make(K, 0, "cpu").fit(labels).labels_
    facts = {"seconds": time.perf_counter() - begin, "processor": time.process_time() - processor}
    return facts | {"nmi": float(ge.metrics.nmi(truth, found))}


def scipy(labels):
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distance = 1 - ge.coassociation(labels, device="cpu")
    np.fill_diagonal(distance, 0)
    return fcluster(linkage(squareform(distance, checks=False), "average"), K, "maxclust") - 1


def child(case, name, n):
    """Print the facts of one method, after a fit of fewer rows that compiles what it needs."""
    r = 20 if case in ("small", "tree") else {"linear": 50, "many": 100}[case]
    truth, labels = CASES[case][0](n, r)
    fitted(name, truth[:300], labels[:300])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    facts = fitted(name, truth, labels)
    facts |= {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, "before": before / 1000}
    print(json.dumps(facts | {"clusters": int(ge.Membership.from_labels(labels, "cpu").n_columns)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--method", help=argparse.SUPPRESS)
    options = parser.parse_args()
    _, usual, names = CASES[options.case]
    n = options.samples or usual
    if options.method:
        child(options.case, options.method, n)
        return
    for name in names:
        command = [sys.executable, __file__, options.case, "--samples", str(n), "--method", name]
        facts = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        text = "{seconds:8.3f} s, {processor:8.3f} s of the processor, {megabytes:6.0f} MB ({before:.0f} before)"
        size = f"n = {n:,}, C = {facts['clusters']:,}"
        print(f"{name:16} {text.format(**facts)}, NMI {facts['nmi']:.3f}, {size}", flush=True)


if __name__ == "__main__":
    main()
