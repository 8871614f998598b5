"""The parts of an `Advice` as lines and tables, for the terminal and for the page."""

import textwrap
from collections.abc import Sequence

from tombola.advice.parts import Group, Item, Method, Possible
from tombola.advice.verdict import middle, spread

__all__ = [
    "GOAL",
    "GOAL_IN_WORDS",
    "LEGEND",
    "aligned",
    "group_table",
    "indented",
    "item_table",
    "possible_lines",
    "race_table",
]

GOAL = 0.001  # of the race: 99.9% of the decrease of the objective that shuffling makes
GOAL_IN_WORDS = (
    f"Race to {1 - GOAL:.1%} of the decrease of the objective that shuffling makes: "
    "median [range] over seeds"
)
LEGEND = (
    "sooner: the speed-up in processor time. predicted: the speed-up if the steps needed fell with "
    "the second moment. fewer draws: the draws of shuffling over these. second moment: over that "
    "of uniform draws, in the race. time a draw: with step and set-up, over shuffling's. decrease: "
    "of the objective at the end, over shuffling's best."
)


def possible_lines(possible: Sequence[Possible]) -> list[str]:
    """Return the section on the second moments of other distributions."""
    found = ["What is possible: second moment of gradient estimates, over that of uniform draws"]
    for each in possible:
        rows = [
            ["ideal at each moment", f"{each.ideal:.3g}"],
            ["best fixed distribution", f"{each.best_fixed:.3g}"],
        ]
        if each.best_group is not None:
            rows.append(["best fixed, all of a group alike", f"{each.best_group:.3g}"])
        found += [f"  {each.name}", *(f"    {name:<34}{value:>6}" for name, value in rows)]
    return found


def race_table(methods: Sequence[Method]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: the result of each method."""
    columns = ["draws", "solver", "sooner", "predicted", "fewer draws", "second moment",
               "time a draw", "decrease"]  # fmt: skip
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
        for m in methods
    ]
    return columns, rows


def group_table(groups: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: the groups that matter."""
    columns = ["group", "rows", "share of rows", "of ideal draws"]
    return columns, [
        [g.group, f"{g.rows:,}", f"{g.share_of_rows:.2%}", f"{g.share_of_draws:.2%}"]
        for g in groups
    ]


def item_table(items: Sequence[Item]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: the items that matter."""
    labelled = any(item.label is not None for item in items)
    columns = ["row", *(["label"] if labelled else []), "ideal probability", "times uniform"]
    return columns, [
        [
            f"{item.row:,}",
            *([str(item.label)] if labelled else []),
            f"{item.probability:.2e}",
            f"{item.times_uniform:.1f}",
        ]
        for item in items
    ]


def indented(sentences: Sequence[str]) -> list[str]:
    """Return sentences wrapped, each beginning on a line of its own."""
    return [
        line for sentence in sentences
        for line in textwrap.wrap(
            sentence, 96, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
    ]  # fmt: skip


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, text to the left and numbers to the right."""
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
