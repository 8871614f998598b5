"""What `fit_image.py` prints and draws."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from tombola.report.figures import style

AVERAGED = 3  # consecutive looks: a single one may be high by chance
LOOKS_LIKE = {  # labels of the samplers, and whose colours they have
    "shuffled": ("shuffled", "shuffle"),
    "uniform": ("uniform", "uniform"),
    "vrb": ("VRB over pixels", "vrb"),
    "cells": ("VRB over cells", "static"),
    "both": ("GroupVRB: cells and pixels", "group-vrb"),
}
INK, FAINT, GRID = "#1c1e21", "#5c636b", "#e4e7ea"

Rows = list[dict[str, Any]]


class Shown(NamedTuple):
    """What is shown of a run: colours, errors and probabilities, by row and column."""

    colours: np.ndarray
    errors: np.ndarray
    chances: np.ndarray | None


# ---- figures in a table


def runs_of(rows: Rows, schedule: str, name: str) -> list[Rows]:
    """Return the rows of a sampler under a schedule, for each seed."""
    mine = [row for row in rows if row["schedule"] == schedule and row["sampler"] == name]
    seeds = sorted({row["seed"] for row in mine})
    return [[row for row in mine if row["seed"] == seed] for seed in seeds]


def levels(looks: Rows) -> np.ndarray:
    """Return the mean PSNR of the latest looks, for each look that has enough before it.

    It is minus infinity where a run has diverged.
    """
    psnr = np.array([row["psnr"] for row in looks])
    psnr = np.where(np.isfinite(psnr), psnr, -np.inf)
    return np.lib.stride_tricks.sliding_window_view(psnr, min(AVERAGED, len(psnr))).mean(1)


def arrival(looks: Rows, goal: float) -> tuple[float, float]:
    """Return steps and seconds until a PSNR."""
    reached = levels(looks)
    high = np.flatnonzero(reached >= goal)
    if not len(high):
        return np.inf, np.inf
    row = looks[high[0] + len(looks) - len(reached)]
    return row["step"], row["seconds"]


def arrivals(rows: Rows, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and seconds until shuffled's last PSNR at the constant rate, for each seed."""
    ours, theirs = (runs_of(rows, "constant", each) for each in (name, "shuffled"))
    reached = [arrival(looks, levels(base)[-1]) for looks, base in zip(ours, theirs, strict=True)]
    steps, seconds = np.array(reached, dtype=float).T
    return steps, seconds


def shown_as(values: Any, form: str) -> str:
    """Format the median with the smallest and the largest value."""
    texts = [
        form.format(value) if np.isfinite(value) else "never"
        for value in (np.median(values), np.min(values), np.max(values))
    ]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]"


def times_fewer(theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Return how many times less we need, by seed: 0 if we never arrive."""
    return np.divide(theirs, ours, out=np.zeros(len(ours)), where=np.isfinite(ours) & (ours > 0))


def print_summary(rows: Rows) -> None:
    """Print, for each sampler, PSNR after the last step, and steps and seconds to shuffled's."""
    base_steps, base_seconds = arrivals(rows, "shuffled")
    lines = []
    for name in LOOKS_LIKE:
        cycle, constant = (runs_of(rows, each, name) for each in ("one cycle", "constant"))
        steps, seconds = arrivals(rows, name)
        pace = [1e3 * looks[-1]["seconds"] / looks[-1]["step"] for looks in cycle + constant]
        lines.append([
            name,
            shown_as([looks[-1]["psnr"] for looks in cycle], "{:.2f}"),
            shown_as([levels(looks)[-1] for looks in constant], "{:.2f}"),
            shown_as(steps, "{:.0f}"),
            shown_as(times_fewer(base_steps, steps), "{:.2f}"),
            shown_as(seconds, "{:.2f}"),
            shown_as(times_fewer(base_seconds, seconds), "{:.2f}"),
            shown_as(pace, "{:.3f}"),
        ])  # fmt: skip
    header = ["sampler", "one cycle: dB", "constant: dB", "steps to shuffled's", "times fewer",
              "seconds to shuffled's", "times fewer", "ms a step"]  # fmt: skip
    seeds = len(runs_of(rows, "constant", "shuffled"))
    print(f"\nMedians of {seeds} seeds [smallest, largest]")
    widths = [max(len(line[k]) for line in [header, *lines]) for k in range(len(header))]
    for line in [header, *lines]:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


# ---- the picture


def draw_picture(rows: Rows, photograph: np.ndarray, shown: dict[str, Shown], file: Path) -> None:
    """Draw fits, errors and draws side by side, and PSNR against steps and seconds."""
    high, wide = photograph.shape[:2]
    panel = 4.3
    tall = min(panel * high / wide, 1.5 * panel)
    figure = Figure(
        figsize=(3 * panel + 0.8, 2 * tall + 4.4), layout="constrained", facecolor="white"
    )
    grid = GridSpec(3, 3, figure, height_ratios=[tall, tall, 3.0])
    draw_images(figure, grid, rows, photograph, shown)
    draw_curves(figure, grid, rows)
    figure.savefig(file, dpi=130)


def draw_images(
    figure: Figure, grid: GridSpec, rows: Rows, photograph: np.ndarray, shown: dict[str, Shown]
) -> None:
    """Draw the photograph and two fits; below, where pixels were drawn, and errors."""
    steps = max(row["step"] for row in rows)
    axes = [[figure.add_subplot(grid[i, j]) for j in range(3)] for i in range(2)]
    for axis in (*axes[0], *axes[1]):
        axis.set(xticks=[], yticks=[])
        for spine in axis.spines.values():
            spine.set_visible(False)
    axes[0][0].imshow(photograph)
    axes[0][0].set_title("The photograph", color=INK)
    most = float(np.quantile(shown["shuffled"].errors, 0.99))
    for name, upper, lower in zip(("shuffled", "vrb"), axes[0][1:], axes[1][1:], strict=True):
        psnr = runs_of(rows, "one cycle", name)[0][-1]["psnr"]
        label = LOOKS_LIKE[name][0]
        upper.imshow(shown[name].colours)
        upper.set_title(f"{label}, {steps:,} steps: {psnr:.2f} dB", color=INK)
        errors = lower.imshow(shown[name].errors, cmap="magma", vmin=0, vmax=most)
        lower.set_title(f"Error, {label}", color=INK)
    bar = figure.colorbar(errors, ax=axes[1][1:], shrink=0.9, pad=0.01, extend="max")
    bar.set_label("error of a pixel (white - black = 1)", color=INK, fontsize=9)
    chances = shown["vrb"].chances
    if chances is not None:
        often = axes[1][0].imshow(np.log2(chances * chances.size), cmap="viridis", vmin=-2, vmax=2)
        bar = figure.colorbar(often, ax=axes[1][0], shrink=0.9, pad=0.01, extend="both")
        bar.set_ticks([-2, -1, 0, 1, 2], labels=["1/4", "1/2", "1", "2", "4"])
    axes[1][0].set_title("How often VRB draws a pixel, uniform = 1", color=INK)


def draw_curves(figure: Figure, grid: GridSpec, rows: Rows) -> None:
    """Draw PSNR against steps under both schedules, and against seconds at the constant rate."""
    panels = [("one cycle", "step"), ("constant", "step"), ("constant", "seconds")]
    axes: list[Any] = []
    for k, (schedule, unit) in enumerate(panels):
        axis = figure.add_subplot(grid[2, k], sharey=axes[0] if axes else None)
        axes.append(axis)
        for name, (label, like) in LOOKS_LIKE.items():
            runs = runs_of(rows, schedule, name)
            at = np.median([[row[unit] for row in looks] for looks in runs], axis=0)
            psnr = np.array([[row["psnr"] for row in looks] for looks in runs])
            look = style(like)
            axis.plot(at, np.median(psnr, 0), label=label, linewidth=1.6, **look)
            axis.fill_between(
                at, psnr.min(0), psnr.max(0), color=look["color"], alpha=0.15, linewidth=0
            )
        axis.set(xlabel={"step": "steps", "seconds": "seconds of training"}[unit])
        axis.set_title("One cycle" if schedule == "one cycle" else "Constant rate", color=INK)
        axis.grid(color=GRID, linewidth=0.7)
        axis.spines[["top", "right"]].set_visible(False)
    finals = [runs[0][-1]["psnr"] for runs in [runs_of(rows, "one cycle", n) for n in LOOKS_LIKE]]
    first = np.median([row["psnr"] for row in rows if row["step"] > 0])
    axes[0].set_ylim(bottom=first - (max(finals) - first))
    axes[0].set_ylabel("PSNR, dB")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
