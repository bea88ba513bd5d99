"""The choice of a device and moving arrays."""

import re
import sys
import types

import numpy as np
import pytest

from cudasim import standin
from gpuensemble import Membership
from gpuensemble._array import checks, devices
from gpuensemble._cli.doctor import run as doctor


def test_arrays_know_their_library_and_device(xp):
    x = xp.asarray([1.0, 2.0])
    assert devices.namespace(x) is xp
    assert devices.namespace(np.zeros(1), x) is xp
    assert devices.device_of(x) == ("cpu" if xp is np else "cuda:0")


def test_arrays_move_there_and_back(xp):
    x = xp.asarray([1.0, 2.0])
    home = devices.device_of(x)
    assert devices.to_device(x, home) is x
    host = devices.to_host(x)
    assert isinstance(host, np.ndarray)
    back = devices.to_device(host, home)
    assert devices.namespace(back) is xp
    assert devices.to_host(back).tolist() == [1.0, 2.0]


def test_auto_follows_the_input_then_takes_cuda_where_there_is_one(xp):
    x = xp.asarray([[0], [1]])
    assert devices.choose_device("auto", x) == devices.device_of(x) or devices.cuda_count()
    assert devices.choose_device("cpu", x) == "cpu"
    assert Membership.from_labels(x).device == devices.choose_device("auto", x)
    if xp is not np:
        assert devices.choose_device("auto", np.zeros(1)) == "cuda:0"
        assert devices.choose_device("cuda", np.zeros(1)) == "cuda:0"
        with pytest.raises(
            ValueError, match=r"`device` must name one of the 1 CUDA devices \(cuda:0 to cuda:0\), got 'cuda:1'."
        ):
            devices.choose_device("cuda:1")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "CUDA", "", None, 0])
def test_unknown_devices_are_refused(device):
    with pytest.raises(ValueError, match='`device` must be "auto", "cpu", "cuda" or "cuda:N", got '):
        Membership.from_labels([[0], [1]], device=device)


def test_a_missing_cupy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(
        ValueError, match=r"`device` must be one that is there, got 'cuda': CuPy cannot be imported .*cuda13"
    ):
        Membership.from_labels([[0], [1]], device="cuda")
    assert devices.choose_device("auto") == "cpu"


@pytest.mark.skipif(devices.cuda_count() > 0, reason="this machine has a CUDA device")
def test_a_missing_device_is_named():
    pytest.importorskip("cupy", reason="CuPy is not installed")
    with pytest.raises(ValueError, match=r"got 'cuda:0': CuPy finds no CUDA device\."):
        Membership.from_labels([[0], [1]], device="cuda:0")
    assert Membership.from_labels([[0], [1]]).device == "cpu"


class Lacking(types.SimpleNamespace):
    """`cupy.cuda` where libraries are missing."""

    def __getattr__(self, name):
        raise ImportError(f"lib{name}.so.12: cannot open")


def without_libraries():
    """CuPy on a machine with a driver and a device, but without two of CUDA's libraries."""
    cupy = standin.Standin(None)
    there = vars(cupy.cuda)
    cupy.cuda = Lacking(**{name: there[name] for name in there.keys() - {"cusolver", "cufft"}})
    return cupy


def without_headers():
    """CuPy on a machine without the headers that every kernel includes."""

    def zeros(_shape):
        raise RuntimeError("Failed to find CUDA headers.\nInstall them.")

    cupy = standin.Standin(None)
    cupy.zeros = zeros
    return cupy


FAULTS = {
    without_libraries: "CuPy cannot use cuSOLVER, cuFFT (libcusolver.so.12: cannot open); `pip install gpuensemble[",
    without_headers: "CuPy cannot use NVRTC or the CUDA headers (Failed to find CUDA headers); `pip install",
}


@pytest.mark.parametrize("broken", FAULTS)
def test_a_device_that_cannot_be_used_is_told_of_once(monkeypatch, broken):
    monkeypatch.setitem(sys.modules, "cupy", broken())
    devices._warn_once.cache_clear()
    with pytest.warns(UserWarning, match=re.escape(FAULTS[broken])) as said:
        assert Membership.from_labels([[0], [1]]).device == "cpu"
    assert str(said[0].message).startswith("A CUDA device is there, but the CPU is used: ")
    assert Membership.from_labels([[0], [1]]).device == "cpu"  # a second warning would be an error
    assert devices.cuda_count() == 0
    with pytest.raises(
        ValueError, match=rf"^`device` must be one that is there, got 'cuda': {re.escape(FAULTS[broken])}"
    ):
        Membership.from_labels([[0], [1]], device="cuda")


def test_the_doctor_names_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", without_libraries())
    monkeypatch.setattr(doctor.doctor_checks, "all_checks", list)
    report = doctor.run("cpu")
    assert report["not_checked"]["cuda"].startswith(FAULTS[without_libraries])


def test_free_memory_of_a_device_counts_with_what_the_pool_does_not_use(monkeypatch):
    cupy = standin.Standin(None)
    cupy.cuda.runtime.memGetInfo = lambda: (3 << 20, 9 << 20)
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 1 << 20)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert devices.memory("cuda:0") == 4 << 20


def test_memory_is_the_least_of_machine_and_container(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(devices, "MEMORY_LIMITS", (str(limit),))
    whole = devices.memory("cpu")
    assert whole is None or whole > 2**20
    limit.write_text("max\n")
    assert devices.memory("cpu") == whole
    limit.write_text("1048576\n")
    assert devices.memory("cpu") == 1048576
    monkeypatch.delattr(devices.os, "sysconf")
    assert devices.memory("cpu") == 1048576
    limit.unlink()
    assert devices.memory("cpu") is None


def test_arrays_that_do_not_fit_are_refused(xp):
    device = devices.device_of(xp.zeros(1))
    checks.fits(1 << 20, "Ten arrays", device, "use SEC")
    has = r"this machine has .* GB" if xp is np else r"cuda:0 has .* GB free"
    message = rf"^Ten arrays must fit into memory: 1e\+09 GB are needed, {has}; use SEC\.$"
    with pytest.raises(ValueError, match=message):
        checks.fits(10**18, "Ten arrays", device, "use SEC")


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
def test_numbers_have_bounds(value):
    with pytest.raises(ValueError, match=r"^`tau` must be finite and greater than 0, got "):
        checks.number(value, "tau", 0)
    assert checks.number(0, "tau", 0, inclusive=True) == 0
    with pytest.raises(TypeError, match=r"^`tau` must be a number, got True of type bool\.$"):
        checks.number(True, "tau", 0)
