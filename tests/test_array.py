"""The choice of a device and moving arrays."""

import sys

import numpy as np
import pytest

from gpuensemble import Membership, _array


def test_arrays_know_their_library_and_device(xp):
    x = xp.asarray([1.0, 2.0])
    assert _array.namespace(x) is xp
    assert _array.namespace(np.zeros(1), x) is xp
    assert _array.device_of(x) == ("cpu" if xp is np else "cuda:0")


def test_arrays_move_there_and_back(xp):
    x = xp.asarray([1.0, 2.0])
    home = _array.device_of(x)
    assert _array.to_device(x, home) is x
    host = _array.to_host(x)
    assert isinstance(host, np.ndarray)
    back = _array.to_device(host, home)
    assert _array.namespace(back) is xp
    assert _array.to_host(back).tolist() == [1.0, 2.0]


def test_auto_follows_the_input_then_takes_cuda_where_there_is_one(xp):
    x = xp.asarray([[0], [1]])
    assert _array.choose_device("auto", x) == _array.device_of(x) or _array.cuda_count()
    assert _array.choose_device("cpu", x) == "cpu"
    assert Membership.from_labels(x).device == _array.choose_device("auto", x)
    if xp is not np:
        assert _array.choose_device("auto", np.zeros(1)) == "cuda:0"
        assert _array.choose_device("cuda", np.zeros(1)) == "cuda:0"
        with pytest.raises(
            ValueError, match=r"`device` must name one of the 1 CUDA devices \(cuda:0 to cuda:0\), got 'cuda:1'."
        ):
            _array.choose_device("cuda:1")


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
    assert _array.choose_device("auto") == "cpu"


@pytest.mark.skipif(_array.cuda_count() > 0, reason="this machine has a CUDA device")
def test_a_missing_device_is_named():
    pytest.importorskip("cupy", reason="CuPy is not installed")
    with pytest.raises(ValueError, match=r"got 'cuda:0': CuPy finds no CUDA device\."):
        Membership.from_labels([[0], [1]], device="cuda:0")
    assert Membership.from_labels([[0], [1]]).device == "cpu"
