"""The checker of CUDA kernels on the CPU finds seeded bugs in small kernels, and nothing where there are none."""

from functools import partial

import numpy as np
import pytest

from cudasim.shim import ShimError, ShimModule, empty, gxx

pytestmark = pytest.mark.skipif(gxx() is None, reason="needs g++ on Linux to compile CUDA kernels for the CPU")

Checked = partial(ShimModule, checked=True)
ORDERS = ("forward", "reverse")
C_TYPES = {
    "unsigned char": np.uint8,
    "unsigned short": np.uint16,
    "int": np.int32,
    "unsigned": np.uint32,
    "unsigned long long": np.uint64,
    "long long": np.int64,
    "float": np.float32,
    "double": np.float64,
}


# ------------------------------------------------------------------------------------------------ seeded bugs

# kind of error, body of a kernel, its correct part, the bug in its place. Run with 2 blocks of 64 threads; `in` has
# 128 entries and `out` 128 uninitialised ones. t: thread, x: thread in the grid.
BUGS = {
    "read past the end": ("out of bounds", "out[x] = in[x];", "in[x]", "in[x + 1]"),
    "read before the start": ("out of bounds", "out[x] = in[x];", "in[x]", "in[x - 1]"),
    "write past the end": ("out of bounds", "out[x] = 1;", "out[x]", "out[x + 1]"),
    "null pointer": ("out of bounds", "out[x] = nothing ? *nothing : 1;", "nothing ? *nothing : 1", "*nothing"),
    "static shared array": ("out of bounds", "__shared__ int a[2][64]; a[1][t] = 1;", "[2][64]", "[2][63]"),
    "dynamic shared array": ("out of bounds", "DYNAMIC_SHARED(int, a); a[t] = in[x];", "a[t]", "a[t + 1]"),
    "write to const": ("read-only", "out[x] = t;", "out[x]", "const_cast<int*>(in)[x]"),
    "static shared memory": ("uninitialised", "__shared__ int a[64]; a[t] = 0; out[x] = a[t];", "a[t] = 0;", ""),
    "dynamic shared memory": ("uninitialised", "DYNAMIC_SHARED(int, a); a[t] = 0; out[x] = a[t];", "a[t] = 0;", ""),
    "shared memory of the block before": (
        "uninitialised",
        "__shared__ int a[64]; if (x < n) a[t] = 0; out[x] = a[t];",
        "x < n",
        "x < 64",
    ),
    "output read": ("uninitialised", "out[x] = in[x];", "=", "+="),
    "no barrier before the read": (
        "race",
        "__shared__ int a[64]; a[t] = in[x]; __syncthreads(); out[x] = a[t / 2];",
        "__syncthreads();",
        "",
    ),
    "no barrier before the next write": (
        "race",
        "__shared__ int a; if (t == 0) a = 1; __syncthreads(); out[x] = a; __syncthreads(); if (t == 0) a = 2;",
        "out[x] = a; __syncthreads();",
        "out[x] = a;",
    ),
    "warp taken for synchronous": (
        "race",
        "__shared__ int a[64]; a[t] = in[x]; __syncwarp(); out[x] = a[t / 2 * 2];",
        "__syncwarp();",
        "",
    ),
    "shuffle taken for a barrier": (
        "race",
        "__shared__ int a[64]; a[t] = in[x]; __syncwarp(); out[x] = a[t / 2 * 2];",
        "__syncwarp();",
        "__shfl_sync(0xffffffff, t, 0);",
    ),
    "warp barrier across warps": (
        "race",
        "__shared__ int a[64]; a[t] = in[x]; __syncthreads(); out[x] = a[t % 32];",
        "__syncthreads();",
        "__syncwarp();",
    ),
    "warp barrier of half a warp": (
        "race",
        "__shared__ int a[64]; a[t] = in[x]; __syncwarp(t % 32 < 16 ? 0xffff : 0xffff0000); out[x] = a[t / 16 * 16];",
        "t / 16 * 16",
        "t / 32 * 32",
    ),
    "two blocks add": ("race", "if (t == 0) atomicAdd(total, 1);", "atomicAdd(total, 1)", "*total += 1"),
    "block reads another's output": (
        "race",
        "out[x] = x; if (t == 0) out[x] = out[x] + 1;",
        "out[x] + 1",
        "out[0] + 1",
    ),
    "write beside atomics": ("race", "atomicAdd(total, 1); if (x == 70) out[x] = 0;", "out[x] = 0", "*total = 0"),
    "read beside atomics": ("race", "atomicAdd(total, 1); if (x == 70) out[x] = 0;", "out[x] = 0", "out[x] = *total"),
    "barrier for some": ("barrier divergence", "if (t < 64) __syncthreads();", "t < 64", "t < 33"),
    "exit before the barrier": ("barrier divergence", "if (x == n) return; __syncthreads();", "x == n", "x == 5"),
    "two barriers taken for one": (
        "barrier divergence",
        "if (t < 64)\n__syncthreads();\nelse\n__syncthreads();",
        "t < 64",
        "t < 32",
    ),
    "mask of lanes that left": (
        "deadlock",
        "if (t % 32 < 8) out[x] = __shfl_sync(0xff, t, 0);",
        "0xff",
        "0xffff",
    ),
    "lanes at two barriers": (
        "deadlock",
        "if (t % 32 < 8) __syncwarp(0xff); else __syncwarp(0xffffff00);",
        "__syncwarp(0xff)",
        "__syncwarp()",
    ),
    "mask without the caller": ("mask", "out[x] = __shfl_sync(0xffffffff, t, 0);", "0xffffffff", "0xffff"),
    "mask without the source": (
        "mask",
        "if (t % 32 < 8) out[x] = __shfl_sync(0xff, t, 7);",
        "7",
        "8",
    ),
    "shuffle width": ("width", "out[x] = __shfl_sync(0xffffffff, t, 0, 8);", "8)", "12)"),
    "integer overflow": ("undefined", "out[x] = in[x] + 0x7fffff00;", "0x7fffff00", "0x7fffffff"),
    "division by zero": ("undefined", "out[x] = 7 / (in[x] + 1);", "in[x] + 1", "in[x]"),
}
ALWAYS_FOUND = ("barrier divergence", "deadlock", "mask", "width")


def run_small(body, order="forward", module=Checked):
    """`out` of a kernel with this body."""
    code = (
        "__global__ void small(const int* in, int* out, int n, int* total, const int* nothing) {\n"
        f"const int t = threadIdx.x, x = blockIdx.x * blockDim.x + t;\n{body}\n}}"
    )
    kernel = module(code, name_expressions=("small",), order=order).get_function("small")
    out = empty(128, np.int32)
    args = (np.arange(128, dtype=np.int32), out, np.int32(128), np.zeros(1, np.int32), np.uintp(0))
    kernel((2,), (64,), args, shared_mem=256)
    return out


@pytest.mark.parametrize(("kind", "body", "correct", "bug"), BUGS.values(), ids=BUGS)
def test_checker_finds_the_bug_only(kind, body, correct, bug):
    assert body.count(correct) == 1
    with pytest.raises(ShimError, match=rf"^{kind}: small, block \(\d, 0, 0\), thread \(\d+, 0, 0\): "):
        run_small(body.replace(correct, bug))
    for order in ORDERS:
        run_small(body, order)
        with pytest.raises(ShimError):
            run_small(body.replace(correct, bug), order)


@pytest.mark.parametrize("name", [name for name, row in BUGS.items() if row[0] in ALWAYS_FOUND])
def test_barriers_and_shuffles_are_always_checked(name):
    kind, body, correct, bug = BUGS[name]
    run_small(body, module=ShimModule)
    with pytest.raises(ShimError, match=f"^{kind}: "):
        run_small(body.replace(correct, bug), module=ShimModule)


def test_message_names_argument_and_offset():
    with pytest.raises(
        ShimError, match=r"block \(1, 0, 0\), thread \(63, 0, 0\): reads 4 bytes at offset 512 of argument 0 "
    ):
        run_small("out[x] = in[x + 1];")
    with pytest.raises(
        ShimError, match=r"thread \(1, 0, 0\): writes 4 bytes at offset 0 of argument 1 .* thread \(0, 0, 0\) writes"
    ):
        run_small("out[0] = 1;")


def test_order_of_threads_shows_a_race_without_the_checker():
    body = "__shared__ int a[64]; a[t] = in[x]; out[x] = a[t / 2 * 2];"
    forward, reverse = (run_small(body, order, ShimModule) for order in ORDERS)
    np.testing.assert_array_equal(forward, np.arange(128) // 2 * 2)
    assert (forward != reverse).any()


def test_launch_after_an_error():
    with pytest.raises(ShimError, match="barrier divergence"):
        run_small("if (t == 9) __syncthreads(); out[x] = 5;")
    np.testing.assert_array_equal(run_small("if (n == 9) __syncthreads(); out[x] = 5;"), 5)


SHUFFLES = {
    "__shfl_sync": lambda lane, first, width: first + 5 % width,
    "__shfl_xor_sync": lambda lane, first, width: lane ^ 5,
    "__shfl_down_sync": lambda lane, first, width: lane + 5,
    "__shfl_up_sync": lambda lane, first, width: np.where(lane - 5 < first, lane, lane - 5),
}


@pytest.mark.parametrize("ctype", ["int", "unsigned", "long long", "float", "double"])
@pytest.mark.parametrize("name", SHUFFLES)
def test_shuffles(name, ctype):
    code = (
        f"__global__ void shuffle(const {ctype}* in, {ctype}* out, int width) {{\n"
        f"out[threadIdx.x] = {name}(0xffffffff, in[threadIdx.x], 5, width); }}"
    )
    kernel = Checked(code, name_expressions=("shuffle",)).get_function("shuffle")
    values = np.random.default_rng(0).integers(0, 2**31, 32).astype(C_TYPES[ctype])
    lane = np.arange(32)
    for width in (4, 8, 16, 32):
        out = empty(32, values.dtype)
        kernel((1,), (32,), (values, out, np.int32(width)))
        first = lane // width * width
        source = SHUFFLES[name](lane, first, width)
        np.testing.assert_array_equal(out, values[np.where(source < first + width, source, lane)])


def test_limits_of_a_launch():
    kernel = ShimModule("__global__ void nothing() {}", name_expressions=("nothing",)).get_function("nothing")
    kernel((2, 3, 4), (4, 4, 64), (), shared_mem=48 << 10)
    for grid, block, shared, kind in [
        ((1,), (1025,), 0, "block size"),
        ((1,), (0,), 0, "block size"),
        ((0,), (1,), 0, "grid size"),
        ((1, 65536), (1,), 0, "grid size"),
        ((1,), (1,), (48 << 10) + 1, "shared memory"),
    ]:
        with pytest.raises(ShimError, match=f"^{kind}: nothing"):
            kernel(grid, block, (), shared_mem=shared)
    kernel.max_dynamic_shared_size_bytes = 99 << 10
    kernel((1,), (1,), (), shared_mem=99 << 10)
    with pytest.raises(ShimError, match=r"^shared memory: nothing: .* not 0 to 101376"):
        kernel((1,), (1,), (), shared_mem=(99 << 10) + 1)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, np.zeros(4, np.float64)),
        (0, np.zeros(4, np.int32)),
        (0, np.zeros(8, np.float32)[::2]),
        (0, np.float32(0)),
        (0, np.uintp(8)),
        (1, 1),
        (1, np.int32(1)),
        (1, np.float64(1)),
        (2, 1.0),
        (2, np.float64(1)),
        (2, np.int32(1)),
    ],
)
def test_arguments_must_have_the_exact_type(position, value):
    code = "__global__ void typed(float* out, long long n, float scale) { if (out) out[n] = scale; }"
    kernel = ShimModule(code, name_expressions=("typed",)).get_function("typed")
    out = np.zeros(4, np.float32)
    args = [out, np.int64(2), np.float32(3)]
    kernel((1,), (1,), args)
    assert out.tolist() == [0, 0, 3, 0]
    kernel((1,), (1,), [np.uintp(0), *args[1:]])
    with pytest.raises(TypeError, match="3 arguments"):
        kernel((1,), (1,), args[:2])
    args[position] = value
    with pytest.raises(TypeError, match=f"typed: argument {position} must be "):
        kernel((1,), (1,), args)


def test_written_arrays_must_not_overlap():
    code = "__global__ void copy(const int* in, int* out) { out[0] = in[0]; }"
    kernel = ShimModule(code, name_expressions=("copy",)).get_function("copy")
    array = np.zeros(8, np.int32)
    kernel((1,), (1,), (array[:4], array[4:]))
    with pytest.raises(TypeError, match="arguments 0 and 1 overlap"):
        kernel((1,), (1,), (array[:5], array[4:]))


def test_options_define_macros():
    kernel = ShimModule(
        "__global__ void define(int* out) { *out = VALUE; }", ("--fmad=false", "-DVALUE=7"), ("define",)
    ).get_function("define")
    out = np.zeros(1, np.int32)
    kernel((1,), (1,), (out,))
    assert out[0] == 7


def test_missing_compiler_is_seen(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert gxx() is None


def test_function_must_be_a_name_expression():
    module = ShimModule("template <class T> __global__ void count(T*) {}", name_expressions=("count<unsigned>",))
    with pytest.raises(ValueError, match="must contain 'count<int>'"):
        module.get_function("count<int>")
