"""What kernels and the library's functions move and compute is counted: small cases with counts known by hand."""

import numpy as np
import pytest

from cudasim import devices, flops, nvrtc, standin
from cudasim.counting import LAUNCHES, CountedModule, Traffic
from cudasim.shim import ShimModule, gxx
from cudasim.tally import counted

pytestmark = [
    pytest.mark.skipif(gxx() is None, reason="g++ is not installed"),
    pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing()),
]
SOURCE = """
template <typename T>
__global__ void scale(const T* in, T* out, int n, int stride) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i * stride] + T(1);
}
__global__ void same(const double* in, double* out) { out[threadIdx.x] = in[0]; }
__global__ void total(const int* in, int* out) { atomicAdd(out, in[threadIdx.x]); }
__global__ void turn(int* out) {
    __shared__ int near[1024];
    near[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = near[blockDim.x - 1 - threadIdx.x];
}
"""
NAMES = ("scale<double>", "same", "total", "turn")


def launched(name, grid, block, *args):
    module = CountedModule(SOURCE, ("-std=c++17", "--fmad=false"), NAMES)
    kernel = module.get_function(name)
    kernel(grid, block, args)
    return kernel.traffic


def test_a_pass_over_an_array_moves_its_sectors_once():
    given, out = np.arange(64.0), np.zeros(64)
    found = launched("scale<double>", (2,), (32,), given, out, np.int32(64), np.int32(1))
    assert (out == given + 1).all()
    assert found == Traffic(sectors=32, read=16, written=16, flops32=0, flops64=64)
    assert (found.dram, found.cached) == (1024, 1024)


def test_a_stride_reads_a_sector_for_each_number():
    found = launched("scale<double>", (2,), (32,), np.zeros(256), np.zeros(64), np.int32(64), np.int32(4))
    assert (found.read, found.written, found.sectors) == (64, 16, 80)


def test_what_is_read_again_comes_from_the_cache():
    found = launched("same", (1,), (64,), np.ones(8), np.zeros(64))
    assert (found.read, found.written) == (1, 16)
    assert found.sectors == 2 + 16  # each of two warps asks once


def test_an_atomic_reads_and_writes():
    out = np.zeros(1, np.int32)
    found = launched("total", (1,), (32,), np.ones(32, np.int32), out)
    assert out[0] == 32
    assert (found.read, found.written) == (4 + 1, 1)


def test_a_launch_of_the_same_sizes_is_counted_from_memory():
    module = CountedModule(SOURCE, ("-std=c++17", "--fmad=false"), NAMES)
    kernel, before = module.get_function("same"), len(LAUNCHES)
    for value in (1.0, 2.0):
        out = np.zeros(32)
        kernel((1,), (32,), (np.full(4, value), out))
        assert (out == value).all()
    assert len(kernel.known) == 1
    assert [name for name, _ in LAUNCHES[before:]] == ["same", "same"]


def test_the_tally_of_a_device_has_the_traffic_of_kernels():
    for engine, moved in ((CountedModule, 32 + 256), (ShimModule, 0)):
        with standin.installed(engine) as cupy:
            given, out = cupy.asarray(np.ones(4)), cupy.empty(32)
            module = cupy.RawModule(code=SOURCE, options=("-std=c++17", "--fmad=false"), name_expressions=NAMES)
            with counted() as found:
                module.get_function("same")((1,), (32,), (given, out))
        assert (found.launches, found.kernels, found.dram, found.touched) == (1, 1, moved, 0)


def test_library_calls_have_the_operations_of_their_shapes():
    with standin.installed(ShimModule) as cupy:
        x = cupy.asarray(np.random.default_rng(0).standard_normal((8, 4)))
        single = x.astype("float32")
        for call, wide, narrow in (
            (lambda: x + x, 32, 0),
            (lambda: single * single, 0, 32),
            (lambda: x @ x.T, 2 * 8 * 8 * 4, 0),
            (x.copy, 0, 0),
            (lambda: x.sum(axis=0), 32, 0),
            (lambda: cupy.linalg.eigh(x.T @ x), 2 * 4 * 4 * 8 + 9 * 4**3, 0),
            (lambda: cupy.linalg.qr(x), int(4 * 4**2 * (8 - 4 / 3)), 0),
            (lambda: cupy.linalg.svd(x, full_matrices=False), 14 * 8 * 16 + 8 * 64, 0),
            (lambda: cupy.fft.fft(x), 5 * 32 * 2, 0),
        ):
            with counted() as found:
                call()
            assert (found.flops64, found.flops32) == (wide, narrow)
            assert found.dram == found.cached == found.touched


def test_integers_have_no_operations():
    assert flops.of("add", [np.arange(4)], [np.arange(4)]) == (0, 64)


def test_shared_memory_beyond_48_kb_is_asked_for():
    with standin.installed(CountedModule) as cupy:
        kernel = cupy.RawModule(code=SOURCE, options=("-std=c++17",), name_expressions=NAMES).get_function("turn")
        launch = ((1,), (32,), (cupy.zeros(32, "int32"),))
        kernel(*launch, shared_mem=(48 << 10) - 4096)  # beside 4096 static bytes
        with pytest.raises(ValueError, match="too many"):
            kernel(*launch, shared_mem=(48 << 10) - 4095)
        with devices.with_attributes(shared=99 << 10):
            with pytest.raises(ValueError, match="CUDA_ERROR_INVALID_VALUE"):
                kernel.max_dynamic_shared_size_bytes = (99 << 10) - 4095
            kernel.max_dynamic_shared_size_bytes = (99 << 10) - 4096
            kernel(*launch, shared_mem=(99 << 10) - 4096)
            with pytest.raises(ValueError, match="too many"):
                kernel(*launch, shared_mem=(99 << 10) - 4095)
