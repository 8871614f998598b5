"""A self-contained HTML page, without scripts, fonts or images from elsewhere."""

import html
import io
import math
import os
import re
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any
from unicodedata import category

from tombola.state.files import write_text

__all__ = ["Page"]

WIDEST, NARROWEST = 126, 68  # screen pixels per inch of a figure

UNSEEN = ("Cc", "Cf", "Cs")  # categories of control codes, formats and halves of characters

# One or more numbers, as in "1.5 [never, 2.25]", "12%" or "-3.1e-05 s".
NUMBERS = re.compile(r"([-+<>~]?\d[\d,.]*(e[-+]?\d+)?%?|never|[\s\[\](),])+([a-zA-Z]{1,3})?")

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1c1e21; --faint: #5c636b; --line: #d9dde2; --tint: #f3f5f7;
  --accent: #0063a3;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16181b; --ink: #e6e8ea; --faint: #a2a9b1; --line: #373c42; --tint: #22262a;
    --accent: #6cb8f0;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 54rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: break-word;
}
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.4rem 0 .6rem; }
p { margin: .6rem 0; max-width: 44rem; }
.lead { font-size: 1.12rem; border-left: .25rem solid var(--accent); padding-left: .8rem; }
code, pre {
  font: .9em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
}
code { background: var(--tint); border-radius: .2rem; padding: .05em .25em; }
pre {
  background: var(--tint); border: 1px solid var(--line); border-radius: .4rem;
  padding: .8rem 1rem; overflow-x: auto;
}
pre code { background: none; padding: 0; font-size: 1em; }
.sideways { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
.caption { color: var(--faint); font-size: .92rem; margin: 1.2rem 0 -.6rem; }
th, td { padding: .35rem .8rem .35rem 0; text-align: left; vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; font-weight: 600; }
tbody th { font-weight: 400; }
tbody tr { border-bottom: 1px solid var(--line); }
.number { text-align: right; }
td { min-width: 7rem; }
thead th { min-width: 4.5rem; }
td.number { min-width: 0; white-space: nowrap; }
figure { margin: 1.4rem 0; }
.card {
  background: #ffffff; border: 1px solid var(--line); border-radius: .4rem;
  padding: .3rem; overflow-x: auto; text-align: center;
}
.card svg { display: inline-block; width: 100%; height: auto; vertical-align: middle; }
figcaption { color: var(--faint); font-size: .92rem; margin-top: .5rem; max-width: 44rem; }
footer { color: var(--faint); font-size: .85rem; margin-top: 3rem; }
@media print {
  :root { --paper: #ffffff; --ink: #000000; --faint: #444444; --line: #bbbbbb; --tint: #f5f5f5; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  figure, tr, pre { break-inside: avoid; }
  h2 { break-after: avoid; }
  .sideways, .card, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
}
"""


class Page:
    """A page of headings, paragraphs, tables, figures and code, in the order of addition.

    In texts, `` `words` `` are set as code and ``**words**`` in bold. Everything else
    is shown literally.

    Parameters
    ----------
    title : str
    lead : str, default=""
        The main message, in one or two sentences.

    Examples
    --------
    >>> page = Page("Two draws", "The **second** was better.")
    >>> page.heading("Figures")
    >>> page.table(["draw", "loss"], [["first", 0.25], ["second", 0.125]])
    >>> text = page.html()
    >>> "The <strong>second</strong> was better." in text, "://" in text
    (True, False)
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self.title = title
        self._figures = self._tables = 0
        self._parts = [f"<h1>{safe(title)}</h1>"]
        if lead:
            self._parts.append(f'<p class="lead">{_inline(lead)}</p>')

    def heading(self, text: str) -> None:
        """Start a section."""
        self._parts.append(f"<h2>{_inline(text)}</h2>")

    def text(self, paragraph: str) -> None:
        """Add a paragraph."""
        self._parts.append(f"<p>{_inline(paragraph)}</p>")

    def code(self, text: str) -> None:
        """Add a block of code."""
        self._parts.append(f"<pre><code>{safe(text.strip(chr(10)))}</code></pre>")

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = ""
    ) -> None:
        """Add a table.

        Parameters
        ----------
        columns : sequence of str
            The header.
        rows : sequence of rows, each with one cell for each column
            Numbers or strings. A column of numbers, or of strings of numbers such as
            "1.5 [1, 2]", is aligned to the right. NaN and None are shown as a dash.
        caption : str, default=""
        """
        for place, row in enumerate(rows):
            if len(row) != len(columns):
                raise ValueError(
                    f"rows[{place}] has {len(row)} cells, but there are {len(columns)} columns"
                )
        right = [_is_numeric([row[k] for row in rows]) for k in range(len(columns))]
        kind = [' class="number"' if number else "" for number in right]
        lines, named = [], ""
        if caption:  # outside the table, so that it does not scroll with it
            self._tables += 1
            named = f' aria-labelledby="table{self._tables}"'
            lines.append(f'<p class="caption" id="table{self._tables}">{_inline(caption)}</p>')
        lines.append(f'<div class="sideways" tabindex="0"><table{named}>')
        head = [f'<th scope="col"{kind[k]}>{_inline(name)}</th>' for k, name in enumerate(columns)]
        lines += ["<thead><tr>", *head, "</tr></thead>", "<tbody>"]
        for row in rows:
            cells = [
                f'<th scope="row"{kind[0]}>{_cell(cell)}</th>' if k == 0
                else f"<td{kind[k]}>{_cell(cell)}</td>"
                for k, cell in enumerate(row)
            ]  # fmt: skip
            lines += ["<tr>", *cells, "</tr>"]
        self._parts.append("\n".join([*lines, "</tbody></table></div>"]))

    def figure(self, figure: Any, caption: str, description: str) -> None:
        """Add a figure, on a light background even in dark mode.

        Parameters
        ----------
        figure : matplotlib.figure.Figure
        caption : str
            What the figure shows.
        description : str
            The same for readers who cannot see it.
        """
        self._figures += 1
        drawn = _inline_svg(figure, f"figure{self._figures}-", description)
        self._parts.append(
            f'<figure>\n<div class="card" tabindex="0">{drawn}</div>\n'
            f"<figcaption>{_inline(caption)}</figcaption>\n</figure>"
        )

    def html(self) -> str:
        """Return the whole page."""
        return "\n".join([
            "<!DOCTYPE html>",
            '<html lang="en-GB">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{safe(self.title)}</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            *self._parts,
            "</main>",
            "</body>",
            "</html>",
            "",
        ])  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file; an existing file is replaced only by a complete page."""
        write_text(path, self.html())


def safe(text: str) -> str:
    """Return text as HTML: no markup, no control codes, nothing that turns its direction round."""
    shown = (" " if category(it) in UNSEEN and it not in "\n\t" else it for it in text)
    return html.escape("".join(shown))


def _inline(text: str) -> str:
    """Return a text as HTML, with code and bold words."""
    parts = re.split(r"`([^`]+)`", text)  # the odd ones are code
    for k, part in enumerate(parts):
        shown = safe(part)
        bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", shown)
        parts[k] = f"<code>{shown}</code>" if k % 2 else bold
    return "".join(parts)


def _cell(value: Any) -> str:
    """Return a cell as HTML."""
    if value is None or (isinstance(value, Real) and math.isnan(value)):
        return "&ndash;"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        return f"{float(value):.4g}"
    return _inline(str(value))


def _is_numeric(cells: Sequence[Any]) -> bool:
    """Return whether a column holds numbers, or strings of numbers."""
    known = [cell for cell in cells if cell not in (None, "")]
    return any(cell != "never" for cell in known) and all(
        (isinstance(cell, Real) and not isinstance(cell, bool))
        or (isinstance(cell, str) and NUMBERS.fullmatch(cell) is not None)
        for cell in known
    )


def _inline_svg(figure: Any, prefix: str, description: str) -> str:
    """Return a figure as inline SVG, with text as paths and a prefix for all ids."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": prefix}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    drawn = out.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    head, body = drawn[: drawn.index(">")], drawn[drawn.index(">") + 1 :]
    box = re.search(r'viewBox="[^"]*"', head)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->\n?", "", body, flags=re.DOTALL)
    body = body.replace('xlink:href="', 'href="')
    for before in (r'\bid="', r'href="#', r"url\(#"):
        body = re.sub(f"({before})", rf"\g<1>{prefix}", body)
    wide, narrow = (round(figure.get_size_inches()[0] * k) for k in (WIDEST, NARROWEST))
    return (
        f'<svg {box.group() if box else ""} role="img" '
        f'aria-label="{safe(description)}" '
        f'style="max-width:{wide}px;min-width:{narrow}px">{body.strip()}'
    )
