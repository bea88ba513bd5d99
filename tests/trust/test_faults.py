"""Faults on purpose: calls that fail, disks that are full, no memory, and processes that are killed.

A few of them in each run; GPUENSEMBLE_KILLS=100 makes that many kills, and lets every call go wrong in turn.
"""

import json
import os
import subprocess
import sys

import faulty
import pytest

from cudasim.shim import gxx

KILLS = int(os.environ.get("GPUENSEMBLE_KILLS", "3"))
LONG = "GPUENSEMBLE_KILLS" in os.environ
LIMIT = 3000 if LONG else 120  # seconds after which a process hangs

needs_compiler = pytest.mark.skipif(gxx() is None, reason="g++ is not installed: calls cannot be made to fail")


def calls(*steps):
    """Each kind of fault, at every call that changes a file, or in an ordinary run at one of a few."""
    return [f"{fault}:{1 if LONG else step}" for fault, step in zip(("full", "broken", "killed"), steps, strict=True)]


PLANS = {
    "a fit goes on": ("fit", "old", [*calls(8, 9, 6), f"kills:{KILLS}"]),
    "a command makes its first answers": ("segments", "new", [*calls(15, 16, 9), f"sizes:{50 if LONG else 5000}"]),
    "a command goes on": ("segments", "old", [*calls(20, 21, 15), f"kills:{KILLS}"]),
    "a command writes an array": ("command", "old", [*calls(3, 4, 5), f"sizes:{20 if LONG else 1500}"]),
    "a fit makes its first answers": ("fit", "new", [*calls(30, 31, 32), f"sizes:{50 if LONG else 6000}"]),
}


@needs_compiler
@pytest.mark.parametrize("name", PLANS)
def test_a_fault_leaves_whole_files_from_which_the_next_run_goes_on(name, tmp_path):
    task, scenario, faults = PLANS[name]
    expected, others = faulty.victim(tmp_path / "v", 1000, task, scenario, *faults, limit=LIMIT)
    assert {"open", "write", "fsync", "rename"} <= set(expected["calls"])
    assert "mmap" not in expected["calls"]  # a full disk would end the process, without a word
    assert len(others) > len(faults)
    assert sum(facts["first"]["status"] != 0 for facts in others) > len(others) / 2
    for facts in others:
        faulty.judge(expected, facts, tmp_path)


@needs_compiler
@pytest.mark.parametrize("task", ["fit", "segments"])
def test_after_a_lack_of_memory_the_same_process_fits_again(task, tmp_path):
    number = 10_000 if LONG else 4
    expected, others = faulty.victim(tmp_path / "v", 40_000, task, "old", f"memory:{number}", limit=LIMIT)
    assert len(others) >= 4
    for facts in others:
        faulty.judge_memory(expected, facts)


def test_workers_and_schedulers_that_are_killed_change_no_bit_or_are_told_of(tmp_path):
    pytest.importorskip("distributed", reason="distributed is not installed")
    kills = KILLS // 2 if LONG else 2
    words = [sys.executable, str(faulty.HERE / "lost.py"), str(tmp_path), str(kills)]
    done = subprocess.run(words, env=faulty.environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
    facts = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (facts, done.stderr)
    (spilled,) = [fact["spilled"] for fact in facts if "spilled" in fact]
    *fits, lost, headless = [fact for fact in facts if "fault" in fact]
    assert spilled > 0
    assert len(fits) == kills + 2
    assert len({fit["digest"] for fit in fits}) == 1
    for told in (lost, headless):
        assert told["error"].startswith("ConnectionError: `client` must keep its scheduler, workers and data, got ")
        assert "\n" not in told["error"]
