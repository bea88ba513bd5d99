"""The PTX interpreter against plain Python."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from cudasim import nvrtc
from cudasim.opcodes import DTYPES
from cudasim.ptx import GARBAGE, IllegalAddress, PtxFunction, PtxModule

needs_nvrtc = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing())
TINY = np.finfo(np.float32).tiny


# Single instructions, in hand-written PTX: one thread for each element.


def execute(opcode, kinds, *columns):
    """opcode applied to columns of numbers; the kinds are of the result and of each column."""
    result, *sources = kinds
    arrays = [np.array(c, DTYPES[k]) for c, k in zip(columns, sources, strict=True)]
    stored = "u32" if result == "pred" else result
    lines = [".reg .b32 %t;", ".reg .b64 %a;", f".reg .{result} %d;", ".reg .u32 %flag;", "mov.u32 %t, %tid.x;"]
    for i, kind in enumerate([*sources, stored]):
        lines += [f".reg .b64 %a{i};", f"ld.param.u64 %a, [p{i}];"]
        lines += [f"mad.wide.u32 %a{i}, %t, {DTYPES[kind].itemsize}, %a;"]
    for i, kind in enumerate(sources):
        lines += [f".reg .{kind} %s{i};", f"ld.global.{kind} %s{i}, [%a{i}];"]
    lines.append(f"{opcode} %d, {', '.join(f'%s{i}' for i in range(len(sources)))};")
    lines += ["selp.u32 %flag, 1, 0, %d;"] if result == "pred" else []
    lines += [f"st.global.{stored} [%a{len(sources)}], {'%flag' if result == 'pred' else '%d'};", "ret;"]
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(kinds)))
    ptx = f".visible .entry k({parameters})\n{{\n" + "\n".join(lines) + "\n}"
    out = np.zeros(arrays[0].size, DTYPES[stored])
    PtxFunction(ptx, "k")((1,), (out.size,), (*arrays, out))
    return out


def wrapped(value, kind):
    """A Python integer as the type `kind` holds it."""
    bits = 8 * DTYPES[kind].itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def truncated(a, b):
    """Division that rounds towards zero, as in C."""
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def inserted(bits):
    """The reference of bfi: bit by bit."""

    def insert(a, b, position, length):
        for i in range(length & 255):
            place = (position & 255) + i
            if place < bits:
                b = b & ~(1 << place) | (a >> i & 1) << place
        return b

    return insert


INTEGER_CASES = [
    ("add.s32", "s32 s32 s32", lambda a, b: a + b),
    ("sub.u32", "u32 u32 u32", lambda a, b: a - b),
    ("mul.lo.s32", "s32 s32 s32", lambda a, b: a * b),
    ("mul.lo.s64", "s64 s64 s64", lambda a, b: a * b),
    ("mul.wide.s32", "s64 s32 s32", lambda a, b: a * b),
    ("mul.wide.u32", "u64 u32 u32", lambda a, b: a * b),
    ("mul.hi.s32", "s32 s32 s32", lambda a, b: a * b >> 32),
    ("mul.hi.u64", "u64 u64 u64", lambda a, b: a * b >> 64),
    ("mad.lo.s32", "s32 s32 s32 s32", lambda a, b, c: a * b + c),
    ("mad.wide.s32", "s64 s32 s32 s64", lambda a, b, c: a * b + c),
    ("min.s32", "s32 s32 s32", min),
    ("max.s64", "s64 s64 s64", max),
    ("max.u32", "u32 u32 u32", max),
    ("neg.s32", "s32 s32", lambda a: -a),
    ("not.b64", "b64 b64", lambda a: ~a),
    ("and.b32", "b32 b32 b32", lambda a, b: a & b),
    ("xor.b64", "b64 b64 b64", lambda a, b: a ^ b),
    ("div.s32", "s32 s32 s32", truncated),
    ("div.s64", "s64 s64 s64", truncated),
    ("div.u32", "u32 u32 u32", truncated),
    ("rem.s32", "s32 s32 s32", lambda a, b: a - b * truncated(a, b)),
    ("shl.b32", "b32 b32 u32", lambda a, n: a << n if n < 32 else 0),
    ("shl.b64", "b64 b64 u32", lambda a, n: a << n if n < 64 else 0),
    ("shr.u32", "u32 u32 u32", lambda a, n: a >> n),
    ("shr.s32", "s32 s32 u32", lambda a, n: a >> n),
    ("shr.s64", "s64 s64 u32", lambda a, n: a >> n),
    ("shr.u64", "u64 u64 u32", lambda a, n: a >> n),
    ("bfi.b32", "b32 b32 b32 u32 u32", inserted(32)),
    ("bfi.b64", "b64 b64 b64 u32 u32", inserted(64)),
    ("cvt.s64.s32", "s64 s32", lambda a: a),
    ("cvt.u64.u32", "u64 u32", lambda a: a),
    ("cvt.u32.u64", "u32 u64", lambda a: a),
    ("cvt.s32.s16", "s32 s16", lambda a: a),
    ("setp.lt.s32", "pred s32 s32", lambda a, b: a < b),
    ("setp.lt.u32", "pred u32 u32", lambda a, b: a < b),
    ("setp.eq.b64", "pred b64 b64", lambda a, b: a == b),
    ("setp.hs.u32", "pred u32 u32", lambda a, b: a >= b),
]


@pytest.mark.parametrize(("opcode", "kinds", "reference"), INTEGER_CASES, ids=[case[0] for case in INTEGER_CASES])
def test_integer_instruction(opcode, kinds, reference):
    result, *sources = kinds.split()
    corners = [0, 1, -1, 7, -1 << 31, (1 << 31) - 1, -1 << 63, 0x123456789ABCDEF1]
    if len(sources) < 4:
        corners += [2, 31, 32, 63, 64, 1 << 32, (1 << 63) - 1]
    rows = itertools.product(*([wrapped(c, kind) for c in corners] for kind in sources))
    if opcode[:3] in ("div", "rem"):
        rows = (row for row in rows if row[1])
    rows = list(rows)
    if len(sources) == 4:
        rows = rows[::5]
    got = np.concatenate(
        [execute(opcode, kinds.split(), *zip(*rows[i : i + 1024], strict=True)) for i in range(0, len(rows), 1024)]
    )
    expected = [wrapped(int(reference(*row)), "u32" if result == "pred" else result) for row in rows]
    assert got.tolist() == expected


FLOATS = [0.0, -0.0, 1.0, -1.5, 3.0, 1e-3, TINY, -TINY, TINY / 2, -TINY / 4, 1.5 * TINY, 3e38, np.inf, -np.inf, np.nan]


def flush(x):
    return np.where(np.abs(x) < TINY, np.copysign(np.float32(0), x), x).astype(np.float32)


def assert_same_bits(got, expected):
    """Equal bit for bit, and NaN where NaN is expected."""
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(expected[~np.isnan(expected)]))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_float32_flushes_subnormals_and_float64_keeps_them(name):
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    a, b = np.array(list(itertools.product(FLOATS, FLOATS)), np.float32).T.copy()
    with np.errstate(all="ignore"):
        # One operation on float32 rounds correctly through float64.
        expected = flush(function(flush(a).astype(float), flush(b).astype(float)).astype(np.float32))
        kept = function(a.astype(float), b.astype(float)).astype(np.float32)
    assert_same_bits(execute(f"{name}.rn.ftz.f32", ["f32"] * 3, a, b), expected)
    assert_same_bits(execute(f"{name}.rn.f32", ["f32"] * 3, a, b), kept)
    smallest = np.array([5e-324, -5e-324, 3 * 5e-324, 2.0])
    other = np.array([5e-324, 1.0, -5e-324, 3.0])
    with np.errstate(all="ignore"):
        expected = np.array([function(x, y) for x, y in zip(smallest, other, strict=True)])
    assert_same_bits(execute(f"{name}.rn.f64", ["f64"] * 3, smallest, other), expected)


@pytest.mark.parametrize(("name", "function"), [("sqrt", math.sqrt), ("rcp", lambda x: 1 / x)])
def test_roots_and_reciprocals_round_once(name, function):
    numbers = [2.0, 1 / 3, 1e-300, 7e200, 5e-308]
    assert execute(f"{name}.rn.f64", ["f64", "f64"], numbers).tolist() == [function(x) for x in numbers]
    narrow = np.array([2.0, 1 / 3, 1e-30, 7e20], np.float32)
    expected = np.array([function(float(x)) for x in narrow]).astype(np.float32)
    assert_same_bits(execute(f"{name}.rn.f32", ["f32", "f32"], narrow), expected)
    assert execute(f"{name}.rn.ftz.f32", ["f32", "f32"], [TINY / 2, -TINY / 2])[0] == (0 if name == "sqrt" else np.inf)


def test_fma_rounds_once():
    a, b, c = np.array(
        list(itertools.product([1 + 2**-30, 1 / 3, -0.1], [1 - 2**-30, 1 / 3, 7.0], [-1.0, -1 / 9]))
    ).T.copy()
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert execute("fma.rn.f64", ["f64"] * 4, a, b, c).tolist() == exact
    assert (exact != a * b + c).any()


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_nan_are_false_unless_unordered(name):
    a, b = np.array(list(itertools.product([0.0, -0.0, 1.0, np.inf, np.nan], repeat=2))).T.copy()
    plain = getattr(np, {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"}.get(name, "greater"))(a, b)
    plain = a >= b if name == "ge" else plain
    nan = np.isnan(a) | np.isnan(b)
    for kind in ("f32", "f64"):
        assert (execute(f"setp.{name}.{kind}", ["pred", kind, kind], a, b) == (plain & ~nan)).all()
        assert (execute(f"setp.{name}u.{kind}", ["pred", kind, kind], a, b) == (plain | nan)).all()
        assert (execute(f"setp.num.{kind}", ["pred", kind, kind], a, b) == ~nan).all()
        assert (execute(f"setp.nan.{kind}", ["pred", kind, kind], a, b) == nan).all()


@pytest.mark.parametrize("name", ["min", "max"])
def test_least_and_greatest_prefer_numbers_to_nan(name):
    values = [0.0, -0.0, 2.0, -3.0, np.inf, -np.inf, np.nan]
    pairs = list(itertools.product(values, repeat=2))
    got = execute(f"{name}.f64", ("f64", "f64", "f64"), *zip(*pairs, strict=True))
    for (a, b), least in zip(pairs, got, strict=True):
        numbers = [x for x in (a, b) if not np.isnan(x)]
        key = {"min": min, "max": max}[name]
        expected = key(numbers, key=lambda x: (x, np.copysign(1, x))) if numbers else np.nan
        assert_same_bits(np.array([least]), np.array([expected]))


def test_comparison_of_flushed_subnormals():
    assert execute("setp.eq.ftz.f32", ["pred", "f32", "f32"], [TINY / 2], [0.0]) == [1]
    assert execute("setp.eq.f32", ["pred", "f32", "f32"], [TINY / 2], [0.0]) == [0]


def test_conversions_between_floats():
    numbers = np.array([1 / 3, -1e-40, 1e300, np.nan])
    with np.errstate(all="ignore"):
        expected = numbers.astype(np.float32)
    assert_same_bits(execute("cvt.rn.f32.f64", ["f32", "f64"], numbers), expected)
    assert_same_bits(execute("cvt.rn.ftz.f32.f64", ["f32", "f64"], numbers), flush(expected))
    assert_same_bits(execute("cvt.ftz.f64.f32", ["f64", "f32"], expected), flush(expected).astype(float))
    assert execute("cvt.rn.f32.s32", ["f32", "s32"], [16777217, -3]).tolist() == [16777216, -3]
    halves, ends = [2.5, -2.5, 0.9, -0.0, 2.0**62 + 1024], [2.0**63, -(2.0**70), np.inf, np.nan]
    expected = [int(x) for x in halves] + [2**63 - 1, -(2**63), 2**63 - 1, -(2**63)]
    assert execute("cvt.rzi.s64.f64", ["s64", "f64"], halves + ends).tolist() == expected


def test_whole_numbers():
    numbers = [2.5, -2.5, 3.5, 0.9, -0.9, -7.0, 4e9, -4e9, np.inf, np.nan]
    least, most = -(2**31), 2**31 - 1
    nearest = execute("cvt.rni.f64.f64", ["f64", "f64"], numbers[:7])
    assert_same_bits(nearest, np.array([2.0, -2.0, 4.0, 1.0, -1.0, -7.0, 4e9]))
    for kind, of_nan in (("f64", least), ("f32", 0)):
        found = execute(f"cvt.rzi.s32.{kind}", ["s32", kind], numbers)
        assert found.tolist() == [2, -2, 3, 0, 0, -7, most, least, most, of_nan]
    assert execute("cvt.rzi.ftz.s32.f32", ["s32", "f32"], [-1.5]).tolist() == [-1]


def test_division_by_zero_and_unknown_instructions_raise():
    with pytest.raises(ZeroDivisionError):
        execute("div.s32", ["s32"] * 3, [1], [0])
    for opcode in ("sin.approx.f32", "add.f32", "add.rz.f32"):
        with pytest.raises(NotImplementedError, match=opcode):
            execute(opcode, ["f32", "f32"], [1.0])


# Small kernels, compiled by NVRTC.


def kernel(source, name="k", options=nvrtc.OPTIONS, arch=None):
    module = PtxModule(code=source, options=options, name_expressions=(name,))
    module.arch = arch or module.arch
    return module.get_function(name)


SHUFFLES = """
template <int WIDTH> __global__ void k(const int* in, int step, int* out) {
    const int t = threadIdx.x, n = blockDim.x;
    out[t] = __shfl_sync(0xffffffff, in[t], step, WIDTH);
    out[n + t] = __shfl_xor_sync(0xffffffff, in[t], step, WIDTH);
    out[2 * n + t] = __shfl_up_sync(0xffffffff, in[t], step, WIDTH);
    out[3 * n + t] = __shfl_down_sync(0xffffffff, in[t], step, WIDTH);
}"""


@needs_nvrtc
@pytest.mark.parametrize("width", [4, 8, 16, 32])
@pytest.mark.parametrize("step", [1, 3, 5])
def test_shuffles(width, step):
    given, out = np.arange(100, 164, dtype=np.int32), np.zeros((4, 64), np.int32)
    kernel(SHUFFLES, f"k<{width}>")((1,), (64,), (given, np.int32(step), out))
    for t in range(64):
        group, lane = t // width * width, t % width
        assert out[0, t] == given[group + step % width]
        # A lane of a later group is out of reach; one of an earlier group is not.
        xor = (t % 32) ^ step
        assert out[1, t] == given[t // 32 * 32 + xor if t // 32 * 32 + xor < group + width else t]
        assert out[2, t] == given[t - step if lane >= step else t]
        assert out[3, t] == given[t + step if lane + step < width else t]


@needs_nvrtc
def test_groups_of_a_warp_shuffle_apart():
    source = """__global__ void k(int* out) {
        const int t = threadIdx.x, g = t / 8;
        int v = t;
        for (int i = 0; i <= g; ++i) v += __shfl_xor_sync(0xffu << (g % 4 * 8), v, 1, 8);
        out[t] = v;
    }"""
    out = np.zeros(64, np.int32)
    kernel(source)((1,), (64,), (out,))
    expected = np.arange(64)
    for g in range(8):
        for _ in range(g + 1):
            mine = expected[8 * g : 8 * g + 8]
            mine += mine[np.arange(8) ^ 1]
    assert (out == expected).all()


@needs_nvrtc
def test_atomics_return_each_old_value_once():
    source = """__global__ void k(unsigned* cells, unsigned long long* total, unsigned* old) {
        __shared__ unsigned count;
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        atomicAdd(&count, 1u);
        __syncthreads();
        const int x = blockIdx.x * blockDim.x + threadIdx.x;
        old[x] = atomicAdd(cells + x % 3, 1u);
        if (threadIdx.x == 0) atomicAdd(total, (unsigned long long)count << 32);
    }"""
    cells, total, old = np.zeros(3, np.uint32), np.zeros(1, np.uint64), np.zeros(300, np.uint32)
    kernel(source)((3,), (100,), (cells, total, old))
    assert cells.tolist() == [100, 100, 100]
    assert total == 300 << 32
    for remainder in range(3):
        assert sorted(old[remainder::3]) == list(range(100))


@needs_nvrtc
def test_barrier_orders_shared_memory_which_starts_as_garbage():
    source = """__global__ void k(const int* in, int* out, unsigned* fresh) {
        extern __shared__ int line[];
        __shared__ int fixed[3];
        const int t = threadIdx.x, n = blockDim.x;
        if (t == 0) fresh[blockIdx.x] = line[n];
        if (t < 3) fixed[t] = 10 * t;
        line[t] = in[blockIdx.x * n + t];
        __syncthreads();
        out[blockIdx.x * n + t] = line[n - 1 - t] + fixed[t % 3];
    }"""
    given, out, fresh = np.arange(350, dtype=np.int32), np.zeros(350, np.int32), np.zeros(5, np.uint32)
    function = kernel(source)
    function((5,), (70,), (given, out, fresh), shared_mem=71 * 4)
    expected = given.reshape(5, 70)[:, ::-1] + 10 * (np.arange(70) % 3)
    assert (out.reshape(5, 70) == expected).all()
    assert (fresh == GARBAGE * 0x01010101).all()
    with pytest.raises(IllegalAddress, match="shared memory"):
        function((5,), (70,), (given, out, fresh), shared_mem=70 * 4)


@needs_nvrtc
def test_generic_addresses_reach_shared_and_global_memory():
    source = """__global__ void k(int* out) {
        __shared__ int line[64];
        const int t = threadIdx.x;
        out[t] = 5;
        int* place = t % 3 ? line + t : out + t;
        for (int i = 0; i < t; ++i) *place = i ? *place + i : 1;
        __syncthreads();
        if (t % 3) out[t] = -line[t];
    }"""
    out = np.zeros(64, np.int32)
    kernel(source)((1,), (64,), (out,))
    sums = [1 + t * (t - 1) // 2 for t in range(64)]
    assert out.tolist() == [5, *(-sums[t] if t % 3 else sums[t] for t in range(1, 64))]


@needs_nvrtc
def test_threads_that_diverge_meet_again():
    source = """__global__ void k(const int* start, int* steps) {
        const int x = blockIdx.x * blockDim.x + threadIdx.x;
        int n = 0;
        for (long long v = start[x]; v != 1; ++n) {
            if (v % 2) {
                if (v % 3 == 0) n += 1000;
                v = 3 * v + 1;
            } else {
                v /= 2;
            }
        }
        steps[x] = n - __shfl_xor_sync(0xffffffff, n, 1);
    }"""

    def collatz(v):
        n = 0
        while v != 1:
            n += 1001 if v % 2 and v % 3 == 0 else 1
            v = 3 * v + 1 if v % 2 else v // 2
        return n

    start, steps = np.arange(1, 193, dtype=np.int32), np.zeros(192, np.int32)
    kernel(source)((3,), (64,), (start, steps))
    counts = np.array([collatz(v) for v in start.tolist()])
    assert (steps == counts - counts.reshape(-1, 2)[:, ::-1].ravel()).all()


@needs_nvrtc
def test_a_shuffle_that_waits_for_an_exited_lane_is_a_deadlock():
    source = """__global__ void k(int* out) {
        if (threadIdx.x == 7) return;
        out[threadIdx.x] = __shfl_sync(0xffffffff, threadIdx.x, 0);
    }"""
    with pytest.raises(RuntimeError, match=r"deadlock.*shfl"):
        kernel(source)((1,), (32,), (np.zeros(32, np.int32),))


@needs_nvrtc
def test_illegal_addresses_raise():
    function = kernel("__global__ void k(const char* in, int shift, int* out) { *out = *(const int*)(in + shift); }")
    given, out = np.arange(4, dtype=np.int32), np.zeros(1, np.int32)
    function((1,), (1,), (given, np.int32(12), out))
    assert out == 3
    for shift, message in ((16, "0 bytes past argument 0"), (-4, "outside every"), (2, "not a multiple of 4")):
        with pytest.raises(IllegalAddress, match=message):
            function((1,), (1,), (given, np.int32(shift), out))
    with pytest.raises(IllegalAddress, match="address 0x0 is outside every argument"):
        function((1,), (1,), (np.uintp(0), np.int32(0), out))


@needs_nvrtc
def test_arguments_must_have_the_exact_size():
    function = kernel("__global__ void k(int* out, int a, double b, long long c) { *out = a + (int)(b > 1) + (int)c; }")
    out = np.zeros(1, np.int32)
    function((1,), (1,), (out, np.int32(1), np.float64(2), np.int64(-7)))
    assert out == -5
    for bad in (
        (out, np.int64(1), np.float64(2), np.int64(3)),
        (out, np.int32(1), np.float32(2), np.int64(3)),
        (out, 1, np.float64(2), np.int64(3)),
        (out, np.int32(1), 2.0, np.int64(3)),
        (out, out, np.float64(2), np.int64(3)),
        (out, np.int32(1), np.float64(2)),
        (np.zeros((2, 2), np.int32)[:, 0], np.int32(1), np.float64(2), np.int64(3)),
    ):
        with pytest.raises(TypeError):
            function((1,), (1,), bad)


@needs_nvrtc
def test_contraction_to_fma_shows():
    source = "__global__ void k(const double* x, double* out) { *out = x[0] * x[1] + x[2]; }"
    given, out = np.array([1 + 2**-30, 1 - 2**-30, -1.0]), np.zeros(1)
    kernel(source)((1,), (1,), (given, out))
    assert out == 0
    kernel(source, options=("-std=c++17", "--fmad=true"))((1,), (1,), (given, out))
    assert out == -(2.0**-60)


@needs_nvrtc
@pytest.mark.parametrize(
    ("index", "sectors", "ideal"), [("t", 4, 4), ("t + 1", 5, 4), ("32 * t", 32, 32), ("7", 1, 1), ("31 - t", 4, 4)]
)
def test_sectors_of_a_load(index, sectors, ideal):
    source = (
        f"__global__ void k(const float* in, float* out) {{ const int t = threadIdx.x % 32; out[t] = in[{index}]; }}"
    )
    function = kernel(source)
    function((3,), (64,), (np.zeros(1024, np.float32), np.zeros(32, np.float32)))
    (load,) = function.loads
    assert (load.argument_index, load.executions, load.requested_bytes) == (0, 6, 6 * 128)
    assert (load.sectors, load.ideal_sectors) == (6 * sectors, 6 * ideal)


@needs_nvrtc
@pytest.mark.parametrize(
    ("kind", "index", "wavefronts"),
    [("float", "t", 1), ("float", "2 * t", 2), ("float", "32 * t", 32), ("float", "7", 1), ("double", "t", 2)],
)
def test_wavefronts_of_shared_memory(kind, index, wavefronts):
    source = f"""__global__ void k({kind}* out) {{
        __shared__ {kind} cells[1024];
        const int t = threadIdx.x % 32;
        for (int i = t; i < 1024; i += 32) cells[i] = i;
        __syncthreads();
        out[t] = cells[{index}];
    }}"""
    function = kernel(source)
    out = np.zeros(32, np.float32 if kind == "float" else np.float64)
    function((3,), (32,), (out,))
    (load,) = (access for access in function.shared_accesses if access.instruction.startswith("ld"))
    assert (load.executions, load.wavefronts) == (3, 3 * wavefronts)
    assert load.ideal_wavefronts == 3 * out.itemsize // 4
    assert [(store.argument_index, store.sectors) for store in function.stores] == [(0, 3 * out.nbytes // 32)]


@needs_nvrtc
def test_atomics_are_counted():
    source = """__global__ void k(unsigned* out) {
        __shared__ unsigned cells[32];
        cells[threadIdx.x] = 0;
        __syncthreads();
        atomicAdd(cells + threadIdx.x / 4 * 4, 1u);
        __syncthreads();
        atomicAdd(out + threadIdx.x, cells[threadIdx.x]);
    }"""
    function = kernel(source)
    out = np.zeros(32, np.uint32)
    function((5,), (32,), (out,))
    assert out.tolist() == [20, 0, 0, 0] * 8
    (everywhere,) = function.atomics
    assert (everywhere.argument_index, everywhere.requested_bytes, everywhere.sectors) == (0, 5 * 128, 5 * 4)
    (here,) = (x for x in function.shared_accesses if x.instruction.startswith(("atom", "red")))
    assert here.wavefronts == 5 * 4  # four lanes wait for each other
