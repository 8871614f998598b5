"""What `tombola demo` says: its sentence, the lines in the terminal, the page and the picture."""

from collections.abc import Sequence
from typing import Any

from tombola.demo import clusters, linear, timesteps
from tombola.demo.parts import Pictures, Section, Size, draw_picture, listed
from tombola.report import Page, figures
from tombola.report.exhibit import Finding
from tombola.report.record import versions
from tombola.report.rows import Row

__all__ = ["headline", "page", "picture", "summary"]


def headline(sections: Sequence[Section]) -> str:
    """Return one sentence about all parts: first what was gained, then what was not."""
    won, rest = ([it.lead for it in sections if it.gained is gained] for gained in (True, False))
    if not won:
        return f"On real data, in this run, tombola gained nothing: it {listed(rest)}."
    but = f", but {listed(rest)}" if rest else ""
    return f"On real data, in this run, tombola {listed(won)}{but}."


def not_seen(sections: Sequence[Section]) -> list[Finding]:
    """Return the claims that the rows contradict or leave open."""
    return [f for section in sections for f in section.findings if f.confirmed is not True]


def summary(sections: Sequence[Section]) -> list[str]:
    """Return the lines for the terminal."""
    lines = [f"Seen: {f.claim} {f.evidence}" for s in sections for f in s.findings if f.confirmed]
    return lines + [f"Not seen: {_open(f)}" for f in not_seen(sections)]


def page(sections: Sequence[Section], size: Size, seconds: float) -> Page:
    """Return the page: the sentence, a section for each part, and what was not seen."""
    made = Page("tombola on real data", headline(sections))
    for section in sections:
        made.heading(section.title)
        made.text(section.notes)
        for figure, caption in section.figures:
            made.figure(figure, caption, f"{section.title}. {caption}")
        for caption, columns, lines in section.tables:
            made.table(columns, lines, caption)
        for finding in section.findings:
            if finding.confirmed:
                made.text(f"**Seen:** {finding.claim} {finding.evidence}")
    made.heading("Not seen")
    left = not_seen(sections)
    for finding in left:
        made.text(_open(finding))
    if not left:
        made.text("Every claim of this page was seen in this run.")
    made.heading("How it was run")
    made.text(
        f"`tombola demo`, {seconds:.0f} seconds, compiling included. Claims hold if the 95% "
        "interval over seeds says so. Seconds differ from run to run, other figures hardly."
    )
    shown = {**size._asdict(), **versions()}
    made.table(
        ["setting", "value"],
        [[name.replace("_", " "), str(value)] for name, value in shown.items()],
    )
    return made


def picture(parts: dict[str, list[Row]], colours: Pictures) -> Any:
    """Return the main picture, for a README."""
    figure, axes = figures.new_figure(2, 3, height=3.0)
    for axis, name in zip(axes, linear.DATA, strict=False):
        linear.draw_panel(axis, parts["linear"], name)
    clusters.draw_panel(axes[3], parts["clusters"])
    count = parts["clusters"][0]["clusters"]
    draw_picture(axes[4], colours["tombola"], f"{count} colours, by tombola")
    timesteps.draw_panel(axes[5], parts["timesteps"])
    figures.legend_below(figure)
    return figure


def _open(finding: Finding) -> str:
    """Return a claim that was not confirmed, and why."""
    why = "The opposite was seen." if finding.confirmed is False else "The seeds leave it open."
    return f"{finding.claim} {why} {finding.evidence}"
