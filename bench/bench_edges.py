"""Consensus on edges beside single runs: NMI and AMI on LFR graphs, and time and memory on larger ones.

python bench/bench_edges.py quality [--seeds 5]         # LFR graphs of 1000 nodes, mixing 0.3 to 0.6
python bench/bench_edges.py time [--samples 100000]     # seconds and memory of EdgeConsensus alone, 20 partitions
"""

import argparse
import random
import resource
import time

import igraph
import networkx as nx
import numpy as np
from scipy.sparse import coo_array, triu

import gpuensemble as ge

MIXING = (0.3, 0.4, 0.5, 0.6)
RUNS = 10  # single runs, and partitions of one resolution


def lfr(mixing, seed):
    """A graph of the LFR benchmark, and its communities; some draws do not converge, then the next one counts."""
    options = {"average_degree": 15, "max_degree": 50, "min_community": 20, "max_community": 100, "max_iters": 1000}
    for attempt in range(100):
        try:
            graph = nx.LFR_benchmark_graph(1000, 2.5, 1.5, mixing, seed=1000 * seed + attempt, **options)
        except nx.ExceededMaxIterations:
            continue
        graph.remove_edges_from(nx.selfloop_edges(graph))
        members = {frozenset(graph.nodes[node]["community"]) for node in graph}
        truth = np.empty(len(graph), int)
        for label, nodes in enumerate(members):
            truth[list(nodes)] = label
        return nx.to_scipy_sparse_array(graph, nodelist=range(len(graph)), dtype=float), truth
    raise RuntimeError(f"no LFR graph of mixing {mixing}")


def scores(graph, truth, seed):
    """NMI of single runs (their mean), and of the consensus of many."""
    options = {"random_state": seed, "device": "cpu"}
    runs = ge.generate.leiden(graph=graph, resolutions=1.0, n_seeds=RUNS, **options)
    many = ge.generate.leiden(graph=graph, **options)
    louvain = np.stack([ge.communities.louvain(graph, random_state=seed + 100 * i, device="cpu") for i in range(RUNS)])
    fast = {"min_weight": 0, "threshold": 0.8}
    found = {
        "one run of Louvain": louvain,
        "one run of Leiden": runs.T,
        "edges, Leiden x 10": [fitted(runs, graph, {}, options)],
        "edges, Leiden x 10, threshold 0.8": [fitted(runs, graph, fast, options)],
        "edges, 5 resolutions x 4": [fitted(many, graph, {}, options)],
        "edges, 5 resolutions x 4, leiden": [fitted(many, graph, {"method": "leiden"}, options)],
        "edges, first level of Louvain x 10 (ECG)": [fitted(first_levels(graph, seed), graph, {}, options)],
    }
    return {name: np.mean([measured(truth, one) for one in labels], axis=0) for name, labels in found.items()}


def measured(truth, labels):
    return ge.metrics.nmi(truth, labels), ge.metrics.ami(truth, labels), labels.max() + 1


def first_levels(graph, seed):
    """Partitions as ECG makes them: igraph's Louvain, its first level."""
    random.seed(seed)  # which igraph draws from
    made = igraph.Graph(n=graph.shape[0], edges=np.stack(triu(graph).nonzero(), axis=1))
    levels = [made.community_multilevel(return_levels=True)[0].membership for _ in range(RUNS)]
    return np.array(levels).T


def fitted(base, graph, parameters, options):
    return ge.EdgeConsensus(**parameters, **options).fit(base, graph=graph).labels_


def quality(seeds):
    table = {}
    for mixing in MIXING:
        for seed in range(seeds):
            for name, score in scores(*lfr(mixing, seed), seed).items():
                table.setdefault(name, {}).setdefault(mixing, []).append(score)
    title = f"NMI, AMI, clusters; mean of {seeds} graphs"
    print(f"{title:42}" + "".join(f"{'mixing ' + str(mixing):>20}" for mixing in MIXING))
    for name, row in table.items():
        cells = ("{:8.3f}{:6.3f}{:6.0f}".format(*np.mean(row[mixing], axis=0)) for mixing in MIXING)
        print(f"{name:42}" + "".join(cells), flush=True)


def timed(n):
    """Nodes of 100 communities with 20 neighbours each, most of them inside, and 20 noisy partitions."""
    rng = np.random.default_rng(0)
    truth = rng.integers(100, size=n)
    order = np.argsort(truth, kind="stable")
    place = np.argsort(order)
    one = np.repeat(np.arange(n), 10)
    near = order[(place[one] + rng.integers(1, n // 200, size=len(one))) % n]
    two = np.where(rng.random(len(one)) < 0.7, near, rng.integers(n, size=len(one)))
    graph = coo_array((np.ones(len(one)), (one, two)), shape=(n, n)).tocsr()
    graph = graph + graph.T
    base = np.where(rng.random((n, 20)) < 0.8, truth[:, None], rng.integers(100, size=(n, 20))).astype("int32")
    ge.EdgeConsensus(random_state=0, device="cpu").fit(base[:100], graph=graph[:100, :100])
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    found = ge.EdgeConsensus(random_state=0, device="cpu").fit(base, graph=graph)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    facts = f"{graph.nnz // 2:,} edges, {seconds:.2f} s, {(after - before) / 1000:.0f} MB more"
    print(f"n = {n:,}, {facts}, NMI {ge.metrics.nmi(truth, found.labels_):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=("quality", "time"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=100_000)
    options = parser.parse_args()
    if options.case == "quality":
        quality(options.seeds)
    else:
        timed(options.samples)


if __name__ == "__main__":
    main()
