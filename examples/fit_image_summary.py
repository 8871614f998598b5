"""What `fit_image.py` prints and draws."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from tombola.report.figures import style

AVERAGED = 3  # consecutive looks: a single one may be high by chance
LABELS = {
    "shuffled": "Shuffled",
    "uniform": "Uniform",
    "vrb": "VRB over pixels",
    "cells": "VRB over cells",
    "both": "GroupVRB: cells, pixels",
}
COLOURS = {
    "shuffled": "shuffle", "uniform": "uniform", "vrb": "vrb", "cells": "static",
    "both": "group-vrb",
}  # fmt: skip
INK, GRID = "#1c1e21", "#e4e7ea"
TITLE: dict[str, Any] = {"color": INK, "fontsize": 10.5}

Rows = list[dict[str, Any]]


class Shown(NamedTuple):
    """What is shown of a run: colours, errors and probabilities by row and column; its gauge."""

    colours: np.ndarray
    errors: np.ndarray
    chances: np.ndarray | None
    gauge: Any


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
    """Return how many times less we need, by seed; minus infinity if we never arrive."""
    arrived = np.isfinite(ours) & (ours > 0)
    return np.divide(theirs, ours, out=np.full(len(ours), -np.inf), where=arrived)


def print_summary(rows: Rows) -> None:
    """Print, for each sampler, PSNR after the last step, and steps and seconds to shuffled's."""
    base_steps, base_seconds = arrivals(rows, "shuffled")
    lines = []
    for name in LABELS:
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
    width = 3.6
    height = min(width * high / wide, 1.5 * width)
    size = (4 * width + 0.6, 2 * height + 4.8)
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
    upper, lower = figure.subfigures(2, 1, height_ratios=[2 * height + 0.9, 3.9])
    draw_images(upper, rows, photograph, shown)
    draw_curves(lower, rows)
    figure.savefig(file, dpi=130)


def draw_images(figure: Any, rows: Rows, photograph: np.ndarray, shown: dict[str, Shown]) -> None:
    """Draw the photograph and fits; below, how often pixels are drawn, and errors."""
    steps = max(row["step"] for row in rows)
    axes = figure.subplots(2, 4)
    for axis in axes.flat:
        axis.axis("off")
    axes[0, 0].imshow(photograph)
    axes[0, 0].set_title("The photograph", **TITLE)
    most = float(np.quantile(shown["shuffled"].errors, 0.99))
    for k, name in enumerate(("shuffled", "vrb", "both"), start=1):
        psnr = runs_of(rows, "one cycle", name)[0][-1]["psnr"]
        axes[0, k].imshow(shown[name].colours)
        axes[0, k].set_title(f"{LABELS[name]}: {psnr:.2f} dB", **TITLE)
        errors = axes[1, k].imshow(shown[name].errors, cmap="magma", vmin=0, vmax=most)
        axes[1, k].set_title("Its error", **TITLE)
    bar = figure.colorbar(errors, ax=axes[1, 1:], pad=0.01, aspect=16, extend="max")
    bar.ax.tick_params(labelsize=8)
    chances = shown["both"].chances
    often = axes[1, 0].imshow(np.log2(chances * chances.size), cmap="viridis", vmin=-2, vmax=2)
    axes[1, 0].set_title("How often GroupVRB draws, uniform: 1", **TITLE)
    bar = figure.colorbar(often, ax=axes[1, 0], pad=0.02, aspect=16, extend="both")
    bar.set_ticks([-2, -1, 0, 1, 2], labels=["1/4", "1/2", "1", "2", "4"], fontsize=8)
    figure.suptitle(
        f"A neural field after {steps:,} steps (one cycle, the same seed; errors on one scale, "
        "white \N{MINUS SIGN} black = 1)", fontsize=12, color=INK,
    )  # fmt: skip


def draw_curves(figure: Any, rows: Rows) -> None:
    """Draw PSNR against steps under both schedules, and against seconds at the constant rate."""
    panels = {
        ("one cycle", "step"): "One cycle",
        ("constant", "step"): "Constant rate",
        ("constant", "seconds"): "Constant rate, by time",
    }
    axes = figure.subplots(1, 3, sharey=True)
    for axis, ((schedule, unit), title) in zip(axes, panels.items(), strict=True):
        for name, label in LABELS.items():
            runs = runs_of(rows, schedule, name)
            at = np.median([[row[unit] for row in looks] for looks in runs], axis=0)
            psnr = np.array([[row["psnr"] for row in looks] for looks in runs])
            look = style(COLOURS[name])
            axis.plot(at, np.median(psnr, 0), label=label, linewidth=1.6, **look)
            axis.fill_between(
                at, psnr.min(0), psnr.max(0), color=look["color"], alpha=0.13, linewidth=0
            )
        axis.set_title(title, **TITLE)
        axis.set(xlabel={"step": "steps", "seconds": "seconds of training"}[unit])
        axis.set_xlim(left=0)
        axis.grid(color=GRID, linewidth=0.7)
        axis.spines[["top", "right"]].set_visible(False)
    seen = [row["psnr"] for row in rows if np.isfinite(row["psnr"])]
    axes[0].set_ylim(np.quantile(seen, 0.15), max(seen) + 0.3)  # not the first steps
    axes[0].set_ylabel("PSNR, dB (bands: all seeds)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
