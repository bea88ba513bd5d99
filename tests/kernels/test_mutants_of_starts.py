"""The kernels of first centres and of means under the checker: every one of many mutations is found."""

import pytest
import test_kernels_of_starts as checks

from cudasim import standin
from cudasim.shim import ShimError, ShimModule, gxx
from gpuensemble._kernels.cuda import source
from support import one_in

pytestmark = pytest.mark.skipif(gxx() is None, reason="needs g++ on Linux to compile CUDA kernels for the CPU")

PLUS_PLUS = [
    lambda device: checks.test_greedy_k_means_plus_plus(device, "samples, weighted"),
    lambda device: checks.test_greedy_k_means_plus_plus(device, "all rows"),
    checks.test_rows_that_are_all_alike_leave_no_cost,
    lambda device: checks.test_greedy_k_means_plus_plus(device, "many rows, cosine"),
]
CASES = {
    "draw_rows": PLUS_PLUS,
    "try_rows": PLUS_PLUS,
    "pivot": [
        lambda device: checks.test_pivots_are_those_of_a_qr(device, 40, 37, 9),
        lambda device: checks.test_pivots_are_those_of_a_qr(device, 33, 4, 6),
        checks.test_the_first_of_equally_long_rows_is_the_pivot,
    ],
    "place": [
        lambda device: checks.test_means_become_tables(device, "float64", False, True, False),
        lambda device: checks.test_means_become_tables(device, "float32", True, False, False),
        lambda device: checks.test_means_become_tables(device, "float64", False, True, True),
    ],
}
EMBEDDED = [
    lambda device: checks.test_embedded_rows_and_their_lengths(device, "two columns a lane", 0.2),
    lambda device: checks.test_embedded_rows_and_their_lengths(device, "more columns than a warp holds", 0.0),
    lambda device: checks.test_embedded_rows_and_their_lengths(device, "a partition that does not fit", 0.2),
]
CASES |= {"gather_shares": EMBEDDED, "gather_lengths": EMBEDDED}
FILES = {"place": "batches.cu", "gather_shares": "embedding.cu", "gather_lengths": "embedding.cu"}  # else seeding.cu


def fault(kernel, old, new):
    """The first thing wrong with a kernel: a kind of error, "wrong result", or None."""
    for order in ("forward", "reverse"):

        def engine(*, code, options, name_expressions, order=order):
            # only the kernel that is meant, so that others are not compiled again
            text = code.replace(old, new) if name_expressions[0].split("<")[0] == kernel else code
            return ShimModule(text, options, name_expressions, checked=True, order=order)

        for case in CASES[kernel]:
            with standin.installed(engine) as device:
                try:
                    case(device)
                except ShimError as error:
                    return str(error).split(":")[0]
                except AssertionError:
                    return "wrong result"
    return None


# How g++ 12 lets it be found (another may see another fault of it first); a kernel; text in its source, and what to
# put in its place.
MUTANTS = [
    # draw_rows
    ("out of bounds", "draw_rows", "s = blockIdx.x; s < n_starts; s +=", "s = blockIdx.x; s <= n_starts; s +="),
    ("wrong result", "draw_rows", "if (step > sizes[s]) continue;", ""),
    ("wrong result", "draw_rows", "if (step == sizes[s]) continue;", ""),
    ("wrong result", "draw_rows", "t = 1; t < tries[s]", "t = 1; t < tries[s] - 1"),
    ("wrong result", "draw_rows", "< totals[s * n_tries + best]) best = t", "> totals[s * n_tries + best]) best = t"),
    ("race", "draw_rows", "if (thread == 0) chosen", "chosen"),
    (
        "wrong result",
        "draw_rows",
        "chosen[s * k + step - 1] = drawn[s * n_tries + best]",
        "chosen[s * k + step - 1] = 0",
    ),
    ("out of bounds", "draw_rows", "rows ? rows[s * m + y] : y; };", "rows[s * m + y]; };"),
    ("wrong result", "draw_rows", "row_of(y) * weight_step", "y * weight_step"),
    ("out of bounds", "draw_rows", "row_of(y) * weight_step]", "row_of(y)]"),
    ("wrong result", "draw_rows", "return step > 0 ? costs[s * m + y] * own : own", "return costs[s * m + y] * own"),
    ("wrong result", "draw_rows", "y < m; y += THREADS", "y < m - 1; y += THREADS"),
    ("out of bounds", "draw_rows", "y < m; y += THREADS", "y <= m; y += THREADS"),
    ("wrong result", "draw_rows", "(s * m + y) * n_tries + best]", "(s * m + y) * n_tries]"),
    ("race", "draw_rows", "__syncthreads();  // all have read", "//"),
    ("wrong result", "draw_rows", "i < THREADS; ++i) most", "i < THREADS / 2; ++i) most"),
    ("wrong result", "draw_rows", "(most > 0 ? most : 1.0)", "1.0"),
    ("wrong result", "draw_rows", "(m + THREADS - 1) / THREADS", "m / THREADS"),
    ("out of bounds", "draw_rows", "last = min(m, first + each)", "last = first + each"),
    ("race", "draw_rows", "ends[thread] = own;\n        __syncthreads();", "ends[thread] = own;"),
    ("wrong result", "draw_rows", "if (i == thread) begin = total;", ""),
    ("wrong result", "draw_rows", "t < (step == 0 ? 1 : tries[s]); ++t) {", "t < 1; ++t) {"),
    ("wrong result", "draw_rows", "(step - 1) * tries[s] + t", "(step - 1) * tries[s]"),
    ("wrong result", "draw_rows", "(step - 1) * tries[s] + t", "(step - 1) * n_tries + t"),
    ("wrong result", "draw_rows", "if (total == 0 && thread == 0)", "if (thread == 0)"),
    ("wrong result", "draw_rows", "if (target < end) break", "if (target <= end) break"),
    ("race", "draw_rows", "if (target < begin || target >= begin + own) continue;", ""),
    ("wrong result", "draw_rows", "drawn[s * n_tries + t] = row_of(y)", "drawn[s * n_tries + t] = y"),
    ("wrong result", "draw_rows", "t < n_tries; t += THREADS", "t < n_tries - 1; t += THREADS"),
    ("wrong result", "draw_rows", "if (most > 0) found", "found"),
    # try_rows
    ("out of bounds", "try_rows", "s = blockIdx.y; s < n_starts", "s = blockIdx.y; s <= n_starts"),
    ("wrong result", "try_rows", "if (step >= sizes[s]) continue;", ""),
    ("wrong result", "try_rows", "s += gridDim.y", "s += 2 * gridDim.y"),
    ("wrong result", "try_rows", "y < m; y += warps.stride", "y < m; y += 2 * warps.stride"),
    ("wrong result", "try_rows", "row = rows ? rows[s * m + y] : y", "row = y"),
    ("wrong result", "try_rows", "t < n; ++t", "t < 1; ++t"),
    ("wrong result", "try_rows", "(a - b) * (a - b)", "(a - b)"),
    (
        "out of bounds",
        "try_rows",
        "j < d; j += 32) {\n                    const double a",
        "j <= d; j += 32) {\n                    const double a",
    ),
    ("wrong result", "try_rows", "if (cosine) square = sum_of_lanes(square);", ""),
    ("wrong result", "try_rows", "square > 0 ? factor * (sum / sqrt(square)) : 0.0", "factor * (sum / sqrt(square))"),
    ("wrong result", "try_rows", "double cost = factor * sum", "double cost = sum"),
    ("wrong result", "try_rows", "if (cost <= noise * fabs(constant[row])) cost = 0;", ""),
    ("wrong result", "try_rows", "cost = min(cost, costs[s * m + y]);", ""),
    ("race", "try_rows", "if (warps.lane != t) continue;", ""),
    ("wrong result", "try_rows", "cost * weight[row * weight_step] * scales[s]", "cost * scales[s]"),
    ("wrong result", "try_rows", "cost * weight[row * weight_step] * scales[s]", "cost * weight[row * weight_step]"),
    ("out of bounds", "try_rows", "if (n > 1 && warps.lane < n) atomicAdd", "atomicAdd"),
    # pivot
    ("wrong result", "pivot", "other > square || (other == square && where < row)", "other > square"),
    ("wrong result", "pivot", "other > square || (other == square && where < row)", "other >= square"),
    ("wrong result", "pivot", "newest.over_lanes();", ""),
    ("out of bounds", "pivot", "i < n_found; i += 32", "i <= n_found; i += 32"),
    ("wrong result", "pivot", "i < n_found; i += 32", "i < n_found / 2; i += 32"),
    ("race", "pivot", "if (warps.first == 0 && warps.lane == 0)", "if (warps.lane == 0)"),
    ("wrong result", "pivot", "chosen[step - 1] = newest.row", "chosen[step - 1] = 0"),
    ("out of bounds", "pivot", "x < m; x += warps.stride", "x <= m; x += warps.stride"),
    ("wrong result", "pivot", "sum_of_lanes(along) / square", "sum_of_lanes(along)"),
    ("wrong result", "pivot", "left += value * value", "left += row[j] * value"),
    ("wrong result", "pivot", "own.with(sum_of_lanes(left), x)", "own.with(left, x)"),
    (
        "out of bounds",
        "pivot",
        "j < d; j += 32) {\n            const double value",
        "j <= d; j += 32) {\n            const double value",
    ),
    ("race", "pivot", "if (warps.lane == 0) {\n        squares_after", "{\n        squares_after"),
    # gather_shares
    ("out of bounds", "gather_shares", "first + k < n && begin + lane < r", "begin + lane < r"),
    ("wrong result", "gather_shares", "first + k < n && begin + lane < r", "first + k < n && begin + lane < r - 1"),
    ("wrong result", "gather_shares", "begin < r; begin += 32", "begin < 32; begin += 32"),
    ("out of bounds", "gather_shares", "size * WIDE <= capacity", "true"),
    ("race", "gather_shares", "__syncthreads();  // all rows", "//"),
    ("race", "gather_shares", "}\n                __syncthreads();", "}"),
    ("wrong result", "gather_shares", "at < size * WIDE; at", "at < size * WIDE - 32; at"),
    (
        "out of bounds",
        "gather_shares",
        "column < K ? part[static_cast<int64>(at / WIDE) * K + column] : 0.0",
        "part[0]",
    ),
    ("wrong result", "gather_shares", "static_cast<int>(seen[k]), i - begin", "static_cast<int>(seen[k]), 0"),
    ("out of bounds", "gather_shares", "if (is_hole(code)) continue;", ""),
    ("wrong result", "gather_shares", "near[static_cast<int>(code) * WIDE + column]", "near[column]"),
    ("wrong result", "gather_shares", "else if (base + column < K)", "else if (base + column < K - 1)"),
    ("wrong result", "gather_shares", "K + base + column]", "K + column]"),
    ("wrong result", "gather_shares", "tile * TILE + threadIdx.x / 32 * ROWS", "tile * TILE + threadIdx.x / 32"),
    ("out of bounds", "gather_shares", "if (first + k >= n) return;", ""),
    ("wrong result", "gather_shares", "sum[v] * share[first + k]", "sum[v]"),
    ("out of bounds", "gather_shares", "if (column < K) out", "out"),
    ("wrong result", "gather_shares", "value + *magic - *magic", "value"),
    # gather_lengths
    ("wrong result", "gather_lengths", "square[k] += sum[v] * sum[v]", "square[k] = sum[v] * sum[v]"),
    ("wrong result", "gather_lengths", "step > 0; step /= 2) square", "step > 1; step /= 2) square"),
    ("out of bounds", "gather_lengths", "== 0 && first + k < n) out", "== 0) out"),
    ("race", "gather_lengths", "threadIdx.x % 32 == 0 && first", "first"),
    ("wrong result", "gather_lengths", "= sqrt(square[k])", "= square[k]"),
    # place
    ("out of bounds", "place", "c < n_centers; c += warps.stride", "c <= n_centers; c += warps.stride"),
    ("wrong result", "place", "square += sum * sum", "square += sum"),
    ("wrong result", "place", "square = sum_of_lanes(square);", ""),
    ("wrong result", "place", "own = sum_of_lanes(own);", ""),
    ("wrong result", "place", "cosine ? sqrt(square) : ", "cosine ? square : "),
    ("wrong result", "place", "(masses[c]) / mass_scale", "(masses[c])"),
    ("wrong result", "place", "/ scale[j] / size : 0.0", "/ scale[j] / size : 1.0"),
    ("wrong result", "place", "cosine ? -position : -2.0 * position", "-2.0 * position"),
    ("wrong result", "place", "cosine ? 0.0 : weight * own", "weight * own"),
    ("wrong result", "place", "counts[c] == 0 || (add && empty[c])", "counts[c] == 0"),
    ("wrong result", "place", "counts[c] == 0 || (add && empty[c])", "counts[c] == 0 || empty[c]"),
    ("wrong result", "place", "cosine ? size : square / size", "square / size"),
    ("out of bounds", "place", "if (partial) partial[c] = cost", "partial[c] = cost"),
    ("wrong result", "place", "(add ? offset[c] : T(0))", "offset[c]"),
    ("wrong result", "place", "(partial ? T(0) : cost)", "cost"),
    ("wrong result", "place", "lacking ? infinity<T>() : whole", "whole"),
]


@pytest.fixture
def few_blocks(monkeypatch):
    monkeypatch.setattr(source, "MAX_BLOCKS", 2)


@pytest.mark.parametrize(("found_by", "kernel", "old", "new"), one_in(4, MUTANTS))
def test_mutant_is_found(few_blocks, found_by, kernel, old, new):
    text = source.source(FILES.get(kernel, "seeding.cu"))
    assert text.count(old) == 1, "the text to mutate must occur once in the kernel's file"
    assert fault(kernel, old, new) is not None, f"expected: {found_by}"
