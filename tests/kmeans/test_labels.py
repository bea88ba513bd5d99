"""Laws of SEC and KCC as k-means over the membership operator, against the papers' definitions and scikit-learn."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans

from gpuensemble._array.devices import namespace, to_host
from gpuensemble._kmeans.labels import labellings, lloyd, seeding
from gpuensemble._kmeans.labels.costs import KCCCosts, SECCosts
from gpuensemble._kmeans.labels.weights import Weighting, entropy_weights
from gpuensemble._tables.blocks import whole
from support import membership, onehot, random_codes

UTILITIES = ("category", "entropy", "cosine")
METHODS = ("SEC", "SEC with cluster weights", *UTILITIES, *(f"normalized {name}" for name in UTILITIES))


def make_costs(name, table, mu, dtype="float64"):
    if name.startswith("SEC"):
        weights = entropy_weights(table) if "weights" in name else None
        return SECCosts.of(table, Weighting(mu, weights, dtype))
    return KCCCosts.of(name.split()[-1], name.startswith("normalized"), table, Weighting(mu, None, dtype))


@st.composite
def ensembles(draw, max_n=60):
    """Codes of noisy copies of a partition, widths, a number of clusters, a start, and partition weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, r, n_clusters = draw(st.integers(6, max_n)), draw(st.integers(1, 6)), draw(st.integers(1, 5))
    truth = rng.integers(0, n_clusters, n)
    widths = rng.integers(1, 7, r)
    clean = np.stack([rng.integers(0, width, n_clusters)[truth] for width in widths], axis=1)
    noisy = random_codes(rng, n, widths, draw(st.sampled_from([0, 0.3, 0.7])))
    codes = np.where((rng.random(clean.shape) < 0.7) & (noisy >= 0), clean, noisy)
    return codes, widths, n_clusters, rng.integers(0, n_clusters, n).astype(np.int32), rng.random(r) + 0.1


class Result(NamedTuple):
    labels: np.ndarray
    objective: float
    path: list
    evaluated: list
    converged: bool


def run(xp, name, ensemble, multiplicity=None, **kwargs):
    codes, widths, n_clusters, start, mu = ensemble
    table = whole(membership(xp, codes, widths), multiplicity)
    problem = lloyd.Problem.of(table, make_costs(name, table, mu), n_clusters)
    options = {"max_iter": 100, "skip": True} | kwargs  # tables are small here: nothing would be left out by default
    found = lloyd.lloyd(problem, labellings.Given(xp.asarray(start)), **options)
    (labels,) = table.columns(lloyd.labels_of, (problem.costs, found.labelling), ("int32",))
    assert namespace(labels) is xp
    return Result(to_host(labels), found.objective, found.path, found.evaluated, found.converged)


def distance(name, b, m):
    """The point-to-centre distances of METHODS, of one-hot rows b to a centre m."""
    if name == "category":
        return ((b - m) ** 2).sum(1)
    if name == "entropy":
        with np.errstate(divide="ignore"):
            return -np.log(b @ m)
    return 1 - b @ m / np.sqrt((m**2).sum())


def defined_objective(name, ensemble, labels):
    """The objective by its definition, from the dense one-hot matrix."""
    codes, widths, n_clusters, _, mu = ensemble
    dense, ends = onehot(codes, widths), np.cumsum(widths)
    degrees = dense @ dense.sum(0)
    total = 0.0
    for i in range(len(widths)):
        part = dense[:, ends[i] - widths[i] : ends[i]]
        seen = part.any(1)
        size = part.sum(0) / max(1, part.sum())
        for k in range(n_clusters):
            inside = (labels == k) & seen
            if not inside.any():
                continue
            b, w = part[inside], degrees[inside][:, None]
            if name == "SEC":
                total += mu[i] * (w * (b / w - b.sum(0) / w.sum()) ** 2).sum()
                continue
            utility = name.split()[-1]
            entropy = -(size[size > 0] * np.log(size[size > 0])).sum()
            norm = {"category": (size**2).sum(), "entropy": entropy, "cosine": np.sqrt((size**2).sum())}[utility]
            nu = 1.0 if not name.startswith("normalized") else 0.0 if widths[i] == 1 else 1 / norm if norm else 0.0
            total += mu[i] * nu * distance(utility, b, b.mean(0)).sum()
    return total


@pytest.mark.parametrize("name", [name for name in METHODS if "weights" not in name])
@given(ensemble=ensembles())
@settings(max_examples=20)
def test_the_objective_is_the_definition_and_never_rises(name, ensemble):
    """Theorems 6 and 7 of SEC, with and without holes; Table 3 of CMVC for the utilities of KCC."""
    result = run(np, name, ensemble)
    assert result.objective == pytest.approx(defined_objective(name, ensemble, result.labels), rel=1e-9, abs=1e-9)
    assert all(after < before for before, after in zip(result.path, result.path[1:], strict=False))
    assert result.converged


@given(ensemble=ensembles())
@settings(max_examples=20)
def test_sec_and_the_trace_add_up_to_a_constant(ensemble):
    """Theorems 1 and 2 of SEC: k-means objective + trace = sum_x r / w(x), and sum_i U(pi, pi_i) = trace / n."""
    codes, widths, n_clusters, start, _ = ensemble
    codes = np.where(codes < 0, 0, codes)
    n, r = codes.shape
    result = run(np, "SEC", (codes, widths, n_clusters, start, np.ones(r)))
    dense = onehot(codes, widths)
    w = dense @ dense.sum(0)
    mass = np.array([w[result.labels == k].sum() for k in range(n_clusters)])
    z = np.where(result.labels[:, None] == np.arange(n_clusters), np.sqrt(w[:, None] / np.maximum(mass, 1)), 0)
    root = w**-0.5
    trace = np.trace(z.T @ (root[:, None] * (dense @ dense.T) * root) @ z)
    assert result.objective + trace == pytest.approx((r / w).sum())
    counts = dense.T @ (result.labels[:, None] == np.arange(n_clusters))
    size = np.maximum((result.labels[:, None] == np.arange(n_clusters)).sum(0), 1)
    utility = ((size / np.maximum(mass, 1)) * (size / n) * ((counts / n) / (size / n)) ** 2).sum()
    assert utility == pytest.approx(trace / n)


@pytest.mark.parametrize("name", METHODS)
@given(ensemble=ensembles())
@settings(max_examples=15)
def test_skipping_rows_changes_no_label_in_any_iteration(name, ensemble):
    for max_iter in (1, 2, 3, 5, 100):
        plain = run(np, name, ensemble, max_iter=max_iter, skip=False)
        skipped = run(np, name, ensemble, max_iter=max_iter)
        assert plain.path == skipped.path
        np.testing.assert_array_equal(plain.labels, skipped.labels)


def larger(n=3000, r=12, n_clusters=6, holes=0.0):
    """An ensemble with enough structure that most rows come to rest while some still move."""
    rng = np.random.default_rng(7)
    truth = rng.integers(0, n_clusters, n)
    widths = rng.integers(4, 12, r)
    codes = np.stack([rng.integers(0, width, n_clusters)[truth] for width in widths], axis=1)
    noise = rng.random(codes.shape) < 0.45
    codes = np.where(noise, random_codes(rng, n, widths, 0), codes)
    codes[rng.random(codes.shape) < holes] = -1
    codes[(codes < 0).all(1), 0] = 0
    return codes, widths, n_clusters, rng.integers(0, n_clusters, n).astype(np.int32), np.ones(r)


@pytest.mark.parametrize("holes", [0, 0.4])
@pytest.mark.parametrize("name", METHODS)
def test_few_rows_are_evaluated_at_the_end(name, holes):
    ensemble = larger(holes=holes)
    plain, skipped = run(np, name, ensemble, skip=False), run(np, name, ensemble)
    assert plain.path == skipped.path
    np.testing.assert_array_equal(plain.labels, skipped.labels)
    assert set(plain.evaluated) == {1}
    assert min(skipped.evaluated) < 0.9


def test_where_little_is_to_be_saved_all_rows_are_evaluated():
    ensemble = larger()
    by_default, skipped = run(np, "SEC", ensemble, skip=None), run(np, "SEC", ensemble)
    assert set(by_default.evaluated) == {1}
    assert min(skipped.evaluated) < 1
    assert by_default.path == skipped.path


@pytest.mark.parametrize("name", METHODS)
@given(ensemble=ensembles(max_n=30))
@settings(max_examples=4)
def test_every_library_gives_the_same_bits(name, ensemble):
    from cudasim import standin
    from cudasim.shim import ShimModule, gxx

    if gxx() is None:
        pytest.skip("g++ is not installed")
    expected = run(np, name, ensemble)
    with standin.installed(ShimModule) as device:
        result = run(device, name, ensemble)
        seeded = to_host(seeds(device, name, ensemble))
    assert result.path == expected.path
    np.testing.assert_array_equal(result.labels, expected.labels)
    np.testing.assert_array_equal(seeded, seeds(np, name, ensemble))


def seeds(xp, name, ensemble):
    codes, widths, n_clusters, _, mu = ensemble
    table = whole(membership(xp, codes, widths))
    costs = make_costs("category" if "SEC" not in name else name, table, mu)
    return seeding.plus_plus(table, costs, n_clusters, np.random.default_rng(1)).labels(table.block, costs)


def sklearn_run(rows, weight, start, n_clusters):
    """scikit-learn's k-means on a CSR matrix from the weighted means of a start."""
    indicator = (start[:, None] == np.arange(n_clusters)) * weight[:, None]
    centers = np.asarray(rows.T @ indicator).T / indicator.sum(0)[:, None]
    fitted = KMeans(n_clusters, init=centers, n_init=1, tol=0, max_iter=100).fit(rows, sample_weight=weight)
    return fitted.labels_, fitted.inertia_


@pytest.mark.parametrize("name", ["SEC", "category"])
def test_scikit_learn_agrees_from_the_same_start(name):
    ensemble = larger()
    codes, widths, n_clusters, start, _ = ensemble
    dense = onehot(codes, widths)
    w = dense @ dense.sum(0)
    rows, weight = (dense / w[:, None], w) if name == "SEC" else (dense, np.ones(len(w)))
    labels, inertia = sklearn_run(csr_matrix(rows), weight, start, n_clusters)
    result = run(np, name, ensemble)
    assert (result.labels == labels).mean() > 0.999
    assert result.objective == pytest.approx(inertia, rel=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_order_and_names_do_not_matter(name):
    codes, widths, n_clusters, start, mu = larger(n=400, holes=0.2)
    rng = np.random.default_rng(0)
    expected = run(np, name, (codes, widths, n_clusters, start, mu))
    rows, columns = rng.permutation(len(codes)), rng.permutation(len(widths))
    renamed = [rng.permutation(width) for width in widths]
    other = np.stack([np.where(codes[:, i] < 0, -1, renamed[i][codes[:, i]]) for i in columns], axis=1)[rows]
    result = run(np, name, (other, widths[columns], n_clusters, start[rows], mu[columns]))
    np.testing.assert_array_equal(result.labels, expected.labels[rows])
    assert result.objective == pytest.approx(expected.objective, rel=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_weights_are_multiplicities(name):
    codes, widths, n_clusters, start, mu = larger(n=200, holes=0.2)
    times = np.random.default_rng(1).integers(1, 4, len(codes))
    repeated = run(np, name, (codes.repeat(times, axis=0), widths, n_clusters, start.repeat(times), mu))
    weighted = run(np, name, (codes, widths, n_clusters, start, mu), multiplicity=times)
    np.testing.assert_array_equal(weighted.labels.repeat(times), repeated.labels)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_repeating_the_data_leaves_sec_and_doubles_kcc(name):
    codes, widths, n_clusters, start, mu = larger(n=200)
    once = run(np, name, (codes, widths, n_clusters, start, mu))
    twice = run(np, name, (np.tile(codes, (2, 1)), widths, n_clusters, np.tile(start, 2), mu))
    factor = 1 if name.startswith("SEC") else 2
    assert twice.objective == pytest.approx(factor * once.objective, rel=1e-9)
    np.testing.assert_array_equal(twice.labels, np.tile(once.labels, 2))


def test_an_emptied_cluster_takes_the_costliest_rows():
    """All rows equal to the costliest one: so it does not matter whether they are merged."""
    codes = np.array([[0], [0], [0], [1], [1], [2]])
    start = np.array([0, 0, 1, 0, 0, 0], np.int32)
    result = run(np, "category", (codes, np.array([3]), 3, start, np.ones(1)))
    assert result.objective == 0
    assert sorted(np.bincount(result.labels, minlength=3)) == [1, 2, 3]


def test_seeding_stops_at_the_distinct_rows():
    table = whole(membership(np, np.array([[0, 0], [0, 0], [1, 1]]), [2, 2]))
    costs = SECCosts.of(table, Weighting(np.ones(2), None, "float64"))
    labels = seeding.plus_plus(table, costs, 3, np.random.default_rng(0)).labels(table.block, costs)
    assert sorted(set(labels.tolist())) == [0, 1]
    assert labels[0] == labels[1] != labels[2]


def test_degrees_that_would_not_add_up_lose_bits():
    codes = np.tile([[0], [1]], (4, 3))
    m = membership(np, codes, [2, 2, 2])
    weight = np.full(8, 1 << 28)
    costs = SECCosts.of(whole(m, weight), Weighting(np.ones(3), None, "float64"))
    assert costs.shift > 0
    assert int(costs.rows(m, weight).mass.astype(object).sum()) < 1 << 62
    start = np.array([0, 0, 1, 1, 0, 1, 0, 1], np.int32)
    result = run(np, "SEC", (codes, np.array([2, 2, 2]), 2, start, np.ones(3)), multiplicity=weight)
    assert result.objective == pytest.approx(0, abs=1e-12)
