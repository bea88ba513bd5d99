"""Files that open, but whose rows cannot be read: one sentence that names the file."""

import json
import os
import re

import numcodecs
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import zarr

import gpuensemble as ge
from gpuensemble._cli.tables import files
from gpuensemble._tables import sources
from support import ensemble


def refused(path, message, labels=None):
    """The message after the name of the file, on one line."""
    with pytest.raises(ValueError, match=f"^`{re.escape(str(path))}` {message}") as error:
        ge.SEC(3).fit(path if labels is None else labels)
    assert len(str(error.value).splitlines()) == 1
    assert str(error.value).endswith(".")


def overwritten(path, place=4, size=40):
    content = bytearray(path.read_bytes())
    content[place : place + size] = bytes([0xAB]) * size
    path.write_bytes(content)


def stored(path, table, **options):
    zarr.create_array(str(path), shape=table.shape, chunks=(4, 2), dtype=table.dtype, **options)[:] = table
    return path


def test_a_damaged_page_of_parquet(tmp_path):
    _, labels = ensemble(n=40)
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({f"p{i}": column for i, column in enumerate(labels.T)}), path)
    overwritten(path)
    refused(path, "must be a whole file: ")


@pytest.mark.parametrize("version", [2, 3])
def test_a_damaged_chunk_of_zarr(tmp_path, version):
    path = stored(tmp_path / "t.zarr", ensemble(n=12)[1], zarr_format=version)
    overwritten(path / ("0.0" if version == 2 else "c/0/0"))
    refused(path, "must be a whole file: ")


def test_a_damaged_chunk_of_features(tmp_path):
    path = stored(tmp_path / "X.zarr", np.random.default_rng(0).normal(size=(12, 3)))
    overwritten(path / "c/0/0")
    with pytest.raises(ValueError, match=f"^`{path}` must be a whole file: .*\\.$"):
        ge.segments.consensus(path, 2, tmp_path / "labels.npy", n_partitions=8, row_ratio=0.5)


@pytest.mark.parametrize("fill", [0, -1])
@pytest.mark.parametrize("shape", [[10**15, 8], [10**7, 8], [12, 10**15]])
def test_a_zarr_array_of_a_shape_that_it_has_no_chunks_for(tmp_path, fill, shape):
    path = stored(tmp_path / "t.zarr", ensemble(n=12)[1], fill_value=fill)
    about = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps(about | {"shape": shape}))
    with pytest.raises(
        ValueError, match=r"^`labels` must have chunks for each row and column, got \d+ of \d+ in '.*t\.zarr'\.$"
    ):
        ge.SEC(3).fit(path)


@pytest.mark.parametrize("version", [2, 3])
def test_a_chunk_of_blosc_that_was_cut_off(tmp_path, version):
    """Its decoder reads on beyond the end, and finds whatever is there."""
    codec = numcodecs.Blosc() if version == 2 else zarr.codecs.BloscCodec()
    path = stored(tmp_path / "t.zarr", ensemble(n=12)[1], zarr_format=version, compressors=codec)
    assert len(ge.SEC(3, random_state=0).fit(path).labels_) == 12
    chunk = path / ("1.1" if version == 2 else "c/1/1")
    chunk.write_bytes(chunk.read_bytes()[:40])
    with pytest.raises(ValueError, match=rf"^`{chunk}` must be a whole chunk of \d+ bytes, got 40\.$"):
        ge.SEC(3).fit(path)


def test_text_of_parquet_that_is_not_utf8(tmp_path):
    path = tmp_path / "t.parquet"
    words = pyarrow.array(["red", "green", "blue", "red"])
    buffers = words.buffers()
    damaged = pyarrow.py_buffer(b"\xff" + buffers[2].to_pybytes()[1:])
    words = pyarrow.StringArray.from_buffers(4, buffers[1], damaged)
    pyarrow.parquet.write_table(pyarrow.table({"p": words, "q": [1, 1, 2, 2]}), path)
    refused(path, "must be a whole file: .*UTF8")
    with pytest.raises(ValueError, match=f"^`{path}` must be a Parquet file: .*UTF8.*[.]$"):
        files.read_labels(str(path))


def test_large_labels_beside_nulls_of_parquet_stay_apart(tmp_path):
    """As floats, which pandas makes of integers with nulls, two of these would be one."""
    path = tmp_path / "t.parquet"
    large = pyarrow.array([2**53, 2**53 + 1, None, 2**53], "int64")
    pyarrow.parquet.write_table(pyarrow.table({"p": large, "q": [1, 1, 1, 1]}), path)
    assert sources.table(path, "cpu", None, None)[0].widths.tolist() == [2, 1]
    assert files.read_labels(str(path)).values["p"].nunique() == 2


@pytest.mark.parametrize("shape", [[10**15, 3], [10**8, 3], [12, 10**15]])
def test_features_of_a_shape_that_they_have_no_chunks_for(tmp_path, shape):
    path = stored(tmp_path / "X.zarr", np.random.default_rng(0).normal(size=(12, 3)))
    about = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps(about | {"shape": shape}))
    with pytest.raises(
        ValueError, match=r"^`X` must have chunks for each row and column, got 6 of \d+ in '.*X\.zarr'\.$"
    ):
        ge.segments.consensus(path, 2, tmp_path / "labels.npy", n_partitions=8, row_ratio=0.5)


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_that_goes_on_after_its_table_is_refused(tmp_path, order):
    """A damaged shape of fewer rows looks like that: nobody would miss the others."""
    path = tmp_path / "t.npy"
    np.save(path, np.asarray(ensemble(n=12)[1], order=order))
    path.write_bytes(path.read_bytes().replace(b"(12, 8)", b"(11, 8)"))
    with pytest.raises(
        ValueError, match=r"^`labels` must be a whole \.npy file of numbers or text, got .*t\.npy': \d+ b.*\.$"
    ):
        ge.SEC(3).fit(path)
    with pytest.raises(ValueError, match=f"^`{path}` must be an NPY file of numbers or text"):
        files.read_labels(str(path))


@pytest.mark.parametrize("name", ["t.npy", "t.parquet"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=rf"^`labels` must be a file that is there, got '.*{name}'\.$"):
        ge.SEC(3).fit(tmp_path / name)


def test_a_shape_that_no_number_counts_the_entries_of(tmp_path):
    path = tmp_path / "t.npy"
    with path.open("wb") as file:
        about = {"descr": "<i2", "fortran_order": False, "shape": (10**12, 10**12)}
        np.lib.format.write_array_header_1_0(file, about)
        file.write(bytes(99))
    with pytest.raises(ValueError, match=r"^`labels` must be a whole \.npy file of numbers or text, got .*t\.npy': "):
        ge.SEC(3).fit(path)
    with pytest.raises(ValueError, match=f"^`{path}` must be an NPY file of numbers or text"):
        files.read_labels(str(path))
