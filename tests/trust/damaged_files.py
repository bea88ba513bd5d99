"""A child process takes the user's road with one damaged file after the other, and reports each by a line.

A crash ends the process, and so does a hang, by an alarm that no compiled code can hold up: the parent sees either.
`python tests/trust/damaged_files.py FOLDER SECONDS FIRST LAST` runs the mutants of these numbers.
"""

import json
import re
import resource
import shutil
import signal
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import corpus
import independent
from corpus import FORMATS, Format, Refused
from damage import damage
from independent import Read

MEMORY = 8 << 30  # what a damaged header asks for beyond this is refused by the system, not by its killer


def main(folder: Path, seconds: int, first: int, last: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for form in FORMATS:
        form.write(folder / form.name)
        assert verdict(form, folder / form.name) == "right"
    for number in range(first, last):
        form = FORMATS[number % len(FORMATS)]
        _report(number=number, format=form.name)
        signal.alarm(seconds)
        _report(verdict=verdict_on_damage(form, folder, number))
        signal.alarm(0)


def _report(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def verdict_on_damage(form: Format, folder: Path, number: int) -> str:
    """Damage a copy of the sound file, and judge what comes of it."""
    place = folder / "damaged"
    place.mkdir()
    damage(folder / form.name, place / form.name, [number, zlib.crc32(form.name.encode())])
    try:
        return verdict(form, place / form.name)
    finally:
        shutil.rmtree(place)


def verdict(form: Format, path: Path) -> str:
    """Return "right", "sentence", "stricter" (a sentence for what the other reader takes), or what is wrong."""
    return judged(*outcome(form, path), *expected(form, path), str(path))


def outcome(form: Format, path: Path) -> tuple[str, Any]:
    """Take the road; tell whether it led to an answer, a sentence, or something else."""
    with warnings.catch_warnings(record=True) as leaks:
        warnings.simplefilter("always")
        try:
            found = "answer", form.road(path)
        except (Refused, ValueError, TypeError, OSError) as error:
            found = "sentence", str(error)
        except BaseException as error:  # whatever it is, the parent is to hear of it
            found = "fault", f"{type(error).__name__}: {error}"
    leaks = [leak for leak in leaks if not corpus.OWN_WARNING.search(str(leak.message))]
    return ("fault", f"{leaks[0].category.__name__}: {leaks[0].message}") if leaks else found


def expected(form: Format, path: Path) -> tuple[str, Any]:
    """Return what is right: an answer, or why there is none, as the file is "unreadable" or its table is "unfit".

    The answer of a file that a checksum guards is "guarded": any damage to it may be refused.
    """
    if isinstance(form.read, Read):
        return "guarded", form.answer(form.read)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            table = form.read(path)
        except independent.ERRORS as error:
            return "unreadable", error
        try:
            return "answer", form.answer(table)
        except (ValueError, TypeError) as error:
            return "unfit", error


def judged(kind: str, found: Any, status: str, right: Any, path: str) -> str:
    """Compare what the road led to with what is right; a sentence on a file, not on its table, names the file."""
    if kind == "answer" and status in ("answer", "guarded") and found == right:
        return "right"
    if kind == "sentence" and is_sentence(found, path if status in ("unreadable", "guarded") else ""):
        return "stricter" if status == "answer" else "sentence"
    return f"{kind} {found!r}, where right is {status} {right!r}"


def is_sentence(text: str, path: str) -> bool:
    """Tell whether this is one line that begins with the name of a parameter or a file, ends, and has the path."""
    begins = re.match(r"`[^`]+` |/", text)
    return bool(begins) and text.endswith(".") and len(text.splitlines()) == 1 and path in text


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
