"""The README and the pages in docs/ hang together: what they link to is there. `.ci/docs` builds them as a site."""

import re
from pathlib import Path

import pytest

from gpuensemble.estimators._base import registry

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def slugs(page):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        assert not target.startswith("http")
        path, _, anchor = target.partition("#")
        found = page.parent / path
        assert found.exists(), target
        if anchor and "{include}" not in found.read_text():
            assert anchor in slugs(found), target


def test_the_readme_and_the_list_of_methods_name_every_method():
    names = {method.estimator.__name__ for method in registry.methods().values()}
    readme, api = (ROOT / "README.md").read_text(), (ROOT / "docs" / "api" / "estimators.md").read_text()
    for name in names:
        assert f"`{name}`" in readme
        assert f"autoclass:: gpuensemble.{name}\n" in api
