"""Base partitions of features against a loop over scikit-learn's KMeans, with the same numbers of clusters.

python bench/bench_generate.py --threads 1 [--repeat 3] [--only float32]
python bench/bench_generate.py many

`many` makes 100 partitions of 70,000 x 784 float32 once, and every fourth of them by the loop, one run of each.

On a loaded machine scikit-learn with several threads was at times many times slower: compare with --threads 1.
tol = 0 on both sides: the two stop by different rules, so both run until no label changes, or 20 iterations.
"""

import sys

import harness

N, D, R, LOW, HIGH, MAX_ITER = 20_000, 784, 6, 10, 60, 20


def images(n, dtype, overlap):
    """Like handwritten digits: 40 groups of 12 directions each, values in 0 .. 1; or one broad cloud."""
    import numpy as np

    rng = np.random.default_rng(0)
    if overlap:
        return (rng.standard_normal((n, 25)) @ rng.standard_normal((25, D)) + rng.standard_normal((n, D))).astype(dtype)
    X, group = np.empty((n, D), dtype), rng.integers(0, 40, n)
    for j in range(40):
        rows = np.flatnonzero(group == j)
        spread = rng.standard_normal((len(rows), 12)) @ rng.standard_normal((12, D)) * 0.15
        X[rows] = np.clip(rng.random(D) ** 4 + spread + 0.1 * rng.standard_normal((len(rows), D)), 0, 1)
    return X


def partitions():
    """random_k, seeding included, against a loop; scikit-learn works with all threads on one partition at a time."""
    from gpuensemble import generate

    for dtype in ("float32", "float64"):
        for overlap in (False, True):
            X = images(N, dtype, overlap)

            def ours(X=X):
                return generate.random_k(X, R, (LOW, HIGH), 0, "cpu", max_iter=MAX_ITER, tol=0).T

            counts = (ours().max(1) + 1).tolist()

            def theirs(X=X, counts=counts):
                return [peer(X, k, "k-means++") for k in counts]

            def agree(one, two, X=X):
                """Starts differ; the squared distances to the means may be 2 % more."""
                return sum(scatter(X, labels) for labels in one) < 1.02 * sum(scatter(X, labels) for labels in two)

            kind = "one cloud" if overlap else "groups"
            name = f"random_k, {dtype}, {kind}, n={N:,} d={D}, {R} partitions, k in {LOW} .. {HIGH}"
            yield harness.Case(name, {"gpuensemble": ours, "scikit-learn": theirs}, "scikit-learn", agree, wanted=1)


def one_partition():
    """k-means alone, from the same centres, in one thread each: dense, and sparse like text."""
    import numpy as np
    from scipy.sparse import random_array
    from threadpoolctl import threadpool_limits

    from gpuensemble._array.csr import matrix
    from gpuensemble._kmeans.features.lloyd import kmeans

    text = random_array((N, 10_000), density=0.006, format="csr", dtype="float32", rng=np.random.default_rng(2))
    dense = images(N, "float32", overlap=False)
    for X, k in ((dense, 10), (dense, 60), (text, 30)):
        rows = X[np.random.default_rng(1).choice(N, k, replace=False)]
        start = rows if X is dense else rows.toarray()

        def ours(X=X, start=start):
            with threadpool_limits(1):
                given = matrix(X, "X", "cpu")
                return kmeans(given, len(start), None, init=start, max_iter=MAX_ITER, tol=0).labels

        def theirs(X=X, start=start):
            with threadpool_limits(1):
                return peer(X, len(start), start)

        def agree(one, two):
            return bool((one == two).mean() > 0.9)  # scikit-learn assigns the rows once more after the last iteration

        name = f"kmeans, float32, {'groups' if X is dense else 'sparse'}, k={k}, given start, 1 thread"
        yield harness.Case(name, {"gpuensemble": ours, "scikit-learn": theirs}, "scikit-learn", agree, wanted=1)


def peer(X, k, init):
    """Labels of scikit-learn's Lloyd iteration."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(k, init=init, n_init=1, max_iter=MAX_ITER, tol=0, algorithm="lloyd", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X).labels_


def scatter(X, labels):
    """The sum of squared distances to the means of the clusters."""
    import numpy as np

    groups = [X[labels == k].astype("float64") for k in np.unique(labels)]
    return sum(float(((rows - rows.mean(0)) ** 2).sum()) for rows in groups)


def many():
    """A hundred partitions of as many rows as MNIST has, on all threads."""
    import time

    from gpuensemble import generate

    X = images(70_000, "float32", overlap=False)
    generate.random_k(X[:2000], 2, (LOW, HIGH), 0, "cpu", max_iter=2)  # compiles
    start = time.perf_counter()
    labels = generate.random_k(X, 100, (LOW, HIGH), 0, "cpu", max_iter=MAX_ITER, tol=0)
    ours = time.perf_counter() - start
    print(f"100 partitions of 70,000 x 784, k in {LOW} .. {HIGH}, {MAX_ITER} iterations: {ours:.0f} s", flush=True)
    chosen = range(0, 100, 4)
    start = time.perf_counter()
    found = [peer(X, int(labels[:, i].max()) + 1, "k-means++") for i in chosen]
    theirs = (time.perf_counter() - start) * 4
    ratio = sum(scatter(X, labels[:, i]) for i in chosen) / sum(scatter(X, one) for one in found)
    print(
        f"scikit-learn, from every fourth of them: {theirs:.0f} s, {theirs / ours:.2f}x; scatter {ratio:.4f} of theirs"
    )


def cases():
    yield from partitions()
    yield from one_partition()


if __name__ == "__main__":
    many() if sys.argv[1:] == ["many"] else harness.main(cases)
