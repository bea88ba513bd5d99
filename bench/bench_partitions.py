"""How long base partitions of neighbour graphs take, and how they grow.

python bench/bench_partitions.py neighbors [--rows 100000] [--columns 50]   # recall and seconds of every search
python bench/bench_partitions.py large [--rows 70000] [--columns 784]       # 20 partitions of neighbour graphs
python bench/bench_partitions.py landmarks [--rows 100000] [--columns 50]   # landmark spectral, n and 10 n rows
python bench/bench_partitions.py spectral [--rows 10000]                    # beside one run of scikit-learn's
python bench/bench_partitions.py louvain                                    # beside leidenalg, on ten graphs

Features are made: 50 clusters, each a cloud of 12 dimensions turned into all columns, with a little noise.
"""

import argparse
import resource
import time
import warnings

import numpy as np

import gpuensemble as ge


def made(n, d, seed=0, inner=12, k=50):
    """Rows of k clusters of few dimensions each, float32, and their clusters."""
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    centers, turns = rng.normal(size=(k, d)), rng.normal(size=(k, inner, d)) / np.sqrt(inner)
    X = 0.1 * rng.standard_normal((n, d), dtype="float32")
    for c in range(k):
        X[y == c] += (centers[c] + rng.normal(size=((y == c).sum(), inner)) @ turns[c]).astype("float32")
    return X, y


def timed(call):
    """What a call gives, and its seconds."""
    begin = time.perf_counter()
    found = call()
    return found, time.perf_counter() - begin


def memory():
    """The most memory so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def neighbors(n, d):
    X, _ = made(n, d)
    for method in ("inverted", "hnsw", "nndescent", "exact"):
        ge.neighbors.nearest(X[:2000], method=method, random_state=0, device="cpu")  # compiles
        for probes in (3, 5, 10, 20) if method == "inverted" else (10,):
            found, seconds = timed(
                lambda method=method, probes=probes: ge.neighbors.nearest(
                    X, method=method, n_probes=probes, random_state=0, device="cpu"
                )
            )
            print(f"{method:10} {probes:3} probes  recall {found.recall:.4f}  {seconds:7.1f} s", flush=True)


def large(n, d):
    X, y = made(n, d)
    before = memory()
    ge.generate.neighbor_graph(X[:2000], 50, 5, random_state=0, device="cpu")  # compiles
    labels, seconds = timed(lambda: ge.generate.neighbor_graph(X, 50, random_state=0, device="cpu"))
    found, more = timed(lambda: ge.SEC(50, cluster_weight="entropy", random_state=0, device="cpu").fit_predict(labels))
    print(f"{n} x {d}: {seconds:.1f} s for 20 partitions, {more:.1f} s for SEC, NMI {ge.metrics.nmi(y, found):.4f}, ")
    print(f"{memory():.2f} GB at most, {before:.2f} GB before")


def landmarks(n, d):
    for rows in (n, 10 * n):
        X, y = made(rows, d)
        labels, seconds = timed(lambda X=X: ge.generate.landmark_spectral(X, 50, random_state=0, device="cpu"))
        mean = np.mean([ge.metrics.nmi(y, labels[:, i]) for i in range(5)])
        print(f"{rows} x {d}: {seconds:.1f} s, NMI of a partition {mean:.4f}, {memory():.2f} GB", flush=True)


def spectral(n, d):
    from sklearn.cluster import SpectralClustering

    X, y = made(n, d, k=20)
    ours = ge.ConsensusClustering(20, random_state=0, device="cpu")
    ours.fit(X[:1000])  # compiles
    found, seconds = timed(lambda: ours.fit_predict(X))
    theirs = SpectralClustering(20, affinity="nearest_neighbors", random_state=0)
    single, peer = timed(lambda: theirs.fit_predict(X))
    scores = ge.metrics.nmi(y, found), ge.metrics.nmi(y, single)
    print(f"{n} x {d}: 20 partitions and consensus {seconds:.1f} s (NMI {scores[0]:.4f}), ", end="")
    print(f"SpectralClustering {peer:.1f} s (NMI {scores[1]:.4f}): {peer / seconds:.1f} x")


def louvain(*_):
    import igraph
    import leidenalg

    for name, graph in ten_graphs().items():
        matrix = graph.get_adjacency_sparse().astype(float)
        ge.communities.louvain(matrix[:100, :100], device="cpu")  # compiles
        ours, seconds = timed(lambda matrix=matrix: ge.communities.louvain(matrix, random_state=0, device="cpu"))
        kind = leidenalg.RBConfigurationVertexPartition
        theirs, peer = timed(lambda graph=graph, kind=kind: leidenalg.find_partition(graph, kind, seed=0))
        one, other = (
            ge.communities.modularity(matrix, labels, device="cpu") for labels in (ours, np.array(theirs.membership))
        )
        size = f"{graph.vcount()} nodes, {graph.ecount()} edges"
        print(f"{name:12} {size:30} ours {one:.4f} {seconds:6.2f} s   leidenalg {other:.4f} {peer:6.2f} s", flush=True)
    print(igraph.__version__)


def ten_graphs():
    """Graphs with and without communities, and neighbour graphs."""
    import random

    import igraph
    from sklearn.datasets import load_digits

    random.seed(0)
    X = made(100_000, 10)[0]
    return {
        "karate": igraph.Graph.Famous("Zachary"),
        "digits 5": neighbor_graph(load_digits().data, 5),
        "digits 20": neighbor_graph(load_digits().data, 20),
        "noise": neighbor_graph(np.random.default_rng(0).normal(size=(20_000, 10)), 10),
        "clusters": neighbor_graph(X, 10),
        "lattice": igraph.Graph.Lattice([200, 200]),
        "Barabasi": igraph.Graph.Barabasi(20_000, 5),
        "Erdos-Renyi": igraph.Graph.Erdos_Renyi(n=20_000, m=100_000),
        "10^6 edges": igraph.Graph.Erdos_Renyi(n=100_000, m=1_000_000),
        "blocks": igraph.Graph.SBM((np.full((20, 20), 0.0001) + 0.009 * np.eye(20)).tolist(), [1000] * 20),
    }


def neighbor_graph(X, q):
    import igraph

    found = ge.neighbors.nearest(X, q, random_state=0, device="cpu").indices
    edges = np.stack([np.repeat(np.arange(len(X)), q), found.ravel()], 1)
    return igraph.Graph(n=len(X), edges=edges).simplify()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs = {"neighbors": neighbors, "large": large, "landmarks": landmarks, "spectral": spectral, "louvain": louvain}
    parser.add_argument("what", choices=runs)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--columns", type=int)
    options = parser.parse_args()
    n, d = {"large": (70_000, 784), "spectral": (10_000, 50)}.get(options.what, (100_000, 50))
    warnings.simplefilter("ignore")
    runs[options.what](options.rows or n, options.columns or d)


if __name__ == "__main__":
    main()
