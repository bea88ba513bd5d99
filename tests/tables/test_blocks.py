"""SEC and KCC over blocks of rows: from disk, on a cluster, cut off and resumed; the same bits as in memory."""

import contextlib
import errno
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import gpuensemble as ge
from gpuensemble._kmeans.labels import checkpoint, labellings, lloyd
from gpuensemble._kmeans.labels.costs import SECCosts
from gpuensemble._kmeans.labels.weights import Weighting
from gpuensemble._tables import blocks, outputs, readers, sources
from gpuensemble._tables.counts import sizes
from gpuensemble.estimators._base.kmeans import KMeansConsensus
from support import dealt, membership, one_in, onehot, random_codes, two_workers

ESTIMATORS = {
    "SEC": ge.SEC(4, random_state=0),
    "SEC k-means++": ge.SEC(4, init="k-means++", n_init=3, random_state=0),
    "SEC random, entropy": ge.SEC(4, init="random", n_init=3, cluster_weight="entropy", random_state=0),
    "SEC float32": ge.SEC(4, dtype="float32", random_state=0),
    "KCC entropy": ge.KCC(4, utility="entropy", init="k-means++", n_init=2, random_state=0),
    "KCC cosine": ge.KCC(4, utility="cosine", normalized=True, random_state=0),
}


@pytest.fixture(autouse=True)
def rows_are_left_out(monkeypatch):
    """Tables are small here: rows that cannot have moved would all be evaluated by default."""
    monkeypatch.setattr(KMeansConsensus, "_skip", True)


def ensemble(n=3000, r=9, holes=0.3, seed=0, dtype="int8"):
    """Noisy copies of a partition, with holes, a column of which has gaps between its labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 5, n)
    labels = np.stack([rng.integers(0, 7, 5)[truth] for _ in range(r)], axis=1)
    labels = np.where(rng.random(labels.shape) < 0.4, rng.integers(0, 7, labels.shape), labels)
    labels[rng.random(labels.shape) < holes] = -1
    labels[(labels < 0).all(1), 0] = 0
    return labels.astype(dtype)


def same(one, two):
    """The same bits, whatever kind of array they are in."""
    np.testing.assert_array_equal(np.asarray(one.labels_), np.asarray(two.labels_))
    np.testing.assert_array_equal(np.asarray(one.confidence_), np.asarray(two.confidence_))
    np.testing.assert_array_equal(one.centers_, two.centers_)
    assert one.objective_path_ == two.objective_path_


def on_disk(tmp_path, labels):
    np.save(tmp_path / "labels.npy", labels)
    return np.load(tmp_path / "labels.npy", mmap_mode="r")


@pytest.fixture(params=[4000, 1 << 24], ids=["many blocks", "one block"])
def block_bytes(request, monkeypatch):
    monkeypatch.setattr(readers, "BLOCK_BYTES", request.param)


@pytest.mark.parametrize(("name", "holes"), dealt(ESTIMATORS, [0, 0.3]))
def test_a_mapped_file_gives_the_bits_of_the_array(name, holes, tmp_path, block_bytes):
    labels = ensemble(holes=holes)
    same(clone(ESTIMATORS[name]).fit(on_disk(tmp_path, labels)), clone(ESTIMATORS[name]).fit(labels))


@pytest.mark.parametrize("name", ["SEC", "SEC k-means++", "KCC entropy"])
def test_weights_go_with_their_rows(name, tmp_path, block_bytes):
    labels = ensemble(n=800)
    weight = np.random.default_rng(1).integers(0, 4, len(labels))
    expected = clone(ESTIMATORS[name]).fit(labels, sample_weight=weight)
    same(clone(ESTIMATORS[name]).fit(on_disk(tmp_path, labels), sample_weight=weight), expected)


def test_equal_rows_are_merged_in_memory_only_and_nobody_sees(tmp_path, block_bytes):
    labels = np.tile(ensemble(n=50, r=3), (20, 1))
    for name in ("SEC", "SEC k-means++", "SEC random, entropy", "KCC cosine"):
        same(clone(ESTIMATORS[name]).fit(on_disk(tmp_path, labels)), clone(ESTIMATORS[name]).fit(labels))


def test_a_start_goes_with_its_rows(tmp_path, block_bytes):
    labels, start = ensemble(), np.arange(3000) % 4
    same(ge.SEC(4, init=start).fit(on_disk(tmp_path, labels)), ge.SEC(4, init=start).fit(labels))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([0, 0.4]))
def test_the_blocks_change_no_bit_of_a_product(seed, rows, holes):
    """What the spectral start sums up over rows, as a dense product, for any blocks."""
    from gpuensemble._partition import bipartite

    rng = np.random.default_rng(seed)
    widths = rng.integers(1, 6, 4)
    codes = random_codes(rng, 40, widths, holes)
    m = membership(np, codes, widths)
    bounds = [*range(0, 40, rows), 40]
    streamed = blocks.Streamed(m.codes, bounds, m.widths, m.complete, None)
    given, degrees = rng.standard_normal((m.n_columns, 3)), sizes(streamed)[:, None].astype(float)
    shared = (bipartite.Degrees(degrees), bipartite.Columns(given, np.float64(1.5 * 2.0**12)))
    found = streamed.total(bipartite._product, *shared)
    np.testing.assert_array_equal(found, blocks.whole(m).total(bipartite._product, *shared))
    dense = onehot(codes, widths)
    np.testing.assert_allclose(found, dense.T @ (dense @ given / (dense @ degrees)), atol=1e-9)


def as_npy(path, labels):
    np.save(path / "t.npy", labels)
    return path / "t.npy"


def as_parquet(path, labels):
    frame = pd.DataFrame(labels, columns=[f"p{i}" for i in range(labels.shape[1])])
    frame.to_parquet(path / "t.parquet", row_group_size=700)
    return str(path / "t.parquet")


def as_parquet_folder(path, labels):
    (path / "parts").mkdir()
    for i in range(3):
        pd.DataFrame(labels[i * 1000 : (i + 1) * 1000]).rename(columns=str).to_parquet(path / "parts" / f"{i}.parquet")
    return path / "parts"


def as_zarr(path, labels):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    stored = zarr.create_array(str(path / "t.zarr"), shape=labels.shape, chunks=(500, 3), dtype=labels.dtype)
    stored[:] = labels
    return path / "t.zarr"


def as_fortran(path, labels):
    np.save(path / "f.npy", np.asfortranarray(labels))
    return np.load(path / "f.npy", mmap_mode="r")


def as_view(path, labels):
    np.save(path / "v.npy", np.repeat(labels, 2, axis=0))
    return np.load(path / "v.npy", mmap_mode="r")[::2]


def as_raw(path, labels):
    mapped = np.memmap(path / "t.raw", labels.dtype, "w+", 64, labels.shape)
    mapped[:] = labels
    return mapped


SOURCES = [as_npy, as_parquet, as_parquet_folder, as_zarr, as_fortran, as_view, as_raw]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64", "float64"])
@pytest.mark.parametrize("store", SOURCES)
def test_every_kind_of_file_gives_the_bits_of_the_array(store, dtype, tmp_path, block_bytes):
    labels = ensemble(dtype=dtype)
    labels[labels == 3] = 6  # a gap: these are not codes yet
    same(ge.SEC(4, random_state=0).fit(store(tmp_path, labels)), ge.SEC(4, random_state=0).fit(labels))


def test_text_in_parquet_is_numbered_by_first_occurrence(tmp_path, block_bytes):
    names = np.array(["green", "red", "blue", "grey", "black", "white", "pink", None], object)
    frame = pd.DataFrame(names[ensemble()]).rename(columns=str)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=500)
    streamed, loaded = ge.SEC(4, random_state=0).fit(tmp_path / "t.parquet"), ge.SEC(4, random_state=0).fit(frame)
    same(streamed, loaded)
    np.testing.assert_array_equal(streamed.predict(frame), loaded.labels_)


def test_compact_codes_are_read_where_they_are(tmp_path):
    labels = ensemble(holes=0.2)
    path = as_npy(tmp_path, labels)
    table, _ = sources.table(path, "cpu", None, None)
    assert table.codes.dtype == "uint8"
    assert table.codes.filename == str(path)
    labels[labels == 3] = 6
    table, _ = sources.table(as_npy(tmp_path, labels), "cpu", None, None)
    assert table.codes.dtype == "uint8"
    assert table.codes.filename != str(path)


def test_little_is_kept_of_each_row(tmp_path, monkeypatch):
    """Labels, slack and bin: at most 12 bytes, while Lloyd's iteration runs."""
    monkeypatch.setattr(readers, "BLOCK_BYTES", 5000)
    table, _ = sources.table(on_disk(tmp_path, ensemble()), "cpu", None, None)
    costs = SECCosts.of(table, Weighting(np.ones(9), None, "float64"))
    start = labellings.Given(np.arange(3000, dtype="int32") % 4)
    lloyd.lloyd(lloyd.Problem.of(table, costs, 4), start, 10, skip=True)
    kept = [cache.slacks[1] for cache in table.caches]
    assert all({name for name, entry in vars(cache).items() if entry} == {"slacks"} for cache in table.caches)
    assert sum(array.nbytes for arrays in kept for array in arrays) <= 12 * 3000


def test_labels_go_to_a_file_whole(tmp_path, block_bytes):
    labels = ensemble()
    expected = ge.SEC(4, random_state=0).fit(labels)
    for table in (labels, on_disk(tmp_path, labels)):
        fitted = ge.SEC(4, random_state=0, out=tmp_path / "out.npy").fit(table)
        assert isinstance(fitted.labels_, np.memmap)
        same(fitted, expected)
        np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected.labels_)
        np.testing.assert_array_equal(np.load(tmp_path / "out.confidence.npy"), expected.confidence_)


class Full:
    """A file on a disk that is full."""

    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    (tmp_path / "out.npy").write_bytes(b"before")
    whole_files = outputs.whole_files

    @contextlib.contextmanager
    def full(*paths):
        with whole_files(*paths) as files:
            yield [Full(file) for file in files]

    monkeypatch.setattr(outputs, "whole_files", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*out"):
        ge.SEC(4, random_state=0, out=tmp_path / "out.npy").fit(ensemble())
    assert (tmp_path / "out.npy").read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy"]


def test_a_full_temporary_folder_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(sources.tempfile, "TemporaryFile", lambda **_: Full(open(os.devnull, "wb")))  # noqa: SIM115
    with pytest.raises(OSError, match=r"The codes of `labels` need 27000 bytes in '.*': No space left on device."):
        ge.SEC(4).fit(on_disk(tmp_path, ensemble(dtype="int64")))


def truncated(path):
    os.truncate(path, os.path.getsize(path) // 2)
    return path


def differing(path):
    for i in (1, 2):
        pd.DataFrame(np.ones((5, i), int)).rename(columns=str).to_parquet(path / f"{i}.parquet")
    return path


BAD_FILES = {
    "no file": (lambda path: path / "none.npy", "`labels` must be a file that is there, got '.*none.npy'."),
    "a truncated file": (
        lambda path: truncated(as_npy(path, ensemble())),
        "`labels` must be a whole .npy file of numbers or text, got '.*t.npy': ",
    ),
    "a truncated Parquet file": (
        lambda path: truncated(as_parquet(path, ensemble())),
        "`labels` must be an .npy, .zarr or Parquet file, or a folder of these, got '.*t.parquet': ",
    ),
    "pickles": (
        lambda path: as_npy(path, np.array([[None, 1]], object)),
        "`labels` must be a whole .npy file of numbers or text, got ",
    ),
    "a vector": (lambda path: as_npy(path, np.arange(4)), "`labels` must be a table .*, got shape \\(4,\\)."),
    "complex numbers": (
        lambda path: as_npy(path, np.ones((4, 2), complex)),
        "`labels` must hold integers, strings or other hashable values, got dtype complex128 in column 0.",
    ),
    "a fraction in a later block": (
        lambda path: as_npy(path, np.where(np.arange(6000).reshape(2000, 3) == 4501, 0.5, 1)),
        "`labels` given as numbers must be whole and not negative, .* got 0.5 in row 1500, column 1.",
    ),
    "a row of holes in a later block": (
        lambda path: as_npy(path, np.where(np.arange(2000)[:, None] == 1500, -1, np.ones((1, 3), int))),
        "`labels` must have a label in every row, got only missing ones in row 1500.",
    ),
    "a column of holes": (
        lambda path: as_npy(path, np.tile([0, -1], (2000, 1))),
        "`labels` must have a label in every column, got only missing ones in column 1.",
    ),
    "parts that differ": (
        differing,
        r"`labels` must have the same columns in all files, got '1' in only one of ",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused_in_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "BLOCK_BYTES", 3000)
    make, message = BAD_FILES[name]
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        ge.SEC(2).fit(make(tmp_path))


@pytest.mark.parametrize(
    ("out", "message"),
    [("labels.csv", "`out` must be the path of an .npy file"), ("no/out.npy", "`out` must be in a folder")],
)
def test_a_bad_place_for_the_labels_is_refused_before_any_work(out, message, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "table", None)
    with pytest.raises(ValueError, match=message):
        ge.SEC(4, random_state=0, out=tmp_path / out).fit(ensemble())


class Cut(Exception):
    """The fit was cut off."""


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("writes", [1, 2, 4])
def test_a_fit_that_was_cut_off_goes_on(name, writes, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 1)
    monkeypatch.setattr(lloyd, "AT_ONCE", 1)  # an iteration
    labels, path = ensemble(), str(tmp_path / "state")
    expected = clone(ESTIMATORS[name]).fit(labels)
    estimator = clone(ESTIMATORS[name]).set_params(checkpoint=path, resume=True)
    left = iter(range(writes))
    save = checkpoint.save

    def cut(*args):
        save(*args)
        if next(left, None) is None:
            raise Cut

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", cut)
        with pytest.raises(Cut):
            estimator.fit(labels)
    same(estimator.fit(labels), expected)
    same(estimator.fit(labels), expected)  # from the state at the end


def test_resuming_without_a_seed_goes_on_with_the_draws(tmp_path):
    labels, path = ensemble(), str(tmp_path / "state")
    first = ge.SEC(4, init="random", n_init=3, checkpoint=path).fit(labels)
    same(ge.SEC(4, init="random", n_init=3, checkpoint=path, resume=True).fit(labels), first)


def test_another_table_or_setting_is_not_resumed(tmp_path):
    path = str(tmp_path / "state")
    ge.SEC(4, random_state=0, checkpoint=path).fit(ensemble())
    others = [
        (ge.SEC(5, random_state=0, checkpoint=path, resume=True), ensemble()),
        (ge.SEC(4, random_state=1, checkpoint=path, resume=True), ensemble()),
        (ge.KCC(4, random_state=0, checkpoint=path, resume=True), ensemble()),
        (ge.SEC(4, random_state=0, checkpoint=path, resume=True), ensemble(seed=1)),
    ]
    for estimator, labels in others:
        with pytest.raises(ValueError, match="`checkpoint` must be of the same table and parameters to resume from"):
            estimator.fit(labels)
    (tmp_path / "state").write_bytes(b"nothing of ours")
    with pytest.raises(
        ValueError, match="`checkpoint` must be a whole file that this version wrote, got another one in"
    ):
        ge.SEC(4, random_state=0, checkpoint=path, resume=True).fit(ensemble())


def permuted(labels):
    """The same rows in another order: all cluster sizes stay."""
    return labels[np.random.default_rng(0).permutation(len(labels))]


def columns_shuffled(labels):
    """Each column shuffled on its own: all cluster sizes stay."""
    rng = np.random.default_rng(0)
    return np.stack([rng.permutation(column) for column in labels.T], axis=1)


def one_label_changed(labels):
    labels = labels.copy()
    row = np.flatnonzero(labels[:, 3] == 2)[0]
    other = np.flatnonzero(labels[:, 3] == 4)[0]
    labels[[row, other], 3] = [4, 2]
    return labels


@pytest.mark.parametrize("change", [permuted, columns_shuffled, one_label_changed])
def test_a_table_with_the_same_cluster_sizes_is_not_resumed(change, tmp_path, block_bytes):
    path, labels = str(tmp_path / "state"), ensemble()
    ge.SEC(4, random_state=0, checkpoint=path).fit(labels)
    state = Path(path).read_bytes()
    other = change(labels)
    assert (np.sort(other, axis=0) == np.sort(labels, axis=0)).all()
    for table in (other, on_disk(tmp_path, other)):
        with pytest.raises(ValueError, match="`checkpoint` must be of the same table and parameters to resume from"):
            ge.SEC(4, random_state=0, checkpoint=path, resume=True).fit(table)
        assert Path(path).read_bytes() == state


PARAMETERS = {
    "utility": ({"utility": "cosine"}, {"utility": "category"}),
    "normalized": ({"normalized": True}, {"normalized": False}),
    "init": ({"init": "random"}, {"init": "k-means++"}),
    "n_init": ({"init": "random", "n_init": 3}, {"init": "random", "n_init": 2}),
    "max_iter of several starts": ({"init": "random", "max_iter": 50}, {"init": "random", "max_iter": 60}),
    "partition_weight": ({"partition_weight": np.arange(9)}, {"partition_weight": np.arange(9)[::-1]}),
    "cluster_weight": ({"cluster_weight": "entropy"}, {"cluster_weight": None}),
    "dtype": ({"dtype": "float32"}, {"dtype": "float64"}),
    "a seed of NumPy's": (
        {"init": "random", "random_state": np.int64(1)},
        {"init": "random", "random_state": np.int64(2)},
    ),
}


@pytest.mark.parametrize(("one", "two"), PARAMETERS.values(), ids=PARAMETERS)
def test_another_parameter_is_not_resumed(one, two, tmp_path):
    labels, path = ensemble(n=300), str(tmp_path / "state")
    kept = {"random_state": 0, "checkpoint": path}
    first = ge.KCC(4, **kept | one).fit(labels)
    same(ge.KCC(4, **kept | one, resume=True).fit(labels), first)
    with pytest.raises(ValueError, match="`checkpoint` must be of the same table and parameters to resume from"):
        ge.KCC(4, **kept | two, resume=True).fit(labels)


def test_a_seed_of_any_integer_type_and_a_place_to_work_are_the_same_fit(tmp_path):
    labels, path = ensemble(), str(tmp_path / "state")
    first = ge.SEC(4, init="random", n_init=2, random_state=7, checkpoint=path).fit(labels)
    options = {"random_state": np.int32(7), "verbose": 0, "device": "cpu", "checkpoint": path, "resume": True}
    same(ge.SEC(4, init="random", n_init=2, **options).fit(on_disk(tmp_path, labels)), first)


@pytest.mark.filterwarnings("ignore:`max_iter` = 2 iterations")
def test_a_single_run_goes_on_with_more_iterations(tmp_path):
    labels, path, start = ensemble(), str(tmp_path / "state"), np.arange(3000) % 4
    ge.SEC(4, init=start, max_iter=2, checkpoint=path).fit(labels)
    same(ge.SEC(4, init=start, checkpoint=path, resume=True).fit(labels), ge.SEC(4, init=start).fit(labels))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from(["uint8", "uint16", "int32"]))
def test_the_hash_of_a_table_depends_on_its_content_alone(seed, rows, dtype):
    rng = np.random.default_rng(seed)
    widths = rng.integers(1, 6, 4)
    codes = random_codes(rng, 40, widths, 0.3)
    m = membership(np, codes, widths)
    other = m.codes.astype(dtype)
    other[codes < 0] = np.array(-1).astype(dtype)
    streamed = blocks.Streamed(other, [*range(0, 40, rows), 40], m.widths, m.complete, None)
    merged = m.merge()
    block = blocks.Block(merged.membership, multiplicity=merged.multiplicity, group=merged.group)
    expected = checkpoint.content(blocks.whole(m))
    assert checkpoint.content(streamed) == expected
    assert checkpoint.content(blocks.InMemory(block)) == expected
    codes[7, 1] = (codes[7, 1] + 2) % (widths[1] + 1) - 1
    if (codes[7] >= 0).any():
        assert checkpoint.content(blocks.whole(membership(np, codes, widths))) != expected


def test_a_killed_process_goes_on(tmp_path):
    """SIGKILL in the middle of a fit; another process resumes it."""
    labels = ensemble(n=20_000, r=12)
    np.save(tmp_path / "labels.npy", labels)
    program = textwrap.dedent(
        f"""
        import os, signal, sys
        import gpuensemble as ge
        from gpuensemble._kmeans.labels import checkpoint
        checkpoint.EVERY = 1
        if sys.argv[1] == "die":
            save, left = checkpoint.save, [3]
            def dying(*args):
                save(*args)
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
            checkpoint.save = dying
        ge.SEC(4, init="random", n_init=2, random_state=0, checkpoint={str(tmp_path / "state")!r}, resume=True,
               out={str(tmp_path / "out.npy")!r}).fit({str(tmp_path / "labels.npy")!r})
        """
    )
    died = subprocess.run([sys.executable, "-c", program, "die"], capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL
    assert not (tmp_path / "out.npy").exists()
    subprocess.run([sys.executable, "-c", program, "finish"], capture_output=True, check=True)
    expected = ge.SEC(4, init="random", n_init=2, random_state=0).fit(labels)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected.labels_)


def test_progress_is_shown(tmp_path, capsys):
    ge.SEC(4, init="random", n_init=2, random_state=0, verbose=1).fit(on_disk(tmp_path, ensemble()))
    shown = capsys.readouterr().err
    assert "iterations, at most: 100%" in shown
    assert "iteration=" in shown
    assert "objective=" in shown


def test_a_streamed_table_runs_on_a_device(tmp_path, block_bytes):
    from cudasim import standin
    from cudasim.shim import ShimModule, gxx

    if gxx() is None:
        pytest.skip("g++ is not installed")
    labels = ensemble(n=300, r=4)
    expected = ge.SEC(3, init="k-means++", n_init=1, random_state=0).fit(labels)
    with standin.installed(ShimModule):
        mapped = on_disk(tmp_path, labels)
        found = ge.SEC(3, init="k-means++", n_init=1, random_state=0, device="cuda").fit(mapped)
    assert found.device_ == "cuda:0"
    same(found, expected)


# On a real cluster of worker processes.


@pytest.fixture(scope="module")
def cluster():
    with two_workers() as client:
        yield client


@pytest.mark.parametrize("name", one_in(2, [["SEC"], ["SEC k-means++"], ["KCC entropy"], ["SEC random, entropy"]]))
def test_workers_give_the_bits_of_one_process(name, cluster, tmp_path):
    import dask.array

    labels = ensemble()
    expected = clone(ESTIMATORS[name]).fit(labels)
    fitted = clone(ESTIMATORS[name]).fit(dask.array.from_array(labels, chunks=(701, 4)))
    assert isinstance(fitted.labels_, dask.array.Array)
    same(fitted, expected)
    fitted.set_params(out=tmp_path / "out.npy").fit(dask.array.from_array(labels, chunks=(1000, 9)))
    assert isinstance(fitted.labels_, np.memmap)
    same(fitted, expected)


def test_every_kind_of_table_goes_to_the_workers(cluster, tmp_path, monkeypatch):
    import dask.dataframe

    monkeypatch.setattr(readers, "BLOCK_BYTES", 7000)
    labels = ensemble()
    weight = np.random.default_rng(1).integers(0, 4, len(labels))
    expected = ge.SEC(4, random_state=0).fit(labels, sample_weight=weight)
    frame = pd.DataFrame(labels).rename(columns=str)
    gone = dask.dataframe.from_pandas(pd.concat([frame, frame.iloc[:100] * 0 + 99]), npartitions=4, sort=False)
    kinds = [labels, frame, on_disk(tmp_path, labels), as_parquet(tmp_path, labels), gone[gone["0"] < 99]]
    for table in kinds:
        same(ge.SEC(4, random_state=0, client=cluster).fit(table, sample_weight=weight), expected)
    named = ge.SEC(4, random_state=0).fit(dask.dataframe.from_pandas(frame, npartitions=3), sample_weight=weight)
    same(named, expected)
    assert named.feature_names_in_.tolist() == list(frame.columns)


def test_an_estimator_with_a_client_is_cloned_and_pickled(cluster):
    labels = ensemble()
    estimator = ge.SEC(4, random_state=0, client=cluster)
    fitted = clone(estimator).fit(labels)
    assert fitted.client is cluster
    fitted.labels_, fitted.confidence_ = np.asarray(fitted.labels_), np.asarray(fitted.confidence_)
    loaded = pickle.loads(pickle.dumps(fitted))
    assert loaded.client is None
    np.testing.assert_array_equal(loaded.predict(labels), fitted.labels_)


def test_without_a_cluster_a_collection_is_streamed(monkeypatch):
    dask_array = pytest.importorskip("dask.array", reason="Dask is not installed")
    labels = ensemble()
    monkeypatch.setattr(sources, "current_client", lambda client: None)
    found = ge.SEC(4, random_state=0).fit(dask_array.from_array(labels, chunks=(701, 4)))
    same(found, ge.SEC(4, random_state=0).fit(labels))


def test_a_bad_label_on_a_worker_is_one_sentence(cluster):
    import dask.array

    labels = ensemble(dtype="float64")
    labels[2500, 3] = 0.5
    with pytest.raises(ValueError, match=r"`labels` given as numbers must be whole .* got 0.5 in row 2500, column 3."):
        ge.SEC(4).fit(dask.array.from_array(labels, chunks=(1000, 9)))


def slow_step(block, *args):
    """A step that takes a while, so that a worker dies in the middle of one."""
    time.sleep(0.05)
    return lloyd.step(block, *args)


def die_soon(marker):
    """On a worker: the process ends, once, a moment after this."""
    import threading

    if not os.path.exists(marker):
        with open(marker, "w"):
            threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()


def test_a_worker_that_dies_changes_no_label(cluster, tmp_path, monkeypatch):
    import dask.array

    labels = ensemble(n=4000, r=12)
    table, _ = sources.table(dask.array.from_array(labels, chunks=(250, 12)), "cpu", None, None)
    costs = SECCosts.of(table, Weighting(np.ones(12), None, "float64"))
    start = labellings.Given(np.random.default_rng(0).integers(0, 6, 4000).astype("int32"))
    inside = blocks.whole(ge.Membership.from_labels(labels, device="cpu"))
    own = SECCosts.of(inside, Weighting(np.ones(12), None, "float64"))
    expected = lloyd.lloyd(lloyd.Problem.of(inside, own, 6), start, 60)
    problem = lloyd.Problem.of(table, costs, 6)
    before = set(cluster.run(os.getpid).values())
    monkeypatch.setattr(lloyd, "step", slow_step)  # in this process; workers have the one that it calls
    cluster.submit(die_soon, str(tmp_path / "died"), pure=False).result()
    found = lloyd.lloyd(problem, start, 60)
    assert found.path == expected.path
    (labels_found,) = table.columns(lloyd.labels_of, (costs, found.labelling), ("int32",))
    (labels_expected,) = inside.columns(lloyd.labels_of, (own, expected.labelling), ("int32",))
    np.testing.assert_array_equal(labels_found.compute(), labels_expected)
    assert set(cluster.run(os.getpid).values()) != before


def get_a_device(folder):
    """On a worker: the stand-in device, from now on."""
    sys.path.insert(0, folder)
    from cudasim import standin
    from cudasim.shim import ShimModule

    standin.kept = standin.installed(ShimModule)  # it would end with the last reference to it
    standin.kept.__enter__()


def test_workers_with_a_device_give_the_labels_of_the_cpu():
    import dask.array

    from cudasim.shim import gxx

    if gxx() is None:
        pytest.skip("g++ is not installed")
    labels = ensemble(n=200, r=4)
    with two_workers() as client:
        client.run(get_a_device, str(Path(__file__).parents[1]))
        table = dask.array.from_array(labels, chunks=(60, 4))
        for init in ("spectral", "k-means++"):
            expected = ge.SEC(3, init=init, n_init=1, random_state=0).fit(labels)
            fitted = ge.SEC(3, init=init, n_init=1, random_state=0, device="cuda").fit(table)
            assert fitted.device_ == "cuda:0"
            same(fitted, expected)


def lacking_a_cluster(table):
    """A run from a start that leaves a cluster empty."""
    costs = SECCosts.of(table, Weighting(np.ones(9), None, "float64"))
    start = labellings.Given(np.arange(3000, dtype="int32") % 3)
    return lloyd.lloyd(lloyd.Problem.of(table, costs, 4), start, 20, skip=True)


def test_an_emptied_cluster_is_filled_alike_everywhere(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "BLOCK_BYTES", 7000)
    labels = ensemble()
    filled = []
    fillers = lloyd._fillers
    monkeypatch.setattr(lloyd, "_fillers", lambda *args: filled.append(fillers(*args)) or filled[-1])
    expected = lacking_a_cluster(blocks.whole(ge.Membership.from_labels(labels, device="cpu")))
    assert filled[0]
    assert (expected.statistics.counts > 0).any(0).all()
    for client in (None, cluster):
        table, _ = sources.table(on_disk(tmp_path, labels), "cpu", client, None)
        found = lacking_a_cluster(table)
        assert found.path == expected.path
        np.testing.assert_array_equal(found.statistics.counts, expected.statistics.counts)


# What a file may be that is not what it says.


def frames(folder, *tables):
    for i, frame in enumerate(tables):
        frame.to_parquet(folder / f"{i}.parquet")
    return folder


def test_parquet_files_are_joined_by_the_names_of_their_columns(tmp_path):
    frame = pd.DataFrame(ensemble(n=400)).rename(columns=lambda i: f"p{i}")
    expected = ge.SEC(4, random_state=0).fit(frame)
    turned = frame.iloc[200:, ::-1]
    same(ge.SEC(4, random_state=0).fit(frames(tmp_path, frame.iloc[:200], turned)), expected)


def test_parquet_files_with_other_columns_are_refused(tmp_path):
    frame = pd.DataFrame(ensemble(n=40)).rename(columns=lambda i: f"p{i}")
    folder = frames(tmp_path, frame, frame.rename(columns={"p3": "p9"}))
    message = (
        r"`labels` must have the same columns in all files, got 'p3' in only one of '.*0\.parquet' and '.*1\.parquet'\."
    )
    with pytest.raises(ValueError, match=message):
        ge.SEC(4).fit(folder)


def test_a_missing_chunk_of_zarr_is_refused_unless_it_reads_as_holes(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    labels = ensemble(n=900, holes=0)
    for fill in (0, -1):
        path = tmp_path / f"t{fill}.zarr"
        stored = zarr.create_array(str(path), shape=(900, 9), chunks=(300, 3), dtype="int8", fill_value=fill)
        stored[:] = labels
        (chunk,) = path.glob("c/1/2")
        chunk.unlink()
    with pytest.raises(
        ValueError, match=r"`labels` must have all its chunks .*, got 8 of 9 in .*, whose fill value is 0\."
    ):
        ge.SEC(4, random_state=0).fit(tmp_path / "t0.zarr")
    labels[300:600, 6:] = -1
    same(ge.SEC(4, random_state=0).fit(tmp_path / "t-1.zarr"), ge.SEC(4, random_state=0).fit(labels))


def test_labels_that_a_float_cannot_tell_apart_are_refused(tmp_path):
    large = pd.DataFrame({"p": [2**53, 2**53 + 1]})
    folder = frames(tmp_path, large, pd.DataFrame({"p": [0.0, 1.0]}))
    with pytest.raises(
        ValueError, match=r"`labels` must be at most 2\*\*53 where .*, got 9007199254740993 in column 0\."
    ):
        ge.SEC(2).fit(folder)


def test_an_archive_under_the_name_of_an_array_is_refused(tmp_path):
    with (tmp_path / "t.npy").open("wb") as file:
        np.savez(file, a=ensemble())
    with pytest.raises(ValueError, match=r"`labels` must be a whole \.npy file of numbers or text, got '.*t\.npy'"):
        ge.SEC(4).fit(tmp_path / "t.npy")


def test_every_flipped_bit_of_a_checkpoint_is_noticed(tmp_path):
    labels, path = ensemble(n=200), tmp_path / "state"
    ge.SEC(4, random_state=0, checkpoint=str(path)).fit(labels)
    sound = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [sound[: rng.integers(len(sound))] for _ in range(20)]
    for _ in range(200):
        place, bit = rng.integers(len(sound)), 1 << rng.integers(8)
        damaged.append(sound[:place] + bytes([sound[place] ^ bit]) + sound[place + 1 :])
    for text in damaged:
        path.write_bytes(text)
        with pytest.raises(ValueError, match=r"^`checkpoint` must be a whole file that this version wrote"):
            ge.SEC(4, random_state=0, checkpoint=str(path), resume=True).fit(labels)
        assert path.read_bytes() == text


BAD_PARAMETERS = {
    "client": (5, TypeError, "`client` must be a dask.distributed.Client, got 5 of type int."),
    "checkpoint": (5, TypeError, "`checkpoint` must be the path of a file, got 5 of type int."),
    "resume": ("no", TypeError, "`resume` must be True or False, got 'no' of type str."),
    "dtype": (0, ValueError, "`dtype` must be one of 'float32', 'float64', got 0."),
    "verbose": ("yes", TypeError, "`verbose` must be an integer, got 'yes' of type str."),
    "init": ("\n", ValueError, "`init` must be one of 'spectral', 'k-means++', 'random', got '\\n'."),
}


@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_parameters_of_other_types_are_one_sentence(name):
    value, kind, message = BAD_PARAMETERS[name]
    with pytest.raises(kind) as error:
        ge.SEC(4, **{name: value}).fit(ensemble(n=50))
    assert str(error.value) == message


def test_a_checkpoint_in_a_folder_that_is_not_there_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "table", None)
    with pytest.raises(ValueError, match="`checkpoint` must be a file in a folder that is there, got "):
        ge.SEC(4, checkpoint=str(tmp_path / "no" / "state")).fit(ensemble())
