"""Kernels where nothing can be kept on disk: they are compiled in memory, with one warning."""

import os
import pickle
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import numba

import gpuensemble
from gpuensemble._kernels.cpu import compiling

PACKAGE = Path(gpuensemble.__file__).parent

PROGRAM = """
import warnings
import numba.core.caching

class Nowhere:
    @classmethod
    def from_function(cls, function, file):
        return None

numba.core.caching.CacheImpl._locator_classes = [Nowhere]
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import gpuensemble as ge
    m = ge.Membership([[0, 0], [1, 1]], [2, 2], device="cpu")
    found = m.gather_sum([[1.0, 2.0]] * 4)
print(found.tolist(), [str(one.message)[:40] for one in said])
"""


def test_a_system_without_a_place_to_write_compiles_in_memory():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[2.0, 4.0], [2.0, 4.0]] ['Numba can write neither to the package n']"


TWO_KERNELS = """
import gpuensemble as ge
m = ge.Membership([[0, 0], [1, 1]], [2, 2], device="cpu")
print(m.gather_sum([[1.0, 2.0]] * 4).tolist(), m.count([0, 1], 2).tolist())
"""


def test_what_another_version_kept_is_made_anew(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def answer():
        command = [sys.executable, "-c", TWO_KERNELS]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    expected = answer()
    indices = list(tmp_path.rglob("*.nbi"))
    assert len(indices) > 1  # as there are two ways to be damaged
    for i, index in enumerate(indices):
        text = index.read_bytes()
        head = len(pickle.dumps(pickle.loads(text)))  # the version of Numba comes first
        gone = pickle.dumps(Gone).replace(b"test_compiling", b"gpuensemble.__init__").replace(b"Gone", b"None")
        index.write_bytes(text[:head] + (gone if i % 2 else b"nothing"))
    assert answer() == expected


LENGTHS = """
import numpy as np
import gpuensemble as ge
from gpuensemble._kernels import products
m = ge.Membership([[0, 0], [1, 1]], [2, 2], device="cpu")
print(products.gather_lengths(m, np.ones((4, 1))).tolist())
"""


def test_a_kernel_is_made_anew_where_a_function_of_another_file_has_changed(tmp_path):
    """Numba looks at the kernel's own file only: what others changed would go on as it was, in silence."""
    shutil.copytree(PACKAGE, tmp_path / "gpuensemble", ignore=shutil.ignore_patterns("__pycache__"))
    lanes = tmp_path / "gpuensemble" / "_kernels" / "cpu" / "features" / "lanes.py"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(tmp_path)}

    def answer():
        command = [sys.executable, "-c", LENGTHS]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path).stdout

    assert answer() == "[2.0, 2.0]\n"
    text = lanes.read_text()
    lanes.write_text(text.replace("    return total(lanes)\n", "    return 4 * total(lanes)\n"))
    assert answer() == "[4.0, 4.0]\n"
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbi")}
    assert answer() == "[4.0, 4.0]\n"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbi")} == kept


class Gone:
    """A class that is not there any more."""


def test_a_person_at_a_terminal_is_told_once_that_kernels_are_compiled(tmp_path):
    def said():
        """What a new process writes to stderr, which is a terminal."""
        ours, theirs = pty.openpty()
        place = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        subprocess.run(
            [sys.executable, "-c", TWO_KERNELS], stdout=subprocess.DEVNULL, stderr=theirs, env=place, check=True
        )
        os.write(theirs, b"end")
        found = b""
        while not found.endswith(b"end"):
            found += os.read(ours, 1 << 12)
        os.close(ours)
        os.close(theirs)
        return found.decode().removesuffix("end").split("\r\n")

    assert said() == ["gpuensemble: compiling kernels, once ...", ""]
    assert said() == [""]


def test_the_time_of_compiling_is_not_that_of_the_work(tmp_path):
    program = """
import time
from gpuensemble._cli.warm_up import Stopwatch
import gpuensemble as ge
ge.Membership
watch, start = Stopwatch(), time.perf_counter()
ge.Membership([[0, 0], [1, 1]], [2, 2], device="cpu").gather_sum([[1.0, 2.0]] * 4)
whole = time.perf_counter() - start
print(0 < watch.compiling() < whole, abs(watch.compiling() + watch.seconds() - whole) < 0.1 * whole)
"""
    place = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=place)
    assert done.stdout.split() == ["True", "True"]


def test_functions_of_the_user_that_have_no_module_compile():
    """Those that `exec` makes have none."""
    place, before = {"numba": numba}, compiling.WATCH.seconds
    exec("@numba.njit\ndef double(x):\n    return 2 * x", place)
    assert place["double"].py_func.__module__ is None
    assert place["double"](4) == 8
    assert compiling.WATCH.seconds > before
