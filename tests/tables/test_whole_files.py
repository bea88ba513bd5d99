"""Files that are written whole: modes, names, links, and inputs that stay."""

import os
import stat

import numpy as np
import pytest

import gpuensemble as ge
from gpuensemble._tables.files import whole_file, whole_files
from support import ensemble


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_what_is_replaced_lends_its_mode(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"before")
    path.chmod(0o600)
    with whole_file(str(path)) as file:
        file.write(b"after")
    assert path.read_bytes() == b"after"
    assert mode(path) == 0o600


def test_a_new_file_has_the_mode_that_the_umask_gives(tmp_path):
    (tmp_path / "plain").touch()
    with whole_file(str(tmp_path / "new")) as file:
        file.write(b"x")
    assert mode(tmp_path / "new") == mode(tmp_path / "plain")


def test_names_of_the_longest_length_work(tmp_path):
    path = tmp_path / ("x" * 255)
    with whole_file(str(path)) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "target").write_bytes(b"before")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with whole_file(str(tmp_path / "link")) as file:
        file.write(b"after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"after"


def test_the_name_until_all_is_written_cannot_be_guessed(tmp_path, monkeypatch):
    seen = set()
    for _ in range(2):
        with whole_file(str(tmp_path / "out")) as file:
            seen |= {path.name for path in tmp_path.iterdir() if path.suffix == ".partial"}
            file.write(b"x")
    assert len(seen) == 2
    monkeypatch.setattr("secrets.token_hex", lambda n: "known")
    (tmp_path / ".known.partial").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError), whole_file(str(tmp_path / "other")):
        pass
    assert not (tmp_path / "victim").exists()


def test_an_error_that_is_a_sentence_stays_one(tmp_path):
    with pytest.raises(ConnectionError, match=r"^The cluster is gone\.$"), whole_file(str(tmp_path / "out")):
        raise ConnectionError("The cluster is gone.")


def test_files_that_belong_together_take_their_names_when_all_are_on_disk(tmp_path, monkeypatch):
    paths = [tmp_path / "labels", tmp_path / "confidences"]
    paths[1].write_bytes(b"of another fit")
    there = []
    monkeypatch.setattr("os.fsync", lambda _: there.append([path.exists() for path in paths]))
    with whole_files(*map(str, paths)) as files:
        for file in files:
            file.write(b"x")
    assert there == [[False, True], [False, True]]
    assert [path.read_bytes() for path in paths] == [b"x", b"x"]


def saved(tmp_path, labels):
    np.save(tmp_path / "labels.npy", labels.astype("int8"))
    return tmp_path / "labels.npy"


@pytest.mark.parametrize("parameter", ["out", "checkpoint"])
@pytest.mark.parametrize("how", ["path", "mapped", "link"])
def test_an_output_that_is_the_input_is_refused(parameter, how, tmp_path):
    path = saved(tmp_path, ensemble()[1])
    before = path.read_bytes()
    given = np.load(path, mmap_mode="r") if how == "mapped" else path
    output = path
    if how == "link":
        output = tmp_path / "other.npy"
        output.hardlink_to(path)
    with pytest.raises(ValueError, match=f"`{parameter}` must be another file than the one that is read, got "):
        ge.SEC(4, random_state=0, **{parameter: str(output)}).fit(given)
    assert path.read_bytes() == before


def test_confidences_do_not_take_the_place_of_a_file_that_came_without_labels(tmp_path):
    _, labels = ensemble()
    mine = tmp_path / "out.confidence.npy"
    mine.write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"`out` must be a name beside which 'out\.confidence\.npy' can go, got "):
        ge.SEC(4, random_state=0, out=tmp_path / "out.npy").fit(labels)
    assert mine.read_bytes() == b"mine"
    for _ in range(2):  # the second time both are there, and go together
        ge.SEC(4, random_state=0, out=tmp_path / "again.npy").fit(labels)


@pytest.mark.parametrize("parameter", ["labels", "out"])
def test_segments_do_not_overwrite_the_features(parameter, tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((60, 3)))
    before = (tmp_path / "X.npy").read_bytes()
    paths = {"labels": tmp_path / "labels.npy", "out": None} | {parameter: tmp_path / "X.npy"}
    with pytest.raises(ValueError, match=f"`{parameter}` must be another file than the one that is read"):
        ge.segments.consensus(tmp_path / "X.npy", 2, paths["labels"], n_partitions=10, out=paths["out"])
    assert (tmp_path / "X.npy").read_bytes() == before


def test_two_outputs_do_not_go_to_one_file(tmp_path):
    X, same = np.random.default_rng(0).random((60, 3)), tmp_path / "same.npy"
    for name in ("out", "checkpoint"):
        with pytest.raises(ValueError, match=f"`{name}` must be another file than `labels`, got '.*' for both[.]$"):
            ge.segments.consensus(X, 2, tmp_path / ".." / tmp_path.name / "same.npy", n_partitions=10, **{name: same})
    with pytest.raises(ValueError, match=r"`out` must be another file than `checkpoint`, got '.*' for both[.]$"):
        ge.SEC(2, out=same, checkpoint=tmp_path / "same.confidence.npy").fit(ensemble()[1])
    assert not list(tmp_path.iterdir())
