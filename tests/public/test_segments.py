"""Row segmentation end to end: features in files or on a cluster, base partitions on disk, their consensus."""

import json

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import gpuensemble as ge
from gpuensemble import segments
from gpuensemble._array.rows import by_first_occurrence
from gpuensemble._cli.main import main
from gpuensemble._graphs import landmarks
from gpuensemble.segments import _partitions
from gpuensemble.segments._partitions import Base, stripes
from support import two_workers


def blobs(n=900, d=5, k=3, dtype="float64"):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, k, n)
    return truth, (6 * rng.standard_normal((k, d))[truth] + rng.standard_normal((n, d))).astype(dtype)


def stored(kind, X, path):
    """The matrix in a file, or as it is."""
    if kind == "array":
        return X
    if kind == "zarr":
        zarr = pytest.importorskip("zarr", reason="zarr is not installed")
        zarr.create_array(str(path / "X.zarr"), shape=X.shape, chunks=(100, 2), dtype=X.dtype)[:] = X
        return path / "X.zarr"
    if kind == "dask":
        return pytest.importorskip("dask.array", reason="Dask is not installed").from_array(X, chunks=(250, 3))
    np.save(path / "X.npy", X)
    return path / "X.npy" if kind == "path" else np.load(path / "X.npy", mmap_mode="r")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["array", "path", "memmap", "zarr", "dask"])
def test_the_partitions_are_those_of_the_array_in_memory(kind, dtype, tmp_path):
    _, X = blobs(dtype=dtype)
    path = tmp_path / "labels.npy"
    base = Base("segments", 4, 12, 0.25, "sqeuclidean", 7, "cpu", None)
    segments.write(stripes(stored(kind, X, tmp_path), base), path)
    expected = ge.generate.row_segments(X, 4, 12, 0.25, random_state=7, device="cpu")
    found = np.load(path)
    assert found.dtype == "int8"
    np.testing.assert_array_equal(found, expected)


def test_the_consensus_is_sec_of_the_file(tmp_path):
    truth, X = blobs()
    fitted = segments.consensus(
        stored("path", X, tmp_path), 3, tmp_path / "labels.npy", n_partitions=20, random_state=0, out=tmp_path / "o.npy"
    )
    assert adjusted_rand_score(truth, fitted.labels_) > 0.99
    assert isinstance(fitted.labels_, np.memmap)
    again = ge.SEC(3, init=np.asarray(fitted.labels_)).fit(np.load(tmp_path / "labels.npy"))
    np.testing.assert_array_equal(again.labels_, fitted.labels_)


def test_workers_give_the_same(tmp_path):
    _, X = blobs()
    options = {"n_partitions": 12, "row_ratio": 0.25, "random_state": 0}
    expected = segments.consensus(X, 3, tmp_path / "a.npy", device="cpu", **options)
    with two_workers() as client:
        for kind in ("path", "array", "dask"):
            given = stored(kind, X, tmp_path)
            fitted = segments.consensus(given, 3, tmp_path / "b.npy", client=client, **options)
            np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), np.load(tmp_path / "a.npy"))
            np.testing.assert_array_equal(np.asarray(fitted.labels_), expected.labels_)


def test_partitions_that_are_there_are_not_made_again(tmp_path, monkeypatch):
    _, X = blobs()
    options = {"n_partitions": 10, "random_state": 0, "checkpoint": str(tmp_path / "state"), "resume": True}
    first = segments.consensus(X, 3, tmp_path / "labels.npy", **options)
    monkeypatch.setattr(segments, "write", None)
    second = segments.consensus(X, 3, tmp_path / "labels.npy", **options)
    np.testing.assert_array_equal(first.labels_, second.labels_)
    with pytest.raises(ValueError, match=r"`labels` must be of 800 rows and 10 partitions to resume from, got shape"):
        segments.consensus(X[:800], 3, tmp_path / "labels.npy", **options)


@pytest.mark.parametrize(
    "other", [{"random_state": 1}, {"base_clusters": 4}, {"row_ratio": 0.3}, {"X": "backwards"}], ids=str
)
def test_partitions_of_other_features_or_parameters_are_not_resumed_from(tmp_path, other):
    _, X = blobs()
    options = {"n_partitions": 10, "random_state": 0, "device": "cpu", "resume": True}
    segments.consensus(X, 3, tmp_path / "labels.npy", **options)
    before = (tmp_path / "labels.npy").read_bytes()
    other = dict(other)
    X = X[::-1] if other.pop("X", None) else X
    with pytest.raises(ValueError, match=r"^`labels` must be of the same features and parameters to resume from, got"):
        segments.consensus(X, 3, tmp_path / "labels.npy", **options | other)
    assert (tmp_path / "labels.npy").read_bytes() == before


def nan_in_row_700():
    _, X = blobs()
    X[700, 2] = np.nan
    return X


BAD = {
    "NaN": (nan_in_row_700(), {}, "`X` must be finite, got nan in row 700, column 2."),
    "a vector": (np.arange(5.0), {}, r"`X` must be a matrix of at least one row and one column, got shape \(5,\)."),
    "few segments": (blobs()[1], {"n_partitions": 2}, "`n_partitions` must be at least 5 for segments of 180 rows"),
    "a ratio": (blobs()[1], {"row_ratio": 0}, "`row_ratio` must be more than 0 and at most 1, got 0."),
    "a distance": (blobs()[1], {"distance": "l1"}, "`distance` must be one of"),
    "zeros": (np.zeros((50, 2)), {"distance": "cosine"}, "`X` must have no row of zeros with the cosine distance, got"),
    "no file": ("none.npy", {}, "`X` must be a file that is there, got 'none.npy'."),
    "text": (__file__, {}, "`X` must be an array, or the path of an .npy file or a .zarr folder, got"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_nothing_is_written(name, tmp_path):
    X, options, message = BAD[name]
    with pytest.raises((ValueError, TypeError), match=message):
        segments.consensus(X, 3, tmp_path / "labels.npy", device="cpu", **{"n_partitions": 10} | options)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"`labels` must be the path of an .npy file, got 'labels.csv'."):
        segments.consensus(X, 3, "labels.csv", device="cpu")


@pytest.mark.parametrize("distance", ["sqeuclidean", "cosine"])
@pytest.mark.parametrize("kind", ["array", "path", "memmap", "zarr", "dask"])
def test_landmark_partitions_are_those_of_the_array_in_memory(kind, distance, tmp_path, monkeypatch):
    for module, name, value in ((_partitions, "BLOCK", 128), (landmarks, "SAMPLE", 600)):
        monkeypatch.setattr(module, name, value)
    _, X = blobs()
    base = Base("landmark-spectral", 3, 5, 0.2, distance, 7, "cpu", None)
    segments.write(stripes(stored(kind, X, tmp_path), base), tmp_path / "labels.npy")
    expected = ge.generate.landmark_spectral(X, 3, 5, distance=distance, random_state=7, device="cpu")
    found = np.load(tmp_path / "labels.npy")
    assert found.dtype == "int8"
    for one, other in zip(found.T, expected.T, strict=True):
        np.testing.assert_array_equal(by_first_occurrence(one), other)


def test_the_consensus_of_landmark_partitions(tmp_path):
    truth, X = blobs()
    options = {"partitions": "landmark-spectral", "n_partitions": 6, "random_state": 0}
    expected = segments.consensus(X, 3, tmp_path / "a.npy", device="cpu", **options)
    assert adjusted_rand_score(truth, expected.labels_) > 0.99
    with two_workers() as client:
        for kind in ("path", "array", "dask"):
            fitted = segments.consensus(
                stored(kind, X, tmp_path), 3, tmp_path / "b.npy", device="cpu", client=client, **options
            )
            np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), np.load(tmp_path / "a.npy"))
            np.testing.assert_array_equal(np.asarray(fitted.labels_), expected.labels_)
    again = segments.consensus(X, 3, tmp_path / "a.npy", device="cpu", resume=True, **options)
    np.testing.assert_array_equal(again.labels_, expected.labels_)
    with pytest.raises(ValueError, match=r"`labels` must be of the same features and parameters to resume from"):
        segments.consensus(X[::-1], 3, tmp_path / "a.npy", device="cpu", resume=True, **options)


def test_bad_options_of_landmark_partitions(tmp_path):
    _, X = blobs()
    for options, sentence in (
        ({"distance": "kl"}, r"`distance` must be one of 'sqeuclidean', 'cosine', got 'kl'\."),
        ({"n_partitions": 0}, r"`n_partitions` must be at least 1, got 0\."),
        ({"base_clusters": 901}, r"`n_clusters` must be between 1 and n_samples=900, got 901\."),
    ):
        with pytest.raises(ValueError, match=sentence):
            segments.consensus(X, 3, tmp_path / "a.npy", partitions="landmark-spectral", **options)
    with pytest.raises(ValueError, match=r"`partitions` must be one of 'segments', 'landmark-spectral', got 'k'\."):
        segments.consensus(X, 3, tmp_path / "a.npy", partitions="k")
    X[700, 2] = np.nan
    with pytest.raises(ValueError, match=r"`X` must be finite, got nan in row 700, column 2\."):
        segments.consensus(X, 3, tmp_path / "a.npy", partitions="landmark-spectral", n_partitions=2)
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path, capsys):
    truth, X = blobs()
    names = {name: str(tmp_path / f"{name}.npy") for name in ("X", "labels", "out")}
    np.save(names["X"], X)
    arguments = ["fit-segments", names["X"], "-k", "3", "-r", "20", "--labels", names["labels"], "--out", names["out"]]
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["clusters"] == 3
    assert report["samples"] == 900
    assert adjusted_rand_score(truth, np.load(names["out"])) > 0.99
    assert main([*arguments, "--partitions", "landmark-spectral", "-r", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == 4
    assert adjusted_rand_score(truth, np.load(names["out"])) > 0.99
    assert main([*arguments, "--ratio", "2"]) == 2
    assert "`row_ratio` must be more than 0 and at most 1, got 2.0." in capsys.readouterr().err
