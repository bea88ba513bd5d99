"""Helpers have cores of their own, and rest where there are none for them."""

import hashlib
import math
import os
import subprocess
import sys
import threading
import time

import pytest

from gpuensemble._array import cores, threads

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells where threads are")
TWO_CORES = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")


@pytest.fixture(autouse=True)
def _rests(monkeypatch):
    """Helpers rest here, who do not in other tests."""
    monkeypatch.setattr(threads, "LOST", 1e-3)
    monkeypatch.setattr(threads, "_rests", threads._Rests())


@pytest.fixture
def clock(monkeypatch):
    """Four threads beside busy processes, and a clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr(cores, "crowded", lambda n_threads: n_threads == 4)
    monkeypatch.setattr(threads.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(threads, "count", lambda: 4)
    return now


def in_thread(function):
    """What a function returns in a thread of its own, whose core changes nothing here."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_a_helper_that_lost_its_core_rests(clock):
    rests = threads._rests
    assert [rests.left_of(number) for number in (0, 1, 3)] == [0, 1, 3]
    rests.note(worked=0.1, lost=threads.LOST)  # so little is no sign
    assert rests.left_of(3) == 3
    rests.note(worked=0.1, lost=1.1 * threads.LOST)
    assert [rests.left_of(number) for number in (0, 1, 3)] == [0, 0, 2]
    rests.note(worked=0.1, lost=1.0)
    assert rests.left_of(3) == 1
    clock[0] += 1.1 * threads.SHORTEST
    assert rests.left_of(3) == 3


def test_rests_grow_while_helpers_work_less_than_they_rested(clock):
    rests = threads._rests
    lengths = []
    for _ in range(9):
        rests.note(worked=0.0, lost=1.0)
        lengths.append(rests.ends[-1] - clock[0])
        rests.note(worked=0.0, lost=1.0)  # in the same pass: not one after a rest
        assert rests.ends[-1] - clock[0] == lengths[-1]
        clock[0] += lengths[-1] + 1e-6
        rests.note(worked=2.9 * lengths[-1], lost=0.0)  # of three helpers
    assert lengths == pytest.approx([min(threads.SHORTEST * 2**i, threads.LONGEST) for i in range(9)])
    rests.note(worked=3 * lengths[-1], lost=0.0)
    rests.note(worked=0.0, lost=1.0)
    assert rests.ends[-1] - clock[0] == pytest.approx(threads.SHORTEST)


def test_work_is_done_by_those_who_do_not_rest(monkeypatch):
    """The answer is the same with all helpers at rest, and the pool is not asked."""
    monkeypatch.setattr(threads, "count", lambda: 3)
    assert threads.at_hand() == 3
    threads._rests.ends = [math.inf] * 2
    assert threads.at_hand() == 1
    here = threading.get_ident()
    assert set(threads.shared(lambda i: threading.get_ident(), range(20))) == {here}
    assert threads.help_wanted([print, print]) == []


@pytest.mark.parametrize("lost", [0.0, 1.0])
@pytest.mark.parametrize("crowded", [True, False])
def test_help_is_noted_with_what_it_lost(lost, crowded, monkeypatch):
    """On a machine that is otherwise idle nobody rests: there are cores, and the system moves the threads apart."""
    monkeypatch.setattr(threads, "count", lambda: 2)
    waits = iter([5.0, 5.0 + lost])
    monkeypatch.setattr(cores, "waited", lambda: next(waits))
    monkeypatch.setattr(cores, "crowded", lambda n_threads: crowded)
    assert threads.help_wanted([lambda: None])[0].result() is None
    assert threads._rests.left_of(1) == (lost == 0 or not crowded)


@LINUX
@TWO_CORES
def test_a_thread_moves_off_a_core_and_may_go_back():
    def moved():
        allowed = os.sched_getaffinity(0)
        begun = cores.current()
        os.sched_setaffinity(0, {begun})
        os.sched_setaffinity(0, allowed)
        here = cores.current()
        cores.move_off(here)
        return here, cores.current(), os.sched_getaffinity(0) == allowed

    for _ in range(20):
        before, after, free = in_thread(moved)
        assert free
        assert before >= 0
        if before != after:
            break  # the system may move it back at any time
    assert before != after


@LINUX
def test_a_thread_that_may_use_one_core_stays():
    def moved():
        core = cores.current()
        os.sched_setaffinity(0, {core})
        cores.move_off(core)
        return cores.current() == core and os.sched_getaffinity(0) == {core}

    assert in_thread(moved)


def test_who_does_not_know_a_core_stays(monkeypatch):
    monkeypatch.setattr(os, "sched_setaffinity", None, raising=False)
    cores.move_off(-1)
    monkeypatch.setattr(cores, "_core_of_this_thread", None)
    assert cores.current() == -1


@LINUX
@pytest.mark.skipif(not os.path.exists(cores.WAITS), reason="the kernel does not count")
def test_a_thread_knows_how_long_it_had_no_core():
    """Beside a process on the same core it waits for about half of the time."""

    def shares():
        core = cores.current()
        os.sched_setaffinity(0, {core})
        command = [
            sys.executable,
            "-c",
            f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile 1: 0",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            before, begun = cores.waited(), time.monotonic()
            while time.monotonic() < begun + 0.3:
                pass
            found = cores.waited() - before
            process.kill()
        return found

    assert 0.05 < in_thread(shares) < 0.3


def test_without_a_count_nobody_has_waited(monkeypatch):
    monkeypatch.setattr(cores, "WAITS", "/proc/no such file")
    assert in_thread(cores.waited) == 0


@LINUX
def test_threads_of_other_processes_make_a_crowd(tmp_path, monkeypatch):
    """Of the threads that run, this one is ours."""
    n_cores = os.cpu_count()
    if len(os.sched_getaffinity(0)) < n_cores:
        pytest.skip("may not use all cores")
    file = tmp_path / "loadavg"
    monkeypatch.setattr(cores, "RUNNING", str(file))
    monkeypatch.setattr(cores, "_runs", lambda thread: thread == str(threading.get_native_id()))
    for running in (1, 2, n_cores, n_cores + 5):
        file.write_text(f"0.20 0.18 0.12 {running}/80 11206\n")
        for n_threads in (1, n_cores, n_cores + 1):
            assert cores.crowded(n_threads) == (running - 1 + n_threads > n_cores)


def test_what_is_not_known_is_a_crowd(monkeypatch):
    monkeypatch.setattr(cores, "RUNNING", "/proc/no such file")
    assert cores.crowded(0)
    monkeypatch.setattr(cores, "LINUX", False)
    assert cores.crowded(0)


@LINUX
def test_threads_of_this_process_that_work_are_told_from_those_that_sleep():
    large, done = bytes(1 << 24), threading.Event()

    def work():
        while not done.is_set():
            hashlib.sha256(large)

    both = [threading.Thread(target=work), threading.Thread(target=done.wait)]
    for thread in both:
        thread.start()
    seen = [cores.running() for _ in range(1000)]
    done.set()
    for thread in both:
        thread.join()
    assert max(seen) >= 2
    assert any(cores.running() == 1 for _ in range(1000))


@LINUX
def test_who_may_use_some_cores_only_knows_of_no_others(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1000)
    assert cores.crowded(0)


@LINUX
def test_a_thread_runs_that_looks_and_not_one_that_waits_or_has_ended():
    end, begun = threading.Event(), []
    waiting = threading.Thread(target=lambda: (begun.append(threading.get_native_id()), end.wait()))
    waiting.start()
    while not begun or cores._runs(str(begun[0])):
        time.sleep(0.001)  # until it waits
    assert cores._runs(str(threading.get_native_id()))
    end.set()
    waiting.join()
    assert not cores._runs("999999999")
