"""How Sphinx builds the site; `.ci/docs` calls it. The pages load nothing from the network."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import gpuensemble as ge  # noqa: E402

project, author, copyright = "gpuensemble", "The gpuensemble developers", "The gpuensemble developers"
version = release = ge.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser", "run_blocks"]
exclude_patterns = ["_build"]
default_role = "py:obj"
smartquotes = False  # the quotes of code are copied
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
html_theme = "furo"
html_title = "gpuensemble"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"source_repository": "", "top_of_page_buttons": []}

# What scikit-learn gives to every estimator.
OF_SCIKIT_LEARN = re.compile(r"set_\w+_request|get_metadata_routing|[gs]et_params")


def skip_others(app, what, name, obj, skip, options):
    """Leave out what scikit-learn documents, and the fields of named tuples, which their "Attributes" tell of."""
    is_field = (getattr(obj, "__doc__", "") or "").startswith("Alias for field")
    return True if is_field or OF_SCIKIT_LEARN.fullmatch(name) else skip


def plain(app, what, name, obj, options, lines):
    """Keep the bars of formulas from marking text up, and leave out what only concerns who works on a room."""
    if any(line.startswith("This room may import") for line in lines):
        del lines[next(i for i, line in enumerate(lines) if line.startswith("This room may import")) :]
    lines[:] = [re.sub(r"(``.*?``|`[^`]*`)|\|", lambda found: found[1] or r"\|", line) for line in lines]


def add_changelog(app, docname, source):
    """Show the changelog of the repository, once there is one."""
    file = HERE.parent / "CHANGELOG.md"
    if docname == "changelog" and file.exists():
        source[0] = file.read_text()


def check_api(app, env):
    """Warn of public names that no page documents."""
    from sphinx.util import logging

    documented = {found[0] for found in env.get_domain("py").get_objects()}
    for name in ge.__all__:
        if f"gpuensemble.{name}" not in documented:
            logging.getLogger(__name__).warning("no page documents gpuensemble.%s", name)


def setup(app):
    app.connect("autodoc-skip-member", skip_others)
    app.connect("autodoc-process-docstring", plain, priority=400)  # before napoleon
    app.connect("source-read", add_changelog)
    app.connect("env-check-consistency", check_api)
