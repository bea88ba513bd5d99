"""HBGF: against a literal dense transcription, from disk and on a cluster, with weights and holes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import gpuensemble as ge
from gpuensemble._array.devices import namespace, to_host
from gpuensemble._partition import bipartite
from gpuensemble._tables import readers
from gpuensemble._tables.blocks import whole
from support import ensemble, membership, onehot, random_codes, two_workers


def literal(H, k):
    """Fern and Brodley 2004, spectral: the embedding of samples, whose rows have length 1."""
    D_x, D_c = H.sum(1), H.sum(0)
    W = H.T @ (H / D_x[:, None])
    np.testing.assert_allclose(W.sum(1), D_c)  # the degrees of clusters are their sizes
    _, vectors = np.linalg.eigh(W / np.sqrt(np.outer(D_c, D_c)))
    rows = (H / D_x[:, None] / np.sqrt(D_c)) @ vectors[:, ::-1][:, :k]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("holes", [0, 0.3])
def test_the_embedding_is_that_of_the_paper(xp, holes):
    rng = np.random.default_rng(0)
    codes, widths = ensemble(holes=holes)[1], np.full(8, 6)
    table = whole(membership(xp, codes, widths))
    projection = bipartite.embedding(table, bipartite.of_samples_and_clusters(table), 4, rng)
    H = onehot(codes, widths)
    seen = H.any(0)
    found = to_host(bipartite._directions(table.block.m.gather_sum(xp.asarray(projection))))
    expected = literal(H[:, seen], 4)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-2)  # of a start's tolerance


@pytest.mark.parametrize("holes", [0, 0.3])
def test_labels_are_those_of_the_transcription(holes):
    _, labels = ensemble(n=200, holes=holes, seed=1)
    rows = literal(onehot(labels, np.full(8, 6))[:, onehot(labels, np.full(8, 6)).any(0)], 4)
    expected = KMeans(4, n_init=10, random_state=0).fit_predict(rows)
    assert ge.metrics.ari(expected, ge.HBGF(4, random_state=0, device="cpu").fit_predict(labels)) == 1


@pytest.mark.parametrize("holes", [0, 0.3])
def test_the_objective_is_the_normalised_cut_of_the_samples(holes):
    _, labels = ensemble(holes=holes)
    fitted = ge.HBGF(4, random_state=0, device="cpu").fit(labels)
    H = onehot(labels, np.full(8, 6))
    H = H[:, H.any(0)]
    affinity, members = H / H.sum(0) @ H.T, np.eye(4)[fitted.labels_]
    inside = np.einsum("xk,xy,yk->k", members, affinity, members)
    assert fitted.objective_ == pytest.approx(4 - (inside / (affinity.sum(1) @ members)).sum(), rel=1e-12)


def test_whole_weights_are_copies_of_rows(xp):
    _, labels = ensemble(n=60, holes=0.2)
    weight = np.random.default_rng(0).integers(1, 4, 60)
    weighted = ge.HBGF(4, random_state=0).fit(xp.asarray(labels), sample_weight=xp.asarray(weight))
    copies = ge.HBGF(4, random_state=0, device="cpu").fit(np.repeat(labels, weight, axis=0))
    assert namespace(weighted.labels_) is xp
    assert ge.metrics.ari(np.repeat(to_host(weighted.labels_), weight), copies.labels_) == 1
    assert weighted.objective_ == pytest.approx(copies.objective_, rel=1e-9)


def same(one, two):
    np.testing.assert_array_equal(np.asarray(one.labels_), np.asarray(two.labels_))
    np.testing.assert_array_equal(np.asarray(one.confidence_), np.asarray(two.confidence_))
    assert one.objective_ == two.objective_


def test_a_file_and_any_blocks_give_the_bits_of_the_array(tmp_path, monkeypatch):
    _, labels = ensemble(n=3000, holes=0.2)
    expected = ge.HBGF(4, random_state=0).fit(labels)
    np.save(tmp_path / "labels.npy", labels.astype("int8"))
    for size in (2000, 1 << 22):
        monkeypatch.setattr(readers, "BLOCK_BYTES", size)
        same(ge.HBGF(4, random_state=0).fit(tmp_path / "labels.npy"), expected)
    written = ge.HBGF(4, random_state=0, out=tmp_path / "out.npy").fit(tmp_path / "labels.npy")
    same(written, expected)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected.labels_)


def test_workers_give_the_bits_of_one_process():
    dask_array = pytest.importorskip("dask.array", reason="Dask is not installed")
    _, labels = ensemble(n=1000, holes=0.2)
    expected = ge.HBGF(4, random_state=0).fit(labels)
    with two_workers():
        same(ge.HBGF(4, random_state=0).fit(dask_array.from_array(labels, chunks=(300, 8))), expected)


def test_frames_of_names_are_predicted_by_the_names():
    truth, labels = ensemble()
    frame = pd.DataFrame(labels).map(lambda x: f"c{x}").rename(columns=lambda i: f"p{i}")
    fitted = ge.HBGF(4, random_state=0).fit(frame)
    assert ge.metrics.ari(truth, fitted.predict(frame.iloc[::-1])[::-1]) > 0.9
    with pytest.raises(ValueError, match="`labels` must have the columns that `fit` saw, in that order, got 'p1'"):
        fitted.predict(frame.iloc[:, ::-1].rename(columns={"p7": "p1"}))


def test_fewer_distinct_rows_than_clusters_warn():
    with pytest.warns(
        ConvergenceWarning, match=r"^`n_clusters` = 3 is more than there are distinct rows: 2 clusters\.$"
    ):
        labels = ge.HBGF(3, random_state=0, device="cpu").fit_predict([[0, 0]] * 4 + [[1, 1]] * 4)
    assert len(set(labels.tolist())) == 2


def test_random_labels_are_cut_into_as_many_clusters_as_asked_for():
    labels = random_codes(np.random.default_rng(0), 300, [5] * 6, 0.2)
    assert len(set(ge.HBGF(7, random_state=0, device="cpu").fit_predict(labels).tolist())) == 7


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_init": 0}, "`n_init` must be at least 1, got 0."),
        ({"n_clusters": 81}, "`n_clusters` must be between 1 and n_samples=80, got 81."),
        ({"dtype": "float16"}, "`dtype` must be one of 'float32', 'float64', got 'float16'."),
        ({"out": "labels.csv"}, "`out` must be the path of an .npy file, got 'labels.csv'."),
    ],
)
def test_bad_parameters_get_one_sentence(parameters, message):
    with pytest.raises(ValueError) as error:
        ge.HBGF(4, device="cpu").set_params(**parameters).fit(ensemble()[1])
    assert str(error.value) == message
