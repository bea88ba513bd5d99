"""Base partitions: shapes, seeds, threads, devices, holes, and one sentence for each bad input."""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor

import igraph
import leidenalg
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from gpuensemble import communities, generate, metrics, neighbors
from gpuensemble._array import threads
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._array.random import generators
from gpuensemble.generate import kmeans as kmeans_partitions
from support import check

MAKERS = {
    "random_k": generate.random_k,
    "random_features": lambda X, **more: generate.random_features(X, 3, **more),
    "row_segments": lambda X, **more: generate.row_segments(X, 3, **more),
    "neighbor_graph": lambda X, **more: generate.neighbor_graph(X, 3, **more),
    "spectral": lambda X, **more: generate.spectral(X, 3, **more),
    "landmark_spectral": lambda X, **more: generate.landmark_spectral(X, 3, k_range=(3, 3), **more),
    "leiden": lambda X, n_partitions=5, **more: generate.leiden(X, 0.5, n_partitions, **more),
    "subsample": lambda X, **more: generate.subsample(X, 3, **more),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def table(n=120, d=6, dtype="float64"):
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 3
    return (8 * np.eye(3, d)[truth] + rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)).astype(dtype)


@pytest.mark.parametrize(
    ("distance", "dtype"),
    [
        ("sqeuclidean", "float64"),
        ("cosine", "float32"),
        pytest.param("sqeuclidean", "float32", marks=pytest.mark.exhaustive),
        pytest.param("cosine", "float64", marks=pytest.mark.exhaustive),
    ],
)
def test_every_library_gives_the_same_labels(xp, make, distance, dtype):
    X = table(dtype=dtype)
    options = {"n_partitions": 7, "random_state": 5, "distance": distance}
    expected = make(X, **options, device="cpu")
    assert expected.shape == (120, 7)
    assert expected.dtype == np.int32
    check(make(xp.asarray(X), **options), expected, xp)
    check(make(X, **options, device="cpu" if xp is np else "cuda"), expected, np)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_equals_dense(make, kind):
    X = table()
    np.testing.assert_array_equal(
        make(kind(X), n_partitions=5, random_state=1), make(X, n_partitions=5, random_state=1)
    )


def test_sparse_on_the_device(xp, make):
    device = "cpu" if xp is np else "cuda"
    X = table()
    found = make(sparse.csr_array(X), n_partitions=5, random_state=1, device=device)
    check(found, make(X, n_partitions=5, random_state=1, device="cpu"), np)


def test_threads_do_not_matter(make, monkeypatch):
    found = []
    for n in (1, 2, 3):
        with ThreadPoolExecutor(n) as pool:
            monkeypatch.setattr(threads, "pool", lambda pool=pool: pool)
            found.append(make(table(n=600), n_partitions=9, random_state=0))
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_seeds(make):
    X = np.random.default_rng(0).random((120, 3))  # without clusters, so that seeds matter
    one, same = (make(X, n_partitions=6, random_state=3) for _ in range(2))
    assert (one == same).all()
    assert (one != make(X, n_partitions=6, random_state=4)).any()
    assert (make(X, n_partitions=6) != make(X, n_partitions=6)).any()
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    first = make(X, n_partitions=6, random_state=rng)
    assert (first == make(X, n_partitions=6, random_state=again)).all()
    assert (first != make(X, n_partitions=6, random_state=rng)).any()
    assert make(X, n_partitions=6, random_state=np.random.RandomState(0)).shape == (120, 6)


def test_a_seed_sequence_gives_children():
    one, two = (generators(np.random.SeedSequence(1), 2) for _ in range(2))
    assert [rng.random() for rng in one] == [rng.random() for rng in two]


def test_the_caller_keeps_its_data(make):
    X = table()
    before = X.copy()
    make(X, n_partitions=5)
    np.testing.assert_array_equal(X, before)


def test_duplicate_entries_add_up_and_stay_with_the_caller(make):
    X = table()
    rows, columns = np.nonzero(X)
    indptr = 2 * np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    halves = sparse.csr_array(((X[rows, columns] / 2).repeat(2), columns.repeat(2), indptr), shape=X.shape)
    found = make(halves, n_partitions=5, random_state=0)
    np.testing.assert_array_equal(found, make(X, n_partitions=5, random_state=0))
    assert halves.nnz == 2 * len(rows)


def test_frames_lists_and_integers(make):
    X = table().round().astype(int)
    expected = make(X.astype(float), n_partitions=5, random_state=0)
    for given in (X, X.tolist(), pd.DataFrame(X)):
        assert (make(given, n_partitions=5, random_state=0) == expected).all()


def test_numbers_of_clusters_are_in_the_range():
    X = np.random.default_rng(0).standard_normal((100, 3))
    for k_range, low, high in ((None, 2, 10), ((3, 5), 3, 5), ([4, 4], 4, 4), ((100, 100), 100, 100)):
        labels = generate.random_k(X, 40, k_range, 0)
        counts = labels.max(0) + 1
        assert counts.min() == low
        assert counts.max() == high
        assert all(len(np.unique(column)) == count for column, count in zip(labels.T, counts, strict=True))


def test_one_row_and_one_column(make):
    assert generate.random_k([[1.0]], 3).tolist() == [[0, 0, 0]]
    assert set(make(np.arange(30.0)[:, None], n_partitions=5).max(0) + 1) <= {2, 3, 4, 5, 6}


def test_communities_by_leidenalg():
    X, truth = table(), np.arange(120) % 3
    options = {"n_partitions": 5, "method": "leiden", "random_state": 0, "device": "cpu"}
    found = generate.neighbor_graph(X, 3, **options)
    assert all(metrics.v_measure(truth, column).homogeneity == 1 for column in found.T)
    np.testing.assert_array_equal(found, generate.neighbor_graph(X, 3, **options))


def test_leidenalg_may_be_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "leidenalg", None)
    with pytest.raises(ModuleNotFoundError, match=r"Leiden's method needs a package that is not there"):
        generate.neighbor_graph(table(), 3, method="leiden", device="cpu")


def test_leiden_takes_resolutions_and_seeds_in_turn():
    X, truth = table(), np.arange(120) % 3
    found = generate.leiden(X, (0.1, 1.0, 8.0), 2, random_state=0, device="cpu")
    assert found.shape == (120, 6)
    low, middle, high = (found[:, i : i + 2].max(0).mean() for i in (0, 2, 4))
    assert low <= middle < high
    assert adjusted_rand_score(truth, found[:, 2]) > 0.9


def test_leiden_of_a_graph_is_that_of_leidenalg():
    near = neighbors.nearest(table(), 15, device="cpu").indices
    graph = sparse.csr_array((np.ones(near.size), near.ravel(), np.arange(0, near.size + 1, 15)), shape=(120, 120))
    graph = graph + graph.T
    found = generate.leiden(graph=graph, resolutions=1.3, n_seeds=2, random_state=0, device="cpu")
    np.testing.assert_array_equal(found, generate.leiden(table(), 1.3, 2, random_state=0, device="cpu"))
    row, column = sparse.triu(graph).tocoo().coords
    edges = igraph.Graph(n=120, edges=np.stack([row, column], 1)[np.lexsort([column, row])])
    weights = [graph[edge.tuple] for edge in edges.es]
    for labels, rng in zip(found.T, generators(0, 3)[1:], strict=True):
        expected = leidenalg.find_partition(
            *(edges, leidenalg.RBConfigurationVertexPartition),
            weights=weights,
            resolution_parameter=1.3,
            n_iterations=2,
            seed=int(rng.integers(1 << 31)),
        )
        assert labels.tolist() == expected.membership


def test_leiden_counts_an_edge_of_a_node_to_itself_as_louvain_does():
    rng = np.random.default_rng(3)
    graph = np.triu((rng.random((6, 6)) < 0.6) * 1, 1)
    graph = graph + graph.T
    graph[0, 0] = 6
    (labels,) = generate.leiden(graph=graph, resolutions=1.0, n_seeds=1, random_state=0, device="cpu").T
    partitions = (np.array(codes) for codes in itertools.product(range(4), repeat=6))
    best = max(communities.modularity(graph, codes, device="cpu") for codes in partitions)
    assert communities.modularity(graph, labels, device="cpu") == pytest.approx(best)


def test_leiden_refuses_to_guess():
    square = sparse.csr_array(np.ones((4, 4)))
    rule = r"`X` must not be sparse and square, as it may be a graph: .*, got shape \(4, 4\)\."
    with pytest.raises(ValueError, match=rule):
        generate.leiden(square)
    assert generate.leiden(square.toarray(), device="cpu").shape == (4, 20)
    for given, word in (({}, "neither"), ({"X": table(), "graph": square}, "both")):
        with pytest.raises(TypeError, match=f"must be given either `X` or `graph`, got {word}"):
            generate.leiden(**given)


def test_clear_clusters_are_found():
    X = table()
    truth = np.arange(120) % 3
    for labels in generate.random_k(X, 5, (3, 3), 0, n_init=5).T:
        assert adjusted_rand_score(truth, labels) == 1


def test_random_features_see_a_share_of_the_columns():
    X = np.zeros((40, 10))
    X[:, 3] = np.arange(40) % 2
    labels = generate.random_features(X, 2, 200, 0.3, random_state=0)
    share = (labels.max(0) == 1).mean()  # two clusters only where column 3 is seen
    assert 0.2 < share < 0.4
    assert (generate.random_features(X, 2, 5, 1.0).max(0) == 1).all()


def test_a_row_without_direction_in_the_columns_has_no_label():
    X = np.ones((30, 4))
    X[0] = [1, 0, 0, 0]
    X[1:15, 2:] = 5
    labels = generate.random_features(X, 2, 40, 0.5, random_state=0, distance="cosine")
    assert set(labels[0].tolist()) >= {-1}
    assert labels[0].max() >= 0
    assert labels[1:].min() == 0


@pytest.mark.parametrize(
    ("n", "ratio", "r"), [(100, 0.2, 5), (100, 0.3, 4), (97, 0.29, 11), (10, 1.0, 2), (50, 0.7, 9)]
)
def test_segments_reach_every_row_about_equally_often(n, ratio, r):
    labels = generate.row_segments(table(n), 2, r, ratio, random_state=0)
    size = int(np.ceil(ratio * n))
    seen = labels >= 0
    assert (seen.sum(0) == size).all()
    assert seen.sum(1).min() >= 1
    assert np.ptp(seen.sum(1)) <= 1
    assert labels.min() >= -1


def test_a_bar_only_where_asked_for(make, capsys):
    make(table(), n_partitions=5)
    assert capsys.readouterr() == ("", "")
    make(table(), n_partitions=5, verbose=1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "5/5" in captured.err


def with_value(value):
    X = table()
    X[3, 2] = value
    return X


LARGEST = r"`X` must have a largest entry of 0, or between 1e-140 and 1e\+140 in size, got {}\."
BAD_MATRICES = {
    "nan": (with_value(np.nan), ValueError, r"`X` must be finite, got nan at \[3, 2\]\."),
    "inf": (with_value(np.inf), ValueError, r"`X` must be finite, got inf at \[3, 2\]\."),
    "sparse nan": (sparse.csr_array(with_value(np.nan)), ValueError, r"`X\.data` must be finite, got nan at \[\d+\]\."),
    "large": (with_value(-1e141), ValueError, LARGEST.format(r"-1e\+141 in row 3, column 2")),
    "sparse large": (sparse.csr_array(with_value(1e300)), ValueError, LARGEST.format(r"1e\+300 in row 3, column 2")),
    "small": (table() * 1e-160, ValueError, LARGEST.format(r"\S+e-1\d\d in row \d+, column \d+")),
    "vector": (np.ones(9), ValueError, r"`X` must have 2 axes, got an array of shape \(9,\)\."),
    "sparse vector": (sparse.coo_array(np.ones(9)), ValueError, r"`X` must have 2 axes, got a sparse array of shape"),
    "no rows": (np.ones((0, 3)), ValueError, r"`X` must have at least one row and one column, got shape \(0, 3\)\."),
    "no columns": (sparse.csr_array((5, 0)), ValueError, r"`X` must have at least one row and one column, got shape"),
    "strings": (np.array([["a"]]), TypeError, r"`X` must hold numbers, got dtype <U1\."),
    "complex": (sparse.csr_array(np.eye(3, 4) * 1j), TypeError, r"`X` must hold numbers, got dtype complex128\."),
}


@pytest.mark.parametrize("case", BAD_MATRICES)
def test_bad_matrices(make, case):
    X, error, sentence = BAD_MATRICES[case]
    with pytest.raises(error, match=sentence):
        make(X)


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
def test_a_row_of_zeros_has_no_direction(make, as_given):
    X = table()
    X[4] = 0
    assert make(as_given(X), n_partitions=5).shape == (120, 5)
    with pytest.raises(ValueError, match=r"`X` must have no row of zeros with the cosine distance, got one at row 4\."):
        make(as_given(X), distance="cosine")


COMMON = [
    ({"n_partitions": -1}, ValueError, r"`n_(partitions|seeds)` must be at least 1, got -1\."),
    ({"n_partitions": 2.0}, TypeError, r"`n_(partitions|seeds)` must be an integer, got 2\.0 of type float\."),
    ({"distance": "l1"}, ValueError, r"`distance` must be one of 'sqeuclidean', 'cosine'.*, got 'l1'\."),
    ({"verbose": -1}, ValueError, r"`verbose` must be at least 0, got -1\."),
    (
        {"random_state": -1},
        ValueError,
        r"`random_state` must be None, an integer of at least 0 or a generator, got -1\.",
    ),
    (
        {"random_state": "a"},
        ValueError,
        r"`random_state` must be None, an integer of at least 0 or a generator, got 'a'\.",
    ),
    ({"device": "tpu"}, ValueError, r"`device` must be \"auto\", \"cpu\", \"cuda\" or \"cuda:N\", got 'tpu'\."),
]


@pytest.mark.parametrize(("options", "error", "sentence"), COMMON)
def test_bad_options(make, options, error, sentence):
    with pytest.raises(error, match=sentence):
        make(table(), **options)


OF_KMEANS = [
    ({"n_init": 0}, ValueError, r"`n_init` must be at least 1, got 0\."),
    ({"max_iter": 0}, ValueError, r"`max_iter` must be at least 1, got 0\."),
    ({"tol": -1.0}, ValueError, r"`tol` must be a number of at least 0, got -1\.0\."),
    ({"tol": "x"}, ValueError, r"`tol` must be a number of at least 0, got 'x'\."),
]


@pytest.mark.parametrize(("options", "error", "sentence"), OF_KMEANS)
@pytest.mark.parametrize("name", ["random_k", "random_features", "row_segments"])
def test_bad_options_of_k_means(name, options, error, sentence):
    with pytest.raises(error, match=sentence):
        MAKERS[name](table(), **options)


OWN = [
    ("random_k", {"k_range": (5, 3)}, ValueError, r"`k_range` must be in ascending order, got \(5, 3\)\."),
    ("random_k", {"k_range": (0, 3)}, ValueError, r"`k_range` must be between 1 and n_samples=120, got 0\."),
    ("random_k", {"k_range": (2, 121)}, ValueError, r"`k_range` must be between 1 and n_samples=120, got 121\."),
    ("random_k", {"k_range": 5}, TypeError, r"`k_range` must be a pair of integers, got 5\."),
    ("random_k", {"k_range": (2, 3.5)}, TypeError, r"`k_range` must be an integer, got 3\.5 of type float\."),
    (
        "random_features",
        {"n_clusters": 121},
        ValueError,
        r"`n_clusters` must be between 1 and n_samples=120, got 121\.",
    ),
    ("random_features", {"n_clusters": 0}, ValueError, r"`n_clusters` must be between 1 and n_samples=120, got 0\."),
    (
        "random_features",
        {"feature_ratio": 0},
        ValueError,
        r"`feature_ratio` must be more than 0 and at most 1, got 0\.",
    ),
    (
        "random_features",
        {"feature_ratio": 1.1},
        ValueError,
        r"`feature_ratio` must be more than 0 and at most 1, got 1\.1",
    ),
    (
        "random_features",
        {"feature_ratio": "x"},
        ValueError,
        r"`feature_ratio` must be more than 0 and at most 1, got 'x'",
    ),
    ("row_segments", {"row_ratio": np.nan}, ValueError, r"`row_ratio` must be more than 0 and at most 1, got nan\."),
    ("row_segments", {"row_ratio": -0.1}, ValueError, r"`row_ratio` must be more than 0 and at most 1, got -0\.1\."),
    (
        "row_segments",
        {"n_clusters": 25},
        ValueError,
        r"`n_clusters` must be between 1 and rows of a segment=24, got 25\.",
    ),
    (
        "row_segments",
        {"n_partitions": 4},
        ValueError,
        r"`n_partitions` must be at least 5 for segments of 24 rows to reach all n_samples=120, got 4\.",
    ),
    ("neighbor_graph", {"n_neighbors": ()}, ValueError, r"`n_neighbors` must be an integer or several, got none\."),
    ("neighbor_graph", {"n_neighbors": (5, 0)}, ValueError, r"`n_neighbors` must be at least 1, got 0\."),
    ("neighbor_graph", {"method": "walk"}, ValueError, r"`method` must be one of 'louvain', 'leiden', got 'walk'\."),
    ("neighbor_graph", {"search": "all"}, ValueError, r"`search` must be one of 'auto', .*, got 'all'\."),
    ("neighbor_graph", {"k_range": (2, 121)}, ValueError, r"`k_range` must be between 1 and n_samples=120, got 121\."),
    ("neighbor_graph", {"n_clusters": 0}, ValueError, r"`n_clusters` must be between 1 and n_samples=120, got 0\."),
    ("neighbor_graph", {"n_jobs": 0}, ValueError, r"`n_jobs` must be at least 1, got 0\."),
    ("neighbor_graph", {"dtype": "int8"}, ValueError, r"`dtype` must be one of 'float32', 'float64', got 'int8'\."),
    ("leiden", {"resolutions": ()}, ValueError, r"`resolutions` must be a number or several, got none\."),
    ("leiden", {"resolutions": (1, 0)}, ValueError, r"`resolutions` must be finite and greater than 0, got 0\."),
    ("leiden", {"resolutions": None}, TypeError, r"`resolutions` must be a number, got None of type NoneType\."),
    ("leiden", {"resolutions": (0.5, 0.5)}, ValueError, r"`resolutions` must be different, got 0\.5 twice; .*"),
    ("leiden", {"n_seeds": 0}, ValueError, r"`n_seeds` must be at least 1, got 0\."),
    ("leiden", {"n_iterations": 0}, ValueError, r"`n_iterations` must be at least 1, got 0\."),
    ("spectral", {"n_neighbors": 0}, ValueError, r"`n_neighbors` must be at least 1, got 0\."),
    ("landmark_spectral", {"n_landmarks": 0}, ValueError, r"`n_landmarks` must be between 1 and 120, got 0\."),
    ("landmark_spectral", {"n_neighbors": 0}, ValueError, r"`n_neighbors` must be at least 1, got 0\."),
    ("subsample", {"clusterer": "ward"}, ValueError, r"`clusterer` must be one of 'kmeans', got 'ward'\."),
    ("subsample", {"clusterer": 3}, TypeError, r"`clusterer` must be .*, got int\."),
    ("subsample", {"clusterer": lambda X, k, seed: [0]}, ValueError, r"`labels of `clusterer`` must have .*"),
    ("subsample", {"row_ratio": 0.0}, ValueError, r"`row_ratio` must be .*, got 0\.0\."),
]


@pytest.mark.parametrize(("name", "options", "error", "sentence"), OWN)
def test_bad_options_of_one_function(name, options, error, sentence):
    first = {} if name in ("random_k", "leiden") else {"n_clusters": 3}
    with pytest.raises(error, match=sentence):
        getattr(generate, name)(table(), **first | options)


def test_answers_come_home(xp, make):
    labels = make(xp.asarray(table()), n_partitions=5, device="cpu")
    assert namespace(labels) is xp
    assert to_host(labels).shape == (120, 5)


def test_masked_features_are_refused():
    X = np.ma.masked_array(np.arange(60.0).reshape(20, 3), np.zeros((20, 3), bool))
    assert generate.random_k(X, 1, (2, 2), random_state=0, device="cpu").shape == (20, 1)
    X.mask[3, 1] = True
    for make in (generate.random_k, generate.neighbor_graph, generate.subsample):
        with pytest.raises(ValueError, match=r"^`X` must have no masked entry, got 1\.$"):
            make(X, 2, device="cpu")


KMEANS = ("random_k", "random_features", "row_segments")


@pytest.mark.parametrize("name", KMEANS)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_dtype_is_that_of_features_which_come_in_it(xp, name, kind):
    """Labels are those of features that were cast by the caller; None leaves float32 and float64 as they are."""
    X = table(n=90)
    options = {"n_partitions": 5, "random_state": 2, "device": "cpu" if xp is np else "cuda"}
    for dtype in ("float32", "float64"):
        asked = MAKERS[name](kind(X), dtype=dtype, **options)
        np.testing.assert_array_equal(asked, MAKERS[name](kind(X.astype(dtype)), **options))
        np.testing.assert_array_equal(asked, MAKERS[name](kind(X.astype(dtype)), dtype=np.dtype(dtype), **options))


@pytest.mark.parametrize("name", KMEANS)
def test_the_type_of_the_products_is_the_one_asked_for(name, monkeypatch):
    seen, prepare = [], kmeans_partitions.prepare
    monkeypatch.setattr(kmeans_partitions, "prepare", lambda X, *rest: seen.append(X.dtype.name) or prepare(X, *rest))
    for dtype in ("float32", "float64", None):
        MAKERS[name](table(n=60), n_partitions=5, device="cpu", dtype=dtype)
    assert list(dict.fromkeys(seen)) == ["float32", "float64"]
    with pytest.raises(ValueError, match=r"`dtype` must be .*'float16'"):
        MAKERS[name](table(n=60), n_partitions=5, device="cpu", dtype="float16")


def test_many_partitions_in_float32_of_rows_far_from_the_mean(xp):
    y = np.repeat(np.arange(4), 100)
    X = np.array([[0, 0], [12, 0], [20000, 0], [20012, 0.0]])[y] + np.random.default_rng(0).normal(size=(400, 2))
    found = to_host(generate.random_k(xp.asarray(X.astype("float32")), 5, (4, 4), 0))
    assert found.max(0).tolist() == [3] * 5
