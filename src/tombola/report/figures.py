"""Figures in one style: a fixed colour for each method, and legends outside the axes.

matplotlib is imported when the first figure is made; pyplot is never used.
"""

import re
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["STYLES", "band", "legend_below", "new_figure", "style"]

INK, FAINT, GRID = "#1c1e21", "#5c636b", "#e4e7ea"
OTHER = ("#7a5195", "-.")

# Colours for colour-blind readers (Okabe, Ito 2008), and line styles for print.
STYLES: dict[str, tuple[str, str]] = {
    "vrb": ("#0072B2", "-"),
    "vrb-as-printed": ("#0072B2", "--"),
    "vrb-without-bounds": ("#0072B2", "-."),
    "vrb-with-bounds": ("#004C78", "--"),
    "group-vrb": ("#D55E00", "-"),
    "shuffle": ("#333333", "--"),
    "uniform": ("#8a8f94", "-"),
    "static": ("#009E73", "-"),
    "static-by-l,-half-uniform": ("#009E73", ":"),
    "cyclic": ("#A6761D", "-"),
    "balanced": ("#009E73", "--"),
    "default": ("#009E73", "-"),
    "aw": ("#CC79A7", "-"),
    "mabs": ("#E69F00", "-"),
    "mirror-descent": ("#56B4E9", "-"),
    "avare": ("#CC79A7", "--"),
    "srg": ("#E69F00", "--"),
    "safe": ("#56B4E9", "--"),
    "ftrl": ("#0072B2", ":"),
    "ideal": ("#000000", ":"),
}
ALIASES = {"groupvrb": "group-vrb", "adaptiveweighted": "aw", "adaptive-weighted": "aw",
           "mirrordescent": "mirror-descent"}  # fmt: skip


def style(label: str) -> dict[str, Any]:
    """Return the colour and line style of a method, found by the start of its label.

    Examples
    --------
    >>> style("GroupVRB")["color"] == style("group-vrb, tuned")["color"]
    True
    """
    name = re.sub(r"[\s_]+", "-", label.lower().strip())
    for other, known in ALIASES.items():
        if name.startswith(other):
            name = known + name[len(other) :]
    fits = [known for known in STYLES if re.match(rf"{known}\b", name)]
    colour, line = STYLES[max(fits, key=len)] if fits else OTHER
    return {"color": colour, "linestyle": line}


def new_figure(
    rows: int = 1, columns: int = 1, *, height: float = 2.8, share_x: bool = False
) -> tuple["Figure", list["Axes"]]:
    """Return a figure and its axes, row by row.

    Panels are 4.4 inches wide. A single one fits a phone, so prefer rows to columns.

    Parameters
    ----------
    rows, columns : int, default=1
    height : float, default=2.8
        The height of a panel, in inches.
    share_x : bool, default=False
        Whether the panels of a column share their x axis.

    Examples
    --------
    >>> figure, (upper, lower) = new_figure(2)
    >>> _ = upper.plot([0, 1], [1, 0], label="VRB", **style("VRB"))
    >>> legend_below(figure)
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4 * columns, height * rows), layout="constrained", facecolor="white")
    axes = figure.subplots(rows, columns, squeeze=False, sharex="col" if share_x else False)
    for ax in axes.flat:
        ax.set_facecolor("white")
        ax.grid(color=GRID, linewidth=0.7)
        ax.set_axisbelow(True)
        ax.tick_params(which="both", colors=FAINT, labelcolor=INK, labelsize=9, length=3)
        for side, spine in ax.spines.items():
            spine.set_color(FAINT)
            spine.set_visible(side in ("left", "bottom"))
    return figure, list(axes.flat)


def band(
    ax: "Axes", x: ArrayLike, mean: ArrayLike, low: ArrayLike, high: ArrayLike, label: str
) -> None:
    """Draw the curve of a method with its interval."""
    look = style(label)
    ax.fill_between(x, low, high, color=look["color"], alpha=0.18, linewidth=0)
    ax.plot(x, mean, label=label, linewidth=1.7, **look)


def legend_below(figure: "Figure") -> None:
    """Put one legend below all panels, in as many columns as fit."""
    entries: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    room = figure.get_size_inches()[0] * figure.dpi
    for columns in range(min(len(entries), 6), 0, -1):
        legend = figure.legend(
            list(entries.values()),
            list(entries),
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=9,
            handlelength=2.2,
            columnspacing=1.4,
        )
        if legend.get_window_extent().width <= room or columns == 1:
            return
        legend.remove()
