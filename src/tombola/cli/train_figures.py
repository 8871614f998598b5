"""The figures of runs of `tombola train`."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.cli.train_verdict import Course

__all__ = ["Drawn", "comparison_figure", "course_figure", "excess", "mean_over"]

DECADE = 10.0  # values that span more than this factor are drawn on a log axis
GREY = "#8a8f94"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
LINES = ("-", "--", ":", "-.")


class Drawn(NamedTuple):
    """A figure with its words."""

    figure: Any
    caption: str
    description: str


def excess(course: Course, floor: float | None = None) -> NDArray[np.float64]:
    """Return how far the objective is above its minimum at most, over its value at w = 0.

    `floor` is what the minimum is proved not to be below, by default by this run itself.
    """
    least = course.floor if floor is None else floor
    with np.errstate(over="ignore"):
        values = (course.objective - least) / course.unit
    return np.where(np.isfinite(values), values, course.gaps)


def mean_over(
    run: Sequence[Course], columns: Sequence[NDArray[np.float64]], clock: str = "epochs"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of a column over the parts, at all their epochs (or seconds).

    A part that has ended stays where it was; between its rows it goes straight.
    """
    times = np.unique(np.concatenate([getattr(course, clock) for course in run]))
    lines = []
    for course, column in zip(run, columns, strict=True):
        known = np.isfinite(column)
        if known.any():
            lines.append(np.interp(times, getattr(course, clock)[known], column[known],
                                   left=math.nan))  # fmt: skip
    if not lines:
        return times, np.full(len(times), math.nan)
    return times, np.asarray(np.mean(lines, axis=0))


def spans_decades(values: NDArray[np.float64]) -> bool:
    """Return whether positive values differ so much that they need a log axis."""
    known = values[np.isfinite(values) & (values > 0)]
    return bool(known.size and known.max() > DECADE * known.min())


def course_figure(run: Sequence[Course], trace: Sequence[dict[str, Any]]) -> Drawn:
    """Return the figure of a run: objective, loss on rows held out, variance."""
    from tombola.report.figures import legend_below, new_figure

    ratios = [
        np.array([float(row["variance_ratio"]) for row in trace if row["problem"] == course.name])
        for course in run
    ]
    above = [excess(course) for course in run]
    certified = spans_decades(mean_over(run, above)[1])
    first = above if certified else [course.objective for course in run]
    label = "above minimum, at most" if certified else "objective"
    panels = [(first, label)]
    if any(np.isfinite(course.held).any() for course in run):
        panels.append(([course.held for course in run], "held-out loss"))
    if any(np.isfinite(column).any() for column in ratios):
        panels.append((ratios, "variance over uniform's"))
    figure, axes = new_figure(len(panels), height=2.2, share_x=True)
    for axis, (columns, name) in zip(axes, panels, strict=True):
        _panel(axis, run, columns, may_be_log=columns is not ratios)
        axis.set_ylabel(name)
    if panels[-1][0] is ratios:
        axes[-1].axhline(1.0, color=GREY, linewidth=1)
        axes[-1].set_ylim(0, None)
    axes[-1].set_xlabel("epochs (passes over the rows)")
    if len(run) > 1:
        legend_below(figure)
    said = [
        "How far the objective is above its minimum at most, by the certificate at the end, "
        "relative to the objective at w = 0." if certified else
        "The objective (loss and penalties) on the training rows."
    ]  # fmt: skip
    names = [name for _, name in panels]
    if "held-out loss" in names:
        said.append("The mean loss on the rows held out, without penalty.")
    if panels[-1][0] is ratios:
        said.append(
            "The variance of the gradient estimates over that of uniform draws at the same "
            "solution: below 1 is better."
        )
    if len(run) > 1:
        said.append("Of classes that ended sooner, the mean keeps the last value.")
    ends = " to ".join(f"{course:.4g}" for course in _ends(run, first))
    return Drawn(figure, " ".join(said), f"{label[0].upper()}{label[1:]}, from {ends}.")


def _ends(run: Sequence[Course], columns: Sequence[NDArray[np.float64]]) -> list[float]:
    values = mean_over(run, columns)[1]
    known = values[np.isfinite(values)]
    return [float(known[0]), float(known[-1])]


def _panel(
    axis: Any, run: Sequence[Course], columns: Sequence[NDArray[np.float64]], *, may_be_log: bool
) -> None:
    """Draw a column of each part, and their mean."""
    from tombola.report.figures import style

    if len(run) > 1:
        for k, (course, column) in enumerate(zip(run, columns, strict=True)):
            axis.plot(course.epochs, column, color=GREY, linewidth=0.7, alpha=0.7,
                      label="each class" if k == 0 else None)  # fmt: skip
    times, values = mean_over(run, columns)
    known = np.isfinite(values)
    marker = "o" if known.sum() < 12 else None
    axis.plot(times[known], values[known], linewidth=1.7, marker=marker, markersize=3,
              label="mean over the classes", **style("vrb"))  # fmt: skip
    if may_be_log and spans_decades(np.concatenate([*columns, values])):
        axis.set_yscale("log")


def comparison_figure(
    runs: Sequence[tuple[str, Sequence[Course]]],
    floors: Sequence[Sequence[float]],
    clock: str,
) -> Drawn:
    """Return the figure of several runs over epochs or seconds.

    Parameters
    ----------
    runs : sequence of (label, parts)
    floors : sequence of floats, for each run
        What the minimum of each part is proved not to be below, NaN where nothing is proved.
    clock : {"epochs", "seconds"}
    """
    from tombola.report.figures import legend_below, new_figure

    first = [
        [excess(part, floor) for part, floor in zip(parts, known, strict=True)]
        for (_, parts), known in zip(runs, floors, strict=True)
    ]
    means = [mean_over(parts, columns, clock)
             for (_, parts), columns in zip(runs, first, strict=True)]  # fmt: skip
    certified = all(np.isfinite(values).any() for _, values in means) and spans_decades(
        np.concatenate([values for _, values in means])
    )
    if not certified:
        first = [[part.objective for part in parts] for _, parts in runs]
    held = [[part.held for part in parts] for _, parts in runs]
    panels = [(first, "above minimum, at most" if certified else "objective")]
    if any(np.isfinite(column).any() for columns in held for column in columns):
        panels.append((held, "held-out loss"))
    figure, axes = new_figure(len(panels), height=2.4, share_x=True)
    for axis, (table, name) in zip(axes, panels, strict=True):
        shown = []
        for k, ((label, parts), columns) in enumerate(zip(runs, table, strict=True)):
            times, values = mean_over(parts, columns, clock)
            known = np.isfinite(values)
            shown.append(values)
            axis.plot(
                times[known], values[known], linewidth=1.7, label=label,
                color=COLOURS[k % len(COLOURS)], linestyle=LINES[k // len(COLOURS) % len(LINES)],
                marker="o" if known.sum() < 12 else None, markersize=3,
            )  # fmt: skip
        axis.set_ylabel(name)
        if spans_decades(np.concatenate(shown)):
            axis.set_yscale("log")
    several = any(len(parts) > 1 for _, parts in runs)
    words = "epochs (passes over the rows)"
    if clock == "seconds":
        words = "seconds in the solver" + (", of each class" if several else "")
    axes[-1].set_xlabel(words)
    axes[-1].locator_params(axis="x", nbins=6)  # seconds may have many digits
    legend_below(figure)
    caption = (
        "How far the objective is above its minimum at most, relative to the objective at w = 0, "
        "by the bound on the minimum in the table above." if certified else
        "The objective (loss and penalties) on the training rows."
    ) + (" The mean loss on the rows held out, without penalty." if len(panels) > 1 else "") + (
        " Means over the classes." if several else ""
    )  # fmt: skip
    return Drawn(figure, caption, f"{panels[0][1]} of {len(runs)} runs over {clock}")
