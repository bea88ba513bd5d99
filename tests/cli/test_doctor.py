"""The doctor: it passes on a sound machine, with and without a device, and finds what is broken."""

import numpy as np
import pytest

from cudasim import standin
from cudasim.shim import ShimModule, gxx
from gpuensemble._cli.doctor import checks as doctor_checks
from gpuensemble._cli.doctor import run as doctor
from gpuensemble._kernels.cpu import membership as cpu
from gpuensemble._kernels.cuda import membership as cuda
from gpuensemble.estimators._base.registry import methods

KERNELS = ["gather_sum", "scatter_add", "assign", "count", "count_masses", "degrees", "coassociation", "shrink_slices"]
KERNELS += ["orthogonalise"]


@pytest.fixture
def few(monkeypatch):
    """Two types of tables instead of four: kernels need not be built for all."""
    monkeypatch.setattr(doctor_checks, "KINDS", doctor_checks.KINDS[::2])


def failures(report):
    return {(row["check"], row["device"]) for row in report["checks"] if not row["ok"]}


def test_a_machine_without_a_device_says_what_was_not_checked():
    report = doctor.run("cpu")
    names = [row["check"] for row in report["checks"]]
    assert names[: len(KERNELS)] == [f"kernel {name}" for name in KERNELS]
    every = methods().values()
    assert names[-len(every) :] == [f"method {method.title}" for method in every]
    assert failures(report) == set()
    assert report["failed"] == 0
    lines = doctor.table(report).splitlines()
    assert lines[0].startswith("Python ")
    assert f"numpy {np.__version__}" in lines[0]
    assert f"{len(names)} checks on cpu: all passed" in lines
    assert lines[-1].startswith("not checked: cuda")


@pytest.mark.skipif(gxx() is None, reason="g++ is not installed")
def test_a_device_is_compared_with_the_cpu(few):
    with standin.installed(ShimModule):
        report = doctor.run("auto")
    assert report["device"] == "cuda:0"
    assert failures(report) == set()
    assert {row["against"] for row in report["checks"] if row["device"] == "cuda:0"} == {"cpu"}
    (device,) = report["machine"]["devices"]
    assert device["device"] == "cuda:0"
    assert report["not_checked"] == {}
    assert "on cpu and cuda:0: all passed" in doctor.table(report)


@pytest.mark.skipif(gxx() is None, reason="g++ is not installed")
def test_a_broken_kernel_of_a_device_is_found(few, monkeypatch):
    sound = cuda.count
    monkeypatch.setattr(cuda, "count", lambda *arguments: sound(*arguments) + 1)
    with standin.installed(ShimModule):
        report = doctor.run("cuda:0")
    assert {("kernel count", "cuda:0"), ("kernel degrees", "cuda:0")} <= failures(report)
    assert ("kernel gather_sum", "cuda:0") not in failures(report)
    assert not any(device == "cpu" for _, device in failures(report))
    assert report["failed"] == len(failures(report))


def test_a_broken_kernel_of_the_cpu_is_found(few, monkeypatch):
    sound = cpu.coassociation

    def broken(*arguments):
        out = sound(*arguments)
        out[3, 5] += 1e-12
        return out

    monkeypatch.setattr(cpu, "coassociation", broken)
    report = doctor.run("cpu")
    found = {name for name, _ in failures(report)}
    assert "kernel coassociation" in found
    assert not found & {"kernel gather_sum", "kernel count", "method SEC"}
    text = doctor.table(report)
    assert "FAIL  kernel coassociation" in text
    assert "first at [3, 5]" in text
    assert f"{len(found)} failed" in text


def test_a_kernel_that_raises_has_failed(few, monkeypatch):
    def broken(*_):
        raise RuntimeError("no kernel image is available\nfor execution")

    monkeypatch.setattr(cpu, "scatter_add", broken)
    rows = {row["check"]: row for row in doctor.run("cpu")["checks"]}
    assert rows["kernel scatter_add"]["detail"] == "RuntimeError: no kernel image is available"
    assert rows["kernel assign"]["ok"]


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="`device` must be"):
        doctor.run("cuda:99")
