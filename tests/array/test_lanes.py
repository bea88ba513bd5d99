"""Streams of a device, what orders them, and what blocks on it share."""

import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

from cudasim import devices as simulated
from cudasim import standin
from cudasim.tally import counted
from gpuensemble._array import lanes
from gpuensemble._array.devices import device_of, on, to_host
from gpuensemble._tables.blocks import Lasting, shared_on


@pytest.fixture
def cupy():
    with standin.installed(None) as module, simulated.several(2):
        yield module


def test_a_block_goes_up_once_and_is_done_at_the_end(cupy):
    lane = lanes.Lane("cuda:1", 0)
    host = np.arange(12, dtype="uint8").reshape(4, 3)
    with counted() as found, lane.working():
        codes = lane.load(host[::2])
        twice = codes * 2
    assert (found.up, found.reads) == (6, 0)
    assert device_of(twice) == "cuda:1"
    np.testing.assert_array_equal(to_host(twice), 2 * host[::2])


def test_staging_memory_serves_blocks_of_any_size_and_type(cupy):
    lane = lanes.Lane("cuda:0", 0)
    for host in (np.arange(6.0), np.arange(100, dtype="uint16"), np.zeros((0, 3), "uint8"), np.arange(7)):
        with lane.working():
            found = lane.load(host)
        assert found.dtype == host.dtype
        np.testing.assert_array_equal(to_host(found), host)


def test_a_lane_waits_for_what_it_is_given(cupy):
    lane, given = lanes.Lane("cuda:0", 0), cupy.asarray(np.arange(3.0))
    with lane.working(), pytest.raises(RuntimeError, match="another one may be at work on"):
        given + 1
    with lane.working(lanes.mark("cuda:0")):
        assert to_host(given + 1).tolist() == [1, 2, 3]


def test_what_blocks_share_is_made_once_on_each_device(cupy):
    table, made = Lasting(), []

    def make():
        made.append(None)
        return cupy.asarray(np.arange(5.0))

    with counted() as found:
        for device in ("cuda:0", "cuda:1"):
            for lane in lanes.lanes(device):
                with lane.working():
                    assert device_of(shared_on(device, table, make)) == device
                    assert float(shared_on(device, table, make).sum()) == 10
    assert len(made) == 2
    assert found.up == 2 * 40


def test_a_stream_that_did_not_wait_would_be_seen(cupy, monkeypatch):
    table, (one, two) = Lasting(), lanes.lanes("cuda:0")
    one.turn, two.turn = threading.Lock(), threading.Lock()
    with one.working():
        shared_on("cuda:0", table, lambda: cupy.asarray(np.arange(5.0)))
        with two.working():
            assert float(shared_on("cuda:0", table, None).sum()) == 10
            monkeypatch.setattr(lanes, "wait_for", lambda ready: None)
            other = Lasting()
    with one.working():
        shared_on("cuda:0", other, lambda: cupy.asarray(np.arange(5.0)))
        with two.working(), pytest.raises(RuntimeError, match="another one may be at work on"):
            shared_on("cuda:0", other, None).sum()


def test_parts_of_one_object_are_told_apart_and_go_with_it(cupy):
    table = Lasting()
    with on("cuda:1"):
        one = shared_on("cuda:1", table, lambda: cupy.asarray(np.arange(5.0)), "one")
        two = shared_on("cuda:1", table, lambda: cupy.asarray(np.arange(4.0)), "two")
    assert (len(one), len(two)) == (5, 4)
    assert len(pickle.dumps(table)) < 200  # what is on a device stays there
    gone = weakref.ref(one)
    del table, one, two
    gc.collect()
    assert gone() is None


def test_what_could_not_be_made_is_made_by_the_next():
    table = Lasting()

    def fail():
        raise MemoryError

    with pytest.raises(MemoryError):
        shared_on("cpu", table, fail)
    assert shared_on("cpu", table, lambda: 3) == 3
    assert shared_on("cpu", table, lambda: 4) == 3


def test_threads_that_ask_at_once_get_one_value(cupy):
    table, made, found = Lasting(), [], []
    barrier = threading.Barrier(4)

    def ask(number):
        with lanes.Lane("cuda:0", number).working():
            barrier.wait()
            value = shared_on("cuda:0", table, lambda: made.append(number) or cupy.asarray(np.arange(5.0)))
            found.append(float(value.sum()))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [10.0] * 4
    assert len(made) == 1
