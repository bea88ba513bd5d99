"""How often choose_k, and each of its criteria, finds the number of classes of real data.

python bench/bench_choose_k.py DATA [--sets all] [--rows 500] [--bootstrap 6] [--largest 15]

DATA is that of `bench_features.py`. Base partitions are made of features anew for each K ("features"), or once, into 2
to sqrt(n) clusters by k-means ("labels"). A criterion chooses where it is greatest, PAC where it is least, and
`area_change` the last K at which it is more than 0.05. "one error" is the smallest K whose excess is within one error
of the greatest.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from bench_features import ASIDE, DEV, load

import gpuensemble as ge

SLOW = ("coil20", "orl")  # of 20 and 40 classes


def of_features(X, distance, numbers, n_bootstrap):
    """Base partitions of neighbour graphs, for each K."""
    consensus = ge.ConsensusClustering(2, distance=distance, device="cpu")
    return ge.choose_k(X, numbers, consensus=consensus, n_bootstrap=n_bootstrap, random_state=0, device="cpu")


def of_labels(X, distance, numbers, n_bootstrap):
    """One table of 40 partitions."""
    most = round(X.shape[0] ** 0.5)
    labels = ge.generate.random_k(X, 40, (2, most), random_state=0, device="cpu", distance=distance)
    return ge.choose_k(labels, numbers, n_bootstrap=n_bootstrap, random_state=0, device="cpu")


def chosen(found):
    """The K of each criterion; 0 for none."""
    table = found.table
    best = table["excess"].idxmax()
    near = table.index[table["excess"] >= table["excess"][best] - table["excess_error"][best]]
    grows = table.index[table["area_change"] > 0.05]
    return {
        "recommended": found.recommended or 0,
        "excess": best,
        "one error": near[0],
        "pac": table["pac"].idxmin(),
        "area_change": grows[-1] if len(grows) else 0,
        "eigengap": table["eigengap"].idxmax(),
        "cluster_consensus": table["cluster_consensus"].idxmax(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default="all")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--bootstrap", type=int, default=6)
    parser.add_argument("--largest", type=int, default=15)
    options = parser.parse_args()
    every = [name for name in [*DEV, *ASIDE] if name not in SLOW]
    names = every if options.sets == "all" else options.sets.split(",")
    warnings.simplefilter("ignore")
    for way in (of_features, of_labels):
        begin, rows, classes = time.perf_counter(), {}, []
        for name in names:
            X, y, distance = load(options.data, name, 0, options.rows)
            classes.append(len(np.unique(y)))
            for criterion, k in chosen(way(X, distance, range(2, options.largest + 1), options.bootstrap)).items():
                rows.setdefault(criterion, []).append(k)
        print(f"\n{way.__name__}, {time.perf_counter() - begin:.0f} s\n")
        print("| criterion | hit | within one |", " | ".join(names), "|")
        print("|---" * (3 + len(names)) + "|")
        print("| classes | | |", " | ".join(map(str, classes)), "|")
        for criterion, ks in rows.items():
            away = np.abs(np.array(ks) - classes)
            cells = " | ".join(str(k) if k else "-" for k in ks)
            print(f"| {criterion} | {(away == 0).sum()} | {(away <= 1).sum()} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
