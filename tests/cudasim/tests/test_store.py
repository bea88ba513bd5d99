"""What compilers made is made once, whoever asks, and what could not be made leaves nothing behind."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cudasim import store

TESTS = Path(store.__file__).parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "folder", lambda: tmp_path)
    return tmp_path


def test_the_inputs_tell_products_apart(folder):
    paths = [store.made(inputs, ".txt", lambda path: path.write_text("x")) for inputs in (("ab",), ("a", "b"), ("ab",))]
    assert paths[0] == paths[2] != paths[1]
    assert {path.parent for path in paths} == {folder}


@pytest.mark.skipif(store.fcntl is None, reason="locks of files are POSIX")
def test_threads_make_it_once(folder):
    made = []

    def make(path):
        made.append(path)
        path.write_text("product")

    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: store.made(("source",), ".txt", make), range(32)))
    (path,) = paths
    assert path.read_text() == "product"
    assert len(made) == 1


@pytest.mark.skipif(store.fcntl is None, reason="locks of files are POSIX")
def test_processes_make_it_once(tmp_path):
    code = (
        "from cudasim import store\n"
        "store.made(('source',), '.txt', lambda path: (print('made'), path.write_text('product')))"
    )
    environment = {"PYTHONPATH": str(TESTS), "TMPDIR": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert "".join(printed) == "made\n"
    (product,) = tmp_path.rglob("*.txt")
    assert product.read_text() == "product"


def test_what_fails_is_tried_again(folder):
    def fail(path):
        path.write_text("half")
        raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError, match="no compiler"):
        store.made(("source",), ".txt", fail)
    assert not list(folder.glob("*.txt"))
    assert store.made(("source",), ".txt", lambda path: path.write_text("whole")).read_text() == "whole"
