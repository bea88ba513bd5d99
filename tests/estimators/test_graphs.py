"""Methods on graphs: labels are those of dense transcriptions, and the same from memory, files, blocks and workers."""

import literal_graphs as literal
import numpy as np
import pytest

import gpuensemble as ge
from gpuensemble._array.devices import to_host
from gpuensemble._kernels.cpu.contingency import jaccard
from gpuensemble._partition import clusters, linkage, votes
from gpuensemble._tables import counts, readers
from gpuensemble._tables.blocks import Streamed, whole
from gpuensemble._tables.counts import contingency
from gpuensemble.estimators._base.registry import of_labels
from support import ensemble, membership, onehot, random_codes, two_workers

LINEAR = ("cluster-walk", "mcla", "mcla-spectral", "ecpcs", "voting", "lwgp", "damped-spectral", "lwea-groups")
OF_ROWS = ("eac", "lwea", "ecpcs-hc", "pta", "ptgp", "nmfc", "cspa", "hgpa")
LITERAL = {
    "lwgp": literal.lwgp,
    "damped-spectral": lambda labels, k: literal.lwgp(labels, k, 4.0, 6),
    "mcla": lambda labels, k: literal.mcla(labels, k, literal.average_linkage),
    "mcla-spectral": lambda labels, k: literal.mcla(labels, k, literal.normalized_cut),
    "ecpcs": literal.ecpcs_mc,
    "ecpcs-hc": literal.ecpcs_hc,
    "lwea": literal.lwea,
    "cluster-walk": literal.cluster_walk,
    "pta": lambda labels, k: literal.pta(labels, k, 4, 3),
    "ptgp": lambda labels, k: literal.ptgp(labels, k, 4, 3),
}
PARAMETERS = {"pta": {"n_neighbors": 4, "steps": 3}, "ptgp": {"n_neighbors": 4, "steps": 3}}


def fitted(name, labels, **parameters):
    return of_labels()[name].make(4, 0, "cpu", **parameters).fit(labels)


@pytest.mark.parametrize("holes", [0, 0.15])
@pytest.mark.parametrize("name", LITERAL)
def test_labels_are_those_of_the_formulas(name, holes, monkeypatch):
    monkeypatch.setattr(votes, "LEAST", 0.0)  # so that every group counts, as published
    _, labels = ensemble(n=90, holes=holes, seed=2)
    found = fitted(name, labels, **PARAMETERS.get(name, {})).labels_
    assert ge.metrics.ari(LITERAL[name](labels, 4), found) == 1


@pytest.mark.parametrize("holes", [0, 0.3])
def test_contingency_and_what_comes_of_it_are_as_defined(xp, holes):
    rng = np.random.default_rng(0)
    codes, widths = random_codes(rng, 70, [3, 9, 300, 5], holes), np.array([3, 9, 300, 5])
    m = membership(xp, codes, widths)
    H = onehot(codes, widths)
    found = contingency(whole(m))
    np.testing.assert_array_equal(found, H.T @ H)
    used = H.any(0)
    weight = rng.random(len(found))
    alike = jaccard(found, widths, 0, weight)
    expected = literal.jaccard(codes) * np.outer(weight[used], weight[used])
    np.testing.assert_allclose(alike[np.ix_(used, used)], expected, rtol=1e-13)
    assert not alike[~used].any()
    for first, last in ((0, 3), (3, 312), (12, 317)):  # columns of whole partitions
        np.testing.assert_array_equal(jaccard(found[:, first:last], widths, first, weight), alike[:, first:last])


def test_contingency_is_the_same_for_any_blocks_and_counts_multiplicities():
    rng = np.random.default_rng(0)
    codes, widths, weight = random_codes(rng, 40, [3, 9, 5], 0.3), np.array([3, 9, 5]), rng.integers(0, 4, 40)
    m = membership(np, codes, widths)
    H = onehot(codes, widths)
    for rows in (1, 7, 40):
        table = Streamed(m.codes, [*range(0, 40, rows), 40], m.widths, m.complete, None, weight)
        np.testing.assert_array_equal(contingency(table), (H * weight[:, None]).T @ H)


@pytest.mark.parametrize("holes", [0, 0.3])
def test_the_graph_of_groups_sums_that_of_clusters(holes, monkeypatch):
    rng = np.random.default_rng(0)
    codes, widths = random_codes(rng, 70, [3, 9, 30, 5], holes), np.array([3, 9, 30, 5])
    table, weight = whole(membership(np, codes, widths)), rng.random(47) + 0.5
    exact = clusters.graph(table, weight, clusters.all_counts(table), 3, rng)
    for whole_cells in (counts.WHOLE, 0):
        monkeypatch.setattr(counts, "WHOLE", whole_cells)
        monkeypatch.setattr(counts, "CELLS", 600)
        groups = clusters.graph(table, weight, None, 3, np.random.default_rng(0), 8)
        assert len(groups.n_clusters) == groups.node.max() + 1 <= 8
        members = np.eye(len(groups.n_clusters))[groups.node]
        np.testing.assert_allclose(groups.weight, members.T @ exact.weight @ members, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(groups.n_clusters, members.sum(0))


@pytest.mark.parametrize("name", ["cluster-walk", "mcla-spectral", "ecpcs", "ecpcs-hc"])
def test_groups_of_many_clusters_find_the_hidden_partition(name, monkeypatch):
    monkeypatch.setattr(clusters, "MOST", 20)
    monkeypatch.setattr(clusters, "GROUPS", 15)
    truth, labels = ensemble(n=300)
    assert ge.metrics.ari(truth, fitted(name, labels).labels_) > 0.95


def test_walks_are_those_of_powers_with_multiplicities():
    rng = np.random.default_rng(0)
    weight = rng.random((12, 12)) * (rng.random((12, 12)) < 0.5)
    weight = weight + weight.T + np.eye(12, k=1) + np.eye(12, k=-1)
    np.fill_diagonal(weight, 0)
    for steps in (1, 2, 7, 20):
        found = clusters.walk_cosines(weight, steps)
        np.testing.assert_allclose(found, literal.trajectory_cosines(weight, steps), atol=1e-12)
        often = rng.integers(1, 5, 12).astype(float)
        expected = literal.trajectory_cosines(weight, steps, often)
        np.testing.assert_allclose(clusters.walk_cosines(weight, steps, often), expected, atol=1e-12)


def test_a_node_without_edges_is_like_itself_only():
    weight = np.zeros((3, 3))
    weight[0, 1] = weight[1, 0] = 0.5
    found = clusters.walk_cosines(weight, 3)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[2], [0, 0, 1])


@pytest.mark.parametrize("name", [*LINEAR, *OF_ROWS])
def test_a_file_and_any_blocks_give_the_bits_of_the_array(name, tmp_path, monkeypatch):
    _, labels = ensemble(n=400, holes=0.1)
    expected = fitted(name, labels)
    np.save(tmp_path / "labels.npy", labels.astype("int8"))
    monkeypatch.setattr(readers, "BLOCK_BYTES", 1000)
    found = fitted(name, str(tmp_path / "labels.npy"))
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.confidence_, expected.confidence_)
    assert found.objective_ == expected.objective_


@pytest.mark.parametrize("name", LINEAR)
def test_a_device_gives_the_bits_of_the_array(name, xp):
    _, labels = ensemble(n=200, holes=0.1)
    on_device = of_labels()[name].make(4, 0, "auto").fit(xp.asarray(labels))
    np.testing.assert_array_equal(to_host(on_device.labels_), fitted(name, labels).labels_)


@pytest.fixture(scope="module")
def cluster():
    with two_workers() as client:
        yield client


@pytest.mark.parametrize("name", LINEAR)
def test_workers_give_the_bits_of_the_array(name, cluster):
    _, labels = ensemble(n=200, holes=0.1)
    expected = fitted(name, labels)
    found = fitted(name, labels, client=cluster)
    np.testing.assert_array_equal(np.asarray(found.labels_), expected.labels_)
    assert found.objective_ == expected.objective_


@pytest.mark.parametrize("name", [*LINEAR, "hbgf", "lwea", "ecpcs-hc"])
def test_a_fit_goes_on_from_its_checkpoint_and_refuses_another(name, tmp_path, monkeypatch):
    _, labels = ensemble(n=200, holes=0.1)
    estimator = fitted(name, labels, checkpoint=str(tmp_path / "state"))
    plain = fitted(name, labels)
    with pytest.raises(ValueError, match=r"^`checkpoint` must be of the same table and parameters to resume from"):
        fitted(name, labels[::-1], checkpoint=str(tmp_path / "state"), resume=True)
    with pytest.raises(ValueError, match=r"^`checkpoint` must be of the same table and parameters to resume from"):
        fitted(name, labels, checkpoint=str(tmp_path / "state"), resume=True, partition_weight=np.arange(1, 9))
    monkeypatch.setattr(type(estimator), "_cut", None)  # so that nothing is found anew
    resumed = fitted(name, labels, checkpoint=str(tmp_path / "state"), resume=True)
    for other in (plain, resumed):
        np.testing.assert_array_equal(other.labels_, estimator.labels_)
        np.testing.assert_array_equal(other.confidence_, estimator.confidence_)
        np.testing.assert_array_equal(other.predict(labels), estimator.predict(labels))
        assert (other.objective_, other.n_iter_) == (estimator.objective_, estimator.n_iter_)


@pytest.mark.parametrize("name", [*LINEAR, *(name for name in OF_ROWS if name not in ("cspa", "hgpa"))])
def test_whole_weights_are_copies_of_rows_and_0_leaves_a_row_out(name):
    _, labels = ensemble(n=60)
    weight = np.random.default_rng(0).integers(0, 4, 60)
    method = of_labels()[name].make(4, 0, "cpu")
    weighted = method.fit(labels, sample_weight=weight)
    copies = of_labels()[name].make(4, 0, "cpu").fit(np.repeat(labels, weight, axis=0))
    assert ge.metrics.ari(np.repeat(weighted.labels_, weight), copies.labels_) == 1
    assert weighted.objective_ == pytest.approx(copies.objective_, rel=1e-9)


@pytest.mark.parametrize("name", ["eac", "nmfc", "mcla", "voting"])
def test_a_partition_of_weight_2_counts_as_two(name):
    _, labels = ensemble(n=60, seed=5)
    twice = fitted(name, labels[:, [0, 0, *range(1, 8)]])
    weighted = fitted(name, labels, partition_weight=[2, 1, 1, 1, 1, 1, 1, 1])
    assert ge.metrics.ari(twice.labels_, weighted.labels_) == 1


@pytest.mark.parametrize("name", [*LINEAR, *OF_ROWS])
def test_weights_of_partitions_and_clusters_count_by_their_ratios(name):
    _, labels = ensemble(n=60, seed=5)
    expected = fitted(name, labels, partition_weight=np.arange(1, 9))
    found = fitted(name, labels, partition_weight=np.arange(1, 9) * 2.0**40)
    np.testing.assert_array_equal(found.labels_, expected.labels_)


@pytest.mark.filterwarnings("ignore:.*are not empty")
@pytest.mark.parametrize("name", [*LINEAR, *OF_ROWS, "hbgf"])
def test_partitions_of_no_weight_are_taken(name):
    _, labels = ensemble(n=60)
    for least in (0.0, 1e-190):
        found = fitted(name, labels, partition_weight=[least, *[1.0] * 7])
        assert np.isfinite(found.objective_)
        assert ge.metrics.ari(found.labels_, fitted(name, labels, partition_weight=[2.0**-20, *[1.0] * 7]).labels_) == 1


def test_what_does_not_fit_counts_all_clusters_where_all_are_needed(monkeypatch):
    monkeypatch.setattr(clusters, "MOST", 5)
    monkeypatch.setattr(clusters, "GROUPS", 2)
    monkeypatch.setattr("gpuensemble._array.checks.memory", lambda device: 500)
    for estimator in (ge.Voting(2, device="cpu"), ge.ECPCS(2, variant="hc", device="cpu")):
        with pytest.raises(ValueError, match="arrays of 10 x 10 clusters must fit into memory"):
            estimator.fit(np.arange(10).reshape(5, 2))


def test_where_a_cut_is_costly_few_numbers_of_groups_are_tried():
    plain = votes.Groups(len, np.eye(100), *[None] * 4)
    assert plain.numbers(4) == list(range(4, 41))
    assert plain._replace(costly=True).numbers(4) == [4, 5, 6, 8, 12, 20, 36]
    assert plain.numbers(200) == [100]
    assert plain._replace(costly=True).numbers(200) == [100]


def test_stray_samples_do_not_make_clusters_of_the_consensus():
    truth, labels = ensemble(n=300, holes=0.3)
    found = ge.ClusterWalk(4, device="cpu").fit_predict(labels)
    assert np.bincount(found).min() > 30
    assert ge.metrics.ari(truth, found) > 0.9


@pytest.mark.parametrize("holes", [0, 0.2])
def test_the_objective_is_the_mean_distance_within_clusters(holes):
    _, labels = ensemble(n=50, holes=holes)
    estimator = ge.ClusterWalk(4, device="cpu").fit(labels)
    same = estimator.labels_[:, None] == estimator.labels_
    assert estimator.objective_ == pytest.approx((1 - ge.coassociation(labels, device="cpu"))[same].mean(), rel=1e-12)


def test_confidence_is_the_lead_of_the_first_group():
    _, labels = ensemble(n=50)
    estimator = ge.MCLA(4, cut="spectral", random_state=0, device="cpu").fit(labels)
    counted = -np.sort(ge.Membership.from_labels(labels, "cpu").gather_sum(estimator._rule.tables.table), axis=1)
    np.testing.assert_allclose(estimator.confidence_, 1 - counted[:, 1] / counted[:, 0], atol=1e-12)


def test_lwea_on_as_many_groups_as_rows_is_lwea():
    _, labels = ensemble(n=80, holes=0.1, seed=4)
    assert ge.metrics.ari(fitted("lwea", labels).labels_, fitted("lwea-groups", labels).labels_) == 1


def test_eac_with_weights_is_lwea():
    _, labels = ensemble(n=80, holes=0.1, seed=4)
    weighted = ge.EAC(4, cluster_weight="entropy", device="cpu").fit_predict(labels)
    np.testing.assert_array_equal(weighted, ge.LWEA(4, device="cpu").fit_predict(labels))


def test_hbgf_with_weights_is_lwgp():
    _, labels = ensemble(n=80, holes=0.1, seed=4)
    weighted = ge.HBGF(4, cluster_weight="entropy", random_state=0, device="cpu").fit_predict(labels)
    np.testing.assert_array_equal(weighted, fitted("lwgp", labels).labels_)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (ge.ClusterWalk(2, theta=0), r"^`theta` must be finite and greater than 0, got 0\.$"),
        (ge.ClusterWalk(2, steps=0), r"^`steps` must be at least 1, got 0\.$"),
        (ge.MCLA(2, cut="hmetis"), r"^`cut` must be one of 'average', 'spectral', 'metis', got 'hmetis'\.$"),
        (ge.ECPCS(2, variant="x"), r"^`variant` must be one of 'mc', 'hc', got 'x'\.$"),
        (ge.HBGF(2, damping=-1), r"^`damping` must be finite and at least 0, got -1\.$"),
        (ge.HBGF(2, n_vectors=9), r"^`n_vectors` must be between 1 and n_columns=4, got 9\.$"),
        (ge.LWEA(2, n_groups=3, linkage="single"), r"^`linkage` must be 'average' with n_groups, got 'single'\.$"),
        (ge.PTA(2, n_neighbors=0), r"^`n_neighbors` must be at least 1, got 0\.$"),
        (ge.NMFC(2, tol=-1), r"^`tol` must be finite and at least 0, got -1\.$"),
        (ge.Voting(2, partition_weight=[1]), r"^`partition_weight` must"),
    ],
    ids=str,
)
def test_errors_are_sentences(estimator, message):
    with pytest.raises((ValueError, TypeError), match=message):
        estimator.set_params(device="cpu").fit([[0, 0], [1, 1], [0, 1]])


def test_what_does_not_fit_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr("gpuensemble._array.checks.memory", lambda device: 1000)
    message = r"^ClusterWalk's 6 arrays of 10 x 10 clusters must fit into memory: .*; SEC needs none\.$"
    with pytest.raises(ValueError, match=message):
        ge.ClusterWalk(2, device="cpu").fit(np.arange(10).reshape(5, 2))
    message = r"^PTA's 6 arrays of 5 x 5 distinct rows must fit into memory: .*ClusterWalk and SEC are linear in n\.$"
    with pytest.raises(ValueError, match=message):
        ge.PTA(2, device="cpu").fit(np.arange(10).reshape(5, 2))


def test_trees_without_the_matrix_are_scipys(monkeypatch):
    """With weights that no two sums of agree in, so that nothing ties."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, (60, 6))
    weight = rng.random(6) + 0.5
    similarity = sum(w * (column[:, None] == column) for w, column in zip(weight, labels.T, strict=True))
    for k in (2, 5, 20, 59):
        found = ge.EAC(k, partition_weight=weight, device="cpu").fit_predict(labels)
        assert ge.metrics.ari(literal.average_linkage(similarity / weight.sum(), k), found) == 1
    assert linkage.tree(np.ones((1, 1)), np.ones(1)).shape == (0, 2)


def mostly_noise(seed):
    """Ten partitions of three clusters, the first six of which are noise."""
    rng = np.random.default_rng(seed)
    truth = np.arange(300) % 3
    labels = np.where(rng.random((300, 10)) < 0.3, rng.integers(0, 3, (300, 10)), truth[:, None])
    labels[:, :6] = rng.integers(0, 3, (300, 6))
    return truth, labels


@pytest.mark.parametrize("n_groups", [None, 12])
def test_weights_of_partitions_help_the_walk(n_groups):
    """All means are weighted: where votes alone were, low weights of noise made the consensus worse."""
    scores = []
    for weight in (None, [0.5] * 6 + [1] * 4, [0.05] * 6 + [1] * 4):
        model = ge.ClusterWalk(3, partition_weight=weight, n_groups=n_groups, random_state=0, device="cpu")
        scores.append(np.mean([ge.metrics.ari(t, model.fit_predict(x)) for t, x in map(mostly_noise, range(12))]))
    assert scores[1] > scores[0] - 0.05
    assert scores[2] > 0.8


def test_a_walk_with_weights_is_one_with_copies():
    agree = []
    for seed in range(6):
        _, labels = mostly_noise(seed)
        weighted = ge.ClusterWalk(3, partition_weight=[1] * 6 + [2] * 4, random_state=0, device="cpu")
        copied = ge.ClusterWalk(3, random_state=0, device="cpu").fit_predict(np.hstack([labels, labels[:, 6:]]))
        agree.append(ge.metrics.ari(weighted.fit_predict(labels), copied))
    assert np.mean(agree) > 0.9
