"""The library that makes calls go wrong is compiled, and a victim runs with it; what it tells is judged here."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from cudasim import store
from cudasim.shim import gxx

HERE = Path(__file__).parent
PAIR = ("labels.npy", "labels.confidence.npy")
KILLED = -9


def library():
    """The path of the compiled library, which is made once."""
    source = HERE / "faulty.cpp"
    command = [gxx(), "-O1", "-std=c++17", "-shared", "-fPIC", str(source), "-ldl", "-o"]
    return store.made(
        [source.read_text(), *command], ".so", lambda path: subprocess.run([*command, str(path)], check=True)
    )


def environment(**more):
    """The environment of a process that finds the package and the helpers of tests."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE.parents[1])])} | more


def victim(folder, plans, limit):
    """Of each plan the facts of an undisturbed run, and those of each fault."""
    words = [sys.executable, str(HERE / "victim.py"), str(folder), json.dumps(plans)]
    preloaded = environment(LD_PRELOAD=str(library()))
    done = subprocess.run(words, env=preloaded, capture_output=True, text=True, timeout=limit, check=False)
    assert done.returncode == 0, done.stderr
    found = []
    for facts in map(json.loads, done.stdout.splitlines()):
        if "fault" not in facts:
            found.append((facts, []))
        else:
            found[-1][1].append(facts)
    return found


def judge(expected, facts, folder):
    """Assert that a fault was told in one sentence and left whole files, and that the next run ends as any other."""
    first, left, where = facts["first"], facts["left"], facts["fault"]
    assert first["status"] in (0, 2, KILLED), (where, first)
    if first["status"] == 2:
        judge_sentence(first["error"], folder, where)
    if first["status"] == 0:
        assert without_partial(left) == without_partial(expected["end"]), where
    judge_files(expected, left, first["status"] == KILLED, where)
    assert facts["second"]["status"] == 0, (where, facts["second"])
    assert facts["second"]["error"] == "", where
    assert without_partial(facts["end"]) == without_partial(expected["end"]), where


def judge_memory(expected, facts):
    """Assert that a lack of memory is one sentence and leaves whole files, and that the next fit ends as any other."""
    second, where = facts["second"], facts["fault"]
    assert second["status"] == 0, (where, second)
    (code, left), *_ = [json.loads(line) for line in second["out"].splitlines() if line.startswith("[")]
    assert code == 2, where
    assert re.fullmatch(r"(MemoryError: .*|gpuensemble: .+\.)\n", second["error"]), (where, second)
    judge_files(expected, left, False, where)
    assert without_partial(facts["end"]) == without_partial(expected["end"]), where


def judge_sentence(text, folder, where):
    """Assert that it is one line that names a file."""
    assert re.fullmatch(r"(\w*Error|gpuensemble): [^\n]*[^.\s][.']?\n", text), (where, text)
    assert str(folder) in text, (where, text)


def judge_files(expected, left, killed, where):
    """Assert that each file is what it was before or what it is to be, and that a pair is of one fit."""
    before, end = expected["before"], expected["end"]
    call = expected["calls"][int(where.split()[-1]) - 1] if " at call " in where else ""
    between_names = killed or call in ("rename", "unlink")  # there is no way to give two names in one step
    extra = left.keys() - before.keys() - end.keys()
    assert not extra or (killed and all(name.endswith(".partial") for name in extra)), (where, extra)
    assert left.get("state") in (before.get("state"), *expected["states"]), where
    assert left.get("base.npy") in (before.get("base.npy"), end.get("base.npy")), where
    pairs = [tuple(some.get(name) for name in PAIR) for some in (left, before, end)]
    assert pairs[0] in pairs[1:] or (between_names and pairs[0][1] is None), (where, pairs)


def without_partial(files):
    """The files that have taken their names."""
    return {name: digest for name, digest in files.items() if not name.endswith(".partial")}
