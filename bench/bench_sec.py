"""SEC to convergence against the better of scikit-learn's two k-means, from the same start; holes; the spectral start.

SEC is timed from the caller's table of int64 labels to the labels it finds; scikit-learn's k-means has its CSR matrix.

python bench/bench_sec.py [--only "n=100,000"]
"""

import harness


def ensemble(n, r, k, holes=0.0, clusters=40, noise=0.7):
    """Base partitions of a hidden partition: each cluster falls into three of `clusters`, and some labels are noise."""
    import numpy as np

    rng = np.random.default_rng(0)
    truth = rng.integers(0, k, n)
    codes = np.empty((n, r), np.uint8)
    for i in range(r):
        codes[:, i] = rng.integers(0, clusters, (k, 3))[truth, rng.integers(0, 3, n)]
        wrong = rng.random(n) < noise
        codes[wrong, i] = rng.integers(0, clusters, wrong.sum())
        if holes:
            gone = rng.random(n) < holes
            codes[gone if i else np.zeros(n, bool), i] = 255
    start = rng.integers(0, k, n).astype(np.int32)
    return codes, start


def ours(m, start, k, max_iter=300, skip=True):
    """One run of Lloyd's iteration: its labels, and the share of rows evaluated in each iteration."""
    import numpy as np

    from gpuensemble._kmeans.labels import labellings, lloyd
    from gpuensemble._kmeans.labels.costs import SECCosts
    from gpuensemble._kmeans.labels.weights import Weighting
    from gpuensemble._tables import blocks

    table = blocks.whole(m)
    costs = SECCosts.of(table, Weighting(np.ones(len(m.widths)), None, "float64"))
    run = lloyd.lloyd(lloyd.Problem.of(table, costs, k), labellings.Given(start), max_iter, skip)
    return *table.columns(lloyd.labels_of, (costs, run.labelling), ("int32",)), run.evaluated


def theirs(rows, weight, start, k, algorithm):
    """scikit-learn's k-means on the CSR matrix of b(x) / w(x) from the same centres."""
    import numpy as np
    from sklearn.cluster import KMeans

    indicator = np.zeros((len(start), k))
    indicator[np.arange(len(start)), start] = weight
    centers = np.asarray(rows.T @ indicator).T / indicator.sum(0)[:, None]
    return KMeans(k, init=centers, n_init=1, tol=0, max_iter=300, algorithm=algorithm).fit(rows, sample_weight=weight)


def convergence():
    import numpy as np
    from scipy.sparse import csr_matrix

    from gpuensemble import SEC, Membership

    for n, r, k, clusters in (
        (10_000, 50, 20, 40),
        (100_000, 50, 20, 40),
        (200_000, 100, 50, 100),
        (1_000_000, 50, 20, 40),
    ):
        codes, start = ensemble(n, r, k, clusters=clusters)
        m = Membership(codes, np.full(r, clusters), device="cpu")
        weight = m.degrees().astype(float)
        values = np.repeat(1 / weight, r)
        columns = (codes + m.offsets[:-1]).ravel()
        rows = csr_matrix((values, columns, np.arange(0, n * r + 1, r, dtype=np.int32)), shape=m.shape)
        _, evaluated = ours(m, start, k)
        labels = codes.astype("int64")
        candidates = {
            "SEC.fit of int64 labels": lambda x=labels, s=start, k=k: SEC(k, init=s, device="cpu").fit(x).labels_,
            "its iterations, labels coded": lambda m=m, s=start, k=k: ours(m, s, k)[0],
        }
        for algorithm in ("lloyd", "elkan"):
            candidates[f"scikit-learn {algorithm}"] = lambda a=algorithm, x=rows, w=weight, s=start, k=k: (
                theirs(x, w, s, k, a).labels_
            )
        yield harness.Case(
            f"to convergence, n={n:,} r={r} K={k}",
            candidates,
            peer="scikit-learn lloyd",
            rivals=("scikit-learn lloyd", "scikit-learn elkan"),
            agree=lambda one, two: bool((one == two).mean() >= 0.999),
            wanted=8 if n >= 100_000 else 5,
            notes={"iterations": len(evaluated), "rows_evaluated": round(sum(evaluated), 2)},
        )
        del rows, values, columns


def holes():
    """40 % holes against none, per iteration."""
    import numpy as np

    from gpuensemble import Membership

    n, r, k = 100_000, 50, 20
    memberships = {}
    for share in (0.4, 0.0):
        codes, start = ensemble(n, r, k, holes=share)
        memberships[share] = Membership(codes, np.full(r, 40), device="cpu")

    def five(m):
        return ours(m, start, k, max_iter=5, skip=False)

    yield harness.Case(
        "five iterations with 40 % holes",
        {"40 % holes": lambda: five(memberships[0.4]), "no holes": lambda: five(memberships[0.0])},
        peer="no holes",
        agree=lambda one, two: True,
        wanted=1 / 1.3,
    )


def start():
    """The spectral start against the fit that follows."""
    import numpy as np

    from gpuensemble import Membership
    from gpuensemble._partition import bipartite
    from gpuensemble._tables.blocks import whole

    n, r, k = 1_000_000, 50, 20
    codes, begin = ensemble(n, r, k)
    m = Membership(codes, np.full(r, 40), device="cpu")

    def spectral():
        table = whole(m)
        return bipartite.cut(table, bipartite.of_samples(table), k, np.random.default_rng(0)).labels(table.block)

    yield harness.Case(
        f"spectral start, n={n:,}",
        {
            "spectral start": spectral,
            "fit from a random start": lambda: ours(m, begin, k)[0],
        },
        peer="fit from a random start",
        agree=lambda one, two: True,
    )


def cases():
    yield from convergence()
    yield from holes()
    yield from start()


if __name__ == "__main__":
    harness.main(cases)
