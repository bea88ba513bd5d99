"""Run the `python` blocks of a page when the site is built, and show what they print, return and draw below them.

The blocks of a page share their names and a folder of their own to write to. Of `console` blocks the lines that begin
with `$ ` are run by the shell. Blocks of any other language, `py` among them, are shown and not run. A block that fails
ends the build.
"""

import ast
import base64
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import warnings
from typing import Any

import matplotlib
from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

matplotlib.use("Agg")
os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")
BIN = os.path.dirname(sys.executable)


def run_python(source: str, names: dict[str, Any], page: str) -> tuple[str, list[nodes.Node]]:
    """Run a block; return what it said, with the value of its last line unless that drew something, and pictures."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as said, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        exec(compile(tree, page, "exec"), names)
        value = eval(compile(ast.Expression(last.value), page, "eval"), names) if last else None
        drawn = pictures()
        for warning in warned:
            print(f"{warning.category.__name__}: {warning.message}")
        if value is not None and not drawn:
            print(value if isinstance(value, str) else repr(value))
    return said.getvalue().rstrip(), drawn


def pictures() -> list[nodes.Node]:
    """Return the figures that are open as images inside of the page, and close them."""
    from matplotlib import pyplot

    found = []
    for number in pyplot.get_fignums():
        figure, content = pyplot.figure(number), io.BytesIO()
        figure.savefig(content, format="png", dpi=90)
        data = base64.b64encode(content.getvalue()).decode()
        alt = "; ".join(ax.get_title() for ax in figure.axes if ax.get_title())
        found.append(nodes.image(uri=f"data:image/png;base64,{data}", alt=alt))
    pyplot.close("all")
    return found


def run_console(source: str, page: str) -> str:
    """Run the commands of a block; return each with what it said."""
    said = []
    for line in source.splitlines():
        if line.startswith("$ "):
            environment = os.environ | {"PATH": BIN + os.pathsep + os.environ["PATH"], "COLUMNS": "100"}
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            done = subprocess.run(line[2:], shell=True, check=False, env=environment, **streams)
            if done.returncode:
                raise ExtensionError(f"{page}: {line}\n{done.stdout}")
            said.append(f"{line}\n{done.stdout}")
    return "".join(said).rstrip()


class RunBlocks(SphinxTransform):
    """Runs the blocks of a page in their order."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        names: dict[str, Any] = {"__name__": "__main__"}
        with tempfile.TemporaryDirectory() as folder:
            for block in list(self.document.findall(nodes.literal_block)):
                with contextlib.chdir(folder):
                    self.run(block, names)

    def run(self, block: nodes.literal_block, names: dict[str, Any]) -> None:
        if block.get("language") == "console":
            text = run_console(block.astext(), self.env.docname)
            block.replace_self(nodes.literal_block(text, text, language="console"))
        if block.get("language") == "python":
            said, drawn = run_python(block.astext(), names, self.env.docname)
            below = [nodes.literal_block(said, said, language="text", classes=["output"])] if said else []
            block.parent.insert(block.parent.index(block) + 1, [*below, *drawn])


def setup(app: Any) -> dict[str, bool]:
    app.add_transform(RunBlocks)
    return {"parallel_read_safe": True}
