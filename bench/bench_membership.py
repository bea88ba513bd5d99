"""The membership operator against scikit-learn's Lloyd iteration and SciPy's CSR products, at n = 200,000.

python bench/bench_membership.py [--threads 1]
"""

import harness

N, R, K, CLUSTERS = 200_000, 100, 50, 100


def ensemble():
    """A ground truth of K clusters, which every base partition sees through 30 % noise; and the CSR matrix of it."""
    import numpy as np
    from scipy.sparse import csr_matrix

    from gpuensemble import Membership

    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, N)
    codes = np.empty((N, R), np.uint8)
    for i in range(R):
        codes[:, i] = rng.integers(0, CLUSTERS, (K, 3))[truth, rng.integers(0, 3, N)]
        noise = rng.random(N) < 0.3
        codes[noise, i] = rng.integers(0, CLUSTERS, noise.sum())
    m = Membership(codes, np.full(R, CLUSTERS), device="cpu")
    columns = (codes + m.offsets[:-1]).ravel()
    matrix = csr_matrix((np.ones(N * R), columns, np.arange(0, N * R + 1, R)), shape=(N, m.n_columns))
    return m, matrix, truth


def lloyd():
    """One iteration of weighted k-means on the rows b(x) / w(x): SEC's, against scikit-learn's own kernel."""
    import numpy as np
    from scipy.sparse import diags_array
    from sklearn.cluster._k_means_lloyd import lloyd_iter_chunked_sparse

    m, matrix, truth = ensemble()
    rng = np.random.default_rng(1)
    start = np.where(rng.random(N) < 0.5, truth, rng.integers(0, K, N)).astype(np.int32)
    degrees = m.degrees()
    counts = m.count(start, K)
    total = np.bincount(start, degrees, K)
    centers = counts / total
    weight = degrees.astype(float)
    rows = diags_array(1 / weight).tocsr() @ matrix
    rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    n_threads = _threads()

    def ours():
        labels, _ = m.assign(-2 * centers, np.tile((centers**2).sum(0) / R, (R, 1)), weight)
        return labels, m.count(labels, K)

    def theirs():
        labels, shift, weight_in = np.full(N, -1, np.int32), np.zeros(K), np.zeros(K)
        given = np.ascontiguousarray(centers.T)
        new = np.zeros_like(given)
        lloyd_iter_chunked_sparse(rows, weight, given, new, weight_in, labels, shift, n_threads)
        return labels, new

    def agree(one, two):
        return bool((one[0] == two[0]).mean() > 0.9999)

    codes_bytes, table_bytes = m.codes.nbytes, centers.nbytes
    yield harness.Case(
        f"assign + count, n={N:,} r={R} K={K} C={m.n_columns:,}",
        {"gpuensemble": ours, "scikit-learn Lloyd iteration": theirs},
        peer="scikit-learn Lloyd iteration",
        agree=agree,
        wanted=3,
        notes={
            "codes_bytes": codes_bytes,
            "table_bytes": table_bytes,
            "csr_bytes": rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes,
        },
    )


def products():
    """H @ table and H.T @ rows against SciPy's, which has one thread."""
    import numpy as np

    m, matrix, _ = ensemble()
    transposed = matrix.T
    rng = np.random.default_rng(2)

    def agree(one, two):
        return bool(np.allclose(one, two))

    for n_columns in (1, 10, K):
        table, rows = rng.standard_normal((m.n_columns, n_columns)), rng.standard_normal((N, n_columns))
        pairs = {
            "gather_sum": (lambda table=table: m.gather_sum(table), lambda table=table: matrix @ table),
            "scatter_add": (lambda rows=rows: m.scatter_add(rows), lambda rows=rows: transposed @ rows),
        }
        for name, (ours, theirs) in pairs.items():
            candidates = {"gpuensemble": ours, "SciPy CSR product": theirs}
            yield harness.Case(f"{name}, {n_columns} columns", candidates, "SciPy CSR product", agree, wanted=1)


def _threads():
    import numba

    return numba.config.NUMBA_NUM_THREADS


def cases():
    yield from lloyd()
    yield from products()


if __name__ == "__main__":
    harness.main(cases)
