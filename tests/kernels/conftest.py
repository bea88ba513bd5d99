"""Kernels run on three engines: their source on the CPU, in both orders of threads, and the PTX that NVRTC emits."""

from functools import partial

import pytest

from cudasim import nvrtc, standin
from cudasim.ptx import PtxModule
from cudasim.shim import ShimModule, gxx
from gpuensemble._kernels.cuda import source

ENGINES = {
    "CPU": partial(ShimModule, checked=True),
    "CPU in reverse order": partial(ShimModule, checked=True, order="reverse"),
    "PTX": PtxModule,
}


@pytest.fixture(params=ENGINES)
def device(request, monkeypatch):
    """CuPy's stand-in, whose kernels an engine runs, in so few blocks that each has several rounds."""
    if request.param == "PTX" and nvrtc.missing():
        pytest.skip(nvrtc.missing())
    if request.param != "PTX" and gxx() is None:
        pytest.skip("g++ is not installed")
    monkeypatch.setattr(source, "MAX_BLOCKS", 2)
    with standin.installed(ENGINES[request.param]) as module:
        yield module


@pytest.fixture
def launched():
    """The kernels that were launched, with their traffic, while the stand-in is CuPy."""
    kernels = []

    class Recorded(PtxModule):
        def get_function(self, expression):
            kernels.append(super().get_function(expression))
            return kernels[-1]

    with standin.installed(Recorded):
        yield kernels
