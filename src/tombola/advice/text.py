"""Advice in plain text, and its tables for the page."""

import textwrap
from collections.abc import Sequence

from tombola.advice.base import Advice
from tombola.advice.race import GOAL
from tombola.advice.verdict import middle, spread

__all__ = ["LEGEND", "about_race", "group_table", "item_table", "lines", "notes_on", "race_table"]

LEGEND = (
    "sooner: how many times, in seconds of processor time, and as predicted, if the steps needed "
    "fell with the second moment. fewer draws: how many times. second moment: over that of uniform "
    "draws, as it was in the race. time a draw: with step and setting up, over shuffling's. way "
    "down: in the end, over shuffling's best."
)


def lines(advice: Advice) -> list[str]:
    """Return the lines of the report, verdict first."""
    verdict = advice.verdict
    found = [verdict.headline, *_indented(verdict.reasons), ""]
    found.append(
        "What is possible: second moment of gradient estimates, over that of uniform draws"
    )
    for each in advice.possible:
        rows = [
            ["ideal at each moment", f"{each.ideal:.3g}"],
            ["best fixed distribution", f"{each.best_fixed:.3g}"],
        ]
        if each.best_group is not None:
            rows.append(["best fixed, all of a group alike", f"{each.best_group:.3g}"])
        found += [f"  {each.name}", *(f"    {name:<34}{value:>6}" for name, value in rows)]
    found += ["", about_race(advice)]
    found += _aligned(*race_table(advice))
    found += _indented([LEGEND])
    if advice.groups:
        found += ["", "Groups that matter most", *_aligned(*group_table(advice))]
    found += ["", "Rows that matter most (numbered from 0)", *_aligned(*item_table(advice))]
    found += ["", "To use it", *(f"    {line}" for line in advice.code.split("\n"))]
    found += ["", "Notes", *_indented([*notes_on(advice)])]
    return found


def about_race(advice: Advice) -> str:
    """Return what was raced to."""
    return (
        f"Race to {1 - GOAL:.1%} of the way down that shuffling makes in {advice.epochs} epochs: "
        f"median [range] of {advice.seeds} seeds"
    )


def notes_on(advice: Advice) -> list[str]:
    """Return what else there is to know: what was done and left out, and the time it took."""
    notes = list(advice.notes)
    if advice.raced < advice.rows:
        notes.append(
            f"Raced over {advice.raced:,} of the {advice.rows:,} rows, chosen at random, to keep "
            "it short; a larger budget takes more of them."
        )
    took, compiling = advice.seconds["in all"], advice.seconds["compiling"]
    notes.append(f"This took {took:.0f} seconds, {compiling:.0f} of them to compile and load.")
    return notes


def race_table(advice: Advice) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: how each method did."""
    columns = ["draws", "solver", "sooner", "predicted", "fewer draws", "second moment",
               "time a draw", "way down"]  # fmt: skip
    rows = [
        [
            m.label,
            m.solver,
            spread(m.sooner),
            "" if m.predicted is None else f"{m.predicted:.2f}",
            spread(m.fewer_draws),
            "" if m.ratio is None else f"{m.ratio:.3g}",
            f"{m.overhead:.2f}",
            f"{middle(m.reached):.2%}",
        ]
        for m in advice.methods
    ]
    return columns, rows


def group_table(advice: Advice) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: the groups that matter."""
    columns = ["group", "rows", "share of rows", "of ideal draws"]
    return columns, [
        [g.group, f"{g.rows:,}", f"{g.share_of_rows:.2%}", f"{g.share_of_draws:.2%}"]
        for g in advice.groups
    ]


def item_table(advice: Advice) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: the items that matter."""
    labelled = any(item.label is not None for item in advice.items)
    columns = ["row", *(["label"] if labelled else []), "ideal probability", "times uniform"]
    return columns, [
        [
            f"{item.row:,}",
            *([str(item.label)] if labelled else []),
            f"{item.probability:.2e}",
            f"{item.times_uniform:.1f}",
        ]
        for item in advice.items
    ]


def _indented(sentences: Sequence[str]) -> list[str]:
    return [
        line for sentence in sentences
        for line in textwrap.wrap(sentence, 96, initial_indent="  ", subsequent_indent="  ")
    ]  # fmt: skip


def _aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with texts to the left and numbers to the right."""
    cells = [list(columns), *map(list, rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(columns))]
    right = [all(not row[k] or row[k][0].isdigit() or row[k].startswith("never") for row in rows)
             for k in range(len(columns))]  # fmt: skip
    return [
        "  " + "  ".join(
            cell.rjust(width) if side else cell.ljust(width)
            for cell, width, side in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]  # fmt: skip
