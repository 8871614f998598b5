"""The parts of an `Advice` as lines and tables, for the terminal and for the page."""

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tombola.advice.parts import Group, Item, Method, Model, Possible
from tombola.advice.verdict import ARRIVED, spread

if TYPE_CHECKING:
    from tombola.advice.advice import Advice

__all__ = [
    "GOAL",
    "GOAL_IN_WORDS",
    "MODELS_IN_WORDS",
    "aligned",
    "group_table",
    "indented",
    "item_table",
    "legend_of_draws",
    "legend_of_models",
    "model_table",
    "possible_lines",
    "race_table",
]

GOAL = 0.001  # of the race: 99.9% of the decrease of the objective that shuffling makes
MODELS_IN_WORDS = "Models, each fitted to its end with the same penalty"
GOAL_IN_WORDS = (
    f"Race of draws, to {1 - GOAL:.1%} of the decrease of the objective that shuffling makes: "
    "median [range] over seeds"
)


def legend_of_models(advice: "Advice") -> list[str]:
    """Return what the columns of the table of models mean, with their units."""
    clustering = advice.task == "clustering"
    arrived = ARRIVED["clustering" if clustering else "linear"]
    left = (
        "the distance from the lowest objective, over that one; the median over 5 seeds"
        if clustering
        else "the distance from the lowest objective of the same kind, over the decrease from the "
        "best constant prediction to it"
    )
    better = "lower" if clustering else "higher"
    return [
        f"held-out score: {advice.score_name}, on the rows held out; {better} is better. "
        "seconds: processor time of the fit on one thread, the least of the fits that were timed. "
        "passes: iterations as the solver counts them, the same in each run with the same seed. "
        "ms a pass: milliseconds. times as long: seconds over those of the advised model. "
        f"left: {left}. Times are compared if at most {arrived:.1%} is left; elsewhere it says "
        '"short". "limit": the solver stopped at its largest number of passes.'
    ]


def legend_of_draws(advice: "Advice") -> list[str]:
    """Return what the columns of the table of draws mean, with their units."""
    return [
        "times as long: draws times the cost of one, over those of shuffled epochs; below 1 is "
        "better. draws: over those of shuffled epochs. us a draw: microseconds of processor time "
        "for a draw, with step, update and set-up. second moment: of "
        "gradient estimates, over that of uniform draws. decrease: of the objective at the end, "
        f"over shuffling's best. Over {advice.seeds} seeds of {advice.epochs} epochs."
    ]


def model_table(models: Sequence[Model], method: str | None) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: what each model reached, and in what time."""
    chosen = next((m for m in models if m.name == method), None)
    columns = ["model", "held-out score", "seconds", "times as long", "passes",
               "ms a pass", "objective", "left", "remark"]  # fmt: skip
    unit = chosen.seconds if chosen is not None else math.nan
    rows = []
    for m in models:
        remarks = ["" if m.converged else "limit", "" if m.arrived else "short"]
        rows.append(
            [
                m.name,
                f"{m.score:.4f}",
                f"{m.seconds:.3g}",
                "" if chosen is None else f"{m.seconds / unit:.2f}",
                f"{m.passes:,}",
                f"{1000 * m.seconds / max(m.passes, 1):.3g}",
                f"{m.objective:.6g}",
                f"{m.left:.1e}",
                ", ".join(filter(None, remarks)),
            ]
        )
    return columns, rows


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
    """Return columns and rows: the result of each way to draw."""
    columns = ["draws by", "solver", "times as long", "draws", "us a draw", "second moment",
               "decrease"]  # fmt: skip
    rows = [
        [
            m.label,
            m.solver,
            spread(m.time_ratio),
            spread(m.draws_ratio),
            f"{1e6 * m.cost:.3g}",
            "" if m.ratio is None else f"{m.ratio:.3g}",
            f"{float(np.median(m.reached)):.2%}",
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
