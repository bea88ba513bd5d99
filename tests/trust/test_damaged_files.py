"""A damaged file gives the right answer or one sentence: no crash, no hang, no traceback, no other answer.

`GPUENSEMBLE_MUTANTS` says how many files are damaged, over all formats. A mutant that fails is named by its number:
`python tests/trust/damaged_files.py FOLDER 60 NUMBER NUMBER+1` runs it alone.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import damaged_files
import pytest
from corpus import FORMATS
from damaged_files import is_sentence, judged

MUTANTS = int(os.environ.get("GPUENSEMBLE_MUTANTS", "150"))
SECONDS = 60  # for a mutant
FINE = ("right", "sentence", "stricter")


def reports(program, folder, seconds, number):
    """Yield (number, format, verdict) of each mutant; after a crash or a hang a new child goes on with the next."""
    first = 0
    while first < number:
        place = folder / str(first)
        place.mkdir()
        command = [sys.executable, program, *map(str, (place, seconds, first, number))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            current = None
            for line in child.stdout:
                report = json.loads(line)
                if "number" in report:
                    current = report
                else:
                    yield current["number"], current["format"], report["verdict"]
                    first, current = current["number"] + 1, None
        if current is not None:
            how = "hang" if child.returncode == -signal.SIGALRM else f"crash with exit code {child.returncode}"
            yield current["number"], current["format"], how
            first = current["number"] + 1
        assert current is not None or child.returncode == 0


def test_damaged_files_give_the_right_answer_or_a_sentence(tmp_path):
    found = list(reports(damaged_files.__file__, tmp_path, SECONDS, MUTANTS))
    counts = Counter((form, verdict) for _, form, verdict in found if verdict in FINE)
    for form in FORMATS:
        print(form.name, {verdict: counts[form.name, verdict] for verdict in FINE})
    assert [report for report in found if report[2] not in FINE] == []
    assert len(found) == MUTANTS
    assert {verdict for _, verdict in counts} >= {"right", "sentence"}


CHILD = """
import json, os, signal, sys, time
for number in range(int(sys.argv[3]), int(sys.argv[4])):
    print(json.dumps({"number": number, "format": "none"}), flush=True)
    signal.alarm(int(sys.argv[2]))
    if number == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 2:
        time.sleep(60)
    print(json.dumps({"verdict": "right"}), flush=True)
"""


def test_the_parent_sees_a_crash_and_a_hang(tmp_path):
    program = tmp_path / "child.py"
    program.write_text(CHILD)
    found = [verdict for _, _, verdict in reports(program, tmp_path, 1, 4)]
    assert found == ["right", f"crash with exit code {-signal.SIGSEGV}", "hang", "right"]


@pytest.mark.parametrize(
    ("kind", "found", "status", "right", "verdict"),
    [
        ("answer", [0, 1], "answer", [0, 1], "right"),
        ("answer", [0, 1], "answer", [1, 0], "answer [0, 1], where right is answer [1, 0]"),
        ("answer", [0, 1], "unreadable", "why", "answer [0, 1], where right is unreadable 'why'"),
        ("answer", [0, 1], "unfit", "why", "answer [0, 1], where right is unfit 'why'"),
        ("sentence", "`labels` must be whole, got 0.5.", "unfit", "why", "sentence"),
        ("sentence", "`labels` must be whole, got 0.5.", "answer", [0, 1], "stricter"),
        ("sentence", "`/a/t.npy` must be a whole file.", "unreadable", "why", "sentence"),
        ("sentence", "`/a/t.npy` must be a whole file.", "guarded", [0, 1], "sentence"),
        ("answer", [0, 1], "guarded", [0, 1], "right"),
        ("answer", [0, 2], "guarded", [0, 1], "answer [0, 2], where right is guarded [0, 1]"),
        (
            "fault",
            "RuntimeWarning: overflow",
            "unfit",
            "why",
            "fault 'RuntimeWarning: overflow', where right is unfit 'why'",
        ),
    ],
)
def test_verdicts(kind, found, status, right, verdict):
    assert judged(kind, found, status, right, "/a/t.npy") == verdict


@pytest.mark.parametrize(
    "text", ["`labels` must be whole.", "no file.", "`/a/t.npy` must\nbe whole.", "`/a/t.npy` no end", ""]
)
def test_what_names_no_file_is_no_sentence_for_one_that_nobody_can_read(text):
    assert not is_sentence(text, "/a/t.npy")


def test_the_same_number_gives_the_same_damage(tmp_path):
    from damage import damage

    (tmp_path / "sound").write_bytes(bytes(range(256)))
    for number in range(40):
        paths = [tmp_path / f"{number}{name}" for name in "ab"]
        for path in paths:
            damage(tmp_path / "sound", path, [number])
        assert paths[0].read_bytes() == paths[1].read_bytes()
    assert len({path.read_bytes() for path in tmp_path.glob("*a")}) > 35
