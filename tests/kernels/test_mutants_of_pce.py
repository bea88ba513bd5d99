"""The kernels of PCE under the checker: every one of many mutations is found by the tests of test_kernels_of_pce.py."""

import pytest
import test_kernels_of_pce as checks

from cudasim import standin
from cudasim.mutants import mutated
from cudasim.shim import ShimError, ShimModule, gxx
from gpuensemble._kernels.cuda import source
from support import one_in

pytestmark = pytest.mark.skipif(gxx() is None, reason="needs g++ on Linux to compile CUDA kernels for the CPU")

FEWER, SINGULAR = "fewer and more clusters than K", ("rank 1", 5)
# A few cases of each kernel that see every line of it.
CASES = {
    "holes": [
        lambda device, patch: checks.test_holes_get_the_same_labels(
            device, "groups of 4, more rows than groups", "float64", patch
        ),
        lambda device, patch: checks.test_holes_get_the_same_labels(
            device, "groups of 32, more clusters than lanes", "float32", patch
        ),
    ],
    "count_pairs": [
        lambda device, _: checks.test_pairs_are_counted_in_the_same_integers(device, FEWER, True),
        lambda device, _: checks.test_pairs_are_counted_in_the_same_integers(
            device, "pairs that do not fit into shared memory", False
        ),
    ],
    "programme": [lambda device, _: checks.test_the_programme_is_the_same(device, FEWER)],
    "rotate": [
        lambda device, _: checks.test_rotations_are_those_of_lapack(device, FEWER),
        lambda device, _: checks.test_a_rotation_is_exact_where_its_matrix_is_nearly_singular(device, *SINGULAR),
        lambda device, _: checks.test_a_rotation_is_exact_where_its_matrix_is_nearly_singular(device, "zero", 2),
    ],
    "frame": [lambda device, _: checks.test_frames_have_the_same_bits(device, 400, 3, "float64")],
    "curve": [
        lambda device, _: checks.test_a_step_of_the_search_is_that_of_the_cpu(device, "too long", 4, True),
        lambda device, _: checks.test_a_step_of_the_search_is_that_of_the_cpu(device, "first", 4, False),
        lambda device, _: checks.test_a_search_that_cannot_fall_stays_and_starts_again(device),
    ],
}
FILES = {"holes": "holes.cu", "frame": "curve.cu", "curve": "curve.cu"}  # the others are in rotations.cu


def fault(kernel, old, new, patch):
    """The first thing wrong with a kernel: a kind of error, "wrong result", or None."""
    for order in ("forward", "reverse"):

        def engine(*, code, options, name_expressions, order=order):
            text = mutated(code, old, new, *name_expressions)
            return ShimModule(text, options, name_expressions, checked=True, order=order)

        for case in CASES[kernel]:
            with standin.installed(engine) as device:
                try:
                    case(device, patch)
                except ShimError as error:
                    return str(error).split(":")[0]
                except AssertionError:
                    return "wrong result"
    return None


BARRIER = "__syncthreads();"
# How g++ 12 lets it be found (another may see another fault of it first); a kernel; text in its source, and what to
# put in its place.
MUTANTS = [
    # holes
    ("out of bounds", "holes", "x < n; x += ", "x <= n; x += "),
    ("wrong result", "holes", "(gridDim.x) * per_block) {", "(gridDim.x) * blockDim.x) {"),
    ("mask", "holes", " << (threadIdx.x % 32 / G * G)", ""),
    ("race", "holes", "rests ? rests + first * K", "rests ? rests + group * K"),
    ("race", "holes", "shared_rests + group * K", "shared_rests"),
    ("out of bounds", "holes", "if (!is_hole(row[i])) value", "value"),
    ("wrong result", "holes", "if (!is_hole(seen[i])) continue", "if (!is_hole(row[i])) continue"),
    ("wrong result", "holes", "i = lane; i < r; i += G", "i = lane; i < r - 1; i += G"),
    ("wrong result", "holes", "rest[k] += weighted", "rest[k] -= weighted"),
    ("out of bounds", "holes", "if (!is_hole(row[i]))\n", "\n"),
    ("race", "holes", "__syncwarp(mask);  // the rest is complete", "//"),
    ("race", "holes", "__syncwarp(mask);  // all lanes", "//"),
    ("wrong result", "holes", "if (cost < least) {", "if (cost <= least) {"),
    ("wrong result", "holes", " || (cost == least && c < best)", ""),
    ("wrong result", "holes", "cost = lengths[c] - 2", "cost = lengths[c] + 2"),
    ("out of bounds", "holes", "k < K; ++k) product", "k <= K; ++k) product"),
    ("wrong result", "holes", "end = offsets[i + 1]", "end = offsets[i + 1] - 1"),
    ("race", "holes", "if (lane == 0) row[i]", "row[i]"),
    ("wrong result", "holes", "(best - begin)", "(best)"),
    ("wrong result", "holes", "step /= 2) {\n                const T c", "step /= 4) {\n                const T c"),
    # count_pairs
    ("wrong result", "count_pairs", "task += gridDim.y", "task += 2 * gridDim.y"),
    ("out of bounds", "count_pairs", "(offsets[i] - offsets[first]) * offsets[r]", "(offsets[i]) * offsets[r]"),
    ("out of bounds", "count_pairs", "n_cells <= capacity", "n_cells <= n_cells + capacity"),
    ("race", "count_pairs", f"cells[cell] = 0;\n            {BARRIER}", "cells[cell] = 0;"),
    ("race", "count_pairs", f"if (fits) {{\n            {BARRIER}", "if (fits) {"),
    ("wrong result", "count_pairs", "if (threadIdx.x >= rows * width) x = n;", ""),
    ("wrong result", "count_pairs", "(gridDim.x) * rows", "(gridDim.x) * blockDim.x"),
    ("out of bounds", "count_pairs", "is_hole(own) || ", ""),
    ("out of bounds", "count_pairs", " || is_hole(other)", ""),
    ("out of bounds", "count_pairs", "weight ? static_cast<uint64>(weight[x]) : 1", "static_cast<uint64>(weight[x])"),
    ("wrong result", "count_pairs", "d = shift + ", "d = "),
    ("wrong result", "count_pairs", "cell % across", "cell % (across + 1)"),
    ("wrong result", "count_pairs", "+ offsets[lowest];", ";"),
    # programme
    ("wrong result", "programme", "(gridDim.x) * warps", "(gridDim.x) * blockDim.x"),
    ("out of bounds", "programme", "task < n_tasks; ", "task <= n_tasks; "),
    ("out of bounds", "programme", "if (j == r)", "if (j > r)"),
    ("wrong result", "programme", "at < height * K", "at < height * K - 1"),
    ("wrong result", "programme", "cell % width", "cell % height"),
    ("out of bounds", "programme", "(c - offsets[first]) * offsets[r]", "c * offsets[r]"),
    ("wrong result", "programme", "sum += unit * ", "sum += "),
    ("wrong result", "programme", "sum = warp_sum(sum)", "sum = 2 * sum"),
    ("race", "programme", "if (lane == 0) out", "out"),
    # rotate
    ("race", "rotate", f"{BARRIER}  // all of the weighted", "//"),
    ("race", "rotate", f"lines.append_identity();\n        {BARRIER}", "lines.append_identity();"),
    ("race", "rotate", f"lines.normalise();\n        {BARRIER}", "lines.normalise();"),
    ("race", "rotate", f"}}\n            {BARRIER}\n        }}", "}\n        }"),
    ("race", "rotate", f"turned[warp] = mine;\n        {BARRIER}", "turned[warp] = mine;"),
    ("race", "rotate", f"= value;\n    {BARRIER}", "= value;"),
    ("wrong result", "rotate", "if (own > largest) largest = own;", ""),
    ("wrong result", "rotate", "lines.upright ? largest : ", ""),
    ("wrong result", "rotate", "x -= unit * (sum -", "x -= unit * (sum +"),
    ("wrong result", "rotate", "weighted[at] = share[lines.begin + c] * tables[at];", ";"),
    ("out of bounds", "rotate", "lines.begin - offsets[first]", "lines.begin"),
    ("wrong result", "rotate", "upright = width > K", "upright = false"),
    ("wrong result", "rotate", "length > 0 ? length : 1", "length"),
    ("wrong result", "rotate", "+= pull * tables[at]", "+= 0 * tables[at]"),
    ("wrong result", "rotate", "= cell / p == cell % p", "= 1"),
    ("wrong result", "rotate", "if (!any) break;", "break;"),
    ("wrong result", "rotate", "slope < 0 ? -root : root", "root"),
    ("wrong result", "rotate", "l < pitch; l += 32", "l < q; l += 32"),
    ("wrong result", "rotate", "line[l] = line[l] / length", "line[l] = line[l]"),
    ("wrong result", "rotate", "p - 1 + p % 2", "p - 1"),
    ("wrong result", "rotate", "round < others", "round < others - 1"),
    # frame
    ("out of bounds", "frame", "at < n * K; ", "at <= n * K; "),
    ("wrong result", "frame", "target - product[at]", "target + product[at]"),
    ("wrong result", "frame", "square + gamma", "square"),
    ("wrong result", "frame", "= diagonal * gradient;", "= gradient;"),
    ("wrong result", "frame", "(labels[row]) * K + k", "(labels[row]) * K"),
    ("wrong result", "frame", "(gridDim.x) * blockDim.x;", "(gridDim.x) * blockDim.x * 2;"),
    # curve
    (
        "race",
        "curve",
        f"columns, at % columns);\n        {BARRIER}\n    }}\n\n    // The sum",
        "columns, at % columns);\n    }\n\n    // The sum",
    ),
    ("race", "curve", f"= value;\n        {BARRIER}", "= value;"),
    ("race", "curve", f"{BARRIER}  // before the next sum", ""),
    (
        "race",
        "curve",
        f"column[i] = matrix[i * K + pivot];\n            {BARRIER}",
        "column[i] = matrix[i * K + pivot];",
    ),
    ("race", "curve", f"* inverse;\n            {BARRIER}", "* inverse;"),
    ("race", "curve", f"}}\n            {BARRIER}\n        }}\n    }}\n}};", "}\n        }\n    }\n};"),
    ("wrong result", "curve", "(j == pivot ? 0 : matrix[at])", "matrix[at]"),
    ("wrong result", "curve", "return 2 * (*square + block", "return (*square + block"),
    ("wrong result", "curve", "*step > 0 ? *step : 0.1 * radian", "*step"),
    ("wrong result", "curve", "first < max_turn * radian ? first : max_turn * radian", "first"),
    ("wrong result", "curve", "trial < max_trials && ", "trial < 2 && "),
    ("wrong result", "curve", "accepted = change <= -decrease * expected", "accepted = true"),
    ("wrong result", "curve", "identity(i, j) + s[i * K + j] / 2", "identity(i, j)"),
    ("wrong result", "curve", "i < 2 * K ? raw[(i - K) * K + j]", "i < 2 * K ? s[(i - K) * K + j]"),
    ("wrong result", "curve", "error[m * K + j] / 2", "error[m * K + j]"),
    ("wrong result", "curve", "return 2 * eta * even[i * K + m] -", "return 0 -"),
    ("wrong result", "curve", "eta = still ? *step : 0", "eta = *step"),
    ("wrong result", "curve", "(product(i, j) + product(j, i)) / 2", "product(i, j)"),
    ("wrong result", "curve", "image[i * K + j] + even[i * K + j] : s", "image[i * K + j] : s"),
    ("wrong result", "curve", "is_long ? inner(s, 2 * K, s, 2 * K) : sy", "sy"),
    ("race", "curve", "if (threadIdx.x == 0) *next", "*next"),
]


@pytest.fixture
def few_blocks(monkeypatch):
    monkeypatch.setattr(source, "MAX_BLOCKS", 3)
    return monkeypatch


@pytest.mark.parametrize(("found_by", "kernel", "old", "new"), one_in(4, MUTANTS))
def test_mutant_is_found(few_blocks, found_by, kernel, old, new):
    text = source.source(FILES.get(kernel, "rotations.cu"))
    assert text.count(old) == 1, "the text to mutate must occur once in the kernel's file"
    assert fault(kernel, old, new, few_blocks) is not None, f"expected: {found_by}"
