"""One renderer: sections of rows, as lines for a terminal and as a page."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tombola.advice.race import Curve, Pair, means, smoothed

if TYPE_CHECKING:
    from tombola.report.page import Page

__all__ = ["MOST", "Report", "Section", "curve_section", "digits", "page", "pair_section",
           "race_figure", "terminal"]  # fmt: skip

MOST = 25  # lines on a terminal
WIDTH = 100


@dataclass
class Section:
    """A table under a heading; `shown` says how many of its rows a terminal may show at most."""

    heading: str
    columns: list[str]
    rows: list[list[str]]
    caption: str = ""
    shown: int = 0
    figure: Callable[[], tuple[Any, str]] | None = None  # made when a page asks for it


@dataclass
class Report:
    """What an advice says: the parts that `terminal` and `page` are made of."""

    headline: str
    reasons: list[str]
    code: str = ""
    sections: list[Section] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rest: str = "Everything that was measured is on the page (--html), or in as_dict()."


def terminal(report: Report) -> list[str]:
    """Return at most `MOST` lines: headline, reasons, code, and as many rows as there is room for.

    Code is never cut; the reasons and rows that are left out are on the page.
    """
    lines = textwrap.wrap(report.headline, WIDTH)
    code = [line for line in report.code.split("\n") if line]
    room = MOST - len(lines) - len(code) - 1
    for reason in report.reasons:
        wrapped = textwrap.wrap(
            reason, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
        if len(wrapped) > min(room, 2 * len(report.reasons)):
            break
        lines += wrapped
        room -= len(wrapped)
    lines += [f"    {line}" for line in code]
    for section in report.sections:
        count = min(section.shown, len(section.rows), room - 1)
        if count < 1:
            continue
        lines += aligned(section.columns, section.rows[:count])
        room -= count + 1
    return [*lines, report.rest]


def page(report: Report, title: str) -> "Page":
    """Return a page with everything."""
    from tombola.report.page import Page

    made = Page(title, f"**{report.headline}**")
    for reason in report.reasons:
        made.text(reason)
    if report.code:
        made.heading("To use it")
        made.code(report.code)
    for section in report.sections:
        made.heading(section.heading)
        made.table(section.columns, section.rows, caption=section.caption)
        if section.figure is not None:
            figure, said = section.figure()
            made.figure(figure, said, said)
    if report.notes:
        made.heading("Notes")
    for note in report.notes:
        made.text(note)
    return made


def pair_section(pairs: Sequence[Pair], shown: int = 0) -> Section:
    """Return the pairs that the verdict is about."""
    scored = any(np.isfinite(pair.score) for pair in pairs)
    columns = ["seed", "times as long", "steps", "ms a step", "shuffled", "loss", "shuffled"]
    rows = [
        [str(p.seed), *map(digits, (p.time_ratio, p.steps_ratio, p.step_ms, p.shuffle_ms)),
         *map(digits, (p.loss, p.shuffle_loss))]
        + ([digits(p.score), digits(p.shuffle_score)] if scored else [])
        for p in pairs
    ]  # fmt: skip
    return Section(
        "The runs that decide",
        columns + (["score", "shuffled"] if scored else []),
        rows,
        "For each seed: times as long is steps times ms a step over that of shuffled epochs. "
        "steps: those to the same losses, over those of shuffled epochs. loss: the lowest one, "
        "smoothed. The verdict is about the geometric mean of times as long, and its 90% interval "
        "by Student's t.",
        shown,
    )


def curve_section(curves: Sequence[Curve]) -> Section:
    """Return all runs of a race, the longest and best first."""
    order = sorted(curves, key=lambda c: (-len(c.looks), c.level))
    return Section(
        "All runs",
        ["draws by", "rate", "seed", "steps", "loss", "ms a step"],
        [
            [c.name, digits(c.rate), str(c.seed), str(c.looks[-1].step), digits(c.level),
             digits(c.step_ms)]
            for c in order
        ],
        "rate: times the one that was given. loss: the lowest one, smoothed. Runs at rates, and "
        "by draws, that fall behind end early.",
    )  # fmt: skip


def race_figure(curves: Sequence[Curve]) -> tuple[Any, str]:
    """Return the smoothed curves of the runs that finished, and their description."""
    from tombola.report.figures import band, legend_below, new_figure

    figure, (ax,) = new_figure(height=2.7)
    ends = []
    longest = max(len(c.looks) for c in curves)
    finished = [c for c in curves if len(c.looks) == longest]
    for name in dict.fromkeys(c.name for c in finished):
        mine = [c for c in finished if c.name == name]
        paths = np.array([smoothed(c.looks) for c in mine])
        steps = means([look.step for look in mine[0].looks])
        middle = np.median(paths, axis=0)
        band(ax, steps, middle, paths.min(axis=0), paths.max(axis=0), name)
        ends.append(f"{name} {middle[-1]:.3g}")
    ax.set(xlabel="steps", ylabel="loss, smoothed")
    legend_below(figure)
    return figure, "Loss at the end: " + ", ".join(ends) + "."


def digits(value: float) -> str:
    """Return a number to four digits, as all figures of a table are shown."""
    return f"{value:.4g}"


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, text to the left and numbers to the right."""
    cells = [list(columns), *map(list, rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(columns))]
    right = [
        all(not row[k] or row[k][0].isdigit() or row[k][0] == "-" for row in rows)
        for k in range(len(columns))
    ]
    return [
        "  " + "  ".join(
            cell.rjust(width) if side else cell.ljust(width)
            for cell, width, side in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]  # fmt: skip
