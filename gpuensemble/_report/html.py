"""Pieces of an HTML page. All text that comes from the data is escaped here, and nowhere else."""

import base64
import hashlib
import html
import io
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np

DPI = 130


def text(value: Any) -> str:
    """Return text that shows as it is, whatever is in it."""
    return html.escape(str(value))


def paragraph(value: Any, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    return f'<p class="{kind}">{text(value)}</p>' if kind else f"<p>{text(value)}</p>"


def code(value: str) -> str:
    """Return lines of code."""
    return f"<pre><code>{text(value)}</code></pre>"


def section(title: str, *parts: str) -> str:
    """Return a section that the list of contents leads to."""
    return f'<section id="{_anchor(title)}"><h2>{text(title)}</h2>\n' + "\n".join(parts) + "\n</section>"


def table(frame: Any, caption: str, *, note: str = "", chosen: Any = None) -> str:
    """Return a DataFrame and its index as a table; the row of `chosen` stands out.

    A column `x_error` is the standard error of `x`, and is shown beside it.
    """
    names = [name for name in frame.columns if not str(name).endswith("_error")]
    columns = [_column(frame.index.name or "", frame.index)]
    columns += [_column(name, frame[name], frame.get(f"{name}_error")) for name in names]
    head = "".join(head for head, _ in columns)
    rows = []
    for key, *cells in zip(frame.index, *(cells for _, cells in columns), strict=True):
        marked = ' class="chosen"' if chosen is not None and key == chosen else ""
        rows.append(f"<tr{marked}>{''.join(cells)}</tr>")
    body = "\n".join(rows)
    whole = f'<table class="sortable"><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead>'
    shown = f'<div class="scroll" tabindex="0">{whole}\n<tbody>\n{body}\n</tbody></table></div>'
    return shown + (paragraph(note, "note") if note else "")


def pairs(values: dict[str, Any], caption: str) -> str:
    """Return names and values as a table of two columns."""
    rows = "\n".join(f'<tr><th scope="row">{text(name)}</th>{_cell(value)}</tr>' for name, value in values.items())
    return f'<div class="scroll" tabindex="0"><table><caption>{text(caption)}</caption>\n{rows}\n</table></div>'


def picture(draw: Callable[[Any], Any], description: str, size: tuple[float, float]) -> str:
    """Return what a function draws on Axes, inside the page."""
    from matplotlib.figure import Figure

    figure, file = Figure(figsize=size, layout="constrained"), io.BytesIO()
    draw(figure.subplots())
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    data = base64.b64encode(file.getvalue()).decode()
    width, height = (round(side * 96) for side in size)
    image = f'<img src="data:image/png;base64,{data}" alt="{text(description)}" width="{width}" height="{height}">'
    return f"<figure>{image}</figure>"


def pictures(*some: str) -> str:
    """Return pictures side by side, where there is room."""
    return f'<div class="pictures">{"".join(some)}</div>'


def page(title: str, lead: list[str], sections: dict[str, str]) -> bytes:
    """Return the whole page; it loads nothing, and runs no script but ours, which a browser compares with its hash."""
    style, script = ((files("gpuensemble._report") / f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    links = " ".join(f'<a href="#{_anchor(name)}">{text(name)}</a>' for name in sections)
    whole = "\n".join([f"<h1>{text(title)}</h1>", *lead, f"<nav>{links}</nav>", *sections.values()])
    found = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<style>
{style}</style>
</head>
<body>
{whole}
<script>{script}</script>
</body>
</html>
"""
    return found.encode("utf-8", "xmlcharrefreplace")


def _anchor(title: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in title.lower())


def _kind(number: bool) -> str:
    return ' class="number"' if number else ""


def _column(name: Any, values: Any, errors: Any = None) -> tuple[str, list[str]]:
    """Return the head and the cells of a column."""
    number = values.dtype.kind in "biuf"
    more = [""] * len(values) if errors is None else [f" ± {error:.3f}" for error in errors]
    cells = [_cell(value, number, after) for value, after in zip(values.tolist(), more, strict=True)]
    return f'<th scope="col"{_kind(number)}>{text(name)}</th>', cells


def _cell(value: Any, number: bool = False, more: str = "") -> str:
    """Return a cell: three decimals, which sort by the whole number; what is not known is empty."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return f'<td{_kind(number)} data-value=""></td>'
    if isinstance(value, float):
        return f'<td{_kind(number)} data-value="{value!r}">{value:.3f}{more}</td>'
    return f"<td{_kind(number)}>{text(value)}</td>"
