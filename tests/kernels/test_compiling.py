"""Kernels where nothing can be kept on disk: they are compiled in memory, with one warning."""

import subprocess
import sys

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
