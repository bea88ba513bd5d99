"""How far the votes of `predict_proba` are from calibrated, on scikit-learn's digits.

python bench/bench_votes.py [--draws 3] [--partitions 50]
"""

import argparse

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix

import gpuensemble as ge

METHODS = ("ClusterWalk", "LWGP", "HBGF", "MCLA", "Voting", "SEC", "KCC")
BINS = 10


def pools(X, n_partitions, seed):
    """Base partitions of the digits, two ways."""
    yield "random_k", ge.generate.random_k(X, n_partitions, random_state=seed, device="cpu")
    yield "neighbor_graph", ge.generate.neighbor_graph(X, 10, n_partitions, random_state=seed, device="cpu")


def measured(base, truth, method, seed):
    """Greatest share on average, how often its label is right, calibration error, and how often `predict` differs."""
    fitted = getattr(ge, method)(10, random_state=seed, device="cpu").fit(base)
    proba = fitted.predict_proba(base)
    top, share = proba.argmax(axis=1), proba.max(axis=1)
    digit = linear_sum_assignment(confusion_matrix(fitted.labels_, truth, labels=range(10)), maximize=True)[1]
    right = digit[top] == truth
    place = np.minimum((share * BINS).astype(int), BINS - 1)
    gaps = [abs(right[place == i].sum() - share[place == i].sum()) for i in range(BINS)]
    return share.mean(), right.mean(), sum(gaps) / len(truth), (top != fitted.labels_).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=50)
    options = parser.parse_args()
    X, truth = load_digits(return_X_y=True)
    rows = {}
    for seed in range(options.draws):
        for pool, base in pools(X, options.partitions, seed):
            for method in METHODS:
                rows.setdefault((pool, method), []).append(measured(base, truth, method, seed))
    print(
        "| pool | method | mean greatest share | right | calibration error | not the label |\n|---|---|---|---|---|---|"
    )
    for (pool, method), found in sorted(rows.items()):
        print(f"| {pool} | {method} | " + " | ".join(f"{value:.3f}" for value in np.mean(found, axis=0)) + " |")


if __name__ == "__main__":
    main()
