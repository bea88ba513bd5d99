"""The files of kernels/ through the real compilers, for every architecture: no spills, no local memory, no warnings."""

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cudasim import nvrtc
from cudasim.ptx import PtxFunction
from gpuensemble._kernels.cuda import embedding, scatter, slices
from gpuensemble._kernels.cuda.pce import rotations
from gpuensemble._kernels.cuda.source import source

needs_nvrtc = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing())

KERNELS = Path(__file__).parents[2] / "kernels"
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
USUAL = ARCHS[::3]  # of the usual run: the oldest, the newest, one between

CODES = ("unsigned char", "unsigned short", "int")
FLOATS = ("float", "double")
SUMS = (*FLOATS, "long long")
COUNTERS = ("unsigned", "unsigned long long")
GROUPS = ("4, 1", "8, 1", "16, 1", "32, 1", "32, 2", "32, 4")


SLICES = tuple(f"shrink_slices<{kind}, {n_rows}>" for kind in FLOATS for n_rows in range(2, 9))
SOME_SLICES = ("shrink_slices<double, 2>", "shrink_slices<float, 5>", "shrink_slices<double, 8>")


def all_instantiations():
    """What the host code launches of membership.cu."""
    by_code = []
    for code in CODES:
        by_code += [f"assign<{kind}, {code}, {group}>" for kind in FLOATS for group in GROUPS]
        by_code += [
            f"assign_tiled<{kind}, {code}, {group}, {summed}>"
            for kind in FLOATS
            for group in GROUPS
            for summed in ("false", "true")
            if code != "int"  # a partition of so many clusters is too large for shared memory
        ]
        by_code += [f"gather_sum<{kind}, {code}, {group}>" for kind in SUMS for group in GROUPS]
        by_code += [f"coassociation<{kind}, {code}>" for kind in FLOATS]
    return tuple(by_code)


def covering_instantiations():
    """Every kernel with each of its types, code types and groups at least once."""
    chosen = []
    for number, group in enumerate(GROUPS):
        code = CODES[number % 3]
        chosen.append(f"assign<{FLOATS[number % 2]}, {code}, {group}>")
        small = CODES[number % 2]
        chosen.append(f"assign_tiled<{FLOATS[number % 2]}, {small}, {group}, {('true', 'false')[number // 3]}>")
        chosen.append(f"gather_sum<{SUMS[number // 2]}, {code}, {group}>")
    for number, code in enumerate(CODES):
        chosen.append(f"coassociation<{FLOATS[number % 2]}, {code}>")
    return tuple(chosen)


LTA = tuple(f"lta_update<{kind}>" for kind in FLOATS)
PAIRS = tuple(f"{name}<{kind}>" for name in ("pair_gram", "pair_multiply") for kind in FLOATS)
JACOBI = tuple(f"orthogonalise<{kind}, {parts}>" for kind in FLOATS for parts in (1, 2))
PRICING = tuple(f"{name}<{kind}>" for name in ("price", "add_up", "changes", "round_off", "bound") for kind in FLOATS)
SCREENING = ("4, 2", "4, 4", "8, 4", "16, 4", "32, 4", "32, 0")  # lanes of a row, and pairs of entries of each
RELABEL = tuple(f"relabel<{kind}, {code}, {group}>" for kind in FLOATS for code in CODES for group in SCREENING)
SHORT = tuple(f"{name}<{kind}>" for name in ("middles", "shorten") for kind in FLOATS)
BATCHES = tuple(
    f"{name}<{kind}>"
    for name in ("csr_scores", "csr_rows", "choose", "move_dense", "move_sparse", "place")
    for kind in FLOATS
)
SEEDING = (*(f"try_rows<{kind}>" for kind in FLOATS), "draw_rows", "pivot")
EMBEDDING = tuple(
    f"{name}<{code}, {each}>" for name in ("gather_shares", "gather_lengths") for code in CODES for each in (1, 2)
)
FLAGS = ("false, false", "false, true", "true, false", "true, true")  # of moves and masses
COUNTS = tuple(f"count<{counter}, {code}, {flags}>" for counter in COUNTERS for code in CODES for flags in FLAGS)
PARTS = tuple(f"add_parts<{kind}>" for kind in FLOATS)
SCATTER = tuple(
    f"scatter_add<{kind}, {code}, {each}, {threads}>"
    for kind in FLOATS
    for code in CODES
    for each, threads in scatter.SHAPES
)
COVERING = {
    "membership.cu": covering_instantiations(),
    "scatter.cu": (*SCATTER[::4], *PARTS),
    "counts.cu": COUNTS[::5],
    "relabel.cu": RELABEL[::5],
    "pricing.cu": (*PRICING, "take"),
    "short.cu": SHORT,
    "slices.cu": SOME_SLICES,
    "jacobi.cu": JACOBI,
    "lta.cu": LTA,
    "pairs.cu": PAIRS,
    "batches.cu": (*BATCHES, "judge"),
    "seeding.cu": SEEDING,
    "embedding.cu": EMBEDDING,
}
ALL = COVERING | {"membership.cu": all_instantiations(), "slices.cu": SLICES, "relabel.cu": RELABEL}
ALL |= {"scatter.cu": (*SCATTER, *PARTS), "counts.cu": COUNTS}

IMPUTE = tuple(f"impute<{kind}, {code}, {size}>" for size in (4, 8, 16, 32) for code in CODES for kind in FLOATS)
ROTATIONS = (*(f"count_pairs<{code}>" for code in CODES), "programme<double>", "rotate<double>")
CURVE = (*(f"frame<{kind}>" for kind in FLOATS), "curve<double>")
COVERING |= {"holes.cu": IMPUTE[::5], "rotations.cu": ROTATIONS, "curve.cu": CURVE}
ALL |= {"holes.cu": IMPUTE, "rotations.cu": ROTATIONS, "curve.cu": CURVE}


def kernels(expressions):
    """The instantiations of each kernel, by its name."""
    by_name = {}
    for expression in expressions:
        by_name.setdefault(expression.split("<")[0], []).append(expression)
    return by_name


def dealt(file, arch):
    """What an architecture compiles: of each kernel at least one, and all of them together the covering ones."""
    turn = USUAL.index(arch)
    parts = (each[turn :: len(USUAL)] or [each[turn % len(each)]] for each in kernels(COVERING[file]).values())
    return tuple(itertools.chain(*parts))


DEALT = [(file, arch, dealt(file, arch)) for file in ALL for arch in USUAL]
REST = [(file, arch, ALL[file]) for file in ALL for arch in ARCHS if (file, arch, ALL[file]) not in DEALT]


def cases(*files):
    """Of these files: what each architecture compiles, and everything on every architecture if asked for."""
    return [
        pytest.param((file, arch, part), id=f"{file}-{arch}{ending}", marks=marks)
        for kind, ending, marks in ((DEALT, "", ()), (REST, "-all", pytest.mark.exhaustive))
        for file, arch, part in kind
        if file in files
    ]


def compile(case):
    file, arch, part = case
    return nvrtc.compile(source(file), part, arch)


@pytest.fixture(params=cases(*ALL))
def compiled(request):
    return compile(request.param)


def test_every_covering_instantiation_has_an_architecture_and_every_architecture_each_kernel():
    for file, everything in ALL.items():
        assert {one for other, _, part in DEALT if other == file for one in part} == set(COVERING[file])
        assert all(kernels(dealt(file, arch)).keys() == kernels(everything).keys() for arch in USUAL)


@needs_nvrtc
def test_no_spills_no_stack_and_no_warnings(compiled):
    usage = nvrtc.usage(compiled.log)
    assert set(usage) == set(compiled.lowered.values())
    for name, kernel in usage.items():
        assert (kernel.stack, kernel.spill_stores, kernel.spill_loads) == (0, 0, 0), name
    assert "warning" not in compiled.log.lower()
    assert not re.search(r"\.local\b", compiled.ptx)


@needs_nvrtc
@pytest.mark.parametrize("case", cases("jacobi.cu"))
def test_the_largest_block_of_orthogonalise_has_registers_enough(case):
    """A device has 65,536 for a block, and launches none that needs more."""
    for kernel in nvrtc.usage(compile(case).log).values():
        assert -(-kernel.registers // 8) * 8 * 32 * slices.WARPS <= 65536


@needs_nvrtc
@pytest.mark.parametrize("case", cases("rotations.cu"))
def test_the_largest_block_of_rotate_has_registers_enough(case):
    compiled = compile(case)
    usage = nvrtc.usage(compiled.log)
    for expression, name in compiled.lowered.items():
        if expression.startswith("rotate"):
            assert -(-usage[name].registers // 8) * 8 * 32 * rotations.TURN_WARPS <= 65536


@needs_nvrtc
@pytest.mark.parametrize("case", cases("embedding.cu"))
def test_a_block_of_embedded_rows_has_registers_enough(case):
    for kernel in nvrtc.usage(compile(case).log).values():
        assert -(-kernel.registers // 8) * 8 * embedding.THREADS <= 65536


@needs_nvrtc
@pytest.mark.parametrize("case", cases("scatter.cu"))
def test_every_block_of_scatter_add_has_registers_enough(case):
    compiled = compile(case)
    usage = nvrtc.usage(compiled.log)
    blocks = [expression for expression in compiled.lowered if expression.startswith("scatter_add")]
    assert blocks
    for expression in blocks:
        threads = int(expression.rstrip(">").split(",")[-1])
        assert -(-usage[compiled.lowered[expression]].registers // 8) * 8 * threads <= 65536, expression


@needs_nvrtc
def test_every_float_operation_rounds_once(compiled):
    rounded = r"\b(?:add|sub|mul)\.rn(?:\.ftz)?\.f(?:32|64)\b"
    assert re.search(rounded, compiled.ptx) or not re.search(r"\.f(?:32|64)\b", compiled.ptx)
    assert not re.findall(r"\bfma\.\S+|\bmad\.\S*f(?:32|64)\b", compiled.ptx)
    # Without .rn, ptxas itself may fuse a multiplication and an addition.
    assert not re.findall(r"\b(?:add|sub|mul)(?!\.rn)\S*\.f(?:32|64)\b", compiled.ptx)


@needs_nvrtc
def test_the_interpreter_knows_every_instruction(compiled):
    for name in compiled.lowered.values():
        PtxFunction(compiled.ptx, name)


@needs_nvrtc
def test_a_source_with_an_error_says_where():
    with pytest.raises(ValueError, match=r"kernel.cu\(1\): error"):
        nvrtc.compile("__global__ void k() { undeclared = 1; }", ("k",), "sm_80")


@needs_nvrtc
def test_usage_sees_a_stack():
    text = "__global__ void k(int* out, int i) { volatile int a[32]; a[i] = 1; out[0] = a[i / 2]; }"
    compiled = nvrtc.compile(text, ("k",), "sm_80")
    assert nvrtc.usage(compiled.log)[compiled.lowered["k"]].stack >= 128


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
@pytest.mark.parametrize(
    "file", [pytest.param(file, marks=() if i < 2 else pytest.mark.exhaustive) for i, file in enumerate(COVERING)]
)
def test_nvcc_compiles_without_a_warning(tmp_path, file):
    instances = ", ".join(f"(void*)&{expression}" for expression in COVERING[file])
    (tmp_path / "all.cu").write_text(f'#include "{file}"\nvoid* kernels[] = {{{instances}}};\n')
    strict = ("-Xptxas", "-v,-warn-spills,-warn-lmem-usage", "-Werror", "all-warnings")
    command = ("nvcc", "-std=c++17", "--fmad=false", "-ftz=true", *strict, "-cubin", "-arch=sm_90", f"-I{KERNELS}")
    files = ("-o", "all.cubin", "all.cu")
    done = subprocess.run((*command, *files), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(nvrtc.usage(done.stderr)) == len(COVERING[file])
