"""Faults on purpose: calls that fail, disks that are full, no memory, and processes that are killed.

A few of them in each run; GPUENSEMBLE_KILLS=100 makes that many kills, and lets every call go wrong in turn.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys

import faulty
import pytest

from cudasim.shim import gxx

KILLS = int(os.environ.get("GPUENSEMBLE_KILLS", "3"))
LONG = "GPUENSEMBLE_KILLS" in os.environ
LIMIT = 3000 if LONG else 300  # seconds after which a process hangs

needs_compiler = pytest.mark.skipif(gxx() is None, reason="g++ is not installed: calls cannot be made to fail")


def calls(step):
    """Each kind of fault, at every call that changes a file, or in an ordinary run at one of a few."""
    return [f"{fault}:{1 if LONG else step + i}" for i, fault in enumerate(("full", "broken", "killed"))]


# Rows, what runs, what is there before, and what goes wrong how often, or in which steps.
PLANS = [
    (1000, "fit", "old", [*calls(9), f"kills:{KILLS}"]),
    (1000, "segments", "new", [*calls(13), f"kills:{KILLS}"]),
    (1000, "command", "old", [*calls(5), f"sizes:{20 if LONG else 2000}"]),
]
LONG_PLANS = [
    (1000, "fit", "new", [*calls(1), "sizes:50"]),
    (1000, "segments", "old", [*calls(1), f"kills:{KILLS}"]),
    (1000, "segments", "new", ["sizes:50"]),
]


@needs_compiler
def test_a_fault_leaves_whole_files_from_which_the_next_run_goes_on(tmp_path):
    plans = [*PLANS, *LONG_PLANS] if LONG else PLANS
    for (*_, faults), (expected, others) in zip(plans, faulty.victim(tmp_path, plans, LIMIT), strict=True):
        assert {"open", "write", "fsync", "rename"} <= set(expected["calls"])
        assert "mmap" not in expected["calls"]  # a full disk would end the process, without a word
        assert len(others) > len(faults)
        assert sum(facts["first"]["status"] != 0 for facts in others) > len(others) / 2
        for facts in others:
            faulty.judge(expected, facts, tmp_path)


@needs_compiler
def test_after_a_lack_of_memory_the_same_process_fits_again(tmp_path):
    plans = [(40_000, "fit", "old", ["memory:4"])]
    if LONG:
        plans = [
            (40_000, task, scenario, ["memory:150"]) for task in ("fit", "segments") for scenario in ("old", "new")
        ]
    for expected, others in faulty.victim(tmp_path, plans, LIMIT):
        assert len(others) >= 4
        for facts in others:
            faulty.judge_memory(expected, facts)


def lost(*arguments):
    """What the process tells whose cluster is killed."""
    pytest.importorskip("distributed", reason="distributed is not installed")
    words = [sys.executable, str(faulty.HERE / "lost.py"), *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, env=faulty.environment(), start_new_session=True, **pipes)
    try:
        out, error = process.communicate(timeout=LIMIT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # if it hangs, its cluster goes with it
    assert process.returncode == 0, (out, error)
    return [json.loads(line) for line in out.splitlines()]


def test_workers_and_schedulers_that_are_killed_change_no_bit_or_are_told_of(tmp_path):
    kills = KILLS // 2 if LONG else 2
    facts = lost(tmp_path, kills)
    (spilled,) = [fact["spilled"] for fact in facts if "spilled" in fact]
    *fits, of_data, of_scheduler = [fact for fact in facts if "fault" in fact]
    assert spilled > 0
    assert len(fits) == kills + 2
    assert len({fit["digest"] for fit in fits}) == 1
    for told in (of_data, of_scheduler):
        assert told["error"].startswith("ConnectionError: `client` must keep its scheduler, workers and data, got ")
        assert "\n" not in told["error"]


@pytest.mark.skipif(not LONG, reason="takes half a minute: GPUENSEMBLE_KILLS asks for it")
def test_a_command_without_its_scheduler_ends_with_a_sentence(tmp_path):
    (facts,) = lost(tmp_path)
    assert facts["status"] == 2
    assert facts["error"].startswith("gpuensemble: ")
    assert facts["error"].count("\n") == 1
    assert facts["left"] == ["features.npy"]
