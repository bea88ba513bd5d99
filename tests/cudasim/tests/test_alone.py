"""The folder stands alone: it imports nothing of the project around it, and its README does what it says."""

import ast
import re
import sys
from pathlib import Path

import pytest

from cudasim import nvrtc
from cudasim.shim import gxx

FOLDER = Path(__file__).parents[1]
FILES = sorted(FOLDER.rglob("*.py"))
MAY_IMPORT = sys.stdlib_module_names | {"cudasim", "cupy", "numpy", "pytest"}
README = (FOLDER / "README.md").read_text()


def imported(tree):
    """The packages that a file imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "").split(".")[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_of_the_project_is_imported(path):
    assert set(imported(ast.parse(path.read_text()))) <= MAY_IMPORT


def test_the_check_of_imports_sees_a_wrong_one():
    tree = ast.parse("import numpy\ndef f():\n    from project.part import g\nfrom . import h\nimport other.part")
    assert set(imported(tree)) - MAY_IMPORT == {"project", ".", "other"}


def test_the_readme_names_every_file():
    named = set(re.findall(r"`(\w+\.(?:py|h|cpp))`", README))
    assert named == {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".h", ".cpp")} - {"__init__.py"}


@pytest.mark.skipif(gxx() is None or bool(nvrtc.missing()), reason=f"needs g++ on Linux. {nvrtc.missing()}")
def test_the_readme_example_runs(capsys):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)
    fault, copy = capsys.readouterr().out.splitlines()
    assert fault.startswith("uninitialised: smooth, ")
    assert ".get()" in copy
