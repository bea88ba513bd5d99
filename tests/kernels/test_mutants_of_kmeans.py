"""Every mutation of the kernels of k-means over labels is found by the comparison of their bits."""

import functools

import numpy as np
import pytest
from test_kmeans import SCENARIOS, assert_same

from cudasim import standin
from cudasim.mutants import mutated
from cudasim.shim import ShimError, ShimModule, gxx
from gpuensemble._kernels.cuda import source
from support import one_in

MUTANTS = [
    # price
    ("price", "kind == SEC ? of_column[2 * c] : 1.0", "1.0"),
    ("price", "kind == SEC ? 1.0 : of_column[2 * c + 1]", "1.0"),
    ("price", "n_masses > 1 ? cell : k", "k"),
    ("price", "mass > 0 ? 1.0 / static_cast<double>(mass) : 0.0", "1.0 / static_cast<double>(mass)"),
    ("price", "any |= number != 0;", ""),
    ("price", "scale * unit * square * (factor * factor)", "scale * unit * square * factor"),
    (
        "price",
        "const int i = static_cast<int>(cell / K), k = static_cast<int>(cell % K);\n        double square",
        "const int i = static_cast<int>(cell / K), k = 0;\n        double square",
    ),
    ("price", "__syncthreads();\n    if (threadIdx.x == 0) {\n        Sum", "if (threadIdx.x == 0) {\n        Sum"),
    ("price", "low += (before - (high - back)) + (term - back);", ""),
    ("price", "if (summed) of_partitions[k] = static_cast<T>(part);", ""),
    ("price", "any ? 0 : 1", "any ? 1 : 0"),
    ("price", "* pitch + k] = static_cast<T>(cost)", "* K + k] = static_cast<T>(cost)"),
    # drift
    ("drift", "* pitch_after + k", "* K + k"),
    ("drift", "* pitch_before + k", "* K + k"),
    ("drift", "if (change != change) change = 0;", ""),
    ("drift", "if (change > largest) largest = change;", ""),
    ("drift", "magnitude < positive_infinity() && ", ""),
    ("drift", "__syncthreads();\n    for (int thread", "for (int thread"),
    ("drift", "unit * largest_part * edges[b + 1]", "unit * largest_part * edges[b]"),
    ("drift", "complete || lower < 0 ? lower : 0", "lower"),
    ("drift", "complete || upper > 0 ? upper : 0", "upper"),
    ("drift", "down != down ? -positive_infinity() : down", "down"),
    ("drift", "if (n_parts > 1) change", "change"),
    ("drift", "if (n_parts == 1)", "if (false)"),
    ("drift", "lower == first ? second : first", "first"),
    ("drift", "if (loser < second) second = loser;", ""),
    ("drift", "K == 1 ? 0.0 : ", ""),
    ("drift", "step = 16; step > 0", "step = 8; step > 0"),
    # relabel
    ("relabel", "__syncthreads();\n    const Group<G> group;", "const Group<G> group;"),
    ("relabel", "if (bin == NEW_ROW) bin = bin_of(w, edges, n_bins);", ""),
    ("relabel", "if (edges[middle] <= weight)", "if (edges[middle] < weight - 1)"),
    ("relabel", "* SHRINK_SLACK;", ";"),
    ("relabel", "__syncwarp(group.mask);  // all lanes have read the slack", ""),
    ("relabel", "__syncwarp(group.mask);  // all lanes have read label and bin", ""),
    ("relabel", "if (left > rounding[bin]) continue;", "continue;"),
    ("relabel", "if (group.lane == 0) slack[x] = left;", ""),
    ("relabel", "((1LL << shift) >> 1)", "0"),
    ("relabel", "return total > 1 ? total : 1;", "return total + 1;"),
    ("relabel", "if (best.cost == infinity<T>())", "if (false)"),
    ("relabel", "margin - rounding[bin]", "margin"),
    ("relabel", "atomicAdd(facts + threadIdx.x, found[threadIdx.x])", "facts[threadIdx.x] = found[threadIdx.x]"),
    ("relabel", "moved += k != old;", "++moved;"),
    ("relabel", "x += group.stride) {\n        const int old", "x += 2 * group.stride) {\n        const int old"),
    ("relabel", "step = G / 2; step > 0; step /= 2) total", "step = G / 4; step > 0; step /= 2) total"),
    ("relabel", "if (!is_hole(row[i])) total", "total"),
    ("relabel", "if (!(margin > rounding[bin]))", "if (!(margin > -1e300))"),
    ("relabel", "k = best.k;", ""),
    # short
    ("short", "k < (complete ? 0 : K)", "k < 0"),
    ("short", "all.take(own.low, own.high);", "all.take(own.low, own.low);"),
    ("short", "all.reduce();", ""),
    ("short", "of_part.reduce();", ""),
    ("short", "widest = largest_of_warp(widest);", ""),
    ("short", "complete ? widest : all.width()", "widest"),
    ("short", "high - low >= 0 ? high - low : infinity<double>()", "high - low"),
    ("short", "of_parts[i] = of_part.middle();", "of_parts[i] = of_part.low;"),
    ("short", "step = 16; step > 0; step /= 2) value", "step = 8; step > 0; step /= 2) value"),
    ("short", "1e-290", "1e-200"),
    ("short", "rint((static_cast<double>(cost) - middle) / unit)", "(static_cast<double>(cost) - middle) / unit"),
    ("short", "LEVELS + static_cast<int>(rint", "static_cast<int>(rint"),
    ("short", "mean /= K;", ""),
    ("short", "__syncthreads();\n    double mean", "double mean"),
    ("short", "__syncthreads();\n    if (threadIdx.x >= 32) return;", "if (threadIdx.x >= 32) return;"),
    ("short", "complete ? (sums[k] - mean) / unit : 0", "(sums[k] - mean) / unit"),
    ("short", "used && n_parts == 1", "used"),
    ("short", "larger(larger(largest, base[k]), -base[k])", "larger(largest, base[k])"),
    ("short", "largest += heaviest * ratio * r * LEVELS;", ""),
    ("short", "unit < infinity<double>() && largest", "largest"),
    ("short", "* LEVELS < room / 2;", "* LEVELS < 1e300;"),
    ("short", "r + 2 + largest", "r + largest"),
    ("short", "facts[3] = r * ratio;", "facts[3] = ratio;"),
    ("short", "of_parts[i], of_part)", "of_parts[i], unit)"),
    ("short", "if (blockIdx.x == 0)\n        state_bases", "state_bases"),
    ("short", "c < offsets[i + 1]; c += apart", "c < offsets[i + 1]; c += 2 * apart"),
    ("short", "if (n_parts == 1 || threadIdx.x >= W) continue;", "if (n_parts == 1) continue;"),
    # decide
    ("decide", "if (mine >= r) continue;\n                const Code", "const Code"),
    ("decide", "if (!is_hole(code)) column[e]", "column[e]"),
    ("decide", "EACH == 1 ? 0 : j / G", "0"),
    ("decide", "begin + j % G, G)", "j % G, G)"),
    ("decide", "TOGETHER = 8;", "TOGETHER = 16;"),
    ("decide", "of[2 * v + 1] += pairs.of[v] >> 16;", "of[2 * v + 1] += pairs.of[v] & 0xffff;"),
    ("decide", "const int loser = least < first ? first : least;", "const int loser = least;"),
    ("decide", "if (next < second) second = next;", ""),
    ("decide", "<< bits) | (k + d)", "<< bits) | k"),
    ("decide", "step /= 2) {\n            const int first", "step /= 4) {\n            const int first"),
    ("decide", "(error + weight * part_error)", "error"),
    ("decide", "(factors.of[d] + of_parts)", "factors.of[d]"),
    ("decide", "part_sums.add(some_parts);", ""),
    ("decide", "left_out.of[d] + static_cast<float>(weight)", "static_cast<float>(weight)"),
    ("decide", "in_short.unit > 0", "false"),
]
FILES = {"short": "short.cu", "relabel": "relabel.cu", "decide": "relabel.cu"}  # of the kernels of other scenarios


@pytest.mark.skipif(gxx() is None, reason="needs g++ on Linux to compile CUDA kernels for the CPU")
@pytest.mark.parametrize(("name", "old", "new"), one_in(4, MUTANTS))
def test_mutant_is_found(name, old, new, monkeypatch):
    monkeypatch.setattr(source, "MAX_BLOCKS", 2)
    file = FILES.get(name, "pricing.cu")
    assert source.source(file).count(old) == 1, "the text to mutate must occur once in the kernel's file"
    assert any(is_found(name, old, new, order) for order in ("forward", "reverse"))


def is_found(name, old, new, order):
    """Whether the mutant is at fault, or has other bits than NumPy, if threads run in this order."""

    def engine(code, name_expressions, **options):
        text = mutated(code, old, new, *name_expressions)
        return ShimModule(text, name_expressions=name_expressions, checked=True, order=order, **options)

    with standin.installed(engine) as device:
        try:
            assert_same(SCENARIOS[name](device), expected(name))
        except (AssertionError, ShimError):
            return True
    return False


@functools.cache
def expected(name):
    """What NumPy finds, the same for all mutants."""
    return [np.array(one) for one in SCENARIOS[name](np)]
