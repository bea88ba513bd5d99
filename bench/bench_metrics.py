"""Scores of all pairs of partitions against a loop over scikit-learn's, and stability against the n x n matrix.

python bench/bench_metrics.py [--repeat 3] [--only ami]
"""

import itertools

import harness


def noisy(n, r, k):
    """Copies of a partition, 40 % of whose labels are drawn anew."""
    import numpy as np

    rng = np.random.default_rng(0)
    truth = rng.integers(0, k, n)
    return truth, np.where(rng.random((n, r)) < 0.6, truth[:, None], rng.integers(0, k, (n, r)))


def pairwise():
    """Scikit-learn scores each pair by itself."""
    import numpy as np
    from sklearn import metrics as theirs

    from gpuensemble import metrics

    n, r, k = 100_000, 20, 10
    _, labels = noisy(n, r, k)
    peers = {
        "nmi": lambda y, z: theirs.normalized_mutual_info_score(y, z, average_method="geometric"),
        "ami": theirs.adjusted_mutual_info_score,
        "ari": theirs.adjusted_rand_score,
    }
    for name, score in peers.items():

        def ours(name=name):
            return metrics.pairwise(labels, name, device="cpu")[np.triu_indices(r, 1)]

        def peer(score=score):
            return np.array([score(labels[:, i], labels[:, j]) for i, j in itertools.combinations(range(r), 2)])

        def agree(one, two):
            return np.allclose(one, two, rtol=0, atol=1e-9)

        title = f"pairwise {name}, n={n:,} r={r} k={k}"
        yield harness.Case(title, {"gpuensemble": ours, "scikit-learn": peer}, "scikit-learn", agree, wanted=1)


def many_clusters():
    """The expectation of the mutual information of partitions with many clusters."""
    import numpy as np
    from sklearn.metrics import adjusted_mutual_info_score

    from gpuensemble import metrics

    n, k = 100_000, 1000
    _, labels = noisy(n, 2, k)
    y, z = labels.T
    candidates = {"gpuensemble": lambda: metrics.ami(y, z), "scikit-learn": lambda: adjusted_mutual_info_score(y, z)}
    yield harness.Case(
        f"ami, n={n:,} k={k:,}", candidates, "scikit-learn", lambda one, two: np.isclose(one, two, 0, 1e-8), wanted=1
    )


def stability():
    """Item consensus from the co-association matrix, n x n."""
    import numpy as np

    import gpuensemble as ge

    n, r, k = 5000, 50, 10
    truth, labels = noisy(n, r, k)

    def dense():
        matrix = ge.coassociation(labels, device="cpu")
        belongs = np.eye(k)[truth]
        own = matrix.diagonal()[:, None] * belongs
        return (matrix @ belongs - own) / (belongs.sum(axis=0) - belongs)

    def ours():
        return ge.stability(labels, truth, device="cpu").item_consensus.to_numpy()

    title = f"stability, n={n:,} r={r} k={k}"
    yield harness.Case(title, {"gpuensemble": ours, "n x n": dense}, "n x n", np.allclose)


def cases():
    """All of them."""
    yield from pairwise()
    yield from many_clusters()
    yield from stability()


if __name__ == "__main__":
    harness.main(cases)
