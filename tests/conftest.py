# ruff: noqa: E402 - the environment is set before NumPy is loaded
import os

# There is a worker for each core, and matrices are small: more threads of BLAS would only wait
# for each other.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import math

import hypothesis
import numpy
import pytest
import threadpoolctl

from cudasim import standin
from cudasim.shim import ShimModule, gxx
from gpuensemble._array import threads
from gpuensemble._array.devices import cuda_count

threads.LOST = math.inf  # no helper rests, though workers share the cores: what threads do is tested
threadpoolctl.threadpool_limits(1, "blas")  # a plugin may have loaded NumPy before the environment was set

# No deadline: the first example compiles kernels. Derandomised: a failure on one machine is one on all.
hypothesis.settings.register_profile("gpuensemble", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("gpuensemble")


@pytest.fixture(params=["numpy", "standin", "cupy"])
def xp(request):
    """The array library under test: NumPy, a strict stand-in for CuPy on the CPU, or CuPy on a GPU."""
    if request.param == "numpy":
        yield numpy
    elif request.param == "standin":
        if gxx() is None:
            pytest.skip("g++ is not installed: no kernel runs on the stand-in device")
        with standin.installed(ShimModule) as module:
            yield module
    else:
        if not cuda_count():
            pytest.skip("needs a CUDA device")
        yield pytest.importorskip("cupy")
