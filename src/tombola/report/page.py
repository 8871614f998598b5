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
        self._parts: list[tuple[str, Any]] = [("lead", lead)] if lead else []

    def heading(self, text: str) -> None:
        """Start a section."""
        self._parts.append(("heading", text))

    def text(self, paragraph: str) -> None:
        """Add a paragraph."""
        self._parts.append(("text", paragraph))

    def code(self, text: str) -> None:
        """Add a block of code."""
        self._parts.append(("code", text.strip("\n")))

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
        numbers = [_is_numeric([row[k] for row in rows]) for k in range(len(columns))]
        table = {"columns": columns, "numbers": numbers, "rows": rows, "caption": caption}
        self._parts.append(("table", {**table, "place": self._next("table")}))

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
        drawn = _inline_svg(figure, f"figure{self._next('figure')}-", description)
        self._parts.append(("figure", {"drawn": drawn, "caption": caption}))

    def _next(self, what: str) -> int:
        """Return the number of the next table or figure."""
        return 1 + sum(kind == what for kind, _ in self._parts)

    def html(self) -> str:
        """Return the whole page."""
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup

        looks = Environment(
            loader=PackageLoader("tombola.report", ""), undefined=StrictUndefined,
            autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        )  # fmt: skip
        for name, made in {"plain": safe, "inline": _inline, "cell": _cell, "drawn": str}.items():
            looks.filters[name] = lambda value, made=made: Markup(made(value))
        return looks.get_template("page.html.jinja").render(title=self.title, parts=self._parts)

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
