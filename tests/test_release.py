"""What a release says of itself is said in one place, or is the same in all."""

import re
import tomllib
from pathlib import Path

import gpuensemble as ge

ROOT = Path(__file__).parents[1]


def test_the_version_is_written_once_and_the_citation_has_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert (ROOT / project["tool"]["hatch"]["version"]["path"]).samefile(ge.__file__)
    assert re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE) == [ge.__version__]


def test_the_changelog_begins_with_this_version():
    first = re.search(r"^## (.*?)(?=^## |\Z)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    assert ge.__version__ in first


def test_the_extra_of_tests_holds_what_the_other_extras_ask_for():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in extras.keys() - {"cuda12", "cuda13", "nvrtc", "docs", "test"}:
        assert set(extras[name]) <= set(extras["test"])
