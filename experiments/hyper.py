"""Figure 4: the effect of the parameters of Algorithm 1, over ten orders of magnitude.

One-vs-all logistic regression on VOC 2007 as in `experiments.voc` (EfficientNet-Lite2
features with mean norm 1, AdaGrad at rate 0.1, 15,000 draws), with VRB as printed on a grid of
bounds and mixings, and with samplers without parameters for comparison. No loss exceeds 2.5 here,
so a bound of 10^8, the paper's best one, is far too large, and one of 10^-2 violates the theory.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tombola
from experiments.one_vs_all import MARKS, RATE, Make, race, tasks
from experiments.sweep import Setting
from tombola.ledger import mean_estimate
from tombola.report import figures
from tombola.report.exhibit import Exhibit
from tombola.report.rows import Row, band, collect, column, select, shown

__all__ = ["DATA", "SETTINGS", "TITLE", "play", "show", "stages"]

TITLE = "The parameters of Algorithm 1, mis-specified (Figure 4)"
BOUNDS = tuple(10.0**k for k in range(-2, 9, 2))
MIXINGS = (0.05, 0.1, 0.2, 0.4, 0.8)
PRINTED = "VRB as printed"
FREE = ("VRB", "GroupVRB", "uniform")
EARLY = 1000  # draws

SETTINGS = {"rate": RATE, "draws": MARKS[-1], "bounds": BOUNDS, "mixings": MIXINGS,
            "beside": list(FREE)}  # fmt: skip
DATA = {"efficientnet": "voc-efficientnet"}


def stages(runs: int) -> list[list[Setting]]:
    """Return one run for each repetition."""
    return [[{"run": run} for run in range(runs)]]


def _printed(bound: float, mixing: float) -> Make:
    return lambda task, seed: tombola.VRB(len(task.y), bound=bound, mixing=mixing, seed=seed)


def play(setting: Setting, data: Path | None, earlier: Sequence[Row]) -> Iterator[Row]:
    """Do one run: the grid, then the samplers without parameters."""
    contenders: dict[str, tuple[Make, float]] = {
        f"{bound!r}|{mixing!r}": (_printed(bound, mixing), RATE)
        for bound in BOUNDS
        for mixing in MIXINGS
    }
    contenders["VRB"] = (lambda task, seed: tombola.VRB(len(task.y), seed=seed), RATE)
    contenders["GroupVRB"] = (lambda task, seed: tombola.GroupVRB(task.y, seed=seed), RATE)
    contenders["uniform"] = (lambda task, seed: tombola.Uniform(len(task.y), seed=seed), RATE)
    chosen = tasks("efficientnet", True, False, data)
    for row in race(chosen, contenders, int(setting["run"])):
        bound, _, mixing = row.pop("method").partition("|")
        if mixing:
            own = {"method": PRINTED, "bound": float(bound), "mixing": float(mixing)}
        else:
            own = {"method": bound, "bound": "", "mixing": ""}
        yield {**own, **row}


# --- results ------------------------------------------------------------------------------------


def show(rows: list[Row]) -> Exhibit:
    """Show the grid and three of its curves; compare its best cell with no parameters."""
    runs = len({row["run"] for row in rows})
    exhibit = Exhibit(
        TITLE,
        f"Mean average precision (eleven points, 20 classes) after {MARKS[-1]:,} draws, {runs} "
        "runs. The grid is Algorithm 1 as printed; the parameter-free samplers are not tuned.",
    )
    last = select(rows, draws=MARKS[-1])
    printed = select(last, method=PRINTED)
    grid = {(b, m): select(printed, bound=b, mixing=m) for b in BOUNDS for m in MIXINGS}
    score = {cell: np.mean(column(own, "eleven")) for cell, own in grid.items()}
    down = {cell: np.mean(column(own, "objective")) for cell, own in grid.items()}
    free = {name: select(last, method=name) for name in FREE}
    caption = (
        "Final mean average precision, for each cell of the grid; below, the samplers without "
        "parameters."
    )
    exhibit.figure(_heat(score, free), caption)
    best = max(score, key=lambda cell: score[cell])
    lowest = min(down, key=lambda cell: down[cell])
    exhibit.figure(
        _curves(rows, best), "The best cell, the paper's two, and the samplers without parameters."
    )
    lines = []
    for label, own in [
        *((f"{PRINTED}, L = {b:g}, theta = {m:g}", grid[b, m]) for b, m in
          dict.fromkeys([best, lowest, (1.0, 0.4), (1e8, 0.1)])),
        *free.items(),
    ]:  # fmt: skip
        precision = mean_estimate(column(own, "eleven"))
        same = {key: own[0][key] for key in ("method", "bound", "mixing") if key in own[0]}
        early = column(rows, "eleven", draws=EARLY, **same)
        objective = np.mean(column(own, "objective"))
        lines.append(
            [label, shown(precision, digits=4), f"{np.mean(early):.4f}", f"{objective:.5f}"]
        )
    exhibit.table(
        "Final values, and after 1,000 draws",
        ["sampler", "final precision", "after 1,000 draws", "training objective"],
        lines,
    )
    plain = float(np.mean(column(free["uniform"], "eleven")))
    for name in ("VRB", "GroupVRB"):
        mine, reached = (float(np.mean(column(free[name], y))) for y in ("eleven", "objective"))
        exhibit.finding(
            f"Our goal: {name}, without parameters, is within 5% of the grid's best cell.",
            mine >= 0.95 * score[best] and reached <= 1.05 * down[lowest],
            f"Precision {mine:.4f} against {score[best]:.4f} (L = {best[0]:g}, theta = "
            f"{best[1]:g}; uniform draws reach {plain:.4f}, so this says little); training "
            f"objective {reached:.5f} against {down[lowest]:.5f} (L = {lowest[0]:g}, theta = "
            f"{lowest[1]:g}), {reached / down[lowest] - 1:+.1%}.",
        )
    spreads = {when: _spread(rows, when) for when in (EARLY, MARKS[-1])}
    gain = score[best] - plain
    exhibit.finding(
        "The paper's claim: a wrong bound hurts the early stage only.",
        None if gain < 0.01 else spreads[MARKS[-1]] < 0.2 * spreads[EARLY],
        f"At the same mixing, precisions with different bounds differ by up to "
        f"{spreads[EARLY]:.4f} after {EARLY:,} draws and {spreads[MARKS[-1]]:.4f} at the end. "
        f"The best cell is {gain:.4f} above uniform draws at the end; with a gain below 0.01, "
        "a wrong bound has nothing to hurt.",
    )
    return exhibit


def _spread(rows: list[Row], draws: int) -> float:
    """Return the largest difference between bounds at a mark, at the same mixing."""
    at_mark = select(rows, draws=draws, method=PRINTED)
    table = [
        [np.mean(column(at_mark, "eleven", bound=b, mixing=m)) for b in BOUNDS] for m in MIXINGS
    ]
    return float(np.ptp(table, axis=1).max())


def _heat(score: dict[tuple[float, float], Any], free: dict[str, list[Row]]) -> Any:
    figure, (axis, beside) = figures.new_figure(2, 1, height=2.6)
    table = np.array([[score[b, m] for b in BOUNDS] for m in MIXINGS])
    axis.grid(False)
    axis.imshow(table, aspect="auto", cmap="Blues", origin="lower")
    middle = (table.min() + table.max()) / 2
    for i, line in enumerate(table):
        for j, value in enumerate(line):
            colour = "white" if value > middle else "black"
            axis.text(j, i, f"{value:.3f}", ha="center", va="center", color=colour, fontsize=8)
    axis.set_xticks(range(len(BOUNDS)), [f"$10^{{{np.log10(b):.0f}}}$" for b in BOUNDS])
    axis.set_yticks(range(len(MIXINGS)), [f"{m:g}" for m in MIXINGS])
    axis.set(xlabel="bound L", ylabel="mixing theta")
    names = ["best cell", "worst cell", *free]
    values = [max(score.values()), min(score.values()),
              *(np.mean(column(own, "eleven")) for own in free.values())]  # fmt: skip
    colours = ["#0072B2", "#a9c9dd", *(figures.style(name)["color"] for name in free)]
    beside.barh(names[::-1], values[::-1], color=colours[::-1])
    for k, value in enumerate(values[::-1]):
        beside.text(value, k, f" {value:.3f}", va="center", fontsize=8)
    beside.set(xlabel="mean average precision at the end", xlim=(0, 1.12 * max(values)))
    return figure


def _curves(rows: list[Row], best: tuple[float, float]) -> Any:
    figure, (axis,) = figures.new_figure(1, 1, height=3.4)
    cells = {
        "best cell": best,
        "L = 1, theta = 0.4": (1.0, 0.4),
        "L = 1e8, theta = 0.1": (1e8, 0.1),
    }
    colours = iter(["#56B4E9", "#CC79A7", "#E69F00"])
    for label, (bound, mixing) in cells.items():
        own = select(rows, method=PRINTED, bound=bound, mixing=mixing)
        marks, curves = collect(own, "draws", "eleven", ["run"])
        axis.plot(marks, band(curves)[0], color=next(colours), label=label, linewidth=1.5)
    for name in FREE:
        marks, curves = collect(select(rows, method=name), "draws", "eleven", ["run"])
        figures.band(axis, marks, *band(curves), name)
    axis.set(xscale="log", xlabel="draws", ylabel="mean average precision")
    figures.legend_below(figure)
    return figure
