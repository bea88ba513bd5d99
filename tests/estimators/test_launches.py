"""Launches and host reads of an iteration of every method, on the stand-in device, are those that docs/gpu.md has.

After a change that is meant: `python tests/counts.py write`.
"""

import json

import pytest

import counts
from cudasim import nvrtc
from cudasim.counting import CountedModule
from cudasim.shim import ShimModule, gxx
from gpuensemble._cli.bench import workloads
from gpuensemble.estimators._base import registry

pytestmark = pytest.mark.skipif(gxx() is None, reason="g++ is not installed")
KNOWN = json.loads(counts.FILE.read_text())
WRITE = "python tests/counts.py write"
LOOSE = 0.1  # a fit has loops that end by a tolerance, which rounding decides on another machine


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.exhaustive if name == "cmvc" else ()) for name in registry.methods()],
)
def test_a_method_asks_for_what_is_documented(name):
    method = registry.methods()[name]
    if method.missing:
        pytest.skip(f"{method.missing} is not installed")
    with counts.on_standin(ShimModule):
        found = counts.rounded(counts.of_method(method))
    known = KNOWN["methods"][name]
    for key in ("launches", "kernels", "reads"):
        if found["iteration"] or known["iteration"]:
            assert found["iteration"][key] == pytest.approx(known["iteration"][key], rel=0.02), WRITE
        assert found["fit"][key] == pytest.approx(known["fit"][key], rel=LOOSE), WRITE


def test_every_method_that_iterates_on_a_device_is_counted_by_the_iteration():
    found = {name for name, one in KNOWN["methods"].items() if one["iteration"]}
    assert {"sec", "sec-entropy", "kcc", "pce", "lta", "rsec", "nrsec", "cmvc"} <= found


def test_the_page_has_the_same_numbers():
    page = counts.PAGE.read_text()
    assert counts.table(KNOWN["methods"]) in page, WRITE
    assert counts.with_table(page, KNOWN["methods"]) == page


def test_every_workload_is_counted():
    assert [one.title for one in workloads.workloads()] == list(KNOWN["workloads"]), WRITE
    for one in workloads.workloads():
        assert len(KNOWN["workloads"][one.title]) == len(one.rows_counted), WRITE


@pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing())
@pytest.mark.parametrize("name", ["KCC", "ClusterWalk"])
def test_a_workload_counted_again_moves_what_was_written(name):
    workload = next(one for one in workloads.workloads() if one.name == name)
    with counts.on_standin(CountedModule):
        found = counts.of_workload(workload, workload.rows_counted[0])
    part = "iteration" if workload.iterations else "setup"
    known = KNOWN["workloads"][workload.title][0][part]
    for key in ("launches", "reads", "up", "down", "dram", "cached", "flops64", "kernel_dram", "kernel_cached"):
        assert found[part][key] == pytest.approx(known[key], rel=0.02), WRITE
