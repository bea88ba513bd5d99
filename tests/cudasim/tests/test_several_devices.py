"""The stand-in's devices and streams refuse what has no order, and let through what has one."""

import numpy as np
import pytest

from cudasim import devices, standin


@pytest.fixture
def cupy():
    with standin.installed(None) as module, devices.several(2):
        yield module


def streams(cupy):
    return cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)


def test_arrays_know_their_device(cupy):
    with cupy.cuda.Device(1):
        x = cupy.asarray(np.ones(3))
        y = x + 1
    assert [z.device.id for z in (x, y, x[1:], x.T, x.reshape(3, 1), cupy.zeros(2))] == [1, 1, 1, 1, 1, 0]
    assert x.get().tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="no device 2"):
        cupy.cuda.Device(2)


MIXED = {
    "a sum": lambda cupy, x: x + cupy.ones(3),
    "a function": lambda cupy, x: cupy.sqrt(x),
    "a join": lambda cupy, x: cupy.concatenate([x, cupy.ones(3)]),
    "a reduction": lambda cupy, x: x.sum(),
    "an index": lambda cupy, x: cupy.ones(3)[x.astype("int64")],
    "an assignment": lambda cupy, x: cupy.ones(3).__setitem__(slice(None), x),
    "in place": lambda cupy, x: cupy.ones(3).__iadd__(x),
}


@pytest.mark.parametrize("attempt", MIXED.values(), ids=MIXED)
def test_another_device_than_the_current_one_is_refused(cupy, attempt):
    with cupy.cuda.Device(1):
        x = cupy.asarray(np.ones(3))
    with pytest.raises(ValueError, match="Array device must be same as the current device: array device = 1 while"):
        attempt(cupy, x)
    assert cupy.asarray(x).device.id == 0  # the way between devices


def test_a_stream_waits_for_another_by_an_event(cupy):
    one, two = streams(cupy)
    with one:
        x = cupy.asarray(np.ones(3))
    with two, pytest.raises(RuntimeError, match="another one may be at work on"):
        x + 1
    event = one.record()
    with two:
        two.wait_event(event)
        y = x + 1
    with one, pytest.raises(RuntimeError, match="another one may be at work on"):
        x += 1  # which the other one reads
    two.synchronize()
    with one:
        x += 1
        y += 1
        assert y.get().tolist() == [3, 3, 3]


def test_an_event_says_nothing_of_what_comes_after_it(cupy):
    one, two = streams(cupy)
    event = one.record()
    with one:
        x = cupy.asarray(np.ones(3))
    with two:
        two.wait_event(event)
        with pytest.raises(RuntimeError, match="another one may be at work on"):
            x.sum()


def test_memory_that_is_freed_under_another_stream_is_seen(cupy):
    one, two = streams(cupy)
    with one:
        x = cupy.asarray(np.ones(3))
    one.synchronize()
    with two:
        y = x[1:] * 2
    del x
    with two, pytest.raises(RuntimeError, match="memory was freed to its stream"):
        y += 1
    assert not devices.HAZARDS


def test_streams_belong_to_a_device(cupy):
    one, _ = streams(cupy)
    with cupy.cuda.Device(1), pytest.raises(ValueError, match="the stream is on device 0, the current one is 1"):
        one.__enter__()
    assert cupy.cuda.get_current_stream() is cupy.cuda.Stream.null
