"""The page of `tombola advise`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tombola.advice import Advice, Method, Possible, Race
from tombola.advice.text import (
    GOAL_IN_WORDS,
    MODELS_IN_WORDS,
    group_table,
    item_table,
    legend_of_draws,
    legend_of_models,
    model_table,
    race_table,
)
from tombola.report.figures import band, legend_below, new_figure, style
from tombola.report.page import Page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["page_of"]

FLOOR = 1e-4  # smaller distances to the lowest objective are drawn as this one


def page_of(advice: Advice, name: str) -> Page:
    """Return the page, with its figures.

    Parameters
    ----------
    advice : Advice
    name : str
        The name of the data.
    """
    verdict = advice.verdict
    page = Page(f"Which model for {name}, and do adaptive draws pay?", f"**{verdict.headline}**")
    for reason in verdict.reasons:
        page.text(reason)
    page.text(
        f"{name}: {advice.task}, {advice.rows:,} rows to fit, {advice.columns:,} columns."
    )  # fmt: skip
    if advice.code:
        page.heading("To use it")
        page.text("This script was raced, and prints the score below.")
        page.code(advice.code)
        page.text(f"{advice.score_name}, of the script: {advice.score:.6g}")
    if advice.models:
        page.heading("The models")
        page.text(MODELS_IN_WORDS + ".")
        (legend,) = legend_of_models(advice)
        page.table(*model_table(advice.models, verdict.method), caption=legend)
    if advice.methods:
        _draws(page, advice)
    if advice.items:
        page.heading("What matters most")
        page.text("By the best fixed distribution in hindsight. Rows are numbered from 0.")
        if advice.groups:
            page.table(*group_table(advice.groups), caption="Groups that matter most")
        page.table(*item_table(advice.items), caption="Rows that matter most")
    page.heading("Notes")
    for note in advice.notes:
        page.text(note)
    return page


def _draws(page: Page, advice: Advice) -> None:
    """Add the race of draws, and what is possible."""
    page.heading("Do adaptive draws pay?")
    page.text(GOAL_IN_WORDS + ".")
    (legend,) = legend_of_draws(advice)
    page.table(*race_table(advice.methods), caption=legend)
    for race in advice.races:
        figure, said = _race_figure(race, advice.methods)
        page.figure(
            figure,
            f"{race.name}: the distance to the lowest objective that any method reached, "
            "relative to the start; median and range over seeds. The dotted line is the goal. "
            "Above by epochs (draws over rows), below by seconds of processor time (draws times "
            "the cost of one).",
            said,
        )
    page.heading("What is possible")
    page.text(
        "Second moment of gradient estimates, over that of uniform draws, along the path of "
        "shuffled epochs, from the exact losses of all items: below 1 is better, and no sampler "
        "can be better than ideal."
    )
    columns = ["problem", "ideal at each moment", "best fixed", "best fixed, a group alike"]
    rows = [
        [p.name, f"{p.ideal:.3g}", f"{p.best_fixed:.3g}",
         None if p.best_group is None else f"{p.best_group:.3g}"]
        for p in advice.possible
    ]  # fmt: skip
    page.table(columns, rows)
    figure, said = _possible_figure(advice.possible)
    page.figure(figure, "The same at each moment of training.", said)
    figure, said = _share_figure(advice)
    page.figure(
        figure,
        f"How unequal losses (gradient norms) are in the end. {said} The further the curve is "
        "below the straight line, the more there is to gain.",
        said,
    )


def _race_figure(race: Race, methods: Sequence[Method]) -> tuple["Figure", str]:
    """Return the race by draws and by seconds, and its description."""
    objective = {label: np.array(rows) for label, rows in race.objective.items()}
    costs = {method.label: method.cost for method in methods}
    start = np.median([rows[:, 0] for rows in objective.values()])
    lowest = min(rows.min() for rows in objective.values())
    way = max(start - lowest, np.finfo(float).tiny)
    draws = np.array(race.epochs[1:]) * race.rows
    figure, (upper, lower) = new_figure(2, height=2.7)
    ends = []
    for label, rows in objective.items():
        left = np.clip((rows - lowest) / way, FLOOR, None)[:, 1:]  # the start is at 0
        middle, low, high = np.median(left, axis=0), left.min(axis=0), left.max(axis=0)
        band(upper, race.epochs[1:], middle, low, high, label)
        band(lower, draws * costs[label], middle, low, high, label)
        ends.append(f"{label} {middle[-1]:.2g}")
    goal = float(np.median(race.goals) - lowest) / way
    for ax, unit in ((upper, "epochs"), (lower, "seconds")):
        ax.axhline(max(goal, FLOOR), color="#1c1e21", linewidth=1, linestyle=":")
        ax.set(xscale="log", yscale="log", ylim=(FLOOR, 1.0), xlabel=unit, ylabel="distance left")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
    legend_below(figure)
    return figure, "Relative distance left at the end: " + ", ".join(ends) + "."


def _possible_figure(possible: list[Possible]) -> tuple["Figure", str]:
    """Return the ideal second moment at each moment, and its description."""
    figure, axes = new_figure(len(possible), height=2.3)
    said = []
    for ax, each in zip(axes, possible, strict=True):
        ax.plot(each.epochs, each.ideals, label="ideal at each moment", linewidth=1.7,
                **style("vrb"))  # fmt: skip
        ax.axhline(each.best_fixed, label="best fixed", linewidth=1.4, **style("shuffle"))
        if each.best_group is not None:
            ax.axhline(
                each.best_group, label="best fixed, a group alike", linewidth=1.4,
                **style("group-vrb"),
            )  # fmt: skip
        ax.axhline(1.0, label="uniform", linewidth=1.4, **style("uniform"))
        ax.set(ylim=(0, 1.08), xlim=(0, None), ylabel="over uniform's")
        if len(possible) > 1:
            ax.set_title(each.name, loc="left", fontsize=9)
        said.append(f"{each.name}: ideal from {each.ideals[0]:.2g} to {each.ideals[-1]:.2g}.")
    axes[-1].set_xlabel("epochs")
    legend_below(figure)
    return figure, " ".join(said)


def _share_figure(advice: Advice) -> tuple["Figure", str]:
    """Return the Lorenz curve, and its description."""
    figure, (ax,) = new_figure(height=2.6)
    percent = np.linspace(0, 100, len(advice.losses))
    shares = 100 * np.array(advice.losses)
    ax.plot(percent, shares, label="these losses", linewidth=1.7, **style("vrb"))
    ax.plot([0, 100], [0, 100], label="if all were alike", linewidth=1.4, **style("uniform"))
    ax.set(xlabel="% of rows, smallest losses first", ylabel="% of all losses")
    legend_below(figure)
    top = 100 - np.interp(90, percent, shares)
    return figure, f"The largest tenth of them holds {top:.0f}% of the sum."
